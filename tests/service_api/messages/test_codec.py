"""Messages with types come back as they were, and nothing that stands in bytes is trusted."""

from __future__ import annotations

import sys
import weakref
from decimal import Decimal
from enum import IntFlag
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.messages import UInt64, decode, encode, field, message, view
from ordo.runtime.errors import MessageError
from tests.service_api.messages.orders import (
    NEW,
    OLD,
    Everything,
    Flags,
    Leg,
    Money,
    Order,
    OrderV0,
    Party,
    Reversed,
    Side,
    TimeInForce,
    Venue,
)
from tests.service_api.messages.values import everything, legs, natural, orders, short

ORDER = Order(7, Side.SELL, 500, True, [Leg(1, -2, [Party(9)], "é")], [Party(4)], "note", b"\0\1")


def example(**changed: Any) -> Everything:
    values: dict[str, Any] = {
        "tiny": 1,
        "small": 2,
        "middle": 3,
        "large": 4,
        "natural_tiny": 1,
        "natural_small": 2,
        "natural_middle": 3,
        "natural_large": 4,
        "single": 0.5,
        "double": 0.1,
        "plain": 9,
        "truth": True,
        "side": Side.BUY,
        "venue": Venue.FAR,
        "time_in_force": TimeInForce.DAY,
        "flags": Flags.POST,
        "symbol": "ORDO",
        "digest": b"1234",
        "levels": (1, 2, 3),
        "price": Decimal("12.5"),
        "money": Money(1, "EUR", None),
        "at": 10,
        "maybe_tiny": None,
        "maybe_large": None,
        "maybe_real": None,
        "maybe_truth": None,
        "maybe_side": None,
        "maybe_time": None,
        "maybe_symbol": None,
        "maybe_price": None,
        "zero_is_none": None,
        "legs": [],
        "note": "",
        "data": b"",
    }
    return Everything(**{**values, **changed})


def test_the_bytes_are_those_of_sbe() -> None:
    assert encode(ORDER).hex(" ", 1) == (
        "0e 00 01 00 01 00 02 00 "  # block length, id, schema, version
        "07 00 00 00 00 00 00 00 02 f4 01 00 00 01 "  # account, side, quantity, urgent
        "05 00 01 00 01 00 00 00 fe 02 00 01 09 00 02 c3 a9 "  # legs: a dimension, then one with parties and a note
        "02 00 01 00 04 00 "  # tags
        "04 00 00 00 6e 6f 74 65 02 00 00 00 00 01"  # note, trail
    )


@given(everything | orders)
def test_a_message_comes_back_as_it_was(value: Everything | Order) -> None:
    payload = encode(value)
    assert decode(type(value), payload) == value
    assert NEW.decode(bytearray(payload)) == value
    with view(type(value), memoryview(payload)) as seen:
        assert all(getattr(seen, name) == getattr(value, name) for name in type(value).__slots__)  # type: ignore[union-attr]


def test_highest_byte_first() -> None:
    value = Reversed(258, 1.5, Decimal("-12.3"), (1, 2), "no")
    payload = encode(value)
    assert payload.hex(" ", 2) == "0012 0003 0005 0002 0102 3fc0 0000 ffff ff85 0000 0001 0000 0002 0000 0002 6e6f"
    assert decode(Reversed, payload) == value


@given(natural(64), st.sampled_from(Side), legs, short)
def test_an_older_message_has_the_defaults_of_what_came_later(account: int, side: Side, some: Any, note: str) -> None:
    old = OrderV0(account, side, some, note)
    assert decode(Order, encode(old)) == Order(account, side, None, False, some, [], note, b"")
    with view(Order, encode(old)) as seen:
        assert (seen.quantity, seen.urgent, seen.tags, seen.note) == (None, False, [], note)


@given(orders)
def test_of_a_newer_message_what_came_later_is_left_out(value: Order) -> None:
    value.tags = []  # groups that are new would stand before the data; the next test has that
    payload = bytearray(encode(value))
    groups_end = len(payload) - len(encode(Order(0, Side.BUY, note=value.note, trail=value.trail))) + 8 + 14 + 4
    del payload[groups_end : groups_end + 4]  # as if `trail` were all that is new
    assert decode(OrderV0, payload) == OrderV0(value.account, value.side, value.legs, value.note)


@pytest.mark.parametrize("value", [ORDER, example(legs=[Leg(1, 2)], note="x", data=b"y")], ids=["order", "everything"])
def test_a_message_that_is_cut_is_refused(value: Order | Everything) -> None:
    payload = encode(value)
    for length in range(len(payload)):
        with pytest.raises(MessageError):
            decode(type(value), payload[:length])
    with pytest.raises(MessageError, match="1 bytes follow its end"):
        decode(type(value), payload + b"x")


