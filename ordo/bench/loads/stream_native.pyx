"""Two ends of a pair of streams, without a cluster: what the transport alone can do.

A message begins with its number and a flag (i64 each), and is zeros behind that. The far end sends a message with a
flag back, with the count of all that it has received in the place of the number: a lost message shows there.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from ordo.runtime.agents.agent cimport Agent
from ordo.runtime.native.atomics cimport ordo_get_i64, ordo_monotonic_ns, ordo_put_i64, sched_yield
from ordo.transport.driver.media_driver cimport MediaDriver
from ordo.transport.streams.image cimport Assembler, Fragment, Image
from ordo.transport.streams.publication cimport Publication
from ordo.transport.streams.subscription cimport Subscription

from ordo.runtime.errors import TransportError

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int microseconds)

HEAD_LENGTH = 16
BATCH_BYTES = 65536
BATCH_MAX = 256

cdef enum:
    POLL_LIMIT = 256
    HEAD = 16
    PAYLOAD_FLAG = 8                   # after the number
    FLAG = 1
    CHORE_NS = 1000000
    QUIET_NS = 5000000
    QUIET_US = 1000

cdef int64_t SILENCE_NS = 10000000000


cdef class StreamPeer:
    """One end. `client` may share its thread with its `driver`; None is the driver of another process."""

    cdef Agent _client
    cdef MediaDriver _driver
    cdef Subscription _subscription
    cdef Publication _publication
    cdef Image _image
    cdef Assembler _assembler
    cdef uint8_t* _payload
    cdef int64_t _payload_bytes
    cdef int64_t _now_ns
    cdef int64_t _chore_ns
    cdef int64_t _answer
    cdef readonly int64_t sent
    cdef readonly int64_t received

    def __init__(self, int64_t length_bytes_max, Agent client not None, MediaDriver driver,
                 Subscription subscription not None, Publication publication not None):
        self._payload_bytes = max(length_bytes_max, HEAD_LENGTH)
        PyMem_Free(self._payload)
        self._payload = <uint8_t*> PyMem_Malloc(self._payload_bytes)
        if self._payload == NULL:
            raise MemoryError
        memset(self._payload, 0, self._payload_bytes)
        self._client = client
        self._driver = driver
        self._subscription = subscription
        self._publication = publication
        self._assembler = Assembler()

    def __dealloc__(self):
        PyMem_Free(self._payload)

    cpdef int cycle(self) except -1:
        """Runs driver and client once; the client's chores once a millisecond."""
        self._hear()
        return self._work()

    cdef int _hear(self) noexcept:
        """What has come is in the images behind this: it is looked at first, as a node does, and `_work` does the rest."""
        self._now_ns = ordo_monotonic_ns()
        if self._driver is not None:
            self._driver.look(self._now_ns)
            self._driver.receive_work(self._now_ns)
        return 0

    cdef int _work(self) except -1:
        if self._driver is not None:
            self._driver.conduct_and_send_work(self._now_ns)
        if self._now_ns >= self._chore_ns:
            self._client.do_work(self._now_ns)
            self._chore_ns = self._now_ns + CHORE_NS
        return 0

    cdef bint _has_image(self):
        if self._image is None and self._subscription.images:
            self._image = self._subscription.images[0]
        return self._image is not None

    cdef int64_t _append(self, int64_t number, int64_t flag, int64_t length_bytes) noexcept nogil:
        ordo_put_i64(self._payload, number)
        ordo_put_i64(self._payload + PAYLOAD_FLAG, flag)
        return self._publication.append(self._payload, length_bytes, NULL, 0)

    def serve(self, int64_t duration_ns):
        """Counts what comes, and sends back what has a flag, for this long."""
        cdef int64_t end_ns = ordo_monotonic_ns() + duration_ns
        cdef int64_t heard_ns = 0
        cdef int64_t before
        self.cycle()
        while self._now_ns < end_ns:
            self._hear()
            before = self.received
            if self._has_image() and self._take():
                self._send()
            self._work()
            if self.received > before:
                heard_ns = self._now_ns
            elif self._now_ns - heard_ns > QUIET_NS:
                usleep(QUIET_US)
            else:
                sched_yield()

    cdef int _send(self) noexcept:
        if self._driver is not None:
            self._driver.send_work(self._now_ns)
        return 0

    cdef int _take(self) except -1:
        """Takes up to a batch of messages. Returns how many were answered."""
        cdef Fragment fragment
        cdef int answered = 0
        cdef int _
        try:
            for _ in range(POLL_LIMIT):
                if not self._assembler.peek(self._image, &fragment):
                    break
                if fragment.length_bytes < HEAD:
                    raise TransportError(f"a message of {fragment.length_bytes} bytes, expected at least {HEAD_LENGTH}")
                self.received += 1
                if ordo_get_i64(fragment.payload + PAYLOAD_FLAG) == FLAG:
                    self._return(&fragment)
                    answered += 1
                self._assembler.consume(self._image, &fragment)
        finally:
            self._image.publish_position()
        return answered

    cdef int _return(self, const Fragment* fragment) except -1:
        cdef int64_t deadline_ns = self._now_ns + SILENCE_NS
        cdef uint8_t count[8]
        ordo_put_i64(count, self.received)
        while self._publication.append(count, 8, fragment.payload + 8, fragment.length_bytes - 8) <= 0:
            self.cycle()
            if self._now_ns > deadline_ns:
                raise TransportError(f"an answer found no room for {SILENCE_NS // 10**9} s")
        return 0

    cdef int _poll_answer(self) except -1:
        """Takes an answer, if there is one: 1."""
        cdef Fragment fragment
        if not self._has_image() or not self._assembler.peek(self._image, &fragment):
            return 0
        self._answer = ordo_get_i64(fragment.payload) if fragment.length_bytes >= HEAD else -1
        self._assembler.consume(self._image, &fragment)
        self._image.publish_position()
        return 1

    cdef int _ask(self, int64_t length_bytes) except -1:
        """Sends a message with a flag and waits for its answer."""
        cdef int64_t deadline_ns
        self._now_ns = ordo_monotonic_ns()
        deadline_ns = self._now_ns + SILENCE_NS
        while self._append(self.sent, FLAG, length_bytes) <= 0:
            self.cycle()
            if self._now_ns > deadline_ns:
                raise TransportError(f"message {self.sent} found no room for {SILENCE_NS // 10**9} s")
        self.sent += 1
        self._send()
        while True:
            self._work()
            self._hear()
            if self._poll_answer():
                break
            if self._now_ns > deadline_ns:
                raise TransportError(f"no answer for {SILENCE_NS // 10**9} s")
            sched_yield()
        if self._answer != self.sent:
            raise TransportError(f"the far end received {self._answer} messages, expected {self.sent}")
        return 0

    def await_all(self, int64_t length_bytes, int64_t count=0):
        """Waits until the far end says that it has received everything; `count` is what was offered from Python."""
        self.sent += count
        self._ask(length_bytes)

    def round_trips(self, int64_t length_bytes, int64_t duration_ns, int64_t[::1] times_ns not None):
        """Fills `times_ns` with round trips for this long, one message on the way. Returns how many."""
        cdef int64_t start_ns = ordo_monotonic_ns()
        cdef int64_t end_ns = start_ns + duration_ns
        cdef Py_ssize_t count = 0
        cdef int64_t now_ns
        self._check(length_bytes)
        while start_ns < end_ns and count < times_ns.shape[0]:
            self._ask(length_bytes)
            now_ns = ordo_monotonic_ns()
            times_ns[count] = now_ns - start_ns
            start_ns = now_ns
            count += 1
        return count

    def stream(self, int64_t length_bytes, int64_t duration_ns):
        """Sends for this long, as fast as it goes. Returns messages and the ns until the far end had all of them."""
        cdef int64_t start_ns = ordo_monotonic_ns()
        cdef int64_t end_ns = start_ns + duration_ns
        cdef int64_t before = self.sent
        cdef int64_t batch = max(1, min(<int64_t> BATCH_MAX, <int64_t> BATCH_BYTES // length_bytes))
        cdef int64_t i
        self._check(length_bytes)
        self._now_ns = start_ns
        while self._now_ns < end_ns:
            for i in range(batch):
                if self._append(self.sent, 0, length_bytes) <= 0:
                    break
                self.sent += 1
            else:
                i = batch
            if i == 0:
                sched_yield()
            self.cycle()
        self._ask(length_bytes)
        return self.sent - before, ordo_monotonic_ns() - start_ns

    cdef int _check(self, int64_t length_bytes) except -1:
        if not HEAD <= length_bytes <= self._payload_bytes:
            raise ValueError(f"length_bytes={length_bytes}: {HEAD_LENGTH} to {self._payload_bytes} are allowed")
        return 0
