"""A request says by which messages it is answered; services that take it are held to that, and so are clients."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from enum import STRICT, IntFlag
from typing import Annotated, Any, Generic, TypeVar, cast

import pytest

from ordo import ClientSession, Request, SnapshotWriter, TypedService, decode, encode, handles, message
from ordo.errors import MessageError, PayloadError, RequestOutcome
from ordo.messages import Array, Bytes, Fixed, Float64, Int32, UInt32, UInt64, composite, field, number
from ordo.service_api.messages.request import to_request
from ordo.testing import Input, Message, OpenSession, ServiceHarness, check_service

T = TypeVar("T")


@message(id=1)
class Ack:
    order: UInt32


@message(id=2)
class Refusal:
    reason: str


@message(id=3)
class Plain:
    order: UInt32


@message(id=4)
class Order(Request[Ack]):
    order: UInt32
    note: str = ""


@message(id=5)
class Offer(Request[Ack | Refusal]):
    order: UInt32


@message(id=9, schema_id=9)
class Foreign:
    order: UInt32


@message(id=9, schema_id=3)
class Foreign3:
    order: UInt32


def read(order: object, answer: object) -> object:
    _, reader = to_request(order)
    assert reader is not None
    return reader(encode(answer))


def test_a_request_is_a_message_as_any_other() -> None:
    order = Order(7, "soon")
    assert order == decode(Order, encode(order)) and not hasattr(order, "__dict__")
    assert to_request(order)[0] == encode(order)


def test_its_answer_is_read_as_what_it_names() -> None:
    assert read(Order(7), Ack(7)) == Ack(7)
    assert [read(Offer(7), one) for one in (Ack(7), Refusal("no"))] == [Ack(7), Refusal("no")]


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (Order(7), "message 3 of schema 1 is no Ack, which is 1 of 1"),
        (Offer(7), r"message 3 of schema 1, version 0, is unknown: .* Ack \(1\), Refusal \(2\)"),
    ],
)
def test_another_message_is_no_answer(order: object, text: str) -> None:
    with pytest.raises(MessageError, match=text):
        read(order, Plain(7))


def test_bytes_are_answered_with_bytes() -> None:
    assert to_request(bytearray(b"buy 40")) == (b"buy 40", None)


def test_what_cannot_be_a_request_is_not_sent() -> None:
    with pytest.raises(MessageError, match=r"not executed: Plain names no answer: derive it from Request\[") as found:
        to_request(Plain(7))
    assert found.value.outcome is RequestOutcome.NOT_EXECUTED
    with pytest.raises(MessageError, match=r"not executed: Order\.order") as found:
        to_request(Order(-1))
    assert found.value.outcome is RequestOutcome.NOT_EXECUTED
    with pytest.raises(PayloadError, match="is a str, must be bytes"):
        to_request("buy 40")


@pytest.mark.parametrize("answer", [int, "Ack", Ack | None, TypeVar("B"), list[Ack]])
def test_only_messages_are_answers(answer: Any) -> None:
    with pytest.raises(MessageError, match=r"Wrong cannot be answered by \S.*: allowed are classes made by @message"):
        type("Wrong", (Request,), {"__orig_bases__": (Request[answer],)})


def test_the_answer_must_be_named() -> None:
    with pytest.raises(MessageError, match=r"Silent: say which message answers it, as Request\[Ack\]"):

        class Silent(Request):  # type: ignore[type-arg]
            pass


def test_answers_of_a_union_are_of_one_schema() -> None:
    with pytest.raises(MessageError, match="Foreign is of schema 9, the others are of 1"):

        class Torn(Request[Ack | Foreign]):
            pass


def test_a_base_of_several_requests_names_their_answer() -> None:
    class Acknowledged(Request[Ack], Generic[T]):
        __slots__ = ()

    @message(id=6)
    class Cancel(Acknowledged[int]):
        order: UInt32

    assert read(Cancel(7), Ack(7)) == Ack(7)


class Desk(TypedService):
    """A method may return fewer of the messages that answer a request, and the schema has all of them."""

    @handles
    def place(self, session: ClientSession | None, order: Order | Offer) -> Ack:
        return Ack(order.order)


def test_a_service_answers_what_the_request_names() -> None:
    harness = ServiceHarness(Desk)
    harness.execute(OpenSession(1, 1), Message(1, 2, encode(Order(7))), Message(1, 3, encode(Offer(8))))
    assert [decode(Ack, one).order for one in harness.egress(1)] == [7, 8]
    assert Desk.schema.messages == (Order, Offer, Ack, Refusal)


@pytest.mark.parametrize(
    ("order", "answer", "text"),
    [
        (Order(7), None, r"Unsure\.place returned None, but Order is answered by Ack: return that"),
        (Order(7), Refusal("no"), "returned Refusal, but Order is answered by Ack"),
        (Order(7), encode(Ack(7)), "returned bytes, but Order is answered by Ack"),
        (Offer(7), None, r"Unsure\.offer returned None, but Offer is answered by Ack \| Refusal"),
        (Offer(7), Plain(7), r"returned Plain, but Offer is answered by Ack \| Refusal"),
    ],
)
def test_an_answer_of_another_class_is_a_mistake_of_the_service(order: object, answer: object, text: str) -> None:
    """Its annotation has promised another one, so no checker and no test would see it before clients do."""

    class Unsure(TypedService):
        @handles
        def place(self, session: ClientSession | None, order: Order) -> Ack:
            return cast(Ack, answer)

        @handles
        def offer(self, session: ClientSession | None, offer: Offer) -> Ack | Refusal:
            return cast(Ack, answer)

        def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...

    inputs: list[Input] = [OpenSession(1, 1), Message(1, 2, encode(order))]
    with pytest.raises(MessageError, match=text):
        ServiceHarness(Unsure).execute(*inputs)
    with pytest.raises(MessageError, match=text):
        check_service(Unsure, inputs)


def test_a_service_that_answers_something_else_is_refused_when_it_is_made() -> None:
    with pytest.raises(MessageError, match=r"Other\.place returns Plain, but Order is answered by Ack: annotate"):

        class Other(TypedService):
            @handles
            def place(self, session: ClientSession | None, order: Order) -> Plain:
                raise NotImplementedError

    with pytest.raises(MessageError, match=r"More\.place returns Ack \| Refusal, but Order is answered by Ack"):

        class More(TypedService):
            @handles
            def place(self, session: ClientSession | None, order: Order | Offer) -> Ack | Refusal:
                raise NotImplementedError

    with pytest.raises(
        MessageError, match=r"Quiet\.place returns Ack \| None, but Offer is answered by Ack \| Refusal"
    ):

        class Quiet(TypedService):
            @handles
            def place(self, session: ClientSession | None, offer: Offer) -> Ack | None:
                raise NotImplementedError

    with pytest.raises(MessageError, match=r"Raw\.place returns bytes, but Order"):

        class Raw(TypedService):
            @handles
            def place(self, session: ClientSession | None, order: Order) -> bytes:
                raise NotImplementedError

    with pytest.raises(MessageError, match=r"Bare\.place does not say what it returns, but Order"):

        class Bare(TypedService):
            @handles
            def place(self, session: ClientSession | None, order: Order): ...  # type: ignore[no-untyped-def]


@message(id=6)
class Exact(Request[Ack]):
    signed: Int32
    unsigned: UInt64
    real: Float64
    bounded: Annotated[int, number("uint8", low=1, high=9)]
    price: Annotated[Decimal, Fixed(2)]


class Taker(TypedService):
    @handles
    def take(self, session: ClientSession | None, order: Exact) -> Ack:
        return Ack(order.bounded)

    @handles
    def note(self, session: ClientSession | None, plain: Plain) -> bytes:
        return b"%d" % plain.order

    def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...


def answers_of(*payloads: bytes) -> list[bytes]:
    harness = ServiceHarness(Taker)
    harness.execute(OpenSession(1, 1), *(Message(1, 2 + place, one) for place, one in enumerate(payloads)))
    return [bytes(effect.value) for effect in harness.effects]


@pytest.mark.parametrize(
    ("offset", "bits", "says"),
    [
        (8, struct.pack("<i", -(2**31)), "Exact.signed is -2147483648: allowed are -2147483647 to 2147483647"),
        (12, b"\xff" * 8, "Exact.unsigned is 18446744073709551615: allowed are 0 to 18446744073709551614"),
        (20, struct.pack("<d", math.nan), "Exact.real is nan: allowed are double, without NaN"),
        (28, b"\x0a", "Exact.bounded is 10: allowed are 1 to 9"),
        (29, struct.pack("<q", -(2**63)), "Exact.price is Decimal('-92233720368547758.08'): allowed are decimals"),
    ],
)
def test_a_request_that_could_not_have_been_written_is_refused(offset: int, bits: bytes, says: str) -> None:
    """What stands for None in an optional field is no number in one that has to have a value."""
    payload = bytearray(encode(Exact(1, 2, 3.5, 4, Decimal("5.25"))))
    assert answers_of(bytes(payload)) == [encode(Ack(4))]
    payload[offset : offset + len(bits)] = bits
    (refused,) = answers_of(bytes(payload))
    assert refused.decode().startswith(says)


def test_other_messages_are_executed_as_earlier_releases_do() -> None:
    payload = encode(Plain(1))[:8] + b"\xff" * 4
    assert answers_of(payload) == [b"4294967295"]


class Side(IntFlag, boundary=STRICT):
    BUY = 1
    SELL = 2


@message(id=8)
class Sided:
    side: Side


def test_bits_that_a_class_of_flags_does_not_allow_are_refused() -> None:
    payload = bytearray(encode(Sided(Side.BUY)))
    payload[8] = 4
    with pytest.raises(MessageError, match="side is 4, which no Side has"):
        decode(Sided, payload)


@composite
class Limits:
    low: UInt32


@message(id=1, schema_id=3)
class KeyedBefore:
    number: UInt32


@message(id=1, version=1, schema_id=3)
class Keyed(Request[Foreign3]):
    number: UInt32
    key: Annotated[bytes, Bytes(4)] | None = field(since=1, default=None)
    levels: Annotated[tuple[int, ...], Array(UInt32, 2)] | None = field(since=1, default=None)
    limits: Limits | None = field(since=1, default=None)


def test_an_older_request_may_lack_bytes_arrays_and_composites_that_came_later() -> None:
    """They cannot be written as None, and yet a service takes what older clients send."""

    class Taker(TypedService):
        @handles
        def take(self, session: ClientSession | None, keyed: Keyed) -> Foreign3:
            assert keyed == Keyed(7)
            return Foreign3(keyed.number)

    harness = ServiceHarness(Taker)
    older = encode(KeyedBefore(7))
    harness.execute(OpenSession(1, 1), Message(1, 2, older), Message(1, 3, older[:8] + b"\xff" * 4))
    assert [decode(Foreign3, one) for one in harness.egress(1)] == [Foreign3(7)]
    assert "Keyed.number is 4294967295: allowed are" in bytes(harness.effects[-1].value).decode()
    with pytest.raises(MessageError, match=r"Keyed\.key is None: allowed are bytes, 4 of them"):
        encode(Keyed(7))