@settings(max_examples=500)
@given(st.data())
def test_damaged_bytes_give_a_message_or_an_error(data: st.DataObject) -> None:
    payload = bytearray(encode(data.draw(orders | everything)))
    for place in data.draw(st.lists(st.integers(0, len(payload) - 1), max_size=6)):
        payload[place] = data.draw(st.integers(0, 255))
    for read in (NEW.decode, OLD.decode, lambda found: list_of_values(view(Everything, found))):
        try:
            read(payload)
        except MessageError as error:
            assert "\n" not in error.message


def list_of_values(seen: Any) -> list[object]:
    with seen:
        return [getattr(seen, name) for name in Everything.__slots__]  # type: ignore[attr-defined]


def test_rows_without_bytes_are_bounded() -> None:
    payload = bytearray(encode(OrderV0(1, Side.BUY, [])))
    payload[17:21] = b"\0\0\xfe\xff"  # legs: rows of no bytes, 65,534 of them
    with pytest.raises(MessageError, match="too short for instrument"):
        decode(OrderV0, payload)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("tiny", -128, "-127 to 127"),  # the least stands for None
        ("tiny", "1", "-127 to 127"),
        ("tiny", 1.0, "-127 to 127"),
        ("tiny", None, "-127 to 127"),
        ("natural_tiny", 255, "0 to 254"),
        ("natural_large", -1, "0 to 18446744073709551614"),
        ("natural_large", 1 << 64, "0 to 18446744073709551614"),
        ("large", 1 << 70, "-9223372036854775807 to 9223372036854775807"),
        ("single", 1e300, "float, without NaN"),
        ("double", float("nan"), "double, without NaN"),
        ("truth", 1, "True and False"),
        ("side", 1, "BUY, SELL"),
        ("side", Venue.FAR, "BUY, SELL"),
        ("time_in_force", "0", "DAY, FILL_OR_KILL"),
        ("symbol", "ORDO-XYZW", "str of up to 8 characters of Latin-1, without NUL"),
        ("symbol", "€", "str of up to 8 characters of Latin-1, without NUL"),
        ("symbol", "a\0b", "str of up to 8 characters of Latin-1, without NUL"),
        ("symbol", b"ORDO", "str of up to 8 characters of Latin-1, without NUL"),
        ("maybe_symbol", "", "str of up to 2 characters of Latin-1, without NUL and None"),
        ("digest", b"123", "bytes, 4 of them"),
        ("levels", (1, 2), "3 numbers, each -32767 to 32767"),
        ("levels", (1, 2, 40_000), "3 numbers, each -32767 to 32767"),
        ("price", Decimal("12.5" + "0" * 80 + "1"), "decimals with up to 4 digits after the point"),
        ("price", Decimal("0.00001"), "decimals with up to 4 digits after the point"),
        ("price", Decimal("1e20"), "decimals with up to 4 digits after the point"),
        ("price", Decimal("NaN"), "decimals with up to 4 digits after the point"),
        ("price", 12.5, "decimals with up to 4 digits after the point"),
        ("money", None, "Money"),
        ("zero_is_none", 0, "1 to 65534 and None"),
    ],
)
def test_a_value_that_has_no_place_is_refused_by_name(name: str, value: object, allowed: str) -> None:
    with pytest.raises(MessageError) as caught:
        encode(example(**{name: value}))
    assert f"{name} is " in caught.value.message or name == "money"
    assert allowed in caught.value.message and "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"legs": None}, "legs is None: allowed is a list of Leg"),
        ({"legs": [1]}, "1 is not a Leg"),
        ({"legs": [Leg(1, 2, note="x" * 255)]}, "note has 255 bytes: allowed are up to 254"),
        ({"legs": [Leg(1, 2, [Party(1)] * 255)]}, "parties has 255 rows: allowed are up to 254"),
        ({"note": b"x"}, "note is b'x': allowed is a str"),
        ({"note": "\ud800"}, "note is no text that UTF-8 can hold"),
        ({"data": "x"}, "data is 'x': allowed are bytes"),
    ],
)
def test_groups_and_data_are_checked(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(MessageError, match=text.replace("'", ".")):
        encode(example(**changed))


def test_of_another_class() -> None:
    with pytest.raises(MessageError, match="message 1 of schema 1 is no Everything, which is 2 of 1"):
        decode(Everything, encode(ORDER))
    with pytest.raises(MessageError, match=r"message 2 of schema 1, version 2, is unknown: .* schema 1: OrderV0 \(1\)"):
        OLD.decode(encode(example()))
    with pytest.raises(MessageError, match="dict is no message: decorate the class"):
        encode({})
    with pytest.raises(MessageError, match="int is no message"):
        decode(int, b"")


def test_an_unknown_member_is_refused_and_unknown_flags_are_kept() -> None:
    payload = bytearray(encode(ORDER))
    payload[16] = 9
    with pytest.raises(MessageError, match="side is 9, which no Side has"):
        decode(Order, payload)
    assert decode(Everything, encode(example(flags=Flags(6)))).flags == Flags(6)


def test_text_that_is_no_utf_8_is_refused() -> None:
    payload = encode(OrderV0(1, Side.BUY, [], "xx")).replace(b"xx", b"\xff\xff")
    with pytest.raises(MessageError, match="note is not UTF-8: invalid start byte at byte 0"):
        decode(OrderV0, payload)


def test_a_view_that_was_closed_lets_the_payload_go() -> None:
    payload = bytearray(encode(ORDER))
    seen = view(Order, payload)
    assert seen.account == 7
    with pytest.raises(BufferError):
        payload.clear()
    seen.close()
    payload.clear()
    with pytest.raises(MessageError, match="this view of a Order was closed"):
        _ = seen.account
    with view(Order, encode(ORDER)) as seen, pytest.raises(AttributeError, match="Order has no field 'accounts'"):
        _ = seen.accounts


def test_nothing_is_kept_of_what_was_read() -> None:
    """References: each value that is read is owned once, by the message."""
    payload = encode(example(large=1 << 40, note="n" * 40))
    found = decode(Everything, payload)
    counts = sys.getrefcount(found.note), sys.getrefcount(found.large)  # the message's, and the call's own
    assert counts == (2, 2)
    before = sys.getrefcount(None)
    for _ in range(1000):
        decode(Everything, payload)
        encode(found)
    assert abs(sys.getrefcount(None) - before) < 100


def test_a_message_is_a_plain_dataclass() -> None:
    assert repr(Party(3)) == "Party(party_id=3)"
    assert Everything.KIND == "everything"
    with pytest.raises(AttributeError):
        ORDER.accounts = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        weakref.ref(ORDER)


class Bits(IntFlag):
    LOW = 1
    HIGH = 1 << 63


@message(id=1, version=1)
class Flagged:
    bits: Annotated[Bits, UInt64]
    money: Money = field(since=1, default_factory=lambda: Money(1, "EUR", None))


@message(id=1)
class FlaggedBefore:
    bits: Annotated[Bits, UInt64]


def test_the_highest_bit_of_a_set_is_a_bit_and_bits_beyond_it_are_refused() -> None:
    value = Flagged(Bits.HIGH | Bits.LOW)
    assert decode(Flagged, encode(value)).bits == Bits.HIGH | Bits.LOW
    with pytest.raises(MessageError, match=r"Flagged\.bits is .*: allowed are LOW, HIGH"):
        encode(Flagged(Bits(1 << 64)))


Wide = IntFlag("Wide", {f"F{bit}": 1 << bit for bit in range(20)})  # type: ignore[misc]


@message(id=2)
class WideFlagged:
    bits: Annotated[Wide, UInt64]


@pytest.mark.parametrize(
    ("of_class", "numbers"),
    [(Flagged, range(2, 20_000, 2)), (WideFlagged, range(3, 1 << 20, 97))],
    ids=["bits without a name", "more flags than are made once"],
)
def test_whoever_sends_flags_does_not_fill_the_memory_with_them(of_class: Any, numbers: range) -> None:
    """Python's enum keeps each combination that was ever asked for."""
    flags = Bits if of_class is Flagged else Wide
    example = Flagged(Bits.LOW) if of_class is Flagged else WideFlagged(Wide(1))
    data = bytearray(encode(example))
    at = data.index((1).to_bytes(8, "little"), 8)
    known = len(flags._value2member_map_)
    for number in numbers:
        data[at : at + 8] = number.to_bytes(8, "little")
        found = decode(of_class, bytes(data)).bits
        assert type(found) is flags and found == number
    assert len(flags._value2member_map_) == known


def test_combinations_of_a_few_flags_are_the_same_object_each_time() -> None:
    both = encode(Flagged(Bits.HIGH | Bits.LOW))
    assert decode(Flagged, both).bits is decode(Flagged, both).bits is Bits.HIGH | Bits.LOW


def test_a_change_of_a_default_composite_changes_no_other_message() -> None:
    older = encode(FlaggedBefore(Bits.LOW))
    decode(Flagged, older).money.units = 9
    assert decode(Flagged, older).money == Money(1, "EUR", None)
