"""The commit position in the reserved value of a frame."""

from __future__ import annotations

from ordo.cluster.wire.commit_hint import make_commit_hint, read_commit_hint
from ordo.runtime.native.sentinels import NULL_POSITION


def test_a_hint_tells_the_commit_position_and_proves_itself() -> None:
    """Recorded headers have no checksum: a hint with any one bit flipped, or at another position, says nothing."""
    for position, commit_position in ((0, 0), (64, 0), (1 << 40, (1 << 40) - 4096), (1 << 40, (1 << 40) - (1 << 36))):
        hint = make_commit_hint(position, commit_position)
        assert read_commit_hint(hint, position) == commit_position
        assert read_commit_hint(hint, position + 32) == NULL_POSITION
        for bit in range(64):
            flipped = hint ^ (1 << bit if bit < 63 else -(1 << 63))
            assert read_commit_hint(flipped, position) == NULL_POSITION


def test_no_hint_is_given_where_it_cannot_be_said() -> None:
    assert make_commit_hint(32, 64) == 0
    assert make_commit_hint(32, -1) == 0
    assert make_commit_hint(1 << 50, 0) == 0
