"""The scan that walks recorded frames and checks every one; recovery and verification use it."""

from libc.errno cimport EIO, ENOENT
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from ordo.archive.segments.cursor cimport SegmentCursor
from ordo.archive.segments.frames cimport (
    FAULT_ABSENT,
    FAULT_MISSING_FILE,
    FAULT_NONE,
    FAULT_TRUNCATED,
    Layout,
    body_needed,
    check_body,
    check_header,
    frame_error,
)
from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_u16
from ordo.transport.streams.logbuffer cimport FRAME_TYPE_OFFSET, HEADER_LENGTH, TYPE_PAD, align_frame

cdef enum:
    PAGE_BYTES = 4096                  # what a device reads, or refuses, in one piece

cdef int64_t _BLOCK_LENGTH = 1024 * 1024


cdef int fault_of_read(int64_t result) noexcept nogil:
    """Return the Fault of a failed or short read."""
    if result >= 0:
        return FAULT_TRUNCATED
    return FAULT_MISSING_FILE if result == -ENOENT else <int> result


cdef class FrameScanner:
    """A scanner of frames from a position that starts one, with memory for one block of 1 MiB."""

    def __cinit__(self):
        self.capacity_bytes = _BLOCK_LENGTH
        self.buffer = <uint8_t*> malloc(self.capacity_bytes)
        if self.buffer == NULL:
            raise MemoryError("no memory for a scan block of 1 MiB")

    def __dealloc__(self):
        free(self.buffer)

    def __init__(self, SegmentCursor cursor not None):
        self.cursor = cursor

    cdef void scan(self, int64_t from_position, int64_t to_position) noexcept nogil:
        """Leave in `result` how far frames are good, starting no frame at or after `to_position`."""
        cdef int64_t position = from_position
        cdef int64_t length, read
        cdef bint is_refused
        self.result.frame_count = 0
        self.result.last_position = -1
        self.result.last_is_padding = False
        self.result.fault = FAULT_NONE
        self.result.frame_offset = -1
        while position < to_position and self.result.fault == FAULT_NONE:
            length = min(self.capacity_bytes, to_position - position + align_frame(self.cursor.layout.mtu))
            read = self.cursor.read(self.buffer, length, position)
            is_refused = read == -EIO
            if is_refused:
                read = self._read_pages(length, position)
            if read < HEADER_LENGTH:
                self.result.fault = -EIO if is_refused else fault_of_read(read)
                break
            position = self._check_block(position, read, to_position)
            if is_refused and self.result.fault == FAULT_TRUNCATED:
                self.result.fault = -EIO            # the frame goes on where nothing can be read
        self.result.end_position = position

    cdef int64_t _read_pages(self, int64_t length, int64_t position) noexcept nogil:
        """Read as much as possible of a block that cannot be read in one piece, up to the page that the device
        refuses."""
        cdef int64_t done = 0
        cdef int64_t piece, read
        while done < length:
            piece = min(length - done, PAGE_BYTES - (position + done) % PAGE_BYTES)
            read = self.cursor.read(self.buffer + done, piece, position + done)
            if read <= 0:
                break
            done += read
        return done

    cdef int64_t _check_block(self, int64_t start, int64_t length, int64_t to_position) noexcept nogil:
        """Check the frames of one block, at least one; return the position after the last good one, or set a fault."""
        cdef Layout* layout = &self.cursor.layout
        cdef int64_t offset = 0
        cdef int64_t needed
        cdef const uint8_t* frame
        while start + offset < to_position and offset + HEADER_LENGTH <= length:
            frame = self.buffer + offset
            self.result.fault = check_header(frame, start + offset, layout)
            if self.result.fault == FAULT_NONE:
                needed = body_needed(frame, layout)
                if offset + needed > length:
                    if offset == 0:
                        self.result.fault = FAULT_TRUNCATED
                    return start + offset
                self.result.fault = check_body(frame, layout)
            if self.result.fault != FAULT_NONE:
                self.result.frame_offset = offset
                return start + offset
            self.result.last_position = start + offset
            self.result.last_is_padding = ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD
            offset += align_frame(ordo_get_i32(frame))
            self.result.frame_count += 1
        return start + offset

    def run(self, int64_t from_position, int64_t to_position):
        """Scan with the GIL released; return (end position, good frames, CorruptFrameError or None). Raises
        StorageError if the files cannot be read: what is there is not known then."""
        with nogil:
            self.scan(from_position, to_position)
        return self.result.end_position, self.result.frame_count, self.damage()

    @property
    def ended_in_hole(self):
        """Whether the last scan ended where nothing was ever written."""
        return self.result.fault == FAULT_ABSENT

    @property
    def end_position(self):
        """The position up to which the frames of the last scan are good, also where `run` raised."""
        return self.result.end_position

    @property
    def recording_end(self):
        """The position where the log of a cluster with the frames of the last scan ends: a PAD counts when a frame
        follows it."""
        return self.result.last_position if self.result.last_is_padding else self.result.end_position

    def damage(self):
        """Return the CorruptFrameError of the last scan, or None when it reached its end."""
        cdef const uint8_t* frame = NULL
        cdef int64_t position = self.result.end_position
        if self.result.fault == FAULT_NONE:
            return None
        if self.result.frame_offset >= 0:
            frame = self.buffer + self.result.frame_offset
        error = frame_error(self.result.fault, self.cursor.recording_id, self.cursor.path_of(position), position,
                            frame, &self.cursor.layout)
        if self.result.fault < 0:
            raise error
        return error
