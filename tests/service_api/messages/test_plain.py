"""Messages as plain values: what each type becomes."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ordo.errors import MessageError
from ordo.messages import decode, encode
from ordo.service_api.messages.plain import values_of
from tests.service_api.messages.typed import ORDER, ORDER_VALUES, Order, Ping


def test_each_type_is_a_plain_value() -> None:
    found = values_of(decode(Order, encode(ORDER)))
    assert found == {**ORDER_VALUES, "id": 2**64 - 2}
    assert type(found["side"]) is str and str(found["price"]) == "-12.50"
    assert values_of(Ping()) == {}


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(MessageError, match="Decimal is no message, group or composite"):
        values_of(Decimal(1))
