"""Log buffers: three terms of frames and a metadata section in shared memory (log-buffer.md).

```
 0          T          2T         3T                     file length - 4096
 +----------+----------+----------+--- (unused hole) ---+------------------+
 |  term 0  |  term 1  |  term 2  |  page_size > 4096   |     metadata     |
 +----------+----------+----------+---------------------+------------------+
```
"""

cimport cython
from libc.string cimport memcpy, memset

from ordo.runtime.native.atomics cimport ordo_cas_i32, ordo_cas_i64, ordo_get_i32, ordo_get_i64
from ordo.runtime.native.memory cimport allocate

from ordo.runtime.errors import TransportError

LOG_TYPE_CONCURRENT = 0
LOG_TYPE_EXCLUSIVE = 1
LOG_TYPE_IMAGE = 2
END_OF_STREAM_UNKNOWN = 0x7FFFFFFFFFFFFFFF
PAGE_SIZE_MIN = 4096
PAGE_SIZE_MAX = 1 << 30
MTU_MAX = 65504

_PARAMETER_OFFSETS = {
    "publication_window_length": (META_PUBLICATION_WINDOW, 4),
    "receiver_window_length": (META_RECEIVER_WINDOW, 4),
    "socket_sndbuf_length": (META_SOCKET_SNDBUF, 4),
    "os_default_socket_sndbuf_length": (META_OS_DEFAULT_SNDBUF, 4),
    "os_max_socket_sndbuf_length": (META_OS_MAX_SNDBUF, 4),
    "socket_rcvbuf_length": (META_SOCKET_RCVBUF, 4),
    "os_default_socket_rcvbuf_length": (META_OS_DEFAULT_RCVBUF, 4),
    "os_max_socket_rcvbuf_length": (META_OS_MAX_RCVBUF, 4),
    "max_resend": (META_MAX_RESEND, 4),
    "entity_tag": (META_ENTITY_TAG, 8),
    "response_correlation_id": (META_RESPONSE_CORRELATION_ID, 8),
    "linger_timeout_ns": (META_LINGER_TIMEOUT_NS, 8),
    "untethered_window_limit_timeout_ns": (META_UNTETHERED_WINDOW_LIMIT_TIMEOUT_NS, 8),
    "untethered_resting_timeout_ns": (META_UNTETHERED_RESTING_TIMEOUT_NS, 8),
    "untethered_linger_timeout_ns": (META_UNTETHERED_LINGER_TIMEOUT_NS, 8),
    "group": (META_GROUP, 1),
    "is_response": (META_IS_RESPONSE, 1),
    "rejoin": (META_REJOIN, 1),
    "reliable": (META_RELIABLE, 1),
    "sparse": (META_SPARSE, 1),
    "signal_eos": (META_SIGNAL_EOS, 1),
    "spies_simulate_connection": (META_SPIES_SIMULATE_CONNECTION, 1),
    "tether": (META_TETHER, 1),
}


def log_length_bytes(term_length: int, page_size: int = PAGE_SIZE_MIN) -> int:
    """Return the length of a log file: three terms and the metadata, aligned to the page size (log-buffer.md §1)."""
    return (PARTITION_COUNT * term_length + METADATA_LENGTH + page_size - 1) // page_size * page_size


def check_term_length(term_length: int) -> int:
    """Return the term length if it is a power of two from 64 KiB to 1 GiB; raise TransportError otherwise."""
    if term_length < TERM_LENGTH_MIN or term_length > TERM_LENGTH_MAX or term_length & (term_length - 1):
        raise TransportError(f"term_length={term_length} is not a power of two from 65536 to 1073741824")
    return term_length


def check_mtu(mtu: int) -> int:
    """Return the MTU if it is a multiple of 32 above 32 and up to 65504; raise TransportError otherwise."""
    if mtu <= HEADER_LENGTH or mtu > MTU_MAX or mtu % FRAME_ALIGNMENT:
        raise TransportError(f"mtu={mtu} is not a multiple of 32 from 64 to {MTU_MAX}")
    return mtu


def framed_bytes(length_bytes: int, mtu_bytes: int) -> int:
    """Return how much of a stream a message takes: its fragments, each with a header, the last one aligned."""
    return framed_length(length_bytes, mtu_bytes - HEADER_LENGTH)


