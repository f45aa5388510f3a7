"""The base class of everything that runs."""

from libc.stdint cimport int64_t

cdef class Agent:
    """A component with `on_start`, `do_work(now_ns) -> work count`, `on_close` and `role_name`. Never sleeps, starts no
    thread, reads no clock."""
    cpdef int do_work(self, int64_t now_ns) except -1
