"""Payloads that are no bytes are refused in a line that says what to do, wherever they are handed over."""

from __future__ import annotations

import array
from typing import Any

import pytest

from ordo.runtime.errors import OrdoError, PayloadError
from ordo.runtime.payloads import to_bytes, view_of


@pytest.mark.parametrize("payload", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_what_has_bytes_is_taken(payload: Any) -> None:
    assert to_bytes(payload) == bytes(view_of(payload)) == b"abc"


def test_other_buffers_are_taken_as_their_bytes() -> None:
    numbers = array.array("i", [1, 2])
    assert to_bytes(numbers) == bytes(view_of(numbers)) == numbers.tobytes()


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("pay 5", r"payload is a str, must be bytes: encode it, as 'pay 5'\.encode\(\)"),
        ("x" * 100, r"payload is a str, must be bytes: encode it, as text\.encode\(\)"),
        ({"pay": 5}, r"payload is of type dict, must be bytes: encode it, as json\.dumps\(\.\.\.\)\.encode\(\)"),
        (5, "payload is of type int, must be bytes"),
        ([1, 2], "payload is of type list, must be bytes"),
        (None, "payload is of type NoneType, must be bytes"),
        (object(), "payload is of type object, must be bytes, or a buffer in one piece"),
    ],
)
def test_what_has_none_is_refused_in_one_line(payload: Any, words: str) -> None:
    """`bytes(5)` is five zero bytes, and would have gone into the log."""
    for take in (to_bytes, view_of):
        with pytest.raises(PayloadError, match=words) as caught:
            take(payload)
        assert "\n" not in caught.value.message
        assert isinstance(caught.value, OrdoError) and isinstance(caught.value, TypeError)


def test_bytes_in_several_pieces_have_no_view() -> None:
    with pytest.raises(PayloadError, match="a buffer in one piece"):
        view_of(memoryview(b"abcd")[::2])
    assert to_bytes(memoryview(b"abcd")[::2]) == b"ac"
