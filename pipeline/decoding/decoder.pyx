"""Segment bytes into Arrow record batches: one pass, no Python object per message.

Row filters are applied before anything is copied.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from ordo.pipeline.decoding.batches cimport BatchBuilder
from ordo.pipeline.decoding.cursor cimport Message, MessageCursor
from ordo.pipeline.decoding.records cimport KIND_COUNT, Record, classify
from ordo.runtime.native.time_units cimport cluster_time_us

from ordo.pipeline.decoding.batches import KIND_NAMES

cdef enum:
    SESSIONS_MAX = 1024


cdef struct RowFilter:
    int64_t position_min                # inclusive bounds on the position after the message
    int64_t position_max
    bint by_time
    int64_t time_min                    # inclusive bounds, in microseconds
    int64_t time_max
    int time_unit                       # of the log at its beginning, as BatchBuilder has it
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
    cdef int64_t time_us
    if not (rows.kinds >> record.kind) & 1:
        return False
    if message.position < rows.position_min or message.position > rows.position_max:
        return False
    if rows.by_time:
        if not record.has_term:
            return False
        time_us = cluster_time_us(record.cluster_time, rows.time_unit)
        if time_us < rows.time_min or time_us > rows.time_max:
            return False
    if rows.session_count >= 0:
        return record.has_session and has_session(rows, record.session_id)
    return True


cdef class RowSelection:
    """Which rows a read delivers: all conditions must hold. A row without a field never passes a condition on it.

    `time_min` and `time_max` are microseconds, whatever the log's unit is.
    """

    cdef RowFilter rows

    def __cinit__(self, object position_min=None, object position_max=None, object time_min=None, object time_max=None,
                  object kinds=None, object sessions=None):
        self.rows.position_min = INT64_MIN if position_min is None else position_min
        self.rows.position_max = INT64_MAX if position_max is None else position_max
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


cdef class RecordDecoder:
    """Record batches of one segment file over [start, limit), in the memory and with the columns of `batches`.

    `next_batch` returns None at the end and raises CorruptRecordingError at the exact position of a damaged frame,
    after the rows before it were delivered.
    """

    cdef MessageCursor cursor
    cdef RowFilter rows
    cdef BatchBuilder batches
    cdef bint is_log
    cdef Message pending                # read, but had no room in the batch
    cdef bint has_pending
    cdef readonly int64_t scanned_messages

    def __cinit__(self, MessageCursor cursor, RowSelection selection, BatchBuilder batches, bint is_log):
        self.cursor = cursor
        self.rows = selection.rows
        self.rows.time_unit = batches.time_unit
        self.batches = batches
        self.is_log = is_log

    def next_batch(self):
        cdef int64_t rows, room = 0
        if self.batches.has_payload:
            room = max(self.batches.batch_bytes, self.pending.length_bytes if self.has_pending else 0)
        self.batches.begin(room)
        with nogil:
            rows = self._fill(room)
        if rows == 0 and self.has_pending:      # one message is larger than the batch
            return self.next_batch()
        if rows == 0:
            self.cursor.raise_fault()
            return None
        return self.batches.finish(rows)

    cdef int64_t _fill(self, int64_t room) noexcept nogil:
        cdef Message message
        cdef Record record
        cdef int64_t row = 0
        cdef int64_t used_bytes = 0
        while row < self.batches.batch_rows:
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
            if self.batches.has_payload and used_bytes + message.length_bytes > room:
                self.pending = message
                self.has_pending = True
                break
            used_bytes += message.length_bytes
            self.batches.put(row, &message, &record)
            row += 1
        return row
