"""Counters in Aeron's layout (cnc-and-driver-protocol.md §5).

A counter is a metadata record (state, type, key, label) and a value record (value, registration, owner, reference).
One manager allocates and frees; any process that maps the file reads.
"""

from collections import namedtuple

from libc.string cimport memcpy, memset

from ordo.runtime.native.atomics cimport (
    ordo_cas_i64, ordo_load_acquire_i32, ordo_load_acquire_i64, ordo_store_release_i32, ordo_store_release_i64)
from ordo.runtime.native.memory cimport allocate

from ordo.runtime.errors import CountersFullError

NULL_COUNTER_ID = -1
KEY_LENGTH_MAX = COUNTER_KEY_LENGTH_MAX
COUNTER_REUSE_TIMEOUT_MS_DEFAULT = 1000

cdef enum:
    RESERVED_AT_ONCE = 64
    STATE_OFFSET = 0
    TYPE_OFFSET = 4
    DEADLINE_OFFSET = 8
    KEY_OFFSET = 16
    LABEL_LENGTH_OFFSET = 128
    LABEL_OFFSET = 132
    REGISTRATION_OFFSET = 8
    OWNER_OFFSET = 16
    REFERENCE_OFFSET = 24

cdef int64_t NOT_FREE = 0x7FFFFFFFFFFFFFFF

CounterDescriptor = namedtuple(
    "CounterDescriptor", "counter_id type_id key label value registration_id owner_id reference_id")


cdef class Counter:
    def __init__(self):
        raise TypeError("a Counter is made by CountersReader.counter(), CountersManager.allocate() or local_counter()")

    cdef int64_t get(self) noexcept nogil:
        return ordo_load_acquire_i64(self.address)

    cdef void set_release(self, int64_t value) noexcept nogil:
        ordo_store_release_i64(self.address, value)

    cdef int64_t add(self, int64_t delta) noexcept nogil:
        cdef int64_t value = self.address[0] + delta
        ordo_store_release_i64(self.address, value)
        return value

    cdef bint propose_max(self, int64_t value) noexcept nogil:
        if self.address[0] >= value:
            return False
        ordo_store_release_i64(self.address, value)
        return True

    cpdef bint compare_and_set(self, int64_t expected, int64_t desired):
        """Set the value if it is `expected`, atomically among all processes that map the counter; return whether it was
        set."""
        return ordo_cas_i64(self.address, expected, desired)

    @property
    def value(self):
        return self.get()

    def set(self, int64_t value):
        """Store the value with release order; for the counter's one writer."""
        self.set_release(value)

    def increment(self, int64_t delta=1):
        """Add without an atomic operation, for the counter's one writer; return the new value."""
        return self.add(delta)

    def propose_maximum(self, int64_t value):
        """Raise the value to `value`; return False when it is that high already."""
        return self.propose_max(value)

    def __repr__(self):
        return f"Counter(counter_id={self.counter_id}, value={self.get()})"


cpdef Counter local_counter(int64_t value=0):
    """Return a counter outside every counters file, for one process; its id is NULL_COUNTER_ID."""
    cdef Memory memory = allocate(COUNTER_VALUE_LENGTH)
    cdef Counter counter = Counter.__new__(Counter)
    counter.address = <int64_t*> memory.data
    counter.counter_id = NULL_COUNTER_ID
    counter._owner = memory
    counter.set_release(value)
    return counter


