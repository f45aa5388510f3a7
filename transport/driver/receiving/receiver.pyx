"""All sockets that receive, and the images their datagrams belong to (transport-wire.md §5-§6)."""

from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_i64
from ordo.runtime.native.sentinels cimport NEVER
from ordo.runtime.io.datagram cimport ReceiveItem
from ordo.transport.driver.frames.event_log cimport EVENT_FRAME_IN
from ordo.transport.driver.frames.frames cimport *
from ordo.transport.driver.frames.pointers cimport new_work_set, pair_key, pointer_at
from ordo.transport.driver.receiving.publication_image cimport DATAGRAM_REFUSED, DATAGRAM_TAKEN
from ordo.transport.driver.receiving.receive_endpoint cimport (ANY_SESSION, ReceiveEndpoint, SESSION_INIT_IN_PROGRESS, SESSION_MARKERS,
                                                SESSION_NO_INTEREST, SESSION_PENDING_SETUP)
from ordo.transport.driver.frames.system_counters cimport count_event
from ordo.transport.driver.frames.receive_budget cimport spare_turns
from ordo.transport.secure.session cimport has_mark
from ordo.transport.streams.logbuffer cimport FLAG_EOS, FRAME_FLAGS_OFFSET, SESSION_ID_OFFSET, STREAM_ID_OFFSET

from collections import namedtuple

cdef enum:
    RECEIVE_ITEMS = 16
    RECEIVE_TURNS = 8                  # batches that every socket has in a duty cycle
    PENDING_SETUP_NS = 1000000000
    SETUPS_MAX = 1024
    SETUPS_PER_TURN = 16
    CONFIRMED_AFTER_NS = 20000000      # a sender that lives sends every 100 ms; one that only sets up, never again


Setup = namedtuple("Setup", "transport source session_id stream_id initial_term_id active_term_id term_offset "
                            "term_length mtu ttl flags")