def check_page_size(page_size: int) -> int:
    """Return the page size if it is a power of two from 4 KiB to 1 GiB; raise TransportError otherwise."""
    if page_size < PAGE_SIZE_MIN or page_size > PAGE_SIZE_MAX or page_size & (page_size - 1):
        raise TransportError(f"page_size={page_size} is not a power of two from 4096 to 1073741824")
    return page_size


cdef enum:
    RESERVE_STEP_MIN = 4096
    RESERVE_STEP_MAX = 65536
    QUIET_WINDOW = 16384
cdef int64_t NEVER_BEYOND = 0x7FFFFFFFFFFFFFFF


@cython.final
cdef class LogBuffers:
    """The log of one stream over a `Memory`. `create_log` makes one, `open_log` opens another process's.

    The memory belongs to whoever created or opened it; `close` gives it back.
    """

    def __init__(self, Memory memory not None):
        _check_length(memory.length_bytes, METADATA_LENGTH, memory.path)
        self.memory = memory
        self.metadata = memory.data + memory.length_bytes - METADATA_LENGTH
        self.term_length = check_term_length(ordo_get_i32(self.metadata + META_TERM_LENGTH))
        page_size = check_page_size(ordo_get_i32(self.metadata + META_PAGE_SIZE))
        _check_length(memory.length_bytes, log_length_bytes(self.term_length, page_size), memory.path)
        self.term_shift = <int32_t> (<int> self.term_length).bit_length() - 1
        self.mtu = check_mtu(ordo_get_i32(self.metadata + META_MTU))
        self.initial_term_id = ordo_get_i32(self.metadata + META_INITIAL_TERM_ID)
        self.reserved_position = NEVER_BEYOND
        self.correlation_id = ordo_get_i64(self.metadata + META_CORRELATION_ID)
        self.session_id = ordo_get_i32(self.metadata + META_DEFAULT_HEADER + SESSION_ID_OFFSET)
        self.stream_id = ordo_get_i32(self.metadata + META_DEFAULT_HEADER + STREAM_ID_OFFSET)
        self.header_word = <uint64_t> <uint32_t> self.session_id << 32
        self.header_flags = <uint32_t> ordo_get_i32(self.metadata + META_DEFAULT_HEADER + FRAME_VERSION_OFFSET)
        cdef int i
        for i in range(PARTITION_COUNT):
            self.terms[i] = memory.data + <int64_t> i * self.term_length

    # --- native accessors -----------------------------------------------------------------------------------------

    cdef bint is_connected(self) noexcept nogil:
        return ordo_load_acquire_i32(self.metadata + META_IS_CONNECTED) == 1

    cdef void set_connected(self, bint connected) noexcept nogil:
        ordo_store_release_i32(self.metadata + META_IS_CONNECTED, 1 if connected else 0)

    cdef int64_t end_of_stream_position(self) noexcept nogil:
        return ordo_load_acquire_i64(self.metadata + META_END_OF_STREAM_POSITION)

    cdef void set_end_of_stream_position(self, int64_t position) noexcept nogil:
        ordo_store_release_i64(self.metadata + META_END_OF_STREAM_POSITION, position)

    cdef int32_t active_transport_count(self) noexcept nogil:
        return ordo_load_acquire_i32(self.metadata + META_ACTIVE_TRANSPORT_COUNT)

    cdef void set_active_transport_count(self, int32_t count) noexcept nogil:
        ordo_store_release_i32(self.metadata + META_ACTIVE_TRANSPORT_COUNT, count)

    cdef bint is_revoked(self) noexcept nogil:
        return (<volatile uint8_t*> self.metadata)[META_IS_PUBLICATION_REVOKED] != 0

    cdef void set_revoked(self) noexcept nogil:
        ordo_fence_release()
        (<volatile uint8_t*> self.metadata)[META_IS_PUBLICATION_REVOKED] = 1

    cdef bint reserve(self, int64_t position) noexcept nogil:
        """Return how much to allocate next: an idle stream takes a page, a busy one soon all of its terms, in steps
        that grow."""
        cdef int64_t at = self.reserved_position, step, length
        while at < position:
            step = RESERVE_STEP_MAX if at - self._reserve_start >= RESERVE_STEP_MAX else RESERVE_STEP_MIN
            length = min(step - (at & (step - 1)), self.rest_of_term(at))
            if not self.memory.reserve(self.at(at) - self.memory.data, length):
                self._was_short = True
                return False
            at += length
            if at - self._reserve_start >= PARTITION_COUNT * <int64_t> self.term_length:
                at = NEVER_BEYOND
            self.reserved_position = at
        return True

    cdef int64_t reservable_limit(self, int64_t producer_position) noexcept nogil:
        if self.reserved_position == NEVER_BEYOND:
            return NEVER_BEYOND
        return producer_position + max(<int64_t> QUIET_WINDOW, 2 * (producer_position - self._reserve_start))

    cdef void rotate(self, int32_t term_count, int32_t term_id) noexcept nogil:
        cdef int32_t next_term_id = wrap_i32(<uint32_t> term_id + 1)
        cdef int32_t next_count = wrap_i32(<uint32_t> term_count + 1)
        cdef int32_t expected = wrap_i32(<uint32_t> next_term_id - PARTITION_COUNT)
        cdef uint8_t* tail = self.metadata + META_TAILS + 8 * <int> (<uint32_t> next_count % PARTITION_COUNT)
        cdef int64_t raw = ordo_load_acquire_i64(tail)
        # Only a writer that reserved in the term three back can change this tail, so the loop ends with those writers.
        while raw_term_id(raw) == expected:
            if ordo_cas_i64(tail, raw, pack_tail(next_term_id, 0)):
                break
            raw = ordo_load_acquire_i64(tail)
        ordo_cas_i32(self.metadata + META_ACTIVE_TERM_COUNT, term_count, next_count)

    cdef void write_header(self, uint8_t* frame, int32_t term_offset, int32_t term_id, uint32_t flags_and_type,
                           int32_t length) noexcept nogil:
        ordo_store_release_i64(frame, <int64_t> ((<uint64_t> flags_and_type << 32) | <uint64_t> <uint32_t> -length))
        ordo_fence_release()
        (<uint64_t*> (frame + TERM_OFFSET_OFFSET))[0] = self.header_word | <uint32_t> term_offset
        (<uint64_t*> (frame + STREAM_ID_OFFSET))[0] = (<uint64_t> <uint32_t> term_id << 32) | <uint32_t> self.stream_id

    cdef void write_frame(self, uint8_t* frame, int32_t term_offset, int32_t term_id, uint32_t flags_and_type,
                          const uint8_t* a, int64_t a_length, const uint8_t* b, int64_t b_length) noexcept nogil:
        cdef int32_t length = <int32_t> (HEADER_LENGTH + a_length + b_length)
        self.write_header(frame, term_offset, term_id, flags_and_type, length)
        if a_length:
            memcpy(frame + HEADER_LENGTH, a, a_length)
        if b_length:
            memcpy(frame + HEADER_LENGTH + a_length, b, b_length)
        ordo_store_release_i32(frame, length)

    cdef void write_padding(self, uint8_t* frame, int32_t term_offset, int32_t term_id, int32_t length) noexcept nogil:
        self.write_header(frame, term_offset, term_id, self.header_flags & 0xFFFFu, length)
        ordo_put_i64(frame + RESERVED_VALUE_OFFSET, 0)    # it may have been meant for a message that did not fit here
        ordo_store_release_i32(frame, length)

    cdef int64_t clean(self, int64_t from_position, int64_t to_position) noexcept nogil:
        cdef int64_t in_term = self.rest_of_term(from_position)
        cdef int64_t length = (to_position & ~<int64_t> (FRAME_ALIGNMENT - 1)) - from_position
        cdef uint8_t* start = self.at(from_position)
        if length <= 0:
            return from_position
        if length > in_term:
            length = in_term
        memset(start + FIRST_WORD_LENGTH, 0, length - FIRST_WORD_LENGTH)
        ordo_store_release_i64(start, 0)
        return from_position + length

    # --- Python ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        return self.memory.path

    def start_reserving(self, position: int) -> None:
        """Start allocating the pages of this log, which starts at a position, before they are used.

        Raises StorageFullError when there is no room for the first one and the metadata.
        """
        self._reserve_start = self.reserved_position = position & ~<int64_t> (RESERVE_STEP_MIN - 1)
        self.memory.reserve_range(self.metadata - self.memory.data, METADATA_LENGTH)
        if not self.reserve(position + HEADER_LENGTH):
            self.memory.reserve_range(self.at(self._reserve_start) - self.memory.data, RESERVE_STEP_MIN)

    def reserve_to(self, position: int) -> bool:
        """Return whether all pages up to a position are allocated."""
        return position <= self.reserved_position or self.reserve(position)

    def take_shortage(self) -> bool:
        """Return whether there was no room for a page since the last call."""
        was_short, self._was_short = self._was_short, False
        return was_short

    @property
    def connected(self) -> bool:
        """`is_connected` of the metadata: the driver sets it, publications read it."""
        return self.is_connected()

    @connected.setter
    def connected(self, bint connected):
        self.set_connected(connected)

    @property
    def eos_position(self) -> int:
        """End of stream position; `END_OF_STREAM_UNKNOWN` until the driver knows it."""
        return self.end_of_stream_position()

    @eos_position.setter
    def eos_position(self, int64_t position):
        self.set_end_of_stream_position(position)

    @property
    def tail_position(self) -> int:
        """Producer position in bytes."""
        return self.producer_position()

    @property
    def term_count(self) -> int:
        return self.active_term_count()

    @property
    def transport_count(self) -> int:
        """Transports of an image with recent activity; 0 in a publication."""
        return self.active_transport_count()

    @property
    def revoked(self) -> bool:
        return self.is_revoked()

    def revoke(self) -> None:
        """Mark the publication as revoked; only its driver does."""
        self.set_revoked()

    def tails(self) -> list:
        """Return (term id, raw offset) of the three tail counters; the raw offset may lie past the term length."""
        return [(raw_term_id(self.raw_tail(i)), self.raw_tail(i) & 0xFFFFFFFFLL) for i in range(PARTITION_COUNT)]

    def view(self) -> memoryview:
        """Return the whole mapping, for tools and tests; release it before `close`."""
        return memoryview(self.memory)

    def clean_range(self, int64_t from_position, int64_t to_position) -> int:
        """Zero from a position up to the target or the end of its term, and return where it stopped."""
        if from_position % FRAME_ALIGNMENT or to_position % FRAME_ALIGNMENT:
            raise TransportError(f"from_position={from_position} and to_position={to_position} must be multiples of 32")
        return self.clean(from_position, to_position)

    def default_header(self) -> bytes:
        return (<char*> self.metadata)[META_DEFAULT_HEADER:META_DEFAULT_HEADER + HEADER_LENGTH]

    def close(self) -> None:
        """Give the memory back; publications and images on this log must be closed before. Metadata stays readable."""
        if self.memory.data == NULL:
            return
        cdef Memory last_metadata = self._copy_metadata()
        self.memory.close()
        self._leave(last_metadata)

    def detach(self) -> Memory:
        """Let go of the memory as `close` does, and return it: whoever takes it closes it."""
        cdef Memory memory = self.memory
        if memory.data == NULL:
            return memory
        self._leave(self._copy_metadata())
        self.memory = Memory.__new__(Memory)
        self.memory.path = memory.path
        return memory

    cdef Memory _copy_metadata(self):
        cdef Memory copy = allocate(METADATA_LENGTH)
        memcpy(copy.data, self.metadata, METADATA_LENGTH)
        return copy

    cdef void _leave(self, Memory last_metadata) noexcept:
        cdef int i
        self.metadata = last_metadata.data
        self._last_metadata = last_metadata
        for i in range(PARTITION_COUNT):
            self.terms[i] = NULL


