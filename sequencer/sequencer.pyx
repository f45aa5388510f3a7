"""The native half of the consensus module. See sequencer.pxd, and docs/ARCHITECTURE.md for the flow."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from cpython.bytes cimport PyBytes_FromStringAndSize

from ordo.archive.segments.reader cimport RecordingReader
from ordo.sequencer.arrivals cimport Head, put_arrival
from ordo.sequencer.commit_slots cimport CommitSlots
from ordo.sequencer.hosts cimport ConsensusHost, IngressHost, LogHost, ServiceHost, SessionHost
from ordo.sequencer.quotas cimport UNASKED, Quotas
from ordo.sequencer.session_table cimport MUTE, UNCLAIMED, SessionTable
from ordo.sequencer.sources cimport UNPROVEN, Allowance, ConsensusSource, IngressSource, Sources, takes_interpreter
from ordo.cluster.wire.commit_hint cimport commit_hint, hinted_commit
from ordo.cluster.wire.layout cimport (
    APPEND_POSITION_BLOCK, APPEND_POSITION_FLAGS, APPEND_POSITION_ID, APPEND_POSITION_LEADERSHIP_TERM_ID,
    APPEND_POSITION_LENGTH, APPEND_POSITION_LOG_POSITION, APPEND_POSITION_MEMBER_ID, APP_DIFFERENCE_ID, APP_REPORT_ID,
    COMMIT_POSITION_BLOCK, COMMIT_POSITION_ID, COMMIT_POSITION_LEADERSHIP_TERM_ID, COMMIT_POSITION_LENGTH,
    COMMIT_POSITION_LOG_POSITION, COMMIT_POSITION_MEMBER_ID, CONSUMER_COMMAND_ID, LONG_APP_REPORT_BLOCK,
    MESSAGE_MARK_ID, MESSAGE_MARK_NUMBER, OPEN_IDENTITY_ID, OUTPUT_BLOCK, OUTPUT_BY_ID_BLOCK, OUTPUT_TARGET,
    REQUEST_ID, REQUEST_NUMBER, REQUEST_OPEN_POSITION, SESSION_HEADER_LEADERSHIP_TERM_ID, SESSION_HEADER_LENGTH,
    SESSION_HEADER_SESSION_ID, SESSION_HEADER_TIMESTAMP, SESSION_MESSAGE_HEADER_BLOCK, SESSION_MESSAGE_HEADER_ID,
    is_for_container, is_logged_request, is_of_operator, is_of_queries, ordo_template_id, put_sbe_header, put_stamp,
    request_digest_offset, template_id)
from ordo.cluster.wire.counters.traces cimport FollowerTraces, LogTraces
from ordo.cluster.wire.levels import APPLICATION_LEVEL, ARRIVAL_LEVEL, OUTPUT_ID_LEVEL, REQUEST_ID_LEVEL
from ordo.consensus.state.progress cimport Progress
from ordo.runtime.native.atomics cimport (ordo_fence_full, ordo_get_i32, ordo_get_i64, ordo_get_u16,
                                          ordo_load_acquire_i64, ordo_put_i32, ordo_put_i64)
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.native.sentinels cimport NEVER, NULL_POSITION
from ordo.runtime.agents.wake cimport ParkFlag
from ordo.transport.streams.image cimport Assembler, Fragment, Image
from ordo.transport.streams.logbuffer cimport ADMIN_ACTION, HEADER_LENGTH, RESERVED_VALUE_OFFSET, align_frame
from ordo.transport.streams.publication cimport ExclusivePublication

cdef enum:
    STAND_BY = 0
    LEADING = 1
    FOLLOWING = 2
    CONSENSUS_FRAGMENT_LIMIT = 64
    SERVICE_FRAGMENT_LIMIT = 25
    SCAN_LIMIT = 4096                     # records a duty cycle
    STRANGERS_RATE = 1000                 # messages of strangers a second that take the interpreter
    STRANGERS_BURST = 256
    CREDIT_BYTES = 16384                  # so long a message counts as one more in its source's share of a round
    STRANGER_LIMIT = 2                    # of these, of one stream in one turn: each stream has its share
    RARE_FLAGS = 0x07                     # of an AppendPosition: live, catch-up, no room
    NO_ROOM_FLAG = 0x04                   # FLAG_NO_ROOM
    READERS_FLAG = 0x08                   # FLAG_READERS
    COMMIT_DELAY_NS_MAX = 500000          # so long a commit position waits for a record that takes it along

FLAG_NO_ROOM = 4
"""In the flags of an AppendPosition: the member's disk is short of room. Aeron knows 1 (catch-up)."""
FLAG_READERS = 8
"""In the flags of an AppendPosition: somebody follows the log at this member."""