cdef class Receiver:
    """`pending_max` is how many sessions without an image are asked for their SETUP at a time, on one endpoint."""

    def __init__(self, SystemCounters system not None, Admission admission not None, int pending_max):
        self.system = system
        self.admission = admission
        self.pending_max = pending_max
        self.transports = PointerArray()
        # An image is woken by what comes; only its timers, of 200 ms and more, wait for the sweep.
        self.images = new_work_set(64, 4, 20_000_000)
        self.setups = []
        self.pending_endpoints = {}

    def add_transport(self, ReceiveTransport transport not None):
        """Add a transport, which its endpoint keeps alive until it is removed."""
        self.transports.add(<void*> transport)

    def remove_transport(self, ReceiveTransport transport not None):
        self.transports.remove(<void*> transport)
        for setup in self.setups:
            if setup.transport is transport:
                self.release(setup)
        self.setups = [setup for setup in self.setups if setup.transport is not transport]
        self.setup_count = len(self.setups)

    def add_image(self, PublicationImage image not None, int64_t now_ns):
        """Add an image, which its owner keeps alive until it is removed."""
        self.images.add(image, now_ns)

    def remove_image(self, PublicationImage image not None):
        self.images.remove(image)

    def take_setups(self, int limit=SETUPS_PER_TURN):
        """Return the SETUP frames that ask for an image, in order; at most as many as one turn has time for."""
        taken = self.setups[:limit]
        self.setups = self.setups[limit:]
        self.setup_count = len(self.setups)
        return taken

    def release(self, setup, bint is_confirmed=False):
        """Forget the image of a SETUP that is gone, or was not built."""
        self.admission.release(setup.source, setup.term_length, is_confirmed)

    def take_encrypted_source(self):
        """Return the packed address that an encrypted datagram came from since last time, or b""."""
        taken = (<const char*> self.encrypted_source.storage)[:self.encrypted_source.length_bytes]
        self.encrypted_source.length_bytes = 0
        return taken

    cdef void expect(self) noexcept nogil:
        """Treat every socket as ready: the next `receive` asks each."""
        cdef int i
        for i in range(self.transports.count):
            (<ReceiveTransport> pointer_at(self.transports, i)).channel.ready = True

    cdef int receive(self, int64_t now_ns) noexcept nogil:
        """Receive datagrams of the sockets that are ready, into their images; return how many were taken."""
        cdef int i, work = 0
        cdef int spare = spare_turns(now_ns - self.received_ns)
        self.received_ns = now_ns
        for i in range(self.transports.count):
            if (<ReceiveTransport> pointer_at(self.transports, i)).channel.ready:
                work += self._poll(<ReceiveTransport> pointer_at(self.transports, i), &spare, now_ns)
        return work

    cdef int _poll(self, ReceiveTransport transport, int* spare, int64_t now_ns) noexcept nogil:
        cdef ReceiveItem items[RECEIVE_ITEMS]
        cdef int turn, count, i, work = 0
        cdef int64_t total = 0
        cdef uint32_t offset, length
        for turn in range(RECEIVE_TURNS + spare[0]):
            if turn >= RECEIVE_TURNS:
                spare[0] -= 1
            count = transport.channel.receive(items, RECEIVE_ITEMS)
            if count <= 0:
                break
            for i in range(count):
                offset = 0
                total += items[i].length_bytes
                transport.endpoint.arrival_time_ns = items[i].time_ns
                if items[i].length_bytes == 0:
                    count_event(self.system, COUNTER_INVALID_PACKETS, 1)
                while offset < items[i].length_bytes:
                    length = items[i].length_bytes - offset
                    if 0 < items[i].segment_length_bytes < length:
                        length = items[i].segment_length_bytes
                    work += self._dispatch(transport, items[i].data + offset, length, &items[i].source, now_ns)
                    offset += length
            if not transport.channel.ready:
                break
        if total > 0:
            count_event(self.system, COUNTER_BYTES_RECEIVED, total)
        return work

    cdef int _dispatch(self, ReceiveTransport transport, const uint8_t* datagram, uint32_t length,
                       const SocketAddress* source, int64_t now_ns) noexcept nogil:
        cdef int frame_type = classify(datagram, length)
        cdef void* found
        if self.events is not None and self.events.wants(EVENT_FRAME_IN):
            self.events.frame(EVENT_FRAME_IN, datagram, length, source)
        if frame_type == FRAME_DATA or frame_type == FRAME_PAD:
            found = transport.endpoint.sessions.get(
                pair_key(ordo_get_i32(datagram + SESSION_ID_OFFSET), ordo_get_i32(datagram + STREAM_ID_OFFSET)))
            if <size_t> found >= SESSION_MARKERS:
                self._on_data(transport, <PublicationImage> found, datagram, length, source, now_ns)
            elif found == NULL and datagram[FRAME_FLAGS_OFFSET] & FLAG_EOS == 0:
                self._on_unknown_data(transport, datagram, source, now_ns)
        elif frame_type == FRAME_SETUP:
            if setup_is_valid(datagram):
                self._on_setup(transport, datagram, source, now_ns)
            else:
                count_event(self.system, COUNTER_INVALID_PACKETS, 1)
        elif frame_type == FRAME_RTTM:
            self._on_rttm(transport, datagram, source, now_ns)
        elif frame_type == FRAME_INVALID:
            self._on_invalid(datagram, length, source)
        return 1

    cdef void _on_data(self, ReceiveTransport transport, PublicationImage image, const uint8_t* datagram,
                       uint32_t length, const SocketAddress* source, int64_t now_ns) noexcept nogil:
        cdef int taken = image.on_data(datagram, length, transport, source, now_ns)
        if taken == DATAGRAM_TAKEN:
            self.images.wake(image, now_ns)
        if taken != DATAGRAM_REFUSED and not image.is_confirmed and now_ns - image.created_ns >= CONFIRMED_AFTER_NS:
            image.is_confirmed = True
            self.admission.confirm(&image.setup_source)

    cdef void _on_invalid(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source) noexcept nogil:
        count_event(self.system, COUNTER_INVALID_PACKETS, 1)
        if has_mark(datagram, length):
            count_event(self.system, COUNTER_UNEXPECTED_ENCRYPTION, 1)
            self.encrypted_source = source[0]

    cdef void _on_unknown_data(self, ReceiveTransport transport, const uint8_t* datagram, const SocketAddress* source,
                               int64_t now_ns) noexcept nogil:
        """Ask for the SETUP of a session without an image, once a second (§5)."""
        cdef int32_t session_id = ordo_get_i32(datagram + SESSION_ID_OFFSET)
        cdef int32_t stream_id = ordo_get_i32(datagram + STREAM_ID_OFFSET)
        if transport.endpoint.streams.get(stream_id) == NULL:
            return
        if transport.endpoint.pending_count >= self.pending_max:
            count_event(self.system, COUNTER_PENDING_FULL, 1)
            return
        with gil:
            if not transport.endpoint.is_interested(session_id, stream_id):
                transport.endpoint.mark(session_id, stream_id, SESSION_NO_INTEREST)
                return
            transport.endpoint.mark(session_id, stream_id, SESSION_PENDING_SETUP, now_ns + PENDING_SETUP_NS)
            self.pending_endpoints[transport.endpoint] = None
        if transport.is_multicast:
            source = &transport.control
        transport.endpoint.request_setup(transport, source, session_id, stream_id)

    cdef void _on_setup(self, ReceiveTransport transport, const uint8_t* frame, const SocketAddress* source,
                        int64_t now_ns) noexcept nogil:
        cdef int32_t session_id = ordo_get_i32(frame + SETUP_SESSION_ID)
        cdef int32_t stream_id = ordo_get_i32(frame + SETUP_STREAM_ID)
        cdef void* found = transport.endpoint.sessions.get(pair_key(session_id, stream_id))
        cdef int refused
        if <size_t> found >= SESSION_MARKERS:
            if not (<PublicationImage> found).is_of_setup(frame):
                count_event(self.system, COUNTER_SETUPS_CONTRADICTING, 1)
                return
            (<PublicationImage> found).on_setup(transport, source, now_ns)
            self.images.wake(<PublicationImage> found, now_ns)
            return
        if (found != NULL and <size_t> found != SESSION_PENDING_SETUP) or transport.endpoint.streams.get(stream_id) == NULL:
            return
        if self.setup_count >= SETUPS_MAX:
            return                                  # the publisher repeats it
        if <size_t> transport.endpoint.streams.get(stream_id) != ANY_SESSION:
            with gil:
                if not transport.endpoint.is_interested(session_id, stream_id):
                    transport.endpoint.mark(session_id, stream_id, SESSION_NO_INTEREST)
                    return
        refused = self.admission.admit(source, ordo_get_i32(frame + SETUP_TERM_LENGTH), now_ns)
        if refused:
            count_event(self.system, refused, 1)
            return
        with gil:
            transport.endpoint.mark(session_id, stream_id, SESSION_INIT_IN_PROGRESS)
            self.setups.append(Setup(
                transport, (<const char*> source.storage)[:source.length_bytes], session_id, stream_id,
                ordo_get_i32(frame + SETUP_INITIAL_TERM_ID), ordo_get_i32(frame + SETUP_ACTIVE_TERM_ID),
                ordo_get_i32(frame + SETUP_TERM_OFFSET), ordo_get_i32(frame + SETUP_TERM_LENGTH),
                ordo_get_i32(frame + SETUP_MTU), ordo_get_i32(frame + SETUP_TTL), frame[FRAME_FLAGS_OFFSET]))
            self.setup_count = len(self.setups)

    cdef void _on_rttm(self, ReceiveTransport transport, const uint8_t* frame,
                       const SocketAddress* source, int64_t now_ns) noexcept nogil:
        """Return an RTTM request to the sender that measures the round trip, or take the reply to one of an image
        here."""
        cdef uint8_t reply[RTTM_LENGTH]
        cdef void* found
        if frame[FRAME_FLAGS_OFFSET] & RTTM_REPLY == 0:
            found = transport.endpoint.sessions.get(
                pair_key(ordo_get_i32(frame + RTTM_SESSION_ID), ordo_get_i32(frame + RTTM_STREAM_ID)))
            if <size_t> found >= SESSION_MARKERS and (
                    ordo_get_i64(frame + RTTM_RECEIVER_ID) == transport.endpoint.receiver_id
                    or ordo_get_i64(frame + RTTM_RECEIVER_ID) == 0):
                (<PublicationImage> found).on_rttm(transport, frame, source, now_ns)
            return
        put_rttm(reply, 0, ordo_get_i32(frame + RTTM_SESSION_ID), ordo_get_i32(frame + RTTM_STREAM_ID),
                 ordo_get_i64(frame + RTTM_ECHO_TIME), 0, ordo_get_i64(frame + RTTM_RECEIVER_ID))
        if transport.is_multicast:
            source = &transport.control
        transport.send_frame(reply, RTTM_LENGTH, source)

    cdef int conduct(self, int64_t now_ns) noexcept nogil:
        """Run one turn of every busy image and of a slice of the quiet ones; return how many had something to do."""
        cdef int i, work = 0
        cdef void* image
        for i in range(self.images.busy - 1, -1, -1):
            image = pointer_at(self.images, i)
            if not (<PublicationImage> image).rests(now_ns) and (<PublicationImage> image).conduct(now_ns):
                work += 1
            elif self.images.may_settle(i, now_ns) and (<PublicationImage> image).is_settled():
                self.images.settle(i)
        cdef int share = self.images.slice(now_ns - self.swept_ns)
        self.swept_ns = now_ns
        for i in range(share):
            self.cursor = self.images.next_quiet(self.cursor)
            if self.cursor < 0:
                break
            work += (<PublicationImage> pointer_at(self.images, self.cursor)).conduct(now_ns)
        return work

    cdef bint has_unread(self) noexcept nogil:
        cdef int i
        for i in range(self.images.busy):              # of the quiet ones all was read, or they would not be quiet
            if (<PublicationImage> pointer_at(self.images, i)).has_unread():
                return True
        return False

    cdef int64_t deadline_ns(self, int64_t now_ns) noexcept nogil:
        cdef int i
        cdef int64_t deadline = self.images.sweep_deadline_ns(now_ns), due
        for i in range(self.images.busy):
            due = (<PublicationImage> pointer_at(self.images, i)).deadline_ns(now_ns)
            if due < deadline:
                deadline = due
        return deadline
