"""Memory that native code may point into: mapped files and plain allocations."""

from libc.stdint cimport int64_t, uint8_t

cdef class Memory:
    """A block of bytes with a stable address, exported through the buffer protocol; zeroed when new.

    The owner closes it; `close` refuses while a buffer view or a slice is out.
    """
    cdef uint8_t* data
    cdef readonly Py_ssize_t length_bytes
    cdef readonly str path              # "" for an allocation
    cdef readonly bint writable
    cdef bint _mapped                   # freed by munmap, else by free
    cdef Py_ssize_t _file_offset        # of the first byte in the mapped file; -1: not of a file
    cdef int _views                     # buffer views and open slices
    cdef Memory _parent                 # of a slice: owns the bytes
    cdef void _release(self) noexcept
    # pages for a range of a mapped file, now; False when there is no room. Plain memory has its pages anyway
    cdef bint reserve(self, Py_ssize_t offset, Py_ssize_t length_bytes) noexcept nogil
    cdef bint _allocate_range(self, Py_ssize_t offset, Py_ssize_t length_bytes) noexcept
    cpdef Memory slice(self, Py_ssize_t offset, Py_ssize_t length_bytes, bint writable=*)

cdef class MemoryProvider:
    """The place of log buffers and the counters file: files below /dev/shm, or plain memory in simulation."""
    cpdef Memory create(self, str path, Py_ssize_t length_bytes, bint sparse=*)
    cpdef Memory open(self, str path, bint writable=*)
    cpdef void remove(self, str path)
    cpdef bint exists(self, str path)
    cpdef int64_t usable_bytes(self, str directory)
    cpdef list list_files(self, str directory)      # full paths, sorted, below it at any depth
    cpdef void make_directory(self, str directory)
    cpdef void remove_directory(self, str directory)

cpdef Memory allocate(Py_ssize_t length_bytes)
# the first bytes of an open file, shared with whoever else maps them; the descriptor may be closed
cdef Memory map_file(int descriptor, str path, Py_ssize_t length_bytes, bint writable)
