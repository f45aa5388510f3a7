"""Where a node and its service keep how long things take, by sampling: a file beside the driver's counters.

    0    i64 LAYOUT
    8    i64 marks made since the start; written last
    64   MARK_COUNT marks, used in turn: i64 log position after a message, i64 when the leader took it (monotonic, ns)
    then one histogram (runtime/native/histogram.pxd) for each of STAGES, HISTOGRAM_STRIDE bytes apart

The node's thread writes the marks, APPEND and COMMIT; its sync thread SYNC; the service container CALLBACK and
ROUND_TRIP. Both processes read one monotonic clock, since both run on one machine.
"""

from libc.stdint cimport int64_t

from ordo.runtime.native.clock cimport Clock
from ordo.runtime.native.histogram cimport Histogram
from ordo.runtime.native.memory cimport Memory

cdef class Latencies:
    """The file, as its owner made it or as somebody else has opened it."""
    cdef readonly Memory memory
    cdef readonly tuple histograms
    cdef int64_t* mark_count
    cdef int64_t* marks

cdef class LogSamples:
    """The leader's half: marks a message at most once a SAMPLE_INTERVAL_NS, and sees it through to its commit.

    Costs a duty cycle in which nothing is sampled a few comparisons; the clock is read for samples only.
    """
    cdef Clock _clock
    cdef Latencies _latencies
    cdef Histogram _append
    cdef Histogram _commit
    cdef int64_t _appended                # marks whose appending is done
    cdef int64_t _committed
    cdef readonly int64_t next_ns                  # when the next message is marked, at the earliest
    cdef int64_t position                 # what was marked last
    cdef readonly bint is_under_way                # there are marks that are not committed
    cpdef void take(self, int64_t position, int64_t now_ns) noexcept
    cpdef void look(self, int64_t append_position, int64_t commit_position, bint is_leading, int64_t now_ns) noexcept

cdef class ServiceSamples:
    """The service container's half."""
    cdef Clock _clock
    cdef Latencies _latencies
    cdef Histogram _callback
    cdef Histogram _round_trip
    cdef int64_t _seen                    # marks that are done with
    cdef readonly int64_t next_ns                  # when the next callback is timed, at the earliest
    cpdef int64_t begin_callback(self, int64_t now_ns) noexcept
    cpdef void end_callback(self, int64_t started_ns) noexcept
    cdef bint has_marks(self) noexcept nogil
    cpdef void look(self, int64_t executed_position, bint is_leading) noexcept
