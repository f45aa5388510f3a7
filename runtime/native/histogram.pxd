"""A histogram of durations in shared memory, with one writer and any number of readers.

    0  i64 sum of all durations in ns
    8  i64[BUCKET_COUNT] durations by bucket, two buckets an octave: below 1,024 ns, 1,536, 2,048, 3,072 and so on;
       the last one has everything from 8.6 s on
"""

from libc.stdint cimport int64_t

from ordo.runtime.native.memory cimport Memory

cdef enum:
    BUCKET_COUNT = 48
    FIRST_OCTAVE = 10
    HISTOGRAM_LENGTH = 8 * (1 + BUCKET_COUNT)


cdef inline void note_duration(int64_t* cells, int64_t duration_ns) noexcept nogil:
    """Count one duration in the histogram that begins at `cells`."""
    cdef int octave = FIRST_OCTAVE
    cdef int bucket = 0
    if duration_ns >= 1 << FIRST_OCTAVE:
        while duration_ns >> (octave + 1) and octave < FIRST_OCTAVE + BUCKET_COUNT // 2:
            octave += 1
        bucket = 1 + 2 * (octave - FIRST_OCTAVE) + <int> (duration_ns >> (octave - 1) & 1)
    cells[0] += duration_ns
    cells[1 + min(bucket, BUCKET_COUNT - 1)] += 1


cdef class Histogram:
    """A histogram in shared memory: `cells` points into `memory`, which it keeps alive."""
    cdef int64_t* cells
    cdef Memory _memory
