from collections.abc import Iterator
from typing import NamedTuple

from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.tail import RecordedTail
from ordo.runtime.io.storage import Storage

NO_LIMIT: int
ERROR_INVALID_POSITION: int

class RecordedMessage(NamedTuple):
    payload: bytes
    start_position: int
    position: int
    term_id: int

class RecordingReader:
    @property
    def position(self) -> int: ...
    @property
    def recording_id(self) -> int: ...
    @property
    def start_position(self) -> int: ...
    @property
    def stop_position(self) -> int: ...
    @property
    def term_length(self) -> int: ...
    def __init__(
        self, storage: Storage, directory: str, descriptor: RecordingDescriptor, position: int | None = None
    ) -> None: ...
    @classmethod
    def open(
        cls, storage: Storage, directory: str, recording_id: int, position: int | None = None
    ) -> RecordingReader: ...
    def follow(self, tail: RecordedTail) -> None: ...
    def seek(self, position: int) -> None: ...
    def messages(self, limit_position: int = ...) -> Iterator[RecordedMessage]: ...
    def skip_messages(self, limit_position: int = ...) -> tuple[int, int]: ...
