"""The scan that walks recorded frames and checks every one."""

from libc.stdint cimport int64_t, uint8_t
from ordo.archive.segments.cursor cimport SegmentCursor

cdef struct ScanResult:
    int64_t end_position           # after the last good frame
    int64_t frame_count            # good frames, PAD included
    int64_t last_position          # of the last good frame, -1: none
    bint last_is_padding
    int fault                      # why it stopped: FAULT_NONE at the end asked for
    int64_t frame_offset           # of the faulty frame in the buffer, -1 when its bytes are not there

cdef class FrameScanner:
    """A scanner that checks the frames of a recording natively, a block at a time."""
    cdef readonly SegmentCursor cursor
    cdef uint8_t* buffer
    cdef int64_t capacity_bytes
    cdef ScanResult result
    cdef void scan(self, int64_t from_position, int64_t to_position) noexcept nogil
    cdef int64_t _read_pages(self, int64_t length, int64_t position) noexcept nogil
    cdef int64_t _check_block(self, int64_t start, int64_t length, int64_t to_position) noexcept nogil

cdef int fault_of_read(int64_t result) noexcept nogil
