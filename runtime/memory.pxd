"""Memory that native code may point into: mapped files and plain allocations."""

from libc.stdint cimport uint8_t

cdef class Memory:
    """A block of bytes with a stable address, exported through the buffer protocol; zeroed when new.

    The owner closes it; `close` refuses while a buffer view is out.
    """
    cdef uint8_t* data
    cdef readonly Py_ssize_t length_bytes
    cdef readonly str path              # "" for an allocation
    cdef readonly bint writable
    cdef bint _mapped
    cdef int _views

cdef class MemoryProvider:
    """Where log buffers and the counters file live: files below /dev/shm, or plain memory in simulation."""
    cpdef Memory create(self, str path, Py_ssize_t length_bytes, bint sparse=*)
    cpdef Memory open(self, str path, bint writable=*)
    cpdef void remove(self, str path)
    cpdef bint exists(self, str path)

cpdef Memory allocate(Py_ssize_t length_bytes)
