"""What a cluster tells clients of the longest message."""

from __future__ import annotations

import pytest

from ordo.cluster.wire.sessions.message_limit import (
    PREFIX,
    decode_message_limit,
    describe_too_long,
    encode_announcement,
    encode_message_limit,
    is_announcement,
    term_length_for,
)


def test_it_comes_back_as_it_went() -> None:
    assert decode_message_limit(encode_message_limit(2 << 20)) == 2 << 20


@pytest.mark.parametrize("detail", ["", PREFIX, f"{PREFIX}-1", "2097152", "x=1", PREFIX + "9" * 11])
def test_anything_else_says_nothing(detail: str) -> None:
    assert decode_message_limit(detail) is None


@pytest.mark.parametrize(
    ("length", "log_max", "ingress_max", "words"),
    [
        (
            300_000,
            131_072,
            4 << 20,
            '300,000 bytes: at most 131,040 are taken here; send it in parts, or set log_term_length = "4m" on every'
            " member (`ordo cluster renew-log`)",
        ),
        (
            300_000,
            16 << 20,
            131_072,
            '300,000 bytes: at most 131,040 are taken here; send it in parts, or set ClientSettings(ingress_channel="'
            'aeron:udp?term-length=4m")',
        ),
        (
            300_000,
            131_072,
            131_072,
            'log_term_length = "4m" on every member (`ordo cluster renew-log`) and ClientSettings(ingress_channel="'
            'aeron:udp?term-length=4m")',
        ),
        (20_000_000, 131_072, 131_072, "send it in parts (no setting allows more than 16,777,184)"),
    ],
)
def test_a_message_that_is_too_long_is_told_which_numbers_to_set(
    length: int, log_max: int, ingress_max: int, words: str
) -> None:
    told = describe_too_long("message", length, 32, log_max, ingress_max)
    assert words in told and told.startswith("message of ")


@pytest.mark.parametrize("length", [1, 131_040, 131_072, 131_073, 8 << 20, 16 << 20])
def test_terms_of_the_named_length_take_the_message(length: int) -> None:
    term = term_length_for(length)
    assert term // 8 >= length and term & (term - 1) == 0
    assert term == 1 << 20 or term // 16 < length, "and no shorter ones do"


def test_an_announcement_has_the_limit_too() -> None:
    assert decode_message_limit(encode_announcement(1000)) == 1000
    assert is_announcement(encode_announcement(1000))
    assert not is_announcement(encode_message_limit(1000)) and not is_announcement("")
