"""Versions as people write them, and rows of versions."""

from __future__ import annotations

import pytest

from ordo.cluster.wire.app_version import format_version, parse_version
from ordo.cluster.wire.version_rows import (
    ROWS_MAX,
    Code,
    MemberCode,
    decode_codes,
    decode_members,
    encode_codes,
    encode_members,
)
from ordo.runtime.errors import ConfigurationError, DecodeError


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("65535", 65535), ("1.0.0", 65536), ("2.14.255", 134911)])
def test_a_version_is_a_number_or_three_parts(text: str, number: int) -> None:
    assert parse_version(text) == number and format_version(number) == text


@pytest.mark.parametrize(
    "text", ["", "0", "01", "-1", "65536", "1.2", "0.1.0", "1.256.0", "256.0.0", "v2", "1.0.0.0", "１"]
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a whole number from 1 to 65535, or MAJOR"):
        parse_version(text)


def test_rows_are_read_back_and_checked() -> None:
    codes = [Code(1, 1), Code(65536, 0)]
    assert decode_codes(encode_codes(codes)) == codes
    members = [MemberCode(0, 1, 2, -1, 0), MemberCode(3, 0, 0, 4096, 1)]
    assert decode_members(encode_members(members)) == members
    for data in (b"1", encode_codes([codes[0]] * (ROWS_MAX + 1))):
        with pytest.raises(DecodeError, match="are no rows"):
            decode_codes(data)
    with pytest.raises(DecodeError, match="are no rows"):
        decode_members(bytes(5))
