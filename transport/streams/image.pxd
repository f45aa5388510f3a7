"""Images: the reading side of a log buffer (log-buffer.md §8)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from ordo.runtime.native.atomics cimport ordo_load_acquire_i32
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.transport.streams.logbuffer cimport LogBuffers

cdef struct Fragment:
    const uint8_t* header         # the 32-byte data header of the (first) frame
    const uint8_t* payload
    int64_t length_bytes          # of the payload
    int64_t position              # stream position after it (aligned)
    int64_t start_position        # stream position of its (first) frame
    int32_t session_id
    int32_t term_id
    uint8_t flags

cdef struct Block:
    const uint8_t* frames         # whole frames back to back, inside one term
    int32_t length_bytes          # aligned; for a PAD block the full hole, of which only the header is there
    bint is_padding
    int64_t position              # stream position of the first byte
    int32_t term_id

cdef class Assembler
cdef class Header

cdef class Image:
    """One source of a subscription. Reading is peek, consume, and then publish_position once a batch.

    `peek` gives the next committed DATA frame (PAD frames are passed over); not consuming it is ABORT.
    Pointers stay valid until `publish_position` of a position beyond them.
    """
    cdef LogBuffers log
    cdef int64_t* position_address             # sub-pos counter
    cdef readonly int64_t position             # local, not yet published when ahead of the counter
    cdef bint closed
    cdef readonly int32_t session_id
    cdef readonly int32_t stream_id
    cdef readonly int64_t correlation_id
    cdef readonly int64_t join_position
    cdef readonly str source_identity
    cdef readonly object subscription
    cdef Counter _counter
    cdef Assembler _assembler                  # of poll_messages; made when first needed
    cdef int64_t _final_position               # what is left to know once it is closed
    cdef int64_t _final_eos_position
    cdef bint _final_revoked
    cdef inline bint has_frame(self) noexcept nogil:   # whether there is anything for `peek`, of which most may be padding
        return not self.closed and ordo_load_acquire_i32(self.log.at(self.position)) > 0
    cdef bint peek(self, Fragment* out) noexcept nogil
    cdef bint peek_bounded(self, Fragment* out, int64_t limit_position) noexcept nogil  # frame starts below the limit
    cdef void consume(self, const Fragment* fragment) noexcept nogil
    cdef void publish_position(self) noexcept nogil
    cdef bint peek_block(self, Block* out, int32_t limit_bytes) noexcept nogil
    cdef void consume_block(self, const Block* block) noexcept nogil
    cdef bint end_of_stream(self) noexcept nogil
    cdef Header _header
    cdef bint _polling
    cdef int poll_native(self, object handler, int limit, int64_t limit_position, int mode) except -1
    cdef int _take(self, const Fragment* fragment, object handler, int mode, Header header) except -1

cdef class Assembler:
    """Turns frames into whole messages for one image (log-buffer.md §8.1).

    `peek` gives the next whole message: unfragmented ones in place, others from its own buffer. `consume` goes past
    it. A message whose END has not come yet is collected across calls (its frames are consumed).
    """
    cdef NativeVector buffer                   # of bytes
    cdef int64_t length_bytes
    cdef int32_t next_offset
    cdef uint8_t first_header[32]
    cdef int64_t first_position
    cdef bint complete
    cdef Fragment last
    cdef int peek(self, Image image, Fragment* out) except -1 nogil
    cdef int peek_bounded(self, Image image, Fragment* out, int64_t limit_position) except -1 nogil
    cdef void consume(self, Image image, const Fragment* fragment) noexcept nogil
    cdef void reset(self) noexcept nogil
    cdef int _append(self, const Fragment* fragment, int32_t term_offset) except -1 nogil
    cdef void _begin(self, const Fragment* fragment) noexcept nogil
    cdef void _finish(self, const Fragment* fragment, Fragment* out) noexcept nogil

cdef class Header:
    """What a Python handler sees of a fragment's header; valid inside the call only."""
    cdef Fragment fragment
    cdef Image _image
    cdef const Fragment* _check(self) except NULL
