"""A histogram of durations in shared memory. See histogram.pxd."""

from libc.stdint cimport int64_t

from ordo.runtime.native.memory cimport Memory

LENGTH_BYTES = HISTOGRAM_LENGTH


cdef class Histogram:
    """A histogram in shared memory. `offset` is where it begins, a multiple of 8; the memory is writable only for its
    writer."""

    def __init__(self, Memory memory not None, Py_ssize_t offset):
        if offset < 0 or offset % 8 or offset + HISTOGRAM_LENGTH > memory.length_bytes:
            raise ValueError(f"offset={offset}, a multiple of 8 with {HISTOGRAM_LENGTH} bytes behind it")
        self._memory = memory
        self.cells = <int64_t*> (memory.data + offset)

    def note(self, int64_t duration_ns):
        """Count one duration; for the histogram's one writer."""
        if not self._memory.writable:
            raise ValueError("the memory of this histogram is for reading")
        note_duration(self.cells, duration_ns)

    def read(self):
        """Return the sum of all durations in ns, and how many there are by bucket."""
        cdef int index
        return self.cells[0], tuple([self.cells[1 + index] for index in range(BUCKET_COUNT)])
