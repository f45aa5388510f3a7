"""Planning a large log reads next to nothing; tasks find their messages themselves, and build the indexes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ordo.pipeline.decoding.errors import CorruptRecordingError
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message, timer_event
from ordo.pipeline.recordings import index, planner
from ordo.pipeline.recordings.index import index_directory
from ordo.pipeline.recordings.planner import Run, plan, read_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import Recording, open_recordings

TERM, SEGMENT = 1 << 16, 1 << 18
COLUMNS = ("position", "start_position", "kind", "payload_length")
Row = tuple[int, int, str, int]


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """A MiB of messages of many lengths, some of several frames, whose planning may scan nothing."""
    monkeypatch.setattr(planner, "DRIVER_BYTES_MAX", 0)
    chance = random.Random(3)
    with RecordingBuilder(str(tmp_path / "archive"), term_length=TERM, segment_length=SEGMENT) as builder:
        builder.append(new_term(0, 0, 5, 0, 1))
        while builder.writer.position < 4 * SEGMENT - TERM // 2:
            length = chance.choice((0, 40, 300, 5000))
            builder.append(session_message(0, chance.randrange(9), 5, bytes(length)))
            if chance.random() < 0.01:
                builder.append(timer_event(0, 1, 5))
    return open_recordings([builder.directory])[0]


def rows(tasks: list[tuple[Run, ...]], predicates: Predicates | None = None) -> list[Row]:
    found = []
    for task in tasks:
        for batch in read_runs(task, predicates or Predicates(), COLUMNS, 64, True):
            found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


def whole(recording: Recording) -> list[Row]:
    """Reads with one cursor for each segment, for which no plan is needed."""
    return rows([planner.whole_runs(recording, recording.start, recording.limit, 0, True)])


@pytest.mark.parametrize("partition_bytes", [4096, 5000, 20_000, TERM, 3 * TERM, 1 << 30])
def test_every_message_is_read_once_wherever_tasks_begin(recording: Recording, partition_bytes: int) -> None:
    tasks = plan([recording], Predicates(), partition_bytes)
    assert rows(tasks) == whole(recording)
    assert len(tasks) >= min(recording.limit // TERM, recording.limit // partition_bytes)


def test_planning_reads_no_segment_and_tasks_build_the_indexes(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the log was once read where the query was planned."""
    with monkeypatch.context() as patch:
        patch.setattr(index, "scan_range", None)
        patch.setattr(planner, "scan_range", None)
        patch.setattr(planner, "MessageCursor", None)
        tasks = plan([recording], Predicates(), 20_000, time_unit=0)
    assert not list(index_directory().rglob("*.idx"))
    timers = Predicates().among("kind", ["timer"])
    expected = [row for row in whole(recording) if row[2] == "timer"]
    assert rows(tasks, timers) == expected
    assert len(list(index_directory().rglob("*.idx"))) == 4
    with monkeypatch.context() as patch:
        patch.setattr(index, "scan_range", None)
        again = plan([recording], timers, 1 << 30, time_unit=0)
    assert rows(again, timers) == expected


@pytest.mark.parametrize("low", [0, 1, 70_000, 3 * TERM, 3 * SEGMENT + 96])
def test_positions_bound_what_is_planned(recording: Recording, low: int) -> None:
    wanted = Predicates().narrowed("position", low + 1, low + 100_000)
    tasks = plan([recording], wanted, 8192)
    assert rows(tasks, wanted) == [row for row in whole(recording) if low < row[0] <= low + 100_000]
    assert sum(run.length_bytes for task in tasks for run in task) <= 100_000 + 2 * TERM


@pytest.mark.parametrize("partition_bytes", [4096, 20_000, TERM])
def test_damage_and_holes_are_errors_at_their_position(recording: Recording, partition_bytes: int) -> None:
    at = next(row[1] for row in whole(recording) if row[1] > SEGMENT + TERM + 30_000 and row[3] == 300)
    path = os.path.join(recording.directory, f"0-{SEGMENT}.rec")
    with open(path, "r+b") as file:
        file.seek(at - SEGMENT)
        kept = file.read(384)
        for damage, fault in ((bytes(384), "no frame was written here"), (kept[:70] + b"\xff" + kept[71:], "checksum")):
            file.seek(at - SEGMENT)
            file.write(damage)
            file.flush()
            with pytest.raises(CorruptRecordingError, match=f"fault={fault} position={at} "):
                rows(plan([recording], Predicates(), partition_bytes))


def test_a_missing_segment_is_an_error_where_it_begins(recording: Recording) -> None:
    os.remove(os.path.join(recording.directory, f"0-{2 * SEGMENT}.rec"))
    with pytest.raises(CorruptRecordingError, match=f"position={2 * SEGMENT} "):
        rows(plan([recording], Predicates(), 4096))


def test_a_log_whose_end_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "DRIVER_BYTES_MAX", 0)
    directory = str(tmp_path / "archive")
    with RecordingBuilder(directory, term_length=TERM, segment_length=SEGMENT, stopped=False) as builder:
        ends = [builder.append(session_message(0, 1, 5, bytes(900))) for _ in range(150)]
    found = open_recordings([directory], commit="recorded")
    assert [row[0] for row in rows(plan(found, Predicates(), 8192))] == ends
