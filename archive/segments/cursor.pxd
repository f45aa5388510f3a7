"""Bytes of a recording by position, whichever segment file they are in."""

from libc.stdint cimport int64_t, uint8_t
from ordo.archive.segments.frames cimport Layout
from ordo.runtime.io.storage cimport SegmentFile

cdef class SegmentCursor:
    """A reader at positions that keeps the segment file of the last read open."""
    cdef Layout layout
    cdef readonly int64_t recording_id
    cdef readonly str directory
    cdef object _storage
    cdef SegmentFile _file
    cdef int64_t _file_base
    # bytes read, never past the end of the segment (0 past the end of a short file), or -errno; -ENOENT: no such file
    cdef int64_t read(self, uint8_t* data, int64_t length_bytes, int64_t position) noexcept nogil
    cdef int _open(self, int64_t base) noexcept with gil
    cpdef str path_of(self, int64_t position)
    cpdef void forget(self)
