"""The door of a media driver in the middle of its work: streams flow, readers read, and all comes that may come to it
meanwhile: datagrams, time, commands of clients, and what a client writes into memory that it shares."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Hashable
from random import Random
from typing import Any

from ordo.runtime.errors import OrdoError
from ordo.transport.streams.publication import ExclusivePublication
from ordo.transport.streams.subscription import Subscription
from tests.fuzz.driver_doors import CHANNEL, HERE, STREAM, THERE, Finding, check_errors, check_others, signature
from tests.fuzz.engine import Fields, Step, draw_fields, pack, unpack
from tests.transport.driver_world import MS, S, World

TERM_LENGTH = 1 << 16
FIRST_TERM = 5
WRITER, BYSTANDER, STRANGER = SESSIONS = (7, 8, 9)
"""Of a client that writes whatever it likes into its log buffer, of another one, and of nobody who was let in."""
STRANGERS = (("10.7.7.7", 77), ("10.7.7.7", 78), ("10.7.7.8", 77))
TIMES_NS = (50_000, MS, 20 * MS, 300 * MS, 2 * S)
LENGTHS = (0, 1, 32, 100, 1000, 1376, 1377)
WINDOWS = (0, 32, 1408, TERM_LENGTH // 2, TERM_LENGTH, 1 << 30)
DATA, PAD, NAK, STATUS, ERROR, SETUP, RTTM, NAMES, RESPONSE_SETUP = 1, 0, 2, 3, 4, 5, 6, 7, 0x0B
GOES_ON_WITHIN_NS = 60 * S


def int32(value: int) -> bytes:
    return (value & 0xFFFFFFFF).to_bytes(4, "little")


def int64(value: int) -> bytes:
    return (value & (2**64 - 1)).to_bytes(8, "little")


def place(position: int, fields: Fields) -> tuple[bytes, bytes]:
    """Term id and offset, which may be a little beside."""
    term_id = fields.near(FIRST_TERM + (position // TERM_LENGTH))
    return int32(term_id), int32(fields.near(position % TERM_LENGTH, 32))


class LivingStreams:
    """Two drivers: here is a subscription, there are two streams, the writer's and the bystander's, of two clients."""

    def __init__(self) -> None:
        self.world = World(image_liveness_timeout_ns=1 * S)
        self.sender, self.receiver = self.world.node(THERE), self.world.node(HERE)
        self.bystander = self.sender.new_client()
        self.subscription: Subscription = self.receiver.client.add_subscription(CHANNEL, STREAM)
        self.publications = {
            session: client.add_exclusive_publication(
                f"{CHANNEL}|term-length=64k|init-term-id=5|term-id=5|term-offset=0|session-id={session}", STREAM
            )
            for session, client in ((WRITER, self.sender.client), (BYSTANDER, self.bystander))
        }
        self.port: int = self.sender.host.channels[0].local_address[1]
        self.forged: dict[str, list[bytes]] = defaultdict(list)
        self.positions: dict[Hashable, int] = {}
        self.offered: dict[int, bytes] = {}
        """The bystander's messages, by where each ends."""
        self.number = 0
        self.delivered = 0
        self.is_forged = False
        """Somebody on the path has spoken in the name of the streams' source."""
        self.until_connected()

    def until_connected(self) -> None:
        self.world.until(lambda: len(self.subscription.images) == 2 and self.publications[BYSTANDER].is_connected)

    def run(self, duration_ns: int) -> None:
        """Lets time pass in at most forty steps."""
        step_ns = max(50_000, duration_ns // 40)
        before, self.world.step_ns = self.world.step_ns, step_ns
        until = self.world.clock.now() + duration_ns
        while self.world.clock.now() < until:
            self.world.cycle()
            self.bystander.do_work(self.world.clock.now())
            self.poll()
        self.world.step_ns = before
        self.check_positions()

    # --- what is delivered ----------------------------------------------------------------------------------------

    def poll(self) -> None:
        self.subscription.poll(self._on_fragment, 100)

    def _on_fragment(self, payload: bytes, header: Any) -> None:
        self.delivered += 1
        source = header.image.source_identity
        genuine = f"{THERE}:{self.port}"
        if header.session_id == BYSTANDER and source == genuine and not self.is_forged:
            if self.offered.get(header.position) != bytes(payload):
                raise Finding(f"the bystander has not sent what ends at position={header.position}: {bytes(payload)!r}")
        elif not any(bytes(payload) in datagram for datagram in self._datagrams_of(source, genuine)):
            raise Finding(f"{source} has not sent what is in its session {header.session_id}: {bytes(payload)!r}")

    def _datagrams_of(self, source: str, genuine: str) -> list[bytes]:
        found = list(self.forged[source])
        if source == genuine:
            found += [data for _, of, to, data in self.world.packets if of[0] == THERE and to == (HERE, 4000)]
        return found

    # --- where everything stands ----------------------------------------------------------------------------------

    def images(self) -> list[Any]:
        return list(self.receiver.driver.conductor.subscriptions.images.all.values())

    def check_positions(self) -> None:
        for image in self.images():
            if not 0 <= image.rebuild_position <= image.high_water <= image.rebuild_position + TERM_LENGTH:
                raise Finding(f"rebuild_position={image.rebuild_position} high_water={image.high_water}")
            self._check_forward("rebuild", image.correlation_id, image.rebuild_position)
            self._check_forward("high water", image.correlation_id, image.high_water)
        rebuilt = {image.correlation_id: image.rebuild_position for image in self.images()}
        for read in self.subscription.images:
            self._check_forward("read", read.correlation_id, read.position)
            if read.position > rebuilt.get(read.correlation_id, read.position):
                raise Finding(f"position={read.position} was read, rebuilt is {rebuilt[read.correlation_id]}")
        for sent in self.sender.driver.conductor.publications.network.values():
            self._check_forward("sent", sent.registration_id, sent.sender_position)
            own = self.publications[BYSTANDER]
            if sent.session_id == BYSTANDER and sent.sender_position > own.position:
                raise Finding(f"sender_position={sent.sender_position} is beyond the stream's end at {own.position}")

    def _check_forward(self, what: str, owner: int, position: int) -> None:
        before = self.positions.get((what, owner), position)
        if position < before:
            raise Finding(f"{what} position of {owner} went back from {before} to {position}")
        self.positions[what, owner] = position

    def places(self, session: int) -> tuple[int, ...]:
        """Positions of a stream at which something may happen."""
        found = [0]
        for image in self.images():
            if image.session_id == session:
                found += [image.rebuild_position, image.high_water, image.rebuild_position + TERM_LENGTH // 2]
        publication = self.publications.get(session)
        if publication is not None and not publication.is_closed:
            found += [publication.position]
        return tuple(max(one, 0) for one in found)

    # --- the end --------------------------------------------------------------------------------------------------

    def demand_going_on(self) -> None:
        """The bystander's stream has a message after all this, unless somebody on its path took it."""
        deadline_ns = self.world.clock.now() + GOES_ON_WITHIN_NS
        last = 0
        while not self.is_forged and (last == 0 or self._read_position() < last):
            if self.world.clock.now() > deadline_ns:
                raise Finding("the bystander's stream does not go on")
            if last == 0:
                last = max(self.offer(BYSTANDER, 32), 0)
            self.run(20 * MS)

    def _read_position(self) -> int:
        """Of the bystander's stream."""
        own, source = (one for one in self.subscription.images if one.session_id == BYSTANDER), f"{THERE}:{self.port}"
        return max((one.position for one in own if one.source_identity == source), default=0)

    def offer(self, session: int, length: int) -> int:
        self.number += 1
        message = f"{session}:{self.number:06d}".encode().ljust(length, b".")
        publication = self.publications[session]
        position = publication.offer(message) if len(message) <= publication.max_payload_length else 0
        if position > 0 and session == BYSTANDER:
            self.offered[position] = message
        return position

    def close(self) -> None:
        self.bystander.close()
        self.world.close()


Act = Callable[[LivingStreams, Fields], None]


def send(streams: LivingStreams, fields: Fields, datagram: bytes, is_to_receiver: bool) -> None:
    """From strangers, for the most part; to the subscription's port, or to the publications'."""
    here, there = (HERE, 4000), (THERE, streams.port)
    chosen, (to, genuine) = fields.byte(), (here, there) if is_to_receiver else (there, here)
    source = STRANGERS[chosen % len(STRANGERS)]
    if chosen >= 240:
        source, streams.is_forged = genuine, True
    streams.forged[f"{source[0]}:{source[1]}"].append(datagram)
    streams.world.network.hosts[to[0]].accept(source, to, datagram)
    streams.run(100_000)


def names_of(fields: Fields) -> tuple[int, bytes]:
    """The session, and its id and the stream's as bytes."""
    session = fields.choose(SESSIONS)
    return session, int32(session) + int32(fields.near(STREAM))


def send_data(streams: LivingStreams, fields: Fields) -> None:
    """One frame or several in a row; what they say of their lengths may be wrong."""
    session, names = names_of(fields)
    position = fields.choose(streams.places(session))
    position += 32 * fields.choose((0, 0, 0, 1, 2, 4, -1, -2, 44))
    datagram = b""
    for _ in range(fields.choose((1, 1, 2, 3))):
        term_id, offset = place(position, fields)
        payload = bytes([0x41 + len(streams.forged) % 26]) * fields.choose(LENGTHS)
        length = fields.near(32 + len(payload))
        head = bytes([0, fields.choose((0xC0, 0xC0, 0x80, 0x40, 0, 0xE0, 0x20, 0xF0))])
        head += fields.choose((DATA, DATA, DATA, PAD)).to_bytes(2, "little")
        frame = int32(length) + head + offset + names + term_id + bytes(8) + payload
        datagram += frame.ljust(-(-len(frame) // 32) * 32, b"\0")
        position += -(-len(frame) // 32) * 32
    send(streams, fields, datagram[: len(datagram) - fields.choose((0, 0, 0, 0, 1, 31, 32))], True)


def send_heartbeat(streams: LivingStreams, fields: Fields) -> None:
    session, names = names_of(fields)
    term_id, offset = place(fields.choose(streams.places(session)), fields)
    head = bytes([0, fields.choose((0xC0, 0xE0, 0xF0, 0)), DATA, 0])
    send(streams, fields, int32(fields.choose((0, 0, 32))) + head + offset + names + term_id + bytes(8), True)


def send_setup(streams: LivingStreams, fields: Fields) -> None:
    session, names = names_of(fields)
    term_id, offset = place(fields.choose(streams.places(session)), fields)
    lengths = int32(fields.near(TERM_LENGTH)) + int32(fields.choose((1408, 1408, 0, 31, 64, 65504, 1 << 20))) + bytes(4)
    head = int32(40) + bytes([0, fields.choose((0, 0, 0x40, 0x80)), SETUP, 0])
    send(streams, fields, head + offset + names + int32(fields.near(FIRST_TERM)) + term_id + lengths, True)


def send_nak(streams: LivingStreams, fields: Fields) -> None:
    session, names = names_of(fields)
    term_id, offset = place(fields.choose(streams.places(session)), fields)
    length = int32(fields.near(fields.choose(WINDOWS), 32))
    send(streams, fields, int32(28) + bytes([0, 0, NAK, 0]) + names + term_id + offset + length, False)


def send_status(streams: LivingStreams, fields: Fields) -> None:
    session, names = names_of(fields)
    term_id, offset = place(fields.choose(streams.places(session)), fields)
    body = names + term_id + offset + int32(fields.near(fields.choose(WINDOWS), 32)) + int64(fields.near(1))
    tag = fields.choose((b"", b"", int64(7), bytes(3)))
    head = int32(36 + len(tag)) + bytes([0, fields.choose((0, 0, 0x80, 0x40)), STATUS, 0])
    send(streams, fields, head + body + tag, False)


def send_rttm(streams: LivingStreams, fields: Fields) -> None:
    _, names = names_of(fields)
    now_ns = streams.world.clock.now()
    body = names + int64(fields.near(now_ns)) + int64(fields.near(0)) + int64(fields.near(1))
    head = int32(40) + bytes([0, fields.choose((0, 0x80)), RTTM, 0])
    send(streams, fields, head + body, bool(fields.byte() % 2))


def send_error(streams: LivingStreams, fields: Fields) -> None:
    _, names = names_of(fields)
    text = b"no" * fields.choose((0, 1, 100, 600))
    body = names + int64(fields.near(1)) + int64(0) + int32(fields.near(0)) + int32(fields.near(len(text))) + text
    head = int32(fields.near(8 + len(body))) + bytes([0, fields.choose((0, 8)), ERROR, 0])
    send(streams, fields, head + body, bool(fields.byte() % 4 == 0))


def send_other(streams: LivingStreams, fields: Fields) -> None:
    """Names that drivers tell each other, set-ups of responses, and whatever else."""
    _, names = names_of(fields)
    kind = fields.choose((NAMES, RESPONSE_SETUP, fields.byte()))
    body = (names if kind == RESPONSE_SETUP else b"") + fields.rest()
    head = int32(fields.near(8 + len(body))) + bytes([0, fields.choose((0, 0x80)), kind, 0])
    send(streams, fields, head + body, bool(fields.byte() % 2))


def send_raw(streams: LivingStreams, fields: Fields) -> None:
    is_to_receiver = bool(fields.byte() % 2)
    send(streams, Fields(bytes([fields.byte()])), fields.rest(), is_to_receiver)


def let_time_pass(streams: LivingStreams, fields: Fields) -> None:
    streams.run(fields.choose(TIMES_NS))


def offer(streams: LivingStreams, fields: Fields) -> None:
    session = fields.choose((BYSTANDER, WRITER))
    for _ in range(fields.choose((1, 2, 10, 40))):
        streams.offer(session, fields.choose(LENGTHS))
    streams.run(fields.choose((50_000, MS)))


def command(streams: LivingStreams, fields: Fields) -> None:
    """What the writer's client, or the reader's, may ask its driver for."""
    writer, reader = streams.sender.client, streams.receiver.client
    publication = streams.publications[WRITER]
    channel = fields.choose((f"aeron-spy:{CHANNEL}", "aeron:ipc", "aeron:udp?endpoint=10.0.0.2:4001", CHANNEL))
    actions: tuple[Callable[[], object], ...] = (
        publication.close,
        publication.revoke,
        lambda: writer.add_subscription(channel, STREAM),
        lambda: writer.add_publication(channel.removeprefix("aeron-spy:"), STREAM),
        lambda: reader.add_subscription(CHANNEL, STREAM),
        lambda: reader.add_subscription(f"{CHANNEL}|session-id={STRANGER}", STREAM),
        lambda: [image.reject("no") for image in streams.subscription.images if image.session_id == WRITER],
        lambda: writer.add_destination(publication, channel),
    )
    with contextlib.suppress(OrdoError):
        fields.choose(actions)()
    streams.run(MS)


def frame_behind_length(position: int, fields: Fields) -> bytes:
    """What a header of the writer's has after its length."""
    term_id, offset = place(position, fields)
    kind = fields.choose((DATA, PAD))
    return bytes([0, 0xC0, kind, 0]) + offset + int32(WRITER) + int32(STREAM) + term_id + bytes(8)


def scribble(streams: LivingStreams, fields: Fields) -> None:
    """The writer writes into its log buffer: near the end of the stream, or into the metadata behind the terms."""
    publication: ExclusivePublication = streams.publications[WRITER]
    found = [one for one in streams.sender.driver.conductor.publications.network.values() if one.session_id == WRITER]
    if not found:
        return
    end = 0 if publication.is_closed else publication.position
    term_offset = end // TERM_LENGTH % 3 * TERM_LENGTH + end % TERM_LENGTH
    at = fields.choose((term_offset, term_offset, 0, *(3 * TERM_LENGTH + one for one in (0, 8, 16, 24, 28, 32))))
    value = fields.choose(
        (32, 64, 96, -64, 1408, TERM_LENGTH, 1 << 30, 0, (FIRST_TERM << 32) | 4096, (FIRST_TERM + 1) << 32, end, 1)
    )
    written = int64(fields.near(value, 32))[: fields.choose((4, 8))]
    written += fields.choose((b"", frame_behind_length(end, fields))) + fields.rest()
    with found[0].log.view() as view:
        at = fields.near(at, 8) % len(view)
        written = written[: len(view) - at]
        view[at : at + len(written)] = written
    streams.run(MS)


ACTS: tuple[Act, ...] = (
    send_data,
    send_heartbeat,
    send_setup,
    send_nak,
    send_status,
    send_rttm,
    send_error,
    send_other,
    send_raw,
    let_time_pass,
    offer,
    command,
    scribble,
)
LIKELY = (0, 0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 9, 10, 10, 10, 11, 12, 12)


class StreamDoor:
    """Steps are what befalls two drivers whose streams flow; kinds are those of ACTS. Nothing is delivered that the
    stream's source has not sent, positions do not go back, and the bystander's stream goes on."""

    name = "streams"

    def seeds(self) -> list[bytes]:
        random = Random(1)
        return [pack([self.draw(random) for _ in range(8)]) for _ in range(16)]

    def draw(self, random: Random) -> Step:
        length = random.choice((4, 8, 16))
        return random.choice(LIKELY), draw_fields(random, length)

    def run(self, data: bytes) -> Hashable:
        streams = LivingStreams()
        for kind, step in unpack(data):
            ACTS[kind % len(ACTS)](streams, Fields(step))
        streams.demand_going_on()
        world = streams.world
        found = (*signature(world), streams.delivered.bit_length())
        for node in world.nodes:
            check_errors(node)
            check_others(world, node)
        streams.close()
        return found
