"""Calling a message's class does what `dataclass` says that it does, though no code of Python runs for it."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from dataclasses import InitVar, dataclass, replace
from dataclasses import field as dataclass_field
from enum import IntEnum
from typing import Annotated, Any

import pytest

from ordo import Request, message
from ordo.messages import Array, UInt8, UInt32, composite, decode, encode, field, group


class Side(IntEnum):
    BUY = 1
    SELL = 2


@group
class Leg:
    size: UInt32


@message(id=1)
class Ack:
    pass


@message(id=2)
class Order(Request[Ack]):
    account: UInt32
    side: Side
    note: str = "none"
    legs: list[Leg] = field(default_factory=list)
    size: UInt32 | None = None


@dataclass
class Twin:
    account: int
    side: Side
    note: str = "none"
    legs: list[Leg] = dataclass_field(default_factory=list)
    size: int | None = None


@message(id=3)
class Plain:
    account: UInt32
    side: Side = Side.BUY
    note: str = ""


def made(of_class: Any, positional: tuple[object, ...], named: dict[str, object]) -> str:
    """An object as text, or what is wrong with its arguments."""
    try:
        return repr(of_class(*positional, **named)).replace("Twin", "Order")
    except TypeError as error:
        return str(error).replace("Twin", "Order")


@pytest.mark.parametrize("count", range(7))
@pytest.mark.parametrize(
    "named", [(), ("account",), ("side", "account"), ("note",), ("size", "legs"), ("other",), ("not" + "e", "side")]
)
def test_it_takes_and_refuses_the_arguments_of_a_dataclass(count: int, named: tuple[str, ...]) -> None:
    values: tuple[object, ...] = (7, Side.SELL, "soon", [], 9, 10)[:count]
    words: dict[str, object] = {name: place for place, name in enumerate(named)}
    assert made(Order, values, words) == made(Twin, values, words)
    spelt = {"".join([*name]): place for name, place in words.items()}
    assert made(Order, values, spelt) == made(Twin, values, spelt), "names that are equal, and other objects"


def test_each_object_has_defaults_of_its_own() -> None:
    first, second = Order(1, Side.BUY), Order(2, Side.BUY)
    first.legs.append(Leg(1))
    assert second.legs == []


def test_objects_are_copied_as_others_are() -> None:
    order = Order(7, Side.SELL, legs=[Leg(1)])
    assert copy.deepcopy(order) == pickle.loads(pickle.dumps(order)) == replace(order) == order
    assert replace(order, size=3) == Order(7, Side.SELL, legs=[Leg(1)], size=3)


def test_what_its_author_says_of_its_creation_holds() -> None:
    @message(id=4)
    class Doubled:
        size: UInt32

        def __post_init__(self) -> None:
            self.size *= 2

    @message(id=5)
    class Own:
        size: UInt32

        def __init__(self, text: str) -> None:
            self.size = int(text)

    @message(id=6)
    class Given:
        size: UInt32
        factor: InitVar[int] = 1

        def __post_init__(self, factor: int) -> None:
            self.size *= factor

    @message(id=7)
    class Set:
        size: UInt32

        def __setattr__(self, name: str, value: object) -> None:
            object.__setattr__(self, name, value + 1 if isinstance(value, int) else value)

    @message(id=8)
    class Named:
        size: UInt32 = field(kw_only=True)

    @message(id=9)
    class New:
        size: UInt32

        def __new__(cls, size: int) -> New:
            found = object.__new__(cls)
            calls.append(size)
            return found

    calls: list[int] = []
    sizes = [Doubled(2), Own("4"), Given(2, 2), Set(3), Named(size=4), New(4)]
    assert [one.size for one in sizes] == [4] * 6  # type: ignore[attr-defined]
    assert calls == [4]
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        Named(4)  # type: ignore[call-arg]


def test_a_class_that_is_changed_later_is_called_as_it_is_then(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Plain.__init__

    def counting(self: Plain, account: int) -> None:
        usual(self, account + 1)

    assert Plain(1).account == 1
    monkeypatch.setattr(Plain, "__init__", counting)
    assert Plain(1).account == 2
    monkeypatch.undo()
    assert Plain(1).account == 1


def test_a_property_in_the_place_of_a_field_is_set_by_calls_of_the_class() -> None:
    @message(id=10)
    class Checked:
        size: UInt32

    assert Checked(1).size == 1
    member: Any = Checked.size

    def put(owner: Checked, size: int) -> None:
        member.__set__(owner, abs(size))

    Checked.size = property(member.__get__, put)  # type: ignore[assignment]
    assert Checked(-2).size == 2
    Checked.size = member
    assert Checked(-2).size == -2


def test_a_subclass_is_made_by_its_own_init() -> None:
    class Later(Plain):
        def __init__(self) -> None:
            super().__init__(7, note="later")

    assert (Later().account, Later().note) == (7, "later")


def test_the_collector_looks_only_at_objects_that_may_refer_to_others() -> None:
    """A batch of requests would have it look at each of them again and again."""
    plain = Plain(1, Side.BUY, "text")
    assert not gc.is_tracked(plain) and not gc.is_tracked(decode(Plain, encode(plain)))
    order = Order(1, Side.BUY)
    assert gc.is_tracked(order) and gc.is_tracked(decode(Order, encode(order)))
    assert gc.is_tracked(Plain([]))  # type: ignore[arg-type]
    assert gc.is_tracked(Plain(1, (Side,)))  # type: ignore[arg-type]


@composite
class Part:
    size: UInt8


class Base:
    """Its objects have a `__dict__`."""


@message(id=4)
class Whole:
    part: Part


@message(id=5)
class Open(Base):
    size: UInt8


@message(id=6)
class Row:
    sizes: Annotated[tuple[int, ...], Array(UInt8, 1)]


class Marked:
    """What has room for anything."""

    def __init__(self) -> None:
        self.owner: object = None


def test_what_refers_to_itself_is_freed() -> None:
    watched = [Marked() for _ in range(4)]
    seen = [weakref.ref(one) for one in watched]
    order, opened = Order(1, Side.BUY), Open(1)
    whole, row = Whole(watched[2]), Row((watched[3],))  # type: ignore[arg-type]
    order.legs.append(watched[0])  # type: ignore[arg-type]
    opened.other = watched[1]  # type: ignore[attr-defined]
    for mark, owner in zip(watched, (order, opened, whole, row), strict=True):
        mark.owner = owner
    del watched, order, opened, whole, row, mark, owner
    gc.collect()
    assert [one() for one in seen] == [None] * 4


def test_what_is_put_in_afterwards_is_freed_once_it_is_taken_out() -> None:
    """docs/MESSAGES.md says so: the collector does not look at an object that was made of plain values."""
    plain, mark = Plain(1), Marked()
    plain.note, mark.owner, seen = mark, plain, weakref.ref(mark)  # type: ignore[assignment]
    del plain, mark
    gc.collect()
    kept: Any = seen()
    kept.owner.note = ""
    del kept
    assert seen() is None
