"""Names and base positions of segment files, and channels as the archive keeps them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.archive.channels import replay_channel, strip_channel
from ordo.archive.segments.segments import parse_segment_name, segment_base_position, segment_name
from ordo.transport.uri import ChannelUri


def test_names() -> None:
    """archive.md B1: decimal numbers without padding."""
    assert segment_name(12, 1 << 40) == "12-1099511627776.rec"
    assert parse_segment_name("12-1099511627776.rec") == (12, 1 << 40)


@pytest.mark.parametrize("name", ["", "1.rec", "1-2", "01-2.rec", "1-02.rec", "1--2.rec", "1-2.rec.del", "a-2.rec"])
def test_other_files_are_no_segments(name: str) -> None:
    assert parse_segment_name(name) is None


@given(
    start=st.integers(0, 1 << 40),
    offset=st.integers(0, 1 << 40),
    term_shift=st.integers(16, 24),
    more=st.integers(0, 6),
)
def test_base_positions(start: int, offset: int, term_shift: int, more: int) -> None:
    """archive.md A7, B3: from the start rounded down to its term, in steps of a segment."""
    term_length, segment_length = 1 << term_shift, 1 << term_shift + more
    base = segment_base_position(start, start + offset, term_length, segment_length)
    first = start // term_length * term_length
    assert base <= start + offset < base + segment_length
    assert (base - first) % segment_length == 0
    assert base >= first


def test_stripping_keeps_where_a_channel_is() -> None:
    """archive.md A4."""
    channel = "aeron-spy:aeron:udp?endpoint=h:1|term-length=64k|mtu=1408|session-id=4|alias=log|linger=0|sparse=true"
    assert strip_channel(channel) == "aeron:udp?endpoint=h:1|session-id=4|alias=log"
    assert strip_channel("aeron:ipc?term-length=64k") == "aeron:ipc"


@given(
    position=st.integers(0, (1 << 47) // 32 - 1).map(lambda number: number * 32),
    initial=st.integers(-(1 << 31), (1 << 31) - 1),
)
def test_a_replay_channel_names_the_position(position: int, initial: int) -> None:
    """archive.md A8.1; term ids wrap at 32 bits."""
    channel = "aeron:ipc?eos=false|mtu=64"
    uri = ChannelUri.parse(
        replay_channel(
            channel, position=position, initial_term_id=initial, term_length=1 << 16, mtu=1408, session_id=None
        )
    )
    start = uri.start_position
    assert start is not None
    assert (start.term_id - initial) % (1 << 32) * (1 << 16) + start.term_offset == position
    assert (uri.get("eos"), uri.integer("mtu", 0), uri.integer("term-length", 0)) == ("false", 1408, 1 << 16)
