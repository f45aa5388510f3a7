"""The replay of a stretch of a recording, at its own positions (archive.md A8.2)."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from ordo.archive.segments.cursor cimport SegmentCursor
from ordo.archive.segments.frames cimport (
    CHECKSUM_OFFSET,
    FAULT_NONE,
    FAULT_TRUNCATED,
    Layout,
    body_needed,
    check_body,
    check_header,
    frame_error,
)
from ordo.archive.segments.record_filter cimport RecordFilter
from ordo.archive.recorder cimport Recording
from ordo.archive.segments.scan cimport fault_of_read
from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_u16, ordo_put_i32
from ordo.runtime.native.counters cimport Counter
from ordo.transport.streams.logbuffer cimport (
    ADMIN_ACTION,
    BACK_PRESSURED,
    CLOSED,
    FLAGS_UNFRAGMENTED,
    FRAME_ALIGNMENT,
    FRAME_FLAGS_OFFSET,
    FRAME_TYPE_OFFSET,
    HEADER_LENGTH,
    NOT_CONNECTED,
    STREAM_ID_OFFSET,
    TYPE_PAD,
    align_frame,
)
from ordo.transport.streams.publication cimport ExclusivePublication

from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError

cdef enum:
    BLOCKS_PER_CYCLE = 4
    NO_PAD = -1
    PASSED_LENGTH_MAX = 4 * 1024        # of one PAD for passed messages: a driver holds such back for a receiver's window

cdef int32_t _BLOCK_LENGTH = 128 * 1024


cdef class Replay:
    """A replay, made by the archive. See replay.pxd."""

    def __cinit__(self):
        self._block = <uint8_t*> malloc(_BLOCK_LENGTH)
        if self._block == NULL:
            raise MemoryError("no memory for a block of 128 KiB")

    def __dealloc__(self):
        free(self._block)

    def __init__(self, int64_t replay_id, SegmentCursor cursor not None, ExclusivePublication publication not None,
                 int64_t position, int64_t end_position, int64_t stop_position, Recording live, Counter limit,
                 int64_t connect_timeout_ns, on_end):
        self.replay_id = replay_id
        self.recording_id = cursor.recording_id
        self.start_position = self.position = position
        self.end_position = end_position
        self.publication = publication
        self.is_active = True
        self.on_end = on_end
        self._cursor = cursor
        self._live = live
        self._limit = limit
        self._stop_position = stop_position
        self._connect_timeout_ns = connect_timeout_ns
        self._block_length_max = _BLOCK_LENGTH

    def limit_block(self, int64_t length_bytes):
        """Limit how many bytes are read at a time; a whole MTU is always read."""
        self._block_length_max = <int32_t> max(min(length_bytes, <int64_t> _BLOCK_LENGTH),
                                               <int64_t> self.publication.mtu)

    cdef int work(self, int64_t now_ns) noexcept nogil:
        """Publish what may be published, at most 512 KiB; return how many blocks were published."""
        cdef int published = 0
        cdef int turn
        cdef int64_t bound
        if self.needs_attention or not self._has_subscriber(now_ns):
            return 0
        for turn in range(BLOCKS_PER_CYCLE):
            if self._ready_length == 0 and self._padding_length == 0:
                if self._is_done():
                    self.needs_attention = True
                    break
                bound = self._bound()
                if self.position >= bound:
                    break
                self._prepare(bound)
                if self._fault != FAULT_NONE:
                    self.needs_attention = True
                    break
                if self._ready_length == 0 and self._padding_length == 0:
                    break
            if not self._publish():
                break
            published += 1
        return published

    cdef bint _has_subscriber(self, int64_t now_ns) noexcept nogil:
        """Return whether there is a subscriber: false before the first one, and for good once the last has gone."""
        if self.publication.log.is_connected():
            self.is_connected = True
            return True
        if self._connect_deadline_ns == 0:
            self._connect_deadline_ns = now_ns + self._connect_timeout_ns
        if self.is_connected or now_ns >= self._connect_deadline_ns:
            self._refusal = NOT_CONNECTED
            self.needs_attention = True
        return False

    cdef int64_t _bound(self) noexcept nogil:
        """Return the position from which nothing may be published now."""
        cdef int64_t bound = self._stop_position
        if self._live is not None:
            bound = self._live.written_position if self._live.is_active else self._live.durable_position
        if self._limit is not None and self._limit.get() < bound:
            bound = self._limit.get()
        return bound

    cdef bint _is_done(self) noexcept nogil:
        if self.position >= self.end_position:
            return True
        if self._live is None:
            return self.position >= self._stop_position
        return not self._live.is_active and self.position >= self._live.durable_position

    cdef void _prepare(self, int64_t bound) noexcept nogil:
        """Read and check frames at `position`: whole data frames below the bound, or PADs."""
        cdef Layout* layout = &self._cursor.layout
        cdef int64_t length = layout.term_length - (self.position & (layout.term_length - 1))
        cdef int32_t offset = 0
        cdef int32_t aligned
        cdef int32_t pad = NO_PAD
        cdef bint begins_with_passed = False
        cdef uint8_t* frame
        length = min(length, min(<int64_t> self._block_length_max, bound - self.position))
        length = self._cursor.read(self._block, length, self.position)
        self.read_count += 1
        if length < HEADER_LENGTH:
            self._fault = fault_of_read(length)
            return
        while offset + HEADER_LENGTH <= length and self.position + offset < self.end_position:
            frame = self._block + offset
            self._fault = check_header(frame, self.position + offset, layout)
            if self._fault != FAULT_NONE:
                break
            aligned = align_frame(ordo_get_i32(frame))
            if self.position + offset + aligned > bound:
                break
            if offset + body_needed(frame, layout) > length:
                self._fault = FAULT_TRUNCATED
                break
            self._fault = check_body(frame, layout)
            if self._fault != FAULT_NONE:
                break
            if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD:
                self._padding_length = aligned if offset == 0 else 0
                break
            ordo_put_i32(frame + CHECKSUM_OFFSET, self.publication.session_id)
            ordo_put_i32(frame + STREAM_ID_OFFSET, self.publication.stream_id)
            if self.filter is None or self.filter.wants(frame, ordo_get_i32(frame)):
                if begins_with_passed:
                    break                   # padding goes out before the frame, which the next block begins with
                pad = NO_PAD
            else:
                begins_with_passed = begins_with_passed or offset == 0
                pad = self._pass_over(frame, offset, aligned, pad)
            offset += aligned
        self._padding_offset = 0
        if begins_with_passed:
            self._padding_length = offset
        else:
            self._ready_length = offset
        if offset > 0:
            self._fault = FAULT_NONE        # the good frames go first; the next block begins with the fault

    cdef int32_t _pass_over(self, uint8_t* frame, int32_t offset, int32_t aligned, int32_t pad) noexcept nogil:
        """Make a frame part of a PAD; `pad` is the offset in the block of the frame before it, NO_PAD if there is none.

        Returns the same for the next frame. A block that begins with passed frames has nothing else in it, because a
        publication takes those as padding and the others as a block. Every PAD ends with a frame, where another replay
        can begin.
        """
        if pad >= 0 and offset + aligned - pad <= PASSED_LENGTH_MAX:
            ordo_put_i32(self._block + pad, offset + aligned - pad)
            return pad
        ordo_put_i32(frame, aligned)
        frame[FRAME_FLAGS_OFFSET] = FLAGS_UNFRAGMENTED
        frame[FRAME_TYPE_OFFSET] = TYPE_PAD
        return offset

    cdef bint _publish(self) noexcept nogil:
        """Offer what `_prepare` left; return False when it must wait or the replay is over."""
        if self._padding_length == 0:
            return self._offer(self._ready_length)
        while self._padding_length:
            if not self._offer(self._next_padding()):
                return False
        return True

    cdef int32_t _next_padding(self) noexcept nogil:
        """Return the length of the next PAD to send. A recorded PAD longer than a publication may append is sent in
        several parts: positions are what counts."""
        cdef int32_t length = self.publication.max_message_length & ~(FRAME_ALIGNMENT - 1)
        return min(length, min(self._padding_length, align_frame(ordo_get_i32(self._block + self._padding_offset))))

    cdef bint _offer(self, int32_t length) noexcept nogil:
        """Offer this many bytes of the block, or a PAD of this length."""
        cdef int64_t result = ADMIN_ACTION
        cdef int attempt
        for attempt in range(3):
            if self._padding_length:
                result = self.publication.append_padding(length - HEADER_LENGTH)
            else:
                result = self.publication.append_block(self._block, length)
            if result != ADMIN_ACTION:
                break
        if result > 0:
            self.position += length
            self._ready_length = 0
            if self._padding_length:
                if length == align_frame(ordo_get_i32(self._block + self._padding_offset)):
                    self._padding_offset += length
                self._padding_length -= length
            return True
        if result != BACK_PRESSURED and result != ADMIN_ACTION:
            self._refusal = result
            self.needs_attention = True
        return False

    def settle(self):
        """End the replay and close its publication; `error` says why, when it did not end in order.

        A subscriber that goes away is in order; one that never came, and a damaged recording, are not.
        """
        if not self.is_active:
            return
        self.is_active = False
        self.needs_attention = True
        if self._fault != FAULT_NONE:
            self.error = frame_error(self._fault, self.recording_id, self._cursor.path_of(self.position),
                                     self.position, self._block, &self._cursor.layout)
        elif self._refusal == NOT_CONNECTED and not self.is_connected:
            self.error = ArchiveTimeoutError(
                f"replay of recording {self.recording_id} to {self.publication.channel} stream "
                f"{self.publication.stream_id} found no subscriber in {self._connect_timeout_ns // 1_000_000} ms")
        elif self._refusal not in (0, NOT_CONNECTED, CLOSED):
            self.error = ArchiveError(f"replay of recording {self.recording_id} was refused by its publication at "
                                      f"position={self.position}: result={self._refusal}")
        if self.revokes and (self.error is not None or not self._is_done()):
            self.publication.revoke()
        else:
            self.publication.close()
        self._cursor.forget()
