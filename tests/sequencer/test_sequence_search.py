"""Where a reader that begins with a number counts from, when the index told a place that snapshots show to be wrong."""

from __future__ import annotations

from typing import Any, NamedTuple
from unittest import mock

import pytest

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.follow.sequence_search import SequenceSearch


class Place(NamedTuple):
    """As a LogPlace has it."""

    position: int
    sequence: int
    is_kept: int = 1


class Snapshot(NamedTuple):
    """As much as is looked at."""

    log_position: int
    sequence: int


CHANNEL = "aeron:udp?endpoint=node:1"
NUMBER = 70
SNAPSHOTS = [Snapshot(64_000, 80), Snapshot(32_000, 60), Snapshot(16_000, 20)]


class Search(SequenceSearch):
    """A search at a node that has answered with a place, and has the snapshots, of which it gives the newest first."""

    def __init__(self, place: Place) -> None:
        node = ArchiveClientSettings(control_channel=CHANNEL, response_channel="aeron:udp?endpoint=reader:0")
        super().__init__(mock.Mock(), [node], NUMBER, 1.0)
        self.rolled: list[tuple[int, bool]] = []
        self._place: Any = place
        self.numbers, self.position, self.begin_position = False, place.position, 0
        self._begin_snapshots(0)

    def _begin_snapshots(self, now_ns: int) -> None:
        found = next((one for one in SNAPSHOTS if one.log_position <= (self.position or 0)), None)
        self._snapshots = mock.Mock(is_done=True, is_pending=False, snapshot=found, problem="")

    def _make_table(self, snapshot: Any, *, is_known: bool = True) -> Any:
        return mock.Mock()

    def _begin_roll(self, table: Any, position: int) -> None:
        self.rolled.append((position, self.numbers))

    def look(self) -> int | None:
        """Return the place that is still believed, if one is."""
        while not self.rolled:
            self._look(0)
        return None if self._place is None else self._place.position


@pytest.mark.parametrize("lie", [Place(96_000, 5), Place(96_000, 79), Place(64_000, 69), Place(32_000, 5)])
def test_a_place_that_cannot_be_gives_way_to_a_snapshot_before_the_number(lie: Place) -> None:
    """The newest snapshot before the place may be behind the message: those in between would be left out."""
    search = Search(lie)
    assert search.look() is None
    assert search.rolled == [(32_000, True)]


@pytest.mark.parametrize("place", [Place(60_000, 69), Place(32_000, 60), Place(31_000, 21)])
def test_a_place_that_can_be_is_believed_and_the_newest_snapshot_before_it_used(place: Place) -> None:
    search = Search(place)
    assert search.look() == place.position
    expected = max(one.log_position for one in SNAPSHOTS if one.log_position <= place.position)
    assert search.rolled == [(expected, False)]
