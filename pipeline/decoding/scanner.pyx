"""Looks over a segment without taking anything out: blocks for the index, and message boundaries for offsets."""

import numpy as np

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t

from ordo.pipeline.decoding.cursor cimport Message, MessageCursor
from ordo.pipeline.decoding.records cimport Record, classify

# One row of the index: what is in the messages that begin in [start, end). Unset minimum > maximum: none has the field.
BLOCK_DTYPE = np.dtype([(name, "<i8") for name in (
    "start", "end", "time_min", "time_max", "kinds", "session_min", "session_max", "session_bloom", "messages",
    "payload_bytes", "term_min", "term_max")])

cdef struct Block:
    int64_t start
    int64_t end
    int64_t time_min
    int64_t time_max
    int64_t kinds                       # bit per RecordKind
    int64_t session_min
    int64_t session_max
    uint64_t session_bloom              # bit per hash of the session ids
    int64_t messages
    int64_t payload_bytes
    int64_t term_min
    int64_t term_max

assert sizeof(Block) == BLOCK_DTYPE.itemsize


cdef inline uint64_t session_bit(int64_t session_id) noexcept nogil:
    return <uint64_t> 1 << ((<uint64_t> session_id * <uint64_t> 0x9E3779B97F4A7C15) >> 58)


def session_bloom(sessions):
    """Bits of the session ids as they stand in `session_bloom` of a block, as a signed 64-bit number."""
    cdef uint64_t bits = 0
    for session_id in sessions:
        bits |= session_bit(session_id)
    return <int64_t> bits


cdef void begin_block(Block* block, int64_t start) noexcept nogil:
    block.start = start
    block.end = start
    block.time_min = block.session_min = block.term_min = INT64_MAX
    block.time_max = block.session_max = block.term_max = INT64_MIN
    block.kinds = block.messages = block.payload_bytes = 0
    block.session_bloom = 0


cdef void add_message(Block* block, const Message* message, const Record* record) noexcept nogil:
    block.end = message.position
    block.kinds |= <int64_t> 1 << record.kind
    block.messages += 1
    block.payload_bytes += message.length_bytes - record.payload_offset
    if record.has_term:
        block.time_min = min(block.time_min, record.cluster_time)
        block.time_max = max(block.time_max, record.cluster_time)
        block.term_min = min(block.term_min, record.leadership_term)
        block.term_max = max(block.term_max, record.leadership_term)
    if record.has_session:
        block.session_min = min(block.session_min, record.session_id)
        block.session_max = max(block.session_max, record.session_id)
        block.session_bloom |= session_bit(record.session_id)


cdef int64_t fill_blocks(MessageCursor cursor, bint is_log, int64_t block_bytes, Block* blocks,
                         int64_t capacity) noexcept nogil:
    cdef int64_t count = 0
    cdef Message message
    cdef Record record
    while cursor.next_message(&message) == 1:
        classify(message.data, message.length_bytes, is_log, &record)
        if count == 0 or message.position - blocks[count - 1].start > block_bytes:
            if count == capacity:
                break
            begin_block(&blocks[count], message.start_position)
            count += 1
        add_message(&blocks[count - 1], &message, &record)
    return count


def scan_blocks(MessageCursor cursor, bint is_log, int64_t block_bytes):
    """Blocks of about `block_bytes` (at least one message) from the cursor to its limit: structured array, BLOCK_DTYPE.

    Ends before a damaged frame; the cursor then has the fault.
    """
    cdef int64_t count
    cdef int64_t capacity = 2 * (cursor.limit - cursor.position) // block_bytes + 2
    cdef object blocks = np.zeros(capacity, dtype=BLOCK_DTYPE)
    cdef char[::1] raw = blocks.view("i1")
    with nogil:
        count = fill_blocks(cursor, is_log, block_bytes, <Block*> &raw[0], capacity)
    return blocks[:count].copy()


cdef int64_t skip_messages(MessageCursor cursor, int64_t count_max) noexcept nogil:
    cdef int64_t count = 0
    cdef Message message
    while count < count_max and cursor.next_message(&message) == 1:
        count += 1
    return count


def walk(MessageCursor cursor, int64_t messages_max):
    """Pass over at most `messages_max` messages and answer how many there were; the cursor stands behind the last."""
    cdef int64_t count
    with nogil:
        count = skip_messages(cursor, messages_max)
    return count
