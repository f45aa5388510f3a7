from typing import Any

from ordo.pipeline.decoding.cursor import MessageCursor

FINDING_NAMES: dict[int, str]

class SegmentAudit:
    def __init__(self, cursor: MessageCursor, is_log: bool) -> None: ...
    def run(self) -> SegmentAudit: ...
    def result(self) -> dict[str, Any]: ...

def compare_segments(
    left: MessageCursor, right: MessageCursor, start: int, end: int, differences_max: int = 64
) -> list[tuple[int, int, int, int, bool]]: ...
