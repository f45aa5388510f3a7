"""What a node tells of its log's index, and logs of what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from ordo.archive.protocol.own_codecs import PlaceKind
from ordo.cluster.node.archive_service import PROBLEMS_TOLD_MAX, LogPlaces
from ordo.cluster.wire.log_index.index import IndexFault, LogIndex
from ordo.runtime.native.cluster_time import TimeUnit


def test_a_problem_is_logged_once_and_no_more_than_a_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = mock.Mock()
    counters.log_recording.value = 0
    places = LogPlaces(mock.Mock(), str(tmp_path), counters, TimeUnit.MILLIS)
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
