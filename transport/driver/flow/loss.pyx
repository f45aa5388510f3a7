"""Finding a gap in a received stream and deciding when to ask for it (transport-wire.md §6.1).

Only the first gap is tracked, and only the term of the rebuild position is looked at. A gap that changes starts anew. One
that stays as it is is asked for less and less often: its sender may stand still, and need not be sent thousands of NAKs.
"""

from libc.math cimport exp, log as ln
from libc.stdint cimport uint8_t

from ordo.runtime.native.atomics cimport ordo_fetch_add_i64, ordo_store_release_i64
from ordo.runtime.native.memory cimport Memory
from ordo.transport.driver.flow.claims cimport Claims


cdef class LossDetector:
    """Unicast: `delay_ns` before the first NAK, `retry_delay_ns` before the second one, and twice as long each time up to
    `backoff_max_ns`. Multicast: random delays up to `backoff_max_ns`, drawn for a group of `group_size`, from `seed`.
    Unreliable streams wait for nothing."""

    def __init__(self, *, bint is_multicast, bint is_reliable, int64_t delay_ns, int64_t retry_delay_ns,
                 int64_t backoff_max_ns, int64_t group_size, seed):
        self.is_multicast = is_multicast
        self.is_reliable = is_reliable
        self.initial_delay_ns = delay_ns
        self.retry_delay_ns = retry_delay_ns
        self.retry_delay_max_ns = max(retry_delay_ns, backoff_max_ns)
        self.next_retry_delay_ns = retry_delay_ns
        self.backoff_max_ns = backoff_max_ns
        self.group_size = group_size
        mixed = ((seed + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF    # near seeds, far states
        self.random_state = (mixed ^ (mixed >> 31)) or 1

    cdef int64_t _delay(self, bint initial) noexcept nogil:
        cdef double shape, drawn
        cdef int64_t delay_ns
        if not self.is_reliable:
            return 0
        if not self.is_multicast:
            if initial:
                self.next_retry_delay_ns = self.retry_delay_ns
                return self.initial_delay_ns
            delay_ns = self.next_retry_delay_ns
            self.next_retry_delay_ns = min(2 * delay_ns, self.retry_delay_max_ns)
            return delay_ns
        self.random_state ^= self.random_state << 13            # xorshift64: seeded, so that a run can be repeated
        self.random_state ^= self.random_state >> 7
        self.random_state ^= self.random_state << 17
        drawn = <double> (self.random_state >> 11) / 9007199254740992.0
        shape = ln(self.group_size) + 1
        return <int64_t> (self.backoff_max_ns / shape * ln(1 + drawn * (exp(shape) - 1)))

    cdef void scan(self, Claims claims, int32_t term_length, int64_t high_water, int64_t now_ns) noexcept nogil:
        cdef int64_t start = claims.whole
        cdef int64_t end = claims.gap_end()
        cdef int64_t term_end = (start | (term_length - 1)) + 1
        self.found = False
        if start >= high_water:
            self.active.length = 0
            return
        end = min(end, high_water, term_end)
        if self.active.length != end - start or self.active.position != start:
            self.active.position = start
            self.active.length = end - start
            self.active.deadline_ns = now_ns + self._delay(True)
            self.found = True

    cdef bint due(self, int64_t now_ns) noexcept nogil:
        """Return whether the active gap is due to be asked for (or filled) now; set the time of the next try."""
        if self.active.length == 0 or now_ns < self.active.deadline_ns:
            return False
        self.active.deadline_ns = now_ns + self._delay(False)
        return True

    # --- for tests ------------------------------------------------------------------------------------------------

    def scan_claims(self, Claims claims not None, int32_t term_length, int64_t high_water, int64_t now_ns):
        """Return (gap position or None, gap length) of a scan."""
        self.scan(claims, term_length, high_water, now_ns)
        return self.active.position if self.active.length else None, self.active.length

    def is_due(self, int64_t now_ns):
        return self.due(now_ns)

    @property
    def deadline_ns(self):
        """When the active gap is due; None without one."""
        return self.active.deadline_ns if self.active.length else None


def add_release(Memory memory not None, Py_ssize_t offset, int64_t value, bint replace=False):
    """Add to, or replace, an aligned 64-bit value of a mapped report, with release order."""
    cdef uint8_t* at = memory.data + offset
    if offset < 0 or offset + 8 > memory.length_bytes or offset % 8:
        raise ValueError(f"offset={offset}, must be a multiple of 8 below length_bytes={memory.length_bytes}")
    if replace:
        ordo_store_release_i64(at, value)
    else:
        ordo_fetch_add_i64(at, value)
