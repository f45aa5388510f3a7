"""What a client can do beside streams: static counters, news of counters, reserved values, raw polls, ids."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.runtime.errors import ConfigurationError, RegistrationError
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.streams.publication import RESULT_BACK_PRESSURED
from tests.simulation.network import SimulatedNetwork
from tests.transport.driver_world import MS, Collector, Node, S, World
from tests.transport.test_driver_threads import connect, running

A, B = "10.0.0.1", "10.0.0.2"
CHANNEL = f"aeron:udp?endpoint={B}:4000"


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def listening_client(world: World, node: Node, news: list[tuple[str, int, int]]) -> TransportClient:
    return TransportClient(
        node.driver.directory,
        clock=world.clock,
        memory=node.memory,
        invoker=world.turn,
        on_available_counter=lambda registration_id, counter_id: news.append(("up", registration_id, counter_id)),
        on_unavailable_counter=lambda registration_id, counter_id: news.append(("down", registration_id, counter_id)),
    )


# --- counters ---------------------------------------------------------------------------------------------------------


def test_clients_hear_of_each_others_counters(world: World) -> None:
    node = world.node(A)
    news: list[tuple[str, int, int]] = []
    with listening_client(world, node, news) as listener:
        counter = node.client.add_counter(1001, "a counter")
        listener.do_work(world.clock.now())
        up = ("up", counter.registration_id, counter.counter_id)
        assert up in news
        counter.close()
        world.run(50 * MS)
        listener.do_work(world.clock.now())
        assert news[-1] == ("down", counter.registration_id, counter.counter_id)
        assert news.count(up) == 1


def test_counters_of_a_dead_client_are_told(world: World) -> None:
    node = world.node(A)
    news: list[tuple[str, int, int]] = []
    dead = node.new_client()
    counter = dead.add_counter(1001, "of a client that dies")
    with listening_client(world, node, news) as listener:
        for _ in range(120):
            world.run(100 * MS, step_ns=10 * MS)
            listener.do_work(world.clock.now())
        assert ("down", counter.registration_id, counter.counter_id) in news


def test_a_static_counter_outlives_its_client_and_is_shared(world: World) -> None:
    node = world.node(A)
    first = node.new_client()
    counter = first.add_static_counter(1001, "static", b"key", registration_id=4711)
    counter.set(42)
    first.close()
    world.run(12 * S, step_ns=50 * MS)
    again = node.client.add_static_counter(1001, "static", b"key", registration_id=4711)
    assert (again.counter_id, again.value) == (counter.counter_id, 42)
    found = node.driver.counters.describe(counter.counter_id)
    assert found is not None and (found.registration_id, found.owner_id, found.key[:3]) == (4711, -1, b"key")
    other = node.client.add_static_counter(1001, "static", registration_id=4712)
    assert other.counter_id != counter.counter_id


def test_a_static_counter_does_not_take_over_a_clients(world: World) -> None:
    node = world.node(A)
    counter = node.client.add_counter(1001, "not static")
    with pytest.raises(
        RegistrationError, match=f"a non-static counter exists: counterId={counter.counter_id} typeId=1001"
    ):
        node.client.add_static_counter(1001, "static", registration_id=counter.registration_id)


def test_a_key_that_no_counter_has_room_for_is_refused_in_one_line(world: World) -> None:
    """Found by fuzzing the driver's commands: it went on, but with the error of a caller's mistake inside of it."""
    client = world.node(A).client
    with pytest.raises(RegistrationError, match="key of a counter has 113 bytes, must be at most 112"):
        client.add_static_counter(1001, "static", bytes(113), registration_id=1)
    with pytest.raises(RegistrationError, match="key of a counter has 113 bytes, must be at most 112"):
        client.add_counter(1001, "own", bytes(113))
    assert client.add_counter(1001, "own", bytes(112)).value == 0


# --- reserved values --------------------------------------------------------------------------------------------------


def test_reserved_values_of_messages_and_their_fragments(world: World) -> None:
    node = world.node(A)
    subscription = node.client.add_subscription("aeron:ipc?term-length=64k", 10)
    publication = node.client.add_exclusive_publication("aeron:ipc?term-length=64k", 10)
    world.until(lambda: publication.position_limit > 0)
    asked: list[bytes] = []

    def supplier(payload: bytes) -> int:
        asked.append(payload)
        return len(payload) if payload else -(1 << 63)

    sizes = [0, 10, publication.max_payload_length, publication.max_payload_length + 1, 5000]
    for size in sizes:
        assert publication.offer_reserved(b"x" * size, supplier) > 0
    seen: list[tuple[int, int]] = []
    while subscription.poll(lambda payload, header: seen.append((len(payload), header.reserved_value))):
        pass
    assert seen == [(len(payload), len(payload) or -(1 << 63)) for payload in asked]
    assert b"".join(asked) == b"x" * sum(sizes)
    assert publication.offer(b"plain") > 0
    subscription.poll(lambda payload, header: seen.append((len(payload), header.reserved_value)))
    assert seen[-1] == (5, 0)


@pytest.mark.parametrize("wrong", [lambda _: 1 << 63, lambda _: "1", lambda _: 1 // 0])
def test_a_supplier_that_fails_leaves_the_stream_as_it_was(wrong: Any, world: World) -> None:
    node = world.node(A)
    subscription = node.client.add_subscription("aeron:ipc", 10)
    publication = node.client.add_publication("aeron:ipc", 10)
    world.until(lambda: publication.position_limit > 0)
    with pytest.raises((OverflowError, TypeError, ZeroDivisionError)):
        publication.offer_reserved(b"message", wrong)
    assert publication.position == 0
    assert publication.offer(b"after") > 0
    collector = Collector(subscription)
    collector.poll()
    assert collector.messages == [b"after"]


def test_reserved_values_know_back_pressure(world: World) -> None:
    node = world.node(A)
    node.client.add_subscription("aeron:ipc?term-length=64k", 10)
    publication = node.client.add_exclusive_publication("aeron:ipc?term-length=64k", 10)
    world.until(lambda: publication.position_limit > 0)
    results = [publication.offer_reserved(b"x" * 1000, len) for _ in range(100)]
    assert results[-1] == RESULT_BACK_PRESSURED and results[0] > 0


# --- raw poll ---------------------------------------------------------------------------------------------------------


def test_a_raw_poll_names_where_the_frames_stand(shm_path: Path) -> None:
    with running(shm_path, threading_mode="shared") as driver, connect(driver) as client:
        subscription = client.add_subscription("aeron:ipc?term-length=64k", 10)
        publication = client.add_exclusive_publication("aeron:ipc?term-length=64k", 10)
        blocks: list[tuple[bytes, bytes]] = []

        def handler(path: str, file_offset: int, frames: memoryview, session_id: int, term_id: int) -> None:
            with open(path, "rb") as file:
                blocks.append((bytes(frames), os.pread(file.fileno(), len(frames), file_offset)))
            assert (session_id, struct.unpack_from("<i", frames, 20)[0]) == (publication.session_id, term_id)

        for number in range(400):
            while publication.offer(f"{number}".encode().ljust(500)) < 0:
                subscription.raw_poll(handler, 4096)
                client.do_work(driver.clock.now())
        while subscription.raw_poll(handler, 4096):
            pass
        assert all(frames == file for frames, file in blocks)
        frames = b"".join(frames for frames, _ in blocks)
        assert all(f"{number}".encode().ljust(500) in frames for number in range(400))


# --- destinations by id -----------------------------------------------------------------------------------------------


def test_destinations_are_removed_by_their_id(world: World) -> None:
    a, b = world.node(A), world.node(B)
    subscription = b.client.add_subscription(CHANNEL, 10)
    publication = a.client.add_exclusive_publication("aeron:udp?control-mode=manual", 10)
    destination_id = a.client.add_destination(publication, CHANNEL)
    world.until(lambda: publication.is_connected and subscription.is_connected)
    with pytest.raises(RegistrationError, match="no destination registration_id=999"):
        a.client.remove_destination_by_id(publication, 999)
    a.client.remove_destination_by_id(publication, destination_id)
    world.until(lambda: not publication.is_connected, timeout_ns=20 * S, step_ns=MS)
    with pytest.raises(RegistrationError, match="no destination"):
        a.client.remove_destination_by_id(publication, destination_id)


def test_receive_destinations_are_removed_by_their_id(world: World) -> None:
    a, b = world.node(A), world.node(B)
    subscription = b.client.add_subscription("aeron:udp?control-mode=manual", 10)
    destination_id = b.client.add_receive_destination(subscription, CHANNEL)
    publication = a.client.add_exclusive_publication(CHANNEL, 10)
    world.until(lambda: publication.is_connected)
    b.client.remove_receive_destination_by_id(subscription, destination_id)
    world.until(lambda: not publication.is_connected, timeout_ns=20 * S, step_ns=MS)
    with pytest.raises(RegistrationError, match="no destination"):
        b.client.remove_receive_destination_by_id(subscription, destination_id)


# --- limits, ports and names ------------------------------------------------------------------------------------------


def test_no_more_sessions_of_a_stream_than_the_limit(world: World) -> None:
    """The third waits until one of the others ends; other streams have room of their own."""
    a, b = world.node(A), world.node(B, stream_session_limit=2)
    subscription = b.client.add_subscription(CHANNEL, 10)
    other = b.client.add_subscription(CHANNEL, 11)
    publications = [a.client.add_exclusive_publication(CHANNEL, 10) for _ in range(3)]
    beside = a.client.add_exclusive_publication(CHANNEL, 11)
    world.until(lambda: subscription.image_count == 2 and other.image_count == 1 and beside.is_connected)
    world.run(2 * S, step_ns=MS)
    connected = [publication.is_connected for publication in publications]
    assert sorted(connected) == [False, True, True] and subscription.image_count == 2
    refused = [one for one in b.errors if "session limit of 2 reached" in str(one) and CHANNEL in str(one)]
    assert len(refused) > 2, "counted for as long as the third goes on asking"
    publications[connected.index(True)].close()
    waiting = publications[connected.index(False)]
    world.until(lambda: waiting.is_connected, timeout_ns=60 * S, step_ns=MS)


def test_ports_of_wildcards_come_from_their_range(shm_path: Path) -> None:
    ranges = {"sender_wildcard_ports": "29110-29113", "receiver_wildcard_ports": "29120-29123"}
    with running(shm_path, is_refused=True, threading_mode="shared", **ranges) as driver, connect(driver) as client:
        subscriptions = [client.add_subscription("aeron:udp?endpoint=127.0.0.1:0", 10 + i) for i in range(4)]
        ports = {int(one.local_socket_addresses[0].rsplit(":", 1)[1]) for one in subscriptions}
        assert ports == set(range(29120, 29124))
        publications = [
            client.add_publication(f"aeron:udp?endpoint={one.local_socket_addresses[0]}", 10) for one in subscriptions
        ]
        sources = {int(one.local_socket_addresses[0].rsplit(":", 1)[1]) for one in publications}
        assert sources == set(range(29110, 29114))
        with pytest.raises(RegistrationError, match="no available ports in range 29120 29123"):
            client.add_subscription("aeron:udp?endpoint=127.0.0.1:0", 20)
        subscriptions[1].close()
        again = client.add_subscription("aeron:udp?endpoint=127.0.0.1:0", 20)
        assert again.local_socket_addresses[0].endswith(":29121")
        with pytest.raises(RegistrationError):
            client.add_subscription("aeron:udp?endpoint=127.0.0.1:0", 21)


def test_names_of_the_table_are_asked_nobody_else_and_may_move(world: World) -> None:
    assert isinstance(world.network, SimulatedNetwork)
    a, b = world.node(A, name_table=f"there={B},elsewhere=10.9.9.9"), world.node(B)
    subscription = b.client.add_subscription(CHANNEL, 10)
    publication = a.client.add_publication("aeron:udp?endpoint=there:4000", 10)
    moving = a.client.add_publication("aeron:udp?endpoint=elsewhere:4000", 10)
    world.until(lambda: publication.is_connected and subscription.is_connected)
    assert not moving.is_connected
    a.driver.context.names.table["elsewhere"] = B
    world.until(lambda: moving.is_connected, timeout_ns=20 * S, step_ns=MS)
    assert a.driver.system_counter(25) == 1, "resolution changes"


def test_a_name_that_is_gone_keeps_no_other_from_being_looked_up(world: World) -> None:
    a, b = world.node(A, name_table="gone=10.9.9.8,away=10.9.9.9,publisher=10.9.9.7"), world.node(B)
    for name in ("gone", "away"):
        a.client.add_publication(f"aeron:udp?endpoint={name}:4000", 10)
    heard = a.client.add_subscription("aeron:udp?control=publisher:4001|control-mode=dynamic", 11)
    sender = b.client.add_publication(f"aeron:udp?control={B}:4001|control-mode=dynamic", 11)
    subscription = b.client.add_subscription(CHANNEL, 10)
    table = a.driver.context.names.table
    del table["gone"]
    table.update(away=B, publisher=B)
    world.until(lambda: subscription.is_connected and sender.is_connected and heard.is_connected, 20 * S, step_ns=MS)
    assert a.driver.system_counter(25) == 2, "resolution changes, also of a publisher's name"
    assert [one for one in a.errors if "Unable to resolve host='gone'" in str(one) and "endpoint=gone:4000" in str(one)]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("stream_session_limit", 0),
        ("sender_wildcard_ports", "high-low"),
        ("receiver_wildcard_ports", "2000-1000"),
        ("name_table", "there=over the hill"),
    ],
)
def test_a_wrong_setting_is_named(setting: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        MediaDriverSettings(directory="/x", **{setting: value})  # type: ignore[arg-type]
