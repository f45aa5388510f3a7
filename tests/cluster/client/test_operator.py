"""What members answer to an operator is not believed before it is checked."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.cluster.client.operator import MemberLook, parse_look, parse_object
from ordo.runtime.errors import DecodeError


def test_numbers_by_name_and_by_counter_type() -> None:
    look = parse_look(json.dumps({"sessions": 3, "counters": {"203": 96}, "version": "0.2\x1b[2J"}).encode())
    assert (look.get("sessions"), look.counter(203)) == (3, 96)
    assert (look.get("unknown"), look.counter(1)) == (-1, -1)
    assert look.version == "0.2\\x1b[2J", "nothing that a terminal would act upon"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"sessions": "x"}',
        b'{"sessions": 1e999}',
        b'{"sessions": NaN}',
        b'{"counters": 3}',
        b'{"counters": {"x": 1}}',
        b'{"sessions": []}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_look_is_a_decode_error(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_look(payload)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=8,
    )
)
def test_any_json_is_a_look_or_a_decode_error(value: object) -> None:
    with suppress(DecodeError):
        assert isinstance(parse_look(json.dumps(value).encode()), MemberLook)


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_a_decode_error(payload: bytes) -> None:
    with suppress(DecodeError):
        assert isinstance(parse_object(payload), dict)