def _check_length(actual: int, needed: int, path: str) -> None:
    if actual < needed:
        raise TransportError(f"log buffer {path!r} is {actual} bytes long, needs {needed}: not a complete log buffer")


def open_log(MemoryProvider memory not None, path: str, writable: bool = True) -> LogBuffers:
    """Open an existing log buffer. Raises TransportError when its metadata is not that of a log buffer."""
    mapped = memory.open(path, writable)
    try:
        return LogBuffers(mapped)
    except TransportError:
        mapped.close()
        raise


def create_log(
    MemoryProvider memory not None, path: str, *, term_length: int, page_size: int = PAGE_SIZE_MIN,
    sparse: bool = True, **fields: int
) -> LogBuffers:
    """Create a log buffer with all of its metadata filled; `fields` are those of `begin_log`.

    The file must not exist yet, and is not left where a field is wrong.
    """
    check_term_length(term_length)
    check_page_size(page_size)
    mapped = memory.create(path, log_length_bytes(term_length, page_size), sparse)
    try:
        return begin_log(mapped, term_length=term_length, page_size=page_size, sparse=sparse, **fields)
    except BaseException:
        mapped.close()
        memory.remove(path)
        raise


def begin_log(
    Memory mapped not None,
    *,
    term_length: int,
    mtu: int,
    initial_term_id: int,
    session_id: int,
    stream_id: int,
    correlation_id: int,
    log_type: int,
    term_id: int | None = None,
    term_offset: int = 0,
    page_size: int = PAGE_SIZE_MIN,
    sparse: bool = True,
    **parameters: int,
) -> LogBuffers:
    """Write all of the metadata of a log buffer (log-buffer.md §2) into zeroed memory of its length.

    `log_type` is LOG_TYPE_CONCURRENT, LOG_TYPE_EXCLUSIVE or LOG_TYPE_IMAGE. `term_id` and `term_offset` give the start
    position of a publication; an image has no tails, its header's term offset only. `parameters` are the informational
    fields by name (`linger_timeout_ns`, `receiver_window_length`, ...).
    """
    check_term_length(term_length)
    check_mtu(mtu)
    check_page_size(page_size)
    if term_offset < 0 or term_offset > term_length or term_offset % FRAME_ALIGNMENT:
        raise TransportError(f"term_offset={term_offset} is not a multiple of 32 from 0 to term_length={term_length}")
    unknown = set(parameters) - set(_PARAMETER_OFFSETS)
    if unknown:
        raise TransportError(f"log buffer has no parameter {sorted(unknown)[0]!r}")
    _check_length(mapped.length_bytes, log_length_bytes(term_length, page_size), mapped.path)
    cdef uint8_t* metadata = mapped.data + mapped.length_bytes - METADATA_LENGTH
    ordo_put_i64(metadata + META_END_OF_STREAM_POSITION, END_OF_STREAM_UNKNOWN)
    ordo_put_i64(metadata + META_CORRELATION_ID, correlation_id)
    ordo_put_i32(metadata + META_INITIAL_TERM_ID, initial_term_id)
    ordo_put_i32(metadata + META_DEFAULT_HEADER_LENGTH, HEADER_LENGTH)
    ordo_put_i32(metadata + META_MTU, mtu)
    ordo_put_i32(metadata + META_TERM_LENGTH, term_length)
    ordo_put_i32(metadata + META_PAGE_SIZE, page_size)
    metadata[META_TYPE] = <uint8_t> <int> log_type
    metadata[META_SPARSE] = 1 if sparse else 0
    for name, value in parameters.items():
        _put_parameter(metadata, name, value)
    _put_default_header(metadata + META_DEFAULT_HEADER, term_offset, session_id, stream_id, initial_term_id)
    if log_type != LOG_TYPE_IMAGE:
        _put_tails(metadata, initial_term_id, initial_term_id if term_id is None else term_id, term_offset)
    return LogBuffers(mapped)


