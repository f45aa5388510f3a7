from ordo.runtime.native.memory import Memory, MemoryProvider
from ordo.transport.control.broadcast import BroadcastReceiver, BroadcastTransmitter
from ordo.transport.control.ring import ManyToOneRing

FILE_NAME: str
VERSION: int
VERSION_MAJOR: int
TO_DRIVER_CAPACITY_DEFAULT: int
TO_CLIENTS_CAPACITY_DEFAULT: int
COUNTERS_VALUES_LENGTH_DEFAULT: int
ERROR_LOG_LENGTH_DEFAULT: int

class CncFile:
    memory: Memory
    to_driver: ManyToOneRing
    to_clients: Memory
    counters_metadata: Memory
    counters_values: Memory
    error_log: Memory
    def __init__(self, memory: Memory) -> None: ...
    @property
    def version(self) -> int: ...
    @property
    def client_liveness_timeout_ns(self) -> int: ...
    @property
    def start_timestamp_ms(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def page_size(self) -> int: ...
    def transmitter(self) -> BroadcastTransmitter: ...
    def receiver(self) -> BroadcastReceiver: ...
    def mark_ready(self, now_ms: int) -> None: ...
    def append_label(self, counter_id: int, text: str) -> None: ...
    def close(self) -> None: ...

def create_cnc(
    memory: MemoryProvider,
    path: str,
    *,
    client_liveness_timeout_ns: int,
    start_timestamp_ms: int,
    pid: int,
    to_driver_capacity: int = ...,
    to_clients_capacity: int = ...,
    counters_values_length: int = ...,
    error_log_length: int = ...,
    page_size: int = 4096,
    reserve: bool = False,
) -> CncFile: ...
def map_cnc(memory: MemoryProvider, path: str, writable: bool = True) -> CncFile | None: ...
def try_open_cnc(memory: MemoryProvider, path: str, now_ms: int, driver_timeout_ms: int) -> CncFile | None: ...
def describe_version(version: int) -> str: ...
