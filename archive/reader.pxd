"""Reads a recording's messages straight from its segment files."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from runtime.storage cimport SegmentFile
from transport.image cimport Fragment

cdef class RecordingReader:
    """Whole messages of one recording in order, up to a limit position, live or closed.

    Every frame is checked (term id, term offset, CRC32C) before it is handed out. `next` answers 1 with a message, 0
    when the next one does not end at or below the limit (or is not there yet), and raises CorruptFrameError naming
    recording, segment file and position. `out.payload` is valid until the next call.
    """
    cdef readonly int64_t position             # of the next message
    cdef readonly int64_t recording_id
    cdef int next(self, Fragment* out, int64_t limit_position) except -1 nogil
    cpdef void seek(self, int64_t position)
