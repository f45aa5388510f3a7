"""All network publications and the sockets they send from."""

from libc.string cimport memcpy

from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_i64
from ordo.runtime.io.datagram cimport ReceiveItem
from ordo.transport.driver.frames.event_log cimport EVENT_FRAME_IN
from ordo.transport.driver.frames.frames cimport *
from ordo.transport.driver.frames.pointers cimport new_work_set, pair_key, pointer_at
from ordo.transport.driver.frames.system_counters cimport count_event
from ordo.transport.driver.frames.receive_budget cimport spare_turns
from ordo.transport.secure.session cimport has_mark
from ordo.transport.streams.logbuffer cimport FRAME_FLAGS_OFFSET

cdef enum:
    RECEIVE_ITEMS = 16
    RECEIVE_TURNS = 4                  # batches that every socket has in a duty cycle
    ERRORS_MAX = 64                    # ERR frames a second of which clients are told
    RESPONSE_SETUPS_MAX = 256

cdef int64_t ERRORS_INTERVAL_NS = 1000000000


cdef class Sender:
    def __init__(self, SystemCounters system not None):
        self.system = system
        # Nothing tells the driver that a client has appended to a quiet publication.
        self.publications = new_work_set(128, 32, 5_000_000)
        self.endpoints = PointerArray()
        self._gathered = GatheredSends(system)
        self.errors = []
        self.response_setups = []

    def add_endpoint(self, SendEndpoint endpoint not None):
        self.endpoints.add(<void*> endpoint)

    def remove_endpoint(self, SendEndpoint endpoint not None):
        self.endpoints.remove(<void*> endpoint)

    def add_publication(self, NetworkPublication publication not None, int64_t now_ns):
        """Add a publication, which its owner keeps alive until it is removed."""
        self.publications.add(publication, now_ns)
        publication.endpoint.publications.put(pair_key(publication.session_id, publication.stream_id),
                                              <void*> publication)

    def remove_publication(self, NetworkPublication publication not None):
        self.publications.remove(publication)
        publication.endpoint.publications.remove(pair_key(publication.session_id, publication.stream_id))

    def take_errors(self):
        """Return (publication, receiver id, group tag or None, code, text, packed source) of each ERR frame since last
        time."""
        taken = self.errors
        self.errors = []
        self.waiting_count = len(self.response_setups)
        return taken

    def take_response_setups(self):
        """Return (publication, session id of its response) of each RSP_SETUP frame since last time."""
        taken = self.response_setups
        self.response_setups = []
        self.waiting_count = len(self.errors)
        return taken

    def take_encrypted_source(self):
        """Return the packed address that an encrypted datagram came from since last time, or b""."""
        taken = (<const char*> self.encrypted_source.storage)[:self.encrypted_source.length_bytes]
        self.encrypted_source.length_bytes = 0
        return taken

    cdef int receive(self, int64_t now_ns) noexcept nogil:
        """Receive control frames of the sockets that are ready; return how many datagrams were taken."""
        cdef int i, work = 0
        cdef int spare = spare_turns(now_ns - self.received_ns)
        self.received_ns = now_ns
        for i in range(self.endpoints.count):
            if (<SendEndpoint> pointer_at(self.endpoints, i)).control.ready:
                work += self._poll(<SendEndpoint> pointer_at(self.endpoints, i), &spare, now_ns)
        return work

    cdef int _poll(self, SendEndpoint endpoint, int* spare, int64_t now_ns) noexcept nogil:
        cdef ReceiveItem items[RECEIVE_ITEMS]
        cdef int turn, count, i, work = 0
        cdef uint32_t offset, length
        for turn in range(RECEIVE_TURNS + spare[0]):
            if turn >= RECEIVE_TURNS:
                spare[0] -= 1
            count = endpoint.control.receive(items, RECEIVE_ITEMS)
            if count <= 0:
                return work
            work += count
            for i in range(count):
                offset = 0
                if items[i].length_bytes == 0:
                    count_event(self.system, COUNTER_INVALID_PACKETS, 1)
                while offset < items[i].length_bytes:
                    length = items[i].length_bytes - offset
                    if 0 < items[i].segment_length_bytes < length:
                        length = items[i].segment_length_bytes
                    self._dispatch(endpoint, items[i].data + offset, length, &items[i].source, now_ns)
                    offset += length
            if not endpoint.control.ready:
                return work
        return work

    cdef void _dispatch(self, SendEndpoint endpoint, const uint8_t* datagram, uint32_t length,
                        const SocketAddress* source, int64_t now_ns) noexcept nogil:
        cdef int frame_type = classify(datagram, length)
        cdef void* found
        if self.events is not None and self.events.wants(EVENT_FRAME_IN):
            self.events.frame(EVENT_FRAME_IN, datagram, length, source)
        if frame_type == FRAME_INVALID:
            count_event(self.system, COUNTER_INVALID_PACKETS, 1)
            if has_mark(datagram, length):
                count_event(self.system, COUNTER_UNEXPECTED_ENCRYPTION, 1)
                self.encrypted_source = source[0]
            return
        if not (FRAME_NAK <= frame_type <= FRAME_RTTM or frame_type == FRAME_RSP_SETUP) or frame_type == FRAME_SETUP:
            return
        # every frame to a sender has them there
        found = endpoint.publications.get(
            pair_key(ordo_get_i32(datagram + SM_SESSION_ID), ordo_get_i32(datagram + SM_STREAM_ID)))
        if frame_type == FRAME_SM:
            count_event(self.system, COUNTER_SM_RECEIVED, 1)
            if found != NULL:
                (<NetworkPublication> found).on_status_message(datagram, length, source, now_ns)
                if (<NetworkPublication> found).has_work():
                    self.publications.wake(<NetworkPublication> found, now_ns)
            elif sm_is_valid(datagram):
                endpoint.on_status_source(ordo_get_i64(datagram + SM_RECEIVER_ID), source, now_ns)
        elif found == NULL:
            return
        elif frame_type == FRAME_NAK:
            count_event(self.system, COUNTER_NAKS_RECEIVED, 1)
            (<NetworkPublication> found).on_nak(datagram, source, now_ns)
            self.publications.wake(<NetworkPublication> found, now_ns)
        elif frame_type == FRAME_RTTM:
            (<NetworkPublication> found).on_rttm(datagram, source)
        elif frame_type == FRAME_RSP_SETUP:
            self._on_response_setup(<NetworkPublication> found, datagram)
        else:
            self._on_error(<NetworkPublication> found, endpoint, datagram, length, source, now_ns)

    cdef void _on_response_setup(self, NetworkPublication publication, const uint8_t* frame) noexcept nogil:
        """Note that the receiver has a response to this stream; it repeats itself until the response is connected."""
        if not publication.wants_response:
            return
        with gil:
            if len(self.response_setups) < RESPONSE_SETUPS_MAX:
                self.response_setups.append((publication, ordo_get_i32(frame + RSP_SETUP_RESPONSE_SESSION_ID)))
                self.waiting_count = len(self.errors) + len(self.response_setups)

    cdef void _on_error(self, NetworkPublication publication, SendEndpoint endpoint, const uint8_t* frame,
                        uint32_t length, const SocketAddress* source, int64_t now_ns) noexcept nogil:
        """Queue an ERR frame for the clients. Beyond a bound they are dropped, so that busy clients keep their place
        among the driver's responses."""
        cdef int32_t text_length = ordo_get_i32(frame + ERR_TEXT_LENGTH)
        if text_length < 0 or text_length > ERROR_TEXT_MAX or ERR_LENGTH + text_length > <int32_t> ordo_get_i32(frame):
            count_event(self.system, COUNTER_INVALID_PACKETS, 1)
            return
        count_event(self.system, COUNTER_ERROR_FRAMES_RECEIVED, 1)
        if not publication.on_error(ordo_get_i64(frame + ERR_RECEIVER_ID)):
            return
        if now_ns - self.errors_since_ns >= ERRORS_INTERVAL_NS:
            self.errors_since_ns = now_ns
            self.errors_told = 0
        if self.errors_told == ERRORS_MAX:
            return
        self.errors_told += 1
        with gil:
            self.errors.append((
                publication, ordo_get_i64(frame + ERR_RECEIVER_ID),
                ordo_get_i64(frame + ERR_TAG) if frame[FRAME_FLAGS_OFFSET] & ERR_HAS_TAG else None,
                ordo_get_i32(frame + ERR_CODE),
                (<const char*> frame)[ERR_LENGTH:ERR_LENGTH + text_length],
                (<const char*> source.storage)[:source.length_bytes]))
            self.waiting_count = len(self.errors) + len(self.response_setups)

    cdef int send(self, int64_t now_ns) noexcept nogil:
        """Run one turn of every busy publication and of a slice of the quiet ones; return how many bytes were sent."""
        cdef int i, at, bytes_sent, sent = 0
        cdef void* publication
        cdef int busy = self.publications.busy
        self.next_start += 1
        if self.next_start >= busy:
            self.next_start = 0
        at = self.next_start
        for i in range(busy):
            publication = pointer_at(self.publications, at)
            (<NetworkPublication> publication).is_quiet = False
            if not (<NetworkPublication> publication).rests(now_ns):
                if not self._gathered.has_room():
                    self._gathered.flush(now_ns)
                bytes_sent = (<NetworkPublication> publication).send(now_ns, self._gathered)
                if bytes_sent > 0:
                    (<NetworkPublication> publication).active_ns = now_ns
                    sent += bytes_sent
            at += 1
            if at == busy:
                at = 0
        cdef int share = self.publications.slice(now_ns - self.sent_ns)
        self.sent_ns = now_ns
        for i in range(share):
            self.send_cursor = self.publications.next_quiet(self.send_cursor)
            if self.send_cursor < 0:
                break
            (<NetworkPublication> pointer_at(self.publications, self.send_cursor)).is_quiet = True
            bytes_sent = (<NetworkPublication> pointer_at(self.publications, self.send_cursor)).send(now_ns, self._gathered)
            if bytes_sent > 0:
                self.publications.wake(<NetworkPublication> pointer_at(self.publications, self.send_cursor), now_ns)
                sent += bytes_sent
        self._gathered.flush(now_ns)
        return sent - <int> self._gathered.take_unsent()

    cdef int conduct(self, int64_t now_ns) noexcept nogil:
        """Update limits and clean logs, of the busy publications and of a slice of the quiet ones; return how many
        moved."""
        cdef int i, work = 0
        cdef void* publication
        for i in range(self.publications.busy - 1, -1, -1):
            publication = pointer_at(self.publications, i)
            if not (<NetworkPublication> publication).limit_rests() and (<NetworkPublication> publication).conduct(now_ns):
                (<NetworkPublication> publication).active_ns = now_ns
                work += 1
            elif self.publications.may_settle(i, now_ns):
                self.publications.settle(i)
        cdef int share = self.publications.slice(now_ns - self.conducted_ns)
        self.conducted_ns = now_ns
        for i in range(share):
            self.conduct_cursor = self.publications.next_quiet(self.conduct_cursor)
            if self.conduct_cursor < 0:
                break
            if (<NetworkPublication> pointer_at(self.publications, self.conduct_cursor)).conduct(now_ns):
                self.publications.wake(<NetworkPublication> pointer_at(self.publications, self.conduct_cursor), now_ns)
                work += 1
        return work

    cdef bint has_work(self) noexcept nogil:
        cdef int i
        for i in range(self.publications.count):
            if (<NetworkPublication> pointer_at(self.publications, i)).has_work():
                return True
        return False

    cdef int64_t deadline_ns(self, int64_t now_ns) noexcept nogil:
        cdef int i
        cdef int64_t deadline = self.publications.sweep_deadline_ns(now_ns), due
        for i in range(self.publications.busy):
            due = (<NetworkPublication> pointer_at(self.publications, i)).deadline_ns(now_ns)
            if due < deadline:
                deadline = due
        return deadline
