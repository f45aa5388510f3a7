"""Log buffers: three terms and a metadata section (log-buffer.md). Offsets are named here and nowhere else."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from ordo.runtime.native.atomics cimport (ordo_fence_release, ordo_load_acquire_i32, ordo_load_acquire_i64, ordo_put_i32,
                              ordo_put_i64, ordo_store_release_i32, ordo_store_release_i64)
from ordo.runtime.native.memory cimport Memory, MemoryProvider

cdef enum:
    FRAME_ALIGNMENT = 32
    HEADER_LENGTH = 32
    METADATA_LENGTH = 4096
    PARTITION_COUNT = 3
    TERM_LENGTH_MIN = 65536
    TERM_LENGTH_MAX = 1073741824
    TYPE_PAD = 0
    TYPE_DATA = 1
    FLAG_BEGIN = 0x80
    FLAG_END = 0x40
    FLAG_EOS = 0x20
    FLAG_REVOKED = 0x10
    FLAGS_UNFRAGMENTED = 0xC0
    # result codes of offer and claim
    NOT_CONNECTED = -1
    BACK_PRESSURED = -2
    ADMIN_ACTION = -3
    CLOSED = -4
    MAX_POSITION_EXCEEDED = -5
    # misuse, of the native calls only: the Python ones raise
    MESSAGE_TOO_LONG = -6
    INVALID_BLOCK = -7

cdef enum:
    # offsets in a frame (transport-wire.md §2.1)
    FRAME_LENGTH_OFFSET = 0
    FRAME_VERSION_OFFSET = 4
    FRAME_FLAGS_OFFSET = 5
    FRAME_TYPE_OFFSET = 6
    TERM_OFFSET_OFFSET = 8
    SESSION_ID_OFFSET = 12
    STREAM_ID_OFFSET = 16
    TERM_ID_OFFSET = 20
    RESERVED_VALUE_OFFSET = 24
    FIRST_WORD_LENGTH = 8              # length, version, flags and type: written last, so that frames are seen whole
    STREAM_IDENTITY_LENGTH = 12                # session, stream and term, from SESSION_ID_OFFSET on

cdef enum:
    # offsets in the metadata section (log-buffer.md §2)
    META_TAILS = 0
    META_ACTIVE_TERM_COUNT = 24
    META_END_OF_STREAM_POSITION = 128
    META_IS_CONNECTED = 136
    META_ACTIVE_TRANSPORT_COUNT = 140
    META_CORRELATION_ID = 256
    META_INITIAL_TERM_ID = 264
    META_DEFAULT_HEADER_LENGTH = 268
    META_MTU = 272
    META_TERM_LENGTH = 276
    META_PAGE_SIZE = 280
    META_PUBLICATION_WINDOW = 284
    META_RECEIVER_WINDOW = 288
    META_SOCKET_SNDBUF = 292
    META_OS_DEFAULT_SNDBUF = 296
    META_OS_MAX_SNDBUF = 300
    META_SOCKET_RCVBUF = 304
    META_OS_DEFAULT_RCVBUF = 308
    META_OS_MAX_RCVBUF = 312
    META_MAX_RESEND = 316
    META_DEFAULT_HEADER = 320
    META_ENTITY_TAG = 448
    META_RESPONSE_CORRELATION_ID = 456
    META_LINGER_TIMEOUT_NS = 464
    META_UNTETHERED_WINDOW_LIMIT_TIMEOUT_NS = 472
    META_UNTETHERED_RESTING_TIMEOUT_NS = 480
    META_GROUP = 488
    META_IS_RESPONSE = 489
    META_REJOIN = 490
    META_RELIABLE = 491
    META_SPARSE = 492
    META_SIGNAL_EOS = 493
    META_SPIES_SIMULATE_CONNECTION = 494
    META_TETHER = 495
    META_IS_PUBLICATION_REVOKED = 496
    META_TYPE = 497
    META_UNTETHERED_LINGER_TIMEOUT_NS = 500    # 4-byte aligned only: plain access

@cython.final
cdef class LogBuffers:
    """The mapped log of one stream. Term pointers, immutable parameters, and accessors of the metadata fields."""
    cdef Memory memory
    cdef Memory _copy_metadata(self)
    cdef void _leave(self, Memory last_metadata) noexcept
    cdef Memory _last_metadata                 # a copy, once closed
    cdef uint8_t* terms[3]                     # NULL once closed
    cdef uint8_t* metadata
    cdef readonly int32_t term_length
    cdef readonly int32_t term_shift           # log2(term_length)
    cdef readonly int32_t mtu
    cdef readonly int32_t initial_term_id
    cdef readonly int32_t session_id           # of the default frame header
    cdef readonly int32_t stream_id
    cdef readonly int64_t correlation_id
    # Pages of a sparse file are had before they are touched: up to here, and one frame beyond what readers poll. The
    # driver that made the log reserves; everybody else relies on it.
    cdef readonly int64_t reserved_position
    cdef int64_t _reserve_start
    cdef bint _was_short
    cdef uint64_t header_word                  # default header bytes 8..15, offset 0: session id in the high half
    cdef uint32_t header_flags                 # default header bytes 4..7: version, flags, type
    cdef inline int64_t raw_tail(self, int index) noexcept nogil:
        return ordo_load_acquire_i64(self.metadata + META_TAILS + 8 * index)
    cdef inline int32_t active_term_count(self) noexcept nogil:
        return ordo_load_acquire_i32(self.metadata + META_ACTIVE_TERM_COUNT)
    cdef inline int64_t producer_position(self) noexcept nogil:
        cdef int64_t raw = self.raw_tail(<int> (<uint32_t> self.active_term_count() % PARTITION_COUNT))
        return compute_position(raw_term_id(raw), 0, self.term_shift, self.initial_term_id) \
            + raw_term_offset(raw, self.term_length)
    cdef bint is_connected(self) noexcept nogil
    cdef void set_connected(self, bint connected) noexcept nogil                # release
    cdef int64_t end_of_stream_position(self) noexcept nogil
    cdef void set_end_of_stream_position(self, int64_t position) noexcept nogil # release
    cdef int32_t active_transport_count(self) noexcept nogil
    cdef void set_active_transport_count(self, int32_t count) noexcept nogil    # release
    cdef bint is_revoked(self) noexcept nogil
    cdef void set_revoked(self) noexcept nogil
    cdef inline uint8_t* at(self, int64_t position) noexcept nogil:             # address of the byte at a position
        return self.terms[(<uint64_t> position >> self.term_shift) % PARTITION_COUNT] \
            + (position & (self.term_length - 1))
    cdef inline int64_t rest_of_term(self, int64_t position) noexcept nogil:    # bytes from there to the term's end
        return self.term_length - (position & (self.term_length - 1))
    # False: there is no room for the pages up to the position; what lies before `reserved_position` may be used
    cdef bint reserve(self, int64_t position) noexcept nogil
    # how far a producer that is at this position may be let go: a quiet stream does not need pages for its window
    cdef int64_t reservable_limit(self, int64_t producer_position) noexcept nogil
    cdef void rotate(self, int32_t term_count, int32_t term_id) noexcept nogil  # to the term after `term_id` (§5)
    # all of a header but the positive length: the frame stays invisible to readers (§3)
    cdef void write_header(self, uint8_t* frame, int32_t term_offset, int32_t term_id, uint32_t flags_and_type,
                           int32_t length) noexcept nogil
    cdef void write_frame(self, uint8_t* frame, int32_t term_offset, int32_t term_id, uint32_t flags_and_type,
                          const uint8_t* a, int64_t a_length, const uint8_t* b, int64_t b_length) noexcept nogil
    cdef void write_padding(self, uint8_t* frame, int32_t term_offset, int32_t term_id, int32_t length) noexcept nogil
    # zeroes one contiguous range inside one term; the first 8 bytes last (§6); `to_position` may be far ahead
    cdef int64_t clean(self, int64_t from_position, int64_t to_position) noexcept nogil   # cleaned up to

cdef inline int32_t align_frame(int32_t length) noexcept nogil:
    return (length + FRAME_ALIGNMENT - 1) & ~(FRAME_ALIGNMENT - 1)

cdef inline int64_t align_frame_i64(int64_t length) noexcept nogil:             # of a length that nobody has checked
    return (length + FRAME_ALIGNMENT - 1) & ~<int64_t> (FRAME_ALIGNMENT - 1)

cdef inline int64_t compute_position(int32_t term_id, int32_t term_offset, int32_t shift,
                                     int32_t initial_term_id) noexcept nogil:
    return (<int64_t> wrap_i32(<uint32_t> term_id - <uint32_t> initial_term_id) << shift) + term_offset

cdef inline int32_t wrap_i32(uint32_t value) noexcept nogil:
    return <int32_t> value

cdef inline int32_t compute_term_id(int64_t position, int32_t shift, int32_t initial_term_id) noexcept nogil:
    return wrap_i32(<uint32_t> initial_term_id + <uint32_t> (position >> shift))

cdef inline int32_t raw_term_id(int64_t raw_tail) noexcept nogil:
    return <int32_t> (raw_tail >> 32)

cdef inline int64_t raw_term_offset(int64_t raw_tail, int32_t term_length) noexcept nogil:
    cdef int64_t offset = raw_tail & 0xFFFFFFFFLL
    return offset if offset < term_length else term_length

cdef inline int64_t pack_tail(int32_t term_id, int32_t term_offset) noexcept nogil:
    return <int64_t> ((<uint64_t> <uint32_t> term_id << 32) | <uint64_t> <uint32_t> term_offset)

cdef inline int64_t framed_length(int64_t length, int32_t max_payload_length) noexcept nogil:
    """Return the bytes a message takes in the log, its fragments' headers and alignment included (log-buffer.md §3)."""
    cdef int64_t whole = length // max_payload_length
    cdef int64_t rest = length - whole * max_payload_length
    if length <= max_payload_length:
        return align_frame_i64(length + HEADER_LENGTH)
    return whole * (max_payload_length + HEADER_LENGTH) + (align_frame_i64(rest + HEADER_LENGTH) if rest else 0)
