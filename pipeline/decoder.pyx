"""Segment bytes into Arrow record batches: one pass, no Python object per message.

Columns are written straight into Arrow buffers that are allocated for a whole batch; only the columns asked for exist.
Row filters are applied before anything is copied.
"""

import pyarrow as pa

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from pipeline.cursor cimport Message, MessageCursor
from pipeline.records cimport KIND_COUNT, Record, classify

KIND_NAMES = ("message", "session_open", "session_close", "timer", "new_term", "cluster_action", "membership", "other",
              "data")
COLUMN_NAMES = ("recording", "node", "leadership_term", "position", "start_position", "timestamp", "cluster_time",
                "kind", "session_id", "correlation_id", "payload", "payload_length")

cdef enum:
    COLUMN_COUNT = 12
    RECORDING = 0
    NODE = 1
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
    SESSIONS_MAX = 1024
    NAME_LENGTH_MAX = 256


ARROW_TYPES = {
    "recording": pa.int64(), "node": pa.string(), "leadership_term": pa.int64(), "position": pa.int64(),
    "start_position": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC"), "cluster_time": pa.int64(),
    "kind": pa.string(), "session_id": pa.int64(), "correlation_id": pa.int64(), "payload": pa.binary(),
    "payload_length": pa.int32(),
}
NEVER_NULL = frozenset(("recording", "node", "position", "start_position", "kind", "payload", "payload_length"))
assert len(COLUMN_NAMES) == COLUMN_COUNT and len(KIND_NAMES) == KIND_COUNT

cdef uint8_t KIND_TEXT[9][16]
cdef int32_t KIND_TEXT_LENGTH[9]


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


cdef struct RowFilter:
    int64_t position_min                # inclusive bounds on the position after the message
    int64_t position_max
    int64_t start_position_min
    int64_t start_position_max
    bint by_time
    int64_t time_min                    # inclusive bounds in the unit of the cluster's clock
    int64_t time_max
    int kinds                           # bit per RecordKind
    int session_count                   # -1: any
    int64_t sessions[SESSIONS_MAX]      # ascending


cdef bint has_session(const RowFilter* rows, int64_t session_id) noexcept nogil:
    cdef int low = 0
    cdef int high = rows.session_count
    cdef int middle
    while low < high:
        middle = (low + high) >> 1
        if rows.sessions[middle] < session_id:
            low = middle + 1
        else:
            high = middle
    return low < rows.session_count and rows.sessions[low] == session_id


cdef bint passes(const RowFilter* rows, const Record* record, const Message* message) noexcept nogil:
    if not (rows.kinds >> record.kind) & 1:
        return False
    if message.position < rows.position_min or message.position > rows.position_max:
        return False
    if message.start_position < rows.start_position_min or message.start_position > rows.start_position_max:
        return False
    if rows.by_time and (not record.has_term or record.cluster_time < rows.time_min
                         or record.cluster_time > rows.time_max):
        return False
    if rows.session_count >= 0:
        return record.has_session and has_session(rows, record.session_id)
    return True


cdef class RowSelection:
    """Which rows a read delivers: all conditions must hold. A row without a field never passes a condition on it."""

    cdef RowFilter rows

    def __cinit__(self, object position_min=None, object position_max=None, object start_position_min=None,
                  object start_position_max=None, object time_min=None, object time_max=None, object kinds=None,
                  object sessions=None):
        self.rows.position_min = INT64_MIN if position_min is None else position_min
        self.rows.position_max = INT64_MAX if position_max is None else position_max
        self.rows.start_position_min = INT64_MIN if start_position_min is None else start_position_min
        self.rows.start_position_max = INT64_MAX if start_position_max is None else start_position_max
        self.rows.by_time = time_min is not None or time_max is not None
        self.rows.time_min = INT64_MIN if time_min is None else time_min
        self.rows.time_max = INT64_MAX if time_max is None else time_max
        self.rows.kinds = (1 << KIND_COUNT) - 1
        if kinds is not None:
            self.rows.kinds = sum(1 << KIND_NAMES.index(name) for name in set(kinds))
        self.rows.session_count = -1
        if sessions is not None:
            wanted = sorted(set(sessions))
            if len(wanted) > SESSIONS_MAX:
                raise ValueError(f"{len(wanted)} session ids in one filter; the most are {SESSIONS_MAX}")
            self.rows.session_count = len(wanted)
            for index, session_id in enumerate(wanted):
                self.rows.sessions[index] = session_id


