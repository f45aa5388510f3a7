"""Objects of messages made natively. See construction.pxd."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject

from ordo.service_api.messages.blocks cimport fill_slot, has_only, new_untracked, slot_of

from dataclasses import MISSING, fields

cdef extern from "Python.h":
    ctypedef object (*vectorcallfunc)(object, PyObject* const*, size_t, PyObject*)
    ctypedef object (*ternaryfunc)(object, object, PyObject*)
    ctypedef struct Class "PyTypeObject":
        vectorcallfunc tp_vectorcall
        ternaryfunc tp_call
        unsigned int tp_version_tag
    Class PyType_Type
    object PyType_GenericAlloc(PyTypeObject*, Py_ssize_t)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    bint PyObject_IS_GC(PyObject*)
    void PyObject_GC_Track(PyObject*)
    PyObject* PyDict_GetItemWithError(object, object) except? NULL

cdef dict CONSTRUCTORS = {}    # class -> its Constructor


cdef class Constructor:
    def __cinit__(self, of_class: type, enumerations: dict) -> None:
        cdef Py_ssize_t index
        found = fields(of_class)
        self._class = <PyTypeObject*>of_class
        self._init = of_class.__init__
        self._count = len(found)
        self._names = tuple([one.name for one in found])
        self._members = tuple([of_class.__dict__[name] for name in self._names])
        self._enumerations = tuple([enumerations.get(one.name) for one in found])
        self._size = of_class.__basicsize__ if has_only(of_class, self._count) else 0
        self._makes = tuple([one.default_factory is not MISSING for one in found])
        self._defaults = tuple([one.default if one.default_factory is MISSING else one.default_factory for one in found])
        self._slots = <Py_ssize_t*>PyMem_Calloc(max(self._count, 1), sizeof(Py_ssize_t))
        if self._slots is NULL:
            raise MemoryError
        for index, name in enumerate(self._names):
            self._slots[index] = slot_of(of_class, name)

    def __dealloc__(self):
        PyMem_Free(self._slots)

    cdef bint _is_usual(self):
        """Return whether calling the class does what `dataclass` made; looked at when the class was changed."""
        cdef unsigned int version = (<Class*>self._class).tp_version_tag
        if version != 0 and version == self._version:
            return True
        if not has_usual_creation(<object>self._class) or (<object>self._class).__init__ is not self._init:
            return False
        for name, member in zip(self._names, self._members):
            if (<object>self._class).__dict__.get(name) is not member:
                return False
        self._version = (<Class*>self._class).tp_version_tag
        return True

    cdef object _begin(self):
        if self._size:
            return new_untracked(<object>self._class, self._size)
        return PyType_GenericAlloc(self._class, 0)

    cdef bint _refers(self, object made):
        """Return whether a value of an object is one that may refer to other objects, such as the rows of a group."""
        cdef Py_ssize_t place
        cdef PyObject* value
        for place in range(self._count):
            value = (<PyObject**>(<char*><PyObject*>made + self._slots[place]))[0]
            if PyObject_IS_GC(value) and type(<object>value) is not self._enumerations[place]:
                return True
        return False

    cdef Py_ssize_t _place_of(self, object name):
        """Return which field has a name, or -1."""
        cdef Py_ssize_t place
        for place in range(self._count):
            if self._names[place] is name:
                return place
        return -1

    cdef bint _fill_rest(self, object made) except -1:
        """Give each field that has no value its default; False where one has none."""
        cdef Py_ssize_t place
        for place in range(self._count):
            if (<PyObject**>(<char*><PyObject*>made + self._slots[place]))[0] is NULL:
                default = self._defaults[place]
                if default is MISSING:
                    return False
                fill_slot(made, self._slots[place], default() if self._makes[place] else default)
        return True


cdef object construct(object of_class, PyObject* const* arguments, size_t flags, PyObject* keywords):
    """Make an object of a class, as a call of it does: `vectorcallfunc` of Python's C API."""
    cdef Constructor plan = <Constructor>PyDict_GetItemWithError(CONSTRUCTORS, of_class)
    cdef Py_ssize_t given = PyVectorcall_NARGS(flags)
    cdef Py_ssize_t place
    cdef int index
    if given > plan._count or not plan._is_usual():
        return construct_slowly(of_class, arguments, given, keywords)
    made = plan._begin()
    for place in range(given):
        fill_slot(made, plan._slots[place], <object>arguments[place])
    if keywords is not NULL:
        for index, name in enumerate(<tuple>keywords):
            place = plan._place_of(name)
            if place < given:                      # none of the class, or one that was given before
                return construct_slowly(of_class, arguments, given, keywords)
            fill_slot(made, plan._slots[place], <object>arguments[given + index])
    if (keywords is not NULL or given < plan._count) and not plan._fill_rest(made):
        return construct_slowly(of_class, arguments, given, keywords)
    if plan._size and plan._refers(made):
        PyObject_GC_Track(<PyObject*>made)
    return made


cdef object construct_slowly(object of_class, PyObject* const* arguments, Py_ssize_t given, PyObject* keywords):
    """Make an object by the class's own `__new__` and `__init__`, which say what is wrong with the arguments."""
    cdef Py_ssize_t place
    positional = tuple([<object>arguments[place] for place in range(given)])
    if keywords is NULL:
        return PyType_Type.tp_call(of_class, positional, NULL)
    named = {name: <object>arguments[given + index] for index, name in enumerate(<tuple>keywords)}
    return PyType_Type.tp_call(of_class, positional, <PyObject*>named)


def has_usual_creation(of_class: type) -> bool:
    """Return whether a class makes its objects as classes do that say nothing about it."""
    return (
        type(of_class) is type
        and of_class.__new__ is object.__new__
        and of_class.__setattr__ is object.__setattr__
        and not hasattr(of_class, "__post_init__")
    )


def construct_natively(of_class: type, has_own_init: bool, enumerations: dict) -> None:
    """Have calls of a message's class make objects natively, where that does the same as Python's way.

    `has_own_init`: its author wrote an `__init__`. `enumerations`: by the names of the fields whose values are members.
    """
    names = [one.name for one in fields(of_class)]
    if has_own_init or not has_usual_creation(of_class):
        return
    code = of_class.__init__.__code__
    if code.co_kwonlyargcount or list(code.co_varnames[1:code.co_argcount]) != names:
        return                                 # fields that are named only, or are no arguments
    CONSTRUCTORS[of_class] = Constructor(of_class, enumerations)
    (<Class*><PyObject*>of_class).tp_vectorcall = construct
