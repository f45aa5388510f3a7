"""The reader of a recording's messages straight from its segment files."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.archive.segments.cursor cimport SegmentCursor
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.archive.segments.tail cimport RecordedTail
from ordo.runtime.io.storage cimport SegmentFile
from ordo.transport.streams.image cimport Fragment

cdef class RecordingReader:
    """Whole messages of one recording in order, up to a limit position, live or closed.

    Every frame is checked (term id, term offset, CRC32C) before it is handed out. `next` returns 1 with a message, 0
    when the next one does not end at or below the limit (or is not there yet), and raises CorruptFrameError naming
    recording, segment file and position. `out.payload` is valid until the next call.

    A limit is a promise that everything below it has been written: a hole there is damage. With NO_LIMIT a stopped
    recording is read to its stop position, and a live one as far as there are frames; give a limit to follow a live
    one from another process.
    """
    cdef readonly int64_t position             # of the next message
    cdef readonly int64_t recording_id
    cdef readonly int64_t start_position       # of the recording
    cdef readonly int64_t stop_position        # of the recording when it was opened, -1: live
    cdef readonly int32_t term_length          # of the recorded stream
    cdef SegmentCursor _cursor
    cdef RecordedTail _tail                    # what the recorder has just written; None: read the files
    cdef uint8_t* _block
    cdef int64_t _block_position               # stream position of its first byte
    cdef int64_t _block_length
    cdef int64_t _scan                         # position of the next frame; ahead of `position` within a message
    cdef NativeVector _message                 # bytes of the fragments collected
    cdef int64_t _message_length
    cdef uint8_t _message_header[32]
    cdef int _expect                           # what the next frame may be
    cdef int next(self, Fragment* out, int64_t limit_position) except -1 nogil
    cpdef void seek(self, int64_t position)
    cdef bint _take_whole(self, Fragment* out, int64_t limit_position) noexcept nogil
    cdef int _load(self, const uint8_t** frame, int64_t end, bint is_promised) except -1 nogil
    cdef int _take_from_tail(self, const uint8_t* held, const uint8_t** frame, int64_t end) except -1 nogil
    cdef int _fill(self, int64_t needed, int64_t end, bint is_promised) except -1 nogil
    cdef int _collect(self, const uint8_t* frame, int32_t length) except -1 nogil
    cdef int _fail(self, int fault, const uint8_t* frame) except -1 with gil
