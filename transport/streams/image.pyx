"""Images: the reading side of a log buffer (log-buffer.md §8)."""

from enum import IntEnum

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport memcpy

from ordo.runtime.native.atomics cimport (ordo_get_i32, ordo_get_i64, ordo_load_acquire_i32, ordo_load_acquire_i64, ordo_put_i32,
                              ordo_store_release_i64)
from ordo.transport.streams.logbuffer cimport (FLAG_BEGIN, FLAG_END, FLAGS_UNFRAGMENTED, FRAME_FLAGS_OFFSET, FRAME_TYPE_OFFSET,
                                  HEADER_LENGTH, PARTITION_COUNT, RESERVED_VALUE_OFFSET,
                                  STREAM_ID_OFFSET, TERM_ID_OFFSET, TERM_OFFSET_OFFSET, TYPE_PAD, align_frame)

from ordo.runtime.errors import TransportError

cdef enum:
    MODE_PLAIN = 0
    MODE_CONTROLLED = 1
    MODE_WHOLE = 2                # whole messages, not fragments
    PADDINGS_MAX = 64             # PAD frames that one peek passes over
    ASSEMBLY_BYTES_MIN = 4096
    MESSAGE_BYTES_MAX = 16777216
    NO_OFFSET = -1

cdef int64_t NO_LIMIT = 0x7FFFFFFFFFFFFFFF


class Action(IntEnum):
    """What a controlled handler returns; None means CONTINUE."""

    ABORT = 1
    BREAK = 2
    COMMIT = 3
    CONTINUE = 4


cdef object _ABORT = Action.ABORT
cdef object _BREAK = Action.BREAK
cdef object _COMMIT = Action.COMMIT
cdef enum:
    STEP_ON = 0
    STEP_STOP = 1
    STEP_ABORT = 2


cdef inline int32_t frame_length_within(const uint8_t* frame, int64_t room) noexcept nogil:
    """Return the length of a frame that may be read; 0 where there is none, or what is there cannot be one
    (log-buffer.md §8).

    Any process that maps the log can write into it, so a length is believed only as far as its term reaches.
    """
    cdef int32_t length = ordo_load_acquire_i32(frame)
    return length if HEADER_LENGTH <= length <= room else 0


