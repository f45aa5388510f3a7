"""Streams between drivers over a simulated network: delivery under faults, loss recovery, joining, ending."""

from collections.abc import Iterator

import pytest

from ordo.transport.streams.publication import ExclusivePublication
from ordo.transport.streams.subscription import Subscription
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, Collector, Feeder, S, World, transfer

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
CHANNEL = f"aeron:udp?endpoint={B}:4000"
HEARTBEATS_SENT = 9
SHORT_SENDS = 16
NAK, SM, SETUP, DATA = 2, 3, 5, 1


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def stream(world: World, channel: str = CHANNEL, stream_id: int = 10) -> tuple[ExclusivePublication, Subscription]:
    """A publication at A and a subscription at B, connected."""
    a, b = world.node(A), world.node(B)
    subscription = b.client.add_subscription(channel, stream_id)
    publication = a.client.add_exclusive_publication(channel, stream_id)
    world.until(lambda: publication.is_connected and len(subscription.images) == 1)
    return publication, subscription


@pytest.mark.parametrize("length", [0, 1, 32, 100, 1376, 1377, 5000, 30000])
def test_messages_of_every_length_arrive_in_order(world: World, length: int) -> None:
    publication, subscription = stream(world)
    feeder = Feeder(publication, 200, length=length)
    feeder.messages = [m[:length] for m in feeder.messages]
    assembled: list[bytes] = []

    def step() -> bool:
        feeder.feed()
        subscription.poll_messages(lambda payload, header: assembled.append(bytes(payload)), 100)
        return len(assembled) == len(feeder.messages)

    world.until(step, 60 * S)
    assert assembled == feeder.messages


@pytest.mark.parametrize("seed", range(8))
def test_loss_both_ways_reordering_duplication_and_corruption_change_nothing(seed: int) -> None:
    faults = Faults(
        loss=0.1,
        duplication=0.05,
        corruption=0.0,
        reordering=0.1,
        delay_min_ns=20_000,
        delay_max_ns=120_000,
    )
    world = World(seed, faults)
    try:
        publication, subscription = stream(world)
        feeder, collector = Feeder(publication, 3000), Collector(subscription)
        transfer(world, feeder, [collector], 120 * S)
        assert collector.messages == feeder.messages
        assert world.network.statistics.lost > 40
        assert world.nodes[1].driver.system_counter(5) > 0, "NAKs sent"
        assert world.nodes[0].driver.system_counter(11) > 0, "retransmits"
    finally:
        world.close()


def test_the_same_seed_gives_the_same_datagrams() -> None:
    def run(seed: int) -> int:
        world = World(seed, Faults(loss=0.1, delay_min_ns=10_000, delay_max_ns=90_000))
        publication, subscription = stream(world)
        transfer(world, Feeder(publication, 500), [Collector(subscription)])
        digest = world.network.digest
        world.close()
        return int(digest)

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_a_publication_waits_for_its_first_receiver(world: World) -> None:
    """transport-wire.md §4.2: nothing is sent before the first status message; SETUP goes every 100 ms."""
    a = world.node(A)
    publication = a.client.add_publication(CHANNEL, 10)
    world.run(1 * S, 1 * MS)
    assert publication.offer(b"x") == -1
    assert not world.frames(DATA)
    assert 8 <= len(world.frames(SETUP)) <= 11


def test_heartbeats_every_100_ms_when_nothing_is_sent(world: World) -> None:
    publication, _ = stream(world)
    world.packets.clear()
    world.run(2 * S, 1 * MS)
    beats = world.frames(DATA)
    assert 18 <= len(beats) <= 21
    assert all(len(b) == 32 and b[:4] == bytes(4) and b[5] == 0xC0 for b in beats)
    assert 9 <= len(world.frames(SM)) <= 11, "status messages every 200 ms"
    assert publication.is_connected


def test_a_lost_tail_is_found_by_the_heartbeat(world: World) -> None:
    publication, subscription = stream(world)
    collector = Collector(subscription)
    world.network.block(A, B)
    assert publication.offer(b"the last one") > 0
    world.run(1 * MS)
    world.network.heal()
    world.until(lambda: collector.poll() and collector.messages == [b"the last one"], 1 * S)
    assert len(world.frames(NAK)) >= 1


