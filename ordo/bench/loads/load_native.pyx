"""The native load of the benchmarks. See load_native.pxd.

A message begins with its number in its session and the time at which it left (i64 each), and is zeros behind that.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from ordo.cluster.client.connection.loop cimport ClientLoop, MessageHandler
from ordo.runtime.native.atomics cimport ordo_get_i64, ordo_monotonic_ns, ordo_put_i64, sched_yield
from ordo.runtime.native.clock cimport Clock
from ordo.transport.driver.media_driver cimport MediaDriver

from array import array

from ordo.runtime.errors import ClusterTimeoutError

HEAD_LENGTH = 16

cdef enum:
    SPIN_NS = 100000                   # so long behind an echo it gives its core away instead of parking
    PAYLOAD_TIME = 8                   # after the number
    POLL_LIMIT = 4096
    PARK_NS = 1000000
    TICK_NS = 1000000

cdef int64_t SILENCE_NS = 20000000000


cdef class EchoStream(MessageHandler):
    """One session: numbers what it sends, and checks that every echo comes once and in order."""

    def __cinit__(self, int64_t length_bytes):
        if length_bytes < HEAD_LENGTH:
            raise ValueError(f"length_bytes={length_bytes}: at least {HEAD_LENGTH}")
        self._payload = <uint8_t*> PyMem_Malloc(length_bytes)
        if self._payload == NULL:
            raise MemoryError
        memset(self._payload, 0, length_bytes)
        self._length_bytes = length_bytes
        self._times_ns = array("q", [0])

    def __dealloc__(self):
        PyMem_Free(self._payload)

    def attach(self, ClientLoop loop not None):
        """`loop` is that of the client whose `on_message` this is."""
        self._loop = loop

    def measure(self, int64_t[::1] times_ns not None):
        """Round trips in ns go into `times_ns`, from its beginning, as far as it reaches."""
        self._times_ns = times_ns
        self._time_count = 0

    cdef int fill(self, int64_t window) noexcept nogil:
        """Sends what the window has room for, up to the last message: how many."""
        cdef int count = 0
        while self.sent < self.last and self.sent - self.received < window:
            ordo_put_i64(self._payload, self.sent + 1)
            ordo_put_i64(self._payload + PAYLOAD_TIME, ordo_monotonic_ns())
            if self._loop.offer_native(self._payload, self._length_bytes) <= 0:
                break
            self.sent += 1
            count += 1
        return count

    cdef int poll(self) except -1:
        """Takes the echoes that are there: how many."""
        cdef int64_t before = self.received
        self._loop.poll_egress(POLL_LIMIT)
        return <int> (self.received - before)

    cdef int on_message(self, int64_t session_id, int64_t timestamp, const uint8_t* payload,
                        int64_t length_bytes) except -1:
        if length_bytes != self._length_bytes or ordo_get_i64(payload) != self.received + 1:
            raise ClusterTimeoutError(
                f"an echo of {length_bytes} bytes, expected number {self.received + 1}: messages were lost")
        self.received += 1
        if self._time_count < self._times_ns.shape[0]:
            self._times_ns[self._time_count] = ordo_monotonic_ns() - ordo_get_i64(payload + PAYLOAD_TIME)
            self._time_count += 1
        return 0


cdef class LoadRun:
    """`count` messages and their echoes in each session, up to `window` on the way in each.

    `tick()` is called every millisecond or so, to keep the sessions alive. One turn is `rest`, `take`, `give`.
    """

    def __init__(self, list streams not None, MediaDriver driver not None, Clock clock not None, int64_t count,
                 int64_t window, tick):
        cdef EchoStream stream
        self._streams = streams
        self._driver = driver
        self._clock = clock
        self._window = window
        self._tick = tick
        self.left = count * len(streams)
        self._now_ns = self._heard_ns = clock.nano_time()
        self._tick_ns = self._now_ns + TICK_NS
        for stream in streams:
            stream.last = stream.sent + count

    cpdef int give(self) except -1:
        """Sends what the window has room for."""
        cdef EchoStream stream
        cdef int sent = 0
        for stream in self._streams:
            sent += stream.fill(self._window)
        if sent:
            with nogil:
                self._driver.send_work(self._now_ns)
        return sent

    cpdef int rest(self) except -1:
        """Waits for datagrams, unless there may be more echoes than were taken."""
        if self._polled < POLL_LIMIT:
            with nogil:
                self._driver.park_until(self._clock.nano_time(), PARK_NS)
        return 0

    cpdef int take(self) except -1:
        """Runs the transport and takes the echoes that have come. Raises ClusterTimeoutError when none comes."""
        cdef EchoStream stream
        cdef int64_t before = self.left
        self._now_ns = self._clock.nano_time()
        self._driver.do_work(self._now_ns)
        self.left, self._polled = 0, 0
        for stream in self._streams:
            self._polled = max(self._polled, stream.poll())
            self.left += stream.last - stream.received      # `tick` may have taken some, too
        if self.left < before:
            self._heard_ns = self._now_ns
        elif self._now_ns - self._heard_ns > SILENCE_NS:
            raise ClusterTimeoutError(f"no echo for {SILENCE_NS // 10**9} s: {self.left} messages are missing")
        if self._now_ns >= self._tick_ns:
            self._tick()
            self._tick_ns = self._now_ns + TICK_NS
        return 0

    def run(self):
        """Sends everything and takes every echo; ns it took."""
        cdef int64_t start_ns = self._clock.nano_time()
        while self.left > 0:
            self.give()
            if self._now_ns - self._heard_ns < SPIN_NS:
                with nogil:
                    sched_yield()
            else:
                self.rest()
            self.take()
        return self._clock.nano_time() - start_ns
