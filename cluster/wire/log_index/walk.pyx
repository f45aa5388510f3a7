"""A stretch of a log read from its segment files, as a look into the index needs it: counted and timed, not decoded."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t

from ordo.archive.segments.reader cimport RecordingReader
from ordo.cluster.wire.layout cimport (
    SESSION_HEADER_LENGTH,
    SESSION_HEADER_TIMESTAMP,
    SESSION_MESSAGE_HEADER_ID,
    is_request,
    template_id,
)
from ordo.runtime.native.atomics cimport ordo_crc32c, ordo_get_i64
from ordo.runtime.native.time_units cimport MICROSECOND_NS, MILLISECOND_NS
from ordo.transport.streams.image cimport Fragment

from ordo.cluster.wire import ordo_codecs
from ordo.runtime.errors import DecodeError


def checksum(const uint8_t[::1] data not None, uint32_t start=0):
    """Return the CRC32C of bytes, after those with the checksum `start`."""
    return ordo_crc32c(start, &data[0], data.shape[0]) if data.shape[0] > 0 else start


def count_valid(const uint8_t[::1] data not None, int64_t stride_bytes):
    """Return how many entries of a length are valid, from the first on: each ends with the checksum of the rest."""
    cdef int64_t count = 0
    cdef int64_t body = stride_bytes - 4
    cdef const uint8_t* entry
    while (count + 1) * stride_bytes <= data.shape[0]:
        entry = &data[count * stride_bytes]
        if (<const uint32_t*> (entry + body))[0] != ordo_crc32c(0, entry, body):
            break
        count += 1
    return count


def first_checksum(RecordingReader reader not None):
    """Return the CRC32C of the next record of a reader; -1: there is none yet."""
    cdef Fragment fragment
    if reader.next(&fragment, INT64_MAX) != 1:
        return -1
    return ordo_crc32c(0, fragment.payload, fragment.length_bytes)


cdef class LogWalk:
    """A walk over a log, record by record. `sequence` and `timestamp` are those of the last record passed."""
    cdef RecordingReader _reader
    cdef set _unnumbered
    cdef readonly int64_t sequence
    cdef readonly int64_t timestamp
    cdef readonly int64_t first_checksum        # of the first record that was met; -1: none
    cdef readonly int64_t end_position          # of the last record passed

    def __init__(self, RecordingReader reader not None, int64_t sequence, int64_t timestamp, set unnumbered not None):
        """Walk on from the reader's position. `unnumbered`: where messages end that have no number."""
        self._reader = reader
        self._unnumbered = unnumbered
        self.sequence, self.timestamp = sequence, timestamp
        self.first_checksum = -1
        self.end_position = reader.position

    def walk(self, int64_t limit_position, int64_t sequence=INT64_MAX, int64_t time_ns=INT64_MAX):
        """Walk to the message of a number, or the first record not older than a time; return where it begins.

        -1 if there is none below the limit. That record is not passed. Time stamps may be in any unit.
        """
        cdef Fragment fragment
        cdef bint is_message
        cdef int64_t time
        while self._reader.next(&fragment, limit_position) == 1:
            if self.first_checksum < 0:
                self.first_checksum = ordo_crc32c(0, fragment.payload, fragment.length_bytes)
            is_message = _is_message(&fragment)
            time = ordo_get_i64(fragment.payload + SESSION_HEADER_TIMESTAMP) if is_message else _time_of(&fragment)
            if time_ns != INT64_MAX and _in_ns(time) >= time_ns:
                return fragment.start_position
            if is_message and fragment.position not in self._unnumbered:
                if self.sequence + 1 == sequence:
                    return fragment.start_position
                self.sequence += 1
            self.timestamp = max(self.timestamp, time)
            self.end_position = fragment.position
        return -1


cdef int64_t _in_ns(int64_t timestamp) noexcept nogil:
    """A time stamp in nanoseconds, its unit told by its size: `time_ns` of runtime/native/cluster_time.py."""
    if timestamp >= 100000000000000000LL:
        return timestamp
    if timestamp >= 100000000000000LL:
        return timestamp * MICROSECOND_NS if timestamp <= INT64_MAX // MICROSECOND_NS else INT64_MAX
    return timestamp * MILLISECOND_NS if timestamp <= INT64_MAX // MILLISECOND_NS else INT64_MAX


cdef bint _is_message(const Fragment* fragment) noexcept nogil:
    if template_id(fragment.payload, fragment.length_bytes) == SESSION_MESSAGE_HEADER_ID:
        return fragment.length_bytes >= SESSION_HEADER_LENGTH
    return is_request(fragment.payload, fragment.length_bytes)


cdef int64_t _time_of(const Fragment* fragment) except? -2:
    """The time stamp of a record that is no message; -1 if it has none."""
    try:
        found = ordo_codecs.decode_any(
            PyBytes_FromStringAndSize(<const char*> fragment.payload, fragment.length_bytes))
    except DecodeError:
        return -1
    return -1 if found is None else getattr(found[1], "timestamp", -1)
