"""What a cluster tells clients of the longest message."""

from __future__ import annotations

import pytest

from cluster.wire.message_limit import PREFIX, decode_message_limit, encode_message_limit


def test_it_comes_back_as_it_went() -> None:
    assert decode_message_limit(encode_message_limit(2 << 20)) == 2 << 20


@pytest.mark.parametrize("detail", ["", PREFIX, f"{PREFIX}-1", "2097152", "x=1", PREFIX + "9" * 11])
def test_anything_else_says_nothing(detail: str) -> None:
    assert decode_message_limit(detail) is None
