"""How far this member knows its log to be committed, in memory that a file of its folder is mapped to."""

from libc.stdint cimport int64_t, uint8_t

from ordo.runtime.native.memory cimport Memory

cdef class CommitSlots:
    """The two slots of `committed.dat` (cluster/module/state/commit_note.py has their layout), written in turn.

    What is stored outlives the process at once: the memory is the system's, and no system call is made for it. A
    process that is killed in the middle of a slot leaves the one before, and has told nobody of the newer position.
    """
    cdef Memory _memory
    cdef uint8_t* _data                 # NULL: closed
    cdef int64_t _sequence
    cdef readonly int64_t position      # that was written last
    cdef public bint is_held            # nothing is raised: the log lacks a part of what was committed
    cdef void raise_to(self, int64_t position) noexcept nogil
    cdef void _put(self, int64_t position) noexcept nogil
