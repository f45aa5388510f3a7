"""The stream reader over the network, without Spark: offsets, limits, and what is said instead of skipped."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import ordo
from ordo.pipeline.decoding.errors import DataLossError, PipelineError
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.schemas.log_schemas import with_decoder
from ordo.pipeline.spark import network_stream
from ordo.pipeline.spark.network_stream import KEY, NetworkStreamReader
from ordo.pipeline.spark.offsets import with_cluster
from tests.patience import patient
from tests.pipeline import typed_logs
from tests.pipeline.served import ServedFolder, url
from tests.pipeline.test_network import SEGMENT, purge, write_log
from tests.pipeline.typed_logs import event
from tests.service_api.messages.typed import FIRST, SECOND, WRONG, Position, PositionWithCents

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFolder]:
    folder = tmp_path_factory.mktemp("served") / "archive"
    write_log(str(folder))
    one = ServedFolder(str(folder))
    yield one
    one.close()


@pytest.fixture
def ends(node: ServedFolder) -> list[int]:
    """Where the messages end."""
    found: list[int] = ordo.read(node.folder, columns="position").to_arrow()["position"].to_pylist()
    return found


def reader_of(source: str, **options: str) -> NetworkStreamReader:
    checked = ReadSettings.parse({"path": source, "startingPosition": "earliest", **options})
    assert checked.network is not None
    return NetworkStreamReader(checked.network, checked, ("position",))


def delivered(reader: NetworkStreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    return [
        position
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for position in batch["position"].to_pylist()
    ]


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(150), ReadMaxBytes(200_000), ReadMaxBytes(32)])
def test_batches_give_each_message_once(node: ServedFolder, ends: list[int], limit: object) -> None:
    reader, seen = reader_of(url(node)), list[int]()
    start = reader.initialOffset()
    for _ in range(20):
        end = reader.latestOffset(start, limit)  # type: ignore[arg-type]
        if end == start:
            break
        seen += delivered(reader, start, end)
        start = end
    assert seen == ends[: len(seen)] and len(seen) >= 20
    assert len(seen) == len(ends) or (isinstance(limit, ReadMaxBytes) and limit.max_bytes == 32)


def test_an_offset_inside_a_message_gives_the_whole_of_it(node: ServedFolder, ends: list[int]) -> None:
    """A commit position may lie between two frames of one message."""
    long = next(index for index in range(1, len(ends)) if ends[index] - ends[index - 1] > 4000)
    cut = {"log": ends[long - 1] + 1408}
    reader = reader_of(url(node))
    assert delivered(reader, {"log": 0}, cut) == ends[:long]
    assert delivered(reader, cut, {"log": ends[long + 3]}) == ends[long : long + 4]


def test_available_now_ends_at_what_was_there(node: ServedFolder, ends: list[int]) -> None:
    reader = reader_of(url(node))
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"log": 0}, ALL) == {"log": ends[-1]} == reader.reportLatestOffset()
    assert reader_of(url(node), startingPosition="latest").initialOffset() == {"log": ends[-1]}
    assert reader_of(url(node), startingPosition="96").initialOffset() == {"log": 96}


def test_a_run_whose_checkpoint_is_beyond_the_log_is_an_error(node: ServedFolder, ends: list[int]) -> None:
    """It ended with success, and no rows."""
    beyond = ends[-1] + 96
    reader = reader_of(url(node), timeout=str(round(patient(2))))
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLossError, match=f"checkpoint ends at position {beyond}, and the log ends at {ends[-1]}"):
        reader.latestOffset({"log": beyond}, ALL)
    lenient = reader_of(url(node), timeout=str(round(patient(2))), failOnDataLoss="false")
    lenient.prepareForTriggerAvailableNow()
    assert lenient.latestOffset({"log": beyond}, ALL) == {"log": beyond}


def test_a_beginning_beyond_the_log_is_an_error(node: ServedFolder, ends: list[int]) -> None:
    beyond = ends[-1] + 96
    with pytest.raises(PipelineError, match=f"startingPosition={beyond}: the log ends at {ends[-1]}"):
        reader_of(url(node), startingPosition=str(beyond)).initialOffset()


def test_what_was_purged_is_said(node: ServedFolder, ends: list[int], tmp_path: Path) -> None:
    shutil.copytree(node.folder, tmp_path / "archive")
    purge(str(tmp_path / "archive"), SEGMENT)
    one = ServedFolder(str(tmp_path / "archive"))
    try:
        start, end = {"log": ends[9]}, {"log": ends[-1]}
        said = f"position {ends[9]} was asked for, and the log begins at {SEGMENT}"
        with pytest.raises(DataLossError, match=said):
            reader_of(url(one)).latestOffset(start, ALL)
        with pytest.raises(DataLossError, match=said):
            reader_of(url(one)).partitions(start, end)
        lenient = reader_of(url(one), failOnDataLoss="false")
        left = [position for position in ends if position > SEGMENT]
        assert delivered(lenient, start, lenient.latestOffset(start, ALL)) == left
        both = reader_of(url(one, node))
        assert delivered(both, start, both.latestOffset(start, ALL)) == ends[10:], "another node still has it"
    finally:
        one.close()


def test_a_checkpoint_of_another_log_is_said(
    node: ServedFolder, ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that starts knows of less than it had, so that the query waits for a while."""
    reader = reader_of(url(node), timeout="5")
    beyond = {"log": ends[-1] + 3200}
    assert reader.latestOffset(beyond, ALL) == beyond
    later_s = time.monotonic() + 6
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    with pytest.raises(DataLossError, match=f"ends at {ends[-1]}: it is another log"):
        reader.latestOffset(beyond, ALL)
    with pytest.raises(DataLossError, match="is of node0/0, and this stream reads a log over the network"):
        reader.latestOffset({"node0/0": 0}, ALL)


def test_a_running_query_waits_for_nodes_that_are_down(
    node: ServedFolder, ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_stream, "RUNNING_TIMEOUT_S", 1.0)
    reader = reader_of(url(node))
    offset = reader.latestOffset({"log": 0}, ALL)
    node.kill()
    assert reader.latestOffset(offset, ALL) == offset
    node.start()
    assert delivered(reader, {"log": ends[-2]}, offset) == [ends[-1]]


def test_a_stream_that_runs_takes_up_newer_schemas(tmp_path: Path) -> None:
    records = [event(FIRST), Position(1), event(SECOND), PositionWithCents(2, 20), event(WRONG), Position(3)]
    folder = typed_logs.write_log(tmp_path, records)
    began = str(ordo.read(folder, columns="position").to_arrow()["position"][1])
    served = ServedFolder(folder)
    given = {"path": url(served), "decoder": "log", "kinds": "message"}
    try:
        options = replace(with_decoder(ReadSettings.parse({**given, "commit": began})), commit="auto")
        assert options.network is not None
        reader = NetworkStreamReader(options.network, options, ("version", "Position_1", "problem"))
        start = with_cluster({KEY: int(began)}, None)
        partitions = pickle.loads(pickle.dumps(reader.partitions(start, reader.latestOffset(start, ALL))))
        newer, wrong = (row for one in partitions for batch in reader.read(one) for row in batch.to_pylist())
    finally:
        served.close()
    assert newer == {"version": 1, "Position_1": {"account": 2}, "problem": None}
    assert wrong["Position_1"] is None and wrong["problem"].startswith("from position ")
