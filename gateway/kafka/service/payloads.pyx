"""Payloads of an append as bytes: for each, length uint32 (little-endian) and what it has. See orders.py."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    LENGTH = 4                     # bytes before each payload


cdef inline uint32_t get_length(const uint8_t* at) noexcept nogil:
    return at[0] | <uint32_t> at[1] << 8 | <uint32_t> at[2] << 16 | <uint32_t> at[3] << 24


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
