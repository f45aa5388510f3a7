"""Messages with their headers, read and written by their class. See codec.pxd."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from ordo.service_api.messages.blocks cimport (
    EMPTY_ROWS_MAX,
    BlockCodec,
    Cursor,
    Group,
    VariableData,
    check_class,
    load,
    store,
)

from ordo.runtime.errors import MessageError

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object, object) except? NULL

cdef enum:
    HEADER_LENGTH = 8

cdef dict CODECS = {}          # class -> its MessageCodec

ctypedef object (*Read)(object reader, const uint8_t* data, Py_ssize_t length, Py_ssize_t empty_rows_max, bint* doubt)


cdef object read_payload(object payload, object reader, Read read, Py_ssize_t empty_rows_max, bint* doubt):
    """Have a reader read the bytes of a payload where they lie."""
    cdef Py_buffer buffer
    if PyBytes_CheckExact(payload):
        return read(
            reader, <const uint8_t*>PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), empty_rows_max, doubt
        )
    PyObject_GetBuffer(payload, &buffer, PyBUF_SIMPLE)
    try:
        return read(reader, <const uint8_t*>buffer.buf, buffer.len, empty_rows_max, doubt)
    finally:
        PyBuffer_Release(&buffer)


cdef object read_one(object reader, const uint8_t* data, Py_ssize_t length, Py_ssize_t empty_rows_max, bint* doubt):
    return (<MessageCodec>reader)._decode_at(data, length, empty_rows_max, doubt)


cdef object read_any(object reader, const uint8_t* data, Py_ssize_t length, Py_ssize_t empty_rows_max, bint* doubt):
    cdef MessageSet messages = reader
    cdef MessageCodec codec = messages.find(messages.codecs, data, length)
    return codec._decode_at(data, length, empty_rows_max, doubt)


cdef int check_header_length(Py_ssize_t length) except -1:
    if length < HEADER_LENGTH:
        raise MessageError(f"{length} bytes are no message: its header alone has {HEADER_LENGTH}")
    return 0


cdef class MessageCodec(BlockCodec):
    """Reads and writes messages of one class, each after its header: four uint16 (§2).

    `header`: the ids of the message and of its schema, and the version.
    """

    def __init__(
        self,
        of_class: object,
        fields: list,
        groups: tuple[Group, ...],
        data: tuple[VariableData, ...],
        block_length: int,
        swaps: bool,
        header: tuple[int, int, int],
    ) -> None:
        self.template_id, self.schema_id, self.version = header
        self._read_answer = getattr(of_class, "__ordo_read__", None)
        CODECS[of_class] = self

    cpdef bytes encode(self, object message):
        """Return the message as bytes, with its header. Raises MessageError for a value that its type does not allow."""
        return self._written(message, False)

    cpdef check(self, object message):
        """Raise MessageError for a value that could not have been written, by whichever version."""
        self._written(message, True)

    cdef bytes _written(self, object message, bint lacks):
        cdef Py_ssize_t length
        cdef uint8_t* at
        check_class(message, self.of_class)
        length = self._size_of(message)
        cdef bytes made = PyBytes_FromStringAndSize(NULL, HEADER_LENGTH + length)
        at = <uint8_t*>PyBytes_AS_STRING(made)
        store(at, self.block_length, 2, self._swaps)
        store(at + 2, self.template_id, 2, self._swaps)
        store(at + 4, self.schema_id, 2, self._swaps)
        store(at + 6, self.version, 2, self._swaps)
        if self._write(message, at + HEADER_LENGTH, length, lacks) != length:
            raise MessageError(f"{self.of_class.__name__} was changed while it was written")
        return made

    cpdef object decode(self, object payload):
        """Return the message that `payload` is. Raises MessageError when it is none of this class."""
        cdef bint unused = False
        return read_payload(payload, self, read_one, EMPTY_ROWS_MAX, &unused)

    cdef object _decode_at(self, const uint8_t* data, Py_ssize_t length, Py_ssize_t empty_rows_max, bint* doubt):
        cdef Cursor cursor
        cdef Py_ssize_t block_length = self._check_header(data, length)
        cursor.data, cursor.offset, cursor.end = data, HEADER_LENGTH, length
        cursor.version = load(data + 6, 2, self._swaps)
        cursor.empty_rows_max = cursor.empty_rows_left = empty_rows_max
        cursor.has_doubt = False
        made = self._read(&cursor, block_length)
        doubt[0] = cursor.has_doubt
        if cursor.offset < length and cursor.version <= self.version:
            raise MessageError(f"{self.of_class.__name__}: {length - cursor.offset} bytes follow its end")
        return made

    cdef Py_ssize_t _check_header(self, const uint8_t* data, Py_ssize_t length) except -1:
        """Check that a message of this class is there, and return the length of its block."""
        cdef Py_ssize_t template_id, schema_id
        check_header_length(length)
        template_id, schema_id = load(data + 2, 2, self._swaps), load(data + 4, 2, self._swaps)
        if template_id != self.template_id or schema_id != self.schema_id:
            raise MessageError(
                f"message {template_id} of schema {schema_id} is no {self.of_class.__name__}, "
                f"which is {self.template_id} of {self.schema_id}"
            )
        return load(data, 2, self._swaps)


cdef class MessageSet:
    """The messages of one schema: reads whichever comes."""

    def __init__(self, schema_id: int, is_big_endian: bool, codecs: list) -> None:
        self._schema_id = schema_id
        self._swaps = is_big_endian
        self.codecs = {(<MessageCodec>one).template_id: one for one in codecs}

    def decode(self, payload: object) -> object:
        """Return the message that `payload` is. Raises MessageError for what the schema lacks, and as `decode` does."""
        cdef bint unused = False
        return read_payload(payload, self, read_any, EMPTY_ROWS_MAX, &unused)

    def decode_recorded(self, bytes payload not None) -> object:
        """As `decode`, with no more rows without bytes than the payload has bytes."""
        cdef bint unused = False
        return read_payload(payload, self, read_any, min(EMPTY_ROWS_MAX, len(payload)), &unused)

    cdef object find(self, dict by_id, const uint8_t* data, Py_ssize_t length):
        """Return what there is for the message that begins here, by its id. Raises MessageError for one of no schema."""
        cdef PyObject* found = NULL
        check_header_length(length)
        if <int>load(data + 4, 2, self._swaps) == self._schema_id:
            found = PyDict_GetItemWithError(by_id, <int>load(data + 2, 2, self._swaps))
        if found is not NULL:
            return <object>found
        known = ", ".join(f"{one.of_class.__name__} ({one.template_id})" for one in self.codecs.values())
        raise MessageError(
            f"message {load(data + 2, 2, self._swaps)} of schema {load(data + 4, 2, self._swaps)}, version "
            f"{load(data + 6, 2, self._swaps)}, is unknown: known are those of schema {self._schema_id}: {known}"
        )


cdef class MessageView:
    """A message that is read where it lies, field by field. Holds the payload's buffer until it is closed or dropped."""

    def __cinit__(self, codec: MessageCodec, payload: object) -> None:
        PyObject_GetBuffer(payload, &self._buffer, PyBUF_SIMPLE)
        self._is_open = True
        self._codec = codec
        self._data, self._length = <const uint8_t*>self._buffer.buf, self._buffer.len
        self._block_length = codec._check_header(self._data, self._length)
        self._version = load(self._data + 6, 2, codec._swaps)
        if self._block_length > self._length - HEADER_LENGTH:
            raise MessageError(f"{codec.of_class.__name__} of {self._block_length} bytes reaches beyond the message")

    def __dealloc__(self):
        self.close()

    cpdef close(self):
        """Let the payload's buffer go. Idempotent; nothing can be read afterwards."""
        if self._is_open:
            self._is_open = False
            PyBuffer_Release(&self._buffer)

    def __enter__(self) -> MessageView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> object:
        cdef bint unused = False
        cdef PyObject* found = PyDict_GetItemWithError(self._codec._places, name)
        if not self._is_open:
            raise MessageError(f"this view of a {self._codec.of_class.__name__} was closed")
        if found is NULL:
            return self._find_after_block(name)
        return self._codec._find_field(
            <object>found, self._data + HEADER_LENGTH, self._block_length, self._version, &unused
        )

    cdef object _find_after_block(self, str name):
        """Return a group's rows or a value of variable length: all before it is read, for that is where it begins."""
        cdef Cursor cursor
        cursor.data, cursor.offset, cursor.end = self._data, HEADER_LENGTH + self._block_length, self._length
        cursor.version = self._version
        cursor.empty_rows_max = cursor.empty_rows_left = EMPTY_ROWS_MAX
        for group in self._codec._groups:
            rows = (<Group>group)._read(&cursor)
            if (<Group>group).name == name:
                return rows
        for data in self._codec._data:
            value = (<VariableData>data)._read(&cursor)
            if (<VariableData>data).name == name:
                return value
        raise AttributeError(f"{self._codec.of_class.__name__} has no field {name!r}")