def test_a_late_subscriber_joins_at_the_sender_position(world: World) -> None:
    publication, subscription = stream(world)
    first = Collector(subscription)
    transfer(world, Feeder(publication, 100), [first])
    later = Collector(world.nodes[1].client.add_subscription(CHANNEL, 10))
    world.until(lambda: later.subscription.images)
    feeder = Feeder(publication, 100, first=100)
    world.until(lambda: feeder.feed() or (first.poll() + later.poll() >= 0 and len(later.messages) == 100))
    assert later.messages == feeder.messages


def test_a_slow_subscriber_holds_the_publisher_back_and_nothing_is_lost(world: World) -> None:
    publication, subscription = stream(world)
    feeder, collector = Feeder(publication, 20_000), Collector(subscription)
    for _ in range(10):
        feeder.feed()
        world.run(20 * MS)
    held = feeder.sent
    assert publication.offer(b"") == -2
    world.run(1 * S, 1 * MS)
    feeder.feed()
    assert feeder.sent == held < len(feeder.messages)
    assert world.nodes[0].counter(13) == 1, "one stall is counted once"
    transfer(world, feeder, [collector])
    assert collector.messages == feeder.messages


def test_the_end_of_a_stream_reaches_its_subscriber(world: World) -> None:
    """§4.6, §6.3: EOS heartbeats, the end position in the log, then the image goes."""
    publication, subscription = stream(world)
    collector = Collector(subscription)
    feeder = Feeder(publication, 50)
    feeder.feed()
    publication.close()
    image = subscription.images[0]
    world.until(lambda: collector.poll() + 1 and image.is_end_of_stream, 5 * S, 1 * MS)
    assert collector.messages == feeder.messages
    world.until(lambda: not subscription.images, 10 * S, 1 * MS)
    assert any(f[5] == 0xE0 for f in world.frames(DATA))
    world.run(15 * S, 1 * MS)
    driver = world.nodes[0].driver
    assert world.nodes[0].memory.list_files(f"/sim/{A}/publications") == []
    assert driver.counters.find(2) == -1, "counters are given back"


def test_a_new_publication_of_the_same_channel_is_a_new_image(world: World) -> None:
    publication, subscription = stream(world)
    publication.close()
    again = world.nodes[0].client.add_exclusive_publication(CHANNEL, 10)
    world.until(lambda: again.is_connected)
    collector = Collector(subscription)
    transfer(world, Feeder(again, 10), [collector])
    assert list(collector.by_session) == [again.session_id]


def test_a_vanished_publisher_ends_the_image_after_the_liveness_timeout(world: World) -> None:
    _, subscription = stream(world)
    world.nodes[0].crash()
    world.run(9 * S, 10 * MS)
    assert len(subscription.images) == 1
    world.until(lambda: not subscription.images, 6 * S, 10 * MS)


def test_a_publisher_behind_a_partition_comes_back(world: World) -> None:
    publication, subscription = stream(world)
    collector = Collector(subscription)
    feeder = Feeder(publication, 10)
    transfer(world, feeder, [collector])
    world.network.partition([A], [B])
    world.until(lambda: not publication.is_connected, 8 * S, 5 * MS)
    world.until(lambda: not subscription.images, 16 * S, 5 * MS)
    world.network.heal()
    world.until(lambda: publication.is_connected and subscription.images, 10 * S, 1 * MS)
    more = Feeder(publication, 10, first=10)
    world.until(lambda: more.feed() or (collector.poll() >= 0 and len(collector.messages) == 20))
    assert collector.messages == feeder.messages + more.messages


def test_a_stream_is_not_joined_again_where_its_reader_forbids_it(world: World) -> None:
    """`rejoin=false`: what was lost in between would be missing without a word."""
    publication, subscription = stream(world, f"{CHANNEL}|rejoin=false")
    world.network.partition([A], [B])
    world.until(lambda: not subscription.images, 16 * S, 5 * MS)
    world.network.heal()
    world.run(5 * S, 1 * MS)
    assert not subscription.images and not publication.is_connected


def test_a_closed_subscription_tells_the_sender_at_once(world: World) -> None:
    publication, subscription = stream(world)
    subscription.close()
    world.until(lambda: not publication.is_connected, 1 * S)
    assert any(f[5] & 0x40 for f in world.frames(SM))


