"""What strangers may cause is bounded, each and all together; whoever was there before notices nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.runtime.errors import ConfigurationError
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.flow.admission import Admission
from tests.transport.driver_world import MS, Collector, Feeder, S, World, transfer
from tests.transport.test_hostile_stream import frame

HERE, FRIEND = "10.0.0.2", "10.0.0.1"
CHANNEL = f"aeron:udp?endpoint={HERE}:4000"
STREAM = 10
TERMS_TOO_LONG, SOURCE_FULL, FULL, TOO_FAST, PENDING_FULL, CONTRADICTING = range(48, 54)
OVER_RUNS, INVALID_PACKETS, BYTES_MAPPED = 13, 14, 35
LONG = 64 << 20


def setup(session: int, term_length: int = 65536, initial: int = 5, active: int = 5, offset: int = 0) -> bytes:
    return struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, offset, session, STREAM, initial, active, term_length, 1408, 0)


class Attacked:
    """A driver that a friend's stream goes to, and strangers with as many addresses as they like."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(counters_values_length=1 << 18, **settings)
        self.friend, self.node = self.world.node(FRIEND), self.world.node(HERE)
        self.collector = Collector(self.node.client.add_subscription(CHANNEL, STREAM))
        self.publication = self.friend.client.add_publication(CHANNEL, STREAM)
        self.world.until(lambda: self.publication.is_connected)
        self.work()

    def send(self, datagram: bytes, source: str = "10.9.9.9", port: int = 9) -> None:
        self.world.network.hosts[HERE].accept((source, port), (HERE, 4000), datagram)

    def work(self, count: int = 200) -> None:
        """The friend's stream goes on."""
        self.collector.messages.clear()
        transfer(self.world, Feeder(self.publication, count), [self.collector])

    def counted(self, index: int) -> int:
        return self.node.driver.system_counter(index)

    @property
    def images(self) -> int:
        return len(self.node.driver.conductor.subscriptions.images.all)


@pytest.fixture
def attacked() -> Iterator[Attacked]:
    made = Attacked(images_max=60, images_per_source_max=20)
    yield made
    made.world.close()


def flood(target: Attacked, count: int, sources: int = 1, **fields: int) -> None:
    for number in range(count):
        target.send(setup(number, **fields), f"10.9.{number % sources}.9", number)
        if number % 50 == 49:
            target.world.run(1 * MS)
    target.world.run(20 * MS)


def test_one_source_has_only_so_many_images(attacked: Attacked) -> None:
    flood(attacked, 500)
    assert attacked.images == 21
    assert attacked.counted(SOURCE_FULL) == 480
    attacked.work()
    other = attacked.world.node("10.0.0.3")
    late = other.client.add_publication(CHANNEL, STREAM)
    attacked.world.until(lambda: late.is_connected, 2 * S)


def test_all_sources_have_only_so_many_images(attacked: Attacked) -> None:
    flood(attacked, 500, sources=20)
    assert attacked.images == 60
    assert attacked.counted(FULL) == 441
    attacked.work()


def test_what_is_gone_makes_room_again(attacked: Attacked) -> None:
    flood(attacked, 30)
    attacked.world.run(40 * S, 20 * MS)
    assert attacked.images == 1, "nothing came of them"
    assert attacked.node.driver.system_counter(BYTES_MAPPED) < 10 << 20
    flood(attacked, 30)
    assert attacked.images == 21


@pytest.mark.parametrize(("elapsed_ns", "taken"), [(50_000, 128), (2 * MS, 288), (20 * MS, 1_000)])
def test_what_came_during_a_long_cycle_is_taken_in_the_next(attacked: Attacked, elapsed_ns: int, taken: int) -> None:
    """Sockets are read for a part of the time since the cycle before, so that thousands of streams, whose cycles are
    long, lose nothing in their buffers; a flood gets no more of a short cycle than it had."""
    world = attacked.world
    world.turn()
    world.clock.advance(elapsed_ns - world.step_ns)
    before = attacked.counted(INVALID_PACKETS)
    for _ in range(1_000):
        attacked.send(b"x" * 8)
    attacked.node.driver.do_work(world.clock.now())
    assert attacked.counted(INVALID_PACKETS) - before == taken
    world.run(10 * MS)
    assert attacked.counted(INVALID_PACKETS) - before == 1_000


def test_a_long_term_is_refused(attacked: Attacked) -> None:
    mapped = attacked.counted(BYTES_MAPPED)
    attacked.send(setup(1, term_length=1 << 30))
    attacked.world.run(10 * MS)
    assert attacked.counted(TERMS_TOO_LONG) == 1
    assert (attacked.images, attacked.counted(BYTES_MAPPED)) == (1, mapped)
    attacked.world.run(2_000 * MS)
    (text,) = [str(error) for error in attacked.node.errors]
    assert "image_term_length_max=67108864" in text


