"""Walks the whole messages of one segment file. The file is read in blocks with `pread`, so that a file which is cut
short under the reader is an error to report and not a fault of the process; the interpreter is not needed per message."""

import os

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from posix.unistd cimport pread

from ordo.archive.segments.frames cimport (FAULT_ABSENT, FAULT_CHECKSUM, FAULT_FLAGS, FAULT_LENGTH,
                             FAULT_MISSING_FILE, FAULT_NONE, FAULT_READ, FAULT_STREAM_ID, FAULT_TERM_ID,
                             FAULT_TERM_OFFSET, FAULT_TRUNCATED, FAULT_TYPE, Layout, actual_checksum, body_needed,
                             check_body, check_header, layout_of, stored_checksum)
from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_u16
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.transport.streams.logbuffer cimport (
    FLAG_BEGIN,
    FLAG_END,
    FRAME_FLAGS_OFFSET,
    FRAME_TYPE_OFFSET,
    HEADER_LENGTH,
    STREAM_ID_OFFSET,
    TERM_ID_OFFSET,
    TERM_OFFSET_OFFSET,
    TYPE_PAD,
    align_frame,
)

from ordo.archive.segments.frames import FAULT_REASONS
from ordo.pipeline.decoding.errors import CorruptRecordingError

cdef enum:
    BUFFER_LENGTH = 512 * 1024
    FAULT_OUT_OF_MEMORY = 64        # beside the faults of archive/segments/frames.pxd

FAULT_NAMES = {
    **FAULT_REASONS,
    FAULT_OUT_OF_MEMORY: "out of memory",
}


