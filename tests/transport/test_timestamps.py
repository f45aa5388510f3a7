"""Times that drivers write into frames, as they leave and as they arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ordo.runtime.errors import RegistrationError
from tests.peers.ordo_peer import OrdoDriver, await_that
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, World

A, B = "10.0.0.1", "10.0.0.2"
DELAY_NS = 3 * MS
STEP_NS = 50_000
CHANNEL = f"aeron:udp?endpoint={B}:4000"
EMPTY = b"." * 8
StartDriver = Callable[[], OrdoDriver]


@pytest.fixture
def world() -> Iterator[World]:
    made = World(3, Faults(delay_min_ns=DELAY_NS, delay_max_ns=DELAY_NS), step_ns=STEP_NS)
    yield made
    made.close()


@pytest.fixture
def start_real_driver(shm_path: Path) -> Iterator[StartDriver]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(OrdoDriver(str(shm_path / "driver")))


def send(world: World, payloads: list[bytes], sent: str = "", received: str = "") -> list[tuple[bytes, int]]:
    """What arrives of these: payload and reserved value of each fragment."""
    found: list[tuple[bytes, int]] = []

    def on_fragment(payload: Any, header: Any) -> None:
        found.append((bytes(payload), header.reserved_value))

    subscription = world.node(B).client.add_subscription(f"{CHANNEL}{received}", 10)
    publication = world.node(A).client.add_exclusive_publication(f"{CHANNEL}{sent}", 10)
    world.until(lambda: publication.is_connected)
    for payload in payloads:
        assert publication.offer(payload) > 0
    world.until(lambda: subscription.poll(on_fragment, 10) < 0 or len(found) >= len(payloads))
    return found


def time_in(payload: bytes, offset: int) -> int:
    return int.from_bytes(payload[offset : offset + 8], "little")


def is_now(world: World, time_ns: int, ago_ns: int = 0) -> bool:
    return abs(world.clock.epoch_ns() - ago_ns - time_ns) <= 4 * STEP_NS


def test_times_of_leaving_and_arriving_stand_where_the_channels_say(world: World) -> None:
    [(payload, reserved)] = send(
        world, [b"head" + EMPTY + EMPTY + b"tail"], "|channel-snd-ts-offset=4", "|channel-rcv-ts-offset=12"
    )
    assert payload[:4] == b"head" and payload[20:] == b"tail"
    assert reserved == 0
    assert is_now(world, time_in(payload, 4), DELAY_NS)
    assert is_now(world, time_in(payload, 12))


def test_times_in_the_reserved_value_leave_the_payload_alone(world: World) -> None:
    [(payload, reserved)] = send(world, [b"x"], "|channel-snd-ts-offset=reserved")
    assert payload == b"x"
    assert is_now(world, reserved, DELAY_NS)


def test_every_message_that_arrives_is_stamped_and_only_the_first_of_a_datagram_that_leaves(world: World) -> None:
    found = send(world, [EMPTY * 2] * 3, "|channel-snd-ts-offset=0", "|channel-rcv-ts-offset=8")
    assert [payload[:8] == EMPTY for payload, _ in found] == [False, True, True]
    assert all(is_now(world, time_in(payload, 8)) for payload, _ in found)


def test_a_message_without_room_and_later_fragments_stay_as_they_are(world: World) -> None:
    long = bytes(3_000)
    found = send(world, [b"short", long], received="|channel-rcv-ts-offset=0")
    world.run(10 * MS)
    assert found[0][0] == b"short"
    assert time_in(found[1][0], 0) > 0 and found[1][0][8:].count(0) == len(found[1][0]) - 8


def test_channels_of_one_socket_must_agree_about_times(world: World) -> None:
    sender, receiver = world.node(A), world.node(B)
    receiver.client.add_subscription(f"{CHANNEL}|channel-rcv-ts-offset=8", 10)
    sender.client.add_publication(f"{CHANNEL}|channel-snd-ts-offset=8", 10)
    for add, said in (
        (
            receiver.client.add_subscription,
            "channel-rcv-ts-offset=default, option conflicts with its socket's channel-rcv-ts-offset=8",
        ),
        (
            sender.client.add_publication,
            "channel-snd-ts-offset=default, option conflicts with its socket's channel-snd-ts-offset=8",
        ),
    ):
        with pytest.raises(RegistrationError, match=said):
            add(CHANNEL, 11)


def test_times_that_the_kernel_noted_are_those_of_arrival_and_not_of_reading(world: World) -> None:
    receiver, found = world.node(B), []
    channel = f"{CHANNEL}|channel-rcv-ts-offset=0|media-rcv-ts-offset=8"
    subscription = receiver.client.add_subscription(channel, 10)
    publication = world.node(A).client.add_exclusive_publication(CHANNEL, 10)
    world.until(lambda: publication.is_connected)
    assert publication.offer(EMPTY * 2) > 0
    sent_ns = world.clock.epoch_ns()
    world.nodes.remove(receiver)  # its driver stands still
    world.run(20 * MS)
    world.nodes.append(receiver)
    world.until(lambda: subscription.poll(lambda payload, header: found.append(bytes(payload)), 10) > 0)
    assert abs(time_in(found[0], 8) - sent_ns - DELAY_NS) <= 4 * STEP_NS
    assert time_in(found[0], 0) >= sent_ns + 20 * MS


@pytest.mark.parametrize("notes_times", [True, False])
def test_a_reserved_value_says_nothing_of_its_sender_where_nobody_noted_a_time(world: World, notes_times: bool) -> None:
    """Whoever takes it for the time of arrival must not be told one by whom it came from."""
    world.network.notes_times = notes_times
    [(_, reserved)] = send(world, [EMPTY], "|channel-snd-ts-offset=reserved", "|media-rcv-ts-offset=reserved")
    assert is_now(world, reserved) if notes_times else reserved == -1


def test_a_payload_stays_as_it_is_where_nobody_noted_a_time(world: World) -> None:
    world.network.notes_times = False
    [(payload, _)] = send(world, [EMPTY], received="|media-rcv-ts-offset=0")
    assert payload == EMPTY


@pytest.mark.parametrize("offset", ["0", "reserved"])
def test_times_of_real_sockets(start_real_driver: StartDriver, free_port: Callable[[], int], offset: str) -> None:
    driver = start_real_driver()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    found: list[int] = []

    def on_fragment(payload: Any, header: Any) -> None:
        found.append(header.reserved_value if offset == "reserved" else time_in(bytes(payload), 0))

    with driver.connect() as client:
        subscription = client.add_subscription(f"{channel}|media-rcv-ts-offset={offset}", 10)
        publication = client.add_exclusive_publication(channel, 10)
        await_that(lambda: publication.is_connected, client, "the connection")
        before_ns = time.time_ns()
        for _ in range(50):  # some of which the kernel coalesces
            assert publication.offer(EMPTY) > 0
        await_that(lambda: subscription.poll(on_fragment, 10) >= 0 and len(found) == 50, client, "the messages")
        assert all(before_ns <= time_ns <= time.time_ns() for time_ns in found)
        assert found == sorted(found)
    assert not driver.errors
