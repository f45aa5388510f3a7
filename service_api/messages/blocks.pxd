"""The fields, groups and data of a message, read and written by their class (docs/spec/sbe-encoding.md)."""

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    object _PyObject_GC_New(PyTypeObject*)

cdef enum Kind:
    SIGNED = 0
    UNSIGNED = 1
    REAL = 2
    BOOLEAN = 3
    CHARACTERS = 4
    RAW = 5
    NAMED_NUMBER = 6      # an IntEnum
    NAMED_CHARACTER = 7   # a StrEnum of single characters
    FLAGS = 8             # an IntFlag
    DECIMAL = 9
    ARRAY = 10
    COMPOSITE = 11

cdef enum:
    DATA_LENGTH_MAX = 1 << 30  # of a value of variable length, as schema_xml.py says it
    EMPTY_ROWS_MAX = 65_535    # rows without bytes: their count is bounded by nothing that the message has to hold

cdef struct FieldPlan:
    Py_ssize_t slot       # of the value, in the object
    Py_ssize_t place      # in the block
    Py_ssize_t length     # on the wire
    int kind
    bint is_optional
    bint has_null         # not the value itself: a block that is too short has no value either
    int since
    int64_t low
    uint64_t high
    uint64_t null         # as bits, of `length` bytes

cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t offset
    Py_ssize_t end
    Py_ssize_t version
    Py_ssize_t empty_rows_left
    Py_ssize_t empty_rows_max
    bint has_doubt        # whether something that was read may be what cannot be written; without: it can be, for sure

cdef inline uint64_t load(const uint8_t* at, Py_ssize_t length, bint swaps) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint32_t four
    cdef uint16_t two
    cdef Py_ssize_t index
    if not swaps:                      # every machine that this is built for is little-endian
        if length == 8:                # each a single instruction; memcpy of a variable length is a call
            memcpy(&value, at, 8)
            return value
        if length == 4:
            memcpy(&four, at, 4)
            return four
        if length == 2:
            memcpy(&two, at, 2)
            return two
        return at[0]
    for index in range(length):
        value = value << 8 | at[index]
    return value


cdef inline void store(uint8_t* at, uint64_t value, Py_ssize_t length, bint swaps) noexcept nogil:
    cdef Py_ssize_t index
    if not swaps:
        if length == 8:
            memcpy(at, &value, 8)
        elif length == 4:
            memcpy(at, &value, 4)
        elif length == 2:
            memcpy(at, &value, 2)
        else:
            at[0] = <uint8_t>value
        return
    for index in range(length):
        at[length - 1 - index] = <uint8_t>(value >> 8 * index)


cdef inline int64_t signed(uint64_t value, Py_ssize_t length) noexcept nogil:
    cdef int unused = <int>(64 - 8 * length)
    return <int64_t>(value << unused) >> unused


cdef inline void fill_slot(object owner, Py_ssize_t slot, object value) noexcept:
    """Set a slot that nothing was put into yet."""
    Py_INCREF(value)
    (<PyObject**>(<char*><PyObject*>owner + slot))[0] = <PyObject*>value


cdef inline object new_untracked(object of_class, Py_ssize_t size):
    """Make an object whose slots are empty, and which the garbage collector does not look at.

    It need not where what the slots get refers to no other object: nothing is reachable from it that it could free.
    """
    made = _PyObject_GC_New(<PyTypeObject*>of_class)
    memset(<char*><PyObject*>made + sizeof(PyObject), 0, size - sizeof(PyObject))
    return made


cdef inline uint64_t count_max(Py_ssize_t size) noexcept nogil:
    """Return the greatest count or length that travels in as many bytes: the largest number stands for null."""
    return (<uint64_t>1 << 8 * size) - 2


cdef Py_ssize_t slot_of(object of_class, str name) except -1
cdef bint has_only(object of_class, Py_ssize_t count)
cdef int check_class(object value, object of_class) except -1

cdef class Names:
    """The members of an enumeration by their numbers on the wire."""
    cdef readonly object of_class
    cdef bint _is_character, _is_flags
    cdef dict _members
    cdef object _kept_flags           # bits whose combinations are kept
    cdef uint64_t number_of(self, object member, Py_ssize_t length) except? -1
    cdef object member(self, object number)

cdef class BlockCodec:
    """A message's, a row's or a composite's fields; then its groups; then its data of variable length."""
    cdef readonly object of_class
    cdef readonly Py_ssize_t block_length
    cdef FieldPlan* _fields
    cdef Py_ssize_t _field_count
    cdef bint _swaps
    cdef list _names, _helpers, _defaults, _allowed
    cdef dict _places              # name -> index
    cdef tuple _groups, _data
    cdef bint _is_plain            # its values refer to no other objects
    cdef Py_ssize_t _size          # of an object, in memory
    # `lacks`: whether the value may lack what an older message has not, though that cannot be written
    cdef Py_ssize_t _size_of(self, object value) except -1
    cdef Py_ssize_t _write(self, object value, uint8_t* at, Py_ssize_t room, bint lacks) except -1
    cdef int _write_block(self, object value, uint8_t* at, bint lacks) except -1
    cdef int _write_field(self, Py_ssize_t index, object found, uint8_t* at, bint lacks) except -1
    cdef bint _write_other(self, FieldPlan* plan, object helper, object found, uint8_t* at, bint lacks) except -1
    cdef bint _write_real(self, FieldPlan* plan, double real, uint8_t* at) noexcept
    cdef bint _write_mantissa(self, FieldPlan* plan, object mantissa, uint8_t* at) except -1
    cdef object _read(self, Cursor* cursor, Py_ssize_t length)
    # `doubt` is set, and never reset: see Cursor.has_doubt
    cdef object _read_block(self, const uint8_t* at, Py_ssize_t length, Py_ssize_t version, bint* doubt)
    cdef object _find_field(self, Py_ssize_t index, const uint8_t* at, Py_ssize_t length, Py_ssize_t version, bint* doubt)
    cdef object _read_field(self, Py_ssize_t index, const uint8_t* at, bint* doubt)
    cdef object _read_real(self, FieldPlan* plan, uint64_t bits, bint* doubt)
    cdef object _read_decimal(self, FieldPlan* plan, uint64_t bits, object scale, bint* doubt)
    cdef object _read_member(self, FieldPlan* plan, Py_ssize_t index, uint64_t bits, bint* doubt)

cdef class Group:
    cdef readonly str name
    cdef readonly BlockCodec codec
    cdef readonly Py_ssize_t since, dimension_length
    cdef Py_ssize_t _slot, _length_place, _length_size, _count_place, _count_size
    cdef bint _swaps
    cdef Py_ssize_t _size_of(self, object value) except -1
    cdef Py_ssize_t _write(self, object value, uint8_t* at, Py_ssize_t room, bint lacks) except -1
    cdef list _read(self, Cursor* cursor)

cdef class VariableData:
    cdef readonly str name
    cdef readonly Py_ssize_t since
    cdef readonly bint is_text
    cdef Py_ssize_t _slot, _length_size
    cdef bint _swaps
    cdef const uint8_t* _bytes_of(self, object value, Py_ssize_t* length) except NULL
    cdef Py_ssize_t _size_of(self, object value) except -1
    cdef Py_ssize_t _write(self, object value, uint8_t* at, Py_ssize_t room) except -1
    cdef object _read(self, Cursor* cursor)