def test_the_publisher_goes_on_with_a_subscriber_after_the_last_one_and_where_a_spy_held_it(world: World) -> None:
    """While neither end moves, the limit is not looked at; that those who hold it come and go is noticed."""
    publication, subscription = stream(world)
    spy = world.nodes[0].client.add_subscription(f"aeron-spy:{CHANNEL}", 10)
    world.until(lambda: len(spy.images) == 1)
    feeder, collector = Feeder(publication, 20_000), Collector(subscription)
    world.until(lambda: feeder.feed() or (collector.poll() >= 0 and publication.offer(b"") == -2))
    spy.close()
    transfer(world, feeder, [collector])
    subscription.close()
    world.until(lambda: not publication.is_connected, 1 * S)
    world.run(100 * MS)
    later = Collector(world.nodes[1].client.add_subscription(CHANNEL, 10))
    world.until(lambda: publication.is_connected and later.subscription.images)
    again = Feeder(publication, 2_000)
    transfer(world, again, [later])
    assert later.messages == again.messages


def test_an_unreliable_subscription_skips_what_was_lost(world: World) -> None:
    publication, subscription = stream(world, CHANNEL + "|reliable=false")
    collector = Collector(subscription)
    feeder = Feeder(publication, 500)
    world.network.faults = Faults(loss=0.2)
    world.until(lambda: feeder.feed(5) or (collector.poll() >= 0 and feeder.done), 20 * S)
    world.network.faults = Faults()
    publication.offer(b"last")
    world.until(lambda: collector.poll() >= 0 and collector.messages[-1:] == [b"last"], 20 * S)
    assert not world.frames(NAK)
    assert world.nodes[1].driver.system_counter(23) > 0, "gap fills"
    received = collector.messages[:-1]
    assert len(received) < 500
    assert received == [m for m in feeder.messages if m in set(received)], "in order, none twice"


def test_positions_of_both_ends_agree(world: World) -> None:
    publication, subscription = stream(world)
    feeder, collector = Feeder(publication, 1000, length=300), Collector(subscription)
    transfer(world, feeder, [collector])
    world.run(300 * MS, 1 * MS)
    a, b = world.nodes
    end = publication.position
    assert a.counter(12) == a.counter(2) == end, "pub-pos, snd-pos"
    assert b.counter(3) == b.counter(5) == b.counter(4) == end, "rcv-hwm, rcv-pos, sub-pos"
    assert a.counter(9) == end + (128 << 10), "snd-lmt: consumption and window"


def test_hundreds_of_streams_rest_and_wake(world: World) -> None:
    """Quiet streams are visited in slices: each still sends, receives, and keeps its heartbeat."""
    count = 160
    a, b = (world.node(host, term_length=64 << 10, counters_values_length=1 << 18) for host in (A, B))
    collector = Collector(b.client.add_subscription(CHANNEL, 10))
    publications = [a.client.add_exclusive_publication(CHANNEL, 10) for _ in range(count)]
    world.until(lambda: len(collector.subscription.images) == count)
    for publication in publications[::7]:
        assert publication.offer(b"x" * 100) > 0
    world.until(lambda: collector.poll(1000) + 1 and len(collector.messages) == len(publications[::7]))
    world.run(6 * S, 2 * MS)
    assert all(publication.is_connected for publication in publications)
    assert len(collector.subscription.images) == count


def test_a_small_stream_has_its_turn_beside_a_large_one_while_the_buffer_is_full(world: World) -> None:
    a, b = (world.node(host) for host in (A, B))
    collector = Collector(b.client.add_subscription(CHANNEL, 10))
    large, small = (a.client.add_exclusive_publication(CHANNEL, 10) for _ in range(2))
    world.until(lambda: large.available_window > 0 and small.available_window > 0)
    (sender,) = [channel for channel in a.host.channels if channel.connected_to is not None]
    for number in range(60):  # longer and longer, so that each is an item of its own
        assert large.offer(bytes([number]) * (900 + number)) > 0
    assert small.offer(b"small") > 0

    def turn() -> bool:
        sender.items_room = 1
        world.cycle()
        collector.poll(1000)
        return b"small" in collector.messages

    world.until(turn)
    assert len(collector.messages) < 20
    sender.items_room = -1

    def has_all_come() -> bool:
        collector.poll(1000)
        return len(collector.messages) == 61

    world.until(has_all_come)


