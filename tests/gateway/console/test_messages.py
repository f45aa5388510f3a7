"""How the message browser shows payloads, whatever is in them and whatever decoders do."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.gateway.console.messages import (
    HEX_BYTES_MAX,
    TEXT_LENGTH_MAX,
    MessageBrowser,
    decoded,
    load_decoder,
    readable,
)
from ordo.runtime.errors import ConfigurationError


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"plain", {"text": "plain"}),
        ("größer".encode(), {"text": "größer"}),
        (b"\x00\x01", {"hex": "00 01"}),
        (b"\xff\xfe", {"hex": "ff fe"}),
        (b"\x1b[2J", {"hex": "1b 5b 32 4a"}),
        (b"", {"hex": ""}),
    ],
)
def test_payloads_are_text_where_they_are_and_digits_elsewhere(payload: bytes, shown: dict[str, str]) -> None:
    assert readable(payload) == shown


def test_long_payloads_are_cut() -> None:
    assert len(readable(b"a" * 100_000)["text"]) == TEXT_LENGTH_MAX
    assert len(readable(b"\x00" * 100_000)["hex"]) == 3 * HEX_BYTES_MAX - 1


def broken(payload: bytes) -> Any:
    raise KeyError("price")


def test_a_decoder_may_return_anything_or_fail() -> None:
    assert decoded(lambda payload: payload.decode().upper(), b"ab") == {"decoded": "AB"}
    assert decoded(lambda payload: {"id": 1 << 62}, b"") == {"decoded": '{\n "id": "4611686018427387904"\n}'}
    assert decoded(lambda payload: [object], b"")["decoded"].startswith("[")
    assert decoded(broken, b"") == {"problem": "KeyError: 'price'"}


def test_a_decoder_is_loaded_by_name() -> None:
    assert load_decoder("") is None
    assert load_decoder("json:loads") is not None
    for text in ("json", "json:", "no_such_module:f", "json:nothing", ":f", "json:__doc__"):
        with pytest.raises(ConfigurationError, match="--decoder"):
            load_decoder(text)


def test_reading_begins_where_an_entry_begins() -> None:
    browser = MessageBrowser(["127.0.0.1:1"], None)
    browser._remember([7_000])
    bases = [0, 4_096, 1_000_000]
    assert browser._find_begin(6_000, bases, 2_000_000) == 4_096
    assert browser._find_begin(7_500, bases, 2_000_000) == 7_000
    assert browser._find_begin(None, bases, 2_000_000) == 1_000_000
    assert browser._find_begin(None, bases, 1_000_500) == 4_096, "the newest entries need some log to be looked for in"
    assert browser._find_begin(None, [5_000], 5_100) == 5_000
