"""Frames of a stream that lie: over bytes of other frames, of other streams, in a client's own log buffer.

Every test here ended in a crash or in foreign memory, or would have, before lengths were checked against what is there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.runtime.native.counters import local_counter
from ordo.transport.streams.image import Header, Image
from tests.transport.driver_world import MS, Collector, Feeder, Node, S, World, transfer
from tests.transport.logs import make_stream, read_all

HERE, ELSEWHERE = "10.0.0.2", "10.0.0.9"
CHANNEL = f"aeron:udp?endpoint={HERE}:4000"
SESSION, STREAM, TERM_ID = 7, 10, 5
TERM_LENGTH = 65536
BAD_LENGTHS = (0x7FFFFF00, 0x7FFFFFFF, 1_000_000, TERM_LENGTH + 32, 1, 31)
OVER_RUNS, INVALID_PACKETS, OVERLAPS, DAMAGED_LOGS, FOREIGN_SOURCES = 13, 14, 46, 47, 54
BEGIN, END = 0x80, 0x40
ALIGNMENT = 32


def aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def header(
    length: int, offset: int, *, session: int = SESSION, stream: int = STREAM, term: int = TERM_ID, kind: int = 1
) -> bytes:
    return struct.pack("<iBBHiiiiq", length, 0, BEGIN | END, kind, offset, session, stream, term, 0)


def frame(offset: int, payload: bytes, **fields: int) -> bytes:
    """One DATA frame, filled up to the alignment."""
    whole = header(32 + len(payload), offset, **fields) + payload
    return whole.ljust(aligned(len(whole)), b"\0")


def setup(*, term_length: int = TERM_LENGTH, mtu: int = 1408) -> bytes:
    return struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, 0, SESSION, STREAM, TERM_ID, TERM_ID, term_length, mtu, 0)


class Target:
    """A driver with a subscription, and a stranger who has opened a stream to it."""

    def __init__(self, **fields: int) -> None:
        self.world = World()
        self.node = self.world.node(HERE)
        self.collector = Collector(self.node.client.add_subscription(CHANNEL, STREAM))
        self.send(setup(**fields))
        self.world.until(lambda: self.collector.subscription.images)

    def send(self, *datagrams: bytes) -> None:
        for datagram in datagrams:
            self.world.network.hosts[HERE].accept((ELSEWHERE, 9), (HERE, 4000), datagram)
            self.world.run(100_000)

    def counted(self, index: int) -> int:
        return self.node.driver.system_counter(index)

    @property
    def received(self) -> list[bytes]:
        while self.collector.poll():
            pass
        return self.collector.messages

    @property
    def image(self) -> Any:
        (image,) = self.node.driver.conductor.subscriptions.images.all.values()
        return image


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.world.close()


# --- datagrams --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", BAD_LENGTHS)
def test_a_payload_never_becomes_a_header(target: Target, length: int) -> None:
    """200 bytes that killed three nodes: the second frame ends inside the first one's payload."""
    target.send(frame(64, header(length, 96)), frame(0, bytes(64)))
    assert target.received == []
    assert target.counted(OVERLAPS) == 1
    assert target.image.rebuild_position == 0
    target.send(frame(0, bytes(32)))
    assert target.received == [bytes(32), header(length, 96)], "what fits the gap is taken, and the frame behind it"


def test_a_frame_over_a_quiet_payload_is_refused(target: Target) -> None:
    """The frame begins with zeros, like a place without a frame: only a record of what was claimed tells them apart."""
    target.send(frame(32, bytes(96)), frame(64, b"over it"), frame(96, b"over it"))
    assert target.counted(OVERLAPS) == 2
    target.send(frame(0, b""))
    assert target.received == [b"", bytes(96)]


