"""Which requests are traced, and what their parties tell of them."""

from __future__ import annotations

import struct

from ordo.cluster.wire.counters.traces import (
    FOLLOWER_POINTS,
    LOG_POINTS,
    SERVICE_POINTS,
    FollowerTraces,
    LogTraces,
    ServiceTraces,
    create_traces,
    find_traces,
    is_traced,
    threshold_of,
)
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.memory import HeapMemoryProvider

FOLDER = "/driver"
ALL = threshold_of(1.0)
IDENTITY = bytes(range(16))
PENDING_MAX = 256


class Bench:
    """Both halves, on a clock of their own, and who reads what they tell."""

    def __init__(self, threshold: int = ALL) -> None:
        self.clock = VirtualClock(1_000)
        memory = HeapMemoryProvider()
        ring = create_traces(memory, FOLDER, 0)
        self.log = LogTraces(ring, self.clock, threshold)
        self.follower = FollowerTraces(ring, self.clock, threshold)
        self.service = ServiceTraces(ring, self.clock, threshold)
        found = find_traces(memory, FOLDER, 0)
        assert found is not None and find_traces(memory, FOLDER, 1) is None
        self._ring = found

    def read(self) -> list[tuple[int, bytes]]:
        records: list[tuple[int, bytes]] = []
        self._ring.read(lambda kind, payload: records.append((kind, payload)), 10_000)
        return records


def test_the_decision_is_the_same_everywhere_and_for_ever() -> None:
    sampled = [number for number in range(100_000) if is_traced(4_096, number, threshold_of(0.01))]
    assert 900 < len(sampled) < 1_100
    assert sampled[:3] == [33, 248, 498], "members and clients of other versions decide by these"
    assert set(sampled) <= {number for number in range(100_000) if is_traced(4_096, number, threshold_of(0.1))}
    assert not is_traced(4_096, 1, threshold_of(0.0))
    assert all(is_traced(position, 1, ALL) for position in range(0, 320_000, 32))


def test_the_log_tells_when_a_request_was_taken_appended_and_committed() -> None:
    bench = Bench()
    bench.log.cycle_ns = 990
    assert bench.log.take(64, 7, 320)
    bench.clock.advance(5)
    bench.log.send()
    bench.clock.advance(5)
    bench.log.send()
    bench.log.look(320, 256, True, bench.clock.now())
    bench.clock.advance(10)
    bench.log.look(320, 320, True, bench.clock.now())
    assert not bench.log.is_under_way
    assert bench.read() == [(LOG_POINTS, struct.pack("<7q", 64, 7, 990, 1_000, 1_005, 1_010, 1_020))]


def test_a_follower_tells_when_a_request_was_recorded_durable_and_acknowledged() -> None:
    bench = Bench()
    for cycle_ns, position in ((900, 256), (950, 320), (960, 320), (970, 512)):
        bench.follower.cycle_ns = cycle_ns
        bench.follower.note(position)
    assert bench.follower.take(64, 7, 320) and bench.follower.take(64, 8, 352)
    bench.clock.advance(10)
    assert bench.follower.has_unsent
    bench.follower.send()
    assert not bench.follower.has_unsent
    assert bench.read() == [
        (FOLLOWER_POINTS, struct.pack("<5q", 64, 7, 950, 1_000, 1_010)),
        (FOLLOWER_POINTS, struct.pack("<5q", 64, 8, 970, 1_000, 1_010)),
    ]
    assert not Bench(threshold=0).follower.take(64, 7, 320)


def test_a_follower_that_took_long_to_sync_knows_no_more_when_it_recorded() -> None:
    bench = Bench()
    for cycle in range(2 * PENDING_MAX):
        bench.follower.cycle_ns = cycle
        bench.follower.note(32 * cycle + 32)
    assert bench.follower.take(64, 7, 64)
    assert sum(bench.follower.take(64, number, 64) for number in range(2 * PENDING_MAX)) == PENDING_MAX - 2
    bench.follower.send()
    assert struct.unpack_from("<3q", bench.read()[0][1]) == (64, 7, PENDING_MAX), "the oldest cycle that it knows"


def test_who_leads_no_more_tells_nothing_and_room_is_bounded() -> None:
    bench = Bench()
    bench.log.take(64, 7, 320)
    bench.log.look(256, 256, False, bench.clock.now())
    bench.log.look(320, 320, True, bench.clock.now())
    assert bench.read() == []
    taken = sum(bench.log.take(64, number, 320) for number in range(2 * PENDING_MAX))
    bench.log.look(320, 320, True, bench.clock.now())
    assert taken == len(bench.read()) == PENDING_MAX


def test_the_service_tells_when_it_was_called_and_its_answer_sent() -> None:
    bench = Bench()
    assert bench.service.begin(64, 7, IDENTITY)
    bench.clock.advance(5)
    bench.service.end()
    bench.service.end()
    bench.clock.advance(5)
    assert bench.service.has_unsent
    bench.service.send()
    assert bench.read() == [(SERVICE_POINTS, struct.pack("<5q16s", 64, 7, 1_000, 1_005, 1_010, IDENTITY))]
    assert not bench.service.has_unsent
    nothing = Bench(threshold=0)
    assert not nothing.service.begin(64, 7, IDENTITY) and not nothing.log.take(64, 7, 320)
