"""Rows into Arrow record batches: no Python object per row, and only the columns asked for.

A batch lies in one piece of memory, each column at a place that is the same for all batches of a builder:

    | values, offsets and validity of each column, at multiples of 64 | bytes of the payload column |

Arrow reads it where it is. When the last array that looks at a piece is gone, a later batch is built in it, also one of
another task of this process: fresh pages cost as much as what is written into them.
"""

from functools import lru_cache

import pyarrow as pa

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from ordo.pipeline.decoding.cursor cimport Message
from ordo.pipeline.decoding.records cimport KIND_COUNT, Record
from ordo.runtime.native.time_units cimport cluster_time_us

KIND_NAMES = ("message", "session_open", "session_close", "timer", "new_term", "cluster_action", "membership", "other",
              "data", "request", "identity", "configuration", "skip", "version", "state_hash", "level",
              "cluster_identity", "schema", "clock")
COLUMN_NAMES = ("recording", "node", "leadership_term", "position", "start_position", "timestamp", "cluster_time",
                "kind", "session_id", "correlation_id", "payload", "payload_length")
BODY = "body"
IS_REPEAT = "is_repeat"
SEQUENCE = "sequence"
ARRIVAL = "arrival_ns"
ALL_COLUMN_NAMES = (*COLUMN_NAMES, BODY, IS_REPEAT)
"""Also those that are made of others (ordo.pipeline.recordings.repeats); SEQUENCE and ARRIVAL are there only where asked
for."""
PLACES = (*COLUMN_NAMES, ARRIVAL)

cdef enum:
    LEADERSHIP_TERM = 2
    POSITION = 3
    START_POSITION = 4
    TIMESTAMP = 5
    CLUSTER_TIME = 6
    KIND = 7
    SESSION_ID = 8
    CORRELATION_ID = 9
    PAYLOAD = 10
    PAYLOAD_LENGTH = 11
    ARRIVAL_TIME = 12
    KIND_TEXT_SIZE = 16                 # copied whole for every row; what is too much the next row writes over
    SPARES_MAX = 3
    SPARE_LENGTH_MAX = 32 * 1024 * 1024

ARROW_TYPES = {
    "recording": pa.int64(), "node": pa.string(), "leadership_term": pa.int64(), "position": pa.int64(),
    "start_position": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC"), "cluster_time": pa.int64(),
    "kind": pa.string(), "session_id": pa.int64(), "correlation_id": pa.int64(), "payload": pa.binary(),
    "payload_length": pa.int32(), BODY: pa.binary(), IS_REPEAT: pa.bool_(), SEQUENCE: pa.int64(),
    ARRIVAL: pa.int64(),
}
NEVER_NULL = frozenset(("recording", "node", "position", "start_position", "kind", "payload", "payload_length"))
assert len(PLACES) == COLUMN_COUNT and len(KIND_NAMES) == KIND_COUNT
assert max(len(name) for name in KIND_NAMES) <= KIND_TEXT_SIZE

cdef uint8_t KIND_TEXT[KIND_COUNT][KIND_TEXT_SIZE]
cdef int32_t KIND_TEXT_LENGTH[KIND_COUNT]
cdef list SPARES = []                   # the latest few BatchMemory that nobody looks at any more


cdef int fill_kind_text() except -1:
    for index, name in enumerate(KIND_NAMES):
        encoded = name.encode()
        memcpy(KIND_TEXT[index], <const char*> encoded, len(encoded))
        KIND_TEXT_LENGTH[index] = len(encoded)
    return 0


fill_kind_text()


def arrow_schema(columns):
    """Arrow schema of the columns asked for, in that order; nullability as Spark declares it (all nullable)."""
    return pa.schema([pa.field(name, ARROW_TYPES[name]) for name in columns])


cdef class BatchMemory:

    def __cinit__(self, int64_t length_bytes):
        if length_bytes <= 0:
            raise ValueError(f"length_bytes={length_bytes} must be positive")
        self.data = <uint8_t*> malloc(<size_t> length_bytes)
        if self.data == NULL:
            raise MemoryError(f"no {length_bytes} bytes for a record batch; lower option batchRows")
        self.length_bytes = length_bytes

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.length_bytes, 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1
        if self.exports == 0 and self.length_bytes <= SPARE_LENGTH_MAX:
            if len(SPARES) == SPARES_MAX:
                SPARES.pop(0)
            SPARES.append(self)


