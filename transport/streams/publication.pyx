"""Publications: the writing side of a log buffer (log-buffer.md §3-§5)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from ordo.runtime.native.atomics cimport (ordo_fence_release, ordo_fetch_add_i64, ordo_get_i32, ordo_get_i64, ordo_load_acquire_i64,
                              ordo_put_i64, ordo_store_release_i32, ordo_store_release_i64)
from ordo.transport.streams.logbuffer cimport (ADMIN_ACTION, BACK_PRESSURED, CLOSED, FLAG_BEGIN, FLAG_END, FRAME_FLAGS_OFFSET,
                                  FRAME_TYPE_OFFSET, HEADER_LENGTH, INVALID_BLOCK, MAX_POSITION_EXCEEDED,
                                  MESSAGE_TOO_LONG, META_ACTIVE_TERM_COUNT, META_TAILS, NOT_CONNECTED, PARTITION_COUNT,
                                  RESERVED_VALUE_OFFSET, SESSION_ID_OFFSET, STREAM_ID_OFFSET, TERM_ID_OFFSET,
                                  TERM_OFFSET_OFFSET, TYPE_DATA, align_frame, align_frame_i64, compute_position,
                                  framed_length, pack_tail, raw_term_id, raw_term_offset, wrap_i32)

from ordo.runtime.errors import PublicationError
from ordo.runtime.payloads import payload_error, to_bytes, view_of

RESULT_NOT_CONNECTED = NOT_CONNECTED
RESULT_BACK_PRESSURED = BACK_PRESSURED
RESULT_ADMIN_ACTION = ADMIN_ACTION
RESULT_CLOSED = CLOSED
RESULT_MAX_POSITION_EXCEEDED = MAX_POSITION_EXCEEDED
MAX_MESSAGE_LENGTH = 16 * 1024 * 1024
NULL_COUNTER_ID = -1

cdef enum:
    ADMIN_ACTION_ATTEMPTS = 3      # a message may find the end of its term, and the next one begun

_RESULT_NAMES = {
    NOT_CONNECTED: "not connected", BACK_PRESSURED: "back pressured", ADMIN_ACTION: "admin action", CLOSED: "closed",
    MAX_POSITION_EXCEEDED: "max position exceeded",
}


def describe_result(result: int) -> str:
    """Return one stable word for a result of `offer`: "position=n" or the name of the code."""
    return f"position={result}" if result > 0 else _RESULT_NAMES.get(result, f"unknown result {result}")


cdef class Publication:
    """Many threads and processes may write to one log through publications of their own.

    `limit` is the pub-lmt counter, `waker` wakes a parked driver after `offer`. `client` is told about `close`.
    """

    def __init__(self, LogBuffers log not None, Counter limit not None, *, str channel="", registration_id=None,
                 original_registration_id=None, int32_t channel_status_id=NULL_COUNTER_ID, client=None,
                 Waker waker=None):
        self.log = log
        self.limit_address = limit.address
        self.closed = False
        self.session_id = log.session_id
        self.stream_id = log.stream_id
        self.channel = channel
        self.registration_id = log.correlation_id if registration_id is None else registration_id
        self.original_registration_id = (
            self.registration_id if original_registration_id is None else original_registration_id)
        self.channel_status_id = channel_status_id
        self.max_payload_length = log.mtu - HEADER_LENGTH
        self.max_message_length = min(log.term_length // 8, MAX_MESSAGE_LENGTH)
        self.max_position = <int64_t> log.term_length << 31
        self._client = client
        self._waker = waker
        self._limit = limit

    # --- native -----------------------------------------------------------------------------------------------------

    cdef int64_t append(self, const uint8_t* a, int64_t a_length, const uint8_t* b, int64_t b_length) noexcept nogil:
        cdef int64_t length = a_length + b_length
        cdef int64_t position
        cdef int32_t term_id = 0
        cdef int32_t term_offset = 0
        cdef uint8_t* frame = NULL
        if self.closed:
            return CLOSED
        if length > self.max_message_length:
            return MESSAGE_TOO_LONG
        position = self._reserve(framed_length(length, self.max_payload_length), length, &term_id, &frame, &term_offset)
        if position > 0:
            if length <= self.max_payload_length:
                self.log.write_frame(frame, term_offset, term_id, self.log.header_flags, a, a_length, b, b_length)
            else:
                self._write_fragments(frame, term_offset, term_id, a, a_length, b, b_length)
        return position

    cdef int64_t claim(self, int32_t length_bytes, Claim* out) noexcept nogil:
        cdef int64_t position
        cdef int32_t term_id = 0
        cdef int32_t term_offset = 0
        cdef uint8_t* frame = NULL
        if self.closed:
            return CLOSED
        if length_bytes < 0 or length_bytes > self.max_payload_length:
            return MESSAGE_TOO_LONG
        position = self._reserve(align_frame(length_bytes + HEADER_LENGTH), length_bytes, &term_id, &frame,
                                 &term_offset)
        if position > 0:
            self.log.write_header(frame, term_offset, term_id, self.log.header_flags, length_bytes + HEADER_LENGTH)
            out.frame = frame
            out.payload = frame + HEADER_LENGTH
            out.length_bytes = length_bytes
        return position

    cdef void commit(self, Claim* claim) noexcept nogil:
        ordo_store_release_i32(claim.frame, claim.length_bytes + HEADER_LENGTH)

    cdef void abort(self, Claim* claim) noexcept nogil:
        claim.frame[FRAME_TYPE_OFFSET] = 0
        claim.frame[FRAME_TYPE_OFFSET + 1] = 0
        ordo_store_release_i32(claim.frame, claim.length_bytes + HEADER_LENGTH)

    cdef int64_t position_now(self) noexcept nogil:
        return CLOSED if self.closed else self.log.producer_position()

    cdef int64_t _reserve(self, int64_t required, int64_t message_length, int32_t* term_id, uint8_t** frame,
                          int32_t* term_offset) noexcept nogil:
        cdef int64_t limit = ordo_load_acquire_i64(self.limit_address)
        cdef int32_t term_count = self.log.active_term_count()
        cdef int index = <int> (<uint32_t> term_count % PARTITION_COUNT)
        cdef int64_t raw = self.log.raw_tail(index)
        cdef int64_t position, offset, resulting
        if term_count != wrap_i32(<uint32_t> raw_term_id(raw) - <uint32_t> self.log.initial_term_id):
            return ADMIN_ACTION
        position = (<int64_t> term_count << self.log.term_shift) + raw_term_offset(raw, self.log.term_length)
        if position >= limit:
            return self._refusal(position, message_length)
        raw = ordo_fetch_add_i64(self.log.metadata + META_TAILS + 8 * index, required)
        term_id[0] = raw_term_id(raw)
        offset = raw & 0xFFFFFFFFLL
        resulting = offset + required
        position = compute_position(term_id[0], 0, self.log.term_shift, self.log.initial_term_id) + resulting
        if resulting <= self.log.term_length:
            term_offset[0] = <int32_t> offset
            frame[0] = self.log.terms[index] + offset
            return position
        if offset < self.log.term_length:
            self.log.write_padding(self.log.terms[index] + offset, <int32_t> offset, term_id[0],
                              <int32_t> (self.log.term_length - offset))
        if position >= self.max_position:
            return MAX_POSITION_EXCEEDED
        self.log.rotate(wrap_i32(<uint32_t> term_id[0] - <uint32_t> self.log.initial_term_id), term_id[0])
        return ADMIN_ACTION

    cdef int64_t _refusal(self, int64_t position, int64_t message_length) noexcept nogil:
        """Return why nothing can be appended at a position that is not below the limit (log-buffer.md §4)."""
        if position + align_frame_i64(message_length + HEADER_LENGTH) >= self.max_position:
            return MAX_POSITION_EXCEEDED
        return BACK_PRESSURED if self.log.is_connected() else NOT_CONNECTED

    cdef void _write_fragments(self, uint8_t* frame, int32_t term_offset, int32_t term_id, const uint8_t* a,
                               int64_t a_length, const uint8_t* b, int64_t b_length) noexcept nogil:
        cdef int64_t left = a_length + b_length
        cdef int64_t piece, from_a
        cdef uint32_t flags = FLAG_BEGIN
        cdef uint32_t base = self.log.header_flags & ~(<uint32_t> (FLAG_BEGIN | FLAG_END) << 8)
        while left > 0:
            piece = left if left < self.max_payload_length else self.max_payload_length
            from_a = piece if piece < a_length else a_length
            if piece == left:
                flags |= FLAG_END
            self.log.write_frame(frame, term_offset, term_id, base | flags << 8, a, from_a, b, piece - from_a)
            a += from_a
            a_length -= from_a
            b += piece - from_a
            left -= piece
            frame += align_frame(<int32_t> piece + HEADER_LENGTH)
            term_offset += align_frame(<int32_t> piece + HEADER_LENGTH)
            flags = 0

    # --- Python -----------------------------------------------------------------------------------------------------

    def offer(self, payload, *more) -> int:
        """Append one message: a bytes-like object, or several that are put together. 0 bytes are allowed.

        Returns the stream position after it, or a negative code (log-buffer.md §4): RESULT_NOT_CONNECTED,
        RESULT_BACK_PRESSURED, RESULT_ADMIN_ACTION (call again at once), RESULT_CLOSED, RESULT_MAX_POSITION_EXCEEDED.
        Raises PublicationError when it is longer than `max_message_length`.
        """
        cdef int64_t result
        cdef Py_buffer view
        if more:
            if len(more) > 1 or not PyBytes_CheckExact(payload) or not PyBytes_CheckExact(more[0]):
                return self.offer(b"".join((payload, *more)))
            second = more[0]
            result = self.append(<const uint8_t*> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload),
                                 <const uint8_t*> PyBytes_AS_STRING(second), PyBytes_GET_SIZE(second))
        elif PyBytes_CheckExact(payload):
            result = self.append(<const uint8_t*> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), NULL, 0)
        else:
            try:
                PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
            except (TypeError, BufferError):
                raise payload_error(payload, "what a publication is offered") from None
            result = self.append(<const uint8_t*> view.buf, view.len, NULL, 0)
            PyBuffer_Release(&view)
        if result == CLOSED:
            self._check_process()
        if result == MESSAGE_TOO_LONG:
            raise PublicationError(
                f"message is longer than max_message_length={self.max_message_length} of stream {self.stream_id}; "
                "send it in parts or choose a longer term-length")
        if self._waker is not None and result != CLOSED:
            self._waker.wake()
        return result

    def offer_many(self, payloads) -> int:
        """Append messages, bytes-like objects, in order, and wake the driver once. Returns how many were taken.

        Fewer than all when there is no room, no subscriber, or this publication is closed: `offer` says which it is.
        Raises PublicationError for a message that is longer than `max_message_length`; those before it were taken.
        """
        cdef const uint8_t[::1] view
        cdef int64_t result = 1
        cdef Py_ssize_t count = 0
        cdef int attempt
        for payload in payloads:
            for attempt in range(ADMIN_ACTION_ATTEMPTS):
                if PyBytes_CheckExact(payload):
                    result = self.append(<const uint8_t*> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), NULL, 0)
                else:
                    view = view_of(payload, "what a publication is offered")
                    result = self.append(&view[0] if view.shape[0] > 0 else NULL, view.shape[0], NULL, 0)
                if result != ADMIN_ACTION:
                    break
            if result < 0:
                break
            count += 1
        if count and self._waker is not None:
            self._waker.wake()
        if result == CLOSED:
            self._check_process()
        if result == MESSAGE_TOO_LONG:
            raise PublicationError(
                f"message {count} of those offered is longer than max_message_length={self.max_message_length} of stream "
                f"{self.stream_id}; the {count} before it were taken")
        return count

    def offer_reserved(self, payload, supplier) -> int:
        """Offer like `offer`, with a reserved value in each frame's header: `supplier(frame_payload: bytes) -> int`.

        It is asked for every fragment before anything is appended, so what it raises leaves the stream as it was.
        """
        cdef bytes message = to_bytes(payload, "what a publication is offered")
        cdef int64_t length = len(message)
        cdef int64_t start = 0
        cdef int64_t position, value
        cdef int32_t term_id = 0
        cdef int32_t term_offset = 0
        cdef uint8_t* frame = NULL
        cdef list values = []
        if self.closed:
            self._check_process()
            return CLOSED
        if length > self.max_message_length:
            return self.offer(message)
        while not values or start < length:
            values.append(supplier(message[start:start + self.max_payload_length]))
            start += self.max_payload_length
        for value in values:
            pass                                        # each is an int64, or it raises here
        position = self._reserve(framed_length(length, self.max_payload_length), length, &term_id, &frame, &term_offset)
        if position > 0:
            start = 0
            for value in values:
                ordo_put_i64(frame + start + RESERVED_VALUE_OFFSET, value)
                start += align_frame(self.max_payload_length + HEADER_LENGTH)
            if length <= self.max_payload_length:
                self.log.write_frame(frame, term_offset, term_id, self.log.header_flags,
                                     <const uint8_t*> PyBytes_AS_STRING(message), length, NULL, 0)
            else:
                self._write_fragments(frame, term_offset, term_id, <const uint8_t*> PyBytes_AS_STRING(message), length,
                                      NULL, 0)
        if self._waker is not None:
            self._waker.wake()
        return position

    def try_claim(self, int32_t length_bytes) -> BufferClaim:
        """Reserve one frame to be written in place. False when it could not be; `position` then is the code.

        ```
        with publication.try_claim(16) as claim:
            if claim:
                claim.buffer[:] = data
        ```
        Leaving the block commits, an exception aborts. Raises PublicationError for more than `max_payload_length`.
        """
        if length_bytes < 0 or length_bytes > self.max_payload_length:
            raise PublicationError(f"claim of {length_bytes} bytes, allowed are 0 to {self.max_payload_length}")
        cdef BufferClaim claim = BufferClaim.__new__(BufferClaim)
        claim._publication = self
        claim.position = self.claim(length_bytes, &claim._claim)
        claim._open = claim.position > 0
        if claim.position == CLOSED:
            self._check_process()
        if claim._open:
            start = claim._claim.payload - self.log.memory.data
            claim._view = memoryview(self.log.memory)[start:start + length_bytes]
        return claim

    @property
    def position(self) -> int:
        """Stream position the next message starts at or after; RESULT_CLOSED when closed."""
        return self.position_now()

    @property
    def position_limit(self) -> int:
        """The position at which offers are refused until it moves on; RESULT_CLOSED when closed."""
        return CLOSED if self.closed else ordo_load_acquire_i64(self.limit_address)

    @property
    def available_window(self) -> int:
        """Bytes from the position to the limit; RESULT_CLOSED when closed."""
        return CLOSED if self.closed else ordo_load_acquire_i64(self.limit_address) - self.position_now()

    @property
    def is_connected(self) -> bool:
        """Whether there is a subscriber, as far as the driver knows."""
        return not self.closed and self.log.is_connected()

    @property
    def is_closed(self) -> bool:
        return self.closed

    @property
    def is_revoked(self) -> bool:
        return not self.closed and self.log.is_revoked()

    @property
    def is_original(self) -> bool:
        """Whether this registration created the log; later ones of a shared publication did not."""
        return self.registration_id == self.original_registration_id

    @property
    def max_possible_position(self) -> int:
        return self.max_position

    @property
    def initial_term_id(self) -> int:
        return self.log.initial_term_id

    @property
    def term_length(self) -> int:
        return self.log.term_length

    @property
    def mtu(self) -> int:
        return self.log.mtu

    @property
    def limit_counter_id(self) -> int:
        return self._limit.counter_id

    @property
    def log_buffers(self) -> LogBuffers:
        return self.log

    @property
    def channel_status(self) -> int:
        """1 active, 0 initialising, -1 errored, 2 closing; always 1 for IPC."""
        if self._client is None or self.channel_status_id == NULL_COUNTER_ID:
            return 1
        return self._client.counters.get_value(self.channel_status_id)

    @property
    def local_socket_addresses(self) -> list:
        """`host:port` of the bound sockets; empty until the channel is active, and for IPC."""
        return [] if self._client is None else self._client.local_socket_addresses(self.channel_status_id)

    def _check_process(self):
        """Raise ForkedError if this is the copy that a forked child has of its parent's publication."""
        if self._client is not None:
            self._client.origin.check()

    def close(self) -> None:
        """Take no more messages; what is in the log is still sent. Idempotent."""
        if not self.closed:
            self.closed = True
            if self._client is not None:
                self._client.on_publication_closed(self, False)

    def revoke(self) -> None:
        """Close at once: subscribers lose what they have not read yet."""
        if not self.closed:
            self.closed = True
            if self._client is not None:
                self._client.on_publication_closed(self, True)

    def force_close(self) -> None:
        """Close without telling the driver; for the client, when the driver is gone."""
        self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(channel={self.channel!r}, stream_id={self.stream_id}, "
                f"session_id={self.session_id}, position={self.position_now()})")


