"""Cluster time, slewed. See cluster_clock.pxd, and docs/ARCHITECTURE.md, Cluster time."""

from libc.stdint cimport INT64_MAX, int64_t
from ordo.runtime.native.time_units cimport MILLISECOND_NS

from ordo.runtime.native.cluster_time import EARLIEST, TimeUnit

cdef enum:
    SLEW_DIVISOR = 1000                   # clocks that NTP disciplines are slewed by half of that at most

cdef int64_t TIME_MS_LIMIT = <int64_t> 1 << 43   # beyond the year 2240: no clock says that


cdef class ClusterClock:
    def __init__(self, Clock clock not None, unit=TimeUnit.MILLIS):
        self._clock = clock
        self._take_unit(unit)
        self._latest = self._earliest
        self._slewed_ns = clock.nano_time()
        self._offset_ns = max(<int64_t> clock.epoch_time_ns(), self._earliest * self.unit_ns) - self._slewed_ns

    cdef int _take_unit(self, object unit) except -1:
        self.unit = unit
        self.unit_ns = unit.length_ns
        self._limit = TIME_MS_LIMIT * (MILLISECOND_NS // self.unit_ns)
        self._earliest = EARLIEST[unit]
        self.alarm = INT64_MAX
        return 0

    def set_unit(self, unit):
        """Go on in another unit, from the same moment: that of the log's end (docs/CONCEPTS.md, Time)."""
        former = self.unit
        if unit is former:
            return
        self._take_unit(unit)
        self._latest = max(<int64_t> former.rescale(self._latest, unit), self._earliest)
        self._told = former.rescale(self._told, unit)
        self._held = former.rescale(self._held, unit)
        self._offset_ns = max(self._offset_ns, self._earliest * self.unit_ns - <int64_t> self._clock.nano_time())

    cdef int64_t time(self, int64_t now_ns) noexcept nogil:
        cdef int64_t step_max_ns = (now_ns - self._slewed_ns) // SLEW_DIVISOR
        cdef int64_t difference_ns
        if self._held:
            return self._held
        if step_max_ns >= 1000:
            self._slewed_ns = now_ns
            difference_ns = self._clock.epoch_time_ns() - now_ns - self._offset_ns
            self._offset_ns += max(-step_max_ns, min(step_max_ns, difference_ns))
        self._told = max((now_ns + self._offset_ns) // self.unit_ns, self._latest, self._told)
        return self._told

    cdef int64_t hold(self, int64_t now_ns) noexcept nogil:
        self._held = 0
        self._held = self.time(now_ns)
        return self._held

    cdef void release(self) noexcept nogil:
        self._held = 0

    cdef void note_record(self, int64_t timestamp, int64_t now_ns) noexcept nogil:
        if self._latest < timestamp < self._limit:
            self._latest = timestamp
            self._offset_ns = max(self._offset_ns, timestamp * self.unit_ns - now_ns)

    cdef int64_t alarm_ns(self) noexcept nogil:
        """The monotonic time of the alarm, unless the clock is slewed until then."""
        return INT64_MAX if self.alarm >= self._limit else self.alarm * self.unit_ns - self._offset_ns

    def set_alarm(self, timestamp):
        """A leader's next timer is due then; None: none is. In milliseconds the slow tick is exact enough for timers."""
        is_exact = timestamp is not None and self.unit_ns < MILLISECOND_NS
        self.alarm = max(<int64_t> timestamp, self._earliest) if is_exact else INT64_MAX

    def now(self):
        """Cluster time."""
        return self.time(self._clock.nano_time())

    def note(self, int64_t timestamp):
        """A record of this member's log has this timestamp: cluster time is not behind it."""
        self.note_record(timestamp, self._clock.nano_time())

    def adopt(self, int64_t timestamp):
        """The leader that this member follows has this time now."""
        if self._earliest <= timestamp < self._limit:
            self._told = 0
            self._offset_ns = max(timestamp, self._latest) * self.unit_ns - self._clock.nano_time()

    @property
    def wall_clock_ahead_ms(self):
        """How far the wall clock is ahead of cluster time; below 0: behind it."""
        return (self._clock.epoch_time_ns() - self._clock.nano_time() - self._offset_ns) // MILLISECOND_NS
