"""The native half of the service container. See loop.pxd, and docs/ARCHITECTURE.md for the flow."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from ordo.cluster.container.streams.outbox cimport EgressBuffers, Outbox
from ordo.cluster.wire.layout cimport (
    ANSWER_BLOCK,
    ANSWER_ID,
    ANSWER_LENGTH,
    ANSWER_LOG_POSITION,
    ANSWER_NUMBER,
    ANSWER_OK,
    ANSWER_OPEN_POSITION,
    ANSWER_REJECTED,
    ANSWER_SEQUENCE,
    ANSWER_STATUS,
    ANSWER_TOO_LONG,
    ANSWER_UNKNOWN,
    ANSWER_VERSION,
    ANSWER_WAIT,
    REQUEST_CONFIRMED,
    REQUEST_DIGEST_LENGTH,
    REQUEST_NUMBER,
    OUTPUT_BLOCK,
    OUTPUT_TARGET,
    REQUEST_OPEN_POSITION,
    SBE_HEADER_LENGTH,
    SESSION_HEADER_LENGTH,
    SESSION_HEADER_SESSION_ID,
    SESSION_HEADER_LEADERSHIP_TERM_ID,
    SESSION_HEADER_TIMESTAMP,
    SESSION_MESSAGE_HEADER_ID,
    arrival_of,
    is_logged_message,
    put_ordo_header,
    put_session_header,
    put_stamp,
    request_block,
    request_digest_offset,
    template_id,
)
from ordo.runtime.native.atomics cimport ordo_crc32c, ordo_get_i64, ordo_get_u16, ordo_put_i32, ordo_put_i64
from ordo.service_api.native cimport CLOSED, MOCKED_OFFER, NOT_CONNECTED
from ordo.service_api.requests cimport EXECUTE, REPEATED, WAIT, Identity, RequestTable
from ordo.transport.driver.frames.pointers cimport PointerMap
from ordo.transport.streams.image cimport Fragment, Image
from ordo.transport.streams.publication cimport Publication
from ordo.transport.streams.subscription cimport Subscription

from types import MappingProxyType

from ordo.cluster.wire.streams import EGRESS_POLICY_KEY
from ordo.runtime.errors import Reject, ServiceCallError, ServiceError
from ordo.runtime.payloads import payload_error, shorten_utf8, to_utf8, view_of
from ordo.runtime.reporting.failures import exit_error
from ordo.service_api.service import OfferResult

cdef enum:
    RECORD_LIMIT_DEFAULT = 64
    RUN_IDLE = 0                       # no run is being executed
    RUN_BEGINS = 1                     # its first message was read
    RUN_WITHIN = 2                     # the service executes a message
    RUN_BETWEEN = 3                    # a message has ended
    RUN_OVER = 4                       # there is none left
    FAILED_PAYLOAD_MAX = 64            # bytes of a message at which the service raised that are told

cdef int64_t TICK_INTERVAL_NS = 25_000_000
cdef int64_t INT64_MAX = 0x7FFFFFFFFFFFFFFFLL
NO_QUERY = INT64_MAX
WHY_ANSWERS_WAIT = b"too many answers are kept: it is executed once clients have confirmed some"
WHY_IDS_WAIT = b"the cluster keeps as many ids as it may, and this caller's are all new: it is executed once one is old enough"
MESSAGE_CALLBACKS = ("on_session_message", "on_session_messages")


cdef class ContainerLoop(Agent):
    def __init__(self, service):
        self.set_service(service)
        self._header = Header()
        self._run = MessageRun(self)
        self._sessions = {}
        self._sessions_seen = MappingProxyType(self._sessions)
        self._session_pointers = PointerMap()
        self.egress = EgressBuffers(self.encode_gap)
        self.requests = RequestTable()
        self.sequence = MessageSequence()
        self.leadership_term_id = -1
        self.record_limit = RECORD_LIMIT_DEFAULT
        self.wakes_driver = True
        self.answers = True
        self.next_query_position = self._index_next = INT64_MAX
        self._target_session_id = -1

    # For the Python half

    def set_service(self, service):
        """What executes records from the next one on."""
        self.service, self._dispatch = service, dispatch_of(service)
        self._native = service if isinstance(service, NativeClusteredService) else None
        self._on_message = None if self._native is not None else service.on_session_message
        self._on_messages = service.on_session_messages if self._native is None and overrides_runs(service) else None
        self._background = service.do_background_work if overrides_background_work(service) else None

    def follow(self, RecordingReader reader not None, Counter commit not None, Counter leader_term not None,
               Counter service_position not None):
        """Executes from the reader's position, up to the commit counter, from now on."""
        self._reader = reader
        self._commit = commit
        self._leader_term = leader_term
        self._service_position = service_position
        self.executed_position = reader.position
        service_position.set_release(self.log_position)

    def set_queries(self, Subscription subscription not None):
        """Where queries come from; looked at every duty cycle."""
        self._queries = subscription

    @property
    def follows(self):
        return self._reader is not None

    def set_log_state(self, int64_t log_position, int64_t time, int64_t leadership_term_id):
        """The record being executed, or the snapshot being loaded."""
        self.log_position = log_position
        self.time = time
        self.leadership_term_id = leadership_term_id

    def publish_position(self):
        if self._service_position is not None:
            self._service_position.set_release(self.log_position)

    def set_leading(self, bint is_leading):
        self.is_leading = is_leading

    def set_requests(self, RequestTable requests not None):
        """Another table than the empty one with the usual limits."""
        self.requests = requests

    def set_samples(self, ServiceSamples samples):
        """Where it is noted how long callbacks and round trips take; None: nowhere."""
        self._samples = samples

    def set_index(self, index, int64_t spacing_bytes, Counter sequence_counter):
        """What notes places of the log, from the next record on, and where the last number is shown."""
        self._index, self._index_next, self._index_spacing_bytes = index, 0, spacing_bytes
        self._sequence_counter = sequence_counter

    def note_place_next(self):
        """The next record's place is noted: how messages are numbered changes before it."""
        if self._index is not None:
            self._index_next = 0

    def set_egress(self, EgressBuffers egress not None):
        """Other bounds than the usual ones; before there is a session."""
        self.egress = egress

    @property
    def leads_now(self):
        """True while the term of the record being executed is the one in which this member serves as the leader."""
        return self._leads_now()

    @property
    def sessions(self):
        """Open sessions by id, to be read: add_session and remove_session change them."""
        return self._sessions_seen

    def make_session(self, int64_t session_id, int32_t response_stream_id, str response_channel, bytes principal):
        """Return a session that add_session opens; overridden for sessions of another class."""
        return ContainerSession(self, session_id, response_stream_id, response_channel, principal)

    def add_session(self, int64_t session_id, int32_t response_stream_id, str response_channel, bytes principal):
        """Raises ServiceError for an id that is open already."""
        if session_id in self._sessions:
            raise ServiceError(f"log: session opened twice: session_id={session_id} position={self.log_position}")
        cdef ContainerSession session = self.make_session(session_id, response_stream_id, response_channel, principal)
        self._session_pointers.put(session_id, <void*> session)
        self._sessions[session_id] = session
        return session

    def remove_session(self, int64_t session_id):
        """Closes a session and returns it, or None when it is not open."""
        cdef ContainerSession session = self._sessions.pop(session_id, None)
        if session is not None:
            self._session_pointers.remove(session_id)
            session.is_closed = True
            session.connect(None)
        return session

    def note_written(self):
        """The driver is to be woken at the end of this duty cycle."""
        self._wrote = True

    def check_allowed(self, str call):
        """Raises ServiceCallError unless a record's callback is running."""
        if not self.may_call:
            raise ServiceCallError(f"{call} is not allowed from {self.callback}; see ordo.service_api.service")

    def ask_for_tick(self):
        """The next duty cycle runs `tick`, however little time has passed."""
        self._next_tick_ns = 0

    def tick_by(self, int64_t at_ns):
        """`tick` runs at this time at the latest."""
        self._next_tick_ns = min(self._next_tick_ns, at_ns)

    # Duty cycle

    cpdef int do_work(self, int64_t now_ns) except -1:
        return self.cycle(now_ns)

    cdef int cycle(self, int64_t now_ns) except -1:
        cdef int work_count = 0
        if now_ns >= self._next_tick_ns:
            self._next_tick_ns = now_ns + TICK_INTERVAL_NS
            work_count += self.tick(now_ns)
        if not self.executes:
            return work_count
        if self._reader is not None:
            if self._leads_now() != self.is_leading and not self.hold:
                self.on_leading(not self.is_leading)
            if not self.hold:
                work_count += self._execute(now_ns)
            work_count += self._work_egress()
            if self.executes:                  # else the state is that of no position: a callback was left in its middle
                work_count += self._work_queries()
        if self._background is not None and self.executes:
            self.callback = "do_background_work"
            work_count += self._background(now_ns)
        if self._wrote:
            self._wrote = False
            if self.wakes_driver:
                self.wake_driver()
        if self._samples is not None and self._samples.has_marks():
            self._samples.look(self.executed_position, self.is_leading)
        if self.traces is not None and self.traces.has_unsent:
            self.traces.send()
        return work_count

    cdef bint _leads_now(self) noexcept nogil:
        return self.leadership_term_id >= 0 and self._leader_term.get() == self.leadership_term_id

    cdef int _execute(self, int64_t now_ns) except -1:
        cdef Fragment fragment
        cdef int64_t commit = self._commit.get()
        cdef int64_t executed, before
        cdef bint is_message
        cdef int count = 0
        cdef bint is_timed = self._samples is not None and now_ns >= self._samples.next_ns
        cdef int64_t started_ns = 0
        if self._reader.position >= commit:
            return 0
        executed = commit                 # also where that is inside of a record whose end is not committed
        while True:
            if self._has_next:            # a run of messages has ended before it
                self._has_next = False
                fragment = self._fragment
            else:
                before = self._reader.position
                if self._reader.next(&fragment, commit) != 1:
                    break
                if self.marks is not None and self.waits_before(fragment.position):
                    self._reader.seek(before)
                    executed = before
                    break
                if before >= self._index_next and before == self.log_position:
                    self._note_place(before, &fragment)
            is_message = is_logged_message(fragment.payload, fragment.length_bytes)
            if is_timed and is_message:
                started_ns = self._samples.begin_callback(now_ns)
            if is_message and self._on_messages is not None:
                count += self._execute_run(&fragment, commit, self.record_limit - count)
            else:
                self._execute_record(&fragment, is_message)
                count += 1
            if is_timed and is_message:
                self._samples.end_callback(started_ns)
                is_timed = False
            if self.has_published:
                self.flush_feeds()
            if count >= self.record_limit or self.hold:
                if self._has_next:
                    self._has_next = False
                    self._reader.seek(self._next_start)
                executed = self._reader.position
                break
        self.executed_position = executed
        if not self.hold:
            self._service_position.set_release(self._reader.position)
        if self._sequence_counter is not None:
            self._sequence_counter.set_release(self.sequence.last)
        return count

    cdef int _work_egress(self) except -1:
        """Sends what clients did not take before, and gives up those that take too little."""
        cdef int count = 0
        if self.egress._waiting:
            count = self.egress.drain()
            if count:
                self._wrote = True
        if self.egress._slow:
            self.on_slow_sessions(self.egress.take_slow())
        return count

    cdef int _work_queries(self) except -1:
        """Between records: takes queries up, and answers those whose position was executed."""
        cdef Fragment fragment
        cdef int count = 0
        if self._queries is not None and len(self._queries.images) and (<Image> self._queries.images[0]).peek(&fragment):
            count = self.on_queries()
        if self.executed_position >= self.next_query_position:
            count += self.answer_queries()
        return count

    cdef int _execute_record(self, const Fragment* fragment, bint is_message) except -1:
        try:
            if not is_message:
                self.on_record(
                    PyBytes_FromStringAndSize(<const char*> fragment.payload, fragment.length_bytes), fragment.position)
            elif self._begin_message(fragment):
                self._call_service(fragment)
        except Exception as error:
            self._forget_request()
            self.failed_payload = _payload_of(fragment)[:FAILED_PAYLOAD_MAX] if is_message else None
            if not self.on_failure(error, fragment.position):
                raise
        self.may_call = False
        return 0

    cdef int _call_service(self, const Fragment* fragment) except -1:
        """Has the service execute the message that was begun, and ends it."""
        cdef int64_t prefix = SBE_HEADER_LENGTH + ordo_get_u16(fragment.payload), length = fragment.length_bytes - prefix
        cdef const uint8_t* data = fragment.payload + prefix
        result = None
        try:
            if self._native is not None:
                self._native.on_message(self._current, self.time, data, length, fragment.position)
            elif self._dispatch is not None:
                result = self._dispatch.execute(self.service, self._current, self.time, data, length, self._header)
            else:
                result = self._on_message(self._current, self.time, _payload_of(fragment), self._header)
            if result is not None:
                self.set_reply(result)
        except Reject as why:
            return self._reject_message(str(why))
        except SystemExit as end:
            raise exit_error(end) from end
        return self._end_message()

    # A message is begun, executed by the service, and ended or rejected; alone, or in a run.

    cdef bint _begin_message(self, const Fragment* fragment) except -1:
        """False when the service is not to see it: it is done with then."""
        cdef int64_t session_id = ordo_get_i64(fragment.payload + SESSION_HEADER_SESSION_ID)
        self.time = ordo_get_i64(fragment.payload + SESSION_HEADER_TIMESTAMP)
        self.log_position = fragment.position
        self._reply = None
        if template_id(fragment.payload, fragment.length_bytes) != SESSION_MESSAGE_HEADER_ID:
            if not self._admit_request(fragment, self._find_session(session_id)):
                self._note_unnumbered(fragment)
                return False
        elif session_id < 0:
            self._current = None
        else:
            self._current = self._find_session(session_id)
            if self._current is None:
                self.on_unknown_session(session_id)
                self._note_unnumbered(fragment)
                return False
            if self._current.next_number >= 0:
                self._current.next_number += 1
        self._header.sequence = self.sequence.take()
        if self.marks is not None and fragment.position in self.marks:
            self._reject_message(self.marks[fragment.position])
            return False
        self.callback = "on_session_message"
        self.may_call = True
        self.messages_executed += 1
        self._header.position = fragment.position
        self._header.leadership_term_id = self.leadership_term_id
        self._header.arrival = arrival_of(fragment.payload)
        return True

    cdef int _note_place(self, int64_t position, const Fragment* fragment) except -1:
        """Between records: the one that begins at a position is a place of the index."""
        self._index_next = position + self._index_spacing_bytes
        self._index.note_place(position, self.sequence.last, self.time,
                               ordo_crc32c(0, fragment.payload, fragment.length_bytes),
                               is_counting=self.sequence.is_counting, is_kept=self.sequence.is_kept)
        return 0

    cdef int _note_unnumbered(self, const Fragment* fragment) except -1:
        if self._index is not None:
            self._index.note_unnumbered(fragment.position, self.sequence.last, self.time)
        return 0

    cdef bint _admit_request(self, const Fragment* fragment, ContainerSession session) except -1:
        """True for one that is to be executed. A request of a session that was closed before is left out: its client
        sends it again with another one."""
        cdef const uint8_t* record = fragment.payload
        cdef int64_t open_position = ordo_get_i64(record + REQUEST_OPEN_POSITION)
        cdef int64_t number = ordo_get_i64(record + REQUEST_NUMBER)
        cdef Identity identity
        cdef int verdict
        cdef bytes why_wait = WHY_ANSWERS_WAIT
        if session is None:
            return False
        identity = self.requests.find(open_position, session.encoded_principal, self.time)
        if identity is None:
            session.answer(open_position, number, fragment.position, ANSWER_UNKNOWN, b"the identity is not known")
            return False
        verdict = self.requests.admit(identity, number, ordo_get_i64(record + REQUEST_CONFIRMED), self.time)
        if verdict == EXECUTE and request_digest_offset(record) and self._takes_id_of(record):
            verdict = self._admit_by_id(fragment, identity)
            why_wait = WHY_IDS_WAIT
        if verdict == EXECUTE:
            self._current = session
            self._identity = identity
            session.identity = identity.identity
            if request_block(record) >= OUTPUT_BLOCK:
                self._note_target(fragment)
            if self.traces is not None:
                self.traces.begin(open_position, number, identity.identity)
            return True
        if verdict == REPEATED:
            self.requests_repeated += 1
            log_position, status, payload = identity.get_answer(number)
            session.answer(open_position, number, log_position, status, payload, identity.get_sequence(number))
        elif verdict == WAIT:
            session.answer(open_position, number, fragment.position, ANSWER_WAIT, why_wait)
        return False

    cdef bint _takes_id_of(self, const uint8_t* record) except -1:
        """Whether the log may have a request with this id: one that is none for members of other releases is none."""
        return request_block(record) < OUTPUT_BLOCK or self.requests.ids.takes_outputs

    cdef int _admit_by_id(self, const Fragment* fragment, Identity identity) except -1:
        """What is to be done with a request that has an id of its caller's choice."""
        cdef const uint8_t* digest = fragment.payload + request_digest_offset(fragment.payload)
        return self.requests.admit_by_id(
            identity, PyBytes_FromStringAndSize(<const char*> digest, REQUEST_DIGEST_LENGTH), _payload_of(fragment))

    cdef int _end_message(self) except -1:
        """The service has executed it: its answer is sent, and kept if it was a request."""
        if self._identity is not None:
            return self._end_request(ANSWER_OK, b"" if self._reply is None else self._reply)
        if self._reply is not None and self._current is not None and self.answers:
            self._current.offer_native(<const uint8_t*> PyBytes_AS_STRING(self._reply), PyBytes_GET_SIZE(self._reply))
        return 0

    cdef int _reject_message(self, str why) except -1:
        """The service has refused it, or it is left out."""
        self.messages_rejected += 1
        if self._identity is not None:
            return self._end_request(ANSWER_REJECTED, to_utf8(why))
        self.on_rejected(self._current, why)
        return 0

    cdef void _note_target(self, const Fragment* fragment) noexcept:
        cdef int64_t prefix = SBE_HEADER_LENGTH + ordo_get_u16(fragment.payload)
        self._target_session_id = ordo_get_i64(fragment.payload + OUTPUT_TARGET)
        self._output, self._output_length = fragment.payload + prefix, fragment.length_bytes - prefix

    cdef int _send_output(self) except -1:
        """An application's output goes to the client that it is for, where this member leads."""
        cdef ContainerSession session = self._find_session(self._target_session_id)
        if session is not None:
            session.offer_native(self._output, self._output_length)
        return 0

    cdef int _end_request(self, int32_t status, bytes payload) except -1:
        cdef Identity identity = self._identity
        if self._target_session_id >= 0 and status == ANSWER_OK and self.answers:
            self._send_output()
        self._forget_request()
        if self.traces is not None:
            self.traces.end()
        if not self.answers:
            payload = b""
        if PyBytes_GET_SIZE(payload) > self.requests.answer_bytes_max:
            status, payload = ANSWER_TOO_LONG, b"an answer of %d bytes" % len(payload)
        self.requests.keep(identity, self.log_position, status, payload, self._header.sequence)
        self._current.answer(identity.open_position, identity.number, self.log_position, status, payload,
                             self._header.sequence)
        return 0

    cdef int _forget_request(self) except -1:
        if self._identity is not None:
            self._identity = None
            self._current.identity = None
            self._target_session_id = -1
        return 0

    # A run of messages in one call of the service

    cdef int _execute_run(self, const Fragment* first, int64_t commit, int limit) except -1:
        """Executes messages from the first on, as many as follow on one another, at least one: how many records."""
        self._fragment = first[0]
        self._run_commit = commit
        self._run_limit = limit
        self._run_count = 0
        self._run_error = None
        self._run_state = RUN_BEGINS
        try:
            self._call_service_with_run()
        except Exception as error:
            self._run_state = RUN_IDLE
            self._forget_request()
            self.failed_payload = _payload_of(&self._fragment)[:FAILED_PAYLOAD_MAX]
            if not self.on_failure(error, self._fragment.position):
                raise
        self._run_state = RUN_IDLE
        self.may_call = False
        if self._run_error is not None:
            error, self._run_error = self._run_error, None
            raise error
        return self._run_count

    cdef int _call_service_with_run(self) except -1:
        try:
            result = self._on_messages(self._run)
        except Reject as why:
            if self._run_state != RUN_WITHIN:
                raise ServiceError(f"on_session_messages refused a message before it took one: {why}")
            return self._reject_message(str(why))
        except SystemExit as end:
            raise exit_error(end) from end
        if self._run_failure is not None:
            failure, self._run_failure = self._run_failure, None
            raise failure
        if result is not None:
            raise ServiceError("on_session_messages returned something: answer with messages.reply")
        if self._run_state == RUN_BEGINS:
            raise ServiceError("on_session_messages took no message: iterate over its argument")
        if self._run_state == RUN_WITHIN:
            self._end_message()
        return 0

    cdef bytes _next_of_run(self):
        """Ends the message before, and begins the next one: its payload, or None when the run is over. What goes wrong
        here is not the service's to catch."""
        try:
            if self._run_state == RUN_WITHIN:
                self._run_state = RUN_BETWEEN
                self.may_call = False
                self._end_message()
            while self._run_state == RUN_BEGINS or (self._run_state == RUN_BETWEEN and self._read_of_run()):
                self._run_state = RUN_BETWEEN
                self._run_count += 1
                if self._begin_message(&self._fragment):
                    self.callback = "on_session_messages"
                    self._run_state = RUN_WITHIN
                    return _payload_of(&self._fragment)
        except Exception as error:
            self._run_failure = error
        if self._run_state != RUN_IDLE:
            self._run_state = RUN_OVER
        return None

    cdef bint _read_of_run(self) noexcept:
        """Goes to the next record, if it is a message that may be executed now."""
        cdef int64_t before = self._reader.position
        if self._run_count == self._run_limit or self.hold:
            return False
        try:
            if self._reader.next(&self._fragment, self._run_commit) != 1:
                return False
            if self.marks is not None and self.waits_before(self._fragment.position):
                self._reader.seek(before)
                return False
            if before >= self._index_next and before == self.log_position:
                self._note_place(before, &self._fragment)
        except Exception as error:
            self._run_error = error
            return False
        if is_logged_message(self._fragment.payload, self._fragment.length_bytes):
            return True
        self._has_next = True
        self._next_start = before
        return False

    def set_reply(self, payload):
        """The answer to the message being executed."""
        if self._reply is not None:
            raise ServiceCallError("a message is answered once: by session.reply, or by returning bytes")
        if not isinstance(payload, (bytes, bytearray, memoryview)):
            raise ServiceError(payload_error(payload, "the answer of on_session_message").message)
        self._reply = bytes(payload)

    cdef ContainerSession _find_session(self, int64_t session_id):
        cdef void* found = self._session_pointers.get(session_id)
        return None if found == NULL else <ContainerSession> found

    # The Python half

    def tick(self, now_ns):
        """Every 25 ms, or when it was asked for: everything that is not a record."""
        raise NotImplementedError

    def on_record(self, record, position):
        """A committed record that is no session message."""
        raise NotImplementedError

    def waits_before(self, position):
        """Whether the record that ends here is not to be executed yet: `hold` says so then."""
        raise NotImplementedError

    def on_queries(self):
        """Takes up queries that have come, and returns their number."""
        raise NotImplementedError

    def answer_queries(self):
        """Answers queries now that everything up to `next_query_position` is executed. Returns the number of answers."""
        raise NotImplementedError

    def on_leading(self, is_leading):
        """Counter 1001 says that this member began or ceased to lead."""
        raise NotImplementedError

    def on_unknown_session(self, session_id):
        raise NotImplementedError

    def on_rejected(self, session, text):
        """The service refused a message that is no request; `session` is None where a service sent it."""
        raise NotImplementedError

    def on_slow_sessions(self, session_ids):
        """Their clients take less than is kept for them: they are to be closed."""
        raise NotImplementedError

    def encode_gap(self, session_id, count):
        """What a client is told in the place of messages that it was too slow for."""
        raise NotImplementedError

    def flush_feeds(self):
        """What the records executed so far have published goes to the feeds; `hold` says where not all of it has."""
        raise NotImplementedError

    def on_failure(self, error, position):
        """The record at a position could not be executed. Returns False for an error that is to be raised after this."""
        raise NotImplementedError

    def wake_driver(self):
        raise NotImplementedError