cdef BatchMemory take_memory(int64_t length_bytes):
    """A spare one that is long enough, or a new one."""
    cdef BatchMemory memory
    for index, memory in enumerate(SPARES):
        if memory.length_bytes >= length_bytes:
            del SPARES[index]
            return memory
    return BatchMemory(length_bytes)


@lru_cache(maxsize=4)
def _constant(name, value, rows):
    """A column that has the same value in all rows."""
    return pa.repeat(pa.scalar(value, ARROW_TYPES[name]), rows)


cdef inline void put_nullable(Column* column, int64_t row, bint present, int64_t value) noexcept nogil:
    column.values[row] = value
    if not present:
        column.values[row] = 0
        column.valid[row >> 3] &= <uint8_t> ~(1 << (row & 7))
        column.null_count += 1


cdef inline void put_kind(Column* column, int64_t row, int kind) noexcept nogil:
    cdef int32_t offset = column.offsets[row]
    memcpy(column.data + offset, KIND_TEXT[kind], KIND_TEXT_SIZE)
    column.offsets[row + 1] = offset + KIND_TEXT_LENGTH[kind]


cdef inline void put_bytes(Column* column, int64_t row, const uint8_t* data, int64_t length_bytes) noexcept nogil:
    cdef int32_t offset = column.offsets[row]
    memcpy(column.data + offset, data, length_bytes)
    column.offsets[row + 1] = offset + <int32_t> length_bytes


def _aligned(int64_t length_bytes):
    return (length_bytes + 63) // 64 * 64


