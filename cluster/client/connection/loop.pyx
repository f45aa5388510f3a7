"""The native half of the cluster client. See loop.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ordo.cluster.wire.layout cimport (
    ANSWER_FIRST_BLOCK,
    ANSWER_ID,
    ANSWER_LENGTH,
    ANSWER_LOG_POSITION,
    ANSWER_NUMBER,
    ANSWER_OPEN_POSITION,
    ANSWER_SEQUENCE,
    ANSWER_STATUS,
    SBE_HEADER_LENGTH,
    SESSION_HEADER_LENGTH,
    SESSION_HEADER_SESSION_ID,
    SESSION_HEADER_TIMESTAMP,
    SESSION_MESSAGE_HEADER_ID,
    ordo_template_id,
    put_session_header,
    template_id,
)
from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_i64, ordo_get_u16
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.runtime.agents.use cimport Use
from ordo.service_api.service import OfferResult
from ordo.transport.streams.image cimport Assembler, Fragment, Image
from ordo.transport.streams.logbuffer cimport (ADMIN_ACTION, BACK_PRESSURED, CLOSED, MAX_POSITION_EXCEEDED, MESSAGE_TOO_LONG,
                                  NOT_CONNECTED)
from ordo.transport.streams.publication cimport ExclusivePublication
from ordo.transport.streams.subscription cimport Subscription

from ordo.cluster.wire.sessions.message_limit import describe_too_long
from ordo.runtime.errors import ClusterError, SessionClosedError, TransportError
from ordo.runtime.payloads import to_bytes, view_of
from ordo.transport.client.client_transport import ClientTransport

cdef enum:
    ADMIN_ACTION_ATTEMPTS = 3
    KEPT_OVERHEAD_BYTES = 64           # of a message that is kept, whatever its length
    UNSENT_MAX = 32                    # offers after which the transport runs without being polled
    NO_ROOM = -7                       # OfferResult.NO_ROOM
    MESSAGE_BYTES_MAX = 1 << 30        # until the cluster has said what its log takes
    DRIVE_INTERVAL_NS = 1000000        # a client that only sends runs the whole transport so often
    UNHEARD_NS = 1000000000            # after such a stop a client looks around before it sends


cdef class MessageHandler:
    cdef int on_message(self, int64_t session_id, int64_t timestamp, const uint8_t* payload,
                        int64_t length_bytes) except -1:
        raise NotImplementedError(type(self).__name__)


cdef class ClientLoop:
    def __init__(self, on_message, on_event, on_offered):
        """`on_message(session_id, timestamp, payload)` gets what the service sends, or is a MessageHandler;
        `on_event(message, image)` gets every other egress message, `on_offered(result)` is called when the transport
        should run, or refused an offer."""
        self._on_message = on_message
        self._handler = on_message if isinstance(on_message, MessageHandler) else None
        self._on_event = on_event
        self._on_offered = on_offered
        self.use = Use("cluster-client")
        self._session_id = -1
        self._message_bytes_max = MESSAGE_BYTES_MAX
        self._images = ()
        self._assemblers = []
        self._payloads = NativeVector(1)
        self._lengths = NativeVector(sizeof(int64_t))
        self._timestamps = NativeVector(sizeof(int64_t))

    # For the Python half

    def set_transport(self, transport):
        """What `drive` and `flush` run: a ClientTransport. One that has a `drive` of its own is run through that."""
        self.use = transport.use
        self._client = transport.client
        self._clock = transport.clock
        self._driver = transport.driver
        self._drive = None if type(transport).drive is ClientTransport.drive else transport.drive

    def set_ingress(self, ExclusivePublication publication):
        """Where offers go; with None they return CLOSED."""
        self._ingress = publication
        self._ingress_lost = False

    def set_room(self, bint has_room):
        """Whether the leader takes messages; while it does not, offers return NO_ROOM."""
        self._no_room = not has_room

    def set_message_bytes_max(self, int64_t length_bytes):
        """The longest message that the cluster's log takes, with its header."""
        self._message_bytes_max = length_bytes

    def set_egress(self, Subscription subscription not None):
        self._egress = subscription

    def set_session(self, int64_t leadership_term_id, int64_t session_id):
        """What the header of every message says; the timestamp of a client's message is 0."""
        self._session_id = session_id
        put_session_header(self._header, leadership_term_id, session_id, 0)

    def set_on_answer(self, on_answer):
        """`on_answer(open_position, number, log_position, status, payload, sequence)` gets the answers to requests;
        `sequence` is 0 where it is not known."""
        self._on_answer = on_answer

    def keep_messages(self, kept, int64_t bytes_max):
        """Messages of `offer` are appended to a deque, to be taken with `take_kept`; beyond `bytes_max` of them an
        offer is refused as BACK_PRESSURED."""
        self._kept = kept
        self._kept_bytes_max = bytes_max

    def set_on_messages(self, on_messages):
        """`on_messages(session_id, timestamps, lengths, payloads)` gets what the service sends, many at a time, in place
        of `on_message`."""
        self._on_messages = on_messages

    def set_work(self, on_tick, on_poll):
        """`on_tick(now_ns)` is called by `poll` once it is `next_tick_ns`, `on_poll(now_ns)` every time, unless None."""
        self._on_tick = on_tick
        self._on_poll = on_poll

    def note_sent(self, int count=1):
        """Messages were sent by other means than `offer`."""
        self._sent += count
        self._note_unsent(count)

    def take_ingress_lost(self):
        """True when an offer found the ingress closed or not connected since the last call."""
        lost, self._ingress_lost = self._ingress_lost, False
        return lost

    def note_ingress_lost(self):
        """The ingress was found closed or not connected by something else than an offer."""
        self._ingress_lost = True

    @property
    def is_in_callback(self):
        """True while a callback of `poll_egress` runs, which hands out nothing more meanwhile."""
        return self._polling

    def take_sent(self):
        """The number of messages offered since the last call."""
        sent, self._sent = self._sent, 0
        return sent

    def reset_assemblies(self, Image but):
        """Forgets messages of which only the beginning has come, on every image but one."""
        for image, assembler in zip(self._images, self._assemblers):
            if image is not but:
                (<Assembler> assembler).reset()

    # Hot

    def offer(self, payload):
        """Sends one message (bytes or anything with a buffer). Never blocks.

        Returns a position > 0: taken, not yet sequenced; or an OfferResult: BACK_PRESSURED (poll and try again),
        NOT_CONNECTED and CLOSED while there is no leader to send to, NO_ROOM while the cluster's disks are full,
        MESSAGE_TOO_LONG. Raises SessionClosedError when the session is over.
        """
        cdef int64_t result = self._offer(payload)
        if self.unsent >= UNSENT_MAX or result < 0:
            self._on_offered(result)
        return result if result > 0 else OfferResult(result)

    cdef int64_t _offer_kept(self, bytes payload) except? -1:
        """Offers what is kept until it is known to be in the log, or not."""
        cdef int64_t cost = PyBytes_GET_SIZE(payload) + KEPT_OVERHEAD_BYTES
        cdef int64_t result
        if self.kept_bytes + cost > self._kept_bytes_max and self.kept_bytes > 0:
            return BACK_PRESSURED
        result = self.offer_native(<const uint8_t*> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
        if result > 0:
            self._kept.append(payload)
            self.kept_bytes += cost
        return result

    def describe_too_long(self, what, payload):
        """Return what to say of a message that is MESSAGE_TOO_LONG."""
        ingress_bytes_max = self._message_bytes_max if self._ingress is None else self._ingress.max_message_length
        return describe_too_long(what, memoryview(payload).nbytes, SESSION_HEADER_LENGTH, self._message_bytes_max,
                                 ingress_bytes_max)

    def take_kept(self):
        """The oldest message that is kept, which is kept no longer."""
        payload = self._kept.popleft()
        self.kept_bytes -= PyBytes_GET_SIZE(<bytes> payload) + KEPT_OVERHEAD_BYTES
        return payload

    def offer_many(self, payloads):
        """Sends messages in order, all at once, and returns how many were taken. Never blocks.

        Fewer than all when there is no room, or no leader to send to: poll, and offer the rest. Raises ClusterError for
        a message that is too long, SessionClosedError when the session is over; those before it were taken.
        """
        cdef int64_t result = 1
        cdef Py_ssize_t count = 0
        for payload in payloads:
            result = self._offer(payload)
            if result < 0:
                break
            count += 1
        if self.unsent:
            self.flush()
        if result == MESSAGE_TOO_LONG:
            told = self.describe_too_long(f"message {count} of those offered", payload)
            raise ClusterError(f"{told}; the {count} before it were taken")
        if result < 0:
            self._on_offered(result)
        return count

    def send(self, payload):
        """Offers a message and sends it at once: a position, or a negative result code.

        0: nothing was offered, since this client did not run for a while; what it knows may no longer hold.
        """
        cdef int64_t result
        if self.driven_ns and not self._polling and self._clock.nano_time() - self.driven_ns > UNHEARD_NS:
            return 0
        result = self._offer(payload)
        if result > 0:
            self.flush()
        return result

    cdef int64_t _offer(self, payload) except? -100:
        cdef const uint8_t[::1] view
        self.use.check()
        if self._kept is not None:
            return self._offer_kept(to_bytes(payload))
        if PyBytes_CheckExact(payload):
            return self.offer_native(<const uint8_t*> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
        view = view_of(payload)
        return self.offer_native(&view[0] if view.shape[0] > 0 else NULL, view.shape[0])

    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil:
        cdef int64_t result = ADMIN_ACTION
        cdef int attempt = 0
        if self._ingress is None:
            return CLOSED
        if self._no_room:
            return NO_ROOM
        if length_bytes > self._message_bytes_max - SESSION_HEADER_LENGTH:
            return MESSAGE_TOO_LONG
        while result == ADMIN_ACTION and attempt < ADMIN_ACTION_ATTEMPTS:
            result = self._ingress.append(self._header, SESSION_HEADER_LENGTH, payload, length_bytes)
            attempt += 1
        if result > 0:
            self._sent += 1
            self._note_unsent(1)
        elif result == NOT_CONNECTED or result == CLOSED:
            self._ingress_lost = True
        elif result == MAX_POSITION_EXCEEDED:        # the stream is used up: another one is opened
            self._ingress_lost = True
            return CLOSED
        return result

    cdef void _note_unsent(self, int count) noexcept nogil:
        self.unsent += count
        if self._driver is not None:
            self._cycle_unsent = self._driver.cycle_count

    cpdef int64_t drive(self) except -1:
        """One duty cycle of the transport: the time at which it began, monotonic ns."""
        self.enter()
        try:
            if self._drive is not None:
                self.unsent = 0
                return self._drive()
            return self.run_transport()
        finally:
            self.leave()

    cpdef int64_t run_transport(self) except -1:
        """Run `drive` for a caller that has the transport already."""
        cdef int64_t now_ns = self._clock.nano_time()
        self.unsent = 0
        self.driven_ns = now_ns
        self._client.do_work(now_ns)       # before its driver, which looks at the client's heartbeat
        if self._driver is not None:
            self._driver.do_work(now_ns)
            self._cycle_seen = self._driver.cycle_count
        elif self._client.waker is not None:
            self._client.waker.wake()
        return now_ns

    cdef int64_t _drive_unless_driven(self) except -1:
        """`drive`, unless another client of the same transport has done so since, and since this one offered something:
        hundreds that are polled in turn would run it hundreds of times."""
        cdef int64_t cycle
        if self._driver is None:
            return self.drive()
        cycle = self._driver.cycle_count
        if cycle == self._cycle_seen or (self.unsent and cycle == self._cycle_unsent):
            return self.drive()
        self._cycle_seen = cycle
        self.unsent = 0
        self.driven_ns = self._clock.nano_time()
        return self.driven_ns

    # One transport, several threads: the application's, one that keeps the session while the application is elsewhere,
    # and one that closes the client. The keeper gives way at once.

    cpdef int enter(self) except -1:
        """The calling thread takes the transport; one that has it is about to give it back.

        Raises ForkedError in a process that was forked from the client's, and SessionClosedError after the end.
        """
        try:
            self.use.enter()
        except TransportError:             # closed, while this thread waited for its turn
            raise SessionClosedError("the client is closed; open another one") from None
        if self.is_ended and self.use.depth == 1:
            self.use.leave()
            raise SessionClosedError("the client is closed; open another one")
        return 0

    cpdef int leave(self) except -1:
        """The end of what `enter` began."""
        return self.use.leave()

    def mark_ended(self):
        """The client is closed, or about to be: no call begins any more."""
        self.is_ended = True

    def begin_keeping(self):
        """The keeper's thread takes the transport: False while the application has it."""
        return not self.is_ended and self.use.try_enter()

    def end_keeping(self):
        """The keeper gives the transport back."""
        self.use.leave()

    cpdef int flush(self) except -1:
        """Sends what was offered; nothing is received, unless the transport has not run for DRIVE_INTERVAL_NS."""
        cdef int64_t now_ns
        if self._drive is not None:
            self.drive()
            return 0
        if self._driver is None:
            self.unsent = 0
            if self._client.waker is not None:
                self._client.waker.wake()
            return 0
        now_ns = self._clock.nano_time()
        if now_ns - self.driven_ns >= DRIVE_INTERVAL_NS:
            self.drive()
            return 0
        self.enter()
        self.unsent = 0
        with nogil:
            self._driver.send_work(now_ns)
        self.leave()
        return 0

    def poll(self, int limit):
        """Runs the transport, hands out up to `limit` messages, and does what is due by time. Returns their number."""
        cdef int64_t before_ns = self.driven_ns, now_ns
        cdef int count
        self.enter()
        try:
            now_ns = self._drive_unless_driven()
            if before_ns and now_ns - before_ns > self.longest_stop_ns:
                self.longest_stop_ns = now_ns - before_ns
            count = self.poll_egress(limit)
            if now_ns >= self.next_tick_ns:
                self._on_tick(now_ns)
            if self._on_poll is not None:
                self._on_poll(now_ns)
                if self.unsent:
                    self.flush()
        finally:
            self.leave()
        return count

    cpdef int poll_egress(self, int limit) except -1:
        """Hands out up to `limit` messages; their number."""
        cdef int count = 0
        cdef Py_ssize_t i
        if self._egress is None or self._polling:
            return 0
        if self._egress.images is not self._images:
            self._follow_images()
        for i in range(len(self._images)):
            if count >= limit:
                break
            count += self._poll_image(<Image> self._images[i], <Assembler> self._assemblers[i], limit - count)
        return count

    cdef int _follow_images(self) except -1:
        known = dict(zip(self._images, self._assemblers))
        self._images = self._egress.images
        self._assemblers = [known.get(image) or Assembler() for image in self._images]
        return 0

    cdef int _poll_image(self, Image image, Assembler assembler, int limit) except -1:
        cdef Fragment fragment
        cdef int count = 0
        self._polling = True
        try:
            while count < limit and assembler.peek(image, &fragment) == 1:
                assembler.consume(image, &fragment)
                count += 1
                self._take(fragment.payload, fragment.length_bytes, image)
            if self._lengths.count:
                self._hand_out()
        finally:
            self._polling = False
            image.publish_position()
        return count

    cdef int _take(self, const uint8_t* message, int64_t length_bytes, Image image) except -1:
        cdef int template = template_id(message, length_bytes)
        cdef int64_t prefix
        if template != SESSION_MESSAGE_HEADER_ID or length_bytes < SESSION_HEADER_LENGTH:
            if self._lengths.count:
                self._hand_out()             # what came before it is handed out before it
            if self._on_answer is not None and ordo_template_id(message, length_bytes) == ANSWER_ID \
                    and ordo_get_u16(message) >= ANSWER_FIRST_BLOCK:
                return self._take_answer(message, length_bytes)
            self._on_event(PyBytes_FromStringAndSize(<const char*> message, length_bytes), image)
            return 0
        if ordo_get_i64(message + SESSION_HEADER_SESSION_ID) != self._session_id:
            return 0
        prefix = SBE_HEADER_LENGTH + ordo_get_u16(message)
        if prefix > length_bytes:
            return 0
        if self._handler is not None:
            return self._handler.on_message(self._session_id, ordo_get_i64(message + SESSION_HEADER_TIMESTAMP),
                                            message + prefix, length_bytes - prefix)
        if self._on_messages is not None:
            return self._collect(ordo_get_i64(message + SESSION_HEADER_TIMESTAMP), message + prefix,
                                 length_bytes - prefix)
        self._on_message(self._session_id, ordo_get_i64(message + SESSION_HEADER_TIMESTAMP),
                         PyBytes_FromStringAndSize(<const char*> message + prefix, length_bytes - prefix))
        return 0

    cdef int _collect(self, int64_t timestamp, const uint8_t* payload, int64_t length_bytes) except -1:
        """Keeps one message for `_hand_out`."""
        cdef int64_t used = self._payloads.count
        self._payloads.reserve(used + length_bytes)
        if length_bytes:
            memcpy(<uint8_t*> self._payloads.items + used, payload, length_bytes)
        self._payloads.count = used + length_bytes
        (<int64_t*> self._timestamps.append())[0] = timestamp
        (<int64_t*> self._lengths.append())[0] = length_bytes
        return 0

    cdef int _hand_out(self) except -1:
        timestamps, lengths = _numbers(self._timestamps), _numbers(self._lengths)
        payloads = PyBytes_FromStringAndSize(<const char*> self._payloads.items, self._payloads.count)
        for vector in (self._timestamps, self._lengths, self._payloads):
            (<NativeVector> vector).truncate(0)
        self._on_messages(self._session_id, timestamps, lengths, payloads)
        return 0

    cdef int _take_answer(self, const uint8_t* message, int64_t length_bytes) except -1:
        cdef int64_t prefix = SBE_HEADER_LENGTH + ordo_get_u16(message)
        cdef int64_t log_position = ordo_get_i64(message + ANSWER_LOG_POSITION)
        cdef int64_t sequence = 0           # members of earlier releases do not tell it
        if ordo_get_i64(message + SESSION_HEADER_SESSION_ID) != self._session_id:
            return 0
        if log_position > self.answered_position:
            self.answered_position = log_position
        if prefix > length_bytes:
            return 0
        if prefix >= ANSWER_LENGTH:
            sequence = ordo_get_i64(message + ANSWER_SEQUENCE)
        self._on_answer(
            ordo_get_i64(message + ANSWER_OPEN_POSITION), ordo_get_i64(message + ANSWER_NUMBER),
            log_position, ordo_get_i32(message + ANSWER_STATUS),
            PyBytes_FromStringAndSize(<const char*> message + prefix, length_bytes - prefix), sequence)
        return 0


def _numbers(NativeVector numbers):
    return memoryview(PyBytes_FromStringAndSize(<const char*> numbers.items, 8 * numbers.count)).cast("q")
