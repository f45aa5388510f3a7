"""For services written in Cython: the message callback without Python objects."""

from libc.stdint cimport int64_t, uint8_t

cdef class NativeSession:
    """A client session as the container sees it; `offer_native` answers a position or a negative result code."""
    cdef readonly int64_t id
    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil

cdef class NativeClusteredService:
    """Subclass in Cython and implement `on_message`; the other callbacks stay the Python ones of ClusteredService."""
    cdef int on_message(self, NativeSession session, int64_t timestamp, const uint8_t* payload, int64_t length_bytes,
                        int64_t position) except -1