def test_memory_of_images_is_bounded() -> None:
    target = Attacked(image_memory_per_source_max=1 << 20, image_memory_max=3 << 20)
    flood(target, 10)
    assert target.images == 1 + 5
    flood(target, 300, sources=30)
    assert target.counted(FULL) > 0
    assert target.images <= 16
    target.work()
    target.world.close()


def test_set_ups_come_only_so_fast() -> None:
    target = Attacked(setups_per_source_rate=10, setups_per_source_burst=5)
    flood(target, 50)
    assert 5 <= target.images - 1 <= 8
    assert target.counted(TOO_FAST) == 50 - (target.images - 1)
    target.work()
    target.world.close()


def test_a_source_that_only_sets_up_has_few_images() -> None:
    """Whoever goes on sending is none of those any more; what came at once with the SETUP is no sign of it."""
    target = Attacked(unconfirmed_images_per_source_max=20)
    world = target.world

    def beat(sessions: range) -> None:
        for session in sessions:
            heartbeat = struct.pack("<iBBHiiiiq", 0, 0, 0xC0, 1, 0, session, STREAM, 5, 0)
            target.send(heartbeat, "10.9.0.9", session)
        world.run(1 * MS)

    flood(target, 10)
    world.run(20 * MS)
    beat(range(10))
    for number in range(10, 100):
        target.send(setup(number), "10.9.0.9", number)
        world.turn()
    beat(range(10, 100))
    assert (target.images, target.counted(TOO_FAST)) == (1 + 10 + 20, 70)
    world.run(20 * MS)
    beat(range(10, 15))
    flood(target, 10)
    for number in range(200, 300):
        target.send(setup(number), "10.9.0.9", number)
    world.run(20 * MS)
    assert target.images == 1 + 15 + 20

    world.run(60 * S, 20 * MS)
    assert target.images == 1
    flood(target, 100)
    assert target.images == 1 + 20, "who is gone is counted no more"
    target.work()
    world.close()


def test_images_leave_counters_to_the_drivers_own_clients() -> None:
    target = Attacked(counters_reserved=1900)
    flood(target, 200)
    assert target.counted(FULL) > 0
    assert target.node.driver.counters.available >= 1900
    target.node.client.add_publication("aeron:ipc", 99)
    target.world.close()


def test_unknown_sessions_are_asked_only_so_many_at_a_time() -> None:
    target = Attacked(pending_setups_max=10)
    target.world.packets.clear()
    for number in range(500):
        target.send(frame(0, b"who is it", session=number, stream=STREAM))
    target.world.run(20 * MS)
    asked = [sm for sm in target.world.frames(3) if sm[5] & 0x80]
    assert len(asked) == 10
    assert target.counted(PENDING_FULL) == 490
    target.world.run(3 * S, 5 * MS)
    target.send(frame(0, b"who is it", session=1000, stream=STREAM))
    target.world.run(20 * MS)
    assert target.counted(PENDING_FULL) == 490, "they are forgotten"
    target.world.close()


@pytest.mark.parametrize("other", [{"term_length": 1 << 17}, {"initial": 4}])
def test_a_set_up_that_contradicts_its_image_changes_nothing(attacked: Attacked, other: dict[str, int]) -> None:
    attacked.send(setup(attacked.publication.session_id, **other), FRIEND)
    attacked.world.run(1 * MS)
    assert attacked.counted(CONTRADICTING) == 1
    attacked.work()


def test_scattered_frames_take_no_memory_beyond_the_window(attacked: Attacked) -> None:
    attacked.send(setup(1, term_length=LONG))
    attacked.world.run(10 * MS)
    window = attacked.node.driver.config.receiver_window
    before = attacked.counted(OVER_RUNS)
    for number in range(64):
        attacked.send(frame(number * (1 << 19) + 32, b"far", session=1, stream=STREAM))
        attacked.world.run(100_000)
    (image,) = [i for i in attacked.node.driver.conductor.subscriptions.images.all.values() if i.session_id == 1]
    assert image.claims.count == 1
    assert attacked.counted(OVER_RUNS) - before == 63
    assert all(end <= 4 * window for _, end in image.claims.spans_list())


