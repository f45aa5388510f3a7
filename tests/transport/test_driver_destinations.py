"""Multi-destination publications and subscriptions, spies, IPC, multicast, flow control of groups."""

import struct
from collections.abc import Iterator

import pytest

from ordo.runtime.errors import RegistrationError
from ordo.transport.streams.publication import ExclusivePublication
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, Collector, Feeder, Node, S, World, transfer

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
MANUAL = f"aeron:udp?control-mode=manual|control={A}:3000"
MDS = "aeron:udp?control-mode=manual"


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def endpoint(host: str, port: int = 4000) -> str:
    return f"aeron:udp?endpoint={host}:{port}"


def fan_out(
    world: World, channel: str = MANUAL, timeout_ns: int = 10 * S
) -> tuple[Node, ExclusivePublication, list[Collector]]:
    """A publication of A with destinations at B and C, where it is heard."""
    a, b, c = world.node(A), world.node(B), world.node(C)
    collectors = [Collector(n.client.add_subscription(endpoint(n.address), 10)) for n in (b, c)]
    publication = a.client.add_exclusive_publication(channel, 10)
    for node in (b, c):
        a.client.add_destination(publication, endpoint(node.address))
    world.until(lambda: all(x.subscription.images for x in collectors), timeout_ns)
    return a, publication, collectors


# --- publications with several destinations ---------------------------------------------------------------------------


def test_a_manual_publication_sends_to_each_destination(world: World) -> None:
    a, publication, collectors = fan_out(world)
    feeder = Feeder(publication, 500)
    transfer(world, feeder, collectors)
    assert all(x.messages == feeder.messages for x in collectors)
    assert a.counter(18) == 2, "mdc-num-dest"


def test_a_removed_destination_hears_no_more(world: World) -> None:
    a, publication, (kept, dropped) = fan_out(world)
    a.client.remove_destination(publication, endpoint(C))
    feeder = Feeder(publication, 100)
    transfer(world, feeder, [kept])
    dropped.poll()
    assert kept.messages == feeder.messages
    assert dropped.messages == []
    assert a.counter(18) == 1


def test_a_destination_that_cannot_be_reached_does_not_hold_up_the_others(world: World) -> None:
    a, b = world.node(A), world.node(B)
    collector = Collector(b.client.add_subscription(endpoint(B), 10))
    publication = a.client.add_exclusive_publication(MANUAL, 10)
    for host in ("10.9.9.9", B, "10.9.9.8"):
        a.client.add_destination(publication, endpoint(host))
    feeder = Feeder(publication, 300)
    transfer(world, feeder, [collector])
    assert collector.messages == feeder.messages


def test_a_destination_whose_name_has_no_address_gets_the_stream_once_it_has_one(world: World) -> None:
    a, b = world.node(A), world.node(B)
    collector = Collector(b.client.add_subscription(endpoint(B), 10))
    publication = a.client.add_exclusive_publication(MANUAL, 10)
    destination_id = a.client.add_destination(publication, "aeron:udp?endpoint=later:4000")
    a.client.add_destination(publication, "aeron:udp?endpoint=never:4000")
    world.run(S)
    assert not publication.is_connected and a.counter(18) == 2
    a.driver.context.names.table["later"] = B
    world.until(lambda: publication.is_connected, 20 * S, step_ns=MS)
    feeder = Feeder(publication, 50)
    transfer(world, feeder, [collector])
    assert collector.messages == feeder.messages
    assert a.driver.system_counter(25) == 1, "resolution changes"
    assert [one for one in a.errors if "Unable to resolve host='never'" in str(one)], (
        "the error log says who is missing"
    )
    a.client.remove_destination_by_id(publication, destination_id)
    a.client.remove_destination(publication, "aeron:udp?endpoint=never:4000")
    assert a.counter(18) == 0


def test_dynamic_destinations_come_by_status_message_and_go_by_silence(world: World) -> None:
    channel = f"aeron:udp?control-mode=dynamic|control={A}:3000"
    a, b, c = world.node(A), world.node(B), world.node(C)
    publication = a.client.add_publication(channel, 10)
    receivers = [
        Collector(n.client.add_subscription(f"aeron:udp?endpoint={n.address}:4000|control={A}:3000", 10))
        for n in (b, c)
    ]
    world.until(lambda: all(r.subscription.images for r in receivers))
    assert a.counter(18) == 2
    feeder = Feeder(publication, 200)
    transfer(world, feeder, receivers)
    assert all(r.messages == feeder.messages for r in receivers)
    c.crash()
    world.run(8 * S, 5 * MS)
    assert a.counter(18) == 1


