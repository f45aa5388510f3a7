"""Messages with their headers, read and written by their class (docs/spec/sbe-encoding.md §2, §7)."""

from libc.stdint cimport uint8_t

from ordo.service_api.messages.blocks cimport BlockCodec

cdef class MessageCodec(BlockCodec):
    """A block with a message header before it."""
    cdef readonly int template_id, schema_id, version
    cdef object _read_answer           # of a request, or None
    cpdef bytes encode(self, object message)
    cpdef check(self, object message)
    cdef bytes _written(self, object message, bint lacks)
    cpdef object decode(self, object payload)
    # `doubt` is set where what is read may be what cannot be written: `check` says so then
    cdef object _decode_at(self, const uint8_t* data, Py_ssize_t length, Py_ssize_t empty_rows_max, bint* doubt)
    cdef Py_ssize_t _check_header(self, const uint8_t* data, Py_ssize_t length) except -1

cpdef tuple encode_request(object payload)

cdef class MessageSet:
    cdef int _schema_id
    cdef bint _swaps
    cdef readonly dict codecs          # id of the message -> its codec
    cdef object find(self, dict by_id, const uint8_t* data, Py_ssize_t length)

cdef class MessageView:
    cdef object _payload
    cdef MessageCodec _codec
    cdef const uint8_t* _data
    cdef Py_ssize_t _length, _block_length, _version
    cdef Py_buffer _buffer
    cdef bint _is_open
    cpdef close(self)
    cdef object _find_after_block(self, str name)
