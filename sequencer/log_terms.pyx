"""The terms of a recorded log. See log_terms.pxd."""

from libc.stdint cimport int64_t

from ordo.archive.segments.reader cimport RecordingReader
from ordo.cluster.wire.commit_hint cimport hinted_commit
from ordo.cluster.wire.layout cimport (
    NEW_LEADERSHIP_TERM_EVENT_BASE_POSITION,
    NEW_LEADERSHIP_TERM_EVENT_ID,
    NEW_LEADERSHIP_TERM_EVENT_TERM_ID,
    template_id,
)
from ordo.runtime.native.atomics cimport ordo_get_i64
from ordo.runtime.native.sentinels cimport NULL_POSITION
from ordo.transport.streams.image cimport Fragment
from ordo.transport.streams.logbuffer cimport RESERVED_VALUE_OFFSET


def read_terms(RecordingReader reader not None, int64_t limit_position):
    """Return (term id, base position) of each NewLeadershipTermEvent from where the reader stands up to a position, and
    the highest commit position that a record there tells of, or -1."""
    cdef Fragment fragment
    cdef list terms = []
    cdef int64_t value, told_position = NULL_POSITION
    while reader.next(&fragment, limit_position):
        value = ordo_get_i64(fragment.header + RESERVED_VALUE_OFFSET)
        if value != 0:
            told_position = max(told_position, hinted_commit(value, fragment.start_position))
        if template_id(fragment.payload, fragment.length_bytes) == NEW_LEADERSHIP_TERM_EVENT_ID:
            terms.append((ordo_get_i64(fragment.payload + NEW_LEADERSHIP_TERM_EVENT_TERM_ID),
                          ordo_get_i64(fragment.payload + NEW_LEADERSHIP_TERM_EVENT_BASE_POSITION)))
    return terms, told_position
