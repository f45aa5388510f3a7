"""What a driver says to clients, files and peers: refusals, liveness, folder, reports, invalid datagrams."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.runtime.errors import ConfigurationError, DriverInUseError, RegistrationError
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.error_log import read_errors
from ordo.runtime.native.memory import HeapMemoryProvider
from ordo.transport.control import commands
from ordo.transport.control.commands import ErrorCode
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.flow.loss_report import read_losses
from ordo.transport.driver.frames.system_counters import LABELS
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.streams.publication import Publication
from tests.simulation.network import Faults, write_pcap
from tests.transport.driver_world import MS, Collector, Feeder, S, World, transfer

A, B = "10.0.0.1", "10.0.0.2"
CHANNEL = f"aeron:udp?endpoint={B}:4000"
INVALID_PACKETS = 14


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channel", "code", "said"),
    [
        ("aeron:udp?endpoint=10.0.0.2:0", ErrorCode.INVALID_CHANNEL, "port"),
        ("aeron:udp?mtu=100|endpoint=10.0.0.2:1", ErrorCode.INVALID_CHANNEL, "multiple of 32"),
        ("aeron:tcp?endpoint=10.0.0.2:1", ErrorCode.INVALID_CHANNEL, "aeron:udp or aeron:ipc"),
        ("aeron:udp?endpoint=nowhere:1", ErrorCode.UNKNOWN_HOST, "Unable to resolve host='nowhere'"),
        ("aeron:udp?endpoint=10.0.0.2:1|cc=vegas", ErrorCode.INVALID_CHANNEL, "cc=vegas"),
        ("aeron:udp?control-mode=response|control=10.0.0.2:1", ErrorCode.INVALID_CHANNEL, "control-mode=response"),
        ("aeron:udp?endpoint=10.0.0.2:1|response-correlation-id=3", ErrorCode.INVALID_CHANNEL, "add it first"),
        ("aeron:udp?endpoint=10.0.0.2:1|ats=true", ErrorCode.INVALID_CHANNEL, "does not support"),
        ("aeron:udp?endpoint=10.0.0.2:1|fc=min", ErrorCode.INVALID_CHANNEL, "fc=min"),
        ("aeron:udp?endpoint=10.0.0.2:1|pub-wnd=1g", ErrorCode.INVALID_CHANNEL, "pub-wnd"),
        ("aeron:udp?tags=77", ErrorCode.INVALID_CHANNEL, "no endpoint has it"),
        ("aeron:udp?endpoint=10.0.0.2:1|stream-id=9", ErrorCode.INVALID_CHANNEL, "stream-id=9"),
        ("aeron-spy:aeron:udp?endpoint=10.0.0.2:1", ErrorCode.INVALID_CHANNEL, "aeron-spy:"),
        ("aeron:ipc?term-length=64k|mtu=16k", ErrorCode.INVALID_CHANNEL, "an eighth of term-length"),
    ],
)
def test_what_is_wrong_with_a_publication_is_said_in_one_line(
    world: World, channel: str, code: ErrorCode, said: str
) -> None:
    node = world.node(A)
    with pytest.raises(RegistrationError) as caught:
        node.client.add_publication(channel, 10)
    assert caught.value.code == code
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert node.driver.system_counter(15) == 1
    assert len(node.host.channels) == 0, "no socket is left"
    assert node.memory.list_files(f"/sim/{A}/publications") == []


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        (f"{CHANNEL}|rcv-wnd=1g", "above the socket's receive buffer of 131072"),
        (f"{CHANNEL}|so-rcvbuf=64k", "raise so-rcvbuf, or lower rcv-wnd"),
        (f"{CHANNEL}|session-id=tag:78", "no publication has that entity tag"),
        (f"{CHANNEL}|reliable=True", "invalid reliable, must be true or false"),
        ("aeron-spy:aeron:ipc", "read without aeron-spy:"),
    ],
)
def test_what_is_wrong_with_a_subscription_is_said_in_one_line(world: World, channel: str, said: str) -> None:
    node = world.node(A)
    with pytest.raises(RegistrationError) as caught:
        node.client.add_subscription(channel, 10)
    assert caught.value.code == ErrorCode.INVALID_CHANNEL
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert len(node.host.channels) == 0, "no socket is left"


def test_a_port_in_use_names_the_address(world: World) -> None:
    node = world.node(B)
    node.host.open((B, 4000))
    with pytest.raises(RegistrationError, match=r"Address already in use: 10\.0\.0\.2:4000") as caught:
        node.client.add_subscription(CHANNEL, 10)
    assert f"channel {CHANNEL!r}" in str(caught.value), "the driver's error names the channel, too"


def test_the_error_log_has_a_line_with_the_code_for_what_clients_did_wrong(world: World) -> None:
    node = world.node(A)
    for channel in ("aeron:udp?endpoint=10.0.0.2:1|cc=vegas", "aeron:udp?endpoint=nowhere:1", "aeron:udp?tags=77"):
        with pytest.raises(RegistrationError):
            node.client.add_publication(channel, 10)
    with pytest.raises(RegistrationError):
        node.client.add_subscription("aeron:udp?" + "x" * 3000 + "=1|mtu=100", 10)
    logged = [one.text for one in read_errors(node.driver.context.cnc.error_log)]
    starts = ["(-1) invalid channel", "(-9) unknown host", "(-1) invalid channel", "(-1) invalid channel"]
    assert [text.partition(",")[0] for text in logged] == starts
    assert not any("\n" in text for text in logged), "no traceback"
    assert logged[-1].endswith("invalid mtu, must be a multiple of 32 from 64 to 65504"), "behind a long channel, too"


def test_what_nobody_foresaw_has_its_traceback_in_the_error_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node = world.node(A)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault of the driver")

    monkeypatch.setattr(node.driver.conductor.clients, "ensure", fail)
    with pytest.raises(RegistrationError, match="a fault of the driver"):
        node.client.add_publication(CHANNEL, 10)
    (text,) = [one.text for one in read_errors(node.driver.context.cnc.error_log)]
    assert text.startswith("Traceback") and "in fail" in text


def test_a_channel_that_is_too_long_is_shown_as_far_as_it_may_be(world: World) -> None:
    node = world.node(A)
    channel = "aeron:ipc?alias=" + "x" * 4096
    with pytest.raises(RegistrationError) as caught:
        node.client.add_publication(channel, 10)
    assert caught.value.code == ErrorCode.INVALID_CHANNEL
    assert "at most 4095 are allowed" in str(caught.value) and channel[:4095] in str(caught.value)


def test_a_spy_cannot_reject_what_it_reads(world: World) -> None:
    node = world.node(A)
    publication = node.client.add_publication(CHANNEL, 10)
    answers = ask(world, commands.RejectImage(1, 904, publication.registration_id, 0, "no"))
    (error,) = [one for one in answers if isinstance(one, commands.OnError)]
    assert "spies cannot reject an image" in error.message


def test_unknown_ids_are_refused_with_their_code(world: World) -> None:
    node = world.node(A)
    answers = ask(
        world,
        commands.RemovePublication(1, 901, 55),
        commands.RemoveSubscription(1, 902, 55),
        commands.RemoveCounter(1, 903, 55),
        commands.RejectImage(1, 904, 55, 0, "no"),
        commands.AddDestination(1, 905, 55, CHANNEL),
    )
    codes = {a.offending_correlation_id: a.error_code for a in answers if isinstance(a, commands.OnError)}
    assert codes == {
        901: ErrorCode.UNKNOWN_PUBLICATION,
        902: ErrorCode.UNKNOWN_SUBSCRIPTION,
        903: ErrorCode.UNKNOWN_COUNTER,
        904: ErrorCode.GENERIC_ERROR,
        905: ErrorCode.UNKNOWN_PUBLICATION,
    }
    assert node.driver.system_counter(15) == 5


def ask(world: World, *requests: Any) -> list[Any]:
    """Writes commands as a client does; everything the driver says until all are taken."""
    cnc = world.nodes[0].driver.context.cnc
    receiver = cnc.receiver()
    while receiver.receive() is not None:
        pass
    for request in requests:
        assert cnc.to_driver.write(commands.type_id_of(request), commands.encode(request))
    answers = []
    for _ in range(2 * len(requests)):
        world.turn()
        while (found := receiver.receive()) is not None:
            answers.append(commands.decode_response(*found))
    return answers


def test_malformed_and_unknown_commands_get_correlation_id_zero(world: World) -> None:
    node = world.node(A)
    ring = node.driver.context.cnc.to_driver
    ring.write(0x01, bytes(8))
    ring.write(0x77, bytes(40))
    receiver = node.driver.context.cnc.receiver()
    receiver.receive()
    world.run(1 * MS)
    answers = []
    while (found := receiver.receive()) is not None:
        answers.append(commands.decode_response(*found))
    errors = [one for one in answers if isinstance(one, commands.OnError)]
    assert [(one.offending_correlation_id, one.error_code) for one in errors] == [
        (0, ErrorCode.MALFORMED_COMMAND),
        (0, ErrorCode.UNKNOWN_COMMAND_TYPE_ID),
    ]
    assert len(errors) == len(answers)


def test_a_clashing_session_id_is_refused(world: World) -> None:
    node = world.node(A)
    node.client.add_exclusive_publication(CHANNEL + "|session-id=5", 10)
    with pytest.raises(RegistrationError, match="clashing"):
        node.client.add_exclusive_publication(CHANNEL + "|session-id=5", 10)
    node.client.add_exclusive_publication(CHANNEL + "|session-id=5", 11)


def test_a_session_by_tag_takes_mtu_and_term_length_along(world: World) -> None:
    """What the URI says itself goes before; a stream that has the session already is a clash (§11)."""
    node = world.node(A)
    first = node.client.add_exclusive_publication(CHANNEL + "|tags=1,77|mtu=2048|term-length=128k", 10)
    there = f"aeron:udp?endpoint={B}:4001|session-id=tag:77"
    second = node.client.add_exclusive_publication(there, 10)
    assert (second.session_id, second.max_payload_length, second.term_length) == (first.session_id, 2016, 128 << 10)
    third = node.client.add_publication(there + "|mtu=1408", 11)
    assert (third.session_id, third.max_payload_length, third.term_length) == (first.session_id, 1376, 128 << 10)
    assert node.client.add_publication(there, 11).session_id == first.session_id, "shared with the third"
    with pytest.raises(RegistrationError, match="clashing"):
        node.client.add_exclusive_publication(there, 10)
    with pytest.raises(RegistrationError, match="no publication has that entity tag"):
        node.client.add_exclusive_publication(f"aeron:udp?endpoint={B}:4001|session-id=tag:78", 12)


def test_a_subscription_by_tag_hears_the_session_of_that_publication(world: World) -> None:
    node = world.node(A)
    named, other = (node.client.add_exclusive_publication(f"aeron:ipc{rest}", 10) for rest in ("?tags=1,77", ""))
    collector = Collector(node.client.add_subscription("aeron:ipc?session-id=tag:77", 10))
    world.until(lambda: named.is_connected and named.offer(b"heard") > 0)
    world.until(lambda: collector.poll() > 0)
    assert list(collector.by_session) == [named.session_id]
    assert not other.is_connected


def test_a_shared_publication_must_be_asked_for_alike(world: World) -> None:
    node = world.node(A)
    first = node.client.add_publication(CHANNEL + "|mtu=1408", 10)
    second = node.client.add_publication(CHANNEL, 10)
    assert second.session_id == first.session_id and second.original_registration_id == first.registration_id
    with pytest.raises(RegistrationError, match="mtu=2048"):
        node.client.add_publication(CHANNEL + "|mtu=2048", 10)


# --- clients ----------------------------------------------------------------------------------------------------------


def test_a_silent_client_loses_all_it_had(world: World) -> None:
    node = world.node(A)
    node.client.add_counter(1501, "of the one that works")
    other = node.new_client()
    other.add_publication(CHANNEL, 10)
    other.add_subscription("aeron:ipc", 11)
    counter = other.add_counter(1500, "mine")
    world.run(25 * S, 20 * MS)
    assert node.driver.system_counter(24) == 1, "client liveness timeouts"
    assert node.driver.conductor.publications.network == {}
    assert len(node.driver.conductor.subscriptions.links) == 0
    assert not node.driver.counters.is_active(counter.counter_id, counter.registration_id)
    assert node.client.client_id in node.driver.conductor.clients.all, "the one that works stays"


@pytest.mark.parametrize("step_ns", [3600 * S, -3600 * S])
def test_a_step_of_the_wall_clock_ends_no_client(world: World, step_ns: int) -> None:
    """Clients tell that they live by the wall clock, which may be stepped between their heartbeats."""
    node = world.node(A)
    node.client.add_counter(1501, "of the one that works")
    quiet = node.new_client()
    quiet.add_counter(1500, "of one that has no time to see the step")
    world.run(2 * S, 20 * MS)
    world.clock.step_epoch(step_ns)
    node.driver.conductor.on_timer(world.clock.now())
    assert node.driver.system_counter(24) == 0
    world.run(25 * S, 20 * MS)
    assert node.driver.system_counter(24) == 1, "the one that is silent goes as it would have"
    assert node.client.client_id in node.driver.conductor.clients.all


def test_a_client_that_closes_is_let_go_without_a_timeout(world: World) -> None:
    node = world.node(A)
    other = node.new_client()
    other.add_publication(CHANNEL, 10)
    other.close()
    world.run(12 * S, 20 * MS)
    assert node.driver.conductor.publications.network == {}
    assert node.driver.system_counter(24) == 0


def test_static_counters_outlive_their_client(world: World) -> None:
    world.node(A)
    one, two = (commands.AddStaticCounter(9, 900 + i, 4711, 1500, b"key", "static") for i in range(2))
    answers = [a for a in ask(world, one, two) if isinstance(a, commands.OnStaticCounter)]
    assert len(answers) == 2 and answers[0].counter_id == answers[1].counter_id
    world.run(15 * S, 20 * MS)
    assert world.nodes[0].driver.counters.is_active(answers[0].counter_id, 4711)


def test_session_ids_are_handed_out_beside_the_used_and_reserved_ones(world: World) -> None:
    node = world.node(A)
    publication = node.client.add_publication(CHANNEL, 10)
    answers = ask(world, commands.GetNextAvailableSessionId(1, 900, 10))
    assert answers[0].session_id not in {publication.session_id, *range(-1, 1001)}


# --- life of a driver -------------------------------------------------------------------------------------------------


def test_only_one_driver_in_a_folder(shm_path: Path) -> None:
    config = MediaDriverSettings(directory=str(shm_path / "driver"))
    with MediaDriver(config):
        assert (shm_path / "driver" / "wake.sock").exists()
        with pytest.raises(DriverInUseError, match="a media driver is running in"), MediaDriver(config):
            pass
        assert (shm_path / "driver" / "cnc.dat").exists(), "the running one is not disturbed"
    assert not (shm_path / "driver").exists()


def test_the_errors_of_a_dead_driver_are_reported_by_the_next() -> None:
    memory, clock = HeapMemoryProvider(), VirtualClock()
    errors: list[BaseException | str] = []
    from tests.simulation.network import SimulatedNetwork

    network = SimulatedNetwork(clock, Random(1))
    config = MediaDriverSettings(directory="/sim/x")
    first = MediaDriver(config, clock=clock, memory=memory, network=network.host(A))
    first.on_start()
    first.record_error("something odd")
    network.hosts[A].close()
    clock.advance(11 * S)
    second = MediaDriver(config, clock=clock, memory=memory, network=network.host(A), error_handler=errors.append)
    second.on_start()
    assert any("something odd" in str(e) for e in errors)
    assert any("something odd" in o.text for o in read_errors(second.context.cnc.error_log))
    second.on_close()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("term_length", 100_000),
        ("mtu", 1400),
        ("image_liveness_timeout_ns", 0),
        ("client_liveness_timeout_ns", 1),
        ("receiver_window", 100),
        ("receiver_window", 1 << 20),
        ("nak_unicast_delay_ns", 1),
        ("max_resend", 300),
        ("multicast_flow_control", "most"),
        ("receiver_group_consideration", "maybe"),
        ("counters_values_length", 1),
    ],
)
def test_a_wrong_setting_is_named(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        MediaDriverSettings(directory="/x", **{setting: value})


def test_system_counters_have_their_ids(world: World) -> None:
    node = world.node(A)
    for counter_id, label in enumerate(LABELS):
        found = node.driver.counters.describe(counter_id)
        assert found is not None
        assert (found.type_id, found.label, found.registration_id) == (0, label, counter_id)
        assert struct.unpack_from("<i", found.key)[0] == counter_id
    assert len(LABELS) == 46


def test_stream_counters_say_what_they_count(world: World) -> None:
    """cnc-and-driver-protocol.md §5.3: key and label."""
    a, b = world.node(A), world.node(B)
    subscription = b.client.add_subscription(CHANNEL, 10)
    publication = a.client.add_exclusive_publication(CHANNEL, 10)
    world.until(lambda: publication.is_connected)
    labels = {c.label for c in a.driver.counters} | {c.label for c in b.driver.counters}
    stream = f"{publication.registration_id} {publication.session_id} 10 {CHANNEL}"
    for name in ("pub-pos (exclusive)", "pub-lmt", "snd-pos", "snd-lmt", "snd-bpe", "snd-naks-received"):
        assert f"{name}: {stream}" in labels
    assert f"sub-pos: {subscription.registration_id} {publication.session_id} 10 {CHANNEL} @0" in labels
    assert f"rcv-channel: {CHANNEL} {B}:4000" in labels
    found = a.driver.counters.describe(a.driver.counters.find(2))
    assert found is not None
    assert struct.unpack_from("<qiii", found.key) == (
        publication.registration_id,
        publication.session_id,
        10,
        len(CHANNEL),
    )
    assert found.key[20 : 20 + len(CHANNEL)].decode() == CHANNEL


def test_a_wildcard_port_is_told_by_the_address_counter(world: World) -> None:
    b = world.node(B)
    subscription = b.client.add_subscription(f"aeron:udp?endpoint={B}:0", 10)
    (address,) = subscription.local_socket_addresses
    assert address.startswith(f"{B}:") and int(address.split(":")[1]) > 0
    a = world.node(A)
    publication = a.client.add_publication(f"aeron:udp?endpoint={address}", 10)
    world.until(lambda: publication.is_connected)


def test_losses_are_reported(world: World) -> None:
    world.network.faults = Faults(loss=0.1)
    a, b = world.node(A), world.node(B)
    subscription = b.client.add_subscription(CHANNEL, 10)
    publication = a.client.add_publication(CHANNEL, 10)
    transfer(world, Feeder(publication, 2000), [Collector(subscription)])
    losses = b.memory.open(f"/sim/{B}/loss-report.dat")
    (entry,) = read_losses(losses)
    assert entry.session_id == publication.session_id and entry.stream_id == 10 and entry.channel == CHANNEL
    assert entry.observation_count > 0 and entry.total_bytes_lost > 0 and entry.source.startswith(A)
    losses.close()


def test_a_rejected_image_tells_its_publisher_why(world: World) -> None:
    a, b = world.node(A), world.node(B)
    subscription = b.client.add_subscription(CHANNEL, 10)
    publication = a.client.add_publication(CHANNEL, 10)
    world.until(lambda: publication.is_connected and subscription.images)
    receiver = a.driver.context.cnc.receiver()
    subscription.reject_image(subscription.images[0], "not wanted here")
    world.until(lambda: not publication.is_connected, 1 * S)
    said = []
    while (found := receiver.receive()) is not None:
        said.append(commands.decode_response(*found))
    errors = [s for s in said if isinstance(s, commands.OnPublicationError)]
    assert errors and errors[0].message == "not wanted here" and errors[0].error_code == ErrorCode.IMAGE_REJECTED
    assert errors[0].registration_id == publication.registration_id and errors[0].address[:4] == bytes([10, 0, 0, 2])
    assert b.driver.system_counter(42) == 1


def test_a_revoked_publication_ends_at_once(world: World) -> None:
    a, b = world.node(A), world.node(B)
    subscription = b.client.add_subscription(CHANNEL, 10)
    publication = a.client.add_exclusive_publication(CHANNEL, 10)
    world.until(lambda: publication.is_connected and subscription.images)
    image = subscription.images[0]
    publication.revoke()
    world.until(lambda: not subscription.images, 5 * S, 1 * MS)
    assert image.is_end_of_stream
    assert any(f[5] == 0xF0 for f in world.frames(1))
    assert b.driver.system_counter(41) == 1


def test_an_untethered_subscriber_is_let_go_and_comes_back(world: World) -> None:
    a = world.node(A)
    good = Collector(a.client.add_subscription("aeron:ipc", 10))
    lazy = a.client.add_subscription("aeron:ipc?tether=false", 10)
    publication = a.client.add_publication("aeron:ipc", 10)
    world.until(lambda: good.subscription.images and lazy.images)
    feeder = Feeder(publication, 1_000_000)

    def work() -> bool:
        feeder.feed(50)
        good.poll()
        good.messages.clear()
        return False

    world.until(lambda: work() or not lazy.images, 10 * S, 5 * MS)
    before = feeder.sent
    world.until(lambda: work() or feeder.sent > before + 10_000, 20 * S, 5 * MS)
    world.until(lambda: work() or lazy.images, 30 * S, 5 * MS)


# --- datagrams --------------------------------------------------------------------------------------------------------


def connected(world: World) -> tuple[Publication, Collector, Feeder]:
    a, b = world.node(A), world.node(B)
    collector = Collector(b.client.add_subscription(CHANNEL, 10))
    publication = a.client.add_publication(CHANNEL, 10)
    world.until(lambda: publication.is_connected and collector.subscription.images)
    feeder = Feeder(publication, 20)
    transfer(world, feeder, [collector])
    return publication, collector, feeder


def inject(world: World, datagram: bytes, to: str, name: tuple[str, int], port: int) -> None:
    """Into the sockets of a host, as if it came from a socket of the other driver."""
    world.network.hosts[to].accept(name, (to, port), datagram)


@settings(max_examples=60)
@given(st.data())
def test_garbage_never_hurts(data: st.DataObject) -> None:
    """Random bytes and damaged valid frames, at both ends: dropped or harmless, and the stream goes on."""
    world = World(3)
    publication, collector, _ = connected(world)
    valid = sorted({p[3] for p in world.packets})
    a_port = world.nodes[0].host.channels[0].local_address[1]
    for _ in range(20):
        datagram = data.draw(garbage(valid))
        inject(world, datagram, B, (A, a_port), 4000)
        inject(world, datagram, A, (B, 4000), a_port)
    world.run(5 * MS)
    for image in world.nodes[1].driver.conductor.subscriptions.images.all.values():
        assert image.rebuild_position <= image.high_water
    more = Feeder(publication, 20, first=20)
    world.until(lambda: more.feed() or (more.done and collector.poll() == 0), 20 * S)
    world.close()


def garbage(valid: list[bytes]) -> st.SearchStrategy[bytes]:
    def damage(datagram: bytes, position: int, value: bytes) -> bytes:
        at = position % max(1, len(datagram))
        return datagram[:at] + value + datagram[at + len(value) :]

    damaged = st.builds(damage, st.sampled_from(valid), st.integers(0, 2000), st.binary(min_size=1, max_size=8))
    cut = st.builds(lambda d, n: d[: n % (len(d) + 1)], st.sampled_from(valid), st.integers(0, 2000))
    return st.one_of(st.binary(max_size=200), damaged, cut)


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        bytes(8),
        struct.pack("<iBBH", 64, 1, 0xC0, 1) + bytes(56),
        struct.pack("<iBBH", -5, 0, 0xC0, 1) + bytes(56),
        struct.pack("<iBBH", 32, 0, 0xC0, 0x0A) + bytes(24),
        struct.pack("<iBBH", 32, 0, 0xC0, 1) + bytes(23),
        struct.pack("<iBBH", 100, 0, 0, 5) + bytes(32),
        struct.pack("<iBBH", 40, 0, 0, 5) + bytes(32),
    ],
)
def test_invalid_datagrams_are_counted(world: World, datagram: bytes) -> None:
    connected(world)
    before = world.nodes[1].driver.system_counter(INVALID_PACKETS)
    inject(world, datagram, B, (A, 1), 4000)
    world.run(1 * MS)
    assert world.nodes[1].driver.system_counter(INVALID_PACKETS) == before + 1


def test_status_messages_out_of_bounds_are_refused(world: World) -> None:
    publication, _, _ = connected(world)
    node = world.nodes[0]
    port = node.host.channels[0].local_address[1]
    limit = node.counter(9)
    for term_offset, window in ((32, -1), (33, 100), (-32, 100), (32, 1 << 30)):
        sm = status_message(publication, term_offset, window)
        inject(world, sm, A, (B, 4000), port)
    world.run(1 * MS)
    assert node.driver.system_counter(INVALID_PACKETS) == 4
    far = status_message(publication, 0, 1024, terms=3)
    inject(world, far, A, (B, 4000), port)
    world.run(1 * MS)
    assert node.driver.system_counter(44) == 1, "Status Messages rejected"
    assert node.counter(9) == limit


def status_message(publication: Publication, term_offset: int, window: int, terms: int = 0) -> bytes:
    term_id = (publication.initial_term_id + terms + (1 << 31)) % (1 << 32) - (1 << 31)
    return struct.pack("<iBBHiiiiiq", 36, 0, 0, 3, publication.session_id, 10, term_id, term_offset, window, 99)


def test_a_round_trip_measurement_is_answered(world: World) -> None:
    publication, _, _ = connected(world)
    port = world.nodes[0].host.channels[0].local_address[1]
    request = struct.pack("<iBBHiiqqq", 40, 0, 0x80, 6, publication.session_id, 10, 123456, 0, 77)
    inject(world, request, A, (B, 4000), port)
    world.packets.clear()
    world.run(1 * MS)
    (reply,) = world.frames(6)
    assert reply == struct.pack("<iBBHiiqqq", 40, 0, 0, 6, publication.session_id, 10, 123456, 0, 77)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_decodes_every_frame(world: World, tmp_path: Path) -> None:
    world.network.faults = Faults(loss=0.1)
    world.settings["cubic_measures_rtt"] = True
    publication, collector, _ = connected(world)
    a, b = world.nodes
    b.client.add_subscription(f"{CHANNEL}|cc=cubic", 11)
    a.client.add_publication(CHANNEL, 11)
    transfer(world, Feeder(publication, 3000, length=1000), [Collector(collector.subscription)])
    publication.close()
    world.run(2 * S, 1 * MS)
    write_pcap(tmp_path / "stream.pcap", world.packets)
    kinds = ("pad", "data", "heartbeat", "nak", "sm", "setup", "rtt")
    fields = [part for kind in kinds for part in ("-e", f"aeron.{kind}.type")]
    out = subprocess.run(
        [
            "tshark",
            "-r",
            str(tmp_path / "stream.pcap"),
            "-d",
            "udp.port==4000,aeron",
            "-T",
            "fields",
            *fields,
            "-e",
            "_ws.malformed",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    rows = [line.split("\t") for line in out.stdout.splitlines()]
    assert len(rows) == len(world.packets)
    for index, kind in enumerate(kinds):
        assert any(row[index] for row in rows), f"no {kind} frame was decoded"
    assert all(any(row[: len(kinds)]) for row in rows), "a datagram was not taken for Aeron"
    assert not [row for row in rows if row[len(kinds)]], "a datagram was malformed"


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_slow_name_server_holds_up_who_asked_and_nobody_else(world: World) -> None:
    """Commands behind one that waited once waited, too: whoever needed their answers stood still, in the end a node."""
    publication, collector, _ = connected(world)
    node = world.nodes[0]
    world.network.names["late"] = B
    world.network.pending_names.add("late")
    waiting = node.client.async_add_publication("aeron:udp?endpoint=late:4000", 12)
    assert node.client.add_publication("aeron:ipc", 13) is not None
    more = Feeder(publication, 500, first=20)
    collector.messages.clear()
    transfer(world, more, [collector])
    world.run(500 * MS, 1 * MS)
    assert node.client.get(waiting) is None
    world.network.pending_names.clear()
    world.until(lambda: node.client.get(waiting), 1 * S)


def test_what_waits_for_a_name_goes_with_its_client(world: World) -> None:
    node = world.node(A)
    world.network.pending_names.add("late")
    node.client.async_add_publication("aeron:udp?endpoint=late:4000", 12)
    world.run(10 * MS, 1 * MS)
    assert len(node.driver.conductor.waiting) == 1
    node.client.close()
    world.run(2 * S, 5 * MS)
    assert node.driver.conductor.waiting == []


def test_a_publication_follows_a_name_that_moves(world: World) -> None:
    a, b, c = world.node(A), world.node(B), world.node("10.0.0.3")
    world.network.names["service"] = B
    subscription = b.client.add_subscription(CHANNEL, 10)
    publication = a.client.add_publication("aeron:udp?endpoint=service:4000", 10)
    world.until(lambda: publication.is_connected and subscription.images)
    b.crash()
    moved = Collector(c.client.add_subscription("aeron:udp?endpoint=10.0.0.3:4000", 10))
    world.network.names["service"] = "10.0.0.3"
    world.until(lambda: moved.subscription.images and publication.is_connected, 20 * S, 5 * MS)
    assert a.driver.system_counter(25) == 1
    transfer(world, Feeder(publication, 50), [moved])


def test_a_manual_destination_follows_a_name_that_moves(world: World) -> None:
    a, b, c = world.node(A), world.node(B), world.node("10.0.0.3")
    world.network.names["member"] = B
    b.client.add_subscription(CHANNEL, 10)
    publication = a.client.add_publication("aeron:udp?control-mode=manual", 10)
    a.client.add_destination(publication, "aeron:udp?endpoint=member:4000")
    world.until(lambda: publication.is_connected)
    b.crash()
    moved = Collector(c.client.add_subscription("aeron:udp?endpoint=10.0.0.3:4000", 10))
    world.network.names["member"] = "10.0.0.3"
    world.until(lambda: moved.subscription.images and publication.is_connected, 20 * S, 5 * MS)
    transfer(world, Feeder(publication, 50), [moved])
    a.client.remove_destination(publication, "aeron:udp?endpoint=member:4000")
    assert a.counter(18) == 0


def test_no_counter_left_leaves_nothing_behind() -> None:
    world = World(counters_values_length=1 << 16)
    node = world.node(A)
    before = node.driver.system_counter(35)
    publications = []
    with pytest.raises(RegistrationError, match="no counter is free"):
        for stream_id in range(1000):
            publications.append(node.client.add_publication(CHANNEL, stream_id))
    files = node.memory.list_files(f"/sim/{A}/publications")
    assert len(files) == len(publications) == len(node.driver.conductor.publications.network)
    assert node.driver.system_counter(35) - before == len(files) * (3 * (256 << 10) + 4096)
    world.close()


def test_counters_of_an_image_are_free_again_when_it_has_ended(world: World) -> None:
    """A driver that keeps them runs out of counters after as many streams as it has, and refuses the next."""
    a, b = world.node(A), world.node(B)
    subscription = b.client.add_subscription(CHANNEL, 10)
    kinds: list[list[int]] = []
    for _ in range(3):
        publication = a.client.add_exclusive_publication(CHANNEL, 10)
        world.until(lambda: len(subscription.images) == 1)
        publication.close()
        world.until(lambda: not subscription.images, 60 * S, 20 * MS)
        world.run(60 * S, 20 * MS)
        kinds.append(sorted(one.type_id for node in (a, b) for one in node.client.counters))
    assert kinds[0] == kinds[1] == kinds[2]


@pytest.mark.parametrize(("initial", "term"), [(5, 5), (5, 7), ((1 << 31) - 1, -(1 << 31))])
@pytest.mark.parametrize("channel", [CHANNEL, "aeron:ipc"])
def test_a_publication_begins_at_its_term(world: World, channel: str, initial: int, term: int) -> None:
    """Terms count on over the end of the 32 bits that name them."""
    node = world.node(A)
    terms = f"init-term-id={initial}|term-id={term}|term-offset=96|term-length=64k"
    publication = node.client.add_exclusive_publication(f"{channel}{'|' if '?' in channel else '?'}{terms}", 10)
    assert publication.position == (term - initial) % (1 << 32) * (64 << 10) + 96
    world.node(B)
    collector = Collector(world.nodes[0 if channel == "aeron:ipc" else 1].client.add_subscription(channel, 10))
    world.until(lambda: publication.is_connected and bool(collector.subscription.images))
    (image,) = collector.subscription.images
    assert image.position == image.join_position == publication.position


def test_a_stream_without_space_is_refused_and_the_others_go_on() -> None:
    """The client is told that it is the space, the driver keeps nothing, and what was there before still works."""
    world = World()
    node = world.node(A, memory=HeapMemoryProvider(capacity_bytes=64 << 20))
    publication = node.client.add_publication("aeron:ipc", 1)
    collector = Collector(node.client.add_subscription("aeron:ipc", 1))
    files = node.memory.list_files(f"/sim/{A}/publications")
    with pytest.raises(RegistrationError) as refused:
        node.client.add_publication("aeron:ipc?term-length=1g", 2)
    assert refused.value.code == ErrorCode.STORAGE_SPACE
    assert node.memory.list_files(f"/sim/{A}/publications") == files
    transfer(world, Feeder(publication, 100), [collector])
    world.close()


def test_duty_cycles_that_take_long_are_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters 26 and 27: the longest one of the conductor, and how many took more than 100 ms."""
    node = world.node(A)
    world.run(2 * S, step_ns=50 * MS)
    assert (node.driver.system_counter(26), node.driver.system_counter(27)) == (0, 0), "no time passes within a cycle"
    on_timer = node.driver.conductor.on_timer

    def slow(now_ns: int) -> None:
        on_timer(now_ns)
        world.clock.advance(130 * MS)

    monkeypatch.setattr(node.driver.conductor, "on_timer", slow)
    world.run(3 * S, step_ns=50 * MS)
    assert node.driver.system_counter(26) == 130 * MS
    assert 2 <= node.driver.system_counter(27) <= 3