cdef class MessageCursor:

    def __cinit__(self, str path, object descriptor, int64_t segment_base, int64_t start, int64_t limit,
                  bint verify=True, bint exact=True, int file=-1):
        self.descriptor = -1
        self.layout = layout_of(descriptor)
        self.segment_base = segment_base
        self.path = path
        self.position = start
        self.limit = min(limit, segment_base + self.layout.segment_length)
        self.verify = verify
        self.exact = exact
        if start < segment_base or start & 31:
            raise ValueError(f"start={start} is no frame position of {path}: frames begin at multiples of 32 from "
                             f"{segment_base} on")
        self.buffer = NativeVector(1)
        self.buffer.reserve(BUFFER_LENGTH)
        self.assembly = NativeVector(1)
        try:
            self.descriptor = os.dup(file) if file >= 0 else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self.fault = FAULT_MISSING_FILE
            self.fault_position = start

    def __dealloc__(self):
        if self.descriptor >= 0:
            os.close(self.descriptor)

    cdef int fail(self, int fault, int64_t position, const uint8_t* frame) noexcept nogil:
        cdef int64_t offset = position & (self.layout.term_length - 1)
        self.fault = fault
        self.fault_position = position
        self.expected = 0
        self.actual = 0
        if fault == FAULT_LENGTH:
            self.actual = ordo_get_i32(frame)
            self.expected = min(<int64_t> self.layout.mtu, min(self.limit - position, self.layout.term_length - offset))
        elif fault == FAULT_TERM_OFFSET:
            self.actual = ordo_get_i32(frame + TERM_OFFSET_OFFSET)
            self.expected = offset
        elif fault == FAULT_STREAM_ID:
            self.actual = ordo_get_i32(frame + STREAM_ID_OFFSET)
            self.expected = self.layout.stream_id
        elif fault == FAULT_TERM_ID:
            self.actual = ordo_get_i32(frame + TERM_ID_OFFSET)
            self.expected = <int32_t> (self.layout.initial_term_id + <int32_t> (position >> self.layout.term_shift))
        elif fault == FAULT_CHECKSUM:
            self.expected = stored_checksum(frame)
            self.actual = actual_checksum(frame)
        elif fault == FAULT_FLAGS:
            self.actual = frame[FRAME_FLAGS_OFFSET]
        return -1

    cdef const uint8_t* view(self, int64_t position, int64_t length_bytes) noexcept nogil:
        """Bytes [position, position + length), or NULL with the fault set. Never reads past the limit."""
        cdef int64_t wanted, count, offset
        cdef uint8_t* bytes_read
        offset = position - self.buffer_position
        if self.filled_bytes > 0 and offset >= 0 and offset + length_bytes <= self.filled_bytes:
            return <uint8_t*> self.buffer.items + offset
        if not self.buffer.try_reserve(length_bytes):
            self.fail(FAULT_OUT_OF_MEMORY, position, NULL)
            return NULL
        bytes_read = <uint8_t*> self.buffer.items
        self.buffer_position = position
        self.filled_bytes = 0
        wanted = min(self.buffer.capacity, self.limit - position)
        while self.filled_bytes < wanted:
            count = pread(self.descriptor, bytes_read + self.filled_bytes, wanted - self.filled_bytes,
                          position - self.segment_base + self.filled_bytes)
            if count < 0:
                self.fail(FAULT_READ, position, NULL)
                return NULL
            if count == 0:
                break
            self.filled_bytes += count
        if self.filled_bytes < length_bytes:
            self.fail(FAULT_TRUNCATED, position, NULL)
            return NULL
        return bytes_read

    cdef const uint8_t* frame_at(self, int64_t position, int64_t* aligned_length) noexcept nogil:
        """A checked frame (of padding only the header), or NULL: at the end `fault` stays 0, otherwise it is set."""
        cdef const uint8_t* frame
        cdef int64_t aligned
        cdef int fault
        if position + HEADER_LENGTH > self.limit:
            return NULL
        frame = self.view(position, HEADER_LENGTH)
        if frame == NULL:
            return NULL
        fault = check_header(frame, position, &self.layout)
        if fault == FAULT_ABSENT and not self.exact:
            return NULL
        if fault == FAULT_NONE and frame[FRAME_FLAGS_OFFSET] & ~(FLAG_BEGIN | FLAG_END):
            fault = FAULT_FLAGS
        if fault != FAULT_NONE:
            self.fail(fault, position, frame)
            return NULL
        aligned = align_frame(ordo_get_i32(frame))
        aligned_length[0] = aligned
        if position + aligned > self.limit:
            if self.exact:
                self.fail(FAULT_LENGTH, position, frame)
            return NULL
        frame = self.view(position, body_needed(frame, &self.layout))
        if frame == NULL or not self.verify:
            return frame
        fault = check_body(frame, &self.layout)
        if fault != FAULT_NONE:
            self.fail(fault, position, frame)
            return NULL
        return frame

    cdef int next_message(self, Message* out) noexcept nogil:
        cdef const uint8_t* frame
        cdef int64_t aligned = 0
        cdef int flags
        if self.fault != FAULT_NONE:
            return -1
        while True:
            frame = self.frame_at(self.position, &aligned)
            if frame == NULL:
                return 0 if self.fault == FAULT_NONE else -1
            if ordo_get_u16(frame + FRAME_TYPE_OFFSET) != TYPE_PAD:
                break
            self.position += aligned
        flags = frame[FRAME_FLAGS_OFFSET]
        if not flags & FLAG_BEGIN:
            return self.fail(FAULT_FLAGS, self.position, frame)
        if not flags & FLAG_END:
            return self.assemble(frame, aligned, out)
        out.data = frame + HEADER_LENGTH
        out.length_bytes = ordo_get_i32(frame) - HEADER_LENGTH
        out.start_position = self.position
        self.position += aligned
        out.position = self.position
        return 1

    cdef int assemble(self, const uint8_t* frame, int64_t aligned, Message* out) noexcept nogil:
        """A message of several frames, gathered in `assembly`. Its frames follow one another inside one term."""
        cdef int64_t position = self.position
        cdef int64_t length = 0
        cdef int64_t part
        while True:
            part = ordo_get_i32(frame) - HEADER_LENGTH
            if not self.assembly.try_reserve(max(length + part, <int64_t> 1)):
                return self.fail(FAULT_OUT_OF_MEMORY, position, frame)
            memcpy(<uint8_t*> self.assembly.items + length, frame + HEADER_LENGTH, part)
            length += part
            position += aligned
            if frame[FRAME_FLAGS_OFFSET] & FLAG_END:
                break
            frame = self.frame_at(position, &aligned)
            if frame == NULL:
                return 0 if self.fault == FAULT_NONE else -1
            if frame[FRAME_FLAGS_OFFSET] & FLAG_BEGIN or ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD:
                return self.fail(FAULT_FLAGS, position, frame)
        out.data = <const uint8_t*> self.assembly.items
        out.length_bytes = length
        out.start_position = self.position
        out.position = position
        self.position = position
        return 1

    def raise_fault(self):
        """Raise CorruptRecordingError for the fault that ended the walk; nothing when there is none."""
        if self.fault != FAULT_NONE:
            raise CorruptRecordingError.of(self.path, self.fault_position, FAULT_NAMES[self.fault], self.expected,
                                           self.actual)
