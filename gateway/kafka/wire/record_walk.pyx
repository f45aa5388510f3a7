"""Records of Kafka's batches, format 2, into payloads of a topic and back. See records.py.

Nothing that stands in a record is trusted: each number and length is compared with what is left.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from ordo.runtime.errors import DecodeError

ENVELOPE = b"\xf0ordo.record\x01"
"""How a payload begins that has key, value and headers of a record: no text in UTF-8 begins so."""

cdef enum:
    VARINT_BYTES = 5               # at most, of a number that is not a time
    VARINT_BYTES_TIME = 10
    RECORD_BYTES_MIN = 6           # after its length
    ENVELOPE_BYTES = 13
    BESIDES_BYTES_MAX = 32         # of a record besides its envelope or value: six numbers, and attributes
    LENGTH_BYTES = 4               # before each payload of an order, little-endian as all machines that Ordo runs on

cdef enum Fault:
    SOUND = 0
    CUT
    LONG_NUMBER
    NEGATIVE_HEADERS
    FEWER_HEADERS
    NAMELESS_HEADER
    WRONG_SUM

cdef dict FAULTS = {
    CUT: "a batch ends within a record",
    LONG_NUMBER: "a number of a record is too long",
    NEGATIVE_HEADERS: "a record with a negative number of headers",
    FEWER_HEADERS: "a record with fewer headers than it says",
    NAMELESS_HEADER: "a header without a name",
    WRONG_SUM: "the parts of a record do not add up to its length",
}
cdef const uint8_t* _ENVELOPE = <const uint8_t*> PyBytes_AS_STRING(ENVELOPE)
assert PyBytes_GET_SIZE(ENVELOPE) == ENVELOPE_BYTES


cdef struct Payload:
    int64_t offset                 # of what it takes from the batch
    int64_t length                 # of that
    bint is_plain                  # or ENVELOPE stands before that


cdef struct Walk:
    const uint8_t* data
    int64_t offset
    int64_t end                    # nothing is read from here on
    int fault


cdef int64_t take_varint(Walk* walk, int bytes_max) noexcept nogil:
    """Return a zigzag number, and go behind it; 0 with a fault, of which the first one stays."""
    cdef uint64_t value = 0
    cdef int place
    cdef uint8_t byte
    if walk.fault:
        return 0
    for place in range(bytes_max):
        if walk.offset >= walk.end:
            walk.fault = CUT
            return 0
        byte = walk.data[walk.offset]
        walk.offset += 1
        value |= <uint64_t> (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return <int64_t> (value >> 1) ^ -<int64_t> (value & 1)
    walk.fault = LONG_NUMBER
    return 0


cdef inline int64_t skip(Walk* walk, int64_t length) noexcept nogil:
    """Go over this many bytes, none for a negative length, and return where they begin."""
    cdef int64_t begin = walk.offset
    if walk.fault:
        return begin
    if length > walk.end - begin:
        walk.fault = CUT
    elif length > 0:
        walk.offset += length
    return begin


cdef bint walk_content(Walk* walk, int64_t* value, int64_t* value_length) noexcept nogil:
    """Go over key, value and headers, and return whether it is a value alone, which is where `value` says."""
    cdef int64_t key_length, headers, left, length
    key_length = take_varint(walk, VARINT_BYTES)
    skip(walk, key_length)
    value_length[0] = take_varint(walk, VARINT_BYTES)
    value[0] = skip(walk, value_length[0])
    headers = left = take_varint(walk, VARINT_BYTES)   # 0 after a fault
    if not walk.fault and headers < 0:
        walk.fault = NEGATIVE_HEADERS
    while left > 0 and not walk.fault:
        left -= 1
        if walk.offset >= walk.end:
            walk.fault = FEWER_HEADERS
            return False
        length = take_varint(walk, VARINT_BYTES)
        if length < 0 and not walk.fault:
            walk.fault = NAMELESS_HEADER
        skip(walk, length)
        skip(walk, take_varint(walk, VARINT_BYTES))
    if not walk.fault and (walk.offset != walk.end or key_length < -1 or value_length[0] < -1):
        walk.fault = WRONG_SUM
    return key_length < 0 <= value_length[0] and headers == 0


cdef void find_payload(Walk* walk, Payload* found) noexcept nogil:
    """Find the payload for key, value and headers, which fill the walk to its end."""
    cdef int64_t begin = walk.offset
    cdef bint is_plain
    found.offset = found.length = 0
    is_plain = walk_content(walk, &found.offset, &found.length)
    found.is_plain = is_plain and not (
        found.length >= ENVELOPE_BYTES and memcmp(walk.data + found.offset, _ENVELOPE, ENVELOPE_BYTES) == 0)
    if not found.is_plain:
        found.offset, found.length = begin, walk.end - begin


cdef inline int64_t length_of(const Payload* payload) noexcept nogil:
    return payload.length if payload.is_plain else payload.length + ENVELOPE_BYTES


cdef int find_payloads(Walk* walk, int64_t whole, Py_ssize_t count, Payload* found) except -1:
    """Find the payloads of `count` records, which fill the walk up to `whole`. Raises DecodeError."""
    cdef int64_t length, delta
    cdef Py_ssize_t index
    for index in range(count):
        walk.end = whole
        length = take_varint(walk, VARINT_BYTES)
        if not walk.fault and not RECORD_BYTES_MIN <= length <= whole - walk.offset:
            raise DecodeError(f"a record of {length} bytes")
        walk.end = walk.offset + length
        skip(walk, 1)                                      # attributes
        take_varint(walk, VARINT_BYTES_TIME)
        delta = take_varint(walk, VARINT_BYTES)
        if not walk.fault and delta != index:
            raise DecodeError(f"record {index} of a batch says that it is record {delta}")
        if not walk.fault:
            find_payload(walk, &found[index])
        if walk.fault:
            raise DecodeError(FAULTS[walk.fault])
    if walk.offset != whole:
        raise DecodeError("bytes follow the last record of a batch")
    return 0


cdef bytes pack(const uint8_t* data, const Payload* payloads, Py_ssize_t count):
    """Return payloads, each with its length before it."""
    cdef Py_ssize_t index
    cdef int64_t total = 0
    cdef uint32_t length
    cdef bytes packed
    cdef uint8_t* at
    for index in range(count):
        total += LENGTH_BYTES + length_of(&payloads[index])
    packed = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t*> PyBytes_AS_STRING(packed)
    for index in range(count):
        length = <uint32_t> length_of(&payloads[index])
        memcpy(at, &length, LENGTH_BYTES)
        at += LENGTH_BYTES
        if not payloads[index].is_plain:
            memcpy(at, _ENVELOPE, ENVELOPE_BYTES)
            at += ENVELOPE_BYTES
        memcpy(at, data + payloads[index].offset, payloads[index].length)
        at += payloads[index].length
    return packed


cdef list pack_parts(const uint8_t* data, const Payload* payloads, Py_ssize_t count, int64_t bytes_max):
    """Return payloads in parts, each with as many as `bytes_max` takes with their lengths, and with one at least."""
    cdef Py_ssize_t begin = 0, end
    cdef int64_t total
    cdef list parts = []
    while begin < count:
        end = begin + 1
        total = LENGTH_BYTES + length_of(&payloads[begin])
        while end < count and total + LENGTH_BYTES + length_of(&payloads[end]) <= bytes_max:
            total += LENGTH_BYTES + length_of(&payloads[end])
            end += 1
        parts.append((end - begin, pack(data, payloads + begin, end - begin)))
        begin = end
    return parts


def read_records(bytes body not None, Py_ssize_t start, Py_ssize_t count, int64_t bytes_max):
    """Return the payloads of `count` records, which stand in `body` from `start` to its end, and the longest one's length.

    They come in parts for orders (see service/orders.py): how many payloads, and these with their lengths before them.
    Raises DecodeError.
    """
    cdef int64_t whole = PyBytes_GET_SIZE(body), longest = 0
    cdef Py_ssize_t index
    cdef Payload* payloads
    cdef Walk walk
    walk.data = <const uint8_t*> PyBytes_AS_STRING(body)
    walk.offset = start
    walk.fault = SOUND
    if not 0 <= start <= whole or not 0 <= count <= whole - start:
        raise DecodeError(FAULTS[CUT])
    payloads = <Payload*> malloc(max(count, 1) * sizeof(Payload))
    if payloads is NULL:
        raise MemoryError
    try:
        find_payloads(&walk, whole, count, payloads)
        for index in range(count):
            longest = max(longest, length_of(&payloads[index]))
        return pack_parts(walk.data, payloads, count, bytes_max), longest
    finally:
        free(payloads)


cdef inline uint8_t* put_varint(uint8_t* at, int64_t number) noexcept nogil:
    cdef uint64_t value = <uint64_t> number << 1 ^ <uint64_t> (number >> 63)
    while value >= 0x80:
        at[0] = <uint8_t> (value & 0x7F | 0x80)
        at += 1
        value >>= 7
    at[0] = <uint8_t> value
    return at + 1


def varint(int64_t number):
    """Return a number as it stands in a record."""
    cdef uint8_t place[VARINT_BYTES_TIME]
    cdef uint8_t* end = put_varint(place, number)
    return PyBytes_FromStringAndSize(<const char*> place, end - place)


cdef bint is_envelope(bytes payload):
    """Return whether a payload is key, value and headers of a record. One whose parts do not add up is none."""
    cdef int64_t value = 0, length = 0
    cdef Walk walk
    walk.data = <const uint8_t*> PyBytes_AS_STRING(payload)
    walk.offset = ENVELOPE_BYTES
    walk.end = PyBytes_GET_SIZE(payload)
    walk.fault = SOUND
    if walk.end < ENVELOPE_BYTES or memcmp(walk.data, _ENVELOPE, ENVELOPE_BYTES) != 0:
        return False
    walk_content(&walk, &value, &length)
    return walk.fault == SOUND


cdef uint8_t* put_content(uint8_t* at, bytes payload) noexcept:
    """Write key, value and headers of a message, as they stand in a record; room for them is there."""
    cdef int64_t length = PyBytes_GET_SIZE(payload)
    if is_envelope(payload):
        memcpy(at, PyBytes_AS_STRING(payload) + ENVELOPE_BYTES, length - ENVELOPE_BYTES)
        return at + length - ENVELOPE_BYTES
    at[0] = 1                                              # no key
    at = put_varint(at + 1, length)
    memcpy(at, PyBytes_AS_STRING(payload), length)
    at[length] = 0                                         # no headers
    return at + length + 1


def write_records(list messages not None):
    """Return the records of messages: tuples of number, time in ms and payload, with consecutive numbers."""
    cdef Py_ssize_t size = 0, index = 0
    cdef int64_t first_ms = 0, time_ms, length
    cdef bytes payload, found
    cdef uint8_t* at
    cdef uint8_t* begin
    cdef uint8_t* out
    cdef int longest = 0
    for _, time_ms, payload in messages:
        longest = max(longest, <int> PyBytes_GET_SIZE(payload))
        size += PyBytes_GET_SIZE(payload) + BESIDES_BYTES_MAX
    found = PyBytes_FromStringAndSize(NULL, size)
    scratch = PyBytes_FromStringAndSize(NULL, longest + BESIDES_BYTES_MAX)
    begin = <uint8_t*> PyBytes_AS_STRING(scratch)
    out = <uint8_t*> PyBytes_AS_STRING(found)
    for _, time_ms, payload in messages:
        if index == 0:
            first_ms = time_ms
        begin[0] = 0                                       # attributes
        at = put_varint(put_varint(begin + 1, time_ms - first_ms), index)
        at = put_content(at, payload)
        length = at - begin
        out = put_varint(out, length)
        memcpy(out, begin, length)
        out += length
        index += 1
    return found[:out - <uint8_t*> PyBytes_AS_STRING(found)]