@pytest.mark.parametrize("count", [2, 64, 70, 140])
@pytest.mark.parametrize("items_room", [-1, 0, 1, 40])
def test_streams_that_leave_one_socket_together_lose_nothing(world: World, count: int, items_room: int) -> None:
    """Also where the socket's buffer takes only some of what it is given: the others go out in a later turn."""
    a, b = (world.node(host, term_length=64 << 10, counters_values_length=1 << 18) for host in (A, B))
    collector = Collector(b.client.add_subscription(CHANNEL, 10))
    publications = [a.client.add_exclusive_publication(CHANNEL, 10) for _ in range(count)]
    world.until(lambda: all(publication.available_window > 0 for publication in publications))
    (sender,) = [channel for channel in a.host.channels if channel.connected_to is not None]
    feeders = [Feeder(publication, 3, first=10 * index) for index, publication in enumerate(publications)]
    before = a.driver.system_counter(SHORT_SENDS)
    due = 0

    def has_come() -> bool:
        collector.poll(1000)
        return len(collector.messages) == due

    for _ in range(3):
        due += count
        for feeder in feeders:
            feeder.feed(1)
        sender.items_room = items_room
        world.cycle()
        assert (a.driver.system_counter(SHORT_SENDS) > before) == (0 <= items_room < count)
        sender.items_room = -1
        world.until(has_come)
    assert sorted(collector.by_session.values()) == [feeder.messages for feeder in feeders]


def test_one_of_many_quiet_streams_sends_fewer_heartbeats(world: World) -> None:
    """Those of 4,096 sessions, ten a second each, overflowed the socket of their node."""
    count = 160
    a, b = (world.node(host, term_length=64 << 10, counters_values_length=1 << 18) for host in (A, B))
    collector = Collector(b.client.add_subscription(CHANNEL, 10))
    publications = [a.client.add_exclusive_publication(CHANNEL, 10) for _ in range(count)]
    world.until(lambda: len(collector.subscription.images) == count)
    before = a.driver.system_counter(HEARTBEATS_SENT)
    world.run(1 * S, 2 * MS)
    assert a.driver.system_counter(HEARTBEATS_SENT) - before > 7 * count, "every 100 ms: a lost tail is found soon"
    world.run(1 * S, 2 * MS)
    before = a.driver.system_counter(HEARTBEATS_SENT)
    world.run(5 * S, 2 * MS)
    assert 8 * count < a.driver.system_counter(HEARTBEATS_SENT) - before < 11 * count
    assert all(publication.is_connected for publication in publications)
    assert publications[0].offer(b"x" * 100) > 0
    world.until(lambda: collector.poll(1000) + 1 and len(collector.messages) == 1)


def test_a_driver_that_closes_tells_the_senders(world: World) -> None:
    publication, _ = stream(world)
    world.run(200 * MS, 5 * MS)  # heartbeats, without which nothing more would be owed to the sender's address
    b = world.nodes.pop()
    b.client.close()
    b.driver.on_close()
    world.until(lambda: not publication.is_connected, 1 * S)


@pytest.mark.parametrize("channel", [CHANNEL, "aeron:ipc"])
def test_a_claim_that_is_never_finished_is_passed_over(world: World, channel: str) -> None:
    """log-buffer.md §9: a writer that died inside a message blocks the others for the unblock timeout only."""
    a, b = world.node(A), world.node(B)
    collector = Collector((a if "ipc" in channel else b).client.add_subscription(channel, 10))
    publication = a.client.add_publication(channel, 10)
    world.until(lambda: publication.available_window > 0 and collector.subscription.images)
    claimed = publication.try_claim(100)
    feeder = Feeder(publication, 5)
    feeder.feed()
    assert feeder.done
    world.run(1 * S, 1 * MS)
    assert collector.poll() == 0
    world.until(lambda: collector.poll() and len(collector.messages) == 5, 20 * S, 5 * MS)
    assert collector.messages == feeder.messages
    assert a.driver.system_counter(19) == 1, "Unblocked Publications"
    del claimed


@pytest.mark.parametrize("padding_bytes", [1376, 2016, 3040, 4064, 8000])
def test_a_padding_longer_than_the_window_goes_out(world: World, padding_bytes: int) -> None:
    """A sender holds a short one back until the window has room for it, which one as small as this never has."""
    a, b = world.node(A), world.node(B)
    got = Collector(b.client.add_subscription(CHANNEL + "|rcv-wnd=2k", 10))
    publication = a.client.add_exclusive_publication(CHANNEL, 10)
    world.until(lambda: publication.is_connected)

    def await_read() -> None:
        world.until(lambda: got.poll() is None or got.subscription.images[0].position == publication.position)

    for number in range(5):
        world.until(lambda: publication.offer_padding(padding_bytes) > 0)
        await_read()
        publication.offer(bytes([number]))
        await_read()
    assert got.messages == [bytes([number]) for number in range(5)]