cdef class ExclusivePublication(Publication):
    """The only writer of its log, in one thread; its session is its own."""

    def __init__(self, LogBuffers log not None, Counter limit not None, **arguments):
        super().__init__(log, limit, **arguments)
        cdef int32_t count = log.active_term_count()
        self.partition = <int> (<uint32_t> count % PARTITION_COUNT)
        cdef int64_t raw = log.raw_tail(self.partition)
        self.term_id = raw_term_id(raw)
        self.term_offset = raw_term_offset(raw, log.term_length)
        self.term_begin_position = <int64_t> count << log.term_shift

    cdef int64_t position_now(self) noexcept nogil:
        return CLOSED if self.closed else self.term_begin_position + self.term_offset

    cdef int64_t _reserve(self, int64_t required, int64_t message_length, int32_t* term_id, uint8_t** frame,
                          int32_t* term_offset) noexcept nogil:
        cdef int64_t position = self.term_begin_position + self.term_offset
        cdef int64_t resulting = self.term_offset + required
        if position >= ordo_load_acquire_i64(self.limit_address):
            return self._refusal(position, message_length)
        ordo_store_release_i64(self.log.metadata + META_TAILS + 8 * self.partition,
                               (<int64_t> self.term_id << 32) + resulting)
        if resulting > self.log.term_length:
            return self._end_of_term()
        term_id[0] = self.term_id
        term_offset[0] = <int32_t> self.term_offset
        frame[0] = self.log.terms[self.partition] + self.term_offset
        self.term_offset = resulting
        return self.term_begin_position + resulting

    cdef void stamp_next(self, int64_t reserved_value) noexcept nogil:
        if not self.closed and self.term_offset < self.log.term_length:
            ordo_put_i64(self.log.terms[self.partition] + self.term_offset + RESERVED_VALUE_OFFSET, reserved_value)

    cdef int64_t _end_of_term(self) noexcept nogil:
        if self.term_offset < self.log.term_length:
            self.log.write_padding(self.log.terms[self.partition] + self.term_offset, <int32_t> self.term_offset,
                                   self.term_id, <int32_t> (self.log.term_length - self.term_offset))
        if self.term_begin_position + self.log.term_length >= self.max_position:
            self.term_offset = self.log.term_length
            return MAX_POSITION_EXCEEDED
        self._rotate()
        return ADMIN_ACTION

    cdef void _rotate(self) noexcept nogil:
        self.partition = (self.partition + 1) % PARTITION_COUNT
        self.term_id = wrap_i32(<uint32_t> self.term_id + 1)
        self.term_offset = 0
        self.term_begin_position += self.log.term_length
        ordo_put_i64(self.log.metadata + META_TAILS + 8 * self.partition, pack_tail(self.term_id, 0))
        ordo_store_release_i32(self.log.metadata + META_ACTIVE_TERM_COUNT,
                               wrap_i32(<uint32_t> self.term_id - <uint32_t> self.log.initial_term_id))

    cdef int64_t append_padding(self, int32_t length_bytes) noexcept nogil:
        cdef int64_t position
        cdef int32_t term_id = 0
        cdef int32_t term_offset = 0
        cdef uint8_t* frame = NULL
        if self.closed:
            return CLOSED
        if length_bytes < 0 or length_bytes > framed_length(self.max_message_length, self.max_payload_length):
            return MESSAGE_TOO_LONG
        position = self._reserve(align_frame(length_bytes + HEADER_LENGTH), length_bytes, &term_id, &frame,
                                 &term_offset)
        if position > 0:
            self.log.write_padding(frame, term_offset, term_id, length_bytes + HEADER_LENGTH)
        return position

    cdef int64_t append_block(self, const uint8_t* frames, int32_t length_bytes) noexcept nogil:
        cdef int64_t position
        cdef uint8_t* target
        if self.closed:
            return CLOSED
        position = self.term_begin_position + self.term_offset
        if position >= ordo_load_acquire_i64(self.limit_address):
            return self._refusal(position, length_bytes)
        if self.term_offset >= self.log.term_length:
            if self.term_begin_position + self.log.term_length >= self.max_position:
                return MAX_POSITION_EXCEEDED
            self._rotate()
        if not _block_fits(self, frames, length_bytes):
            return INVALID_BLOCK
        target = self.log.terms[self.partition] + self.term_offset
        ordo_store_release_i64(self.log.metadata + META_TAILS + 8 * self.partition,
                               (<int64_t> self.term_id << 32) + self.term_offset + length_bytes)
        memcpy(target + HEADER_LENGTH, frames + HEADER_LENGTH, length_bytes - HEADER_LENGTH)
        ordo_put_i64(target + RESERVED_VALUE_OFFSET, ordo_get_i64(frames + RESERVED_VALUE_OFFSET))
        ordo_put_i64(target + STREAM_ID_OFFSET, ordo_get_i64(frames + STREAM_ID_OFFSET))
        ordo_put_i64(target + TERM_OFFSET_OFFSET, ordo_get_i64(frames + TERM_OFFSET_OFFSET))
        ordo_store_release_i64(target, ordo_get_i64(frames))
        self.term_offset += length_bytes
        return self.term_begin_position + self.term_offset

    def offer_block(self, const uint8_t[::1] frames not None) -> int:
        """Append frames that are already formed: whole, aligned, starting at this publication's position, in one term.

        Results as `offer`. Raises PublicationError when they do not belong here.
        """
        cdef int64_t result = INVALID_BLOCK
        if 0 < frames.shape[0] <= self.log.term_length:
            result = self.append_block(&frames[0], <int32_t> frames.shape[0])
        if result == INVALID_BLOCK:
            raise PublicationError(
                f"block of {frames.shape[0]} bytes does not fit: it must start with a data frame of session "
                f"{self.session_id}, stream {self.stream_id}, term id {self.term_id}, term offset {self.term_offset}, "
                "be a multiple of 32 and end inside the term")
        if self._waker is not None and result != CLOSED:
            self._waker.wake()
        return result

    def offer_padding(self, int32_t length_bytes) -> int:
        """Append a PAD frame of `length_bytes` after its header; results as `offer`."""
        cdef int64_t result = self.append_padding(length_bytes)
        if result == MESSAGE_TOO_LONG:
            allowed = framed_length(self.max_message_length, self.max_payload_length)
            raise PublicationError(f"padding of {length_bytes} bytes, allowed are 0 to {allowed}")
        if self._waker is not None and result != CLOSED:
            self._waker.wake()
        return result

    @property
    def current_term_id(self) -> int:
        return self.term_id

    @property
    def current_term_offset(self) -> int:
        return self.term_offset