def test_what_came_before_is_no_offence(target: Target) -> None:
    """Retransmissions and a second path bring frames again, and cut into other datagrams."""
    first, second, third = frame(0, b"one"), frame(64, b"two"), frame(128, b"three")
    target.send(second, first + second + third, third, first + second)
    assert target.received == [b"one", b"two", b"three"]
    assert target.counted(OVERLAPS) == 0
    assert target.counted(INVALID_PACKETS) == 0


@pytest.mark.parametrize("source", [("10.7.7.7", 9), (ELSEWHERE, 10)])
def test_a_frame_is_of_its_stream_only_from_the_address_that_set_it_up(target: Target, source: tuple[str, int]) -> None:
    """Nothing of another's counts: neither data nor the end of the stream, nor does a SETUP make it another path."""
    target.send(frame(0, b"the stream's own"))
    for datagram in (
        frame(64, b"another's"),
        setup(),
        frame(64, b"another's"),
        header(0, 64)[:5] + b"\xe0" + header(0, 64)[6:],
    ):
        target.world.network.hosts[HERE].accept(source, (HERE, 4000), datagram)
        target.world.run(100_000)
    assert target.counted(FOREIGN_SOURCES) == 4
    target.send(frame(64, b"its own again"))
    assert target.received == [b"the stream's own", b"its own again"]
    assert target.counted(OVERLAPS) == 0


def test_frames_of_another_address_do_not_keep_a_stream_alive(target: Target) -> None:
    """What its publisher has left ends in its time, whoever goes on in its name."""
    target.send(frame(0, b"the last one"))
    assert target.received == [b"the last one"]
    for number in range(200):
        target.world.network.hosts[HERE].accept(("10.7.7.7", 77), (HERE, 4000), header(0, 64 + 32 * number))
        target.world.run(100 * MS, 5 * MS)
    assert not target.collector.subscription.images


def test_padding_claims_all_that_it_hides(target: Target) -> None:
    target.send(header(4096, 64, kind=0), frame(128, b"under it"), frame(64 + 4096, b"behind it"), frame(0, b"before"))
    assert target.received == [b"before", b"behind it"]
    assert target.counted(OVERLAPS) == 1


@pytest.mark.parametrize(
    "other", [{"session": SESSION + 1}, {"stream": STREAM + 1}, {"term": TERM_ID + 1}, {"offset": 96}]
)
def test_all_frames_of_a_datagram_are_of_its_stream_and_in_their_place(target: Target, other: dict[str, int]) -> None:
    fields = {"offset": 64, **other}
    target.send(frame(0, b"one") + frame(fields.pop("offset"), b"two", **fields))
    assert target.received == []
    assert target.counted(INVALID_PACKETS) == 1


def test_a_datagram_beyond_the_mtu_is_refused(target: Target) -> None:
    target.send(frame(0, bytes(1408)), frame(0, bytes(1376)))
    assert target.received == [bytes(1376)]
    assert target.counted(INVALID_PACKETS) == 1


def test_there_are_only_so_many_gaps() -> None:
    """A stranger's stream of single frames behind gaps is refused at last, and costs the driver nothing more."""
    target = Target(term_length=1 << 20)
    for number in range(5000):
        target.world.network.hosts[HERE].accept((ELSEWHERE, 9), (HERE, 4000), frame(64 * number + 32, b""))
        if number % 50 == 0:
            target.world.run(100_000)
    target.world.run(1 * MS)
    assert target.image.claims.count == 4096
    assert target.counted(OVER_RUNS) == 5000 - 4096
    target.send(frame(0, b"the first gap"))
    target.world.close()


@dataclass
class Model:
    """What must come of frames: a byte belongs to the first frame that claims it."""

    owner: dict[int, bytes] = field(default_factory=dict)
    frames: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    refused: int = 0

    def insert(self, offset: int, length: int, raw: bytes) -> None:
        places = range(offset, offset + aligned(length))
        if not any(place in self.owner for place in places):
            self.owner.update(dict.fromkeys(places, raw))
            self.frames[offset] = (length, raw)
        elif self.frames.get(offset, (0, b""))[1][:24] != raw[:24]:
            self.refused += 1

    def readable(self) -> list[bytes]:
        found, offset = [], 0
        while offset in self.frames:
            length, raw = self.frames[offset]
            if raw[6] == 1:
                found.append(raw[32:length])
            offset += aligned(length)
        return found


