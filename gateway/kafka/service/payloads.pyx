"""Payloads of an append as bytes: for each, length uint32 (little-endian) and what it has. See orders.py."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    LENGTH = 4                     # bytes before each payload


cdef inline uint32_t get_length(const uint8_t* at) noexcept nogil:
    return at[0] | <uint32_t> at[1] << 8 | <uint32_t> at[2] << 16 | <uint32_t> at[3] << 24


cdef inline void put_length(uint8_t* at, uint32_t length) noexcept nogil:
    at[0] = <uint8_t> length
    at[1] = <uint8_t> (length >> 8)
    at[2] = <uint8_t> (length >> 16)
    at[3] = <uint8_t> (length >> 24)


def pack_payloads(list payloads not None, Py_ssize_t begin, Py_ssize_t bytes_max):
    """Put payloads from `begin` on together: as many as `bytes_max` takes, and at least one. Return where they end, too.

    Each is `bytes`, and shorter than 4 GiB.
    """
    cdef Py_ssize_t count = PyList_GET_SIZE(payloads)
    cdef Py_ssize_t end = begin
    cdef Py_ssize_t length, total = 0
    cdef bytes payload, packed
    cdef uint8_t* at
    if not 0 <= begin < count:
        raise IndexError(f"payload {begin} of {count}")
    while end < count:
        payload = <bytes?> <object> PyList_GET_ITEM(payloads, end)
        length = LENGTH + PyBytes_GET_SIZE(payload)
        if end > begin and total + length > bytes_max:
            break
        total += length
        end += 1
    packed = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t*> PyBytes_AS_STRING(packed)
    while begin < end:
        payload = <bytes> <object> PyList_GET_ITEM(payloads, begin)
        length = PyBytes_GET_SIZE(payload)
        put_length(at, <uint32_t> length)
        memcpy(at + LENGTH, PyBytes_AS_STRING(payload), length)
        at += LENGTH + length
        begin += 1
    return packed, end


def unpack_payloads(bytes body not None, Py_ssize_t offset):
    """Return the payloads that stand in `body` from an offset on, and where they end.

    Sound ones end where `body` does: a length that is cut is left, and a payload that is cut ends behind it.
    """
    cdef Py_ssize_t whole = PyBytes_GET_SIZE(body)
    cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(body)
    cdef uint32_t length
    cdef list found = []
    while 0 <= offset <= whole - LENGTH:
        length = get_length(data + offset)
        offset += LENGTH + <Py_ssize_t> length
        if offset <= whole:
            found.append(PyBytes_FromStringAndSize(<const char*> data + offset - length, length))
    return found, offset


def measure(payloads):
    """Return the length of the longest payload, 0 without any, and of all of them together. Each is `bytes`."""
    cdef Py_ssize_t longest = 0, total = 0, length
    cdef bytes payload
    for payload in payloads:
        length = len(payload)
        longest = max(longest, length)
        total += length
    return longest, total
