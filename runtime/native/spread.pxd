"""How durations are spread, of either sign: counted by buckets of which none is wider than 1/128 of what is in it.

A duration below 256 has a bucket of its own, and each octave above has 128: bucket 256 has 256 and 257, bucket 384 has 512
to 515. Those of negative durations follow on them in the same order. spread.py reads them.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

cdef enum:
    SPREAD_SIGN_BUCKETS = 7424          # of one sign
    SPREAD_BUCKETS = 2 * SPREAD_SIGN_BUCKETS

cdef struct Spread:
    int64_t longest
    int64_t counts[SPREAD_BUCKETS]


cdef inline int spread_bucket(int64_t duration) noexcept nogil:
    """Return the bucket of a duration."""
    cdef int64_t size = duration if duration >= 0 else INT64_MAX if duration == INT64_MIN else -duration
    cdef int shift = 0
    while size >> shift >= 256:
        shift += 1
    return (shift << 7) + <int> (size >> shift) + (0 if duration >= 0 else SPREAD_SIGN_BUCKETS)


cdef inline void note_spread(Spread* spread, int64_t duration) noexcept nogil:
    """Count a duration. Before the first, `longest` has to be INT64_MIN."""
    spread.longest = max(spread.longest, duration)
    spread.counts[spread_bucket(duration)] += 1