cdef class BatchBuilder:

    def __cinit__(self, object columns, int64_t recording_id, str node, int time_unit, int64_t batch_rows=32768,
                  int64_t batch_bytes=4194304):
        self.columns = tuple(columns)
        self.schema = arrow_schema(self.columns)
        self.batch_rows = batch_rows
        self.batch_bytes = batch_bytes
        self.time_unit = time_unit
        self.has_payload = "payload" in self.columns
        values = {"recording": recording_id, "node": node}
        self.constants = {name: _constant(name, values[name], batch_rows) for name in self.columns if name in values}
        self._lay_out()

    def _lay_out(self):
        self.places = {}
        end = 0
        for index, name in enumerate(PLACES):
            self.wanted[index] = name in self.columns and name not in self.constants
            if not self.wanted[index]:
                continue
            valid = data = None
            values, end = end, end + _aligned((self.batch_rows + 1) * (ARROW_TYPES[name].bit_width // 8
                                              if index not in (KIND, PAYLOAD) else 4))
            if name not in NEVER_NULL:
                valid, end = end, end + _aligned(self.batch_rows // 8 + 1)
            if index == KIND:
                data, end = end, end + _aligned((self.batch_rows + 1) * KIND_TEXT_SIZE)
            self.places[name] = (valid, values, data)
        self.fixed_bytes = max(64, end)         # also when all columns are constant
        if self.has_payload:
            self.places["payload"] = (None, self.places["payload"][1], end)

    cdef int begin(self, int64_t payload_bytes) except -1:
        """Start a batch with room for this many bytes of payload."""
        cdef Column* column
        if self.memory is None or self.memory.length_bytes < self.fixed_bytes + payload_bytes:
            self.memory = take_memory(self.fixed_bytes + payload_bytes)
        for name, (valid, values, data) in self.places.items():
            column = &self.into[PLACES.index(name)]
            column.null_count = 0
            column.values = <int64_t*> (self.memory.data + <int64_t> values)
            column.offsets = <int32_t*> column.values
            if data is not None:
                column.data = self.memory.data + <int64_t> data
                column.offsets[0] = 0
            if valid is not None:
                column.valid = self.memory.data + <int64_t> valid
                memset(column.valid, 0xFF, self.batch_rows // 8 + 1)
        return 0

    cdef object finish(self, int64_t rows):
        """The batch of the rows put since `begin`."""
        cdef Column* column
        whole, self.memory = pa.py_buffer(self.memory), None
        arrays = []
        for name in self.columns:
            if name in self.constants:
                arrays.append(self.constants[name].slice(0, rows))
                continue
            valid, values, data = self.places[name]
            column = &self.into[PLACES.index(name)]
            buffers = [whole.slice(valid) if column.null_count else None, whole.slice(values)]
            if data is not None:
                buffers.append(whole.slice(data, column.offsets[rows]))
            arrays.append(pa.Array.from_buffers(ARROW_TYPES[name], rows, buffers, column.null_count))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    cdef void put(self, int64_t row, const Message* message, const Record* record) noexcept nogil:
        cdef int64_t length = message.length_bytes - record.payload_offset
        if self.wanted[PAYLOAD]:
            put_bytes(&self.into[PAYLOAD], row, message.data + record.payload_offset, length)
        if self.wanted[POSITION]:
            self.into[POSITION].values[row] = message.position
        if self.wanted[TIMESTAMP]:
            put_nullable(&self.into[TIMESTAMP], row, record.has_term, cluster_time_us(record.cluster_time, self.time_unit))
        if self.wanted[SESSION_ID]:
            put_nullable(&self.into[SESSION_ID], row, record.has_session, record.session_id)
        if self.wanted[KIND]:
            put_kind(&self.into[KIND], row, record.kind)
        if self.wanted[LEADERSHIP_TERM]:
            put_nullable(&self.into[LEADERSHIP_TERM], row, record.has_term, record.leadership_term)
        if self.wanted[PAYLOAD_LENGTH]:
            (<int32_t*> self.into[PAYLOAD_LENGTH].values)[row] = <int32_t> length
        if self.wanted[START_POSITION]:
            self.into[START_POSITION].values[row] = message.start_position
        if self.wanted[CLUSTER_TIME]:
            put_nullable(&self.into[CLUSTER_TIME], row, record.has_term, record.cluster_time)
        if self.wanted[CORRELATION_ID]:
            put_nullable(&self.into[CORRELATION_ID], row, record.has_correlation, record.correlation_id)
        if self.wanted[ARRIVAL_TIME]:
            put_nullable(&self.into[ARRIVAL_TIME], row, record.has_arrival, record.arrival)


def body_array(payload, const uint8_t[::1] prefix_kinds):
    """The application's bytes of each row of column `payload`, by one byte a row: 0: there are none, 1: all of the
    payload, 2: what follows the SBE header and the block whose length it says."""
    cdef int64_t rows = len(payload), row, total = 0, begin, length, skip
    cdef int64_t first = payload.offset
    cdef const uint8_t[::1] raw = _bytes_of(payload.buffers()[1])
    cdef const uint8_t[::1] data = _bytes_of(payload.buffers()[2])
    cdef const int32_t* from_offsets = <const int32_t*> &raw[0] + first
    if prefix_kinds.shape[0] != rows or raw.shape[0] < (first + rows + 1) * 4:
        raise ValueError(f"{prefix_kinds.shape[0]} rows for {rows} payloads")
    out_bytes = pa.allocate_buffer(from_offsets[rows] - from_offsets[0])
    out_offsets, out_valid = pa.allocate_buffer((rows + 1) * 4), pa.allocate_buffer(rows // 8 + 1)
    cdef uint8_t[::1] body = _bytes_of(out_bytes)
    cdef uint8_t[::1] offset_bytes = _bytes_of(out_offsets)
    cdef uint8_t[::1] valid = _bytes_of(out_valid)
    cdef int32_t* offsets = <int32_t*> &offset_bytes[0]
    cdef int64_t null_count = 0
    memset(&valid[0], 0xFF, valid.shape[0])
    offsets[0] = 0
    for row in range(rows):
        begin, length = from_offsets[row], from_offsets[row + 1] - from_offsets[row]
        skip = 0 if prefix_kinds[row] == 1 else length + 1
        if prefix_kinds[row] == 2 and length >= 8:
            skip = 8 + data[begin] + (data[begin + 1] << 8)
        if skip > length:
            valid[row >> 3] &= <uint8_t> ~(1 << (row & 7))
            null_count += 1
        elif skip < length:
            memcpy(&body[total], &data[begin + skip], length - skip)
            total += length - skip
        offsets[row + 1] = <int32_t> total
    buffers = [out_valid if null_count else None, out_offsets, out_bytes]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count)


def _bytes_of(buffer):
    """A view of a buffer that has at least one byte, so that it has an address."""
    return memoryview(buffer).cast("B") if buffer is not None and buffer.size else bytearray(8)
