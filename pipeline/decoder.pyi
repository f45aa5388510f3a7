from collections.abc import Iterable, Sequence

import pyarrow as pa

from pipeline.cursor import MessageCursor

KIND_NAMES: tuple[str, ...]
COLUMN_NAMES: tuple[str, ...]
ARROW_TYPES: dict[str, pa.DataType]
NEVER_NULL: frozenset[str]

def arrow_schema(columns: Iterable[str]) -> pa.Schema: ...

class RowSelection:
    def __init__(
        self,
        position_min: int | None = None,
        position_max: int | None = None,
        start_position_min: int | None = None,
        start_position_max: int | None = None,
        time_min: int | None = None,
        time_max: int | None = None,
        kinds: Iterable[str] | None = None,
        sessions: Iterable[int] | None = None,
    ) -> None: ...

class ColumnBuffers:
    def __init__(self, name: str, rows: int, data_bytes: int) -> None: ...

class RecordDecoder:
    scanned_messages: int
    def __init__(
        self,
        cursor: MessageCursor,
        selection: RowSelection,
        columns: Sequence[str],
        recording_id: int,
        node: str,
        time_unit: int,
        is_log: bool,
        batch_rows: int = 32768,
        batch_bytes: int = 4194304,
    ) -> None: ...
    def next_batch(self) -> pa.RecordBatch | None: ...
