"""The many-to-one ring buffer of commands, clients to driver (cnc-and-driver-protocol.md §3).

```
 0                                           capacity                      capacity + 768
 +-------------------------------------------+-----------------------------------------+
 | records: i32 length, i32 type, payload    | tail, head cache, head, correlation id, |
 | each starts at a multiple of 8            | consumer heartbeat, 128 bytes apart     |
 +-------------------------------------------+-----------------------------------------+
```
Positions only grow; index = position & (capacity - 1). A length is negative while its record is being written.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcpy, memset

from ordo.runtime.native.atomics cimport (ordo_cas_i64, ordo_fence_release, ordo_fetch_add_i64, ordo_get_i32, ordo_load_acquire_i32,
                              ordo_load_acquire_i64, ordo_put_i32, ordo_store_release_i32, ordo_store_release_i64)

from ordo.runtime.errors import TransportError

TRAILER_LENGTH = RING_TRAILER_LENGTH
INSUFFICIENT_CAPACITY = RING_INSUFFICIENT


@cython.final
cdef class ManyToOneRing:
    """Producer and consumer over a memory slice of `capacity + 768` bytes.

    Raises TransportError when the capacity is not a power of two.
    """

    def __init__(self, Memory memory not None):
        self.capacity = memory.length_bytes - RING_TRAILER_LENGTH
        if self.capacity < 64 or self.capacity & (self.capacity - 1):
            raise TransportError(f"ring capacity={self.capacity} bytes is not a power of two of at least 64")
        self._memory = memory
        self.buffer = memory.data
        self.trailer = memory.data + self.capacity
        self.mask = self.capacity - 1
        self.max_message_length = <int32_t> (self.capacity // 8)

    # --- producer -------------------------------------------------------------------------------------------------

    cdef int64_t _reserve(self, int64_t required, int64_t* padding_index, int64_t* padding) noexcept nogil:
        """Move the tail past `required` bytes. Returns their index or RING_INSUFFICIENT, and the padding that was
        claimed."""
        cdef int64_t head = ordo_load_acquire_i64(self.trailer + RING_HEAD_CACHE)
        cdef int64_t tail, to_end, index, claimed
        while True:  # a failed CAS means that another producer got on
            tail = ordo_load_acquire_i64(self.trailer + RING_TAIL)
            if required > self.capacity - (tail - head):
                head = ordo_load_acquire_i64(self.trailer + RING_HEAD)
                if required > self.capacity - (tail - head):
                    padding[0] = 0
                    return RING_INSUFFICIENT
                ordo_store_release_i64(self.trailer + RING_HEAD_CACHE, head)
            index = tail & self.mask
            to_end = self.capacity - index
            padding[0] = 0
            claimed = required
            if required > to_end:
                padding_index[0] = index
                padding[0] = to_end
                claimed = to_end + required
                index = 0
                if required > (head & self.mask):
                    head = ordo_load_acquire_i64(self.trailer + RING_HEAD)
                    ordo_store_release_i64(self.trailer + RING_HEAD_CACHE, head)
                    if required > (head & self.mask):
                        index = RING_INSUFFICIENT
                        claimed = to_end
            if ordo_cas_i64(self.trailer + RING_TAIL, tail, tail + claimed):
                return index

    cpdef int64_t claim(self, int32_t type_id, int32_t length) noexcept nogil:
        """Reserve a record of `length` payload bytes (at most `max_message_length`) and a type of at least 1."""
        cdef int32_t record_length = length + RECORD_HEADER_LENGTH
        cdef int64_t padding_index = 0
        cdef int64_t padding = 0
        cdef int64_t index = self._reserve(align_record(record_length), &padding_index, &padding)
        if padding > 0:
            ordo_store_release_i32(self.buffer + padding_index, <int32_t> -padding)
            ordo_fence_release()
            ordo_put_i32(self.buffer + padding_index + RECORD_TYPE, RECORD_PADDING)
            ordo_store_release_i32(self.buffer + padding_index, <int32_t> padding)
        if index >= 0:
            ordo_store_release_i32(self.buffer + index, -record_length)
            ordo_fence_release()
            ordo_put_i32(self.buffer + index + RECORD_TYPE, type_id)
        return index

    cpdef void commit(self, int64_t index) noexcept nogil:
        """Make a claimed record visible."""
        ordo_store_release_i32(self.buffer + index, -ordo_get_i32(self.buffer + index))

    cpdef void abort(self, int64_t index) noexcept nogil:
        """Turn a claimed record into padding."""
        ordo_put_i32(self.buffer + index + RECORD_TYPE, RECORD_PADDING)
        ordo_store_release_i32(self.buffer + index, -ordo_get_i32(self.buffer + index))

    def write(self, int32_t type_id, const uint8_t[::1] payload not None) -> bool:
        """Write one message; False when there is no room now. Raises TransportError for a bad type or length."""
        cdef Py_ssize_t length = payload.shape[0]
        if type_id < 1:
            raise TransportError(f"ring message type={type_id}, at least 1")
        if length > self.max_message_length:
            raise TransportError(f"ring message of {length} bytes is longer than {self.max_message_length}")
        cdef int64_t index = self.claim(type_id, <int32_t> length)
        if index < 0:
            return False
        if length:
            memcpy(self.buffer + index + RECORD_HEADER_LENGTH, &payload[0], length)
        self.commit(index)
        return True

    def start_correlation_ids(self, int64_t first):
        """Start correlation ids at `first`; the driver calls this before it lets clients in."""
        ordo_store_release_i64(self.trailer + RING_CORRELATION, first)

    cpdef int64_t next_correlation_id(self) noexcept nogil:
        """Return an id unique for the life of the driver."""
        return ordo_fetch_add_i64(self.trailer + RING_CORRELATION, 1)

    # --- consumer -------------------------------------------------------------------------------------------------

    cpdef bint has_message(self) noexcept nogil:
        cdef int64_t head = ordo_load_acquire_i64(self.trailer + RING_HEAD)
        return ordo_load_acquire_i32(self.buffer + (head & self.mask)) > 0

    def read(self, handler, int limit=1) -> int:
        """Hand up to `limit` messages to `handler(type_id, payload: bytes)` and return how many were taken.

        A handler that returns False leaves its message in place and ends the read. A message whose handler raises
        is taken. Raises TransportError when a record contradicts the format.
        """
        cdef int64_t head = ordo_load_acquire_i64(self.trailer + RING_HEAD)
        cdef int64_t start = head & self.mask
        cdef int64_t contiguous = self.capacity - start
        cdef int64_t done = 0
        cdef int64_t step
        cdef int32_t length, type_id
        cdef int count = 0
        try:
            while done < contiguous and count < limit:
                length = ordo_load_acquire_i32(self.buffer + start + done)
                if length <= 0:
                    break
                step = (<int64_t> length + RECORD_ALIGNMENT - 1) & ~<int64_t> (RECORD_ALIGNMENT - 1)
                if length < RECORD_HEADER_LENGTH or step > contiguous - done:
                    raise TransportError(f"ring record at {start + done} has length={length}, 8 to {contiguous - done}")
                type_id = ordo_get_i32(self.buffer + start + done + RECORD_TYPE)
                if type_id == RECORD_PADDING:
                    done += step
                    continue
                payload = PyBytes_FromStringAndSize(
                    <char*> self.buffer + start + done + RECORD_HEADER_LENGTH, length - RECORD_HEADER_LENGTH)
                done += step
                count += 1
                if handler(type_id, payload) is False:
                    done -= step
                    count -= 1
                    break
        finally:
            if done:
                memset(self.buffer + start, 0, done)
                ordo_store_release_i64(self.trailer + RING_HEAD, head + done)
        return count

    def unblock(self) -> bool:
        """Turn a record that its producer left unfinished at the head into padding; only the consumer may call it."""
        cdef int64_t head = ordo_load_acquire_i64(self.trailer + RING_HEAD)
        cdef int64_t tail = ordo_load_acquire_i64(self.trailer + RING_TAIL)
        cdef int64_t index = head & self.mask
        cdef int64_t tail_index = tail & self.mask
        cdef int64_t end = tail_index if tail_index > index else self.capacity
        cdef int64_t at, back
        cdef int32_t length
        if head == tail:
            return False
        length = ordo_load_acquire_i32(self.buffer + index)
        if length < 0:
            ordo_put_i32(self.buffer + index + RECORD_TYPE, RECORD_PADDING)
            ordo_store_release_i32(self.buffer + index, -length)
            return True
        if length > 0:
            return False
        at = index + RECORD_ALIGNMENT
        while at < end and ordo_load_acquire_i32(self.buffer + at) == 0:
            at += RECORD_ALIGNMENT
        if at >= end:
            return False
        back = at - RECORD_ALIGNMENT
        while back >= index:
            if ordo_load_acquire_i32(self.buffer + back) != 0:
                return False
            back -= RECORD_ALIGNMENT
        ordo_put_i32(self.buffer + index + RECORD_TYPE, RECORD_PADDING)
        ordo_store_release_i32(self.buffer + index, <int32_t> (at - index))
        return True

    @property
    def head_position(self) -> int:
        """Bytes consumed since the start."""
        return ordo_load_acquire_i64(self.trailer + RING_HEAD)

    @property
    def tail_position(self) -> int:
        """Bytes claimed since the start."""
        return ordo_load_acquire_i64(self.trailer + RING_TAIL)

    @property
    def consumer_heartbeat_ms(self) -> int:
        """Epoch ms the consumer was last alive; 0 before its start, -1 after its close."""
        return ordo_load_acquire_i64(self.trailer + RING_HEARTBEAT)

    @consumer_heartbeat_ms.setter
    def consumer_heartbeat_ms(self, int64_t now_ms):
        ordo_store_release_i64(self.trailer + RING_HEARTBEAT, now_ms)
