from typing import final

from runtime.memory import Memory, MemoryProvider

LOG_TYPE_CONCURRENT: int
LOG_TYPE_EXCLUSIVE: int
LOG_TYPE_IMAGE: int
END_OF_STREAM_UNKNOWN: int
PAGE_SIZE_MIN: int
PAGE_SIZE_MAX: int
MTU_MAX: int

def log_length_bytes(term_length: int, page_size: int = ...) -> int: ...
def check_term_length(term_length: int) -> int: ...
def check_mtu(mtu: int) -> int: ...
def check_page_size(page_size: int) -> int: ...

@final
class LogBuffers:
    term_length: int
    term_shift: int
    mtu: int
    initial_term_id: int
    session_id: int
    stream_id: int
    correlation_id: int
    connected: bool
    eos_position: int
    def __init__(self, memory: Memory) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def tail_position(self) -> int: ...
    @property
    def term_count(self) -> int: ...
    @property
    def transport_count(self) -> int: ...
    @property
    def revoked(self) -> bool: ...
    def revoke(self) -> None: ...
    def tails(self) -> list[tuple[int, int]]: ...
    def view(self) -> memoryview: ...
    def clean_range(self, from_position: int, to_position: int) -> int: ...
    def default_header(self) -> bytes: ...
    def close(self) -> None: ...

def open_log(memory: MemoryProvider, path: str, writable: bool = True) -> LogBuffers: ...
def create_log(
    memory: MemoryProvider,
    path: str,
    *,
    term_length: int,
    mtu: int,
    initial_term_id: int,
    session_id: int,
    stream_id: int,
    correlation_id: int,
    log_type: int,
    term_id: int | None = None,
    term_offset: int = 0,
    page_size: int = ...,
    sparse: bool = True,
    **parameters: int,
) -> LogBuffers: ...
