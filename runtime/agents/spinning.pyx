"""The decision whether a thread polls again before it parks."""

from ordo.runtime.native.atomics cimport sched_yield

cdef enum:
    FAST_NS = 200000                       # a step this soon behind the one before is a fast one
    FAST_GAIN = 2
    SCORE_MAX = 16


cdef class Spinning:
    def __init__(self, int64_t turns_max):
        self.turns_max = turns_max
        self._moved_ns = -FAST_NS - 1

    cpdef void note(self, int64_t moved, int64_t now_ns) noexcept nogil:
        """Note that a turn has done something. `moved` changes with each step: of a node, whenever its log has grown or
        more of it is committed."""
        if moved == self._moved:
            return
        if now_ns - self._moved_ns <= FAST_NS:
            self._score = min(self._score + FAST_GAIN, <int64_t> SCORE_MAX)
        elif self._score > 0:
            self._score -= 1
        self._moved = moved
        self._moved_ns = now_ns
        self.turns_left = self.turns_max if self._score > 0 else 0

    cpdef bint take(self) noexcept nogil:
        """Take one of the remaining idle turns and yield the core. Returns False when none is left."""
        if self.turns_left == 0:
            return False
        self.turns_left -= 1
        sched_yield()
        return True
