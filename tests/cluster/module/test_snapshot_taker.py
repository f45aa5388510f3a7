"""What services tell of two snapshots that follow each other, as the consensus module takes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.module.snapshots import snapshot_taker
from ordo.cluster.module.snapshots.copied_snapshots import CapturedState
from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.module_snapshot import SnapshotPoint
from ordo.cluster.wire.snapshots.snapshot_digest import combine, digest_of

OWN, COPIED = SnapshotPoint(64, 0, 1), SnapshotPoint(128, 0, 1)
MODULE = b"module"
SERVICES = digest_of([b"a"]), digest_of([b"b"])
HEADS = digest_of([b"c"]), digest_of([b"d"])


class Module:
    """A member of two services: what it has stored, and what it has kept to compare a standby's snapshots with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stored: dict[int, bytes] = {}
        self.captured: list[CapturedState] = []
        self.held: set[int] = set()
        writer = SimpleNamespace(work=lambda: True, recording_id=9)
        monkeypatch.setattr(snapshot_taker, "SnapshotWriter", lambda *_: writer)
        monkeypatch.setattr(module_snapshot, "encode", lambda captured: [MODULE])
        silent: Any = lambda *_: None  # noqa: E731
        host = SimpleNamespace(
            pause_execution=silent,
            go_on=silent,
            snapshot_done=silent,
            capture_snapshot=silent,
            await_copy=self.captured.append,
            executed_position=OWN.log_position,
        )
        shelf = SimpleNamespace(add=lambda entry, digest: self.stored.update({entry.log_position: digest}))
        sequencer = SimpleNamespace(hold_service=self.held.add, release_service=self.held.discard)
        self.taker = SnapshotTaker(
            cast("Any", SimpleNamespace(client=None, archive=SimpleNamespace(record_subscription=silent))),
            cast("Any", shelf),
            cast("Any", host),
            cast("Any", SimpleNamespace(announce=silent, record_error=silent)),
            cast("Any", SimpleNamespace(core=SimpleNamespace(terms=[(0, 0)]), sequencer=sequencer)),
            cast("Any", SimpleNamespace(on_snapshot_taken=silent)),
            cast("Any", SimpleNamespace(now=lambda: 0)),
            cast("Any", SimpleNamespace(service_count=2, cluster_id=0)),
        )

    def end_own(self, service_id: int) -> None:
        self.taker.on_service_digest(service_id, OWN.log_position, SERVICES[service_id])
        self.taker.on_service_ack(service_id, OWN.log_position, 0, 20 + service_id)

    def describe(self, service_id: int) -> None:
        self.taker.on_service_digest(service_id, COPIED.log_position, HEADS[service_id])
        self.taker.on_service_begun(service_id, COPIED.log_position, -1)


def test_a_service_that_is_ahead_of_another_spoils_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot without its digest counts for no quorum, and a state without one can be compared with no copy."""
    module = Module(monkeypatch)
    module.taker.begin(OWN, 0)
    module.end_own(0)
    module.describe(0)
    module.end_own(1)
    module.taker.work()
    assert module.stored == {OWN.log_position: combine(*SERVICES, digest_of([MODULE]))}
    module.taker.begin(COPIED, 0, is_copied=True)
    module.describe(1)
    assert [one.heads for one in module.captured] == [HEADS] and not module.held
    assert not module.taker.is_under_way
