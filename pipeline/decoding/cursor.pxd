"""Walks the whole messages of one segment file."""

from libc.stdint cimport int64_t, uint8_t
from ordo.archive.segments.frames cimport Layout
from ordo.runtime.native.native_vector cimport NativeVector

cdef struct Message:
    const uint8_t* data             # valid until the next call
    int64_t length_bytes
    int64_t start_position          # of its first frame
    int64_t position                # after its last frame

cdef class MessageCursor:
    """Messages that begin at or after `position` and end at or below `limit`, in order; padding is passed over.

    `next_message` returns 1 with a message, 0 at the end, and -1 with `fault` and `fault_position` set. A message whose
    last frame lies beyond the limit is left for later; `position` is then its beginning.

    With `file`, an open descriptor, that file is read, and `path` is only what errors call it.
    """
    cdef Layout layout
    cdef readonly int64_t segment_base      # position of the first byte of the file
    cdef readonly str path
    cdef readonly int64_t position
    cdef readonly int64_t limit
    cdef readonly int fault
    cdef readonly int64_t fault_position
    cdef readonly int64_t expected          # of the faulty field
    cdef readonly int64_t actual
    cdef int descriptor
    cdef NativeVector buffer                # of bytes
    cdef int64_t buffer_position            # stream position of buffer[0]
    cdef int64_t filled_bytes
    cdef NativeVector assembly              # of bytes
    cdef bint verify
    cdef bint exact                         # the limit is a frame boundary, and all before it was written
    cdef const uint8_t* view(self, int64_t position, int64_t length_bytes) noexcept nogil
    cdef int next_message(self, Message* out) noexcept nogil
    cdef const uint8_t* frame_at(self, int64_t position, int64_t* aligned_length) noexcept nogil
    cdef int assemble(self, const uint8_t* frame, int64_t aligned, Message* out) noexcept nogil
    cdef int fail(self, int fault, int64_t position, const uint8_t* frame) noexcept nogil
