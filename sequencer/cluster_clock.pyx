"""Cluster time, slewed. See cluster_clock.pxd, and docs/ARCHITECTURE.md, Cluster time."""

from libc.stdint cimport int64_t
from ordo.runtime.native.time_units cimport MILLISECOND_NS

cdef enum:
    SLEW_DIVISOR = 1000                   # clocks that NTP disciplines are slewed by half of that at most

cdef int64_t TIMESTAMP_MS_LIMIT = <int64_t> 1 << 43   # beyond the year 2240: no clock says that


cdef class ClusterClock:
    def __init__(self, Clock clock not None):
        self._clock = clock
        self._slewed_ns = clock.nano_time()
        self._offset_ns = clock.epoch_time_ns() - self._slewed_ns

    cdef int64_t time_ms(self, int64_t now_ns) noexcept nogil:
        cdef int64_t step_max_ns = (now_ns - self._slewed_ns) // SLEW_DIVISOR
        cdef int64_t difference_ns
        if step_max_ns >= 1000:
            self._slewed_ns = now_ns
            difference_ns = self._clock.epoch_time_ns() - now_ns - self._offset_ns
            self._offset_ns += max(-step_max_ns, min(step_max_ns, difference_ns))
        return max((now_ns + self._offset_ns) // MILLISECOND_NS, self._latest_ms)

    cdef void note_record(self, int64_t timestamp_ms, int64_t now_ns) noexcept nogil:
        if self._latest_ms < timestamp_ms < TIMESTAMP_MS_LIMIT:
            self._latest_ms = timestamp_ms
            self._offset_ns = max(self._offset_ns, timestamp_ms * MILLISECOND_NS - now_ns)

    def now_ms(self):
        """Cluster time."""
        return self.time_ms(self._clock.nano_time())

    def note(self, int64_t timestamp_ms):
        """A record of this member's log has this timestamp: cluster time is not behind it."""
        self.note_record(timestamp_ms, self._clock.nano_time())

    def adopt(self, int64_t timestamp_ms):
        """The leader that this member follows has this time now."""
        if 0 <= timestamp_ms < TIMESTAMP_MS_LIMIT:
            self._offset_ns = max(timestamp_ms, self._latest_ms) * MILLISECOND_NS - self._clock.nano_time()

    @property
    def wall_clock_ahead_ms(self):
        """How far the wall clock is ahead of cluster time; below 0: behind it."""
        return (self._clock.epoch_time_ns() - self._clock.nano_time() - self._offset_ns) // MILLISECOND_NS