def codec_of(message_class: object) -> MessageCodec:
    """Return the codec of a message's class. Raises MessageError for a class that is no message."""
    cdef PyObject* found = PyDict_GetItemWithError(CODECS, message_class)
    if found is not NULL:
        return <MessageCodec>found
    name = getattr(message_class, "__name__", repr(message_class))
    raise MessageError(f"{name} is no message: decorate the class with @ordo.message(id=...)")


cpdef tuple encode_request(object payload):
    """Return the bytes of a request, and what decodes its answer; None for what is no message with an answer.

    Raises MessageError for a value that its type does not allow.
    """
    cdef PyObject* found = PyDict_GetItemWithError(CODECS, type(payload))
    if found is NULL or (<MessageCodec>found)._read_answer is None:
        return None
    return (<MessageCodec>found)._written(payload, False), (<MessageCodec>found)._read_answer


def encode(message: object) -> bytes:
    """Return a message as bytes, with its header (SBE: sbe-encoding.md).

    Raises MessageError for a value that its field does not allow, and for an object that is no message.
    """
    cdef PyObject* found = PyDict_GetItemWithError(CODECS, type(message))
    if found is NULL:
        return (<MessageCodec>codec_of(type(message))).encode(message)
    return (<MessageCodec>found).encode(message)


def decode(message_class: object, payload: object) -> object:
    """Return the message of that class that `payload` is (bytes-like).

    A message of an older version has the defaults of the fields that it lacks; of a newer one, what this class does
    not know is left out. Raises MessageError when it is a message of another class, cut short or damaged.
    """
    cdef PyObject* found = PyDict_GetItemWithError(CODECS, message_class)
    if found is NULL:
        codec_of(message_class)
    return (<MessageCodec>found).decode(payload)
