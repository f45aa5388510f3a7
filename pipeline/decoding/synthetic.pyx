"""Writes recordings as a cluster would have written them, at memory speed: for sizing a Spark cluster and for tests.

The log is one term of leadership after another; in each, sessions open, send messages of varying length round-robin and
close. Everything follows from the parameters, so the same call writes the same bytes.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from ordo.archive.segments.frames cimport CHECKSUM_OFFSET
from ordo.cluster.wire.layout cimport (SBE_SCHEMA_ID, SBE_TEMPLATE_ID, SBE_VERSION, SCHEMA_ID, SCHEMA_VERSION,
                              SESSION_HEADER_LEADERSHIP_TERM_ID, SESSION_HEADER_LENGTH, SESSION_HEADER_SESSION_ID,
                              SESSION_HEADER_TIMESTAMP, SESSION_MESSAGE_HEADER_BLOCK, SESSION_MESSAGE_HEADER_ID)
from ordo.transport.streams.logbuffer cimport (
    FLAG_BEGIN,
    FLAG_END,
    FRAME_ALIGNMENT,
    FRAME_FLAGS_OFFSET,
    FRAME_TYPE_OFFSET,
    FRAME_VERSION_OFFSET,
    HEADER_LENGTH,
    RESERVED_VALUE_OFFSET,
    SESSION_ID_OFFSET,
    STREAM_ID_OFFSET,
    TERM_ID_OFFSET,
    TERM_OFFSET_OFFSET,
    TYPE_DATA,
    TYPE_PAD,
    align_frame,
)
from ordo.pipeline.decoding.records cimport LOG_STREAM_ID
from ordo.runtime.native.atomics cimport ordo_crc32c, ordo_put_i32, ordo_put_i64, ordo_put_u16

cdef enum:
    PAYLOAD_MAX = 4096                 # of a message of `append_messages`


cdef class RecordingWriter:
    """Appends whole messages to the term image of a recording; hands out finished terms as memory.

    `append` pads to the end of the term when the message does not fit (it then belongs to the next one), as a
    publication does, and cuts messages longer than mtu - 32 into fragments.
    """

    cdef uint8_t* term
    cdef readonly int64_t term_length_bytes
    cdef readonly int64_t position
    cdef int64_t flushed_position
    cdef int32_t initial_term_id
    cdef int32_t stream_id
    cdef int32_t session_id
    cdef int32_t payload_max
    cdef bint checksum
    cdef object sink

    def __cinit__(self, object sink, int64_t term_length_bytes, int32_t initial_term_id=0,
                  int32_t stream_id=LOG_STREAM_ID, int32_t session_id=1, int32_t mtu=1408, bint checksum=True,
                  int64_t position=0):
        """`sink(position, bytes view)` is called with what was appended, at the end of each term and on `flush`."""
        if term_length_bytes & (term_length_bytes - 1) or position & (FRAME_ALIGNMENT - 1):
            raise ValueError(f"term_length_bytes={term_length_bytes} must be a power of two and position={position} a "
                             f"multiple of 32")
        self.term = <uint8_t*> calloc(term_length_bytes, 1)
        if self.term == NULL:
            raise MemoryError()
        self.sink = sink
        self.term_length_bytes = term_length_bytes
        self.position = position
        self.flushed_position = position
        self.initial_term_id = initial_term_id
        self.stream_id = stream_id
        self.session_id = session_id
        self.payload_max = mtu - HEADER_LENGTH
        self.checksum = checksum

    def __dealloc__(self):
        free(self.term)

    def append(self, const uint8_t[::1] message):
        """Position after the message."""
        if message.shape[0] > self.term_length_bytes // 8:
            raise ValueError(f"message of {message.shape[0]} bytes; the most are {self.term_length_bytes // 8}")
        cdef const uint8_t* data = &message[0] if message.shape[0] else self.term
        if not self._append(data, message.shape[0]):
            self.end_term()
            self._append(data, message.shape[0])
        return self.position

    def end_term(self):
        """Pad to the end of the term and go to the next."""
        cdef int64_t offset = self.position & (self.term_length_bytes - 1)
        if offset or self.position == self.flushed_position:
            self._frame(offset, NULL, self.term_length_bytes - offset - HEADER_LENGTH, 0xC0, TYPE_PAD)
        self.flush()

    def append_padding(self, int64_t length_bytes):
        """A padding frame of this aligned length inside the term, as an aborted claim leaves it."""
        cdef int64_t offset = self.position & (self.term_length_bytes - 1)
        if (offset + length_bytes > self.term_length_bytes or length_bytes & (FRAME_ALIGNMENT - 1)
                or length_bytes < HEADER_LENGTH):
            raise ValueError(f"length_bytes={length_bytes} must be a multiple of 32 that fits the term")
        self._frame(offset, NULL, length_bytes - HEADER_LENGTH, 0xC0, TYPE_PAD)

    def flush(self):
        """Hand out what was appended since the last flush."""
        cdef int64_t begin, length = self.position - self.flushed_position
        if length == 0:
            return
        begin = self.flushed_position & (self.term_length_bytes - 1)
        self.sink(self.flushed_position, memoryview(<uint8_t[:length]> (self.term + begin)))
        self.flushed_position = self.position
        if self.position & (self.term_length_bytes - 1) == 0:
            memset(self.term, 0, self.term_length_bytes)

    cdef bint _append(self, const uint8_t* message, int64_t length) noexcept:
        cdef int64_t offset = self.position & (self.term_length_bytes - 1)
        cdef int64_t whole = length // self.payload_max
        cdef int64_t rest = length % self.payload_max
        cdef int64_t needed = whole * align_frame(self.payload_max + HEADER_LENGTH)
        cdef int64_t part, sent = 0
        cdef int flags = FLAG_BEGIN
        if rest or not whole:
            needed += align_frame(rest + HEADER_LENGTH)
        if offset + needed > self.term_length_bytes or (offset == 0 and self.position != self.flushed_position):
            return False
        while True:
            part = min(self.payload_max, length - sent)
            if sent + part == length:
                flags |= FLAG_END
            offset += self._frame(offset, message + sent, part, flags, TYPE_DATA)
            sent += part
            flags = 0
            if sent == length:
                return True

    cdef int64_t _frame(self, int64_t offset, const uint8_t* payload, int64_t length, int flags, int kind) noexcept:
        cdef uint8_t* frame = self.term + offset
        cdef int64_t aligned = align_frame(length + HEADER_LENGTH)
        ordo_put_i32(frame, <int32_t> (length + HEADER_LENGTH))
        frame[FRAME_VERSION_OFFSET] = 0
        frame[FRAME_FLAGS_OFFSET] = flags
        ordo_put_u16(frame + FRAME_TYPE_OFFSET, kind)
        ordo_put_i32(frame + TERM_OFFSET_OFFSET, <int32_t> offset)
        ordo_put_i32(frame + SESSION_ID_OFFSET, self.session_id)
        ordo_put_i32(frame + STREAM_ID_OFFSET, self.stream_id)
        ordo_put_i32(frame + TERM_ID_OFFSET, self.initial_term_id + <int32_t> (self.position // self.term_length_bytes))
        ordo_put_i64(frame + RESERVED_VALUE_OFFSET, 0)
        if payload != NULL:
            memcpy(frame + HEADER_LENGTH, payload, length)
            if self.checksum:
                ordo_put_i32(frame + CHECKSUM_OFFSET, <int32_t> ordo_crc32c(0, frame + HEADER_LENGTH,
                                                               aligned - HEADER_LENGTH))
        self.position += aligned
        return aligned

    def append_messages(self, int64_t count, int64_t leadership_term, int64_t first_session, int64_t session_count,
                        int64_t first_time, int64_t time_step_num, int64_t time_step_den, int payload_min,
                        int payload_max, int64_t seed):
        """`count` session messages: sessions in turn, time = first + index * num / den, payload bytes from the seed.

        A payload begins with its index (i64) and goes on with pseudo-random bytes; its length lies between the bounds.
        """
        cdef uint8_t record[SESSION_HEADER_LENGTH + PAYLOAD_MAX]
        cdef int64_t index = 0
        cdef uint64_t random = <uint64_t> seed * 0x9E3779B97F4A7C15ULL + 1
        cdef int64_t length, word
        if not 8 <= payload_min <= payload_max <= PAYLOAD_MAX:
            raise ValueError(
                f"payload_min={payload_min} payload_max={payload_max} must lie in order in 8..{PAYLOAD_MAX}")
        put_record_header(record, SESSION_MESSAGE_HEADER_BLOCK, SESSION_MESSAGE_HEADER_ID)
        ordo_put_i64(record + SESSION_HEADER_LEADERSHIP_TERM_ID, leadership_term)
        while index < count:
            random = random * 6364136223846793005ULL + 1442695040888963407ULL
            length = payload_min + <int64_t> ((random >> 33) % <uint64_t> (payload_max - payload_min + 1))
            ordo_put_i64(record + SESSION_HEADER_SESSION_ID, first_session + index % session_count)
            ordo_put_i64(record + SESSION_HEADER_TIMESTAMP, first_time + index * time_step_num // time_step_den)
            ordo_put_i64(record + SESSION_HEADER_LENGTH, index)
            for word in range(1, (length + 7) >> 3):
                ordo_put_i64(record + SESSION_HEADER_LENGTH + 8 * word,
                             <int64_t> (random ^ (<uint64_t> word * 0xBF58476D1CE4E5B9ULL)))
            if not self._append(record, SESSION_HEADER_LENGTH + length):
                self.end_term()
                continue
            index += 1
        return self.position


cdef void put_record_header(uint8_t* out, int block_length, int template_id) noexcept:
    ordo_put_u16(out, block_length)
    ordo_put_u16(out + SBE_TEMPLATE_ID, template_id)
    ordo_put_u16(out + SBE_SCHEMA_ID, SCHEMA_ID)
    ordo_put_u16(out + SBE_VERSION, SCHEMA_VERSION)