cdef bint _block_fits(ExclusivePublication publication, const uint8_t* frames, int32_t length_bytes) noexcept nogil:
    return (HEADER_LENGTH <= length_bytes <= publication.log.term_length - publication.term_offset
            and length_bytes % HEADER_LENGTH == 0
            and ordo_get_i32(frames) > 0
            and frames[FRAME_TYPE_OFFSET] == TYPE_DATA and frames[FRAME_TYPE_OFFSET + 1] == 0
            and ordo_get_i32(frames + TERM_OFFSET_OFFSET) == publication.term_offset
            and ordo_get_i32(frames + SESSION_ID_OFFSET) == publication.session_id
            and ordo_get_i32(frames + STREAM_ID_OFFSET) == publication.stream_id
            and ordo_get_i32(frames + TERM_ID_OFFSET) == publication.term_id)


cdef class BufferClaim:
    """A frame reserved in the log. `buffer` is its payload to write; `commit` or `abort` ends it, once."""

    def __bool__(self) -> bool:
        """Return whether a frame is claimed and may be written."""
        return self.position > 0

    @property
    def buffer(self) -> memoryview:
        """Writable view of the payload, valid until `commit` or `abort`."""
        if not self._open:
            raise PublicationError(f"no claim to write: {describe_result(self.position)}, committed or aborted")
        return self._view

    @property
    def flags(self) -> int:
        """Flags byte of the frame's header; 0xC0 for a whole message."""
        return self._frame()[FRAME_FLAGS_OFFSET]

    @flags.setter
    def flags(self, uint8_t flags):
        self._frame()[FRAME_FLAGS_OFFSET] = flags

    @property
    def reserved_value(self) -> int:
        """Reserved value of the frame's header, for the application."""
        return ordo_get_i64(self._frame() + RESERVED_VALUE_OFFSET)

    @reserved_value.setter
    def reserved_value(self, int64_t value):
        ordo_put_i64(self._frame() + RESERVED_VALUE_OFFSET, value)

    def commit(self) -> int:
        """Publish the frame and return the position after it."""
        if not self._open:
            raise PublicationError(f"no claim to commit: {describe_result(self.position)}, committed or aborted")
        self._finish(True)
        return self.position

    def abort(self) -> None:
        """Turn the frame into padding, which no subscriber sees."""
        if not self._open:
            raise PublicationError(f"no claim to abort: {describe_result(self.position)}, committed or aborted")
        self._finish(False)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self._open:
            self._finish(kind is None)

    cdef uint8_t* _frame(self) except NULL:
        if not self._open:
            raise PublicationError(f"no claim to write: {describe_result(self.position)}, committed or aborted")
        return self._claim.frame

    cdef _finish(self, bint committed):
        if self._publication.closed:
            self._open = False
            raise PublicationError("the publication was closed before the claim was committed or aborted")
        if committed:
            try:
                self._view.release()
            except BufferError:
                raise PublicationError("a view of the claim's buffer is still held; release it before commit") from None
            self._publication.commit(&self._claim)
        else:
            self._publication.abort(&self._claim)
        self._open = False
        self._view = None
        if self._publication._waker is not None:
            self._publication._waker.wake()
