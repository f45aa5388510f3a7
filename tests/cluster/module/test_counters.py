"""Counters of a consensus module that more than one event feeds."""

from types import SimpleNamespace

from ordo.cluster.module.state.counters import ModuleCounters, SnapshotCounters
from ordo.runtime.native.counters import local_counter


def test_the_longest_snapshot_and_the_slow_ones_are_counted() -> None:
    counters = SimpleNamespace(
        snapshot_count=local_counter(),
        snapshots=SnapshotCounters(*(local_counter() for _ in range(4))),
    )
    for duration_ns in (5_000_000, 1_000_000_001, 1_000_000_000):
        ModuleCounters.on_snapshot_taken(counters, duration_ns)  # type: ignore[arg-type]
    assert counters.snapshot_count.value == 3
    assert counters.snapshots.longest.value == 1_000_000_001
    assert counters.snapshots.exceeded.value == 1
