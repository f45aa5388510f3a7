"""The distinct error log of a counters file or mark file (cnc-and-driver-protocol.md §5.5).

An error met again is counted, not written again. Any process that maps the memory can read it.
"""

import traceback
from collections import namedtuple

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ordo.runtime.native.atomics cimport (
    ordo_fetch_add_i32, ordo_load_acquire_i32, ordo_load_acquire_i64, ordo_store_release_i32, ordo_store_release_i64)
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.native.memory cimport Memory

from ordo.runtime.payloads import to_utf8

cdef enum:
    COUNT_OFFSET = 4
    LAST_OFFSET = 8
    FIRST_OFFSET = 16
    TEXT_OFFSET = 24
    TEXT_LENGTH_MAX = 16384

ErrorObservation = namedtuple("ErrorObservation", "observation_count first_ms last_ms text")


cdef inline int64_t _aligned(int64_t length_bytes) noexcept nogil:
    return (length_bytes + 7) & ~7


cdef class DistinctErrorLog:
    """The one writer of an error log. `counter`, when given, is incremented for every observation (system counter
    15)."""
    cdef Memory _memory
    cdef Clock _clock
    cdef Counter _counter
    cdef dict _offsets
    cdef int64_t _next

    def __init__(self, Memory memory not None, Clock clock not None, Counter counter=None):
        self._memory = memory
        self._clock = clock
        self._counter = counter
        self._offsets = {}
        self._next = 0
        for offset, raw in _scan(memory):
            self._offsets[raw] = offset
            self._next = <int64_t> offset + _aligned(TEXT_OFFSET + len(raw))

    def record(self, error):
        """Count one observation of an exception or a text. Returns False when there is no room for a new error."""
        text = error if isinstance(error, str) else "".join(traceback.format_exception(error)).rstrip()
        raw = to_utf8(text)[:TEXT_LENGTH_MAX]
        if self._counter is not None:
            self._counter.add(1)
        cdef int64_t now_ms = self._clock.epoch_time_ns() // 1000000
        offset = self._offsets.get(raw)
        if offset is None:
            offset = self._append(raw, now_ms)
            if offset < 0:
                return False
        cdef uint8_t* record = self._memory.data + <int64_t> offset
        ordo_fetch_add_i32(record + COUNT_OFFSET, 1)
        ordo_store_release_i64(record + LAST_OFFSET, now_ms)
        return True

    cdef int64_t _append(self, bytes raw, int64_t now_ms) except? -2:
        cdef int64_t length_bytes = TEXT_OFFSET + len(raw)
        cdef int64_t offset = self._next
        if offset + _aligned(length_bytes) > self._memory.length_bytes:
            return -1
        cdef uint8_t* record = self._memory.data + offset
        memcpy(record + TEXT_OFFSET, <const char*> raw, len(raw))
        (<int64_t*> (record + FIRST_OFFSET))[0] = now_ms
        ordo_store_release_i32(record, <int32_t> length_bytes)
        self._offsets[raw] = offset
        self._next = offset + _aligned(length_bytes)
        return offset


def read_errors(Memory memory not None, int64_t since_ms=0):
    """Return the ErrorObservations last seen at or after `since_ms` (epoch), in the order of their first
    observation."""
    found = [_observation(memory, offset, raw) for offset, raw in _scan(memory)]
    return [one for one in found if one.observation_count > 0 and one.last_ms >= since_ms]


cdef object _observation(Memory memory, int64_t offset, bytes raw):
    cdef uint8_t* record = memory.data + offset
    return ErrorObservation(
        ordo_load_acquire_i32(record + COUNT_OFFSET), (<int64_t*> (record + FIRST_OFFSET))[0],
        ordo_load_acquire_i64(record + LAST_OFFSET), raw.decode("utf-8", "replace"))


cdef list _scan(Memory memory):
    """The place and the text of each error, as its bytes."""
    cdef int64_t offset = 0
    cdef int32_t length_bytes
    cdef uint8_t* record
    found = []
    while offset + TEXT_OFFSET <= memory.length_bytes:
        record = memory.data + offset
        length_bytes = ordo_load_acquire_i32(record)
        if length_bytes < TEXT_OFFSET or offset + length_bytes > memory.length_bytes:
            break
        found.append((offset, (<char*> record)[TEXT_OFFSET:length_bytes]))
        offset += _aligned(length_bytes)
    return found
