from collections.abc import Iterable, Sequence

import pyarrow as pa

KIND_NAMES: tuple[str, ...]
COLUMN_NAMES: tuple[str, ...]
BODY: str
IS_REPEAT: str
SEQUENCE: str
ARRIVAL: str
PLACES: tuple[str, ...]
ALL_COLUMN_NAMES: tuple[str, ...]
ARROW_TYPES: dict[str, pa.DataType]
NEVER_NULL: frozenset[str]

def arrow_schema(columns: Iterable[str]) -> pa.Schema: ...

class BatchMemory:
    def __init__(self, length_bytes: int) -> None: ...

class BatchBuilder:
    batch_rows: int
    batch_bytes: int
    def __init__(
        self,
        columns: Sequence[str],
        recording_id: int,
        node: str,
        time_unit: int,
        batch_rows: int = 32768,
        batch_bytes: int = 4194304,
    ) -> None: ...

def body_array(payload: pa.BinaryArray, prefix_kinds: object) -> pa.BinaryArray: ...