PAYLOADS = st.one_of(
    st.sampled_from([b"", bytes(32), bytes(96), *(header(n, 0) for n in BAD_LENGTHS)]), st.binary(max_size=100)
)
DATAGRAMS = st.tuples(st.integers(0, 24), st.lists(PAYLOADS, min_size=1, max_size=4), st.booleans())


@settings(max_examples=120)
@given(st.lists(DATAGRAMS, min_size=1, max_size=30))
def test_whatever_comes_each_byte_is_of_one_frame(datagrams: list[tuple[int, list[bytes], bool]]) -> None:
    """Random datagrams over the same few bytes against a slow, obvious model, byte for byte."""
    target, model = Target(), Model()
    for place, payloads, padded in datagrams:
        offset, datagram = place * ALIGNMENT, b""
        for payload in payloads:
            raw = frame(offset + len(datagram), payload)
            model.insert(offset + len(datagram), 32 + len(payload), raw)
            datagram += raw
        if padded:
            raw = header(256, offset + len(datagram), kind=0)
            model.insert(offset + len(datagram), 256, raw)
            datagram += raw
        target.send(datagram)
    with target.image.log.view() as view:
        for offset, (_, raw) in model.frames.items():
            assert view[offset : offset + len(raw)] == raw
        for place in range(2048):
            assert place in model.owner or view[place] == 0
    assert target.received == model.readable()
    assert target.counted(OVERLAPS) == model.refused
    target.world.close()


# --- log buffers that their own clients fill --------------------------------------------------------------------------


def scribble(log: Any, offset: int, data: bytes) -> None:
    with log.view() as view:
        view[offset : offset + len(data)] = data


@pytest.mark.parametrize("length", BAD_LENGTHS)
@pytest.mark.parametrize("kind", [0, 1])
def test_a_reader_believes_no_length_beyond_the_term(length: int, kind: int) -> None:
    stream = make_stream()
    stream.log.connected = True
    stream.publication.offer(b"good")
    scribble(stream.log, 64, header(length, 64, kind=kind))
    for read in (
        read_all,
        lambda image: image.poll(lambda *_: None, 10),
        lambda image: image.block_poll(lambda *_: None, 1 << 30),
    ):
        image = stream.image()
        read(image)
        assert image.position == 64
        read(image)
        assert image.position == 64
    assert read_all(stream.image()) == [b"good"]


def test_fragments_without_end_are_not_collected_without_end() -> None:
    """Offsets are those of the place, not those that frames name; and a message is never longer than may be sent."""
    stream = make_stream()
    offset = 0
    while offset < TERM_LENGTH:
        head = bytearray(header(1024, 0))
        head[5] = BEGIN if offset == 0 else 0
        scribble(stream.log, offset, bytes(head))
        offset += 1024
    image = stream.image()
    assert read_all(image) == []
    assert image.position == TERM_LENGTH


