"""The counters-and-control file `cnc.dat`: header and five buffers (cnc-and-driver-protocol.md §2).

```
 0        128
 +--------+-----------+------------+-------------------+-----------------+-----------+
 | header | to driver | to clients | counters metadata | counters values | error log |
 +--------+-----------+------------+-------------------+-----------------+-----------+
```
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ordo.runtime.native.atomics cimport (ordo_get_i32, ordo_get_i64, ordo_load_acquire_i32, ordo_put_i32, ordo_put_i64,
                              ordo_store_release_i32)
from ordo.runtime.native.counters cimport COUNTER_LABEL_LENGTH_MAX, COUNTER_METADATA_LENGTH, COUNTER_VALUE_LENGTH
from ordo.runtime.native.memory cimport Memory, MemoryProvider
from ordo.transport.control.broadcast cimport BROADCAST_TRAILER_LENGTH, BroadcastReceiver, BroadcastTransmitter
from ordo.transport.control.ring cimport RING_TRAILER_LENGTH, ManyToOneRing

from ordo.runtime.errors import ConfigurationError, StorageError, StorageFullError, StorageMissingError, TransportError

FILE_NAME = "cnc.dat"
VERSION = 0x00000200
VERSION_MAJOR = 0
TO_DRIVER_CAPACITY_DEFAULT = 1 << 20
TO_CLIENTS_CAPACITY_DEFAULT = 1 << 20
COUNTERS_VALUES_LENGTH_DEFAULT = 1 << 20
ERROR_LOG_LENGTH_DEFAULT = 1 << 20

cdef enum:
    HEADER_LENGTH = 128
    OFFSET_VERSION = 0
    OFFSET_TO_DRIVER = 4
    OFFSET_TO_CLIENTS = 8
    OFFSET_METADATA = 12
    OFFSET_VALUES = 16
    OFFSET_ERROR_LOG = 20
    OFFSET_LIVENESS_TIMEOUT = 24
    OFFSET_START_TIMESTAMP = 32
    OFFSET_PID = 40
    OFFSET_PAGE_SIZE = 48
    METADATA_PER_VALUES = 4
    LABEL_LENGTH_OFFSET = 128
    LABEL_OFFSET = 132


cdef class CncFile:
    """A mapped `cnc.dat`. `create_cnc` makes it for a driver, `try_open_cnc` opens a ready one.

    Slices of it (`counters_metadata`, `counters_values`, `error_log`) must be closed or dropped before `close`.
    """

    def __init__(self, Memory memory not None):
        cdef uint8_t* header = memory.data
        self.memory = memory
        lengths = [ordo_get_i32(header + OFFSET_TO_DRIVER + 4 * i) for i in range(5)]
        if min(lengths) <= 0 or HEADER_LENGTH + sum(lengths) > memory.length_bytes:
            raise TransportError(
                f"{memory.path!r} is {memory.length_bytes} bytes long, its buffers {lengths} do not fit")
        starts = [HEADER_LENGTH + sum(lengths[:i]) for i in range(5)]
        self.to_driver = ManyToOneRing(memory.slice(starts[0], lengths[0]))
        self.to_clients = memory.slice(starts[1], lengths[1])
        self.counters_metadata = memory.slice(starts[2], lengths[2])
        self.counters_values = memory.slice(starts[3], lengths[3])
        self.error_log = memory.slice(starts[4], lengths[4])

    @property
    def version(self) -> int:
        """Semantic version; 0 until the driver is ready."""
        return ordo_load_acquire_i32(self.memory.data + OFFSET_VERSION)

    @property
    def client_liveness_timeout_ns(self) -> int:
        return ordo_get_i64(self.memory.data + OFFSET_LIVENESS_TIMEOUT)

    @property
    def start_timestamp_ms(self) -> int:
        return ordo_get_i64(self.memory.data + OFFSET_START_TIMESTAMP)

    @property
    def pid(self) -> int:
        return ordo_get_i64(self.memory.data + OFFSET_PID)

    @property
    def page_size(self) -> int:
        """File page size of the driver; files older than 1.48 have none and mean 4096."""
        return ordo_get_i32(self.memory.data + OFFSET_PAGE_SIZE) or 4096

    def transmitter(self) -> BroadcastTransmitter:
        """Return the transmitter of the broadcast to clients, for the driver; make only one."""
        return BroadcastTransmitter(self.to_clients)

    def receiver(self) -> BroadcastReceiver:
        """Return a receiver of the driver's broadcast, for a client."""
        return BroadcastReceiver(self.to_clients)

    def mark_ready(self, int64_t now_ms) -> None:
        """Open the file to clients, once the counters are in place: the driver takes correlation id 0, sets the
        heartbeat and publishes the version."""
        self.to_driver.next_correlation_id()
        self.to_driver.consumer_heartbeat_ms = now_ms
        ordo_store_release_i32(self.memory.data + OFFSET_VERSION, VERSION)

    def append_label(self, int32_t counter_id, str text) -> None:
        """Add to the label of an allocated counter as far as there is room; a client does so for its heartbeat."""
        cdef uint8_t* record
        cdef int32_t length
        cdef bytes added = text.encode("ascii", "replace")
        if counter_id < 0 or counter_id >= self.counters_values.length_bytes // COUNTER_VALUE_LENGTH:
            raise TransportError(f"counter_id={counter_id} is outside the counters file")
        record = self.counters_metadata.data + <int64_t> counter_id * COUNTER_METADATA_LENGTH
        length = min(max(ordo_load_acquire_i32(record + LABEL_LENGTH_OFFSET), 0), COUNTER_LABEL_LENGTH_MAX)
        added = added[:COUNTER_LABEL_LENGTH_MAX - length]
        memcpy(record + LABEL_OFFSET + length, <const char*> added, len(added))
        ordo_store_release_i32(record + LABEL_LENGTH_OFFSET, length + <int32_t> len(added))

    def close(self) -> None:
        """Unmap the file. Rings, receivers, counters and slices taken from it must not be used any more."""
        self.to_driver = None
        for part in (self.to_clients, self.counters_metadata, self.counters_values, self.error_log):
            part.close()
        self.memory.close()


