"""Log buffers: three terms and a metadata section (log-buffer.md). Offsets are named here and nowhere else."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from runtime.memory cimport Memory

cdef enum:
    FRAME_ALIGNMENT = 32
    HEADER_LENGTH = 32
    METADATA_LENGTH = 4096
    PARTITION_COUNT = 3
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

cdef class LogBuffers:
    """The mapped log of one stream. Term pointers, immutable parameters, and accessors of the metadata fields."""
    cdef Memory memory
    cdef uint8_t* terms[3]
    cdef uint8_t* metadata
    cdef readonly int32_t term_length
    cdef readonly int32_t term_shift           # log2(term_length)
    cdef readonly int32_t mtu
    cdef readonly int32_t initial_term_id
    cdef int64_t raw_tail(self, int index) noexcept nogil                       # acquire
    cdef int32_t active_term_count(self) noexcept nogil                         # acquire
    cdef int64_t producer_position(self) noexcept nogil
    cdef bint is_connected(self) noexcept nogil
    cdef void set_connected(self, bint connected) noexcept nogil                # release
    cdef int64_t end_of_stream_position(self) noexcept nogil
    cdef void set_end_of_stream_position(self, int64_t position) noexcept nogil # release
    cdef uint8_t* at(self, int64_t position) noexcept nogil                     # address of the byte at a position

cdef inline int32_t align_frame(int32_t length) noexcept nogil:
    return (length + 31) & ~31

cdef inline int64_t compute_position(int32_t term_id, int32_t term_offset, int32_t shift, int32_t initial_term_id) noexcept nogil:
    return (<int64_t> <int32_t> (term_id - initial_term_id) << shift) + term_offset
