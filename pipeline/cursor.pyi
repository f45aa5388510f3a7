from typing import Protocol

FAULT_NAMES: tuple[str, ...]

class Layout(Protocol):
    segment_base: int
    segment_length_bytes: int
    term_length_bytes: int
    initial_term_id: int
    stream_id: int
    checksum: bool

class SegmentCursor:
    path: str
    position: int
    limit: int
    fault: int
    fault_position: int
    expected: int
    actual: int
    def __init__(self, path: str, layout: Layout, start: int, limit: int, verify: bool = True,
                 exact: bool = True) -> None: ...
    def raise_fault(self) -> None: ...
