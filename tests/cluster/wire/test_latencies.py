"""Samples of how long things take: what a leader marks, and what the service's side makes of it."""

from __future__ import annotations

from ordo.cluster.wire.counters.latencies import (
    LENGTH_BYTES,
    STAGES,
    Latencies,
    LogSamples,
    ServiceSamples,
    latencies_path,
)
from ordo.cluster.wire.counters.look_durations import durations_from_numbers, durations_to_numbers
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.durations import Durations
from ordo.runtime.native.memory import HeapMemoryProvider

FOLDER = "/driver"
MARK_COUNT_MAX = 960


class Bench:
    """A file with both halves, on a clock of its own."""

    def __init__(self) -> None:
        self.clock = VirtualClock(1_000_000_000)
        self.memory = HeapMemoryProvider()
        self.latencies = Latencies.create(self.memory, FOLDER, 7)
        self.log = LogSamples(self.latencies, self.clock)
        other = Latencies.find(self.memory, FOLDER, 7, writable=True)
        assert other is not None
        self.service = ServiceSamples(other, self.clock)

    def take(self, position: int) -> None:
        self.log.take(position, self.clock.now())

    def read(self, stage: str) -> Durations:
        found = Latencies.find(self.memory, FOLDER, 7)
        assert found is not None
        return found.read()[stage]


def test_a_message_is_seen_through_all_stages() -> None:
    bench = Bench()
    bench.take(96)
    bench.clock.advance(2_000)
    bench.log.look(64, 64, True, bench.clock.now())
    assert bench.log.is_under_way, "it is not durable yet"
    bench.log.look(96, 64, True, bench.clock.now())
    bench.clock.advance(3_000)
    bench.log.look(96, 96, True, bench.clock.now())
    bench.service.look(64, True)
    bench.clock.advance(5_000)
    bench.service.look(96, True)
    started_ns = bench.service.begin_callback(bench.clock.now())
    bench.clock.advance(700)
    bench.service.end_callback(started_ns)
    sums = {stage: bench.read(stage) for stage in STAGES}
    assert {stage: one.sum_ns for stage, one in sums.items()} == {
        "append": 2_000, "sync": 0, "commit": 5_000, "callback": 700, "round_trip": 10_000,
    }  # fmt: skip
    assert {stage: one.count for stage, one in sums.items() if one.count} == dict.fromkeys(set(STAGES) - {"sync"}, 1)
    assert not bench.log.is_under_way
    assert bench.log.next_ns == 1_001_000_000
    assert durations_from_numbers(durations_to_numbers(sums), "commit").counts == sums["commit"].counts


def test_who_leads_no_more_notes_nothing_of_what_it_had_marked() -> None:
    bench = Bench()
    bench.take(96)
    bench.log.look(64, 64, False, bench.clock.now())
    bench.service.look(64, False)
    bench.log.look(96, 96, True, bench.clock.now())
    bench.service.look(96, True)
    assert [bench.read(stage).count for stage in STAGES] == [0] * len(STAGES)


def test_marks_beyond_the_room_are_left_out() -> None:
    bench = Bench()
    for index in range(2 * MARK_COUNT_MAX):
        bench.take(32 + 32 * index)
    bench.log.look(1 << 40, 1 << 40, True, bench.clock.now())
    bench.service.look(1 << 40, True)
    assert [bench.read(stage).count for stage in ("append", "commit", "round_trip")] == [MARK_COUNT_MAX] * 3
    for index in range(200):
        bench.take(1_000_000 + 32 * index)
        bench.log.look(1 << 40, 1 << 40, True, bench.clock.now())
    bench.service.look(1 << 40, True)
    assert bench.read("round_trip").count == MARK_COUNT_MAX + 200


def test_a_service_that_is_far_behind_passes_over_what_may_be_written_over() -> None:
    bench = Bench()
    for index in range(5_000):
        bench.take(32 + 32 * index)
        bench.log.look(1 << 40, 1 << 40, True, bench.clock.now())
    bench.service.look(1 << 40, True)
    assert bench.read("round_trip").count == MARK_COUNT_MAX


def test_a_file_of_a_dead_node_is_replaced_and_one_of_another_layout_is_none() -> None:
    bench = Bench()
    bench.take(32)
    bench.log.look(32, 32, True, bench.clock.now())
    fresh = Latencies.create(bench.memory, FOLDER, 7)
    assert fresh.read()["append"].count == 0
    assert Latencies.find(bench.memory, FOLDER, 8) is None
    for cluster_id, length_bytes in ((8, LENGTH_BYTES), (9, 64)):
        bench.memory.create(latencies_path(FOLDER, cluster_id), length_bytes)
        assert Latencies.find(bench.memory, FOLDER, cluster_id) is None
