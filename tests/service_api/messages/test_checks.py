"""What a request must not have is found while it is read: its values are not written again to find out."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from enum import EJECT, IntEnum, IntFlag
from random import Random
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo import ClientSession, Request, TypedService, encode, handles, message
from ordo.errors import MessageError
from ordo.messages import Chars, Fixed, Float32, Float64, Int8, Rows, Schema, Sized, UInt8, composite, field, group
from ordo.runtime.errors import Reject
from ordo.service_api.messages.codec import codec_of
from ordo.service_api.messages.dispatch import Dispatch, dispatch, dispatch_of
from ordo.service_api.native import Header
from tests.service_api.messages.random_schemas import draw


class Kind(IntEnum):
    ONE = 1


class Bits(IntFlag, boundary=EJECT):
    LOW = 1


@composite
class Point:
    x: Int8


@group
class Row:
    y: Int8
    z: UInt8 | None


@message(id=1)
class Ack:
    pass


@message(id=2)
class Old:
    x: Int8
    rows: Annotated[list[Row], Rows(UInt8)] = field(default_factory=list)
    name: Annotated[str, Sized(UInt8)] = ""


@message(id=2, version=1)
class Full(Request[Ack]):
    x: Int8
    kind: Kind = field(since=1, default=Kind.ONE)
    bits: Bits = field(since=1, default=Bits.LOW)
    single: Float32 = field(since=1, default=0.0)
    double: Float64 | None = field(since=1, default=None)
    text: Annotated[str, Chars(3)] = field(since=1, default="")
    price: Annotated[Decimal, Fixed(1, UInt8)] = field(since=1, default=Decimal(0))
    point: Point = field(since=1, default_factory=lambda: Point(0))
    late: UInt8 = field(since=1, default=255)
    rows: Annotated[list[Row], Rows(UInt8)] = field(default_factory=list)
    name: Annotated[str, Sized(UInt8)] = ""


class Taker:
    """A service that tells what it executes, as `dispatch` calls it."""

    def __init__(self, *messages: type) -> None:
        schema = Schema("taken", *messages, *(() if Ack in messages else (Acked.get(messages[0]),)))
        answer = schema.messages[-1]
        self.schema = schema
        self.executed: list[object] = []
        handlers = dict.fromkeys(messages, (Taker.take, False, (answer,)))
        self.answer = answer()
        self.__ordo_dispatch__ = Dispatch(schema.message_set, handlers)

    def take(self, session: ClientSession | None, taken: object) -> object:
        self.executed.append(taken)
        return self.answer

    def untyped_message(
        self, session: object, timestamp: int, payload: bytes, header: object, error: MessageError
    ) -> Any:
        return "unreadable: " + error.message


class Acked:
    """Answers of each schema and byte order."""

    made: dict[tuple[int, bool], type] = {}

    @classmethod
    def get(cls, of_class: type) -> type:
        schema = Schema("one", of_class)
        key = schema.id, schema.is_big_endian
        if key not in cls.made:
            order: Any = "big" if key[1] else "little"
            cls.made[key] = message(id=99, schema_id=key[0], byte_order=order)(type("Acked", (), {}))
        return cls.made[key]


def outcome(taker: Taker, payload: bytes) -> str:
    """What becomes of a message: executed, refused, or unreadable."""
    taker.executed.clear()
    try:
        answer = dispatch(taker, None, 0, payload, Header())
    except Reject as why:
        assert not taker.executed
        return f"refused: {why}"
    return f"executed: {taker.executed}" if taker.executed else str(answer)


def slow_outcome(taker: Taker, payload: bytes) -> str:
    """The same, where all that was read is written again."""
    try:
        read = taker.schema.decode(payload)
    except MessageError as error:
        return "unreadable: " + error.message
    try:
        codec_of(type(read)).check(read)
    except MessageError as error:
        return "refused: " + error.message
    return f"executed: {[read]}"


FULL = Full(1, late=2, rows=[Row(1, None)], name="n")
BLOCK = struct.Struct("<bBBfd3sBbB")
PARTS = [1, 1, 1, 0.0, math.nan, b"", 0, 0, 2]


def full(place: int, value: object, rest: bytes = b"\2\0\0\0") -> bytes:
    """A Full with one value of its block exchanged. `rest`: the rows' length and count, and the name's length."""
    parts = [*PARTS]
    parts[place] = value
    return encode(FULL)[:8] + BLOCK.pack(*parts) + rest


def test_the_block_of_these_tests_is_that_of_the_class() -> None:
    written = encode(Full(1, late=2))
    assert written == full(0, 1)
    assert outcome(Taker(Full), written).startswith("executed: ")


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (full(0, -128), "refused: Full.x is -128: allowed are -127 to 127"),
        (full(2, 3), "refused: Full.bits is 3: allowed are LOW"),
        (full(3, math.nan), "refused: Full.single is nan: allowed are float, without NaN"),
        (full(6, 255), "refused: Full.price is Decimal('25.5'): allowed are decimals"),
        (full(7, -128), "refused: Full.point is Point(x=-128): allowed are a Point"),
        (full(8, 255), "refused: Full.late is 255: allowed are 0 to 254"),
        (full(0, 1, b"\2\0\1\x80\0\0"), "refused: Row.y is -128: allowed are -127 to 127"),
        (full(0, 1, b"\2\0\xff" + 255 * b"\1\1" + b"\0"), "refused: rows has 255 rows: allowed are up to 254"),
        (full(0, 1, b"\2\0\0\xff" + 255 * b"n"), "refused: name has 255 bytes: allowed are up to 254"),
        (encode(Old(1)), "refused: Full.late is 255: allowed are 0 to 254"),
    ],
)
def test_each_value_that_could_not_have_been_written_is_refused(payload: bytes, says: str) -> None:
    assert outcome(Taker(Full), payload).startswith(says)


@settings(max_examples=150)
@given(seed=st.integers(0, 1 << 32))
def test_what_is_read_once_is_refused_as_what_is_written_again(seed: int) -> None:
    """Any types, any bytes: the same is executed, and the same line says why not."""
    schema, values = draw(seed)
    random = Random(seed)
    taker = Taker(*schema.messages)
    for value in values:
        payload = encode(value)
        assert outcome(taker, payload) == f"executed: {[value]}"
        for _ in range(20):
            changed = damaged(random, payload)
            assert outcome(taker, changed) == slow_outcome(taker, changed)


def damaged(random: Random, payload: bytes) -> bytes:
    """A message with some bytes exchanged, above all by those that stand for None, or one of another version."""
    changed = bytearray(payload)
    for _ in range(random.choice([1, 1, 2, 5])):
        first = random.randrange(4, len(changed)) if random.random() < 0.1 else random.randrange(6, len(changed))
        length = random.choice([1, 2, 4, 8])
        fill = random.choice([b"\xff", b"\0", b"\x7f", b"\x80" + 7 * b"\0", 7 * b"\0" + b"\x80", random.randbytes(1)])
        changed[first : first + length] = (fill * length)[: len(changed[first : first + length])]
    if random.random() < 0.1:
        del changed[random.randrange(8, len(changed) + 1) :]
    return bytes(changed)


class Service(TypedService):
    @handles
    def take(self, session: ClientSession | None, full: Full) -> Ack:
        return Ack()


class Watched(Service):
    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        return super().on_session_message(session, timestamp, payload, header)


def test_a_service_with_a_callback_of_its_own_is_called_by_it() -> None:
    """The container calls a service's methods itself only where nothing stands before them."""
    service, watched = Service(), Watched()
    assert isinstance(dispatch_of(service), Dispatch)
    assert dispatch_of(watched) is None
    service.on_session_message = watched.on_session_message  # type: ignore[method-assign]
    assert dispatch_of(service) is None
    assert dispatch_of(object()) is None
    payload = encode(FULL)
    assert watched.on_session_message(None, 0, payload, Header()) == encode(Ack())


def test_a_service_that_hands_its_messages_to_another_does_not_execute_them_itself() -> None:
    """The method is the same one, but it is that of the other service, whose state changes."""
    service, other = Service(), Service()
    service.on_session_message = other.on_session_message  # type: ignore[method-assign]
    assert dispatch_of(service) is None
    assert isinstance(dispatch_of(other), Dispatch)


def test_a_service_without_messages_can_be_executed() -> None:
    """One with timers alone, that its program made itself: it was not refused as `check_service` would."""

    class Deaf(TypedService):
        pass

    class Knowing(TypedService):
        schema = Schema("known", Full)

    assert dispatch_of(Deaf()) is None
    assert isinstance(dispatch_of(Knowing()), Dispatch)
    with pytest.raises(Reject, match="Knowing does not take Full, which is an answer"):
        Knowing().on_session_message(None, 0, encode(FULL), Header())
