"""How far this member knows its log to be committed, as a kill leaves it. See commit_slots.pxd."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from ordo.runtime.native.atomics cimport ordo_put_i32, ordo_put_i64, ordo_store_release_i32
from ordo.runtime.native.memory cimport Memory

cdef enum:
    SLOT_LENGTH = 32
    SLOT_POSITION = 0
    SLOT_SEQUENCE = 8
    SLOT_CHECKSUM = 16
    CHECKED_LENGTH = 16

cdef uint32_t[256] _REMAINDERS      # of CRC-32 as zlib has it, by byte


cdef void _fill_remainders() noexcept nogil:
    cdef uint32_t index, value
    cdef int bit
    for index in range(256):
        value = index
        for bit in range(8):
            value = value >> 1 ^ (0xEDB88320u if value & 1 else 0)
        _REMAINDERS[index] = value


_fill_remainders()


cdef uint32_t _checksum(const uint8_t* data) noexcept nogil:
    cdef uint32_t value = 0xFFFFFFFFu
    cdef int index
    for index in range(CHECKED_LENGTH):
        value = _REMAINDERS[(value ^ data[index]) & 0xFF] ^ value >> 8
    return ~value


cdef class CommitSlots:
    def __init__(self, Memory memory not None, int64_t sequence, int64_t position):
        if memory.length_bytes < 2 * SLOT_LENGTH:
            raise ValueError(f"length_bytes={memory.length_bytes}, at least {2 * SLOT_LENGTH}")
        self._memory = memory
        self._data = memory.data
        self._sequence = sequence
        self.position = position

    cdef void raise_to(self, int64_t position) noexcept nogil:
        """Note that the log is committed up to a position. Whoever is told of it is told after this."""
        if position > self.position and not self.is_held:
            self._put(position)

    cdef void _put(self, int64_t position) noexcept nogil:
        cdef uint8_t* slot
        if self._data == NULL:
            return
        self._sequence += 1
        self.position = position
        slot = self._data + (self._sequence & 1) * SLOT_LENGTH
        ordo_put_i64(slot + SLOT_POSITION, position)
        ordo_put_i64(slot + SLOT_SEQUENCE, self._sequence)
        ordo_store_release_i32(slot + SLOT_CHECKSUM, <int> _checksum(slot))

    def note(self, int64_t position):
        """Call `raise_to` from Python."""
        self.raise_to(position)

    def put(self, int64_t position):
        """Set the position, even below an earlier one whose log the member has lost."""
        self._put(position)

    def close(self):
        """Let go of the memory; nothing is noted any more. Idempotent."""
        self._data = NULL
        if self._memory is not None:
            self._memory.close()
            self._memory = None
