"""A stretch of a log read from its segment files, as a look into the index needs it: counted and timed, not decoded."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t

from ordo.archive.segments.reader cimport RecordingReader
from ordo.cluster.wire.layout cimport (
    SBE_HEADER_LENGTH,
    SCHEMA_ID,
    SESSION_HEADER_TIMESTAMP,
    is_logged_message,
    ordo_template_id,
    template_id,
)
from ordo.runtime.native.atomics cimport ordo_crc32c, ordo_get_i64, ordo_get_u16
from ordo.runtime.native.time_units cimport MICROSECOND_NS, MILLISECOND_NS
from ordo.transport.streams.image cimport Fragment

from ordo.cluster.wire import codecs, ordo_codecs


cdef enum:
    ENTRY_ORDINAL = 28
    ENTRY_CHECKSUM = 36
    ENTRY_LENGTH = 40
    TEMPLATES_MAX = 512


def checksum(const uint8_t[::1] data not None, uint32_t start=0):
    """Return the CRC32C of bytes, after those with the checksum `start`."""
    return ordo_crc32c(start, &data[0], data.shape[0]) if data.shape[0] > 0 else start


def count_valid(const uint8_t[::1] data not None, uint32_t ordinal):
    """Return how many entries are valid, from the first on, which has an ordinal: their checksums and ordinals."""
    cdef int64_t count = 0
    cdef const uint8_t* entry
    while (count + 1) * ENTRY_LENGTH <= data.shape[0]:
        entry = &data[count * ENTRY_LENGTH]
        if (<const uint32_t*> (entry + ENTRY_CHECKSUM))[0] != ordo_crc32c(0, entry, ENTRY_CHECKSUM):
            break
        if (<const uint32_t*> (entry + ENTRY_ORDINAL))[0] != <uint32_t> (ordinal + count):
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
    cdef readonly bint is_exhausted             # whether the walk has ended since it was too long
    cdef int64_t _last_position

    def __init__(self, RecordingReader reader not None, int64_t sequence, int64_t timestamp, set unnumbered not None,
                 int64_t bytes_max):
        """Walk on from the reader's position. `unnumbered`: where messages end that have no number.

        Records that begin more than `bytes_max` bytes behind it are not read.
        """
        self._reader = reader
        self._unnumbered = unnumbered
        self.sequence, self.timestamp = sequence, timestamp
        self.first_checksum = -1
        self.end_position = reader.position
        self.is_exhausted = False
        self._last_position = reader.position + bytes_max

    def walk(self, int64_t limit_position, int64_t sequence=INT64_MAX, int64_t time_ns=INT64_MAX):
        """Walk to the message of a number, or the first record not older than a time; return where it begins.

        -1 if there is none below the limit, or not up to where the walk ends. That record is not passed. Time stamps may be in any unit.
        """
        cdef Fragment fragment
        cdef bint is_message
        cdef int64_t time
        while True:
            if self._reader.position > self._last_position and self._reader.position < limit_position:
                self.is_exhausted = True
                break
            if self._reader.next(&fragment, limit_position) != 1:
                break
            if self.first_checksum < 0:
                self.first_checksum = ordo_crc32c(0, fragment.payload, fragment.length_bytes)
            is_message = is_logged_message(fragment.payload, fragment.length_bytes)
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


cdef int32_t _OFFSETS[TEMPLATES_MAX]         # where records of the cluster's schema have their time stamp; 0: nowhere
cdef int32_t _ORDO_OFFSETS[TEMPLATES_MAX]    # the same of Ordo's own


cdef int64_t _time_of(const Fragment* fragment) noexcept nogil:
    """The time stamp of a record that is no message; -1 if it has none."""
    cdef const int32_t* offsets = _OFFSETS
    cdef int template = template_id(fragment.payload, fragment.length_bytes)
    cdef int32_t offset
    if template < 0:
        offsets = _ORDO_OFFSETS
        template = ordo_template_id(fragment.payload, fragment.length_bytes)
    if template < 0 or template >= TEMPLATES_MAX:
        return -1
    offset = offsets[template]
    # what another release has left out of the block is not read
    if offset == 0 or offset + 8 > SBE_HEADER_LENGTH + ordo_get_u16(fragment.payload):
        return -1
    return ordo_get_i64(fragment.payload + offset)


def _note_offsets():
    for index in range(TEMPLATES_MAX):
        _OFFSETS[index] = _ORDO_OFFSETS[index] = 0
    for template, message in codecs.MESSAGES.items():
        _OFFSETS[template] = message.offset_of("timestamp") or 0
    for template, message in ordo_codecs.MESSAGES.items():
        _ORDO_OFFSETS[template] = message.offset_of("timestamp") or 0


_note_offsets()
