"""Traces of sampled requests. See traces.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from ordo.runtime.native.clock cimport Clock
from ordo.transport.control.ring cimport RECORD_HEADER_LENGTH, RING_TRAILER_LENGTH, ManyToOneRing

from ordo.runtime.errors import StorageMissingError

cdef enum:
    RING_LENGTH = 256 * 1024
    IDENTITY_LENGTH = 16
    LOG_LENGTH = 7 * 8
    FOLLOWER_LENGTH = 5 * 8
    SERVICE_LENGTH = 5 * 8 + IDENTITY_LENGTH

LOG_POINTS, SERVICE_POINTS, FOLLOWER_POINTS = 1, 2, 3
cdef int32_t LOG_TYPE = 1
cdef int32_t SERVICE_TYPE = 2
cdef int32_t FOLLOWER_TYPE = 3


cdef bint is_sampled(int64_t open_position, int64_t number, uint64_t threshold) noexcept nogil:
    """By the upper half of a mixed 64-bit number (the finalizer of SplitMix64)."""
    cdef uint64_t mixed = <uint64_t> open_position * 0x9E3779B97F4A7C15u + <uint64_t> number
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu
    mixed ^= mixed >> 31
    return (mixed >> 32) < threshold


def threshold_of(double rate):
    """What a share of all requests, 0 to 1, is for `is_sampled`."""
    return <uint64_t> (rate * 4294967296.0)


def is_traced(int64_t open_position, int64_t number, uint64_t threshold):
    """`is_sampled` for Python."""
    return is_sampled(open_position, number, threshold)


def traces_path(str aeron_dir, int cluster_id):
    """The ring's file; clusters may share a driver."""
    return f"{aeron_dir}/ordo-traces-{cluster_id}.dat"


def create_traces(provider, str aeron_dir, int cluster_id):
    """A new ring, in the place of one that a killed node left in the folder of a driver that runs on."""
    path = traces_path(aeron_dir, cluster_id)
    provider.remove(path)
    return ManyToOneRing(provider.create(path, RING_LENGTH + RING_TRAILER_LENGTH))


def find_traces(provider, str aeron_dir, int cluster_id):
    """The ring of a running node, or None."""
    try:
        return ManyToOneRing(provider.open(traces_path(aeron_dir, cluster_id)))
    except StorageMissingError:
        return None


cdef void _write(ManyToOneRing ring, int32_t type_id, const Points* points, int32_t length) noexcept nogil:
    cdef int64_t index = ring.claim(type_id, length)
    if index >= 0:
        memcpy(ring.buffer + index + RECORD_HEADER_LENGTH, points.fields, length)
        ring.commit(index)


cdef class TracePoints:
    def __init__(self, ManyToOneRing ring not None, Clock clock not None, uint64_t threshold):
        self._ring = ring
        self._clock = clock
        self._threshold = threshold


cdef class LogTraces(TracePoints):
    cpdef int take(self, int64_t open_position, int64_t number, int64_t position) except -1:
        """The leader has put a request into the log buffer; it ends at `position`."""
        cdef Points* points = &self._points[self._count % PENDING_MAX]
        if self._count - self._committed == PENDING_MAX or not is_sampled(open_position, number, self._threshold):
            return 0
        points.position = position
        points.fields[0] = open_position
        points.fields[1] = number
        points.fields[2] = self.cycle_ns
        points.fields[3] = self._clock.nano_time()
        self._count += 1
        self.is_under_way = True
        return 1

    cpdef int send(self) except -1:
        """The driver has sent what was in the log buffer."""
        cdef int64_t now_ns
        if self._sent < self._count:
            now_ns = self._clock.nano_time()
            while self._sent < self._count:
                self._points[self._sent % PENDING_MAX].fields[4] = now_ns
                self._sent += 1
        return 0

    cpdef int look(self, int64_t append_position, int64_t commit_position, bint is_leading, int64_t now_ns) except -1:
        """Notes what has been appended and committed. Who leads no more does not know."""
        cdef Points* points
        if not is_leading:
            self._sent = self._appended = self._committed = self._count
        while self._appended < self._count:
            points = &self._points[self._appended % PENDING_MAX]
            if points.position > append_position:
                break
            points.fields[5] = now_ns
            self._appended += 1
        while self._committed < self._appended:
            points = &self._points[self._committed % PENDING_MAX]
            if points.position > commit_position:
                break
            points.fields[6] = now_ns
            _write(self._ring, LOG_TYPE, points, LOG_LENGTH)
            self._committed += 1
        self.is_under_way = self._committed < self._count
        return 0


cdef class CycleTraces(TracePoints):
    cdef int _send(self, int32_t kind, int32_t length) except -1:
        cdef int64_t now_ns = self._clock.nano_time()
        cdef int64_t index
        for index in range(self._count):
            self._points[index].fields[4] = now_ns
            _write(self._ring, kind, &self._points[index], length)
        self._count = 0
        self.has_unsent = False
        return 0


cdef class FollowerTraces(CycleTraces):
    cpdef int note(self, int64_t recorded_position) except -1:
        """So far the log is recorded."""
        cdef int64_t newest = (self._noted - 1) % PENDING_MAX
        if self._noted == 0 or recorded_position > self._positions[newest]:
            self._positions[self._noted % PENDING_MAX] = recorded_position
            self._times[self._noted % PENDING_MAX] = self.cycle_ns
            self._noted += 1
        return 0

    cdef int64_t _recorded_ns(self, int64_t position) noexcept nogil:
        """When the first duty cycle began that had recorded the log up to a position."""
        cdef int64_t index = self._noted - 1
        cdef int64_t found = self.cycle_ns
        while index >= 0 and index >= self._noted - PENDING_MAX and self._positions[index % PENDING_MAX] >= position:
            found = self._times[index % PENDING_MAX]
            index -= 1
        return found

    cpdef int take(self, int64_t open_position, int64_t number, int64_t position) except -1:
        """The follower has a request, which ends at `position`, as durably as it acknowledges."""
        cdef Points* points = &self._points[self._count]
        if self._count == PENDING_MAX - 1 or not is_sampled(open_position, number, self._threshold):
            return 0
        points.fields[0] = open_position
        points.fields[1] = number
        points.fields[2] = self._recorded_ns(position)
        points.fields[3] = self._clock.nano_time()
        self._count += 1
        self.has_unsent = True
        return 1

    cpdef int send(self) except -1:
        """The driver has sent the acknowledgement."""
        return self._send(FOLLOWER_TYPE, FOLLOWER_LENGTH)


cdef class ServiceTraces(CycleTraces):
    cpdef int begin(self, int64_t open_position, int64_t number, bytes identity) except -1:
        """The service is about to execute a request."""
        cdef Points* points = &self._points[self._count]
        self._is_begun = False
        if self._count == PENDING_MAX - 1 or PyBytes_GET_SIZE(identity) != IDENTITY_LENGTH \
                or not is_sampled(open_position, number, self._threshold):
            return 0
        self._is_begun = True
        points.fields[0] = open_position
        points.fields[1] = number
        points.fields[2] = self._clock.nano_time()
        memcpy(&points.fields[5], PyBytes_AS_STRING(identity), IDENTITY_LENGTH)
        return 1

    cpdef int end(self) except -1:
        """The service has executed it."""
        if self._is_begun:
            self._points[self._count].fields[3] = self._clock.nano_time()
            self._count += 1
            self._is_begun = False
            self.has_unsent = True
        return 0

    cpdef int send(self) except -1:
        """The driver has been told of the answers to what was executed."""
        return self._send(SERVICE_TYPE, SERVICE_LENGTH)