cdef class MessageRun:
    def __init__(self, ContainerLoop loop not None):
        self._loop = loop

    def __iter__(self):
        return self

    def __next__(self):
        payload = self._loop._next_of_run()
        if payload is None:
            raise StopIteration
        return payload

    @property
    def session(self):
        return self._loop._current

    @property
    def timestamp(self):
        return self._loop.time

    @property
    def header(self):
        return self._loop._header

    def reply(self, payload):
        """See ordo.service_api.message_run.MessageRun."""
        if self._loop._run_state != RUN_WITHIN:
            raise ServiceCallError("messages.reply answers the message that was taken last, before the next one is taken")
        self._loop.set_reply(payload)


cdef class ContainerSession(NativeSession):
    def __init__(self, ContainerLoop loop not None, int64_t session_id, int32_t response_stream_id,
                 str response_channel not None, bytes encoded_principal not None):
        super().__init__(session_id)
        self._loop = loop
        self.next_number = -1
        self.response_stream_id = response_stream_id
        self.response_channel = response_channel
        self.encoded_principal = encoded_principal
        self._outbox = Outbox(loop.egress, session_id, drops_oldest(response_channel))

    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil:
        if self.is_closed:
            return CLOSED
        if not self._loop.is_leading:
            return MOCKED_OFFER
        put_session_header(self._message_header, self._loop.leadership_term_id, self.id, self._loop.time)
        self._loop._wrote = True
        return self._outbox.send(self._message_header, SESSION_HEADER_LENGTH, payload, length_bytes)

    def offer(self, payload):
        """See ordo.service_api.service.ClientSession."""
        cdef const uint8_t[::1] view
        cdef int64_t result
        if not self._loop.may_call:
            self._loop.check_allowed("session.offer")
        if PyBytes_CheckExact(payload):
            result = self.offer_native(<const uint8_t*> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
        else:
            view = view_of(payload, "what session.offer is given")
            result = self.offer_native(&view[0] if view.shape[0] > 0 else NULL, view.shape[0])
        return result if result > 0 else OfferResult(result)

    cdef int reply_native(self, const uint8_t* payload, int64_t length_bytes) except -1:
        self.reply(PyBytes_FromStringAndSize(<const char*> payload, length_bytes))
        return 0

    def reply(self, payload):
        """See ordo.service_api.service.ClientSession."""
        if not self._loop.may_call or self._loop.callback not in MESSAGE_CALLBACKS:
            raise ServiceCallError(f"session.reply is not allowed from {self._loop.callback}; see ordo.service_api.service")
        if self._loop._current is not self:
            raise ServiceCallError("session.reply answers the message being executed; others get theirs by session.offer")
        self._loop.set_reply(payload)

    cdef int answer(self, int64_t open_position, int64_t number, int64_t log_position, int32_t status,
                    bytes payload, int64_t sequence=0) except -1:
        """Answers a request, if this member leads. Where the answer is lost, the client asks again."""
        cdef Publication publication = self._outbox.publication
        if publication is None or not self._loop.is_leading or not self._loop.answers:
            return 0
        cdef int64_t room = publication.max_message_length - ANSWER_LENGTH
        if PyBytes_GET_SIZE(payload) > room and status == ANSWER_REJECTED:
            payload = shorten_utf8(payload, room)
        elif PyBytes_GET_SIZE(payload) > room:
            status, payload = ANSWER_TOO_LONG, b"an answer of %d bytes: see egress_term_length_bytes" % len(payload)
        put_ordo_header(self._answer_header, ANSWER_BLOCK, ANSWER_ID, ANSWER_VERSION)
        put_stamp(self._answer_header, self._loop.leadership_term_id, self.id, self._loop.time)
        ordo_put_i64(self._answer_header + ANSWER_OPEN_POSITION, open_position)
        ordo_put_i64(self._answer_header + ANSWER_NUMBER, number)
        ordo_put_i64(self._answer_header + ANSWER_LOG_POSITION, log_position)
        ordo_put_i32(self._answer_header + ANSWER_STATUS, status)
        ordo_put_i64(self._answer_header + ANSWER_SEQUENCE, sequence)
        self._loop._wrote = True
        self._outbox.send(self._answer_header, ANSWER_LENGTH, <const uint8_t*> PyBytes_AS_STRING(payload),
                          PyBytes_GET_SIZE(payload))
        return 0

    def send_event(self, bytes message not None):
        """Sends an encoded message that is not the service's; results as of `offer`."""
        if not self._loop.is_leading or not self._loop.answers:
            return NOT_CONNECTED
        self._loop._wrote = True
        return self._outbox.send(<const uint8_t*> PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message), NULL, 0)

    def close(self):
        """See ordo.service_api.service.ClientSession."""
        if not self.is_closed:
            self._loop.close_client_session(self.id)

    def connect(self, Publication publication):
        """Sends through a publication from now on; None disconnects, and drops what was kept."""
        self._outbox.connect(publication)

    @property
    def is_connected(self):
        """False, too, once the client was given up for taking too little."""
        return self._outbox.publication is not None

    @property
    def kept_bytes(self):
        """Of messages that the client has not taken yet."""
        return self._outbox.kept_bytes

    def __repr__(self):
        return f"ContainerSession(id={self.id}, response_channel={self.response_channel!r}, is_closing={self.is_closing})"


def drops_oldest(response_channel):
    """True for the channel of a client that would rather miss the oldest messages than be disconnected."""
    return f"{EGRESS_POLICY_KEY}=drop-oldest" in response_channel.partition("?")[2].split("|")


def overrides_background_work(service):
    """True when a service does something in the background."""
    from ordo.service_api.service import ClusteredService
    method = getattr(type(service), "do_background_work", None)
    return method not in (ClusteredService.do_background_work, NativeClusteredService.do_background_work, None)


def overrides_runs(service):
    """True when a service takes messages many at a time."""
    from ordo.service_api.service import ClusteredService
    return getattr(type(service), "on_session_messages", None) not in (ClusteredService.on_session_messages, None)


cdef bytes _payload_of(const Fragment* fragment):
    cdef int64_t prefix = SBE_HEADER_LENGTH + ordo_get_u16(fragment.payload)
    return PyBytes_FromStringAndSize(<const char*> fragment.payload + prefix, fragment.length_bytes - prefix)