def test_what_sending_and_receiving_take_is_counted_of_each(world: World) -> None:
    """Counters 28 and 29 of the sender, 30 and 31 of the receiver; here a datagram takes 130 ms to send."""
    publication, _, _ = connected(world)
    a, b = world.nodes
    assert [node.driver.system_counter(index) for node in (a, b) for index in (28, 29, 30, 31)] == [0] * 8
    slow: set[tuple[str, bytes]] = {(A, b"\xc0\1")}

    def send_slowly(now_ns: int, source: tuple[str, int], to: tuple[str, int], datagram: bytes) -> None:
        """Datagrams of a host with these flags, and of this type, once."""
        if (source[0], datagram[5:7]) in slow:
            slow.clear()
            world.clock.advance(130 * MS)

    world.network.capture = send_slowly
    assert publication.offer(b"one more") > 0
    world.turn()
    assert (a.driver.system_counter(28), a.driver.system_counter(29)) == (130 * MS, 1)
    assert (a.driver.system_counter(30), a.driver.system_counter(31)) == (0, 0)
    slow.add((B, b"\x80\3"))  # it asks for the set-up of data of an unknown session
    unknown = struct.pack("<iBBHiiiiq", 32, 0, 0xC0, 1, 0, publication.session_id + 1, 10, 0, 0)
    inject(world, unknown, B, (A, 9), 4000)
    world.turn()
    assert (b.driver.system_counter(30), b.driver.system_counter(31)) == (130 * MS, 1)
    assert (b.driver.system_counter(28), b.driver.system_counter(29)) == (0, 0)
