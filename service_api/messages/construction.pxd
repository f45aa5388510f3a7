"""Objects of messages made natively: a class is called for each message that a client sends or a service answers."""

from cpython.object cimport PyTypeObject

cdef class Constructor:
    """What the generated `__init__` of a class does, without a call of Python.

    It stands in while the class is as `dataclass` made it: with a `__new__`, an `__init__`, a `__setattr__` or a property of
    another making, and for arguments that `__init__` would refuse, Python's own way is taken.
    """
    cdef PyTypeObject* _class
    cdef object _init
    cdef tuple _names
    cdef tuple _members           # by field: what the class sets a slot by; an author may put a property in its place
    cdef tuple _defaults          # by field: a value, MISSING, or what makes one
    cdef tuple _makes             # by field: whether its default is made anew for each object
    cdef Py_ssize_t _count
    cdef Py_ssize_t* _slots
    cdef tuple _enumerations      # by field: whose members refer to nothing that could end before the program, or None
    cdef Py_ssize_t _size         # of an object, in memory; 0: it has more than its fields
    cdef unsigned int _version    # of the class, when it was looked at last
    cdef bint _is_usual(self)
    cdef object _begin(self)
    cdef bint _refers(self, object made)
    cdef Py_ssize_t _place_of(self, object name)
    cdef bint _fill_rest(self, object made) except -1
