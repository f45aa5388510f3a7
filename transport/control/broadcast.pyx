"""The broadcast buffer of responses, driver to clients (cnc-and-driver-protocol.md §4).

One writer, any number of readers that it never waits for. Records as in the ring: i32 length, i32 type, payload,
each at a multiple of 8; the trailer holds tail intent, tail and latest.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcpy

from ordo.runtime.native.atomics cimport (ordo_fence_full, ordo_fence_release, ordo_get_i32, ordo_load_acquire_i64, ordo_put_i32,
                              ordo_store_release_i64)
from ordo.transport.control.ring cimport RECORD_HEADER_LENGTH, RECORD_PADDING, RECORD_TYPE, align_record

from ordo.runtime.errors import TransportError

TRAILER_LENGTH = BROADCAST_TRAILER_LENGTH


cdef int64_t _capacity(Memory memory) except -1:
    cdef int64_t capacity = memory.length_bytes - BROADCAST_TRAILER_LENGTH
    if capacity < 64 or capacity & (capacity - 1):
        raise TransportError(f"broadcast capacity={capacity} bytes is not a power of two of at least 64")
    return capacity


@cython.final
cdef class BroadcastTransmitter:
    """Writer over a memory slice of `capacity + 128` bytes; raises TransportError when that is no power of two."""

    def __init__(self, Memory memory not None):
        self.capacity = _capacity(memory)
        self._memory = memory
        self.buffer = memory.data
        self.trailer = memory.data + self.capacity
        self.mask = self.capacity - 1
        self.max_message_length = <int32_t> (self.capacity // 8)

    def transmit(self, int32_t type_id, const uint8_t[::1] payload not None) -> None:
        """Send one message to every reader. Raises TransportError for a bad type or length."""
        cdef Py_ssize_t length = payload.shape[0]
        if type_id < 1:
            raise TransportError(f"broadcast message type={type_id}, at least 1")
        if length > self.max_message_length:
            raise TransportError(f"broadcast message of {length} bytes is longer than {self.max_message_length}")
        cdef int64_t record_length = length + RECORD_HEADER_LENGTH
        cdef int64_t aligned = align_record(record_length)
        cdef int64_t tail = ordo_load_acquire_i64(self.trailer + BROADCAST_TAIL)
        cdef int64_t offset = tail & self.mask
        cdef int64_t to_end = self.capacity - offset
        if to_end < aligned:
            self._announce(tail + to_end + aligned)
            ordo_put_i32(self.buffer + offset, <int32_t> to_end)
            ordo_put_i32(self.buffer + offset + RECORD_TYPE, RECORD_PADDING)
            tail += to_end
            offset = 0
        else:
            self._announce(tail + aligned)
        ordo_put_i32(self.buffer + offset, <int32_t> record_length)
        ordo_put_i32(self.buffer + offset + RECORD_TYPE, type_id)
        if length:
            memcpy(self.buffer + offset + RECORD_HEADER_LENGTH, &payload[0], length)
        ordo_store_release_i64(self.trailer + BROADCAST_LATEST, tail)
        ordo_store_release_i64(self.trailer + BROADCAST_TAIL, tail + aligned)

    cdef void _announce(self, int64_t tail_intent) noexcept nogil:
        """Announce how far the next write reaches; readers about to be overwritten must see this before the first byte
        changes."""
        ordo_store_release_i64(self.trailer + BROADCAST_TAIL_INTENT, tail_intent)
        ordo_fence_release()


@cython.final
cdef class BroadcastReceiver:
    """Reader over a memory slice of `capacity + 128` bytes; begins with the most recent message."""

    def __init__(self, Memory memory not None):
        self.capacity = _capacity(memory)
        self._memory = memory
        self.buffer = memory.data
        self.trailer = memory.data + self.capacity
        self.mask = self.capacity - 1
        self.cursor = ordo_load_acquire_i64(self.trailer + BROADCAST_LATEST)
        self.lapped_count = 0

    cpdef bint has_message(self) noexcept nogil:
        """Return whether a message (or padding before one) waits."""
        return ordo_load_acquire_i64(self.trailer + BROADCAST_TAIL) > self.cursor

    cdef bint _lapped(self) noexcept nogil:
        return self.cursor + self.capacity <= ordo_load_acquire_i64(self.trailer + BROADCAST_TAIL_INTENT)

    def receive(self) -> tuple | None:
        """Return the next (type id, payload), or None. A lapped receiver goes on at the latest message; see
        `lapped_count`."""
        cdef int64_t index, length
        cdef int32_t type_id
        cdef int attempt
        for attempt in range(8):
            if not self.has_message():
                return None
            if self._lapped():
                self._resync()
                continue
            index = self.cursor & self.mask
            length = ordo_get_i32(self.buffer + index)
            type_id = ordo_get_i32(self.buffer + index + RECORD_TYPE)
            if length < RECORD_HEADER_LENGTH or length > self.capacity - index:
                if self._validate():
                    raise TransportError(
                        f"broadcast record at {index} has length={length}, 8 to {self.capacity - index}")
                continue
            if type_id == RECORD_PADDING:
                if self._validate():
                    self.cursor += length
                continue
            payload = PyBytes_FromStringAndSize(
                <char*> self.buffer + index + RECORD_HEADER_LENGTH, length - RECORD_HEADER_LENGTH)
            if self._validate():
                self.cursor += align_record(length)
                return type_id, payload
        return None

    cdef bint _validate(self) noexcept nogil:
        """Return whether what was just read was not being overwritten meanwhile; resynchronise if it was."""
        ordo_fence_full()
        if self._lapped():
            self._resync()
            return False
        return True

    cdef void _resync(self) noexcept nogil:
        self.cursor = ordo_load_acquire_i64(self.trailer + BROADCAST_LATEST)
        self.lapped_count += 1
