"""A service with types does the same where the container calls its methods, and where it hands messages on itself."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random
from typing import Annotated

import pytest

from ordo import ClientSession, Reject, Request, SnapshotReader, TypedService, encode, handles, message
from ordo.errors import MessageError
from ordo.messages import Chars, Int8, UInt8, UInt32, field, group
from ordo.service_api.cluster import Cluster
from ordo.service_api.messages.codec import codec_of
from ordo.service_api.native import Header
from tests.cluster.container.service_node import ServiceNode

SESSION = 7
CHANNEL = "aeron:udp?endpoint=client:1", 102


@group
class Leg:
    size: UInt8 | None


@message(id=1)
class Done:
    total: UInt32
    note: str = ""


@message(id=2)
class Refused:
    why: Annotated[str, Chars(8)]


@message(id=3, version=1)
class Order(Request[Done | Refused]):
    size: Int8
    legs: list[Leg] = field(default_factory=list)
    note: str = ""
    late: UInt8 = field(since=1, default=255)


@message(id=4)
class Wake:
    delay: UInt8


@message(id=5)
class Tell:
    text: str


class Bank(TypedService):
    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster

    @handles
    def order(self, session: ClientSession | None, order: Order, header: Header) -> Done | Refused:
        self.seen.append((order, header.position, header.sequence))
        if order.size == 13:
            raise Reject("unlucky")
        return Refused("negative") if order.size < 0 else Done(order.size + len(order.legs), order.note)

    @handles
    def small(self, session: ClientSession | None, one: Wake | Tell) -> bytes | Tell | None:
        self.seen.append((one, self.cluster.time))
        if isinstance(one, Wake):
            assert self.cluster.schedule_timer(one.delay, self.cluster.time + one.delay)
            return None
        self.cluster.offer(one.text.encode())
        return Tell(one.text[::-1]) if len(one.text) % 2 else one.text.encode()

    def untyped_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header, error: MessageError
    ) -> bytes | None:
        self.seen.append((payload, error.message, header.sequence))
        if payload.startswith(b"raw"):
            return payload[::-1]
        raise Reject(error.message) from error

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.seen.append((correlation_id, timestamp))


class Plain(Bank):
    """Does without what is native: reads, checks and hands on as its methods' annotations say."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        try:
            taken = self.schema.decode(payload)
        except MessageError as error:
            return self.untyped_message(session, timestamp, payload, header, error)
        if isinstance(taken, Wake | Tell):
            answer: object = self.small(session, taken)
        elif isinstance(taken, Order):
            try:
                codec_of(Order).check(taken)
            except MessageError as error:
                raise Reject(error.message) from error
            answer = self.order(session, taken, header)
        else:
            raise Reject(f"{type(self).__name__} does not take {type(taken).__name__}, which is an answer")
        return answer if answer is None or isinstance(answer, bytes) else encode(answer)


Native = type("Plain", (Bank,), {})
"""Called as Plain is, since refusals say so."""


def payloads(random: Random) -> list[bytes]:
    """What a client may send: messages of each class, whole, damaged and cut short, and bytes of its own."""
    whole = [encode(Order(1, [Leg(2), Leg(None)], "note", 3)), encode(Order(-1, late=0)), encode(Order(13, late=9))]
    whole += [encode(Wake(9)), encode(Tell("text")), encode(Tell("odd")), encode(Done(3)), b"raw bytes", b""]
    older = bytearray(encode(Order(2, late=0)))
    older[6:8] = struct.pack("<H", 0)
    found = [*whole, bytes(older), whole[0].replace(b"\1\3", b"\x80\3")]
    for one in whole[:-2] * 12:
        changed = bytearray(one)
        for _ in range(random.choice([1, 2])):
            changed[random.randrange(len(changed))] = random.choice([0, 1, 127, 128, 255])
        found.append(bytes(changed[: random.choice([len(changed), random.randrange(len(changed))])]))
    return found


def executed(directory: Path, service: Bank, sent: list[bytes]) -> list[object]:
    """What a service saw, asked the consensus module for, and answered, after all that was sent."""
    node = ServiceNode(directory)
    node.set_recovery()
    container = node.container(service)
    node.begin_term(0, leads=True)
    node.open_session(SESSION, *CHANNEL)
    found: list[object] = []
    for payload in sent:
        node.message(SESSION, payload)
        node.commit()
        node.run(container)
        found += [node.asked(), node.client.received(node.client.egress[CHANNEL])]
    container.on_close()
    node.close()
    return [*service.seen, *found]


@pytest.mark.parametrize("seed", range(3))
def test_the_container_executes_messages_as_their_annotations_say(tmp_path: Path, seed: int) -> None:
    sent = payloads(Random(seed))
    found = executed(tmp_path / "native", Native(), sent)
    assert found == executed(tmp_path / "plain", Plain(), sent)
    texts = str(found)
    assert all(one in texts for one in ("unlucky", "allowed are -127 to 127", "bytes follow", "which is an answer"))