def test_manual_destinations_recover_losses_of_each_receiver() -> None:
    world = World(5, Faults(loss=0.1, delay_min_ns=10_000, delay_max_ns=80_000))
    a, publication, collectors = fan_out(world, MANUAL + "|fc=min", 30 * S)
    feeder = Feeder(publication, 2000)
    transfer(world, feeder, collectors, 120 * S)
    assert all(x.messages == feeder.messages for x in collectors)
    assert a.counter(17) == 2, "fc-receivers"
    world.close()


def control_frame(frame_type: int, setup: bytes, tail: bytes, flags: int = 0) -> bytes:
    """A NAK or an RTTM for the stream that a SETUP has announced."""
    return struct.pack("<iBBH", 16 + len(tail), 0, flags, frame_type) + setup[12:20] + tail


def test_what_one_receiver_asks_for_costs_no_other_one_anything(world: World) -> None:
    """Neither what is sent again, nor the echo of its clock; and nobody who is no receiver can ask for it."""
    a, publication, collectors = fan_out(world)
    transfer(world, Feeder(publication, 20), collectors)
    world.run(20 * MS)
    setup = world.frames(5)[0]

    def answered(source: tuple[str, int], *frames: bytes) -> set[tuple[str, int]]:
        """Where bytes of the messages, or an echo, are sent for frames of this source."""
        before = len(world.packets)
        for one in frames:
            world.network.hosts[A].accept(source, (A, 3000), one)
        world.run(MS)
        sent = [(to, data) for _, _, to, data in world.packets[before:] if len(data) > 100 or data[6] == 6]
        return {to for to, _ in sent}

    naks = [control_frame(2, setup, setup[24:28] + struct.pack("<ii", at, 64)) for at in range(0, 1280, 64)]
    echo = control_frame(6, setup, bytes(24), flags=0x80)
    assert answered((B, 4000), *naks) == {(B, 4000)}
    assert answered((C, 4000), *naks) == {(C, 4000)}, "B's many do not keep C waiting"
    assert answered((C, 4000), echo) == {(C, 4000)}
    assert answered(("10.0.0.8", 4000), *naks, echo) == set()
    a.client.add_destination(publication, endpoint("10.0.0.7"))  # a NAT may be there: 10.0.0.8 is behind it
    assert answered(("10.0.0.8", 4000), *naks, echo) == {("10.0.0.7", 4000)}


def test_destinations_need_a_manual_publication(world: World) -> None:
    a = world.node(A)
    publication = a.client.add_publication(endpoint(B), 10)
    with pytest.raises(RegistrationError, match="control-mode=manual"):
        a.client.add_destination(publication, endpoint(C))


# --- subscriptions with several sources -------------------------------------------------------------------------------


SESSION_ID = 77_777
TERMS = "init-term-id=5|term-id=5|term-length=256k"


def replay_and_live(world: World) -> tuple[Collector, Feeder, ExclusivePublication, ExclusivePublication]:
    """A stream that C has replayed to B, and that A goes on with at the same position: two sources of one image."""
    a, b, c = world.node(A), world.node(B), world.node(C)
    collector = Collector(b.client.add_subscription(f"{MDS}|session-id={SESSION_ID}", 10))
    b.client.add_receive_destination(collector.subscription, endpoint(B, 5000))
    channel = f"{endpoint(B, 5000)}|session-id={SESSION_ID}|term-offset=0|{TERMS}"
    replay = c.client.add_exclusive_publication(channel, 10)
    world.until(lambda: replay.is_connected)
    feeder = Feeder(replay, 100)
    transfer(world, feeder, [collector])
    channel = f"{MANUAL}|session-id={SESSION_ID}|term-offset={replay.position}|{TERMS}"
    live = a.client.add_exclusive_publication(channel, 10)
    a.client.add_destination(live, endpoint(B, 5001))
    b.client.add_receive_destination(collector.subscription, endpoint(B, 5001))
    world.until(lambda: live.is_connected)
    assert len(collector.subscription.images) == 1
    return collector, feeder, replay, live


def test_one_image_is_fed_by_two_transports(world: World) -> None:
    """A replay and the live stream of one session merge without a seam (as a follower of the cluster does)."""
    collector, feeder, replay, live = replay_and_live(world)
    world.nodes[1].client.remove_receive_destination(collector.subscription, endpoint(B, 5000))
    replay.close()
    more = Feeder(live, 100, first=100)
    world.until(lambda: more.feed() or (collector.poll() >= 0 and len(collector.messages) == 200))
    assert collector.messages == feeder.messages + more.messages
    assert list(collector.by_session) == [SESSION_ID]
    world.run(30 * S, 20 * MS)
    assert len(collector.subscription.images) == 1, "the end of the replay is not the end of the stream"


