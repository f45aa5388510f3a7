"""Subscriptions of one client on ports that the system chooses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ordo.transport.client.shared_ports import STREAMS_MAX, SharedPorts
from tests.transport.driver_world import Collector, Node, World

A, B = "10.0.0.1", "10.0.0.2"
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
    ports = SharedPorts(node.client)
    collectors = [Collector(ports.subscribe(CHANNEL, 102)) for _ in range(3)]
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
    ports = SharedPorts(node.client)
    first = [ports.subscribe(CHANNEL, 102) for _ in range(STREAMS_MAX - 1)]
    first[4].close()
    first.append(ports.subscribe(CHANNEL, 102))
    assert first[-1].stream_id == 102 + STREAMS_MAX - 1
    next_one = ports.subscribe(CHANNEL, 102)
    world.until(lambda: next_one.resolved_endpoint is not None)
    assert next_one.stream_id == 102
    assert next_one.resolved_endpoint != first[0].resolved_endpoint


def test_a_port_that_nobody_hears_any_more_is_not_used_again(world: World, node: Node) -> None:
    ports = SharedPorts(node.client)
    ports.subscribe(CHANNEL, 102).close()
    assert ports.subscribe(CHANNEL, 102).stream_id == 102


@pytest.mark.parametrize("channel", [f"aeron:udp?endpoint={A}:4000", "aeron:ipc", f"aeron:udp?endpoint={A}:0|tags=77"])
def test_what_names_its_port_is_left_as_it_is(node: Node, channel: str) -> None:
    ports = SharedPorts(node.client)
    subscriptions = [ports.subscribe(channel, 102) for _ in range(2)]
    assert [(one.channel, one.stream_id) for one in subscriptions] == [(channel, 102)] * 2


def test_other_channels_and_streams_have_other_ports(world: World, node: Node) -> None:
    ports = SharedPorts(node.client)
    subscriptions = [
        ports.subscribe(CHANNEL, 102),
        ports.subscribe(CHANNEL, 200),
        ports.subscribe(f"aeron:udp?endpoint={A}:0", 102),
    ]
    world.until(lambda: all(one.resolved_endpoint is not None for one in subscriptions))
    assert [one.stream_id for one in subscriptions] == [102, 200, 102]
    assert len({one.resolved_endpoint for one in subscriptions}) == 3


def test_the_last_ids_of_streams_are_not_passed(node: Node) -> None:
    ports = SharedPorts(node.client)
    assert [ports.subscribe(CHANNEL, (1 << 31) - 1).stream_id for _ in range(2)] == [(1 << 31) - 1] * 2
