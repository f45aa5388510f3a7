"""Logs that went over to a finer unit of time: the pipeline reads times of both sides, and replays services through."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ordo
from ordo import ClusteredService, SnapshotWriter, TimeUnit
from ordo.cluster.wire import codecs
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.replaying.replay_cluster import ReplayCluster

BEGIN_S = 1_700_000_000
SECONDS = 400
"""Of messages in each unit, one a second."""


def write_log(folder: Path, *units: TimeUnit) -> str:
    """A term in each unit, one after the other; many small segments, so that whole blocks are left out by time."""
    archive = str(folder / "archive")
    with RecordingBuilder(archive, term_length=1 << 16, segment_length=1 << 16) as builder:
        for term, unit in enumerate(units):
            begin_s = BEGIN_S + term * SECONDS
            builder.append(new_term(term, builder.begin_position(96), unit.duration(seconds=begin_s), 0, 5, int(unit)))
            for second in range(1, SECONDS):
                time = unit.duration(seconds=begin_s + second, microseconds=250 if unit else 0)
                builder.append(session_message(term, 1, time, bytes(700)))
    return archive


def at(second: int, microseconds: int = 0) -> datetime:
    return datetime.fromtimestamp(BEGIN_S + second, UTC) + timedelta(microseconds=microseconds)


UNITS = [(TimeUnit.MILLIS, TimeUnit.MICROS), (TimeUnit.MILLIS, TimeUnit.NANOS), (TimeUnit.MICROS, TimeUnit.NANOS)]


@pytest.mark.parametrize("units", UNITS)
def test_times_of_both_units_are_times_of_one_log(tmp_path: Path, units: tuple[TimeUnit, TimeUnit]) -> None:
    archive = write_log(tmp_path, *units)
    found = ordo.read(archive, kinds="message").to_arrow().column("timestamp").to_pylist()
    former, later = (250 if unit else 0 for unit in units)
    assert found == [at(one, former) for one in range(1, SECONDS)] + [
        at(one, later) for one in range(SECONDS + 1, 2 * SECONDS)
    ]


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(("first", "last"), [(10, 20), (395, 405), (790, 799), (0, 800), (900, 950)])
def test_a_part_by_time_is_that_of_the_whole(
    tmp_path: Path, units: tuple[TimeUnit, TimeUnit], first: int, last: int
) -> None:
    archive = write_log(tmp_path, *units)
    times = ordo.read(archive, kinds="message").to_arrow().column("timestamp").to_pylist()
    for start, end in ((at(first), at(last)), (at(first, 250), at(last, 250)), (at(first, 251), at(last, 249))):
        part = ordo.read(archive, kinds="message", start_time=start, end_time=end).to_arrow()
        assert part.column("timestamp").to_pylist() == [one for one in times if start <= one < end]


@pytest.mark.parametrize("units", UNITS)
def test_the_former_unit_is_read_where_its_first_record_was_purged(
    tmp_path: Path, units: tuple[TimeUnit, TimeUnit]
) -> None:
    """The first record of a term that is left tells of the finer unit, and of messages before it nothing."""
    archive, (former, later) = str(tmp_path / "archive"), units
    with RecordingBuilder(archive) as builder:
        for second in range(3):
            builder.append(session_message(0, 1, former.duration(seconds=BEGIN_S + second), b"former"))
        begin = later.duration(seconds=BEGIN_S + 3)
        builder.append(new_term(1, builder.begin_position(96), begin, 0, 5, int(later)))
        builder.append(session_message(1, 1, later.duration(seconds=BEGIN_S + 4), b"later"))
    read = ordo.read(archive, kinds="message").to_arrow()
    assert read.column("timestamp").to_pylist() == [at(second) for second in (0, 1, 2, 4)]
    part = ordo.read(archive, kinds="message", start_time=at(1), end_time=at(4)).to_arrow()
    assert part.column("timestamp").to_pylist() == [at(1), at(2)]


class Alarm(ClusteredService):
    """Sets a timer an hour after its first message, and remembers when it set it."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_start(self, cluster: Any, snapshot: Any) -> None:
        self.cluster = cluster

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.told.append(timestamp)
        self.cluster.schedule_timer(1, timestamp + self.cluster.time_unit.duration(seconds=3600))

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.told.append(("due", timestamp))

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        self.told = [former.rescale(one, unit) for one in self.told]
        self.told.append((former.name, unit.name, self.cluster.time))

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.told).encode())


def row(kind: str, position: int, time: int, payload: bytes = b"", **values: Any) -> dict[str, Any]:
    made = {"kind": kind, "position": position, "cluster_time": time, "session_id": 1, "correlation_id": None}
    return {**made, "payload": payload, **values}


def test_a_replay_converts_timers_and_tells_the_service() -> None:
    begin = BEGIN_S * 1000
    service = Alarm()
    cluster = ReplayCluster(lambda: service, None, 0)
    terms = [new_term(term, 96 * term, begin * 1000**term, 0, 5, term) for term in (0, 1)]
    opened = codecs.SESSION_OPEN_EVENT.encode(
        leadership_term_id=0, cluster_session_id=1, timestamp=begin, correlation_id=1, response_stream_id=102,
        response_channel="aeron:ipc", encoded_principal=b"",
    )  # fmt: skip
    due_us = (begin + 3_600_000) * 1000
    cluster.execute(row("new_term", 96, begin, terms[0]))
    cluster.execute(row("session_open", 192, begin, opened))
    cluster.execute(row("message", 288, begin, b"x"))
    cluster.execute(row("new_term", 384, begin * 1000, terms[1]))
    snapshot = cluster.take_snapshot()
    assert (snapshot.time_unit, snapshot.timers) == (TimeUnit.MICROS, ((1, due_us),))
    for one in (cluster, ReplayCluster(Alarm, snapshot, 0)):
        assert one.time_unit is TimeUnit.MICROS, "the snapshot's, whatever the log began with"
        early = one.execute(row("timer", 480, due_us - 1, correlation_id=1))
        assert early == [] and [*one.take_snapshot().timers] == [(1, due_us)]
    cluster.execute(row("timer", 576, due_us, correlation_id=1))
    assert service.told == [begin * 1000, ("MILLIS", "MICROS", begin * 1000), ("due", due_us)]
