"""Subscriptions of one client on ports that the system chooses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ordo.transport.client.shared_ports import STREAMS_MAX, SharedPorts
from tests.transport.driver_world import Collector, Node, World

A, B = "10.0.0.1", "10.0.0.2"
WINDOW_BYTES = 128 << 10
BUFFER_BYTES = STREAMS_MAX * WINDOW_BYTES
CHANNEL = f"aeron:udp?endpoint={A}:0|rejoin=false"


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def node(world: World) -> Node:
    return world.node(A)


def test_each_hears_its_own_stream_on_the_port_of_all(world: World, node: Node) -> None:
    ports = SharedPorts(node.client, BUFFER_BYTES)
    collectors = [Collector(ports.subscribe(CHANNEL, 102, WINDOW_BYTES)) for _ in range(3)]
    world.until(lambda: collectors[0].subscription.resolved_endpoint is not None)
    (endpoint,) = {collector.subscription.resolved_endpoint for collector in collectors}
    assert [collector.subscription.stream_id for collector in collectors] == [102, 103, 104]
    other = world.node(B)
    publications = [other.client.add_publication(f"aeron:udp?endpoint={endpoint}", 102 + at) for at in range(3)]
    world.until(lambda: all(publication.available_window > 0 for publication in publications))
    for at, publication in enumerate(publications):
        publication.offer(bytes([at]) * 40)

    def have_heard() -> bool:
        for collector in collectors:
            collector.poll()
        return all(collector.messages for collector in collectors)

    world.until(have_heard)
    assert [collector.messages for collector in collectors] == [[bytes([at]) * 40] for at in range(3)]


def test_a_port_has_so_many_streams_and_none_of_them_twice(world: World, node: Node) -> None:
    """Whoever still sends to the one that was closed is not heard by the next."""
    ports = SharedPorts(node.client, BUFFER_BYTES)
    first = [ports.subscribe(CHANNEL, 102, WINDOW_BYTES) for _ in range(STREAMS_MAX - 1)]
    first[4].close()
    first.append(ports.subscribe(CHANNEL, 102, WINDOW_BYTES))
    assert first[-1].stream_id == 102 + STREAMS_MAX - 1
    next_one = ports.subscribe(CHANNEL, 102, WINDOW_BYTES)
    world.until(lambda: next_one.resolved_endpoint is not None)
    assert next_one.stream_id == 102
    assert next_one.resolved_endpoint != first[0].resolved_endpoint


def test_a_port_that_nobody_hears_any_more_is_not_used_again(world: World, node: Node) -> None:
    ports = SharedPorts(node.client, BUFFER_BYTES)
    ports.subscribe(CHANNEL, 102, WINDOW_BYTES).close()
    assert ports.subscribe(CHANNEL, 102, WINDOW_BYTES).stream_id == 102


@pytest.mark.parametrize("channel", [f"aeron:udp?endpoint={A}:4000", "aeron:ipc", f"aeron:udp?endpoint={A}:0|tags=77"])
def test_what_names_its_port_is_left_as_it_is(node: Node, channel: str) -> None:
    ports = SharedPorts(node.client, BUFFER_BYTES)
    subscriptions = [ports.subscribe(channel, 102, WINDOW_BYTES) for _ in range(2)]
    assert [(one.channel, one.stream_id) for one in subscriptions] == [(channel, 102)] * 2


def test_other_channels_and_streams_have_other_ports(world: World, node: Node) -> None:
    ports = SharedPorts(node.client, BUFFER_BYTES)
    subscriptions = [
        ports.subscribe(CHANNEL, 102, WINDOW_BYTES),
        ports.subscribe(CHANNEL, 200, WINDOW_BYTES),
        ports.subscribe(f"aeron:udp?endpoint={A}:0", 102, WINDOW_BYTES),
    ]
    world.until(lambda: all(one.resolved_endpoint is not None for one in subscriptions))
    assert [one.stream_id for one in subscriptions] == [102, 200, 102]
    assert len({one.resolved_endpoint for one in subscriptions}) == 3


def test_the_last_ids_of_streams_are_not_passed(node: Node) -> None:
    ports = SharedPorts(node.client, BUFFER_BYTES)
    assert [ports.subscribe(CHANNEL, (1 << 31) - 1, WINDOW_BYTES).stream_id for _ in range(2)] == [(1 << 31) - 1] * 2


@pytest.mark.parametrize(
    ("buffer_bytes", "ports_of_six"), [(0, 6), (208 << 10, 6), (3 * WINDOW_BYTES, 2), (BUFFER_BYTES, 1)]
)
def test_a_port_has_no_more_streams_than_its_buffer_has_room_for(
    world: World, node: Node, buffer_bytes: int, ports_of_six: int
) -> None:
    """An ordinary user's socket gets 208 KiB, of which one burst of 128 KiB leaves none for a second."""
    ports = SharedPorts(node.client, buffer_bytes)
    six = [ports.subscribe(CHANNEL, 102, WINDOW_BYTES) for _ in range(6)]
    world.until(lambda: all(one.resolved_endpoint is not None for one in six))
    assert len({one.resolved_endpoint for one in six}) == ports_of_six


def test_streams_with_other_windows_have_other_ports(world: World, node: Node) -> None:
    ports = SharedPorts(node.client, BUFFER_BYTES)
    two = [ports.subscribe(CHANNEL, 102, window) for window in (WINDOW_BYTES, 4 * WINDOW_BYTES)]
    world.until(lambda: all(one.resolved_endpoint is not None for one in two))
    assert two[0].resolved_endpoint != two[1].resolved_endpoint
