"""Archives in temporary folders, on real files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.archive import Archive
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import VirtualClock
from tests.archive.served import Served
from tests.archive.streams import Sink


@pytest.fixture
def storage() -> FileStorage:
    return FileStorage(open_lmdb)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def open_archive(tmp_path: Path, storage: FileStorage, sink: Sink) -> Iterator[Callable[..., Archive]]:
    """Opens an archive in the test's folder; all are closed at the end."""
    opened: list[Archive] = []

    def open_one(**options: Any) -> Archive:
        settings: dict[str, Any] = {
            "storage": storage,
            "clock": VirtualClock(),
            "client": sink,
            "sync": "none",
            "segment_length_bytes": 64 * 1024,
            "low_space_bytes": 0,
        }
        archive = Archive(str(tmp_path / "archive"), **(settings | options))
        opened.append(archive)
        return archive

    yield open_one
    for archive in opened:
        archive.close()


@pytest.fixture
def fresh_archive(open_archive: Callable[..., Archive]) -> Callable[..., Archive]:
    """Like `open_archive`, for tests with many examples: closes the archive of the example before, failed or not."""
    last: list[Archive] = []

    def open_next(**options: Any) -> Archive:
        while last:
            last.pop().close()
        last.append(open_archive(**options))
        return last[-1]

    return open_next


@pytest.fixture
def served(tmp_path: Path, shm_path: Path, free_port: Callable[[], int]) -> Iterator[Served]:
    with Served(free_port(), tmp_path / "archive", shm_path / "driver") as one:
        yield one
