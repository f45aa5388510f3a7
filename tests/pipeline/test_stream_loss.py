"""A stream never skips or repeats in silence: purged, cut off and moved logs are said, and a restart is waited for."""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire.counters.mark_file import (
    LIVENESS_TIMEOUT_MS,
    MODULE_MARK_FILE_NAME,
    NULL_ACTIVITY,
    PID_OFFSET,
    MarkFile,
)
from ordo.pipeline.decoding.errors import CommitUnknownError, DataLossError, PipelineError
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.spark.source import LogStreamReader
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.memory import FileMemoryProvider
from tests.pipeline.test_stream import LiveLog, delivered, reader_of

ALL = ReadAllAvailable()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveLog]:
    log = LiveLog(tmp_path)
    yield log
    log.close()


def change(directory: str, **fields: int) -> None:
    catalog = Catalog.open(FileStorage(open_lmdb), directory)
    catalog.update(0, **fields)
    catalog.close()


def test_a_purged_position_is_said(live: LiveLog) -> None:
    live.write(3000)
    live.commit(live.positions[-1])
    reader = reader_of(live, startingPosition="earliest")
    start = {"node0/0": live.positions[9]}
    segment = live.builder.descriptor.segment_length
    change(live.directory, start_position=segment)
    os.remove(f"{live.directory}/0-0.rec")
    with pytest.raises(DataLossError, match=f"ends at position {live.positions[9]}, and the log begins at {segment}"):
        reader.latestOffset(start, ALL)
    with pytest.raises(DataLossError, match="was purged"):
        reader.partitions(start, {"node0/0": live.positions[-1]})
    lenient = reader_of(live, failOnDataLoss="false")
    found = delivered(lenient, start, lenient.latestOffset(start, ALL))
    assert found[-1] == 2999 and found == list(range(found[0], 3000)) and found[0] > 10


def test_a_log_that_moved_is_not_read_again(live: LiveLog, tmp_path: Path) -> None:
    """158,597 rows once came again, because the folder had another name."""
    live.write(10)
    live.commit(live.positions[-1])
    reader = reader_of(live, startingPosition="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    moved = tmp_path / "elsewhere" / "archive"
    shutil.copytree(live.directory, moved)
    options = {"path": str(moved), "commit": str(live.positions[-1])}
    other = LogStreamReader(ReadSettings.parse(options), ("payload",))
    with pytest.raises(DataLossError, match="of node0/0, and the folders have nothing of it, but of elsewhere/0"):
        other.latestOffset(end, ALL)
    named = LogStreamReader(ReadSettings.parse({**options, "nodes": "node0"}), ("payload",))
    assert delivered(named, end, named.latestOffset(end, ALL)) == []


def test_a_log_that_ends_before_the_checkpoint_is_another(live: LiveLog) -> None:
    live.write(10)
    live.commit(live.positions[-1])
    reader = reader_of(live)
    start = {"node0/0": live.positions[-1]}
    assert reader.latestOffset(start, ALL) == start
    change(live.directory, stop_position=live.positions[4])
    with pytest.raises(DataLossError, match=f"stopped at {live.positions[4]}: it was cut off"):
        reader.latestOffset(start, ALL)


def test_a_run_whose_checkpoint_is_beyond_the_log_is_an_error(live: LiveLog) -> None:
    """It ended with success, and no rows. A query that goes on waits: the node may have restarted."""
    live.write(10)
    live.commit(live.positions[4])
    start = {"node0/0": live.positions[7]}
    reader = reader_of(live)
    assert reader.latestOffset(start, ALL) == start
    reader.prepareForTriggerAvailableNow()
    ends = f"ends at position {live.positions[7]}, and the log ends at {live.positions[4]}"
    with pytest.raises(DataLossError, match=ends):
        reader.latestOffset(start, ALL)
    lenient = reader_of(live, failOnDataLoss="false")
    lenient.prepareForTriggerAvailableNow()
    assert lenient.latestOffset(start, ALL) == start


def test_a_beginning_beyond_the_log_is_an_error(live: LiveLog) -> None:
    live.write(10)
    live.commit(live.positions[4])
    with pytest.raises(PipelineError, match=f"the log ends at {live.positions[4]}: begin there or below"):
        reader_of(live, startingPosition=str(live.positions[7])).initialOffset()


def test_a_node_that_restarts_is_waited_for(live: LiveLog, tmp_path: Path) -> None:
    """The query once ended, with the words for a wrong option."""
    live.write(10)
    live.commit(live.positions[4])
    reader = reader_of(live, startingPosition="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    counters = tmp_path / "node0" / "cnc.dat"
    counters.rename(tmp_path / "kept")
    assert reader.latestOffset(end, ALL) == end
    (tmp_path / "kept").rename(counters)
    live.commit(live.positions[9])
    assert delivered(reader, end, reader.latestOffset(end, ALL)) == [5, 6, 7, 8, 9]
    counters.unlink()
    with pytest.raises(CommitUnknownError, match=r"no cnc\.dat is near it"):
        reader_of(live).initialOffset()


def test_the_counters_of_a_live_node_are_found_where_its_mark_file_says(live: LiveLog, tmp_path: Path) -> None:
    """`ordo dev` and whoever sets `aeron_dir` has them elsewhere. Of a node that is gone, nothing is believed."""
    live.write(10)
    live.commit(live.positions[4])
    (tmp_path / "aeron").mkdir()
    (tmp_path / "node0" / "cnc.dat").rename(tmp_path / "aeron" / "cnc.dat")
    (tmp_path / "node0" / "cluster").mkdir()
    path = str(tmp_path / "node0" / "cluster" / MODULE_MARK_FILE_NAME)
    now_ms = time.time_ns() // 1_000_000
    mark = MarkFile.create(FileMemoryProvider(), path, now_ms, aeron_directory=str(tmp_path / "aeron"))
    reader = reader_of(live, startingPosition="earliest")
    begin = reader.initialOffset()
    assert delivered(reader, begin, reader.latestOffset(begin, ALL)) == [0, 1, 2, 3, 4]
    for activity_ms in (now_ms - LIVENESS_TIMEOUT_MS, NULL_ACTIVITY):
        mark.set_activity(activity_ms)
        with pytest.raises(CommitUnknownError, match=r"no cnc\.dat is near it"):
            reader_of(live).initialOffset()
    mark.set_activity(now_ms)
    for pid in (2**22 + 1, 2**62):
        with open(path, "r+b") as file:
            file.seek(PID_OFFSET)
            file.write(struct.pack("<q", pid))
        with pytest.raises(CommitUnknownError, match=r"no cnc\.dat is near it"):
            reader_of(live).initialOffset()
    mark.close()
