"""Values of messages, drawn by hypothesis."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from tests.service_api.messages.orders import Everything, Flags, Leg, Money, Order, Party, Side, TimeInForce, Venue


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1) + 1, (1 << bits - 1) - 1)


def natural(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 2)


def characters(length: int, least: int = 0) -> st.SearchStrategy[str]:
    return st.text(st.characters(min_codepoint=1, max_codepoint=255), min_size=least, max_size=length)


def decimals(bits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return signed(bits).map(lambda value: Decimal(value).scaleb(-scale))


parties = st.lists(st.builds(Party, natural(16)), max_size=3)
short = st.text(max_size=8)
legs = st.lists(st.builds(Leg, natural(32), signed(8), parties, short), max_size=3)
maybe = st.none()
money = st.builds(Money, signed(64), characters(3), maybe | natural(8))
orders = st.builds(
    Order,
    *(natural(64), st.sampled_from(Side), maybe | natural(32), st.booleans()),
    *(legs, parties, short, st.binary(max_size=20)),
)
everything = st.builds(
    Everything,
    *(signed(8), signed(16), signed(32), signed(64), natural(8), natural(16), natural(32), natural(64)),
    *(st.floats(width=32, allow_nan=False), st.floats(allow_nan=False), signed(64), st.booleans()),
    *(st.sampled_from(Side), st.sampled_from(Venue), st.sampled_from(TimeInForce)),
    st.sampled_from([Flags(0), Flags.POST, Flags.HIDDEN, Flags.POST | Flags.HIDDEN]),
    *(characters(8), st.binary(min_size=4, max_size=4), st.tuples(signed(16), signed(16), signed(16))),
    *(decimals(64, 4), money, natural(64)),
    *(maybe | signed(8), maybe | natural(64), maybe | st.floats(allow_nan=False), maybe | st.booleans()),
    *(maybe | st.sampled_from(Side), maybe | st.sampled_from(TimeInForce), maybe | characters(2, 1)),
    *(maybe | decimals(32, 2), maybe | st.integers(1, 65_534), legs, short, st.binary(max_size=20)),
)
