"""The many-to-one ring buffer of commands, clients to driver (cnc-and-driver-protocol.md §3)."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.runtime.native.memory cimport Memory

cdef enum:
    RING_TRAILER_LENGTH = 768
    RING_TAIL = 128
    RING_HEAD_CACHE = 256
    RING_HEAD = 384
    RING_CORRELATION = 512
    RING_HEARTBEAT = 640
    RECORD_TYPE = 4                            # offset of the type, after the length
    RECORD_HEADER_LENGTH = 8
    RECORD_ALIGNMENT = 8
    RECORD_PADDING = -1
    RING_INSUFFICIENT = -2

cdef inline int64_t align_record(int64_t length) noexcept nogil:
    return (length + RECORD_ALIGNMENT - 1) & ~7LL

@cython.final
cdef class ManyToOneRing:
    """Any number of producers in any process, one consumer. Records never wrap; a padding record ends the ring."""
    cdef Memory _memory
    cdef uint8_t* buffer
    cdef uint8_t* trailer
    cdef int64_t mask
    cdef readonly int64_t capacity             # bytes, a power of two
    cdef readonly int32_t max_message_length   # bytes of payload: capacity / 8
    # index of the record, whose payload is 8 bytes behind it, or RING_INSUFFICIENT
    cpdef int64_t claim(self, int32_t type_id, int32_t length) noexcept nogil
    cpdef void commit(self, int64_t index) noexcept nogil
    cpdef void abort(self, int64_t index) noexcept nogil
    cpdef int64_t next_correlation_id(self) noexcept nogil
    cpdef bint has_message(self) noexcept nogil            # consumer: a committed record waits at the head
    cdef int64_t _reserve(self, int64_t required, int64_t* padding_index, int64_t* padding) noexcept nogil