cdef struct Column:
    # where the values of one column of the batch under construction go; offsets and data only of text and bytes
    int64_t* values
    int32_t* offsets
    uint8_t* data
    uint8_t* valid
    int64_t null_count


cdef class ColumnBuffers:
    """The Arrow buffers behind one `Column`."""

    cdef object name
    cdef object values
    cdef object data
    cdef object valid

    def __cinit__(self, str name, int64_t rows, int64_t data_bytes):
        kind = ARROW_TYPES[name]
        variable = kind in (pa.string(), pa.binary())
        self.name = name
        self.values = pa.allocate_buffer((rows + 1) * (4 if variable or kind == pa.int32() else 8))
        self.data = pa.allocate_buffer(data_bytes + 8) if variable else None
        self.valid = None if name in NEVER_NULL else pa.allocate_buffer(rows // 8 + 1)

    cdef int attach(self, Column* column) except -1:
        column.values = <int64_t*> <size_t> self.values.address
        column.offsets = <int32_t*> column.values
        column.null_count = 0
        if self.data is not None:
            column.data = <uint8_t*> <size_t> self.data.address
            column.offsets[0] = 0
        if self.valid is not None:
            column.valid = <uint8_t*> <size_t> self.valid.address
            memset(column.valid, 0, self.valid.size)
        return 0

    cdef object finish(self, const Column* column, int64_t rows):
        buffers = [self.valid if column.null_count else None, self.values]
        if self.data is not None:
            buffers.append(self.data.slice(0, column.offsets[rows]))
        return pa.Array.from_buffers(ARROW_TYPES[self.name], rows, buffers, column.null_count)


cdef inline void put_nullable(Column* column, int64_t row, bint present, int64_t value) noexcept nogil:
    column.values[row] = value if present else 0
    if present:
        column.valid[row >> 3] |= <uint8_t> (1 << (row & 7))
    else:
        column.null_count += 1


cdef inline void put_bytes(Column* column, int64_t row, const uint8_t* data, int64_t length_bytes) noexcept nogil:
    cdef int32_t offset = column.offsets[row]
    memcpy(column.data + offset, data, length_bytes)
    column.offsets[row + 1] = offset + <int32_t> length_bytes


cdef class RecordDecoder:
    """Record batches of one segment file over [start, limit).

    `time_unit` is that of the cluster's clock: 0 ms, 1 us, 2 ns. `next_batch` answers None at the end and raises
    CorruptRecordingError at the exact position of a damaged frame, after the rows before it were delivered.
    """

    cdef MessageCursor cursor
    cdef RowFilter rows
    cdef tuple columns
    cdef object schema
    cdef list built
    cdef Column into[COLUMN_COUNT]
    cdef bint wanted[COLUMN_COUNT]
    cdef int64_t recording_id
    cdef uint8_t node[NAME_LENGTH_MAX]
    cdef int64_t node_length
    cdef int time_unit
    cdef bint is_log
    cdef Message pending                # read, but had no room in the batch
    cdef bint has_pending
    cdef int64_t batch_rows
    cdef int64_t batch_bytes
    cdef readonly int64_t scanned_messages

    def __cinit__(self, MessageCursor cursor, RowSelection selection, object columns, int64_t recording_id, str node,
                  int time_unit, bint is_log, int64_t batch_rows=32768, int64_t batch_bytes=4194304):
        encoded = node.encode()
        if len(encoded) > NAME_LENGTH_MAX:
            raise ValueError(f"node name of {len(encoded)} bytes; the most are {NAME_LENGTH_MAX}")
        self.cursor = cursor
        self.rows = selection.rows
        self.columns = tuple(columns)
        self.schema = arrow_schema(self.columns)
        self.recording_id = recording_id
        memcpy(self.node, <const char*> encoded, len(encoded))
        self.node_length = len(encoded)
        self.time_unit = time_unit
        self.is_log = is_log
        self.batch_rows = batch_rows
        self.batch_bytes = batch_bytes
        for index, name in enumerate(COLUMN_NAMES):
            self.wanted[index] = name in self.columns

    def next_batch(self):
        cdef int64_t rows, room = self.batch_bytes
        if self.has_pending:
            room = max(room, self.pending.length_bytes)
        self._allocate(room)
        with nogil:
            rows = self._fill(room)
        if rows == 0 and self.has_pending:      # one message is larger than the batch
            return self.next_batch()
        if rows == 0:
            self.cursor.raise_fault()
            return None
        arrays = []
        for index, buffers in self.built:
            arrays.append((<ColumnBuffers> buffers).finish(&self.into[index], rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    cdef int _allocate(self, int64_t room) except -1:
        self.built = []
        for name in self.columns:
            index = COLUMN_NAMES.index(name)
            text_bytes = {PAYLOAD: room, NODE: self.batch_rows * self.node_length}.get(index, self.batch_rows * 16)
            buffers = ColumnBuffers(name, self.batch_rows, text_bytes)
            (<ColumnBuffers> buffers).attach(&self.into[index])
            self.built.append((index, buffers))
        return 0

    cdef int64_t _fill(self, int64_t room) noexcept nogil:
        cdef Message message
        cdef Record record
        cdef int64_t row = 0
        cdef int64_t used_bytes = 0
        while row < self.batch_rows:
            if self.has_pending:
                message = self.pending
                self.has_pending = False
            elif self.cursor.next_message(&message) != 1:
                break
            else:
                self.scanned_messages += 1
            classify(message.data, message.length_bytes, self.is_log, &record)
            if not passes(&self.rows, &record, &message):
                continue
            if self.wanted[PAYLOAD] and used_bytes + message.length_bytes > room:
                self.pending = message
                self.has_pending = True
                break
            used_bytes += message.length_bytes
            self._put(row, &message, &record)
            row += 1
        return row

    cdef void _put(self, int64_t row, const Message* message, const Record* record) noexcept nogil:
        cdef int64_t length = message.length_bytes - record.payload_offset
        if self.wanted[PAYLOAD]:
            put_bytes(&self.into[PAYLOAD], row, message.data + record.payload_offset, length)
        if self.wanted[POSITION]:
            self.into[POSITION].values[row] = message.position
        if self.wanted[TIMESTAMP]:
            put_nullable(&self.into[TIMESTAMP], row, record.has_term, self._micros(record.cluster_time))
        if self.wanted[SESSION_ID]:
            put_nullable(&self.into[SESSION_ID], row, record.has_session, record.session_id)
        if self.wanted[KIND]:
            put_bytes(&self.into[KIND], row, KIND_TEXT[record.kind], KIND_TEXT_LENGTH[record.kind])
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
        if self.wanted[RECORDING]:
            self.into[RECORDING].values[row] = self.recording_id
        if self.wanted[NODE]:
            put_bytes(&self.into[NODE], row, self.node, self.node_length)

    cdef int64_t _micros(self, int64_t cluster_time) noexcept nogil:
        cdef int64_t micros
        if self.time_unit == 0:
            return cluster_time * 1000
        if self.time_unit == 1:
            return cluster_time
        micros = cluster_time / 1000                    # C division: towards zero
        return micros - 1 if micros * 1000 > cluster_time else micros