cdef class CountersReader:
    def __init__(self, Memory metadata, Memory values):
        if metadata.length_bytes < values.length_bytes * (COUNTER_METADATA_LENGTH // COUNTER_VALUE_LENGTH):
            raise ValueError(
                f"metadata_length_bytes={metadata.length_bytes}, at least 4 * values_length_bytes={values.length_bytes}")
        self.metadata = metadata.data
        self.values = values.data
        self.max_counter_id = <int32_t> (values.length_bytes // COUNTER_VALUE_LENGTH) - 1
        self._owner = (metadata, values)

    cdef int64_t* address(self, int32_t counter_id) noexcept nogil:
        if counter_id < 0 or counter_id > self.max_counter_id:
            return NULL
        return <int64_t*> (self.values + <int64_t> counter_id * COUNTER_VALUE_LENGTH)

    cdef int64_t value(self, int32_t counter_id) noexcept nogil:
        cdef int64_t* address = self.address(counter_id)
        return 0 if address == NULL else ordo_load_acquire_i64(address)

    cdef int32_t state(self, int32_t counter_id) noexcept nogil:
        if counter_id < 0 or counter_id > self.max_counter_id:
            return COUNTER_UNUSED
        return ordo_load_acquire_i32(self.metadata + <int64_t> counter_id * COUNTER_METADATA_LENGTH)

    cdef int64_t registration(self, int32_t counter_id) noexcept nogil:
        cdef int64_t* address = self.address(counter_id)
        return 0 if address == NULL else ordo_load_acquire_i64(address + COUNTER_REGISTRATION_WORD)

    cpdef Counter counter(self, int32_t counter_id):
        """Return the counter of an id, whatever its state. Raises IndexError outside 0..max_counter_id."""
        cdef int64_t* address = self.address(counter_id)
        if address == NULL:
            raise IndexError(f"counter_id={counter_id}, allowed 0..{self.max_counter_id}")
        cdef Counter counter = Counter.__new__(Counter)
        counter.address = address
        counter.counter_id = counter_id
        counter._owner = self._owner
        return counter

    def get_value(self, int32_t counter_id):
        """Return the value, loaded with acquire. Raises IndexError outside 0..max_counter_id."""
        return self.counter(counter_id).value

    def is_active(self, int32_t counter_id, registration_id=None):
        """Return whether the counter is allocated (and still has that registration id)."""
        if self.state(counter_id) != COUNTER_ALLOCATED:
            return False
        return registration_id is None or self.registration(counter_id) == registration_id

    def describe(self, int32_t counter_id):
        """Return a CounterDescriptor, or None when the counter is not allocated. It is consistent: the state is read
        again at the end."""
        if self.state(counter_id) != COUNTER_ALLOCATED:
            return None
        cdef uint8_t* record = self.metadata + <int64_t> counter_id * COUNTER_METADATA_LENGTH
        cdef int64_t* value = self.address(counter_id)
        cdef int32_t label_length = ordo_load_acquire_i32(record + LABEL_LENGTH_OFFSET)
        label_length = min(max(label_length, 0), COUNTER_LABEL_LENGTH_MAX)
        descriptor = CounterDescriptor(
            counter_id,
            (<int32_t*> (record + TYPE_OFFSET))[0],
            (<char*> record)[KEY_OFFSET:LABEL_LENGTH_OFFSET],
            (<char*> record)[LABEL_OFFSET:LABEL_OFFSET + label_length].decode("ascii", "replace"),
            ordo_load_acquire_i64(value),
            ordo_load_acquire_i64(value + COUNTER_REGISTRATION_WORD),
            ordo_load_acquire_i64(value + COUNTER_OWNER_WORD),
            ordo_load_acquire_i64(value + COUNTER_REFERENCE_WORD),
        )
        return descriptor if self.state(counter_id) == COUNTER_ALLOCATED else None

    def __iter__(self):
        """Iterate over the allocated counters in the order of their ids."""
        for counter_id in range(self.max_counter_id + 1):
            if self.state(counter_id) == COUNTER_UNUSED:
                return
            descriptor = self.describe(counter_id)
            if descriptor is not None:
                yield descriptor

    def find_all(self, int32_t type_id):
        """Return the ids of the allocated counters of a type, ascending."""
        cdef int32_t counter_id, state
        cdef uint8_t* record
        found = []
        for counter_id in range(self.max_counter_id + 1):
            state = self.state(counter_id)
            if state == COUNTER_UNUSED:
                break
            record = self.metadata + <int64_t> counter_id * COUNTER_METADATA_LENGTH
            if state == COUNTER_ALLOCATED and (<int32_t*> (record + TYPE_OFFSET))[0] == type_id:
                found.append(counter_id)
        return found

    def find(self, int32_t type_id, bytes key=b"", registration_id=None, owner_id=None):
        """Return the id of the first allocated counter of a type, NULL_COUNTER_ID if there is none.

        `key` is compared with the beginning of the counter's key; `registration_id` and `owner_id` when given.
        """
        for counter_id in self.find_all(type_id):
            found = self.describe(counter_id)
            if found is None or not found.key.startswith(key):
                continue
            if registration_id is not None and found.registration_id != registration_id:
                continue
            if owner_id is None or found.owner_id == owner_id:
                return counter_id
        return NULL_COUNTER_ID


cdef class CountersManager(CountersReader):
    """The one writer of counters. `metadata` is at least 4 times as long as `values`; both zeroed when new.

    A freed counter is used again `reuse_timeout_ms` after, so that readers of a stale id see RECLAIMED first.
    """

    def __init__(self, Memory metadata, Memory values, Clock clock,
                 int64_t reuse_timeout_ms=COUNTER_REUSE_TIMEOUT_MS_DEFAULT):
        super().__init__(metadata, values)
        self.clock = clock
        self.reuse_timeout_ms = reuse_timeout_ms
        self.high_water_mark = self._reserved_id = -1
        self._freed = []

    def allocate(self, int32_t type_id, str label, bytes key=b"", *, int64_t registration_id=0, int64_t owner_id=0,
                 int64_t reference_id=0, int64_t value=0):
        """Allocate a counter. Raises CountersFullError. A label over 380 ASCII characters is cut; a key is 0..112
        bytes."""
        if len(key) > COUNTER_KEY_LENGTH_MAX:
            raise ValueError(f"key_length_bytes={len(key)}, at most {COUNTER_KEY_LENGTH_MAX}")
        cdef int32_t counter_id = self._next_id()
        cdef uint8_t* record = self.metadata + <int64_t> counter_id * COUNTER_METADATA_LENGTH
        cdef int64_t* cell = self.address(counter_id)
        cell[COUNTER_REGISTRATION_WORD] = cell[COUNTER_OWNER_WORD] = cell[COUNTER_REFERENCE_WORD] = 0
        ordo_store_release_i64(cell, value)
        memset(record + TYPE_OFFSET, 0, COUNTER_METADATA_LENGTH - TYPE_OFFSET)
        (<int32_t*> (record + TYPE_OFFSET))[0] = type_id
        (<int64_t*> (record + DEADLINE_OFFSET))[0] = NOT_FREE
        memcpy(record + KEY_OFFSET, <const char*> key, len(key))
        self._write_label(record, label)
        ordo_store_release_i32(record + STATE_OFFSET, COUNTER_ALLOCATED)
        ordo_store_release_i64(cell + COUNTER_OWNER_WORD, owner_id)
        ordo_store_release_i64(cell + COUNTER_REFERENCE_WORD, reference_id)
        ordo_store_release_i64(cell + COUNTER_REGISTRATION_WORD, registration_id)
        return self.counter(counter_id)

    def free(self, int32_t counter_id):
        """Free a counter. Raises ValueError when it is not allocated."""
        if self.state(counter_id) != COUNTER_ALLOCATED:
            raise ValueError(f"counter_id={counter_id} is not allocated")
        cdef uint8_t* record = self.metadata + <int64_t> counter_id * COUNTER_METADATA_LENGTH
        ordo_store_release_i32(record + STATE_OFFSET, COUNTER_RECLAIMED)
        memset(record + KEY_OFFSET, 0, COUNTER_KEY_LENGTH_MAX)
        (<int64_t*> (record + DEADLINE_OFFSET))[0] = self.clock.epoch_time_ns() // 1000000 + self.reuse_timeout_ms
        self._freed.append(counter_id)

    @property
    def available(self):
        """The number of counters that are not allocated; some of them may wait for their reuse."""
        return self.max_counter_id - self.high_water_mark + len(self._freed)

    def append_label(self, int32_t counter_id, str text):
        """Add to a label as far as there is room."""
        descriptor = self.describe(counter_id)
        if descriptor is None:
            raise ValueError(f"counter_id={counter_id} is not allocated")
        self._write_label(self.metadata + <int64_t> counter_id * COUNTER_METADATA_LENGTH, descriptor.label + text)

    def set_key(self, int32_t counter_id, bytes key):
        """Replace a key of 0..112 bytes."""
        if len(key) > COUNTER_KEY_LENGTH_MAX or self.address(counter_id) == NULL:
            raise ValueError(f"counter_id={counter_id} key_length_bytes={len(key)}, at most {COUNTER_KEY_LENGTH_MAX}")
        padded = key.ljust(COUNTER_KEY_LENGTH_MAX, b"\0")
        memcpy(self.metadata + <int64_t> counter_id * COUNTER_METADATA_LENGTH + KEY_OFFSET, <const char*> padded,
               COUNTER_KEY_LENGTH_MAX)

    def set_registration_id(self, int32_t counter_id, int64_t registration_id):
        ordo_store_release_i64(self.counter(counter_id).address + COUNTER_REGISTRATION_WORD, registration_id)

    def set_owner_id(self, int32_t counter_id, int64_t owner_id):
        ordo_store_release_i64(self.counter(counter_id).address + COUNTER_OWNER_WORD, owner_id)

    def set_reference_id(self, int32_t counter_id, int64_t reference_id):
        ordo_store_release_i64(self.counter(counter_id).address + COUNTER_REFERENCE_WORD, reference_id)

    cdef int32_t _next_id(self) except -1:
        cdef int64_t now_ms = self.clock.epoch_time_ns() // 1000000
        cdef uint8_t* record
        if self._freed:                           # the one that was freed first is the first to be used again
            record = self.metadata + <int64_t> <int32_t> self._freed[0] * COUNTER_METADATA_LENGTH
            if (<int64_t*> (record + DEADLINE_OFFSET))[0] <= now_ms:
                return self._freed.pop(0)
        if self.high_water_mark >= self.max_counter_id:
            raise CountersFullError(
                f"no counter is free: max_counter_id={self.max_counter_id} waiting_for_reuse={len(self._freed)}; "
                "make the counters values buffer longer or close unused streams")
        counter_id = self.high_water_mark + 1
        if counter_id > self._reserved_id and not self._reserve(counter_id):
            raise CountersFullError(f"shared memory has no room for counter_id={counter_id}: enlarge /dev/shm")
        self.high_water_mark = counter_id
        return self.high_water_mark

    cdef bint _reserve(self, int32_t counter_id) noexcept:
        """Return whether there is memory for the counters of this and the next ids, and for the record after them,
        whose state tells readers where counters end. Reserves several at a time, since it is a system call."""
        cdef Memory metadata = self._owner[0], values = self._owner[1]
        cdef int32_t last_id
        for last_id in (min(counter_id + RESERVED_AT_ONCE - 1, self.max_counter_id), counter_id):
            if (self._reserve_range(metadata, counter_id, last_id + 1, COUNTER_METADATA_LENGTH)
                    and self._reserve_range(values, counter_id, last_id, COUNTER_VALUE_LENGTH)):
                self._reserved_id = last_id
                return True
        return False

    cdef bint _reserve_range(self, Memory memory, int32_t first_id, int32_t last_id, int32_t record_length) noexcept:
        cdef Py_ssize_t start = <Py_ssize_t> first_id * record_length
        cdef Py_ssize_t end = min(<Py_ssize_t> (last_id + 1) * record_length, memory.length_bytes)
        return memory.reserve(start, end - start)

    cdef void _write_label(self, uint8_t* record, str label):
        text = label.encode("ascii", "replace")[:COUNTER_LABEL_LENGTH_MAX]
        memcpy(record + LABEL_OFFSET, <const char*> text, len(text))
        ordo_store_release_i32(record + LABEL_LENGTH_OFFSET, <int32_t> len(text))