@pytest.mark.parametrize("initial", [5, (1 << 31) - 1, -(1 << 31)])
@pytest.mark.parametrize("back", [0, 1])
def test_a_stream_at_the_end_of_all_positions(attacked: Attacked, initial: int, back: int) -> None:
    """The last term there can be: what is in it is taken, what would be behind it is refused."""
    active = (initial + (1 << 31) - 1 - back + (1 << 31)) % (1 << 32) - (1 << 31)
    offset = 65536 - 64
    attacked.send(setup(1, initial=initial, active=active, offset=offset))
    attacked.world.run(10 * MS)
    got = attacked.collector
    got.messages.clear()
    beyond = (active + 1 + (1 << 31)) % (1 << 32) - (1 << 31)
    for at, term in ((offset, active), (offset + 32, active), (0, beyond)):
        attacked.send(frame(at, b"", session=1, stream=STREAM, term=term))
        attacked.world.run(1 * MS)
    got.poll()
    assert len(got.messages) == 2 + back
    attacked.work()


@pytest.mark.parametrize("seed", range(3))
def test_random_set_ups_near_every_edge(seed: int) -> None:
    target, random = Attacked(images_max=40), Random(seed)
    edges = [0, 1, -1, 31, 32, 33, 64, 4096, 65504, 65536, 65537, 1 << 30, (1 << 31) - 1, -(1 << 31), 1408]
    for number in range(400):
        fields = [random.choice(edges) for _ in range(6)]
        target.send(struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, fields[0], random.choice(edges), STREAM, *fields[1:]))
        if number % 20 == 0:
            target.world.run(1 * MS)
    target.work()
    assert target.images <= 40
    target.world.close()


# --- admission by itself ----------------------------------------------------------------------------------------------


def admission(**changes: int) -> Admission:
    bounds = {
        "term_length_max": 1 << 20, "images_max": 50, "images_per_source_max": 20, "bytes_max": 1 << 40,
        "bytes_per_source_max": 1 << 40, "unconfirmed_per_source_max": 1000, "rate_per_source": 1_000_000,
        "burst_per_source": 1_000_000,
    }  # fmt: skip
    return Admission(secret=77, **{**bounds, **changes})


def v4(number: int, port: int = 9) -> bytes:
    return struct.pack("<HHI8x", 2, port, number)


def v6(network: int, host: int) -> bytes:
    return struct.pack("<HHIQQI", 10, 9, 0, network, host, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=300))
def test_admission_counts_by_source_and_in_all(steps: list[tuple[int, bool]]) -> None:
    subject, model = admission(), dict.fromkeys(range(6), 0)
    for source, leaves in steps:
        if leaves and model[source]:
            subject.release(v4(source, port=7), 65536, False)
            model[source] -= 1
        elif not leaves:
            refused = subject.ask(v4(source), 65536, 0)
            expected = FULL if sum(model.values()) >= 50 else SOURCE_FULL if model[source] >= 20 else 0
            assert refused == expected
            model[source] += not refused
        assert subject.images == sum(model.values())
        assert subject.mapped_bytes == subject.images * (3 * 65536 + 4096)


def test_a_host_is_one_source_whatever_its_ports_and_ipv6_addresses() -> None:
    subject = admission(images_per_source_max=2)
    assert [subject.ask(v4(1, port), 65536, 0) for port in range(3)] == [0, 0, SOURCE_FULL]
    assert [subject.ask(v6(1, host), 65536, 0) for host in range(3)] == [0, 0, SOURCE_FULL]
    assert subject.ask(v6(2, 0), 65536, 0) == 0


def test_a_source_that_waits_may_come_again() -> None:
    subject = admission(rate_per_source=10, burst_per_source=3)
    assert [subject.ask(v4(1), 65536, S) for _ in range(5)] == [0, 0, 0, TOO_FAST, TOO_FAST]
    assert subject.ask(v4(1), 65536, S + 100 * MS) == 0
    assert subject.ask(v4(1), 65536, S + 100 * MS) == TOO_FAST
    assert [subject.ask(v4(1), 65536, 10 * S) for _ in range(4)] == [0, 0, 0, TOO_FAST]


def test_more_sources_than_there_are_accounts() -> None:
    """Forged addresses without end: their accounts are used again, those with images stay."""
    subject = admission(images_max=100_000)
    assert all(subject.ask(v4(number), 65536, 0) == 0 for number in range(1000))
    for number in range(1000):
        subject.release(v4(number), 65536, False)
    refused = [number for number in range(20_000) if subject.ask(v4(number), 65536, S)]
    assert 4096 * 0.9 < 20_000 - len(refused) <= 4096
    assert subject.images == 20_000 - len(refused)


@pytest.mark.parametrize(
    "setting",
    [{"image_term_length_max": 1000}, {"images_max": 0}, {"setups_per_source_rate": 0}, {"counters_reserved": -1}],
)
def test_a_bound_that_cannot_be_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        MediaDriverSettings(directory="/x", **setting)
