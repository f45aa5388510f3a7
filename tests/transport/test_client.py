"""The transport client against a scripted driver (cnc-and-driver-protocol.md §2.2, §6, §7)."""

from __future__ import annotations

import socket
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ordo.runtime.errors import (
    Category,
    ClientTimeoutError,
    DriverTimeoutError,
    OrdoError,
    PublicationError,
    RegistrationError,
    TransportError,
)
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.memory import HeapMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.control import commands as c
from ordo.transport.streams.image import Image
from ordo.transport.streams.publication import RESULT_CLOSED, ExclusivePublication, Publication
from tests.transport.scripted_driver import ScriptedDriver

DIRECTORY = "/driver"
MS = 1_000_000
S = 1_000_000_000


class Pair:
    """A scripted driver and a client of it, in one thread and virtual time."""

    def __init__(self, **arguments: Any) -> None:
        self.clock = VirtualClock(now_ns=S)
        self.memory = HeapMemoryProvider()
        self.driver = ScriptedDriver(DIRECTORY, self.clock, self.memory)
        self.errors: list[Any] = []
        self.client = self.connect(**{"error_handler": self.errors.append, **arguments})

    def connect(self, **arguments: Any) -> TransportClient:
        return TransportClient(DIRECTORY, clock=self.clock, memory=self.memory, **{"invoker": self.driver, **arguments})

    def run(self, duration_ns: int, step_ns: int = 100 * MS) -> None:
        for _ in range(duration_ns // step_ns):
            self.clock.advance(step_ns)
            self.client.invoke()


@pytest.fixture
def pair() -> Pair:
    return Pair()


# --- connecting -------------------------------------------------------------------------------------------------------


def test_no_driver() -> None:
    with pytest.raises(DriverTimeoutError, match="no live driver in '/driver'"):
        TransportClient(DIRECTORY, clock=VirtualClock(), memory=HeapMemoryProvider(), invoker=lambda: None)


def test_client_waits_until_the_driver_is_ready() -> None:
    clock, memory = VirtualClock(), HeapMemoryProvider()
    steps = iter(range(100))
    found = []

    def invoker() -> None:
        step = next(steps)
        if step == 3:
            found.append(ScriptedDriver(DIRECTORY, clock, memory, is_ready=False))
        if step == 6:
            found[0].cnc.mark_ready(clock.epoch_ms())

    client = TransportClient(DIRECTORY, clock=clock, memory=memory, invoker=invoker)
    assert next(steps) == 7
    assert client.client_id == 1
    assert client.next_correlation_id() == 2


def test_dead_driver_is_not_taken_for_a_live_one() -> None:
    pair = Pair()
    pair.clock.advance(11 * S)
    with pytest.raises(DriverTimeoutError, match="no live driver"):
        pair.connect(invoker=lambda: None)


# --- adding -----------------------------------------------------------------------------------------------------------


def test_publications(pair: Pair) -> None:
    first = pair.client.add_publication("aeron:ipc", 10)
    second = pair.client.add_publication("aeron:ipc", 10)
    exclusive = pair.client.add_exclusive_publication("aeron:ipc", 10)
    assert (type(first), type(second), type(exclusive)) == (Publication, Publication, ExclusivePublication)
    assert first.is_original
    assert not second.is_original
    assert second.original_registration_id == first.registration_id
    assert first.log_buffers is second.log_buffers
    assert first.log_buffers is not exclusive.log_buffers
    assert (first.offer(b"a"), second.offer(b"b"), exclusive.offer(b"c")) == (64, 128, 64)
    assert pair.driver.received(c.AddPublication)[0] == c.AddPublication(
        pair.client.client_id, first.registration_id, 10, "aeron:ipc"
    )


def test_counter(pair: Pair) -> None:
    counter = pair.client.add_counter(1500, "my counter", b"key")
    counter.set(7)
    descriptor = pair.driver.counters.describe(counter.counter_id)
    assert descriptor is not None
    assert (descriptor.type_id, descriptor.label, descriptor.key[:3], descriptor.value) == (
        1500,
        "my counter",
        b"key",
        7,
    )
    counter.close()
    counter.close()
    assert pair.client.invoke() >= 0
    assert [command.registration_id for command in pair.driver.received(c.RemoveCounter)] == [counter.registration_id]


def test_refusal(pair: Pair) -> None:
    pair.driver.answers[c.AddPublication] = lambda command: [c.OnError(command.correlation_id, 1, "no such endpoint")]
    with pytest.raises(RegistrationError, match="INVALID_CHANNEL: no such endpoint") as caught:
        pair.client.add_publication("aeron:udp?endpoint=nowhere:1", 10)
    assert caught.value.code == c.ErrorCode.INVALID_CHANNEL
    assert "aeron:udp?endpoint=nowhere:1 stream 10" in caught.value.message
    assert "\n" not in caught.value.message


def test_refusal_with_a_code_of_the_future(pair: Pair) -> None:
    pair.driver.answers[c.AddCounter] = lambda command: [c.OnError(command.correlation_id, 77, "hm")]
    with pytest.raises(RegistrationError, match="error 77: hm"):
        pair.client.add_counter(1000, "x")


def test_log_that_cannot_be_mapped(pair: Pair) -> None:
    def answer(command: Any) -> list[c.OnPublicationReady]:
        return [c.OnPublicationReady(command.correlation_id, command.correlation_id, 1, 10, 0, -1, "/gone")]

    pair.driver.answers[c.AddPublication] = answer
    with pytest.raises(Exception, match="/gone"):
        pair.client.add_publication("aeron:ipc", 10)


def test_no_answer(pair: Pair) -> None:
    pair.driver.answers[c.AddSubscription] = lambda _: []
    with pytest.raises(DriverTimeoutError, match=r"subscription of aeron:ipc stream 10.*no answer"):
        pair.client.add_subscription("aeron:ipc", 10)
    late = pair.driver.received(c.AddSubscription)[0]
    pair.driver.send(c.OnSubscriptionReady(late.correlation_id, -1))
    assert pair.client.invoke() == 1
    assert pair.errors == []


def test_async_add(pair: Pair) -> None:
    held = []
    pair.driver.answers[c.AddPublication] = lambda command: held.append(command) or []
    registration_id = pair.client.async_add_publication("aeron:ipc", 10)
    pair.client.invoke()
    assert pair.client.get(registration_id) is None
    pair.driver.send(pair.driver._answer(held[0])[0])
    publication = pair.client.get(registration_id)
    assert publication.registration_id == registration_id
    with pytest.raises(TransportError, match="not pending"):
        pair.client.get(registration_id)


def test_async_add_refused_or_forgotten(pair: Pair) -> None:
    pair.driver.answers[c.AddCounter] = lambda command: [c.OnError(command.correlation_id, 11, "full")]
    refused = pair.client.async_add_counter(1000, "x")
    pair.driver.answers[c.AddSubscription] = lambda _: []
    forgotten = pair.client.async_add_subscription("aeron:ipc", 1)
    pair.client.invoke()
    with pytest.raises(RegistrationError, match="full"):
        pair.client.get(refused)
    pair.run(9 * S)
    assert pair.client.get(forgotten) is None
    pair.run(1 * S)
    with pytest.raises(DriverTimeoutError, match="no answer"):
        pair.client.get(forgotten)


def test_destinations(pair: Pair) -> None:
    publication = pair.client.add_exclusive_publication("aeron:udp?control-mode=manual", 10)
    subscription = pair.client.add_subscription("aeron:udp?control-mode=manual", 10)
    destination_id = pair.client.add_destination(publication, "aeron:udp?endpoint=a:1")
    pair.client.remove_destination(publication, "aeron:udp?endpoint=a:1")
    pair.client.add_receive_destination(subscription, "aeron:udp?endpoint=b:1")
    pair.client.remove_receive_destination(subscription, "aeron:udp?endpoint=b:1")
    sent = [command for command in pair.driver.commands if hasattr(command, "channel")][2:]
    assert [(type(command), command.registration_id, command.channel) for command in sent] == [
        (c.AddDestination, publication.registration_id, "aeron:udp?endpoint=a:1"),
        (c.RemoveDestination, publication.registration_id, "aeron:udp?endpoint=a:1"),
        (c.AddReceiveDestination, subscription.registration_id, "aeron:udp?endpoint=b:1"),
        (c.RemoveReceiveDestination, subscription.registration_id, "aeron:udp?endpoint=b:1"),
    ]
    assert sent[0].correlation_id == destination_id
    pending = pair.client.async_add_destination(publication, "aeron:udp?endpoint=c:1")
    pair.client.invoke()
    assert pair.client.get(pending) == pending


def test_next_available_session_id(pair: Pair) -> None:
    pair.driver.answers[c.GetNextAvailableSessionId] = lambda command: [
        c.OnNextAvailableSessionId(command.correlation_id, -77)
    ]
    assert pair.client.next_available_session_id(10) == -77


# --- images -----------------------------------------------------------------------------------------------------------


def test_images_come_and_go(pair: Pair) -> None:
    events: list[tuple[Any, ...]] = []
    subscription = pair.client.add_subscription(
        "aeron:ipc",
        10,
        on_available_image=lambda image: events.append(("available", image.correlation_id)),
        on_unavailable_image=lambda image: events.append(("unavailable", image.correlation_id, image.is_closed)),
    )
    available = pair.driver.make_image(subscription.registration_id, 500)
    pair.driver.send(available, available._replace(subscription_registration_id=12345))
    assert events == []
    pair.client.invoke()
    assert events == [("available", 500)]
    (image,) = subscription.images
    assert (image.source_identity, image.subscription, image.correlation_id) == ("a:1", subscription, 500)
    pair.driver.send(c.OnUnavailableImage(500, subscription.registration_id, 10, "aeron:ipc"))
    pair.client.invoke()
    assert events[1:] == [("unavailable", 500, True)]
    assert subscription.images == ()


def test_callback_may_use_the_client(pair: Pair) -> None:
    made = []

    def on_available_image(image: Image) -> None:
        made.append((image.correlation_id, pair.client.add_counter(1000, "of an image")))

    subscription = pair.client.add_subscription("aeron:ipc", 10, on_available_image=on_available_image)
    images = [pair.driver.make_image(subscription.registration_id, image_id) for image_id in (500, 501)]
    pair.driver.send(*images)
    pair.client.invoke()
    assert [image_id for image_id, _ in made] == [500, 501]
    assert made[0][1].counter_id != made[1][1].counter_id


def test_callbacks_wait_for_do_work(pair: Pair) -> None:
    events: list[Image] = []
    subscription = pair.client.add_subscription("aeron:ipc", 10, on_available_image=events.append)
    pair.driver.send(pair.driver.make_image(subscription.registration_id, 500))
    pair.client.add_counter(1000, "x")
    assert len(subscription.images) == 1
    assert events == []
    assert pair.client.do_work(pair.clock.now()) == 1
    assert events == list(subscription.images)


def test_image_that_cannot_be_mapped_is_reported(pair: Pair) -> None:
    subscription = pair.client.add_subscription("aeron:ipc", 10)
    pair.driver.send(pair.driver.make_image(subscription.registration_id, 500)._replace(log_file="/gone"))
    pair.client.invoke()
    assert subscription.images == ()
    assert "/gone" in pair.errors[0].message


def test_closing_a_subscription_closes_its_images(pair: Pair) -> None:
    gone: list[Image] = []
    subscription = pair.client.add_subscription("aeron:ipc", 10, on_unavailable_image=gone.append)
    pair.driver.send(pair.driver.make_image(subscription.registration_id, 500))
    pair.client.invoke()
    (image,) = subscription.images
    subscription.close()
    subscription.close()
    assert image.is_closed
    pair.client.invoke()
    assert gone == [image]
    assert len(pair.driver.received(c.RemoveSubscription)) == 1


def test_rejecting_an_image(pair: Pair) -> None:
    subscription = pair.client.add_subscription("aeron:ipc", 10)
    pair.driver.send(pair.driver.make_image(subscription.registration_id, 500))
    pair.client.invoke()
    subscription.images[0].reject("bad data")
    (command,) = pair.driver.received(c.RejectImage)
    assert (command.image_correlation_id, command.position, command.reason) == (500, 0, "bad data")


@pytest.mark.parametrize("reason", ["x" * 1024, "unerwünscht"])
def test_a_reason_that_is_too_long_is_refused(pair: Pair, reason: str) -> None:
    subscription = pair.client.add_subscription("aeron:ipc", 10)
    pair.driver.send(pair.driver.make_image(subscription.registration_id, 500))
    pair.client.invoke()
    with pytest.raises(
        TransportError, match=f"a reason of {len(reason)} characters .* up to 1023 are allowed, of ASCII"
    ):
        subscription.images[0].reject(reason)
    assert pair.driver.received(c.RejectImage) == []
    subscription.images[0].reject("x" * 1023)


def test_logs_stay_mapped_for_the_linger(pair: Pair) -> None:
    publications = [pair.client.add_publication("aeron:ipc", 10) for _ in range(2)]
    log = publications[0].log_buffers
    publications[0].close()
    pair.run(5 * S)
    assert publications[1].offer(b"x") == 64
    publications[1].close()
    assert publications[1].offer(b"x") == RESULT_CLOSED
    pair.run(2 * S)
    with log.view() as view:
        assert view[32:33] == b"x"
        pair.run(3 * S)
    pair.run(1 * S)
    with pytest.raises(Exception, match="closed"):
        log.view()
    assert log.tail_position == 64
    assert [command.flags for command in pair.driver.received(c.RemovePublication)] == [0, 0]


def test_revoke(pair: Pair) -> None:
    publication = pair.client.add_publication("aeron:ipc", 10)
    publication.revoke()
    pair.client.invoke()
    assert pair.driver.received(c.RemovePublication)[0].flags == 1


# --- liveness ---------------------------------------------------------------------------------------------------------


def test_keepalive_every_half_second() -> None:
    pair = Pair(name="tester")
    pair.client.add_counter(1000, "x")
    heartbeat = pair.driver.heartbeats[pair.client.client_id]
    beats = set()
    for _ in range(50):
        pair.run(100 * MS)
        beats.add(heartbeat.value)
    assert 10 <= len(beats) <= 11
    assert pair.clock.epoch_ms() - heartbeat.value < 500
    descriptor = pair.driver.counters.describe(heartbeat.counter_id)
    assert descriptor is not None
    assert descriptor.label == f"client-heartbeat: id={pair.client.client_id} name=tester"


def test_a_client_that_waits_for_an_answer_shows_that_it_lives(pair: Pair) -> None:
    """A driver may take long, for a name or for a large log, and it gave clients up that waited for it."""
    asked: list[c.AddSubscription] = []
    beats_ms: set[int] = set()
    answer_ns = pair.clock.now() + 9 * S

    def note(command: c.AddSubscription) -> list[Any]:
        asked.append(command)
        return []

    def work() -> None:
        pair.clock.advance(100 * MS)
        pair.driver()
        beats_ms.update(heartbeat.value for heartbeat in pair.driver.heartbeats.values())
        if pair.clock.now() >= answer_ns:
            pair.driver.send(*(c.OnSubscriptionReady(one.correlation_id, -1) for one in asked))

    pair.driver.answers[c.AddSubscription] = note
    client = pair.connect(invoker=work)
    publication = client.add_exclusive_publication("aeron:ipc", 10)
    log = publication.log_buffers
    publication.close()
    assert not client.add_subscription("aeron:ipc", 10).is_connected
    assert len(asked) == 1
    with log.view() as view:  # it is mapped: a handler that waits may be reading it
        assert len(view) > 0
    times_ms = sorted(beats_ms - {0})
    assert len(times_ms) >= 14
    assert all(later - earlier <= 600 for earlier, later in pairwise(times_ms))


def check_dead(pair: Pair, kind: type[OrdoError], message: str) -> None:
    (error,) = pair.errors
    assert isinstance(error, kind)
    assert message in error.message
    assert pair.client.is_closed
    with pytest.raises(TransportError, match="cannot be used any more"):
        pair.client.add_publication("aeron:ipc", 1)
    assert pair.client.do_work(pair.clock.now()) == 0


def test_heartbeat_counter_that_vanished(pair: Pair) -> None:
    publication = pair.client.add_publication("aeron:ipc", 10)
    pair.run(1 * S)
    pair.driver.counters.free(pair.driver.heartbeats[pair.client.client_id].counter_id)
    pair.run(1 * S)
    check_dead(pair, ClientTimeoutError, "no heartbeat counter")
    assert publication.offer(b"x") == RESULT_CLOSED


def test_client_that_the_driver_gave_up(pair: Pair) -> None:
    pair.driver.send(c.OnClientTimeout(pair.client.client_id + 1))
    pair.client.invoke()
    assert not pair.client.is_closed
    pair.driver.send(c.OnClientTimeout(pair.client.client_id))
    pair.client.invoke()
    check_dead(pair, ClientTimeoutError, "given up")


def test_driver_that_was_closed(pair: Pair) -> None:
    subscription = pair.client.add_subscription("aeron:ipc", 10)
    pair.driver.is_beating = False
    pair.client.demand_driver()
    pair.driver.cnc.to_driver.consumer_heartbeat_ms = -1
    with pytest.raises(DriverTimeoutError, match="was closed; start it again"):
        pair.client.demand_driver()
    assert not subscription.is_closed, "the next heartbeat ends the client"
    pair.run(1 * S)
    check_dead(pair, DriverTimeoutError, "was closed")
    assert subscription.is_closed


def test_driver_that_fell_silent(pair: Pair) -> None:
    """Without an invoker: a driver in another process."""
    errors: list[Any] = []
    client = pair.connect(invoker=None, error_handler=errors.append)
    for _ in range(21):
        pair.clock.advance(500 * MS)
        client.do_work(pair.clock.now())
    assert client.is_closed
    assert "has been silent for 10500 ms" in errors[0].message


def test_a_step_of_the_wall_clock_is_not_the_drivers_silence(pair: Pair) -> None:
    """The driver's heartbeat is by the time before the step until it beats again."""
    errors: list[Any] = []
    client = pair.connect(invoker=None, error_handler=errors.append)
    for _ in range(3):
        pair.clock.advance(500 * MS)
        pair.driver()
        client.do_work(pair.clock.now())
    pair.clock.step_epoch(3600 * S)
    pair.clock.advance(500 * MS)
    client.do_work(pair.clock.now())
    for _ in range(8):
        pair.clock.advance(500 * MS)
        pair.driver()
        client.do_work(pair.clock.now())
    assert errors == [] and not client.is_closed


def test_client_that_did_not_run(pair: Pair) -> None:
    errors: list[Any] = []
    client = pair.connect(invoker=None, error_handler=errors.append)
    client.do_work(pair.clock.now())
    pair.clock.advance(11 * S)
    pair.driver()
    client.do_work(pair.clock.now())
    assert isinstance(errors[0], ClientTimeoutError)
    assert "did not run for 11000000000 ns" in errors[0].message


def test_thread_that_stood_still_with_its_driver_goes_on(pair: Pair) -> None:
    """A stopped process finds its driver and itself late alike: no reason to give up."""
    pair.client.add_counter(1000, "x")
    pair.clock.advance(60 * S)
    pair.client.do_work(pair.clock.now())
    pair.client.invoke()
    assert not pair.client.is_closed
    assert pair.errors == []


def test_lapped_by_the_driver(pair: Pair) -> None:
    for _ in range(70_000):
        pair.driver.send(c.OnOperationSuccess(-5))
    pair.client.do_work(pair.clock.now())
    check_dead(pair, TransportError, "could not keep up")
    assert pair.errors[0].category is Category.FATAL


def test_without_an_error_handler_do_work_raises() -> None:
    pair = Pair(error_handler=None)
    pair.driver.send(c.OnClientTimeout(pair.client.client_id))
    with pytest.raises(ClientTimeoutError):
        pair.client.do_work(pair.clock.now())
    assert pair.client.is_closed


def test_pending_commands_fail_with_the_client(pair: Pair) -> None:
    pair.driver.answers[c.AddPublication] = lambda _: []
    registration_id = pair.client.async_add_publication("aeron:ipc", 10)
    pair.driver.send(c.OnClientTimeout(pair.client.client_id))
    pair.client.invoke()
    with pytest.raises(ClientTimeoutError):
        pair.client.get(registration_id)


def test_full_ring() -> None:
    pair = Pair()
    while pair.driver.cnc.to_driver.write(1, bytes(100_000)):
        pass
    client = pair.client
    client._link.invoker = lambda: None
    with pytest.raises(DriverTimeoutError, match="takes no commands"):
        for _ in range(5_000):
            client.async_add_counter(1000, "x" * 300)


# --- errors of others -------------------------------------------------------------------------------------------------


def test_channel_error_is_reported_for_each_resource_of_the_channel(pair: Pair) -> None:
    pair.driver.answers[c.AddSubscription] = lambda command: [c.OnSubscriptionReady(command.correlation_id, 3)]
    pair.client.add_subscription("aeron:udp?endpoint=a:1", 10)
    pair.client.add_publication("aeron:ipc", 10)
    pair.driver.send(c.OnError(3, c.ErrorCode.CHANNEL_ENDPOINT_ERROR, "unresolvable"))
    pair.client.invoke()
    (error,) = pair.errors
    assert error.code == c.ErrorCode.CHANNEL_ENDPOINT_ERROR
    assert error.message == "channel 'aeron:udp?endpoint=a:1' failed: unresolvable"


def test_error_of_a_receiver_is_a_warning(pair: Pair) -> None:
    publication = pair.client.add_publication("aeron:ipc", 10)
    error = c.OnPublicationError(publication.registration_id, -1, 7, 10, 8, -1, 1, 5, b"", 13, "not for me")
    pair.driver.send(error._replace(registration_id=999), error)
    pair.client.invoke()
    (reported,) = pair.errors
    assert isinstance(reported, PublicationError)
    assert reported.category is Category.WARN
    assert "IMAGE_REJECTED: not for me" in reported.message


def test_unknown_messages_and_foreign_ids_are_ignored(pair: Pair) -> None:
    pair.driver.transmitter.transmit(0x0FFF, b"future")
    pair.driver.send(c.OnOperationSuccess(98765), c.OnError(98765, 11, "x"), c.OnUnavailableCounter(98765, 1))
    pair.driver.send(c.OnUnavailableImage(1, 98765, 1, "x"))
    assert pair.client.invoke() == 5
    assert pair.errors == []


def test_counter_taken_away_by_the_driver(pair: Pair) -> None:
    counter = pair.client.add_counter(1000, "x")
    pair.driver.send(c.OnUnavailableCounter(counter.registration_id, counter.counter_id))
    pair.client.invoke()
    assert counter.closed
    counter.close()
    pair.client.invoke()
    assert pair.driver.received(c.RemoveCounter) == []


# --- state ------------------------------------------------------------------------------------------------------------


def test_local_socket_addresses(pair: Pair) -> None:
    status = pair.driver.counters.allocate(7, "rcv-channel", value=1)
    other = pair.driver.counters.allocate(7, "rcv-channel", value=0)
    for channel, text in ((status, b"127.0.0.1:4321"), (other, b"127.0.0.1:1"), (status, b"")):
        key = struct.pack("<ii", channel.counter_id, len(text)) + text
        pair.driver.counters.allocate(14, "rcv-local-sockaddr", key, value=1)
    pair.driver.answers[c.AddSubscription] = lambda command: [
        c.OnSubscriptionReady(command.correlation_id, status.counter_id)
    ]
    subscription = pair.client.add_subscription("aeron:udp?endpoint=127.0.0.1:0", 10)
    assert subscription.channel_status == 1
    assert subscription.local_socket_addresses == ["127.0.0.1:4321"]
    assert subscription.resolved_endpoint == "127.0.0.1:4321"
    assert pair.client.local_socket_addresses(other.counter_id) == []
    assert pair.client.local_socket_addresses(-1) == []


def test_close_says_goodbye_and_closes_everything(pair: Pair) -> None:
    publication = pair.client.add_publication("aeron:ipc", 10)
    subscription = pair.client.add_subscription("aeron:ipc", 10)
    counter = pair.client.add_counter(1000, "x")
    with pair.client as client:
        assert client.role_name == "transport-client"
    pair.driver()
    assert pair.driver.received(c.ClientClose) == [c.ClientClose(client.client_id, -1)]
    assert (publication.is_closed, subscription.is_closed, counter.closed) == (True, True, True)
    client.close()
    publication.close()
    subscription.close()
    counter.close()
    assert pair.driver() == 0
    assert client.do_work(pair.clock.now()) == 0
    with pytest.raises(TransportError, match="it was closed"):
        client.next_correlation_id()


def test_idle_duty_cycle_does_nothing(pair: Pair) -> None:
    pair.client.invoke()
    assert pair.client.do_work(pair.clock.now()) == 0
    assert pair.client.do_work(pair.clock.now() + 499 * MS) == 0


def test_parked_driver_is_woken_once(tmp_path: Path) -> None:
    """One datagram on wake.sock when the flag says parked, none when it is awake."""
    from ordo.runtime.native.clock import SystemClock
    from ordo.runtime.native.memory import FileMemoryProvider

    driver = ScriptedDriver(str(tmp_path), SystemClock(), FileMemoryProvider())
    flag = driver.counters.allocate(1004, "ordo driver park flag")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as server:
        server.bind(f"{tmp_path}/wake.sock")
        client = TransportClient(str(tmp_path), clock=SystemClock(), memory=FileMemoryProvider())
        registration_id = client.async_add_publication("aeron:ipc", 10)
        driver()
        publication = client.get(registration_id)
        assert publication.offer(b"x") == 64
        with pytest.raises(BlockingIOError):
            server.recv(16)
        flag.set(2)
        assert publication.offer(b"x") == 128
        assert flag.value == 0
        assert server.recv(16)
        flag.set(2)
        client.wake_driver()
        client.wake_driver()
        assert server.recv(16)
        with pytest.raises(BlockingIOError):
            server.recv(16)
        client.close()
        flag.set(2)
        assert publication.offer(b"x") == RESULT_CLOSED
        assert flag.value == 2