cdef _put_parameter(uint8_t* metadata, name, value):
    offset, size = _PARAMETER_OFFSETS[name]
    if size == 8:
        ordo_put_i64(metadata + <int> offset, value)
    elif size == 4:
        ordo_put_i32(metadata + <int> offset, value)
    else:
        metadata[<int> offset] = <uint8_t> <int> value


cdef void _put_default_header(uint8_t* header, int32_t term_offset, int32_t session_id, int32_t stream_id,
                              int32_t initial_term_id) noexcept nogil:
    memset(header, 0, 128)
    header[FRAME_FLAGS_OFFSET] = FLAGS_UNFRAGMENTED
    header[FRAME_TYPE_OFFSET] = TYPE_DATA
    ordo_put_i32(header + TERM_OFFSET_OFFSET, term_offset)
    ordo_put_i32(header + SESSION_ID_OFFSET, session_id)
    ordo_put_i32(header + STREAM_ID_OFFSET, stream_id)
    ordo_put_i32(header + TERM_ID_OFFSET, initial_term_id)


cdef void _put_tails(uint8_t* metadata, int32_t initial_term_id, int32_t term_id, int32_t term_offset) noexcept nogil:
    """Write the tail counters; inactive partitions carry the term id three older than the next one they will hold
    (log-buffer.md §2.2)."""
    cdef int32_t count = wrap_i32(<uint32_t> term_id - <uint32_t> initial_term_id)
    cdef int active = <int> (<uint32_t> count % PARTITION_COUNT)
    cdef int i
    for i in range(1, PARTITION_COUNT):
        ordo_put_i64(metadata + META_TAILS + 8 * ((active + i) % PARTITION_COUNT),
                     pack_tail(wrap_i32(<uint32_t> term_id + <uint32_t> i - PARTITION_COUNT), 0))
    ordo_put_i64(metadata + META_TAILS + 8 * active, pack_tail(term_id, term_offset))
    ordo_put_i32(metadata + META_ACTIVE_TERM_COUNT, count)