cdef inline int64_t longest_message(LogBuffers log) noexcept nogil:
    return min(log.term_length // 8, MESSAGE_BYTES_MAX)


cdef class Image:
    """Reads a log from the value of its sub-pos counter on. Made by the client; by hand in tests and tools."""

    def __init__(self, LogBuffers log not None, Counter counter not None, *, correlation_id=None,
                 str source_identity="", subscription=None):
        self.log = log
        self._counter = counter
        self.position_address = counter.address
        self.position = ordo_load_acquire_i64(counter.address)
        self.join_position = self.position
        self.closed = False
        self.session_id = log.session_id
        self.stream_id = log.stream_id
        self.correlation_id = log.correlation_id if correlation_id is None else correlation_id
        self.source_identity = source_identity
        self.subscription = subscription
        self._header = Header.__new__(Header)
        self._header._image = self

    # --- native -----------------------------------------------------------------------------------------------------

    cdef bint peek(self, Fragment* out) noexcept nogil:
        return self.peek_bounded(out, NO_LIMIT)

    cdef bint peek_bounded(self, Fragment* out, int64_t limit_position) noexcept nogil:
        cdef const uint8_t* frame
        cdef int32_t length
        cdef int paddings
        if self.closed:
            return False
        for paddings in range(PADDINGS_MAX):
            if self.position >= limit_position:
                return False
            frame = self.log.at(self.position)
            length = frame_length_within(frame, self.log.rest_of_term(self.position))
            if length <= 0:
                return False
            if frame[FRAME_TYPE_OFFSET] != TYPE_PAD:
                out.header = frame
                out.payload = frame + HEADER_LENGTH
                out.length_bytes = length - HEADER_LENGTH
                out.start_position = self.position
                out.position = self.position + align_frame(length)
                out.session_id = self.session_id
                out.term_id = ordo_get_i32(frame + TERM_ID_OFFSET)
                out.flags = frame[FRAME_FLAGS_OFFSET]
                return True
            self.position += align_frame(length)
        return False

    cdef void consume(self, const Fragment* fragment) noexcept nogil:
        self.position = fragment.position

    cdef void publish_position(self) noexcept nogil:
        if not self.closed and self.position > self.position_address[0]:
            ordo_store_release_i64(self.position_address, self.position)

    cdef bint peek_block(self, Block* out, int32_t limit_bytes) noexcept nogil:
        cdef const uint8_t* start
        cdef const uint8_t* frame
        cdef int64_t room, length
        if self.closed:
            return False
        start = self.log.at(self.position)
        room = self.log.rest_of_term(self.position)
        if limit_bytes < room:
            room = limit_bytes
        out.frames = start
        out.position = self.position
        out.is_padding = False
        frame = start
        while frame - start < room:
            length = frame_length_within(frame, self.log.rest_of_term(self.position) - (frame - start))
            if length <= 0:
                break
            length = align_frame(<int32_t> length)
            if frame[FRAME_TYPE_OFFSET] == TYPE_PAD:
                if frame == start:
                    out.is_padding = True
                    frame += length
                break
            if frame - start + length > room:
                break
            frame += length
        out.length_bytes = <int32_t> (frame - start)
        if frame == start:
            return False
        out.term_id = ordo_get_i32(start + TERM_ID_OFFSET)
        return True

    cdef void consume_block(self, const Block* block) noexcept nogil:
        self.position = block.position + block.length_bytes

    cdef bint end_of_stream(self) noexcept nogil:
        if self.closed:
            return self.position >= self._final_eos_position
        return self.position >= self.log.end_of_stream_position()

    # --- Python: polling --------------------------------------------------------------------------------------------

    def poll(self, handler, int limit=10) -> int:
        """Call `handler(payload: bytes, header: Header)` for up to `limit` fragments and return how many.

        The position is published at the end, also when the handler raises; the fragment it raised for is consumed.
        """
        return self.poll_native(handler, limit, NO_LIMIT, MODE_PLAIN)

    def controlled_poll(self, handler, int limit=10) -> int:
        """Poll like `poll`, with a handler that returns an `Action`."""
        return self.poll_native(handler, limit, NO_LIMIT, MODE_CONTROLLED)

    def bounded_poll(self, handler, int64_t limit_position, int limit=10) -> int:
        """Poll like `poll`, only frames that start below `limit_position`."""
        return self.poll_native(handler, limit, limit_position, MODE_PLAIN)

    def bounded_controlled_poll(self, handler, int64_t limit_position, int limit=10) -> int:
        """Poll like `controlled_poll`, only frames that start below `limit_position`."""
        return self.poll_native(handler, limit, limit_position, MODE_CONTROLLED)

    def poll_messages(self, handler, int limit=10) -> int:
        """Poll like `poll`, for whole messages: fragments are put together, and the header is that of the first one."""
        return self.poll_native(handler, limit, NO_LIMIT, MODE_WHOLE)

    def controlled_poll_messages(self, handler, int limit=10) -> int:
        """Poll like `controlled_poll`, for whole messages."""
        return self.poll_native(handler, limit, NO_LIMIT, MODE_WHOLE | MODE_CONTROLLED)

    def block_poll(self, handler, int32_t limit_bytes) -> int:
        """Call `handler(frames: memoryview, session_id, term_id)` once for contiguous whole frames. Returns their
        bytes.

        A PAD frame comes alone. The view is readable inside the call only.
        """
        cdef Block block
        self._begin_poll()
        try:
            if not self.peek_block(&block, limit_bytes):
                return 0
            view = PyMemoryView_FromMemory(<char*> block.frames, block.length_bytes, PyBUF_READ)
            try:
                handler(view, self.session_id, block.term_id)
            finally:
                self.consume_block(&block)
                view.release()
            return block.length_bytes
        finally:
            self._polling = False
            self.publish_position()

    def raw_poll(self, handler, int32_t limit_bytes) -> int:
        """Poll like `block_poll`, calling `handler(path, file_offset, frames, session_id, term_id)`.

        The frames stand at that offset of the log buffer's file, from where they can go on without a copy, as with
        `os.sendfile`; they stay there until the handler returns.
        """
        if self.closed:
            return 0
        file_offset = self.log.at(self.position) - self.log.memory.data

        def on_block(frames, session_id, term_id):
            handler(self.log.path, file_offset, frames, session_id, term_id)

        return self.block_poll(on_block, limit_bytes)

    cdef int poll_native(self, object handler, int limit, int64_t limit_position, int mode) except -1:
        cdef Fragment fragment
        cdef int count = 0
        cdef int step = STEP_ON
        self._begin_poll()
        if mode & MODE_WHOLE and self._assembler is None:
            self._assembler = Assembler()
        try:
            while count < limit and step == STEP_ON:
                if mode & MODE_WHOLE:
                    if not self._assembler.peek_bounded(self, &fragment, limit_position):
                        break
                elif not self.peek_bounded(&fragment, limit_position):
                    break
                step = self._take(&fragment, handler, mode, self._header)
                if step != STEP_ABORT:
                    count += 1
        finally:
            self._polling = False
            self.publish_position()
        return count

    def _begin_poll(self):
        if self._polling:
            raise TransportError(f"image of stream {self.stream_id} is polled from inside its own handler")
        self._polling = True

    cdef int _take(self, const Fragment* fragment, object handler, int mode, Header header) except -1:
        """Hand one fragment out and consume it, unless the handler aborts."""
        payload = PyBytes_FromStringAndSize(<char*> fragment.payload, fragment.length_bytes)
        header.fragment = fragment[0]
        action = None
        try:
            action = handler(payload, header)
        finally:
            header.fragment.header = NULL
            if not (mode & MODE_CONTROLLED and action is _ABORT):
                if mode & MODE_WHOLE:
                    self._assembler.consume(self, fragment)
                else:
                    self.consume(fragment)
        if not mode & MODE_CONTROLLED or action is None:
            return STEP_ON
        if action is _ABORT:
            return STEP_ABORT
        if action is _COMMIT:
            self.publish_position()
        return STEP_STOP if action is _BREAK else STEP_ON

    # --- Python: state ----------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self.closed

    @property
    def is_end_of_stream(self) -> bool:
        """Everything of a stream that has ended was read."""
        return self.end_of_stream()

    @property
    def end_of_stream_position(self) -> int:
        """Where the stream ends; END_OF_STREAM_UNKNOWN while nobody knows."""
        return self._final_eos_position if self.closed else self.log.end_of_stream_position()

    @property
    def is_revoked(self) -> bool:
        """The publication was revoked: what was not read is lost."""
        return self._final_revoked if self.closed else self.log.is_revoked()

    @property
    def is_between_messages(self) -> bool:
        """Whether `poll_messages` has handed out everything before `position`: no message is there in part."""
        return self._assembler is None or (self._assembler.next_offset == NO_OFFSET and not self._assembler.complete)

    @property
    def active_transport_count(self) -> int:
        """Transports with recent activity; 0 when closed, and for IPC and spies."""
        return 0 if self.closed else self.log.active_transport_count()

    @property
    def initial_term_id(self) -> int:
        return self.log.initial_term_id

    @property
    def term_length(self) -> int:
        return self.log.term_length

    @property
    def mtu(self) -> int:
        return self.log.mtu

    @property
    def position_counter_id(self) -> int:
        return self._counter.counter_id

    @property
    def log_buffers(self) -> LogBuffers:
        return self.log

    def reject(self, str reason) -> None:
        """Ask the driver to drop this image and to tell its publisher; `reason` has up to 1023 ASCII characters, or
        TransportError is raised."""
        if self.subscription is not None and not self.closed:
            self.subscription.reject_image(self, reason)

    def mark_closed(self) -> None:
        """Mark the image as closed, when the driver took it away: nothing more is read, and what is known stays."""
        if self.closed:
            return
        self._final_eos_position = self.log.end_of_stream_position()
        self._final_revoked = self.log.is_revoked()
        self.closed = True

    def __repr__(self) -> str:
        return (f"Image(session_id={self.session_id}, stream_id={self.stream_id}, position={self.position}, "
                f"source_identity={self.source_identity!r}, closed={bool(self.closed)})")


cdef class Assembler:
    """One for each image. Messages never cross a term, so offsets alone tell whether a fragment follows."""

    def __cinit__(self):
        self.buffer = NativeVector(1)
        self.reset()

    cdef void reset(self) noexcept nogil:
        self.length_bytes = 0
        self.next_offset = NO_OFFSET
        self.complete = False

    cdef int peek(self, Image image, Fragment* out) except -1 nogil:
        return self.peek_bounded(image, out, NO_LIMIT)

    cdef int peek_bounded(self, Image image, Fragment* out, int64_t limit_position) except -1 nogil:
        cdef int32_t term_offset
        if self.complete:
            out[0] = self.last
            return 1
        while image.peek_bounded(out, limit_position):
            if out.flags & FLAGS_UNFRAGMENTED == FLAGS_UNFRAGMENTED:
                self.next_offset = NO_OFFSET
                return 1
            term_offset = <int32_t> (out.start_position & (image.log.term_length - 1))
            if out.flags & FLAG_BEGIN:
                self._begin(out)
                self._append(out, term_offset)
            elif self.next_offset == term_offset and self.length_bytes + out.length_bytes <= longest_message(image.log):
                self._append(out, term_offset)
                if out.flags & FLAG_END:
                    self._finish(out, out)
                    return 1
            else:
                self.next_offset = NO_OFFSET
            image.consume(out)
        return 0

    cdef void consume(self, Image image, const Fragment* fragment) noexcept nogil:
        image.consume(fragment)
        if self.complete:
            self.reset()

    cdef void _begin(self, const Fragment* fragment) noexcept nogil:
        memcpy(self.first_header, fragment.header, HEADER_LENGTH)
        self.first_position = fragment.start_position
        self.length_bytes = 0

    cdef int _append(self, const Fragment* fragment, int32_t term_offset) except -1 nogil:
        cdef int64_t needed = self.length_bytes + fragment.length_bytes
        if needed >= self.buffer.capacity:
            self.buffer.reserve(max(needed, <int64_t> ASSEMBLY_BYTES_MIN))
        memcpy(<uint8_t*> self.buffer.items + self.length_bytes, fragment.payload, fragment.length_bytes)
        self.length_bytes = needed
        self.next_offset = term_offset + align_frame(<int32_t> fragment.length_bytes + HEADER_LENGTH)
        return 0

    cdef void _finish(self, const Fragment* fragment, Fragment* out) noexcept nogil:
        """Assemble the whole message, with the first frame's header; its last frame stays until `consume`."""
        ordo_put_i32(self.first_header, <int32_t> self.length_bytes + HEADER_LENGTH)
        self.first_header[FRAME_FLAGS_OFFSET] |= fragment.flags
        self.last.header = self.first_header
        self.last.payload = <const uint8_t*> self.buffer.items
        self.last.length_bytes = self.length_bytes
        self.last.position = fragment.position
        self.last.start_position = self.first_position
        self.last.session_id = fragment.session_id
        self.last.term_id = fragment.term_id
        self.last.flags = self.first_header[FRAME_FLAGS_OFFSET]
        self.next_offset = NO_OFFSET
        self.complete = True
        out[0] = self.last


cdef class Header:
    """The header of the fragment or message that a handler is called with. Using it after the call raises."""

    cdef const Fragment* _check(self) except NULL:
        if self.fragment.header == NULL:
            raise TransportError("a header is valid inside the handler it was given to only; copy what you need")
        return &self.fragment

    @property
    def session_id(self) -> int:
        return self._check().session_id

    @property
    def stream_id(self) -> int:
        return ordo_get_i32(self._check().header + STREAM_ID_OFFSET)

    @property
    def term_id(self) -> int:
        return self._check().term_id

    @property
    def term_offset(self) -> int:
        return ordo_get_i32(self._check().header + TERM_OFFSET_OFFSET)

    @property
    def flags(self) -> int:
        return self._check().flags

    @property
    def reserved_value(self) -> int:
        return ordo_get_i64(self._check().header + RESERVED_VALUE_OFFSET)

    @property
    def frame_length(self) -> int:
        """Header and payload in bytes; of the whole when put together from fragments."""
        return ordo_get_i32(self._check().header)

    @property
    def position(self) -> int:
        """Stream position after the fragment, or after the last one of a message."""
        return self._check().position

    @property
    def start_position(self) -> int:
        """Stream position of the fragment, or of the first one of a message."""
        return self._check().start_position

    @property
    def image(self) -> Image:
        self._check()
        return self._image