@pytest.mark.parametrize("live_ends_first", [False, True])
def test_a_stream_of_two_sources_ends_where_the_last_one_ends(world: World, live_ends_first: bool) -> None:
    collector, feeder, replay, live = replay_and_live(world)
    (image,) = collector.subscription.images
    more = Feeder(live, 100, first=100)
    world.until(lambda: more.feed() or (collector.poll() >= 0 and len(collector.messages) == 200))
    end = live.position
    first, last = (live, replay) if live_ends_first else (replay, live)
    first.close()
    world.run(2 * S, 10 * MS)
    assert not image.is_end_of_stream
    last.close()
    world.until(lambda: image.is_end_of_stream)
    assert (image.end_of_stream_position, image.position) == (end, end)
    assert collector.messages == feeder.messages + more.messages
    world.until(lambda: not collector.subscription.images)


def test_a_subscription_without_sources_opens_no_socket(world: World) -> None:
    b = world.node(B)
    before = len(b.host.channels)
    subscription = b.client.add_subscription(MDS, 10)
    assert len(b.host.channels) == before
    b.client.add_receive_destination(subscription, endpoint(B))
    assert len(b.host.channels) == before + 1
    subscription.close()
    world.run(10 * MS)
    assert len(b.host.channels) == before


def test_spy_and_ipc_destinations_of_a_subscription(world: World) -> None:
    a = world.node(A)
    subscription = a.client.add_subscription(MDS, 10)
    collector = Collector(subscription)
    ipc = a.client.add_publication("aeron:ipc", 10)
    network = a.client.add_publication(endpoint(B) + "|ssc=true", 10)
    a.client.add_receive_destination(subscription, "aeron:ipc")
    a.client.add_receive_destination(subscription, "aeron-spy:" + endpoint(B))
    world.until(lambda: len(subscription.images) == 2 and ipc.is_connected and network.is_connected)
    feeders = [Feeder(ipc, 50), Feeder(network, 50)]

    def step() -> bool:
        for feeder in feeders:
            feeder.feed()
        collector.poll()
        return len(collector.messages) == 100

    world.until(step)
    assert collector.by_session[ipc.session_id] == feeders[0].messages
    assert collector.by_session[network.session_id] == feeders[1].messages
    a.client.remove_receive_destination(subscription, "aeron:ipc")
    world.until(lambda: len(subscription.images) == 1)


# --- spies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spy", ["aeron-spy:" + endpoint(B), "aeron-spy:aeron:udp?tags=9"])
def test_a_spy_reads_what_is_sent(world: World, spy: str) -> None:
    a, b = world.node(A), world.node(B)
    remote = Collector(b.client.add_subscription(endpoint(B), 10))
    publication = a.client.add_exclusive_publication(endpoint(B) + "|tags=9", 10)
    local = Collector(a.client.add_subscription(spy, 10))
    world.until(lambda: local.subscription.images and publication.is_connected)
    feeder = Feeder(publication, 3000)
    transfer(world, feeder, [remote, local])
    assert local.messages == remote.messages == feeder.messages


def test_a_slow_spy_holds_the_publisher_back(world: World) -> None:
    a, b = world.node(A), world.node(B)
    remote = Collector(b.client.add_subscription(endpoint(B), 10))
    publication = a.client.add_exclusive_publication(endpoint(B), 10)
    local = Collector(a.client.add_subscription("aeron-spy:" + endpoint(B), 10))
    world.until(lambda: local.subscription.images and publication.is_connected)
    feeder = Feeder(publication, 20_000)
    for _ in range(200):
        feeder.feed()
        remote.poll(1000)
        world.cycle()
    held = feeder.sent
    assert held < 20_000
    transfer(world, feeder, [remote, local])
    assert local.messages == feeder.messages


def test_spies_simulate_a_connection_when_asked(world: World) -> None:
    a = world.node(A)
    silent = a.client.add_exclusive_publication(endpoint(B), 10)
    a.client.add_subscription("aeron-spy:" + endpoint(B), 10)
    world.run(100 * MS)
    assert not silent.is_connected
    talking = a.client.add_exclusive_publication(endpoint(C) + "|ssc=true", 11)
    collector = Collector(a.client.add_subscription("aeron-spy:" + endpoint(C), 11))
    world.until(lambda: talking.is_connected and collector.subscription.images)
    feeder = Feeder(talking, 5000)
    transfer(world, feeder, [collector])
    assert collector.messages == feeder.messages
    world.run(10 * MS)
    assert a.driver.counters.get_value(a.driver.counters.find(2, registration_id=talking.registration_id)) > 0


