"""Rows into Arrow record batches, whose memory is used again when nobody holds it any more."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from ordo.pipeline.decoding.cursor cimport Message
from ordo.pipeline.decoding.records cimport Record

cdef enum:
    COLUMN_COUNT = 13

cdef struct Column:
    # where the values of one column of the batch under construction go; offsets and data only of text and bytes
    int64_t* values
    int32_t* offsets
    uint8_t* data
    uint8_t* valid
    int64_t null_count

cdef class BatchMemory:
    """The bytes behind one batch. `exports` counts who looks at them: they are written to only while nobody does."""
    cdef uint8_t* data
    cdef int64_t length_bytes
    cdef int exports

cdef class BatchBuilder:
    """Batches of the same columns of one recording, one after another: `begin`, `put` row by row, `finish`.

    `time_unit` is that of the log at its beginning: 0 ms, 1 us, 2 ns.
    """
    cdef readonly int64_t batch_rows
    cdef readonly int64_t batch_bytes   # room for payloads, unless one is larger
    cdef bint has_payload
    cdef object schema
    cdef tuple columns
    cdef dict constants                 # columns with one value for all rows, built once
    cdef dict places                    # column name -> (offset of validity or None, of values, of data or None)
    cdef int64_t fixed_bytes            # of all columns but the payload's bytes, which come last
    cdef BatchMemory memory             # of the batch under construction, or None
    cdef Column into[COLUMN_COUNT]
    cdef bint wanted[COLUMN_COUNT]
    cdef int time_unit
    cdef int begin(self, int64_t payload_bytes) except -1
    cdef void put(self, int64_t row, const Message* message, const Record* record) noexcept nogil
    cdef object finish(self, int64_t rows)
