"""What of a publication's log buffer goes out: whole committed frames, as datagrams. See sent_stream.pxd."""

from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_u16, ordo_load_acquire_i32, ordo_store_release_i64
from ordo.transport.driver.frames.system_counters cimport count_event
from ordo.transport.driver.frames.frames cimport *
from ordo.transport.streams.logbuffer cimport (FRAME_TYPE_OFFSET, HEADER_LENGTH, SESSION_ID_OFFSET, STREAM_ID_OFFSET,
    TERM_ID_OFFSET, TERM_OFFSET_OFFSET, TYPE_PAD, align_frame_i64, compute_term_id)

cdef enum:
    HELD_PADDING_MAX = 4096            # a PAD up to this length waits until the window, if it is as long, has room for it


cdef class SentStream(Worked):
    cdef int32_t _block(self, int64_t position, int64_t limit, int32_t* padding) noexcept nogil:
        """Return the bytes of whole committed frames from a position for one datagram; `padding` is what a PAD hides
        after it.

        0: nothing there. -1: the first frame does not fit below the limit.
        """
        cdef int32_t offset = <int32_t> (position & (self.term_length - 1))
        cdef int64_t room = self.term_length - offset
        cdef const uint8_t* frames = self.log.at(position)
        cdef int64_t block = 0
        cdef int32_t length
        cdef int64_t aligned
        padding[0] = 0
        if limit - position < room:
            room = limit - position
        if room > self.mtu:
            room = self.mtu
        while block < room or block == 0:
            length = ordo_load_acquire_i32(frames + block)
            if length <= 0:
                break
            aligned = align_frame_i64(length)
            if length < HEADER_LENGTH or offset + block + aligned > self.term_length \
                    or not self._is_own(frames + block, position + block):
                self.is_damaged = self.is_damaged or position + block >= self.sender_position
                break
            if ordo_get_u16(frames + block + FRAME_TYPE_OFFSET) == TYPE_PAD:
                # Beyond the window a receiver takes none of it; of many in a row the last would be lost again each time.
                if block + HEADER_LENGTH > room or (aligned <= min(HELD_PADDING_MAX, self.receiver_window)
                                                    and position + block + aligned > limit):
                    return <int32_t> block if block > 0 else -1
                padding[0] = <int32_t> aligned - HEADER_LENGTH
                return <int32_t> block + HEADER_LENGTH
            if block + aligned > room:
                return <int32_t> block if block > 0 else -1
            block += aligned
        return <int32_t> block

    cdef bint _is_own(self, const uint8_t* frame, int64_t position) noexcept nogil:
        """Return whether a frame belongs to this stream and to its position. The client may have written anything
        (log-buffer.md §3)."""
        return (ordo_get_i32(frame + TERM_OFFSET_OFFSET) == <int32_t> (position & (self.term_length - 1))
                and ordo_get_i32(frame + SESSION_ID_OFFSET) == self.session_id
                and ordo_get_i32(frame + STREAM_ID_OFFSET) == self.stream_id
                and ordo_get_i32(frame + TERM_ID_OFFSET) == compute_term_id(position, self.shift, self.initial_term_id))

    cdef int _collect(self, int64_t position, int64_t limit, int64_t max_length, SendItem* items, int64_t* after,
                      int capacity) noexcept nogil:
        """Fill items with consecutive blocks of one term; equal-length runs share an item. `after[i]` is the position
        behind item i. Returns the number of items, or -1 when the first frame does not fit below the limit."""
        cdef int count = 0
        cdef int64_t collected = 0
        cdef int32_t block, padding = 0
        cdef SendItem* last = NULL
        while collected < max_length:
            block = self._block(position, limit, &padding)
            if block <= 0:
                return -1 if block < 0 and count == 0 else count
            if self.endpoint.stamper is not None:
                self.endpoint.stamper.stamp(self.log.at(position), self.log.at(position), <uint32_t> block, 0)
            if (last != NULL and <uint32_t> block <= last.segment_length_bytes
                    and last.length_bytes % last.segment_length_bytes == 0
                    and last.length_bytes + block <= ITEM_LENGTH_MAX
                    and last.length_bytes < last.segment_length_bytes * SEGMENTS_MAX):
                last.length_bytes += block
            else:
                if count == capacity:
                    return count
                last = &items[count]
                last.data = self.log.at(position)
                last.length_bytes = last.segment_length_bytes = block
                count += 1
            position += block + padding
            collected += block
            after[count - 1] = position
            if padding > 0 or position & (self.term_length - 1) == 0:
                return count
        return count

    cdef void advance(self, int64_t position, int length_bytes, int64_t now_ns) noexcept nogil:
        """Note that the datagrams up to a position, of `length_bytes` together, have left."""
        self.last_send_ns = now_ns
        self.track_limits = True
        self.sender_position = position
        ordo_store_release_i64(self.sender_position_cell, position)
        count_event(self.system, COUNTER_BYTES_SENT, length_bytes)

    cdef void on_idle(self, int64_t now_ns) noexcept nogil:
        pass