# --- IPC --------------------------------------------------------------------------------------------------------------


def test_ipc_between_clients_of_one_driver(world: World) -> None:
    a = world.node(A)
    first = Collector(a.client.add_subscription("aeron:ipc", 10))
    publication = a.client.add_publication("aeron:ipc", 10)
    second = Collector(a.client.add_subscription("aeron:ipc?alias=x", 10))
    world.until(lambda: first.subscription.images and second.subscription.images)
    feeder = Feeder(publication, 10_000, length=250)
    transfer(world, feeder, [first, second])
    assert first.messages == second.messages == feeder.messages


def test_ipc_back_pressure_and_end_of_stream(world: World) -> None:
    a = world.node(A)
    collector = Collector(a.client.add_subscription("aeron:ipc", 10))
    publication = a.client.add_publication("aeron:ipc?term-length=64k", 10)
    world.until(lambda: collector.subscription.images)
    feeder = Feeder(publication, 2000)
    feeder.feed(10_000)
    world.run(10 * MS)
    feeder.feed(10_000)
    assert not feeder.done and publication.offer(b"x") == -2
    transfer(world, feeder, [collector])
    assert collector.messages == feeder.messages
    image = collector.subscription.images[0]
    publication.close()
    world.until(lambda: image.is_end_of_stream and not collector.subscription.images, 5 * S, 1 * MS)


def test_an_ipc_publication_without_subscribers_is_not_connected(world: World) -> None:
    a = world.node(A)
    publication = a.client.add_publication("aeron:ipc", 10)
    assert publication.offer(b"x") == -1
    subscription = a.client.add_subscription("aeron:ipc", 10)
    world.until(lambda: publication.is_connected and publication.offer(b"x") > 0)
    subscription.close()
    world.until(lambda: not publication.is_connected)


# --- multicast --------------------------------------------------------------------------------------------------------

GROUP = "aeron:udp?endpoint=224.10.9.7:4050|interface=10.0.0.0/24"


def test_multicast_reaches_every_member() -> None:
    world = World(3, Faults(loss=0.05, delay_min_ns=10_000, delay_max_ns=60_000))
    a, b, c = world.node(A), world.node(B), world.node(C)
    collectors = [Collector(n.client.add_subscription(GROUP, 10)) for n in (b, c)]
    publication = a.client.add_exclusive_publication(GROUP + "|fc=min,g:/2", 10)
    world.until(lambda: publication.is_connected and all(x.subscription.images for x in collectors), 30 * S)
    feeder = Feeder(publication, 1000)
    transfer(world, feeder, collectors, 120 * S)
    assert all(x.messages == feeder.messages for x in collectors)
    assert {p[2] for p in world.packets if p[1][0] != A} == {("224.10.9.8", 4050)}, "control group: last byte + 1"
    world.close()


def test_a_multicast_group_must_be_odd(world: World) -> None:
    with pytest.raises(RegistrationError, match="must be odd"):
        world.node(A).client.add_publication("aeron:udp?endpoint=224.10.9.8:4050", 10)


def test_min_flow_control_waits_for_the_group(world: World) -> None:
    a, b, c = world.node(A), world.node(B), world.node(C)
    publication = a.client.add_exclusive_publication(MANUAL + "|fc=min,g:/2", 10)
    for node in (b, c):
        a.client.add_destination(publication, endpoint(node.address))
    first = b.client.add_subscription(endpoint(B), 10)
    world.run(500 * MS, 1 * MS)
    assert first.images and not publication.is_connected
    c.client.add_subscription(endpoint(C), 10)
    world.until(lambda: publication.is_connected)


def test_max_flow_control_lets_the_slowest_fall_behind(world: World) -> None:
    a, b, c = world.node(A), world.node(B), world.node(C)
    fast, slow = (Collector(n.client.add_subscription(endpoint(n.address), 10)) for n in (b, c))
    publication = a.client.add_exclusive_publication(MANUAL, 10)
    for node in (b, c):
        a.client.add_destination(publication, endpoint(node.address))
    world.until(lambda: fast.subscription.images and slow.subscription.images)
    feeder = Feeder(publication, 10_000)
    transfer(world, feeder, [fast])
    assert fast.messages == feeder.messages
    assert world.nodes[2].driver.system_counter(13) > 0, "over runs at the slow receiver"
