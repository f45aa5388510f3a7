"""The native load of the benchmarks: echo sessions on one thread, with no Python object for a message."""

from libc.stdint cimport int64_t, uint8_t

from ordo.cluster.client.connection.loop cimport ClientLoop, MessageHandler
from ordo.runtime.native.clock cimport Clock
from ordo.transport.driver.media_driver cimport MediaDriver

cdef class EchoStream(MessageHandler):
    cdef readonly int64_t sent
    cdef readonly int64_t received
    cdef int64_t last                  # number of the last message to send
    cdef ClientLoop _loop
    cdef uint8_t* _payload
    cdef int64_t _length_bytes
    cdef int64_t[::1] _times_ns
    cdef int64_t _time_count
    cdef int fill(self, int64_t window) noexcept nogil
    cdef int poll(self) except -1

cdef class LoadRun:
    """Drives the streams of one thread through a number of messages."""
    cdef readonly int64_t left         # echoes that have not come yet
    cdef list _streams
    cdef MediaDriver _driver
    cdef Clock _clock
    cdef int64_t _window
    cdef object _tick
    cdef int64_t _now_ns
    cdef int64_t _tick_ns
    cdef int64_t _heard_ns
    cdef int _polled                   # the most that one session had at the last look
    cpdef int give(self) except -1
    cpdef int rest(self) except -1
    cpdef int take(self) except -1
