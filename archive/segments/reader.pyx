"""The reader of a recording's messages straight from its segment files."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from ordo.archive.segments.cursor cimport SegmentCursor
from ordo.archive.segments.frames cimport (
    FAULT_ABSENT,
    FAULT_FLAGS,
    FAULT_LENGTH,
    FAULT_NONE,
    Layout,
    body_needed,
    check_body,
    check_header,
    frame_error,
)
from ordo.archive.segments.scan cimport fault_of_read
from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_u16, ordo_put_i32
from ordo.runtime.native.sentinels cimport NULL_POSITION
from ordo.transport.streams.image cimport Fragment
from ordo.transport.streams.logbuffer cimport (
    FLAG_BEGIN,
    FLAG_END,
    FLAGS_UNFRAGMENTED,
    FRAME_FLAGS_OFFSET,
    FRAME_TYPE_OFFSET,
    HEADER_LENGTH,
    TERM_ID_OFFSET,
    TYPE_PAD,
    align_frame,
)

from typing import NamedTuple

from ordo.archive.segments.catalog import Catalog
from ordo.runtime.errors import ArchiveError

NO_LIMIT = INT64_MAX
ERROR_INVALID_POSITION = 16

cdef int64_t _BLOCK_LENGTH = 128 * 1024
cdef int64_t _MESSAGE_LENGTH_FIRST = 64 * 1024

cdef enum:
    EXPECT_MESSAGE = 0      # the last frame ended a message: the next begins one
    EXPECT_FRAGMENT = 1     # within a message
    EXPECT_ANY = 2          # after a seek, or where a PAD cut a message short: frames up to the next begin are passed over


class RecordedMessage(NamedTuple):
    """One message read from a recording. Positions in bytes: of its first frame, and after it."""

    payload: bytes
    start_position: int
    position: int
    term_id: int


cdef class RecordingReader:
    """A reader of one recording. See reader.pxd.

    `storage` is the storage seam, `directory` the archive's folder, `descriptor` the recording's, `position` where a
    message begins (default: the start of the recording).
    """

    def __cinit__(self):
        self._message = NativeVector(1)
        self._block = <uint8_t*> malloc(_BLOCK_LENGTH)
        if self._block == NULL:
            raise MemoryError("no memory for a block of 128 KiB")

    def __dealloc__(self):
        free(self._block)

    def __init__(self, storage, str directory not None, descriptor, position=None):
        self._cursor = SegmentCursor(storage, directory, descriptor)
        self.recording_id = descriptor.recording_id
        self.start_position = descriptor.start_position
        self.stop_position = descriptor.stop_position
        self.term_length = descriptor.term_length
        start = descriptor.start_position if position is None else position
        if start < descriptor.start_position or start % 32 or NULL_POSITION != descriptor.stop_position < start:
            raise ArchiveError(
                f"recording {self.recording_id} cannot be read from position={start}: allowed are multiples of 32 from "
                f"start={descriptor.start_position} to stop={descriptor.stop_position}", code=ERROR_INVALID_POSITION)
        self.seek(start)

    @classmethod
    def open(cls, storage, str directory not None, recording_id, position=None):
        """Return a reader in any process that can see the archive's folder; the catalog is opened read-only and
        closed."""
        catalog = Catalog.open(storage, directory, read_only=True)
        try:
            descriptor = catalog.get(recording_id)
        finally:
            catalog.close()
        return cls(storage, directory, descriptor, position)

    def follow(self, RecordedTail tail not None):
        """Read from memory what is there of the recording. For readers on the recorder's thread; what `next` hands out
        is valid until the recorder works."""
        self._tail = tail

    cpdef void seek(self, int64_t position):
        """Go to a position where a frame begins; read the files anew from there."""
        self.position = position
        self._scan = position
        self._block_position = position
        self._block_length = 0
        self._expect = EXPECT_ANY
        self._cursor.forget()

    cdef int next(self, Fragment* out, int64_t limit_position) except -1 nogil:
        cdef int64_t end = limit_position
        cdef bint is_promised = limit_position != INT64_MAX or self.stop_position >= 0
        cdef const uint8_t* frame
        cdef int32_t length
        cdef uint8_t flags
        if self._tail is not None and self._take_whole(out, limit_position):
            return 1
        if limit_position == INT64_MAX and self.stop_position >= 0:
            end = self.stop_position
        while self._scan + HEADER_LENGTH <= end:
            if not self._load(&frame, end, is_promised):
                return 0
            length = ordo_get_i32(frame)
            flags = frame[FRAME_FLAGS_OFFSET] & FLAGS_UNFRAGMENTED
            if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD:
                self._scan += align_frame(length)
                self.position = self._scan
                if self._expect == EXPECT_FRAGMENT:
                    self._expect = EXPECT_ANY
                continue
            if flags == FLAGS_UNFRAGMENTED:
                out.header = frame
                out.payload = frame + HEADER_LENGTH
                out.length_bytes = length - HEADER_LENGTH
                out.start_position = self._scan
                out.flags = frame[FRAME_FLAGS_OFFSET]
            else:
                if not self._collect(frame, length):
                    continue
                out.header = self._message_header
                out.payload = <const uint8_t*> self._message.items
                out.length_bytes = self._message_length
                out.start_position = self.position
                out.flags = self._message_header[5]
            out.term_id = ordo_get_i32(frame + TERM_ID_OFFSET)
            out.session_id = self._cursor.layout.session_id
            self._scan += align_frame(length) if flags == FLAGS_UNFRAGMENTED else 0
            self.position = self._scan
            out.position = self._scan
            self._expect = EXPECT_MESSAGE
            return 1
        return 0

    cdef bint _take_whole(self, Fragment* out, int64_t limit_position) noexcept nogil:
        """Hand out the next message if it is in memory, in one frame, and below a limit; else leave all as it is.

        Most messages of a leader and its followers are, and take a third fewer instructions than by the general way.
        """
        cdef Layout* layout = &self._cursor.layout
        cdef int64_t begin = self._scan
        cdef const uint8_t* frame = self._tail.at(begin)
        cdef int32_t length
        if frame == NULL or limit_position == INT64_MAX or check_header(frame, begin, layout) != FAULT_NONE:
            return False
        length = ordo_get_i32(frame)
        if (begin + align_frame(length) > limit_position or ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD
                or frame[FRAME_FLAGS_OFFSET] & FLAGS_UNFRAGMENTED != FLAGS_UNFRAGMENTED):
            return False
        out.header = frame
        out.payload = frame + HEADER_LENGTH
        out.length_bytes = length - HEADER_LENGTH
        out.start_position = begin
        out.flags = frame[FRAME_FLAGS_OFFSET]
        out.term_id = ordo_get_i32(frame + TERM_ID_OFFSET)
        out.session_id = layout.session_id
        out.position = self.position = self._scan = begin + align_frame(length)
        self._expect = EXPECT_MESSAGE
        return True

    cdef int _load(self, const uint8_t** frame, int64_t end, bint is_promised) except -1 nogil:
        """Load the frame at `_scan`, whole and checked; return 1, or 0 when it is not there or ends beyond `end`."""
        cdef Layout* layout = &self._cursor.layout
        cdef int64_t offset = self._scan - self._block_position
        cdef int64_t needed
        cdef int fault
        cdef const uint8_t* held = NULL
        if self._tail is not None:
            held = self._tail.at(self._scan)
            if held != NULL:
                return self._take_from_tail(held, frame, end)
        if offset + HEADER_LENGTH > self._block_length:
            if not self._fill(HEADER_LENGTH, end, is_promised):
                return 0
            offset = 0
        fault = check_header(self._block + offset, self._scan, layout)
        if fault == FAULT_ABSENT and not is_promised:
            self._block_length = 0
            return 0
        if fault != FAULT_NONE:
            return self._fail(fault, self._block + offset)
        if self._scan + align_frame(ordo_get_i32(self._block + offset)) > end:
            # A recording stops between frames: one that reaches past the stop has a damaged length.
            return self._fail(FAULT_LENGTH, self._block + offset) if end == self.stop_position else 0
        needed = body_needed(self._block + offset, layout)
        if offset + needed > self._block_length:
            if not self._fill(needed, end, is_promised):
                return 0
            offset = 0
        fault = check_body(self._block + offset, layout)
        if fault != FAULT_NONE:
            return self._fail(fault, self._block + offset)
        frame[0] = self._block + offset
        return 1

    cdef int _take_from_tail(self, const uint8_t* held, const uint8_t** frame, int64_t end) except -1 nogil:
        """Load a frame as `_load` does, from memory. Its checksum was made there, from the bytes that are there."""
        cdef int fault = check_header(held, self._scan, &self._cursor.layout)
        if fault != FAULT_NONE:
            return self._fail(fault, held)
        if self._scan + align_frame(ordo_get_i32(held)) > end:
            return 0
        frame[0] = held
        return 1

    cdef int _fill(self, int64_t needed, int64_t end, bint is_promised) except -1 nogil:
        """Read a block that begins at `_scan` and never reaches past `end`, after which bytes may still change."""
        cdef int64_t length = end - self._scan
        if length > _BLOCK_LENGTH:
            length = _BLOCK_LENGTH
        self._block_position = self._scan
        self._block_length = 0
        length = self._cursor.read(self._block, length, self._scan)
        if length < needed:
            return self._fail(fault_of_read(length), NULL) if is_promised else 0
        self._block_length = length
        return 1

    cdef int _collect(self, const uint8_t* frame, int32_t length) except -1 nogil:
        """Take one fragment and go past it; return 1 when it ended a message, 0 otherwise."""
        cdef uint8_t flags = frame[FRAME_FLAGS_OFFSET]
        cdef int32_t payload_length = length - HEADER_LENGTH
        if not flags & FLAG_END and length != self._cursor.layout.mtu:
            return self._fail(FAULT_FLAGS, frame)
        if flags & FLAG_BEGIN:
            # A message before it that never ended belongs to a leader that died half way: readers pass over it.
            memcpy(self._message_header, frame, HEADER_LENGTH)
            self._message_length = 0
            self.position = self._scan
            self._expect = EXPECT_FRAGMENT
        elif self._expect == EXPECT_MESSAGE:
            return self._fail(FAULT_FLAGS, frame)
        self._scan += align_frame(length)
        if self._expect == EXPECT_ANY:
            self.position = self._scan
            return 0
        if self._message_length + payload_length >= self._message.capacity:
            self._message.reserve(max(self._message_length + payload_length, _MESSAGE_LENGTH_FIRST))
        memcpy(<uint8_t*> self._message.items + self._message_length, frame + HEADER_LENGTH, payload_length)
        self._message_length += payload_length
        self._message_header[5] |= flags
        ordo_put_i32(self._message_header, <int32_t> (HEADER_LENGTH + self._message_length))
        return 1 if flags & FLAG_END else 0

    cdef int _fail(self, int fault, const uint8_t* frame) except -1 with gil:
        raise frame_error(fault, self.recording_id, self._cursor.path_of(self._scan), self._scan, frame,
                          &self._cursor.layout)

    def messages(self, limit_position=NO_LIMIT):
        """Iterate over RecordedMessage up to a limit position; each holds a copy of its payload."""
        cdef Fragment fragment
        cdef int64_t limit = limit_position
        while self.next(&fragment, limit) == 1:
            yield RecordedMessage((<const char*> fragment.payload)[:fragment.length_bytes],
                                  fragment.start_position, fragment.position, fragment.term_id)

    def skip_messages(self, limit_position=NO_LIMIT):
        """Read up to a limit position without Python objects; return (messages, payload bytes)."""
        cdef Fragment fragment
        cdef int64_t limit = limit_position
        cdef int64_t count = 0
        cdef int64_t length_bytes = 0
        with nogil:
            while self.next(&fragment, limit) == 1:
                count += 1
                length_bytes += fragment.length_bytes
        return count, length_bytes
