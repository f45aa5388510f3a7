"""The storage seam: directories, segment files and small atomic metadata.

Real files and LMDB in production; in tests a store that loses what was not synced, tears, rots, fails and fills up.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.runtime.native.histogram cimport Histogram
from ordo.runtime.native.memory cimport Memory
from ordo.runtime.agents.wake cimport ParkFlag

cdef class SegmentFile:
    """A file of fixed length, written and read at offsets. Methods return 0 or a count, or -errno; they never raise."""
    cdef readonly str path
    cdef readonly int64_t length_bytes
    cdef int write(self, const uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil   # whole or -errno
    cdef int64_t read(self, uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil      # bytes read or -errno
    cdef int64_t next_data(self, int64_t offset) noexcept nogil    # where something may be written, at or after offset
    cdef int sync(self) noexcept nogil                                                               # fdatasync
    cpdef Memory map(self)

cdef class FileSegment(SegmentFile):
    """A real file. Its descriptor stays open while a sync of it is pending, closed or not."""
    cdef int _descriptor
    cdef int _pending_syncs
    cdef bint _close_requested
    cdef void _close_now(self) noexcept

cdef class SyncQueue:
    """A queue that runs `SegmentFile.sync` off the duty cycle: on a thread in production, after a virtual delay in
    simulation.

    `request(file)` asks for one sync and returns a ticket; tickets complete in order. `completed()` is the last ticket
    done; an error sticks in `error` (-errno) until the queue is closed. A completion wakes the parked duty cycle.
    """
    cdef int64_t request(self, SegmentFile file)
    cdef int64_t completed(self) noexcept nogil
    cdef int error(self) noexcept nogil

cdef struct SyncThread

cdef class ThreadSyncQueue(SyncQueue):
    """A sync queue with one native thread. Everything requested during one sync goes with the next, one fdatasync per
    file."""
    cdef SyncThread* _thread
    cdef list _held                     # (ticket, file) not reaped yet
    cdef ParkFlag _flag
    cdef Histogram _durations           # of syncs, or None
    cdef void _notify(self) noexcept nogil
    cdef void _reap(self)
    cdef void _stop(self) noexcept
