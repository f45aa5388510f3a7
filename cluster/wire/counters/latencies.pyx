"""How long things take in a node and its service. See latencies.pxd."""

from libc.stdint cimport int64_t

from ordo.runtime.native.atomics cimport ordo_load_acquire_i64, ordo_store_release_i64
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.native.histogram cimport HISTOGRAM_LENGTH, Histogram, note_duration
from ordo.runtime.native.memory cimport Memory

from ordo.runtime.native.durations import Durations
from ordo.runtime.errors import StorageMissingError

cdef enum:
    LAYOUT = 1
    MARK_COUNT_OFFSET = 8
    MARKS_OFFSET = 64
    MARK_COUNT = 1024
    MARKS_KEPT = MARK_COUNT - 64           # older ones may be written over while they are read
    HISTOGRAMS_OFFSET = MARKS_OFFSET + 16 * MARK_COUNT
    HISTOGRAM_STRIDE = 448
    SAMPLE_INTERVAL_NS = 1000000

APPEND, SYNC, COMMIT, CALLBACK, ROUND_TRIP = range(5)
STAGES = ("append", "sync", "commit", "callback", "round_trip")
"""In the order of the histograms."""
LENGTH_BYTES = HISTOGRAMS_OFFSET + HISTOGRAM_STRIDE * len(STAGES)
assert HISTOGRAM_LENGTH <= HISTOGRAM_STRIDE


def latencies_path(str aeron_dir, int cluster_id):
    """The file's path; clusters may share a driver."""
    return f"{aeron_dir}/ordo-latencies-{cluster_id}.dat"


cdef class Latencies:
    def __init__(self, Memory memory not None):
        if memory.length_bytes < LENGTH_BYTES:
            raise ValueError(f"length_bytes={memory.length_bytes}, at least {LENGTH_BYTES}")
        self.memory = memory
        self.mark_count = <int64_t*> (memory.data + MARK_COUNT_OFFSET)
        self.marks = <int64_t*> (memory.data + MARKS_OFFSET)
        self.histograms = tuple(
            [Histogram(memory, HISTOGRAMS_OFFSET + index * HISTOGRAM_STRIDE) for index in range(len(STAGES))])

    @staticmethod
    def create(provider, str aeron_dir, int cluster_id):
        """A new file, in the place of one that a killed node left in the folder of a driver that runs on."""
        path = latencies_path(aeron_dir, cluster_id)
        provider.remove(path)
        created = Latencies(provider.create(path, LENGTH_BYTES))
        ordo_store_release_i64(<int64_t*> (<Memory> created.memory).data, LAYOUT)
        return created

    @staticmethod
    def find(provider, str aeron_dir, int cluster_id, bint writable=False):
        """The file of a running node; None where there is none, or one of another layout."""
        cdef Memory memory
        try:
            memory = provider.open(latencies_path(aeron_dir, cluster_id), writable)
        except StorageMissingError:
            return None
        if memory.length_bytes < LENGTH_BYTES or ordo_load_acquire_i64(<int64_t*> memory.data) != LAYOUT:
            return None
        return Latencies(memory)

    def read(self):
        """Durations by stage."""
        return {name: Durations(*histogram.read()) for name, histogram in zip(STAGES, self.histograms)}


cdef class LogSamples:
    def __init__(self, Latencies latencies not None, Clock clock not None):
        self._latencies = latencies
        self._clock = clock
        self._append = latencies.histograms[APPEND]
        self._commit = latencies.histograms[COMMIT]
        self._appended = self._committed = latencies.mark_count[0]

    cpdef void take(self, int64_t position, int64_t now_ns) noexcept:
        """Marks the message that ends there; none while as many are under way as there is room for."""
        cdef int64_t count = self._latencies.mark_count[0]
        cdef int64_t* mark = self._latencies.marks + 2 * (count % MARK_COUNT)
        self.position = position
        self.next_ns = now_ns + SAMPLE_INTERVAL_NS
        if position <= 0 or count - self._committed >= MARKS_KEPT:
            return
        mark[0] = position
        mark[1] = self._clock.nano_time()
        ordo_store_release_i64(self._latencies.mark_count, count + 1)
        self.is_under_way = True

    cpdef void look(self, int64_t append_position, int64_t commit_position, bint is_leading, int64_t now_ns) noexcept:
        """Notes how long marked messages took to be appended and committed. Who leads no more does not know."""
        cdef int64_t count = self._latencies.mark_count[0]
        cdef int64_t* marks = self._latencies.marks
        if not is_leading:
            self._appended = self._committed = count
        while self._appended < count and marks[2 * (self._appended % MARK_COUNT)] <= append_position:
            note_duration(self._append.cells, now_ns - marks[2 * (self._appended % MARK_COUNT) + 1])
            self._appended += 1
        while self._committed < count and marks[2 * (self._committed % MARK_COUNT)] <= commit_position:
            note_duration(self._commit.cells, now_ns - marks[2 * (self._committed % MARK_COUNT) + 1])
            self._committed += 1
        self.is_under_way = self._committed < count or self._appended < count


cdef class ServiceSamples:
    def __init__(self, Latencies latencies not None, Clock clock not None):
        self._latencies = latencies
        self._clock = clock
        self._callback = latencies.histograms[CALLBACK]
        self._round_trip = latencies.histograms[ROUND_TRIP]
        self._seen = latencies.mark_count[0]

    cpdef int64_t begin_callback(self, int64_t now_ns) noexcept:
        """When a callback begins that is to be timed."""
        self.next_ns = now_ns + SAMPLE_INTERVAL_NS
        return self._clock.nano_time()

    cpdef void end_callback(self, int64_t started_ns) noexcept:
        note_duration(self._callback.cells, self._clock.nano_time() - started_ns)

    cdef bint has_marks(self) noexcept nogil:
        return ordo_load_acquire_i64(self._latencies.mark_count) != self._seen

    cpdef void look(self, int64_t executed_position, bint is_leading) noexcept:
        """Notes how long marked messages took until what the service said to them was on its way."""
        cdef int64_t count = ordo_load_acquire_i64(self._latencies.mark_count)
        cdef int64_t now_ns = 0
        cdef int64_t* mark
        if not is_leading:
            self._seen = count
        self._seen = max(self._seen, count - MARKS_KEPT)
        while self._seen < count:
            mark = self._latencies.marks + 2 * (self._seen % MARK_COUNT)
            if mark[0] > executed_position:
                return
            now_ns = now_ns or self._clock.nano_time()
            note_duration(self._round_trip.cells, now_ns - mark[1])
            self._seen += 1
