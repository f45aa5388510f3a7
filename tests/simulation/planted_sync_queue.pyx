"""A planted bug of compiled code (see `planted_disks.py`): members do not wait for their disks."""

from libc.stdint cimport int64_t

from ordo.runtime.io.storage cimport SegmentFile
from tests.simulation.storage cimport SYNCS_MAX, SimulatedSyncQueue

cdef int64_t HEARTBEAT_NS = 50_000_000       # much longer than any sync takes that no fault slows


cdef class HastySyncQueue(SimulatedSyncQueue):
    """A sync counts as through a heartbeat after it was asked for, whatever the disk says."""
    cdef int64_t asked_ns[SYNCS_MAX]

    cdef int64_t request(self, SegmentFile file):
        cdef int64_t ticket = SimulatedSyncQueue.request(self, file)
        self.asked_ns[ticket % SYNCS_MAX] = self.clock.nano_time()
        return ticket

    cdef int64_t completed(self) noexcept nogil:
        cdef int64_t ticket = SimulatedSyncQueue.completed(self)
        cdef int64_t limit_ns = self.clock.nano_time() - HEARTBEAT_NS
        while ticket < self.requested and self.asked_ns[(ticket + 1) % SYNCS_MAX] <= limit_ns:
            ticket += 1
        return ticket
