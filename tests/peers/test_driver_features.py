"""Of Aeron's drivers, for Ordo's client and between drivers, what goes beyond plain streams: counters that stay or are
told of, destinations by id, times in frames, windows that follow losses, and round trips that are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.monitoring.counters import read_counters
from ordo.runtime.errors import PublicationError, RegistrationError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.conducting.context import TYPE_DESTINATIONS
from ordo.transport.streams.publication import ExclusivePublication
from ordo.transport.streams.subscription import Subscription
from tests.peers.java_peer import AERON_VERSIONS, JavaPeers
from tests.peers.ordo_peer import OrdoDriver, await_that, await_two, exchange
from tests.peers.relay import LossyRelay

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(120)]
STREAM_ID = 10
COUNTER_TYPE_ID = 1001
LOCAL = "127.0.0.1"
MTU = 1408
CONNECTION_TIMEOUT_NS = 500_000_000
STATUS_INTERVALS_S = 0.5
"""A receiver says where it is every 200 ms."""
StartDriver = Callable[..., OrdoDriver]
FreePort = Callable[[], int]
Ends = tuple[TransportClient, TransportClient]


@pytest.fixture(params=[True, False], ids=["from-aeron", "to-aeron"])
def ends(request: pytest.FixtureRequest, client: TransportClient, start_driver: StartDriver) -> Iterator[Ends]:
    """A sender and a receiver, of a driver of Aeron and one of Ordo, or the other way round."""
    driver = start_driver(cubic_measures_rtt=True)
    with driver.connect() as ours:
        yield (client, ours) if request.param else (ours, client)
    assert not [error for error in driver.errors if "image rejected" not in str(error)], "it is asked to reject some"


def connect_streams(ends: Ends, channel: str, heard: str) -> tuple[ExclusivePublication, Subscription]:
    """A publication of the sender, on `channel`, and the subscription of the receiver to `heard` that hears it."""
    sender, receiver = ends
    subscription = receiver.add_subscription(heard, STREAM_ID)
    publication = sender.add_exclusive_publication(channel, STREAM_ID)
    await_two(lambda: publication.is_connected and subscription.is_connected, *ends, "the connection")
    return publication, subscription


def test_counters_stay_and_are_told_of(client: TransportClient, aeron_dir: str) -> None:
    news: list[tuple[str, int, int]] = []
    with TransportClient(
        aeron_dir,
        clock=SystemClock(),
        memory=FileMemoryProvider(),
        on_available_counter=lambda *ids: news.append(("up", *ids)),
        on_unavailable_counter=lambda *ids: news.append(("down", *ids)),
    ) as listener:
        static = client.add_static_counter(COUNTER_TYPE_ID, "stays", b"key", registration_id=4711)
        static.set(42)
        own = client.add_counter(COUNTER_TYPE_ID, "goes")
        ids = own.registration_id, own.counter_id
        await_two(lambda: ("up", *ids) in news, client, listener, "news of a counter")
        own.close()
        await_two(lambda: ("down", *ids) in news, client, listener, "the end of a counter")
        again = listener.add_static_counter(COUNTER_TYPE_ID, "stays", b"key", registration_id=4711)
        assert (again.counter_id, again.value) == (static.counter_id, 42)


def test_destinations_come_and_go(
    client: TransportClient, aeron_dir: str, start_driver: StartDriver, free_port: FreePort
) -> None:
    """Those of a publication by their id, and those of a subscription."""
    driver = start_driver(publication_connection_timeout_ns=CONNECTION_TIMEOUT_NS)
    with driver.connect() as other:
        there = f"aeron:udp?endpoint={LOCAL}:{free_port()}"
        subscription = other.add_subscription(there, STREAM_ID)
        publication = client.add_exclusive_publication("aeron:udp?control-mode=manual", STREAM_ID)
        destination_id = client.add_destination(publication, there)
        await_two(
            lambda: publication.is_connected and subscription.is_connected, client, other, "a connection by destination"
        )
        exchange(client, publication, subscription, [100, 5_000])
        client.remove_destination_by_id(publication, destination_id)

        def destinations() -> int:
            return next(one.value for one in read_counters(Path(aeron_dir)) if one.type_id == TYPE_DESTINATIONS)

        await_two(lambda: destinations() == 0, client, other, "the end of a destination")
        back = f"aeron:udp?endpoint={LOCAL}:{free_port()}"
        listening = client.add_subscription("aeron:udp?control-mode=manual", STREAM_ID)
        client.add_receive_destination(listening, back)
        answers = other.add_exclusive_publication(back, STREAM_ID)
        await_two(
            lambda: answers.is_connected and listening.is_connected,
            client,
            other,
            "a connection by receive destination",
        )
        exchange(other, answers, listening, [100, 5_000])
        client.remove_receive_destination(listening, back)
        await_two(lambda: not answers.is_connected, client, other, "the end of a receive destination")
    assert not driver.errors


def test_times_stand_in_frames(ends: Ends, free_port: FreePort) -> None:
    """The sending driver writes when a message left, the receiving one when it came."""
    found: list[tuple[bytes, int]] = []

    def on_fragment(payload: Any, header: Any) -> None:
        found.append((bytes(payload), header.reserved_value))

    channel = f"aeron:udp?endpoint={LOCAL}:{free_port()}"
    publication, subscription = connect_streams(
        ends, f"{channel}|channel-snd-ts-offset=4", f"{channel}|channel-rcv-ts-offset=reserved"
    )
    before_ns = time.time_ns()
    await_two(lambda: publication.offer(b"head" + bytes(8) + b"tail") > 0, *ends, "room")
    await_two(lambda: subscription.poll(on_fragment, 1) > 0, *ends, "the message")
    after_ns = time.time_ns()
    ((payload, came_ns),) = found
    left_ns = int.from_bytes(payload[4:12], "little")
    assert (payload[:4], payload[12:]) == (b"head", b"tail")
    assert before_ns <= left_ns <= came_ns <= after_ns


def test_windows_follow_losses_and_round_trips_are_measured(ends: Ends, free_port: FreePort) -> None:
    sender, receiver = ends
    port = free_port()
    with LossyRelay(port, loss=0.02) as relay:
        publication, subscription = connect_streams(
            ends, f"aeron:udp?endpoint={LOCAL}:{relay.port}", f"aeron:udp?endpoint={LOCAL}:{port}|cc=cubic"
        )
        exchange(sender, publication, subscription, [3_000] * 500)

        def shown(label: str) -> int:
            counters = read_counters(Path(receiver.directory))
            return next(one.value for one in counters if one.label.startswith(label))

        await_two(lambda: 0 < shown("rcv-cc-cubic-rtt") < 1_000_000_000, *ends, "a measured round trip")
        assert shown("rcv-cc-cubic-wnd") < MTU * 90, "smaller"
        await_two(lambda: shown("rcv-cc-cubic-wnd") >= MTU * 4, *ends, "a window in which a later frame shows a loss")


def test_a_sender_of_a_group_waits_for_the_tag(ends: Ends, free_port: FreePort) -> None:
    sender, receiver = ends
    control = f"control={LOCAL}:{free_port()}"
    publication = sender.add_exclusive_publication(
        f"aeron:udp?{control}|control-mode=dynamic|fc=tagged,g:7/1", STREAM_ID
    )
    other = receiver.add_subscription(f"aeron:udp?endpoint={LOCAL}:{free_port()}|{control}", STREAM_ID)
    await_two(lambda: other.images, *ends, "an image without a tag")
    until_s = time.monotonic() + STATUS_INTERVALS_S
    await_two(lambda: time.monotonic() > until_s, *ends, "several status messages")
    assert not publication.is_connected
    tagged = receiver.add_subscription(f"aeron:udp?endpoint={LOCAL}:{free_port()}|{control}|gtag=7", STREAM_ID)
    await_two(lambda: publication.is_connected and tagged.is_connected, *ends, "one with the tag")
    exchange(sender, publication, tagged, [100, 5_000])


def test_a_publisher_hears_why_its_image_was_rejected(ends: Ends, free_port: FreePort) -> None:
    _, receiver = ends
    channel = f"aeron:udp?endpoint={LOCAL}:{free_port()}"
    _, subscription = connect_streams(ends, channel, channel)
    receiver.reject_image(subscription.images[0], "not wanted here")
    with pytest.raises(PublicationError, match=r"refused it: IMAGE_REJECTED: .*not wanted here"):
        await_two(lambda: False, *ends, "the reason")


@pytest.mark.parametrize("aeron_dir", [AERON_VERSIONS[-1], "c"], indirect=True)  # 1.47 cannot
def test_what_was_revoked_ends_at_once(ends: Ends, free_port: FreePort) -> None:
    channel = f"aeron:udp?endpoint={LOCAL}:{free_port()}"
    publication, subscription = connect_streams(ends, channel, channel)
    (image,) = subscription.images
    await_two(lambda: publication.offer(b"never read") > 0, *ends, "room")
    publication.revoke()
    await_two(lambda: not subscription.images, *ends, "the end")
    assert image.is_revoked


@pytest.mark.parametrize("aeron_dir", [AERON_VERSIONS[-1], "c"], indirect=True)  # 1.47 cannot
def test_a_session_id_that_is_free(client: TransportClient) -> None:
    used = {client.add_exclusive_publication("aeron:ipc", STREAM_ID).session_id for _ in range(3)}
    assert client.next_available_session_id(STREAM_ID) not in used


def test_a_java_client_has_all_of_an_ordo_driver(
    java: JavaPeers, java_class_path: tuple[Path, Path], start_driver: StartDriver
) -> None:
    """The program waits for each, and says why when it does not come."""
    driver = start_driver()
    said = java.run("ClientFeatures", driver.directory)
    expected = ["counters", "destinations", "sockets", "errors", "spies", "rejections"]
    if AERON_VERSIONS[0] not in java_class_path[0].name:
        expected += ["sessions", "revocations"]
    assert said == [*(f"ok {name}" for name in expected), "done"]


def test_sockets_spies_and_refusals_of_an_aeron_driver(client: TransportClient) -> None:
    subscription = client.add_subscription(f"aeron:udp?endpoint={LOCAL}:0", STREAM_ID)
    await_that(lambda: client.local_socket_addresses(subscription.channel_status_id), client, "a socket")
    (address,) = client.local_socket_addresses(subscription.channel_status_id)
    assert address.startswith(f"{LOCAL}:") and not address.endswith(":0")
    publication = client.add_publication(f"aeron:udp?endpoint={address}", STREAM_ID)
    await_that(lambda: publication.is_connected and subscription.is_connected, client, "the connection")
    exchange(client, publication, subscription, [100, 5_000])
    with pytest.raises(RegistrationError, match=r"(?s)refused: GENERIC_ERROR: .*mtu"):
        client.add_publication(f"aeron:udp?endpoint={address}|mtu=100000", STREAM_ID)
    nowhere = f"aeron:udp?endpoint={LOCAL}:9"
    spy = client.add_subscription(f"aeron-spy:{nowhere}", STREAM_ID)
    spied = client.add_publication(f"{nowhere}|ssc=true", STREAM_ID)
    await_that(lambda: spied.is_connected and spy.is_connected, client, "a spy")
    exchange(client, spied, spy, [100, 5_000])
