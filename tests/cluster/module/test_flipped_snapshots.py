"""Disks that lie: no flip of any single bit of a snapshot is started from, or given to another member, as good."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.archive import Archive
from ordo.archive.inspection.recording_inspection import verify_recording
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.sessions.sessions import ClusterSession
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.module_snapshot import ModuleSnapshot, SnapshotPoint
from ordo.cluster.module.state.recovery import Recovery
from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.cluster.wire.streams import MODULE_SNAPSHOT_STREAM_ID, SERVICE_SNAPSHOT_STREAM_ID
from ordo.runtime.errors import CorruptFrameError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import VirtualClock
from ordo.service_api.service import TimeUnit
from tests.archive.streams import MTU, Sink, Stream
from tests.archive.test_flipped_bits import flips
from tests.archive.test_recorder import send

POSITION = 640
SESSION = ClusterSession(1, 81, 256, 102, "aeron:udp?endpoint=localhost:39384")
MODULE = ModuleSnapshot(SnapshotPoint(POSITION, 3, 1), 2, [SESSION], [(7, 1000)], terms=[(3, 0)])
SERVICE = ServiceSnapshot(POSITION, 3, TimeUnit.MILLIS, 1, (), ((7, 1000),))
OWN_DATA = (b"state", b"in fragments" * (MTU // 12 + 10), b"")


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    found = Archive(
        str(tmp_path),
        storage=FileStorage(open_lmdb),
        clock=VirtualClock(),
        client=Sink(),
        sync="none",
        segment_length_bytes=65536,
        low_space_bytes=0,
    )
    yield found
    found.close()


def record(archive: Archive, stream_id: int, messages: list[bytes]) -> int:
    stream = Stream(stream_id=stream_id)
    recording = archive.record(stream.image)
    for message in messages:
        send(archive, stream, message)
    archive.do_work(0)
    archive.stop(recording)
    return int(recording.recording_id)


def messages_of(archive: Archive, entry: SnapshotEntry) -> list[bytes]:
    """What another member would be given. Raises CorruptFrameError."""
    parts = entry.module_recording_id, entry.service_recording_id
    return [message.payload for part in parts for message in archive.reader(part, None).messages()]


class Cells(dict[bytes, bytes]):
    """A metadata store without a disk."""

    def items(self, prefix: bytes = b"") -> Any:
        return [row for row in super().items() if row[0].startswith(prefix)]

    def transaction(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def put(self, key: bytes, value: bytes) -> None:
        self[key] = value

    def delete(self, key: bytes) -> None:
        self.pop(key, None)


def start(archive: Archive, entry: SnapshotEntry) -> ModuleSnapshot | None:
    """What a member begins with whose log begins behind the snapshot."""
    cells: Any = Cells()
    store = StateStore(cells)
    store.install(entry, b"d" * 16, MODULE.terms)
    config: Any = SimpleNamespace(rejoin=False, check_log=False, service_count=1)
    return Recovery(archive, store, config).contents


@pytest.mark.parametrize("part", ["module", "service"])
def test_no_bit_of_a_snapshot(archive: Archive, part: str) -> None:
    service_id = record(archive, SERVICE_SNAPSHOT_STREAM_ID, [*container_snapshot.encode(SERVICE), *OWN_DATA])
    module_id = record(archive, MODULE_SNAPSHOT_STREAM_ID, list(module_snapshot.encode(MODULE)))
    entry = SnapshotEntry(POSITION, 3, 0, 1000, service_id, module_id, True)
    good = messages_of(archive, entry)
    assert start(archive, entry) == MODULE
    descriptor = archive.descriptor(module_id if part == "module" else service_id)
    found = 0
    for offset, bit in flips(Path(archive.directory, f"{descriptor.recording_id}-0.rec"), 0, descriptor.stop_position):
        where = f"offset={offset} bit={bit}"
        try:
            assert messages_of(archive, entry) == good, where
            assert start(archive, entry) == MODULE, where
        except CorruptFrameError:
            assert start(archive, entry) is None, where
            assert not verify_recording(archive.storage, archive.directory, descriptor).is_good, where
            found += 1
    assert start(archive, entry) == MODULE
    assert found == 8 * descriptor.stop_position
