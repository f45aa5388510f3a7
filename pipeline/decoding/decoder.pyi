from collections.abc import Iterable

import pyarrow as pa

from ordo.pipeline.decoding.batches import BatchBuilder
from ordo.pipeline.decoding.cursor import MessageCursor

class RowSelection:
    def __init__(
        self,
        position_min: int | None = None,
        position_max: int | None = None,
        time_min: int | None = None,
        time_max: int | None = None,
        kinds: Iterable[str] | None = None,
        sessions: Iterable[int] | None = None,
    ) -> None: ...

class RecordDecoder:
    scanned_messages: int
    def __init__(self, cursor: MessageCursor, selection: RowSelection, batches: BatchBuilder, is_log: bool) -> None: ...
    def next_batch(self) -> pa.RecordBatch | None: ...
