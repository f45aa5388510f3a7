"""Getting a concurrent publication going again after a writer died in the middle of an append (log-buffer.md §9).

A writer may die before it rotated the term, after it wrote a negative length, or after it reserved space and wrote
nothing. The hole becomes a PAD frame, which readers pass over.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from ordo.runtime.native.atomics cimport ordo_load_acquire_i32
from ordo.transport.streams.logbuffer cimport (FRAME_ALIGNMENT, LogBuffers, PARTITION_COUNT, compute_term_id, raw_term_id,
                                  raw_term_offset)


cdef bint unblock_log(LogBuffers log, int64_t blocked_position) noexcept nogil:
    cdef int64_t blocked_count = blocked_position >> log.term_shift
    cdef int32_t offset = <int32_t> (blocked_position & (log.term_length - 1))
    cdef int index = <int> (<uint64_t> blocked_count % PARTITION_COUNT)
    cdef int32_t active_count = log.active_term_count()
    cdef int64_t raw
    cdef int32_t length
    if active_count == blocked_count - 1 and offset == 0:
        log.rotate(active_count, raw_term_id(log.raw_tail(<int> (<uint32_t> active_count % PARTITION_COUNT))))
        return True
    raw = log.raw_tail(index)
    if raw_term_id(raw) != compute_term_id(blocked_position, log.term_shift, log.initial_term_id):
        return False
    length = ordo_load_acquire_i32(log.terms[index] + offset)
    if length < 0:
        log.write_padding(log.terms[index] + offset, offset, raw_term_id(raw), hole_length(log, offset, length))
        return True
    if length > 0:
        return False
    return _fill_hole(log, index, offset, raw, active_count)


cdef int32_t hole_length(LogBuffers log, int32_t offset, int32_t negative_length) noexcept nogil:
    """Return what the writer had reserved, or the rest of the term when that cannot be."""
    cdef int64_t length = -<int64_t> negative_length
    return <int32_t> (length if FRAME_ALIGNMENT <= length <= log.term_length - offset else log.term_length - offset)


cdef bint _fill_hole(LogBuffers log, int index, int32_t offset, int64_t raw, int32_t active_count) noexcept nogil:
    """Fill space that was reserved and never touched: up to the next frame, or the end of the term."""
    cdef uint8_t* term = log.terms[index]
    cdef int64_t end = raw_term_offset(raw, log.term_length)
    cdef int64_t at = offset + FRAME_ALIGNMENT
    cdef int64_t back
    while at < end and ordo_load_acquire_i32(term + at) == 0:
        at += FRAME_ALIGNMENT
    if at >= end and at < log.term_length:
        return False
    back = at - FRAME_ALIGNMENT
    while back >= offset:
        if ordo_load_acquire_i32(term + back) != 0:
            return False
        back -= FRAME_ALIGNMENT
    log.write_padding(term + offset, offset, raw_term_id(raw), <int32_t> (at - offset))
    if at == log.term_length:
        log.rotate(active_count, raw_term_id(raw))
    return True


def unblock(LogBuffers log not None, int64_t blocked_position) -> bool:
    """Unblock a concurrent publication at a position in bytes where nothing moved for too long; return whether that was
    done."""
    return unblock_log(log, blocked_position)
