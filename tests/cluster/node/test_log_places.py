"""What a node tells of its log's index, and logs of what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from ordo.archive.protocol.own_codecs import PlaceKind
from ordo.cluster.node.archive_service import PROBLEMS_TOLD_MAX, LogPlaces
from ordo.cluster.wire.log_index.index import IndexFault, LogIndex
from ordo.runtime.errors import StorageError


def test_a_problem_is_logged_once_and_no_more_than_a_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = mock.Mock()
    counters.log_recording.value = 0
    places = LogPlaces(mock.Mock(), str(tmp_path), counters)
    told: list[str] = []
    monkeypatch.setattr("ordo.cluster.node.archive_service.tell", lambda level, event, text: told.append(text))

    def fail(_: LogIndex, sequence: int) -> None:
        raise IndexFault(f"entry {sequence} does not agree")

    monkeypatch.setattr(LogIndex, "before_sequence", fail)
    for _ in range(3):
        for number in (1, 2):
            assert places.find(PlaceKind.SEQUENCE, number) is None
    assert told == ["entry 1 does not agree", "entry 2 does not agree"]
    for number in range(100):
        assert places.find(PlaceKind.SEQUENCE, number) is None
    assert len(told) == len(set(told)) == PROBLEMS_TOLD_MAX


@pytest.mark.parametrize("error", [StorageError("cannot be read: EIO"), ValueError("a mistake")], ids=["disk", "ours"])
def test_no_error_of_a_look_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    counters = mock.Mock()
    counters.log_recording.value = 0
    places = LogPlaces(mock.Mock(), str(tmp_path), counters)
    told: list[str] = []
    monkeypatch.setattr("ordo.cluster.node.archive_service.tell", lambda level, event, text: told.append(text))
    monkeypatch.setattr(LogIndex, "find_time", mock.Mock(side_effect=error))
    assert places.find(PlaceKind.TIME, 5) is None
    assert len(told) == 1


def test_a_time_is_asked_for_as_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size tells the unit: one of 1971 in milliseconds is not to be told from another when it is converted."""
    counters = mock.Mock()
    counters.log_recording.value = 0
    find_time = mock.Mock(return_value=0)
    monkeypatch.setattr(LogIndex, "find_time", find_time)
    told = LogPlaces(mock.Mock(), str(tmp_path), counters).find(PlaceKind.TIME, 31_536_000_000)
    assert told is not None and told.position == 0
    assert find_time.call_args.args[0] == 31_536_000_000
