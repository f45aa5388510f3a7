"""The storage seam: directories, segment files and small atomic metadata.

Real files and LMDB in production; in tests a store that loses what was not synced, tears, rots, fails and fills up.
"""

from libc.stdint cimport int64_t, uint8_t

cdef class SegmentFile:
    """A file of fixed length, written and read at offsets. Methods return 0 or a count, or -errno; they never raise."""
    cdef readonly str path
    cdef readonly int64_t length_bytes
    cdef int write(self, const uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil   # whole or -errno
    cdef int64_t read(self, uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil      # bytes read or -errno
    cdef int sync(self) noexcept nogil                                                               # fdatasync

cdef class SyncQueue:
    """Runs `SegmentFile.sync` off the duty cycle: on a thread in production, after a virtual delay in simulation.

    `request(file)` asks for one sync and returns a ticket; tickets complete in order. `completed()` is the last ticket
    done; an error sticks in `error` (-errno) until the queue is closed. A completion wakes the parked duty cycle.
    """
    cdef int64_t request(self, SegmentFile file)
    cdef int64_t completed(self) noexcept nogil
    cdef int error(self) noexcept nogil
