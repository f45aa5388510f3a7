"""Cluster time: what a leader stamps records with, timers are due by, and sessions time out by."""

from libc.stdint cimport int64_t

from ordo.runtime.native.clock cimport Clock

cdef class ClusterClock:
    """Time since 1970 in the unit of the cluster, that no step of the wall clock moves.

    It goes on with the monotonic clock. From the wall clock it takes where it begins when the process starts; then it
    is drawn towards it by at most SLEW_DIVISOR-th of the time that passes. A follower takes the leader's time over when
    it joins, and no member's time is below that of a record in its log: so time goes on evenly when the leadership changes.

    It never goes back but where a follower takes the leader's time over: also not for a moment that is before that of the
    last call, as the beginning of a duty cycle is.
    """
    cdef Clock _clock
    cdef readonly object unit             # the unit of time at the end of this member's log
    cdef readonly int64_t unit_ns         # its length
    cdef int64_t _earliest                # time begins here where the wall clock is behind: its size tells the unit
    cdef int64_t _limit                   # timestamps from here on are those of no clock
    cdef int64_t _offset_ns               # cluster time minus monotonic time
    cdef int64_t _slewed_ns               # monotonic time up to which the offset was drawn towards the wall clock
    cdef int64_t _latest                  # newest timestamp in this member's log
    cdef int64_t _told                    # the latest time that was asked for: what was stamped with it may not be in the log yet
    cdef int64_t _held                    # the time that does not go on now; 0: it goes on
    cdef int64_t alarm                    # cluster time at which a timer is due; INT64_MAX: none is known
    cdef int _take_unit(self, object unit) except -1
    cdef int64_t time(self, int64_t now_ns) noexcept nogil
    cdef int64_t hold(self, int64_t now_ns) noexcept nogil    # this is the time until `release`: many records are stamped with it
    cdef void release(self) noexcept nogil
    cdef void note_record(self, int64_t timestamp, int64_t now_ns) noexcept nogil
    cdef int64_t alarm_ns(self) noexcept nogil
