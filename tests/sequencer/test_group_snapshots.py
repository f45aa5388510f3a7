"""Snapshots of groups in a served archive, which runs as a process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from ordo.applications.group_snapshots import KEPT, PIECE_BYTES, GroupSnapshot, GroupSnapshots, find_snapshot
from ordo.applications.snapshot_keeper import SnapshotKeeper, SnapshotPlace
from ordo.cluster.wire.log_identity import Origin
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, ConfigurationError
from ordo.runtime.native.clock import VirtualClock
from tests.archive.served import Served
from tests.patience import patient


@pytest.fixture
def served(tmp_path: Path, shm_path: Path, free_port: Callable[[], int]) -> Iterator[Served]:
    with Served(free_port(), tmp_path / "archive", shm_path / "driver") as one:
        yield one


def keep(served: Served, group: str) -> GroupSnapshots:
    return GroupSnapshots(served.address, group, timeout_s=patient(10.0))


def test_the_newest_whole_snapshot_of_a_group_is_found(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = [b"a", b"", b"b" * 3 * PIECE_BYTES], [b"second"]
    with keep(served, "pricing") as snapshots, keep(served, "other") as other:
        assert snapshots.newest() is None and snapshots.age_ms(0) is None
        snapshots.store(first, 100)
        assert snapshots.newest() == GroupSnapshot(first) and other.newest() is None
        snapshots.store(second, 200, Origin(b"1" * 16, 96))
        assert find_snapshot(served.address, "pricing") == (second, (b"1" * 16, 96))
        age_ms = snapshots.age_ms(round(time.time() * 1000))
        assert age_ms is not None and 0 <= age_ms < 60_000
        for number in range(3):
            snapshots.store([b"%d" % number], 300)
        assert len(snapshots._recordings()) == KEPT
        other.store(second, 1)
        assert other.newest() == (second, None) and snapshots.newest() == ([b"2"], None)

        def die(*_: object) -> int:
            raise ArchiveError("the instance dies")

        monkeypatch.setattr(snapshots, "_await_recorded", die)
        monkeypatch.setattr("ordo.applications.group_snapshots.crc32", lambda _: 7)
        with pytest.raises(ArchiveError, match="dies"):
            snapshots.store(first, 400)
        monkeypatch.undo()
        assert snapshots.newest() == ([b"2"], None), "what is not whole is passed over"


def test_what_is_no_archive_is_said(served: Served, free_port: Callable[[], int]) -> None:
    for address in ("host", "host:", ":9", "host:65535"):
        with pytest.raises(ConfigurationError, match="must be HOST:PORT"):
            GroupSnapshots(address, "pricing")
    with pytest.raises(ArchiveTimeoutError):
        GroupSnapshots(f"127.0.0.1:{free_port()}", "pricing", timeout_s=0.2)


class Instance:
    """An application, and its transport, as far as a keeper looks at them."""

    def __init__(self) -> None:
        self.executor = self
        self.clock = VirtualClock(epoch_offset_ns=time.time_ns() - 120 * 10**9)
        self.position = 100
        self.origin = Origin(b"1" * 16, 96)

    def take_snapshot(self) -> list[bytes]:
        return [b"at %d" % self.position]


def work(keeper: SnapshotKeeper, one: Any, seconds: float) -> list[Any]:
    """Returns what was logged when so much time had passed."""
    one.clock.advance(round(seconds * 1e9))
    with structlog.testing.capture_logs() as logged:
        keeper.work(one, one)
    return [line["event"] for line in logged]


def test_an_instance_leaves_a_snapshot_when_the_newest_is_old(served: Served) -> None:
    one, place = Instance(), SnapshotPlace(served.address, 60, timeout_s=30)
    keeper, other = SnapshotKeeper(place, "pricing"), SnapshotKeeper(place, "pricing")
    assert keeper.find() is None
    assert work(keeper, one, 0) == work(keeper, one, 59) == work(other, one, 0) == []
    assert work(keeper, one, 1) == ["app.snapshot_left"]
    one.position = 200
    assert work(other, one, 59) == [], "the other instance has just left one"
    assert other.find() == ([b"at 100"], one.origin)
    assert work(keeper, one, 70) == ["app.snapshot_left"]
    assert work(keeper, one, 90) == [], "nothing has come since"
    assert keeper.find() == ([b"at 200"], one.origin)


def test_an_archive_that_cannot_be_reached_ends_nothing(free_port: Callable[[], int]) -> None:
    keeper, one = SnapshotKeeper(SnapshotPlace(f"127.0.0.1:{free_port()}", 60, timeout_s=0.2), "pricing"), Instance()
    assert work(keeper, one, 0) == []
    assert work(keeper, one, 60) == ["app.snapshot"]
    assert work(keeper, one, 59) == []
    with pytest.raises(ConfigurationError, match="interval_s=0"):
        SnapshotPlace("host:1", 0)
