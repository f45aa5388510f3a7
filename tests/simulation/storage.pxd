"""The sync queue of one process on a simulated disk."""

from libc.stdint cimport int64_t

from ordo.runtime.native.clock cimport Clock
from ordo.runtime.io.storage cimport SyncQueue

cdef enum:
    SYNCS_MAX = 4096

cdef struct PendingSync:
    int64_t due_ns
    int64_t covered

cdef class SimulatedSyncQueue(SyncQueue):
    cdef Clock clock
    cdef object disk
    cdef PendingSync pending[SYNCS_MAX]
    cdef list files
    cdef int64_t last_due_ns
    cdef int64_t requested
    cdef int64_t done
    cdef int failure
    cdef int64_t due_after(self, int64_t after_ns) noexcept nogil      # NEVER: no sync completes after that time
    cdef void _complete(self, int64_t slot) noexcept nogil
