"""Reads and writes the values of one class. See blocks.pxd.

Values are taken from and put into the slots of the objects directly, without a call of Python for a field of a number
or of characters. Nothing that stands in a message is trusted: each length and count is compared with what is left.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_AsStringAndSize, PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_AsDouble, PyFloat_FromDouble
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject
from cpython.unicode cimport PyUnicode_DecodeLatin1, PyUnicode_DecodeUTF8
from libc.math cimport isinf, isnan
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import struct
from collections.abc import Sequence
from copy import deepcopy
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow

from ordo.runtime.errors import MessageError

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset

cdef extern from "Python.h":
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member
    object PyType_GenericAlloc(PyTypeObject*, Py_ssize_t)
    bint PyUnicode_Check(object)
    int PyUnicode_KIND(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    void* PyUnicode_DATA(object)
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL
    long long PyLong_AsLongLong(object) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object) except? 0xffffffffffffffff
    unsigned long long PyLong_AsUnsignedLongLongMask(object) except? 0xffffffffffffffff
    object PyLong_FromLongLong(long long)
    object PyLong_FromUnsignedLongLong(unsigned long long)
    bint PyLong_Check(object)
    bint PyLong_CheckExact(object)
    long long PyLong_AsLongLongAndOverflow(object, int*)
    object PyNumber_Index(object)
    PyObject* PyDict_GetItemWithError(object, object) except? NULL

cdef enum:
    FLAGS_KEPT_MAX = 12        # combinations of this many flags are made once: 4,096

EXACT = Context(prec=60, traps=[Inexact, InvalidOperation, Overflow])   # a context of the program's own may round


cdef Py_ssize_t slot_of(object of_class, str name) except -1:
    """Return where an object keeps an attribute for which its class has a slot."""
    descriptor = of_class.__dict__[name]
    if type(descriptor).__name__ != "member_descriptor":
        raise TypeError(f"{of_class.__name__}.{name} has no slot")
    return (<PyMemberDescrObject*><PyObject*>descriptor).d_member.offset


cdef bint has_only(object of_class, Py_ssize_t count):
    """Return whether the objects of a class have as many slots and nothing else, such as a `__dict__`."""
    if of_class.__dictoffset__ or of_class.__weakrefoffset__:
        return False
    return of_class.__basicsize__ == sizeof(PyObject) + count * sizeof(void*)


cdef inline object get_slot(object owner, Py_ssize_t slot):
    cdef PyObject* found = (<PyObject**>(<char*><PyObject*>owner + slot))[0]
    return None if found is NULL else <object>found


cdef inline bint is_beyond(FieldPlan* plan, uint64_t bits) noexcept nogil:
    """Return whether an integer is beyond the range of what can be written."""
    cdef int64_t number
    if plan.low >= 0:
        return bits < <uint64_t>plan.low or bits > plan.high
    number = signed(bits, plan.length)
    return number < plan.low or (number >= 0 and <uint64_t>number > plan.high)


cdef int check_class(object value, object of_class) except -1:
    if type(value) is not of_class and not isinstance(value, of_class):
        raise MessageError(f"{value!r:.60} is not a {of_class.__name__}")
    return 0


cdef class Names:
    """The members of an IntEnum, an IntFlag or a StrEnum, by their numbers on the wire."""

    def __init__(self, of_class: object, is_character: bool, is_flags: bool) -> None:
        self.of_class = of_class
        self._is_character, self._is_flags = is_character, is_flags
        self._members = {ord(one) if is_character else int(one): one for one in of_class}
        known = 0
        for number in self._members if is_flags else ():
            known |= number
        self._kept_flags = known if known.bit_count() <= FLAGS_KEPT_MAX else 0

    cdef uint64_t number_of(self, object member, Py_ssize_t length) except? -1:
        if type(member) is not self.of_class:
            raise TypeError
        if self._is_character:
            return ord(member)
        if self._is_flags and member.bit_length() > 8 * length:
            raise OverflowError
        return PyLong_AsUnsignedLongLongMask(member)

    cdef object member(self, object number):
        """Return the member of that number, or None. Bits of flags that have no name are kept.

        Python's enum keeps each combination that it ever made. Whoever sends messages would fill the memory with them, so
        it keeps those of few flags with names alone. That is so whatever came before: a service may compare by identity.
        """
        cdef PyObject* found = PyDict_GetItemWithError(self._members, number)
        if found is not NULL:
            return <object>found
        if not self._is_flags:
            return None
        known = self.of_class._value2member_map_
        was_kept = number in known
        try:
            made = self.of_class(number)
        except ValueError:             # the class does not allow bits without a name
            return None
        if number | self._kept_flags == self._kept_flags:
            self._members[number] = made
        elif not was_kept:
            known.pop(number, None)
        return made


cdef class BlockCodec:
    """Reads and writes the values of one class. `fields`: see service_api/messages/layout.py."""

    def __cinit__(self, of_class: object, fields: list, groups: tuple, data: tuple, block_length: int, swaps: bool, *_):
        cdef Py_ssize_t index
        cdef FieldPlan* plan
        self.of_class = of_class
        self.block_length = block_length
        self._swaps = swaps
        self._groups, self._data = groups, data
        self._names, self._helpers, self._defaults, self._allowed = [], [], [], []
        self._places = {}
        self._field_count = len(fields)
        self._fields = <FieldPlan*>PyMem_Calloc(max(len(fields), 1), sizeof(FieldPlan))
        if self._fields is NULL:
            raise MemoryError
        for index, field in enumerate(fields):
            plan = &self._fields[index]
            name, plan.place, plan.length, plan.kind, plan.is_optional, plan.since = field[:6]
            plan.low, plan.high, plan.null, helper, default, allowed = field[6:]
            plan.slot = slot_of(of_class, name)
            self._names.append(name)
            self._helpers.append(helper)
            self._defaults.append(default)
            self._allowed.append(allowed)
            self._places[name] = index
        self._size = of_class.__basicsize__
        self._is_plain = not groups and has_only(of_class, len(fields) + len(data))
        for index in range(self._field_count):
            if self._fields[index].kind == COMPOSITE:
                self._is_plain = False

    def __dealloc__(self):
        PyMem_Free(self._fields)

    cdef Py_ssize_t _size_of(self, object value) except -1:
        cdef Py_ssize_t length = self.block_length
        for group in self._groups:
            length += (<Group>group)._size_of(value)
        for data in self._data:
            length += (<VariableData>data)._size_of(value)
        return length

    cdef Py_ssize_t _write(self, object value, uint8_t* at, Py_ssize_t room, bint lacks) except -1:
        """Write a whole block, and return its length. `room` is what was measured: another thread may have changed it."""
        cdef Py_ssize_t written = self.block_length
        if room < written:
            raise MessageError(f"{self.of_class.__name__} was changed while it was written")
        self._write_block(value, at, lacks)
        for group in self._groups:
            written += (<Group>group)._write(value, at + written, room - written, lacks)
        for data in self._data:
            written += (<VariableData>data)._write(value, at + written, room - written)
        return written

    cdef int _write_block(self, object value, uint8_t* at, bint lacks) except -1:
        cdef Py_ssize_t index
        cdef FieldPlan* plan
        cdef PyObject* found
        cdef int overflow = 0
        cdef int64_t number
        memset(at, 0, self.block_length)
        for index in range(self._field_count):
            plan = &self._fields[index]
            found = (<PyObject**>(<char*><PyObject*>value + plan.slot))[0]
            if plan.kind <= UNSIGNED and found is not NULL and PyLong_CheckExact(<object>found):
                number = PyLong_AsLongLongAndOverflow(<object>found, &overflow)
                if not overflow and number >= plan.low and (number < 0 or <uint64_t>number <= plan.high):
                    store(at + plan.place, <uint64_t>number, plan.length, self._swaps)
                    continue
            self._write_field(index, None if found is NULL else <object>found, at + plan.place, lacks)
        return 0

    cdef int _write_field(self, Py_ssize_t index, object found, uint8_t* at, bint lacks) except -1:
        cdef FieldPlan* plan = &self._fields[index]
        cdef int64_t number
        cdef uint64_t natural
        if found is None and plan.is_optional:
            store(at, plan.null, plan.length, self._swaps)
            return 0
        if lacks and found is None and plan.since > 0 and self._defaults[index] is None:
            if plan.kind == RAW or plan.kind == ARRAY or plan.kind == COMPOSITE:
                return 0
        try:
            if plan.kind == SIGNED:
                number = PyLong_AsLongLong(found)
                if plan.low <= number <= <int64_t>plan.high:
                    store(at, <uint64_t>number, plan.length, self._swaps)
                    return 0
            elif plan.kind == UNSIGNED:
                natural = PyLong_AsUnsignedLongLong(found if PyLong_Check(found) else PyNumber_Index(found))
                if <uint64_t>plan.low <= natural <= plan.high:
                    store(at, natural, plan.length, self._swaps)
                    return 0
            elif self._write_other(plan, self._helpers[index], found, at, lacks):
                return 0
        except (OverflowError, TypeError, ValueError, KeyError, ArithmeticError, struct.error):
            pass
        raise MessageError(
            f"{self.of_class.__name__}.{self._names[index]} is {found!r:.60}: allowed are {self._allowed[index]}"
        )

    cdef bint _write_other(self, FieldPlan* plan, object helper, object found, uint8_t* at, bint lacks) except -1:
        """Write a value that is no plain integer; false when it is not allowed."""
        cdef Py_ssize_t length
        cdef BlockCodec codec
        if plan.kind == REAL:
            return self._write_real(plan, PyFloat_AsDouble(found), at)
        if plan.kind == CHARACTERS:
            if not PyUnicode_Check(found) or PyUnicode_KIND(found) != 1:
                return False
            length = PyUnicode_GET_LENGTH(found)
            if length > plan.length or (plan.is_optional and length == 0):
                return False
            memcpy(at, PyUnicode_DATA(found), length)
            return length == 0 or "\0" not in found
        elif plan.kind == RAW:
            if len(found) != plan.length:
                return False
            data = bytes(memoryview(found))
            memcpy(at, PyBytes_AS_STRING(data), plan.length)
        elif plan.kind == BOOLEAN:
            if found is not True and found is not False:
                return False
            at[0] = found is True
        elif plan.kind == NAMED_NUMBER or plan.kind == NAMED_CHARACTER or plan.kind == FLAGS:
            store(at, (<Names>helper).number_of(found, plan.length), plan.length, self._swaps)
        elif plan.kind == DECIMAL:
            if not isinstance(found, (Decimal, int)):
                return False
            mantissa = EXACT.scaleb(Decimal(found), helper)
            if mantissa != mantissa.to_integral_value():
                return False
            return self._write_mantissa(plan, int(mantissa), at)
        elif plan.kind == ARRAY:
            data = helper.pack(*found)
            memcpy(at, PyBytes_AS_STRING(data), plan.length)
        else:
            codec = helper
            check_class(found, codec.of_class)
            codec._write_block(found, at, lacks)
        return True

    cdef bint _write_real(self, FieldPlan* plan, double real, uint8_t* at) noexcept:
        cdef float single = <float>real
        cdef uint64_t bits = 0
        if isnan(real) or (plan.length == 4 and isinf(single) and not isinf(real)):
            return False               # NaN stands for null
        if plan.length == 4:
            memcpy(&bits, &single, 4)
        else:
            memcpy(&bits, &real, 8)
        store(at, bits, plan.length, self._swaps)
        return True

    cdef bint _write_mantissa(self, FieldPlan* plan, object mantissa, uint8_t* at) except -1:
        if not plan.low <= mantissa <= plan.high:
            return False
        store(at, <uint64_t>(mantissa & 0xFFFF_FFFF_FFFF_FFFF), plan.length, self._swaps)
        return True

    cdef object _read(self, Cursor* cursor, Py_ssize_t length):
        """Read a whole block whose fields take `length` bytes."""
        if length < 0 or length > cursor.end - cursor.offset:
            raise MessageError(f"{self.of_class.__name__} of {length} bytes reaches beyond the message")
        made = self._read_block(cursor.data + cursor.offset, length, cursor.version, &cursor.has_doubt)
        cursor.offset += length
        for group in self._groups:
            fill_slot(made, (<Group>group)._slot, (<Group>group)._read(cursor))
        for data in self._data:
            fill_slot(made, (<VariableData>data)._slot, (<VariableData>data)._read(cursor))
        return made

    cdef object _read_block(self, const uint8_t* at, Py_ssize_t length, Py_ssize_t version, bint* doubt):
        """Make an object of the values of one block; those that are not there have their defaults (§7)."""
        cdef Py_ssize_t index
        cdef FieldPlan* plan
        cdef uint64_t bits
        if self._is_plain:
            made = new_untracked(self.of_class, self._size)
        else:
            made = PyType_GenericAlloc(<PyTypeObject*>self.of_class, 0)
        for index in range(self._field_count):
            plan = &self._fields[index]
            if plan.kind > UNSIGNED or plan.place + plan.length > length or plan.since > version:
                fill_slot(made, plan.slot, self._find_field(index, at, length, version, doubt))
                continue
            bits = load(at + plan.place, plan.length, self._swaps)      # as _read_field, without a call
            if plan.is_optional and bits == plan.null:
                fill_slot(made, plan.slot, None)
                continue
            if is_beyond(plan, bits):
                doubt[0] = True
            if plan.kind == SIGNED:
                fill_slot(made, plan.slot, PyLong_FromLongLong(signed(bits, plan.length)))
            else:
                fill_slot(made, plan.slot, PyLong_FromUnsignedLongLong(bits))
        return made

    cdef object _find_field(self, Py_ssize_t index, const uint8_t* at, Py_ssize_t length, Py_ssize_t version, bint* doubt):
        """Read a field of a block, or return its default where the block is of a version that had none."""
        cdef FieldPlan* plan = &self._fields[index]
        if plan.place + plan.length <= length and plan.since <= version:
            return self._read_field(index, at + plan.place, doubt)
        if plan.since == 0:
            raise MessageError(f"{self.of_class.__name__}: {length} bytes are too short for {self._names[index]}")
        doubt[0] = True                # a default may be anything
        # a composite can be changed, which must not change what the next message has
        return deepcopy(self._defaults[index]) if plan.kind == COMPOSITE else self._defaults[index]

    cdef object _read_field(self, Py_ssize_t index, const uint8_t* at, bint* doubt):
        cdef FieldPlan* plan = &self._fields[index]
        cdef uint64_t bits
        cdef Py_ssize_t length
        helper = self._helpers[index]
        if plan.kind == CHARACTERS:
            length = 0
            while length < plan.length and at[length]:
                length += 1
            if length == 0 and plan.is_optional:
                return None
            return PyUnicode_DecodeLatin1(<char*>at, length, NULL)
        if plan.kind == RAW:
            return PyBytes_FromStringAndSize(<char*>at, plan.length)
        if plan.kind == ARRAY:
            return helper.unpack(PyBytes_FromStringAndSize(<char*>at, plan.length))
        if plan.kind == COMPOSITE:
            return (<BlockCodec>helper)._read_block(at, plan.length, 0xFFFF, doubt)
        bits = load(at, plan.length, self._swaps)
        if plan.kind == REAL:
            return self._read_real(plan, bits, doubt)
        if plan.is_optional and bits == plan.null:
            return None
        if plan.kind == SIGNED:
            return PyLong_FromLongLong(signed(bits, plan.length))
        if plan.kind == UNSIGNED:
            return PyLong_FromUnsignedLongLong(bits)
        if plan.kind == BOOLEAN:
            if bits > 1:
                raise MessageError(f"{self.of_class.__name__}.{self._names[index]} is {bits}: no Boolean, which is 0 or 1")
            return bits == 1
        if plan.kind == DECIMAL:
            return self._read_decimal(plan, bits, helper, doubt)
        return self._read_member(plan, index, bits, doubt)

    cdef object _read_decimal(self, FieldPlan* plan, uint64_t bits, object scale, bint* doubt):
        if is_beyond(plan, bits):
            doubt[0] = True
        if plan.low < 0:
            return EXACT.scaleb(Decimal(PyLong_FromLongLong(signed(bits, plan.length))), -scale)
        return EXACT.scaleb(Decimal(PyLong_FromUnsignedLongLong(bits)), -scale)

    cdef object _read_member(self, FieldPlan* plan, Py_ssize_t index, uint64_t bits, bint* doubt):
        """Return the member of an enumeration, or flags."""
        cdef Names names = self._helpers[index]
        if plan.low < 0 and plan.kind != FLAGS:        # bits have no sign
            found = names.member(PyLong_FromLongLong(signed(bits, plan.length)))
        else:
            found = names.member(PyLong_FromUnsignedLongLong(bits))
        if found is None:
            raise MessageError(
                f"{self.of_class.__name__}.{self._names[index]} is {bits}, which no {names.of_class.__name__} has"
            )
        if type(found) is not names.of_class:          # flags may be made so that bits without a name are an int
            doubt[0] = True
        return found

    cdef object _read_real(self, FieldPlan* plan, uint64_t bits, bint* doubt):
        cdef double real
        cdef float single
        if plan.length == 4:
            memcpy(&single, &bits, 4)
            real = single
        else:
            memcpy(&real, &bits, 8)
        if isnan(real):
            if plan.is_optional:
                return None
            doubt[0] = True
        return PyFloat_FromDouble(real)


cdef class Group:
    """Rows that repeat: a dimension, which is the length and the count of the rows, and the rows."""

    def __init__(
        self,
        name: str,
        owner: object,
        codec: BlockCodec,
        since: int,
        dimension: tuple[int, int, int, int, int],
        swaps: bool,
    ) -> None:
        self.name = name
        self.codec = codec
        self.since = since
        self._slot = slot_of(owner, name)
        self._length_place, self._length_size, self._count_place, self._count_size, self.dimension_length = dimension
        self._swaps = swaps

    cdef Py_ssize_t _size_of(self, object value) except -1:
        cdef Py_ssize_t length = self.dimension_length
        rows = get_slot(value, self._slot)
        if not isinstance(rows, Sequence):
            raise MessageError(f"{self.name} is {rows!r:.60}: allowed is a list of {self.codec.of_class.__name__}")
        if not self.codec._groups and not self.codec._data:
            return length + len(rows) * self.codec.block_length
        for row in rows:
            check_class(row, self.codec.of_class)
            length += self.codec._size_of(row)
        return length

    cdef Py_ssize_t _write(self, object value, uint8_t* at, Py_ssize_t room, bint lacks) except -1:
        cdef Py_ssize_t written = self.dimension_length
        cdef uint64_t most = count_max(self._count_size)
        rows = get_slot(value, self._slot)
        if <uint64_t>len(rows) > most or room < written:
            raise MessageError(f"{self.name} has {len(rows)} rows: allowed are up to {most}")
        memset(at, 0, written)
        store(at + self._length_place, self.codec.block_length, self._length_size, self._swaps)
        store(at + self._count_place, len(rows), self._count_size, self._swaps)
        for row in rows:
            check_class(row, self.codec.of_class)
            written += self.codec._write(row, at + written, room - written, lacks)
        return written

    cdef list _read(self, Cursor* cursor):
        cdef Py_ssize_t length, count, start
        cdef list rows = []
        if self.since > cursor.version:
            return rows
        if self.dimension_length > cursor.end - cursor.offset:
            raise MessageError(f"{self.name}: the message ends before it")
        length = load(cursor.data + cursor.offset + self._length_place, self._length_size, self._swaps)
        count = load(cursor.data + cursor.offset + self._count_place, self._count_size, self._swaps)
        if <uint64_t>count > count_max(self._count_size):
            cursor.has_doubt = True
        cursor.offset += self.dimension_length
        while count > 0:
            start = cursor.offset
            rows.append(self.codec._read(cursor, length))
            if cursor.offset == start:
                cursor.empty_rows_left -= 1
                if cursor.empty_rows_left < 0:
                    raise MessageError(f"{self.name} has over {cursor.empty_rows_max} rows without bytes")
            count -= 1
        return rows


cdef class VariableData:
    """A value of variable length: its length, then that many bytes; text in UTF-8."""

    def __init__(self, name: str, owner: object, is_text: bool, since: int, length_size: int, swaps: bool) -> None:
        self.name = name
        self.is_text = is_text
        self.since = since
        self._slot = slot_of(owner, name)
        self._length_size = length_size
        self._swaps = swaps

    cdef const uint8_t* _bytes_of(self, object value, Py_ssize_t* length) except NULL:
        cdef char* data
        found = get_slot(value, self._slot)
        if self.is_text:
            if not PyUnicode_Check(found):
                raise MessageError(f"{self.name} is {found!r:.60}: allowed is a str")
            try:
                return <const uint8_t*>PyUnicode_AsUTF8AndSize(found, length)
            except UnicodeEncodeError as error:
                raise MessageError(f"{self.name} is no text that UTF-8 can hold: {error.reason}") from error
        if not isinstance(found, bytes):
            raise MessageError(f"{self.name} is {found!r:.60}: allowed are bytes")
        PyBytes_AsStringAndSize(found, &data, length)
        return <const uint8_t*>data

    cdef Py_ssize_t _size_of(self, object value) except -1:
        cdef Py_ssize_t length
        self._bytes_of(value, &length)
        return self._length_size + length

    cdef Py_ssize_t _write(self, object value, uint8_t* at, Py_ssize_t room) except -1:
        cdef Py_ssize_t length
        cdef const uint8_t* data = self._bytes_of(value, &length)
        cdef uint64_t length_max = min(count_max(self._length_size), <uint64_t>DATA_LENGTH_MAX)
        if <uint64_t>length > length_max or room < self._length_size + length:
            raise MessageError(f"{self.name} has {length} bytes: allowed are up to {length_max}")
        store(at, length, self._length_size, self._swaps)
        memcpy(at + self._length_size, data, length)
        return self._length_size + length

    cdef object _read(self, Cursor* cursor):
        cdef Py_ssize_t length
        cdef char* data
        if self.since > cursor.version:
            return "" if self.is_text else b""
        if self._length_size > cursor.end - cursor.offset:
            raise MessageError(f"{self.name}: the message ends before it")
        length = load(cursor.data + cursor.offset, self._length_size, self._swaps)
        cursor.offset += self._length_size
        if length > cursor.end - cursor.offset:
            raise MessageError(f"{self.name} of {length} bytes reaches beyond the message")
        if <uint64_t>length > min(count_max(self._length_size), <uint64_t>DATA_LENGTH_MAX):
            cursor.has_doubt = True
        data = <char*>cursor.data + cursor.offset
        cursor.offset += length
        if not self.is_text:
            return PyBytes_FromStringAndSize(data, length)
        try:
            return PyUnicode_DecodeUTF8(data, length, NULL)
        except UnicodeDecodeError as error:
            raise MessageError(f"{self.name} is not UTF-8: {error.reason} at byte {error.start}") from error


