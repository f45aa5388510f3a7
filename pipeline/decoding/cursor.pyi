from ordo.archive.segments.catalog import RecordingDescriptor

FAULT_NAMES: dict[int, str]

class MessageCursor:
    path: str
    segment_base: int
    position: int
    limit: int
    fault: int
    fault_position: int
    expected: int
    actual: int
    def __init__(
        self,
        path: str,
        descriptor: RecordingDescriptor,
        segment_base: int,
        start: int,
        limit: int,
        verify: bool = True,
        exact: bool = True,
        file: int = -1,
    ) -> None: ...
    def raise_fault(self) -> None: ...
