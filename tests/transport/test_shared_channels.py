"""Channels that name a socket in several ways: tags, interfaces, buffers, and streams that are refused or ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ordo.runtime.errors import ConfigurationError, RegistrationError
from ordo.transport.control import commands
from ordo.transport.control.commands import REASON_LENGTH_MAX, OnPublicationError, RejectImage
from ordo.transport.driver.channels.settings import MediaDriverSettings
from tests.transport.driver_world import Collector, Node, S, World

A, B = "10.0.0.1", "10.0.0.2"
IMAGES_REJECTED = 42


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def node(world: World) -> Node:
    return world.node(A)


class PublicationErrors:
    """What a driver tells its clients of publications that were refused."""

    def __init__(self, node: Node) -> None:
        self._receiver = node.driver.context.cnc.receiver()
        self.found: list[OnPublicationError] = []

    def take(self) -> list[OnPublicationError]:
        while (record := self._receiver.receive()) is not None:
            response = commands.decode_response(*record)
            if isinstance(response, OnPublicationError):
                self.found.append(response)
        return self.found


# --- tags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "channel, other, wrong",
    [
        (f"control-mode=dynamic|control={A}:3000", f"control-mode=manual|control={A}:3000", "control-mode=manual"),
        (f"endpoint={B}:3001", f"endpoint={B}:3002", f"endpoint={B}:3002"),
        (f"endpoint={B}:3001", f"endpoint={B}:3001|control={A}:3003", f"control={A}:3003"),
    ],
)
def test_a_tag_names_one_socket_of_publications(node: Node, channel: str, other: str, wrong: str) -> None:
    node.client.add_publication(f"aeron:udp?{channel}|tags=200", 5)
    with pytest.raises(RegistrationError, match=f"mismatched endpoint or control: {wrong}, but .* has its tag"):
        node.client.add_publication(f"aeron:udp?{other}|tags=200", 5)
    again = node.client.add_publication("aeron:udp?tags=200", 5)
    assert again.local_socket_addresses


def test_a_tag_names_one_socket_of_subscriptions(node: Node) -> None:
    node.client.add_subscription(f"aeron:udp?endpoint={A}:3004|tags=1001", 6)
    with pytest.raises(
        RegistrationError, match=f"mismatched endpoint or control: endpoint={A}:3005, but .* has its tag"
    ):
        node.client.add_subscription(f"aeron:udp?endpoint={A}:3005|tags=1001", 6)
    node.client.add_subscription("aeron:udp?tags=1001", 7)


def test_a_newer_tag_of_a_socket_that_is_there_is_known_to_spies_and_publications(world: World, node: Node) -> None:
    channel = f"aeron:udp?endpoint={B}:3006|ssc=true"
    node.client.add_publication(f"{channel}|tags=1", 8).close()
    publication = node.client.add_publication(f"{channel}|tags=2", 9)
    spy = node.client.add_subscription("aeron-spy:aeron:udp?tags=2", 9)
    world.until(lambda: spy.images and publication.is_connected)
    assert node.client.add_publication("aeron:udp?tags=2", 10).local_socket_addresses


def test_a_name_that_has_moved_still_names_the_socket_that_is_there(world: World) -> None:
    node = world.node(A, name_table=f"there={B}")
    channel = "aeron:udp?endpoint=there:3013"
    first = node.client.add_publication(channel, 23)
    tagged = node.client.add_publication(f"{channel}|tags=3", 24)
    node.driver.context.names.table["there"] = "10.0.0.3"
    for again in (channel, f"{channel}|tags=3"):
        other = node.client.add_publication(again, 25)
        assert other.local_socket_addresses == first.local_socket_addresses == tagged.local_socket_addresses


# --- sockets ----------------------------------------------------------------------------------------------------------


def test_an_interface_may_be_a_name_and_say_the_port(world: World) -> None:
    node = world.node(A, name_table=f"here={A}")
    publication = node.client.add_publication(f"aeron:udp?endpoint={B}:3007|interface=here:3008", 11)
    assert publication.local_socket_addresses == [f"{A}:3008"]
    group = "aeron:udp?endpoint=224.10.9.7:4050|interface=here"
    sender = world.node(B, name_table=f"here={B}").client.add_publication(group, 12)
    subscription = node.client.add_subscription(group, 12)
    world.until(lambda: subscription.images and sender.is_connected)


def test_a_socket_is_shared_by_channels_that_ask_for_what_it_has(node: Node) -> None:
    channel = f"aeron:udp?endpoint={B}:3009"
    config = node.driver.config
    node.client.add_publication(channel, 13)
    node.client.add_publication(f"{channel}|so-rcvbuf={config.socket_rcvbuf}", 14)
    with pytest.raises(RegistrationError, match="so-rcvbuf=64k, option conflicts with its socket's so-rcvbuf=default"):
        node.client.add_publication(f"{channel}|so-rcvbuf=64k", 15)


def test_a_frame_must_fit_the_send_buffer_that_is_asked_for(node: Node) -> None:
    with pytest.raises(RegistrationError, match="mtu=1056, above so-sndbuf=1024: raise so-sndbuf"):
        node.client.add_publication(f"aeron:udp?endpoint={B}:3010|mtu=1056|so-sndbuf=1024", 16)


def test_each_destination_with_port_0_is_a_socket(world: World, node: Node) -> None:
    subscription = node.client.add_subscription("aeron:udp?control-mode=manual", 17)
    first = node.client.add_receive_destination(subscription, f"aeron:udp?endpoint={A}:0")
    node.client.add_receive_destination(subscription, f"aeron:udp?endpoint={A}:0")
    node.client.add_receive_destination(subscription, f"aeron:udp?endpoint={A}:3011")
    node.client.add_receive_destination(subscription, f"aeron:udp?endpoint={A}:3011")
    world.run(S)
    assert len(subscription.local_socket_addresses) == 3
    node.client.remove_receive_destination_by_id(subscription, first)
    node.client.remove_receive_destination(subscription, f"aeron:udp?endpoint={A}:0")
    world.run(S)
    assert subscription.local_socket_addresses == [f"{A}:3011"]
    with pytest.raises(RegistrationError, match="no destination"):
        node.client.remove_receive_destination(subscription, f"aeron:udp?endpoint={A}:0")


# --- images that are refused ------------------------------------------------------------------------------------------


def test_the_refusal_of_an_image_is_logged_and_names_the_destination(world: World) -> None:
    a, b = world.node(A), world.node(B)
    publication = a.client.add_publication("aeron:udp?control-mode=manual", 18)
    destination = a.client.add_destination(publication, f"aeron:udp?endpoint={B}:3012")
    errors = PublicationErrors(a)
    subscription = b.client.add_subscription(f"aeron:udp?endpoint={B}:3012", 18)
    world.until(lambda: subscription.images)
    subscription.reject_image(subscription.images[0], "not here")
    world.until(errors.take)
    assert errors.found[0].destination_registration_id == destination
    assert [str(one) for one in b.errors if "image rejected" in str(one) and "not here" in str(one)]


def test_an_image_of_ipc_can_be_refused_and_comes_back_later(world: World, node: Node) -> None:
    subscription = node.client.add_subscription("aeron:ipc", 19)
    publication = node.client.add_publication("aeron:ipc", 19)
    errors = PublicationErrors(node)
    world.until(lambda: subscription.images and publication.is_connected)
    subscription.reject_image(subscription.images[0], "too much")
    world.until(lambda: not publication.is_connected and not subscription.images)
    assert [one.message for one in errors.take()] == ["too much"]
    assert node.driver.system_counter(IMAGES_REJECTED) == 1
    assert [str(one) for one in node.errors if "image rejected" in str(one) and "too much" in str(one)]
    late = node.client.add_subscription("aeron:ipc", 19)
    world.run_coarsely(5 * S)
    assert not late.images and not subscription.images, "nobody joins for as long as an image would stay away"
    world.until(lambda: late.images and subscription.images and publication.is_connected, 10 * S, step_ns=S // 100)


def test_a_reason_has_a_bound(world: World, node: Node) -> None:
    subscription = node.client.add_subscription("aeron:ipc", 20)
    node.client.add_publication("aeron:ipc", 20)
    world.until(lambda: subscription.images)
    client, image = node.client, subscription.images[0]
    for length, allowed in ((REASON_LENGTH_MAX + 1, False), (REASON_LENGTH_MAX, True)):
        command = RejectImage(
            client.client_id, client.next_correlation_id(), image.correlation_id, 0, "x" * length
        )  # the client's own check is passed over
        node.driver.conductor.on_command(commands.type_id_of(command), commands.encode(command))
        world.cycle()
        assert bool(subscription.images) is not allowed


# --- ipc that has ended -----------------------------------------------------------------------------------------------


def test_a_closed_ipc_publication_is_there_until_it_was_read(world: World, node: Node) -> None:
    subscription = node.client.add_subscription("aeron:ipc?session-id=77", 21)
    publication = node.client.add_publication("aeron:ipc?session-id=77", 21)
    world.until(lambda: publication.offer(b"last") > 0)
    publication.close()
    world.run(S)
    with pytest.raises(RegistrationError, match="session-id=77, clashing"):
        node.client.add_publication("aeron:ipc?session-id=77", 21)
    late = node.client.add_subscription("aeron:ipc", 21)
    readers = [Collector(subscription), Collector(late)]
    world.until(lambda: all(reader.poll() or reader.messages for reader in readers))
    assert [list(reader.messages) for reader in readers] == [[b"last"], [b"last"]]
    world.until(lambda: not subscription.images, 10 * S, step_ns=S // 100)
    node.client.add_publication("aeron:ipc?session-id=77", 21)


def test_a_publication_may_end_without_lingering() -> None:
    MediaDriverSettings("/sim", publication_linger_timeout_ns=0)
    with pytest.raises(ConfigurationError, match="image_liveness_timeout_ns=0, must be above 0 ns"):
        MediaDriverSettings("/sim", image_liveness_timeout_ns=0)
    with pytest.raises(ConfigurationError, match="publication_linger_timeout_ns=-1, must be 0 ns or more"):
        MediaDriverSettings("/sim", publication_linger_timeout_ns=-1)
    world = World(publication_linger_timeout_ns=0)
    publication = world.node(A).client.add_publication("aeron:ipc", 22)
    publication.close()
    world.run(3 * S, step_ns=S // 10)
    assert not list(world.nodes[0].driver.conductor.publications.all())
    world.close()


# --- so-tos -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["publication", "subscription"])
def test_a_socket_has_one_mark(node: Node, kind: str) -> None:
    add = node.client.add_publication if kind == "publication" else node.client.add_subscription
    add(f"aeron:udp?endpoint={A}:3100|so-tos=184", 5)
    add(f"aeron:udp?endpoint={A}:3100|so-tos=184", 6)
    add(f"aeron:udp?endpoint={A}:3100", 7)
    with pytest.raises(RegistrationError, match="so-tos=0, option conflicts with its socket's so-tos=184"):
        add(f"aeron:udp?endpoint={A}:3100|so-tos=0", 8)
    add(f"aeron:udp?endpoint={A}:3101", 5)
    with pytest.raises(RegistrationError, match="so-tos=184, option conflicts with its socket's so-tos=default"):
        add(f"aeron:udp?endpoint={A}:3101|so-tos=184", 6)


def test_a_mark_is_a_byte(node: Node) -> None:
    for mark in ("256", "-1", "x"):
        with pytest.raises(RegistrationError, match=f"so-tos={mark}"):
            node.client.add_publication(f"aeron:udp?endpoint={A}:3100|so-tos={mark}", 5)