@pytest.mark.parametrize("place", [0, 32, TERM_LENGTH - 32])
@pytest.mark.parametrize("length", [*BAD_LENGTHS, 64])
def test_a_publication_that_is_no_log_is_dropped(place: int, length: int) -> None:
    """The driver sends nothing of it, ends the stream and goes on with the others."""
    world = World()
    sender, receiver = world.node(ELSEWHERE), world.node(HERE)
    got = Collector(receiver.client.add_subscription(CHANNEL, STREAM))
    others = Collector(receiver.client.add_subscription(CHANNEL, STREAM + 1))
    bad = sender.client.add_exclusive_publication(
        CHANNEL + "|term-length=64k|init-term-id=5|term-id=5|term-offset=0", STREAM
    )
    good = sender.client.add_publication(CHANNEL, STREAM + 1)
    world.until(lambda: bad.is_connected and good.is_connected)
    log = sender.driver.conductor.publications.network[bad.registration_id].log
    offset = 0
    while offset < place:
        scribble(log, offset, header(32, offset, session=bad.session_id))
        offset += 32
    scribble(log, place, header(length, place + (32 if length == 64 else 0), session=bad.session_id))
    world.until(lambda: got.poll() + 1 and sender.driver.system_counter(DAMAGED_LOGS) == 1, 5 * S)
    transfer(world, Feeder(good, 200), [others])
    bad.close()
    world.until(lambda: not sender.driver.conductor.publications.network.get(bad.registration_id), 60 * S, 5 * MS)
    got.poll()
    assert all(message == b"" for message in got.messages)
    world.close()


POSITIONS = st.one_of(
    st.sampled_from([-1, 1, 33, -(1 << 63), (1 << 63) - 1, 1 << 40, TERM_LENGTH + 1]),
    st.integers(-(1 << 63), (1 << 63) - 1),
)


@settings(max_examples=60)
@given(POSITIONS, POSITIONS, POSITIONS, st.sampled_from(["udp", "ipc", "spy"]))
def test_a_driver_believes_no_position_of_a_client(subscriber: int, tail: int, count: int, kind: str) -> None:
    """Counters and tails are in memory that every client maps. The worst is that client's own stream."""
    world = World()
    node = world.node(HERE)
    channel = "aeron:ipc" if kind == "ipc" else CHANNEL
    got = Collector(node.client.add_subscription(f"aeron-spy:{channel}" if kind == "spy" else channel, STREAM))
    more = "|ssc=true" if kind == "spy" else ""
    publication = node.client.add_publication(
        channel + ("?" if kind == "ipc" else "|") + f"term-length=64k{more}", STREAM
    )
    world.until(lambda: publication.is_connected and got.subscription.images)
    transfer(world, Feeder(publication, 50), [got])
    (position,) = [
        counter for link in node.driver.conductor.subscriptions.links for counter, _ in link.positions.values()
    ]
    publications = node.driver.conductor.publications
    (log,) = [p.log for p in publications.all() if p.stream_id == STREAM]
    position.set(subscriber)
    for index in range(3):
        scribble(log, log.term_length * 3 + 8 * index, struct.pack("<q", tail))
    scribble(log, log.term_length * 3 + 24, struct.pack("<q", count))
    world.run(50 * MS)
    publication.close()
    got.subscription.close()
    world.run(2 * S, 5 * MS)
    check_another_stream(world, node)
    world.until(lambda: all(p.stream_id != STREAM for p in publications.all()), 60 * S, 20 * MS)
    world.close()


def keep_size(sizes: list[int], payload: bytes, _: Header) -> None:
    sizes.append(len(payload))


def check_another_stream(world: World, node: Node) -> None:
    fresh = Collector(node.client.add_subscription("aeron:ipc", 99))
    publication = node.client.add_publication("aeron:ipc", 99)
    transfer(world, Feeder(publication, 50), [fresh])


@given(st.binary(min_size=8, max_size=64), st.integers(0, TERM_LENGTH // 32 - 1), st.integers(0, 1 << 20))
def test_whatever_is_in_a_log_is_read_within_it(junk: bytes, place: int, position: int) -> None:
    stream = make_stream()
    stream.publication.offer(b"x" * 500)
    scribble(stream.log, place * 32, junk)
    for start in (0, place * 32, position * 32):
        image = Image(stream.log, local_counter(start))
        sizes: list[int] = []
        image.poll(partial(keep_size, sizes), 10_000)
        read_all(Image(stream.log, local_counter(start)))
        Image(stream.log, local_counter(start)).block_poll(lambda *_: None, 1 << 30)
        assert sum(sizes) <= 3 * TERM_LENGTH