cdef int64_t NO_RECORD = 0x7FFFFFFFFFFFFFFFLL


cdef class Sequencer:
    def __cinit__(self, Progress progress, int32_t member_id, Counter commit_counter, ParkFlag container_flag,
                  int64_t heartbeat_interval_ns, int32_t ingress_limit=256):
        self._log_host = LogHost()
        self._ingress_host = IngressHost()
        self._session_host = SessionHost()
        self._consensus_host = ConsensusHost()
        self._service_host = ServiceHost()
        self.progress = progress
        self.sessions = SessionTable()
        self._member_id = member_id
        self._commit_counter = commit_counter
        self._container_flags = [container_flag]
        self._heartbeat_interval_ns = heartbeat_interval_ns
        self._ingress_limit = ingress_limit
        self._ingress = Sources()
        self.quotas = Quotas()
        self._consensus = Sources()
        self._ingress_allowance = Allowance(STRANGERS_RATE, STRANGERS_BURST)
        self._consensus_allowance = Allowance(STRANGERS_RATE, STRANGERS_BURST)
        self._service = []
        self._member_publications = {}
        self._told_members = set()
        self._mode = STAND_BY
        self._leader_id = -1
        self._next_record_position = NO_RECORD

    # -- wiring ------------------------------------------------------------------------------------------------------

    def attach(self, LogHost log not None, IngressHost ingress not None, SessionHost sessions not None,
               ConsensusHost consensus not None, ServiceHost services not None):
        """Hand what is rare to these from now on."""
        self._log_host = log
        self._ingress_host = ingress
        self._session_host = sessions
        self._consensus_host = consensus
        self._service_host = services

    def trace(self, LogTraces traces not None, FollowerTraces follower_traces not None):
        """Trace sampled requests, as a leader and as a follower."""
        self.traces = traces
        self.follower_traces = follower_traces

    def note_commits(self, CommitSlots committed not None):
        """Note each advance of the commit position there, before anybody is told of it."""
        self._committed = committed

    def bound_ingress(self, Quotas quotas not None):
        """Take no more of clients than these say."""
        self.quotas = quotas

    # -- what is taken, and what is told of this member -------------------------------------------------------------

    def open_ingress(self, bint is_open):
        """Take messages of clients, or leave them in their ingress."""
        self.takes_ingress = is_open

    def answer_backups(self):
        """Hand on what is no message, though no leader is known: backups and other standbys ask a standby."""
        self.answers_backups = True

    def hold_for_room(self, bint is_held):
        """Leave clients' messages in their ingress while the disk has no room for them."""
        self.holds_for_room = is_held

    def set_steady(self, bint is_steady):
        """Note that the member's role has changed; while no election is running, positions go past Python."""
        self.is_steady = is_steady
        self.wants_tick = True

    cpdef void request_tick(self) noexcept:
        """Have the slow tick run soon: it goes on with what has come."""
        self.wants_tick = True

    cdef void take_tick_request(self) noexcept:
        """The slow tick runs now."""
        self.wants_tick = False

    def set_next_record(self, int64_t position):
        """Call `on_commit` once this position is committed: there ends the next record that Python executes."""
        self._next_record_position = position

    def set_level(self, int64_t level):
        """Take the protocol level of the log's end: it says which messages may be appended."""
        self._takes_differences = level >= APPLICATION_LEVEL
        self._takes_request_ids = level >= REQUEST_ID_LEVEL
        self._takes_output_ids = level >= OUTPUT_ID_LEVEL
        self._takes_arrivals = level >= ARRIVAL_LEVEL

    def set_append_flags(self, uint8_t flags):
        """Set how this follower's AppendPositions say that it is catching up; 0: it follows the live log."""
        self._append_flags = flags

    def mark_no_room(self, bint is_short):
        """Tell the leader with each AppendPosition whether this member's disk is short of room."""
        self._room_flags = NO_ROOM_FLAG if is_short else 0

    def mark_readers(self, bint has_readers):
        """Tell the leader with each AppendPosition whether somebody follows the log at this member."""
        self._reader_flags = READERS_FLAG if has_readers else 0

    @property
    def has_readers(self):
        """Whether somebody follows the log at this member."""
        return self._reader_flags != 0

    # -- streams -----------------------------------------------------------------------------------------------------

    def add_ingress_image(self, Image image, bint is_timed=False):
        """`is_timed`: the driver writes when frames arrived into their reserved values, over what their sender wrote."""
        self._ingress.add(IngressSource(image, is_timed))

    def remove_ingress_image(self, Image image):
        self._ingress.remove(image)

    def prove_ingress(self, Image image not None):
        """Messages on this image are a client's, whose session is open: from now on it is no stranger's."""
        cdef IngressSource source = self._polled
        if source is None or source.image is not image:
            source = <IngressSource> self._ingress.stranger_of(image)
        if source is not None:
            source.is_proven = True

    def set_lane(self, Image image not None, int weight, bint is_first):
        """A session's client speaks through the image that is being polled: it has the best lane of its sessions."""
        if self._polled is not None and self._polled.image is image:
            self._ingress.set_lane(self._polled, max(self._polled.weight, weight), self._polled.is_first or is_first)

    def add_consensus_image(self, Image image):
        self._consensus.add(ConsensusSource(image))

    def remove_consensus_image(self, Image image):
        self._consensus.remove(image)

    def add_container_flag(self, ParkFlag flag not None):
        """Of the container of one more service."""
        self._container_flags.append(flag)

    def hold_service(self, int32_t service_id):
        """What this service asks for waits in its stream until `release_service`."""
        self.held_services |= 1 << service_id

    def release_service(self, int32_t service_id):
        self.held_services &= ~(1 << service_id)

    def add_service_image(self, Image image, int32_t service_id=0):
        self._service.append((image, Assembler(), service_id))

    def remove_service_image(self, Image image):
        self._service = [pair for pair in self._service if pair[0] is not image]

    def set_member_publication(self, int32_t member_id, ExclusivePublication publication):
        self._member_publications[member_id] = publication

    def open_log(self, RecordingReader reader, int64_t append_position, int64_t commit_position):
        """At start: `reader` stands after the last record already executed; the log ends at `append_position`."""
        self._reader = reader
        self._stopped_position = append_position
        self.commit_position = commit_position
        if reader is None:
            self.append_position = append_position      # after a snapshot, with no log yet

    def attach_recording(self, Recording recording not None):
        """The log grows again: its durable position is the recording's counter."""
        self._recording = recording
        self._durable_address = recording.counter.address

    def detach_recording(self, int64_t stop_position):
        """The recording has stopped at `stop_position` (all of it durable)."""
        self._recording = None
        self._durable_address = NULL
        self._stopped_position = stop_position

    def truncated(self, int64_t position):
        """The log now ends at `position`, which the commit position has not passed."""
        assert self._durable_address == NULL, "truncate while recording"
        assert position >= self.commit_position, f"truncate below commit: {position=} {self.commit_position=}"
        self._stopped_position = position
        if self._reader is not None:
            # Also when it stands before: it may hold the first fragments of a message that was cut in two.
            self._reader.seek(min(self._reader.position, position))
        self.append_position = min(self.append_position, position)

    def lead(self, int64_t leadership_term_id, ExclusivePublication log):
        self._mode = LEADING
        self._told_members.clear()
        self._leadership_term_id = leadership_term_id
        self._leader_id = self._member_id
        self._log = log

    def follow(self, int64_t leadership_term_id, int32_t leader_id):
        self._mode = FOLLOWING
        self._leadership_term_id = leadership_term_id
        self._leader_id = leader_id
        self._log = None

    def stand_by(self):
        self._mode = STAND_BY
        self._log = None
        self.takes_ingress = False
        self.is_steady = False
        self._unsent_since_ns = 0
        self._append_flags = 0

    def set_reader(self, RecordingReader reader):
        """The log has got its recording."""
        self._reader = reader

    def scan_to_end(self):
        """Reads a resting log to its end."""
        assert self._durable_address == NULL, "scan_to_end while recording"
        while self.append_position < self._stopped_position:
            self._scan(self._stopped_position)

    @property
    def position_flags(self):
        """What goes into an AppendPosition of this member."""
        return self._append_flags | self._room_flags | self._reader_flags

    @property
    def leading_term_id(self):
        """The term whose log this member publishes, or -1."""
        return self.leading_term()

    cdef int64_t leading_term(self) noexcept nogil:
        return self._leadership_term_id if self._mode == LEADING else NULL_POSITION

    @property
    def notified_position(self):
        return self.progress.notified_position

    def position_after(self, int64_t length_bytes):
        """Where the log publication will stand after one unfragmented record of this length.

        A record that does not fit the rest of its term begins in the next one.
        """
        cdef int64_t position = self._log.position_now()
        cdef int64_t term_length = self._log.log.term_length
        cdef int64_t aligned = align_frame(<int32_t> length_bytes + HEADER_LENGTH)
        cdef int64_t rest = term_length - (position & (term_length - 1))
        return position + aligned if aligned <= rest else position + rest + aligned

    @property
    def log_end_position(self):
        """Leader: end of what was appended, durable or not; the append position of any other member."""
        return self.append_position if self._log is None else self._log.position_now()

    def append(self, const uint8_t[::1] record):
        """Appends one record to the log: a position, or a negative result code."""
        cdef const uint8_t* data = &record[0]
        cdef int64_t position = self._log.append(data, record.shape[0], NULL, 0)
        if position == ADMIN_ACTION:
            position = self._log.append(data, record.shape[0], NULL, 0)
        return position

    # -- once a duty cycle ---------------------------------------------------------------------------------------

    cdef int poll_consensus(self, int64_t now_ns) except -1:
        cdef int i, work = 0
        cdef ConsensusSource source
        for source in self._consensus.proven:
            work += self._poll_member(source, now_ns)
        for i in range(self._consensus.stranger_count(now_ns)):
            source = self._consensus.next_stranger()
            if source is None:
                break
            work += self._poll_member(source, now_ns)
            if source.member_id != UNPROVEN:
                self._consensus.promote(source)
        return work

    cdef int _poll_member(self, ConsensusSource source, int64_t now_ns) except -1:
        cdef Fragment fragment
        cdef Image image = source.image
        cdef int count = 0
        while count < CONSENSUS_FRAGMENT_LIMIT and image.peek(&fragment):
            if source.member_id == UNPROVEN and (
                    count == STRANGER_LIMIT or not self._consensus_allowance.take(now_ns)):
                break
            image.consume(&fragment)
            count += 1
            if not self._take_positions(&fragment, source, now_ns):
                message = PyBytes_FromStringAndSize(<const char*> fragment.payload, fragment.length_bytes)
                self._consensus_host.on_consensus(source, message, now_ns)
                self.wants_tick |= not self.is_steady
        if count:
            image.publish_position()
        return count

    cdef bint _take_positions(self, const Fragment* fragment, ConsensusSource source, int64_t now_ns) noexcept nogil:
        """The two messages of the steady state from the member that they name; anything out of the ordinary is left to
        the Python half."""
        cdef int32_t member_id = source.member_id
        cdef const uint8_t* data = fragment.payload
        cdef int template = template_id(data, fragment.length_bytes)
        if not self.is_steady:
            return False
        if template == APPEND_POSITION_ID and self._mode == LEADING:
            if fragment.length_bytes < APPEND_POSITION_LENGTH or data[APPEND_POSITION_FLAGS] & RARE_FLAGS:
                return False
            if ordo_get_i64(data + APPEND_POSITION_LEADERSHIP_TERM_ID) != self._leadership_term_id \
                    or ordo_get_i32(data + APPEND_POSITION_MEMBER_ID) != member_id:
                return False
            if data[APPEND_POSITION_FLAGS] & READERS_FLAG:
                source.readers_heard_ns = now_ns
            self.progress.on_append_position(
                ordo_get_i32(data + APPEND_POSITION_MEMBER_ID), self._leadership_term_id,
                ordo_get_i64(data + APPEND_POSITION_LOG_POSITION), now_ns)
            return True
        if template == COMMIT_POSITION_ID and self._mode == FOLLOWING:
            if ordo_get_i64(data + COMMIT_POSITION_LEADERSHIP_TERM_ID) != self._leadership_term_id \
                    or ordo_get_i32(data + COMMIT_POSITION_MEMBER_ID) != self._leader_id \
                    or member_id != self._leader_id:
                return False
            self.progress.on_commit_notified(
                self._leadership_term_id, ordo_get_i64(data + COMMIT_POSITION_LOG_POSITION), self._leader_id, now_ns)
            return True
        return False

    cpdef int poll_ingress(self, int64_t now_ns, int64_t cluster_time) except -1:
        cdef list clients = self._ingress.proven
        cdef Py_ssize_t count = len(clients), number, cut = -1
        cdef int i, work = 0
        cdef IngressSource source
        self.quotas.begin_turn(now_ns)
        for number in range(count):
            source = <IngressSource> clients[self._ingress.place(number, count)]
            if source.has_message():                  # as few of many have at any time
                work += self._poll_ingress_source(source, now_ns, cluster_time)
            if self.quotas.is_full and cut < 0:
                cut = number
        # Where nothing was taken it is still the same one's turn: of those who wait for one quota each gets it in turn.
        if work or cut >= 0:
            self._ingress.end_turn(cut)
        for i in range(self._ingress.stranger_count(now_ns)):
            source = self._ingress.next_stranger()
            if source is None:
                break
            work += self._poll_ingress_source(source, now_ns, cluster_time)
            if source.is_proven:
                self._ingress.promote(source)
        return work

    cdef int _poll_ingress_source(self, IngressSource source, int64_t now_ns, int64_t cluster_time) except -1:
        cdef Fragment fragment
        cdef Image image = source.image
        cdef int count = 0, rare = 0
        cdef bint is_rare
        cdef int64_t before = image.position, spent = 0
        if source.held_until_ns > now_ns:
            self.quotas.note_due(source.held_until_ns)
            return 0
        if source.credit <= 0:
            source.credit = self._ingress_limit * source.weight
        self._polled = source
        while spent < source.credit and source.assembler.peek(image, &fragment):
            is_rare = not source.is_proven and takes_interpreter(fragment.payload, fragment.length_bytes)
            if is_rare and (rare == STRANGER_LIMIT or not self._ingress_allowance.take(now_ns)):
                break
            if not self._take(image, &fragment, cluster_time):
                if is_rare:
                    self._ingress_allowance.give_back()
                break
            source.assembler.consume(image, &fragment)
            count += 1
            spent += 1 + fragment.length_bytes // CREDIT_BYTES
            rare += is_rare
        self._polled = None
        source.credit = source.credit - spent if self.quotas.is_full else 0
        if image.position != before:
            image.publish_position()
        return count

    cdef int _take(self, Image image, const Fragment* fragment, int64_t cluster_time) except -1:
        """1: done with this message; 0: it stays in ingress, the log has no room for it or none is taken now.

        Queries and what operators ask are taken at any time, as far as nothing else is before them.
        """
        cdef const uint8_t* data = fragment.payload
        cdef int template = template_id(data, fragment.length_bytes)
        # A stranger is looked at after all others, when there is no room any more: it proves itself by what has to wait.
        cdef bint holds_messages = self.holds_for_room or (
            self.quotas.is_full and self._polled.is_proven and not self._polled.is_first)
        if template == SESSION_MESSAGE_HEADER_ID:
            if not self.takes_ingress or holds_messages:
                return 0
            put_sbe_header(self._header, SESSION_MESSAGE_HEADER_BLOCK, SESSION_MESSAGE_HEADER_ID)
            return self._sequence(image, fragment, cluster_time)
        if is_for_container(data, fragment.length_bytes):
            if not self.takes_ingress or (holds_messages
                                          and ordo_template_id(data, fragment.length_bytes) == REQUEST_ID):
                return 0
            ordo_put_i64(self._header, ordo_get_i64(data))
            return self._sequence_own(image, fragment, cluster_time)
        if is_of_queries(data, fragment.length_bytes):
            self._ingress_host.on_query(image, PyBytes_FromStringAndSize(<const char*> data, fragment.length_bytes))
            return 1
        if is_of_operator(data, fragment.length_bytes):
            self._ingress_host.on_operator(image, PyBytes_FromStringAndSize(<const char*> data, fragment.length_bytes))
            return 1
        if not self.takes_ingress and not self.answers_backups:
            return 0
        if template < 0:
            self._ingress_host.on_invalid_request(f"ingress: {fragment.length_bytes} bytes that are no cluster message")
            return 1
        return self._ingress_host.on_ingress(
            image, PyBytes_FromStringAndSize(<const char*> data, fragment.length_bytes), cluster_time)

    cdef int _sequence_own(self, Image image, const Fragment* fragment, int64_t cluster_time) except -1:
        """A message of Ordo's own for the container. Of a mark the Python half hears, to tell when it is committed."""
        cdef const uint8_t* data = fragment.payload
        cdef int taken
        cdef int template = ordo_template_id(data, fragment.length_bytes)
        if not self._is_admitted(image, fragment, template, cluster_time):
            return 1
        self.appended_position = 0
        taken = self._sequence(image, fragment, cluster_time, template == CONSUMER_COMMAND_ID)
        if self.appended_position and template == MESSAGE_MARK_ID:
            self._session_host.on_message_mark(ordo_get_i64(data + SESSION_HEADER_SESSION_ID),
                                        ordo_get_i64(data + MESSAGE_MARK_NUMBER), self.appended_position)
        if self.traces is not None and self.appended_position and template == REQUEST_ID:
            self.traces.take(ordo_get_i64(data + REQUEST_OPEN_POSITION), ordo_get_i64(data + REQUEST_NUMBER),
                             self.appended_position)
        return taken

    cdef bint _is_admitted(self, Image image, const Fragment* fragment, int template,
                           int64_t cluster_time) except -1:
        """Whether a message of Ordo's own may be appended: by the log's protocol level, and by who sends it."""
        cdef const uint8_t* data = fragment.payload
        if template == APP_DIFFERENCE_ID:
            return self._takes_differences
        if not self._takes_output_ids and (template == APP_REPORT_ID and ordo_get_u16(data) >= LONG_APP_REPORT_BLOCK
                                           or template == REQUEST_ID and ordo_get_u16(data) >= OUTPUT_BY_ID_BLOCK):
            self._ingress_host.on_invalid_request(
                "ingress: an output with an id, or a report that counts refused ones, which some member's release "
                "does not know")
            return False
        if template == REQUEST_ID:
            if not self._takes_request_ids and request_digest_offset(data):
                self._ingress_host.on_invalid_request(
                    "ingress: a request with an id, which some member's release does not know")
                return False
            return ordo_get_u16(data) < OUTPUT_BLOCK or ordo_get_i64(data + OUTPUT_TARGET) < 0 \
                or self._session_host.admits_output(image, ordo_get_i64(data + SESSION_HEADER_SESSION_ID))
        if template == CONSUMER_COMMAND_ID:
            return self._session_host.admits_command(
                image, PyBytes_FromStringAndSize(<const char*> data, fragment.length_bytes))
        return template != OPEN_IDENTITY_ID or self._session_host.admits_identity(
            image, PyBytes_FromStringAndSize(<const char*> data, fragment.length_bytes), cluster_time)

    cdef int _sequence(self, Image image, const Fragment* fragment, int64_t cluster_time,
                       bint was_admitted=False) except -1:
        """Append a client's message after the message header that is in `_header` already."""
        cdef const uint8_t* message = fragment.payload
        cdef int64_t length_bytes = fragment.length_bytes
        cdef int64_t session_id, slot
        if length_bytes < SESSION_HEADER_LENGTH or self._mode != LEADING \
                or ordo_get_i64(message + SESSION_HEADER_LEADERSHIP_TERM_ID) != self._leadership_term_id:
            return 1
        session_id = ordo_get_i64(message + SESSION_HEADER_SESSION_ID)
        slot = self.sessions.find(session_id)
        if slot < 0:
            return 1
        if self.sessions.owners[slot] == UNCLAIMED:
            if not self._session_host.may_claim(session_id, image):
                self._ingress_host.on_invalid_request("ingress: a message for a session of another host or key")
                return 1
            self.sessions.owners[slot] = image.correlation_id
        elif self.sessions.owners[slot] == MUTE and was_admitted:
            pass
        elif self.sessions.owners[slot] == MUTE:
            self._ingress_host.on_invalid_request("ingress: a message of a client that has no right to send any")
            return 1
        elif self.sessions.owners[slot] != image.correlation_id:
            self._ingress_host.on_invalid_request("ingress: a message for the session of another client")
            return 1
        if length_bytes > self._log.max_message_length:
            self._ingress_host.on_invalid_request(
                f"ingress: a message of {length_bytes} bytes, the log takes {self._log.max_message_length}: "
                "raise log_term_length (8 times the longest message)")
            return 1
        self._polled.is_proven = True
        if self.quotas.has_accounts and self._is_over_quota(image, session_id, slot) \
                or self.quotas.is_behind(self._log.position_now(), self._polled.is_first):
            self.sessions.activity[slot] = cluster_time
            return 0
        put_stamp(self._header, self._leadership_term_id, session_id, cluster_time)
        return _append_message(self, fragment, slot, cluster_time)

    cdef bint _is_over_quota(self, Image image, int64_t session_id, int64_t slot) except -1:
        """Whether a session's message stays in its image for now; it is looked at again when there is quota for it."""
        cdef int64_t ready_ns
        if self.sessions.accounts[slot] == UNASKED:
            self.sessions.accounts[slot] = self._session_host.open_account(session_id, image)
        ready_ns = self.quotas.ready_ns(self.sessions.accounts[slot])
        if ready_ns <= self.quotas.now_ns:
            return False
        self.quotas.hold(self.sessions.accounts[slot], ready_ns)
        self._polled.held_until_ns = ready_ns
        return True

    cdef int poll_service(self) except -1:
        cdef Fragment fragment
        cdef int count, work = 0
        cdef int32_t service_id
        for pair in self._service:
            count = 0
            service_id = pair[2]
            while count < SERVICE_FRAGMENT_LIMIT and not self.held_services >> service_id & 1 \
                    and (<Assembler> pair[1]).peek(<Image> pair[0], &fragment):
                (<Assembler> pair[1]).consume(<Image> pair[0], &fragment)
                count += 1
                self._service_host.on_service(
                    service_id, PyBytes_FromStringAndSize(<const char*> fragment.payload, fragment.length_bytes))
            if count:
                (<Image> pair[0]).publish_position()
                work += count
        return work

    cdef int update_positions(self, int64_t now_ns) except -1:
        cdef int64_t durable = self._stopped_position
        cdef int64_t before = self.append_position
        cdef int64_t commit
        cdef int work = 0
        if self._durable_address != NULL:
            durable = ordo_load_acquire_i64(self._durable_address)
        if durable > before:
            self._scan(durable)
            work = 1
        if not self.is_steady:
            if self.append_position > before:
                self._log_host.on_appended(self.append_position, now_ns)
        elif self._mode == LEADING:
            commit = self.progress.advance_commit(self.append_position, now_ns)
            if commit > self.commit_position:
                if self._unsent_since_ns == 0:
                    self._unsent_since_ns = now_ns
                self._told_members.clear()
                self.commit_to(commit, now_ns)
                if commit >= self._log.position_now():
                    work += self._tell_readers(now_ns)
            elif now_ns - self.progress.last_sent_ns >= self._heartbeat_interval_ns:
                self._send_position(now_ns)
            if now_ns >= self.due_ns():
                self._send_position(now_ns)
                work = 1
        elif self._mode == FOLLOWING:
            if self.append_position != self.progress.last_sent_position \
                    or now_ns - self.progress.last_sent_ns >= self._heartbeat_interval_ns:
                self._send_position(now_ns)
            self.commit_to(self.progress.follower_commit(self.append_position), now_ns)
        return work

    cpdef int tell_commit(self, int64_t now_ns) except -1:
        """Tells the followers now of a commit position that waits for a record to take it along."""
        if self.due_ns() == NEVER:
            return 0
        return self._send_position(now_ns)

    cdef int64_t due_ns(self) noexcept nogil:
        if self._unsent_since_ns == 0 or self._mode != LEADING:
            return NEVER
        return self._unsent_since_ns + COMMIT_DELAY_NS_MAX

    cpdef int commit_to(self, int64_t position, int64_t now_ns) except -1:
        """Publishes the commit position, and has rare records executed; never goes back. `wake_containers` comes later."""
        if position <= self.commit_position:
            return 0
        self._publish_commit(position)
        if position >= self._next_record_position:
            self._log_host.on_commit(position, now_ns)
        return 1

    cdef int _scan(self, int64_t limit_position) except -1:
        """Reads what became durable, hands rare records to Python, and moves the append position behind it."""
        cdef Fragment fragment
        cdef const uint8_t* data
        cdef int64_t hint = 0, hint_position = 0
        cdef int count = 0
        while count < SCAN_LIMIT:
            if not self._reader.next(&fragment, limit_position):
                self._take_hint(hint, hint_position)
                self.append_position = limit_position
                return count
            count += 1
            data = fragment.payload
            hint = ordo_get_i64(fragment.header + RESERVED_VALUE_OFFSET)
            hint_position = fragment.start_position
            if template_id(data, fragment.length_bytes) == SESSION_MESSAGE_HEADER_ID:
                self.last_timestamp = max(self.last_timestamp, ordo_get_i64(data + SESSION_HEADER_TIMESTAMP))
                if ordo_get_i64(data + SESSION_HEADER_SESSION_ID) > 0:
                    continue
            elif is_for_container(data, fragment.length_bytes) or is_logged_request(data, fragment.length_bytes):
                self.last_timestamp = max(self.last_timestamp, ordo_get_i64(data + SESSION_HEADER_TIMESTAMP))
                if self.follower_traces is not None:
                    self._trace(data, &fragment)
                continue
            self._log_host.on_record(
                fragment.position, PyBytes_FromStringAndSize(<const char*> data, fragment.length_bytes))
        self._take_hint(hint, hint_position)
        self.append_position = self._reader.position
        return count

    cdef int _trace(self, const uint8_t* data, const Fragment* fragment) except -1:
        """Follower: a request may be one that is traced. What a follower catches up with is not."""
        if self._mode == FOLLOWING and self.is_steady and is_logged_request(data, fragment.length_bytes):
            self.follower_traces.take(ordo_get_i64(data + REQUEST_OPEN_POSITION),
                                      ordo_get_i64(data + REQUEST_NUMBER), fragment.position)
        return 0

    cdef int note_traces(self, int64_t cycle_ns) except -1:
        """Follower: the log is recorded as far as it came in this duty cycle."""
        self.follower_traces.cycle_ns = cycle_ns
        if self._recording is not None:
            self.follower_traces.note(self._recording.written_position)
        return 0

    cdef int64_t told_position(self) noexcept nogil:
        return self.commit_position

    cdef void _take_hint(self, int64_t value, int64_t position) noexcept nogil:
        """A leader has put its commit position into a record. Whichever leader that was: what was committed when the
        record was appended is committed in every log that has the record (Raft §5.3, §5.4)."""
        if value != 0 and self._mode == FOLLOWING and self.is_steady:
            self.progress.on_commit_hint(hinted_commit(value, position))

    cdef void _publish_commit(self, int64_t position) noexcept:
        # Before services, clients and followers can hear of it: what was told is known after a kill.
        if self._committed is not None:
            self._committed.raise_to(position)
        self.commit_position = position
        self._commit_counter.set_release(position)
        self._is_commit_new = True

    cdef void wake_containers(self) noexcept:
        """Wakes the containers that are parked, when the commit position has moved since the last call."""
        cdef ParkFlag flag
        if not self._is_commit_new:
            return
        self._is_commit_new = False
        ordo_fence_full()
        for flag in self._container_flags:
            if flag.take():
                flag.wake_futex()

    cdef int _tell_readers(self, int64_t now_ns) except -1:
        """No record is on its way that could take the commit position along, and readers at followers wait for it: these
        followers hear of it now. The others need not be woken for it yet. Returns how many were told."""
        cdef ConsensusSource source
        for source in self._consensus.proven:
            if source.has_readers(now_ns) and self._send_position_to(source.member_id) > 0:
                self._told_members.add(source.member_id)
        if len(self._told_members) == len(self._member_publications):
            self._unsent_since_ns = 0
        return <int> len(self._told_members)

    cdef int _send_position(self, int64_t now_ns) except -1:
        """CommitPosition to every member as leader that has not been told, AppendPosition to the leader as follower."""
        cdef bint is_heartbeat = self._unsent_since_ns == 0
        self._unsent_since_ns = 0
        if self._mode == LEADING:
            self.progress.note_sent(self.commit_position, now_ns)
            for member_id in self._member_publications:
                if is_heartbeat or member_id not in self._told_members:
                    self._send_position_to(member_id)
        else:
            self.progress.note_sent(self.append_position, now_ns)
            self._send_position_to(self._leader_id)
        return 0

    cdef int64_t _send_position_to(self, member_id) except? -1:
        """The result of the publication; 0 when there is none to this member."""
        cdef bint leading = self._mode == LEADING
        cdef int64_t position = self.commit_position if leading else self.append_position
        cdef uint8_t message[32]
        publication = self._member_publications.get(member_id)
        if publication is None:
            return 0
        if leading:
            put_sbe_header(message, COMMIT_POSITION_BLOCK, COMMIT_POSITION_ID)
        else:
            put_sbe_header(message, APPEND_POSITION_BLOCK, APPEND_POSITION_ID)
        ordo_put_i64(message + APPEND_POSITION_LEADERSHIP_TERM_ID, self._leadership_term_id)
        ordo_put_i64(message + APPEND_POSITION_LOG_POSITION, position)
        ordo_put_i32(message + APPEND_POSITION_MEMBER_ID, self._member_id)
        message[APPEND_POSITION_FLAGS] = self._append_flags | self._room_flags | self._reader_flags
        return (<ExclusivePublication> publication).append(
            message, COMMIT_POSITION_LENGTH if leading else APPEND_POSITION_LENGTH, NULL, 0)


cdef inline int _append_message(Sequencer self, const Fragment* fragment, int64_t slot, int64_t cluster_time) except -1:
    """Append a client's message that may be, after the head and the stamp that are in `_header` already.

    No method: the compiler puts it where it is called, and each message would pay for the call."""
    cdef Head head = Head(SESSION_HEADER_LENGTH, SESSION_HEADER_LENGTH)
    cdef int64_t position
    cdef int attempt
    if self._polled.is_timed and self._takes_arrivals:
        head = put_arrival(self._header, fragment, self._log.max_message_length)
    for attempt in range(2):
        self._log.stamp_next(commit_hint(self._log.position_now(), self.told_position()))
        position = self._log.append(self._header, head.length_bytes, fragment.payload + head.taken_bytes,
                                    fragment.length_bytes - head.taken_bytes)
        if position > 0:
            self.appended_position = position
            self.sessions.activity[slot] = cluster_time
            self._unsent_since_ns = 0              # the record tells the followers
            if self.quotas.has_accounts:
                self.quotas.charge(self.sessions.accounts[slot], fragment.length_bytes)
            return 1
        if position != ADMIN_ACTION:
            break
    self.quotas.is_full = True
    return 0