def create_cnc(
    MemoryProvider memory not None,
    path: str,
    *,
    client_liveness_timeout_ns: int,
    start_timestamp_ms: int,
    pid: int,
    to_driver_capacity: int = TO_DRIVER_CAPACITY_DEFAULT,
    to_clients_capacity: int = TO_CLIENTS_CAPACITY_DEFAULT,
    counters_values_length: int = COUNTERS_VALUES_LENGTH_DEFAULT,
    error_log_length: int = ERROR_LOG_LENGTH_DEFAULT,
    page_size: int = 4096,
    reserve: bool = False,
) -> CncFile:
    """Create the file with a filled header and version 0; `mark_ready` opens it to clients. Lengths in bytes.

    `reserve` has the pages of everything but the counters, which have theirs as they are allocated.
    """
    lengths = (to_driver_capacity + RING_TRAILER_LENGTH, to_clients_capacity + BROADCAST_TRAILER_LENGTH,
               METADATA_PER_VALUES * counters_values_length, counters_values_length, error_log_length)
    length = (HEADER_LENGTH + sum(lengths) + page_size - 1) // page_size * page_size
    if length >= 1 << 31:
        raise ConfigurationError(f"cnc.dat would be {length} bytes long, at most 2^31 - 1: choose smaller buffers")
    cdef Memory mapped = memory.create(path, length)
    cdef int i
    if reserve:
        try:
            mapped.reserve_range(0, HEADER_LENGTH + lengths[0] + lengths[1])
            mapped.reserve_range(HEADER_LENGTH + sum(lengths[:4]), lengths[4])
        except StorageFullError:
            mapped.close()
            memory.remove(path)
            raise
    for i in range(5):
        ordo_put_i32(mapped.data + OFFSET_TO_DRIVER + 4 * i, lengths[i])
    ordo_put_i64(mapped.data + OFFSET_LIVENESS_TIMEOUT, client_liveness_timeout_ns)
    ordo_put_i64(mapped.data + OFFSET_START_TIMESTAMP, start_timestamp_ms)
    ordo_put_i64(mapped.data + OFFSET_PID, pid)
    ordo_put_i32(mapped.data + OFFSET_PAGE_SIZE, page_size)
    return CncFile(mapped)


def map_cnc(MemoryProvider memory not None, path: str, writable: bool = True) -> CncFile | None:
    """Return the file if it is complete and its version is set, whether or not its driver is alive; None otherwise.

    Raises TransportError when the major version differs from ours.
    """
    cdef Memory mapped
    try:
        mapped = memory.open(path, writable)
    except StorageMissingError:
        return None
    except StorageError as error:
        if error.__cause__ is None:  # no failure of the system: created, but not sized yet
            return None
        raise
    cdef int32_t version = 0
    if mapped.length_bytes > HEADER_LENGTH:
        version = ordo_load_acquire_i32(mapped.data + OFFSET_VERSION)
    if version == 0 or not _is_complete(mapped):
        mapped.close()
        return None
    if version >> 16 != VERSION_MAJOR:
        mapped.close()
        raise TransportError(f"{path!r} has version {describe_version(version)}, ours is {describe_version(VERSION)}")
    return CncFile(mapped)


def try_open_cnc(MemoryProvider memory not None, path: str, now_ms: int, driver_timeout_ms: int) -> CncFile | None:
    """Return the file of a live driver, or None if it is missing, not ready, or without a heartbeat within the timeout
    (§2.2, §7.1)."""
    cnc = map_cnc(memory, path)
    if cnc is None:
        return None
    heartbeat_ms = cnc.to_driver.consumer_heartbeat_ms
    if heartbeat_ms <= 0 or now_ms - heartbeat_ms > driver_timeout_ms:
        cnc.close()
        return None
    return cnc


def describe_version(version: int) -> str:
    """Return a version as `major.minor.patch`."""
    return f"{version >> 16 & 0xFF}.{version >> 8 & 0xFF}.{version & 0xFF}"


cdef bint _is_complete(Memory mapped) except -1:
    cdef int64_t needed = HEADER_LENGTH
    cdef int i
    for i in range(5):
        needed += ordo_get_i32(mapped.data + OFFSET_TO_DRIVER + 4 * i)
    return mapped.length_bytes >= needed
