"""The log read over the network: the rows of the folders, whichever node is asked, and whatever becomes of it."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

import ordo
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cli import app
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.settings.config import load_config
from ordo.follow.recordings.ranges import Access, BoundaryError, RangeReader
from ordo.pipeline.decoding.errors import DataLossError, PipelineError
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message, timer_event
from ordo.pipeline.nodes.node_archives import parse_addresses
from ordo.pipeline.recordings.network import (
    NetworkLog,
    NetworkRun,
    boundary,
    plan_network,
    read_network,
    wanted_records,
)
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.predicates import Predicates
from ordo.runtime.errors import ArchiveError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.security.tokens import hash_token, new_token
from tests.cluster.integration.agreement import await_that
from tests.clusters import ready_cluster
from tests.patience import patient
from tests.pipeline.served import ServedFolder, url

TERM, SEGMENT = 1 << 16, 1 << 18
OF_A_NODE = ["recording", "node"]
"""Columns that folders have and a cluster's log has not."""


def write_log(folder: str) -> None:
    """A MiB of messages of many lengths, some of several frames."""
    chance = random.Random(3)
    with RecordingBuilder(folder, term_length=TERM, segment_length=SEGMENT) as builder:
        builder.append(new_term(0, 0, 1_700_000_000_000, 0, 1))
        while builder.writer.position < 4 * SEGMENT - TERM // 2:
            length = chance.choice((0, 40, 300, 5000))
            builder.append(session_message(0, chance.randrange(9), 1_700_000_000_000, bytes(length)))
            if chance.random() < 0.01:
                builder.append(timer_event(0, 1, 1_700_000_000_000))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServedFolder]]:
    """Three processes that serve one log."""
    root = tmp_path_factory.mktemp("served")
    write_log(str(root / "0" / "archive"))
    for copy in "12":
        shutil.copytree(root / "0", root / copy)
    served = [ServedFolder(str(root / name / "archive")) for name in "012"]
    yield served
    for one in served:
        one.close()


def rows(source: str, **options: object) -> pa.Table:
    return ordo.read(source, **options).to_arrow().drop_columns(OF_A_NODE).combine_chunks()


def test_the_rows_are_those_of_the_folder(nodes: list[ServedFolder]) -> None:
    here = rows(nodes[0].folder)
    assert here.num_rows > 500
    for options in ({}, {"partition_bytes": TERM}, {"partitions": 3}, {"batch_rows": 7}):
        assert rows(url(*nodes), **options) == here, options
    named = ordo.read(url(nodes[1]), columns="node,recording,position", nodes="exchange").to_arrow()
    assert set(named["node"].to_pylist()) == {"exchange"} and set(named["recording"].to_pylist()) == {-1}


@pytest.mark.parametrize(
    ("wanted", "is_less"),
    [
        ({"kind": ["timer"]}, True),
        ({"session_id": [3]}, True),
        ({"kind": ["message", "timer"], "session_id": [3, 4]}, True),
        ({"kind": ["message", "request", "timer"]}, False),
        ({"kind": ["timer", "other"]}, False),
    ],
)
def test_nodes_leave_out_what_a_task_does_not_want(
    nodes: list[ServedFolder], wanted: dict[str, list[object]], is_less: bool
) -> None:
    log = NetworkLog((nodes[0].address,))
    found = log.survey()
    (run,) = plan_network(log, found, 0, found.end_position, 0, 1 << 30, 1)
    predicates = Predicates()
    for column, values in wanted.items():
        predicates = predicates.among(column, values)
    read = pa.Table.from_batches(read_network(run, predicates, ("position", "kind", "session_id", "payload"), 100))
    here = ordo.read(nodes[0].folder, columns=read.column_names).to_arrow()
    for column, values in wanted.items():
        here = here.filter(pc.is_in(here[column], pa.array(values)))
    assert read.combine_chunks() == here.combine_chunks() and read.num_rows > 5
    sent = 0
    with RangeReader(run.log.addresses, run.start, run.upto, record_filter=wanted_records(predicates)) as reader:
        for _, block in reader:
            is_padding = len(block) > 8 and block[6:8] == bytes(2)
            sent += 32 if is_padding else len(block)
    assert (sent < run.upto / 2) == is_less, sent


def test_the_command_line_asks_nodes_too(nodes: list[ServedFolder]) -> None:
    count = "SELECT count(*) AS n FROM log"
    shown = CliRunner().invoke(app, ["pipeline", "query", url(*nodes), "--sql", count, "--format", "csv"])
    assert shown.output.split() == ["n", str(rows(nodes[0].folder).num_rows)]
    same = CliRunner().invoke(app, ["pipeline", "diff", url(nodes[0]), nodes[1].folder])
    assert same.exit_code == 0 and same.output.startswith("same: "), same.output


def test_positions_may_lie_anywhere(nodes: list[ServedFolder]) -> None:
    """Between messages, between two frames of one, and inside a frame."""
    ends = ordo.read(nodes[0].folder, columns="position,start_position").to_arrow().to_pylist()
    long = next(row for row in ends if row["position"] - row["start_position"] > 4000)
    chance = random.Random(5)
    starts = [long["start_position"], long["start_position"] + 1408, long["start_position"] + 64, long["position"] - 32]
    for start in [*starts, 2 * TERM, 1, *(chance.randrange(4 * SEGMENT) for _ in range(2))]:
        options = {"start_position": start, "end_position": start + chance.choice((40, 9000))}
        assert rows(url(nodes[0]), **options) == rows(nodes[0].folder, **options), options
    assert rows(url(nodes[0]), start_position=96, end_position=96).num_rows == 0


def test_a_read_from_beyond_the_end_says_where_the_end_is(nodes: list[ServedFolder]) -> None:
    """At the end there is nothing yet, and filters that leave nothing are what was asked for."""
    end = ordo.read(nodes[0].folder, columns="position").to_arrow()["position"].to_pylist()[-1]
    for source in (nodes[0].folder, url(*nodes)):
        assert rows(source, start_position=end).num_rows == 0
        assert rows(source, start_position=end, start_time="2100-01-01").num_rows == 0
        with pytest.raises(PipelineError) as caught:
            ordo.read(source, start_position=end + 32).to_arrow()
        assert caught.value.message == (
            f"position={end + 32} is beyond the end of the log, which is position={end}: begin there or below"
        )
        assert rows(source, start_time="2100-01-01").num_rows == 0


def test_another_node_goes_on_when_one_dies(nodes: list[ServedFolder]) -> None:
    here = rows(nodes[0].folder)
    log = ordo.read(url(*nodes), batch_rows=20, partition_bytes=1 << 30, columns=here.column_names)
    batches = log.batches()
    first = next(batches)
    asked = log._tasks[0]
    assert isinstance(asked, NetworkRun)
    dead = next(one for one in nodes if one.address == asked.log.addresses[0])
    dead.kill()
    try:
        assert pa.Table.from_batches([first, *batches]).combine_chunks() == here
        assert rows(url(dead, *(one for one in nodes if one is not dead))) == here
        with pytest.raises(PipelineError, match=r"no node answered within 1 s: .*is it running"):
            ordo.read(url(dead), timeout=1)
    finally:
        dead.start()


def test_a_replay_that_is_broken_off_goes_on_elsewhere(nodes: list[ServedFolder]) -> None:
    """The log is longer than what is on its way, so that a part of it is left when the node dies."""
    addresses = [nodes[0].address, nodes[1].address]
    found: list[tuple[int, bytes]] = []
    with RangeReader(addresses, 0, 3 * SEGMENT, Access(timeout_s=patient(30))) as reader:
        for position, frames in reader:
            found.append((position, frames))
            if len(found) == 1:
                assert reader.source is not None and reader.source.endswith(nodes[0].address)
                assert position + len(frames) < 3 * SEGMENT - (256 << 10)
                nodes[0].kill()
        assert reader.source is not None and reader.source.endswith(nodes[1].address)
    nodes[0].start()
    assert [position for position, _ in found[1:]] == [position + len(frames) for position, frames in found[:-1]]
    assert found[0][0] == 0 and found[-1][0] + len(found[-1][1]) >= 3 * SEGMENT
    with RangeReader(addresses, 0, 3 * SEGMENT) as again:
        assert len(b"".join(frames for _, frames in again)) == sum(len(frames) for _, frames in found)


def test_a_node_that_refuses_is_left_for_one_that_does_not(tmp_path: Path, nodes: list[ServedFolder]) -> None:
    """One node has not been told of the reader's token yet: the others serve it."""
    shutil.copytree(nodes[0].folder, tmp_path / "archive")
    file, token = tmp_path / "tokens.toml", new_token()
    file.write_text(f'[[tokens]]\nprincipal = "a"\nhash = "{hash_token(token)}"\nroles = ["log"]\n')
    strict = ServedFolder(str(tmp_path / "archive"), tokens_file=str(file), token=token)
    try:
        with RangeReader([strict.address, nodes[0].address], 0, SEGMENT, Access(timeout_s=patient(30))) as reader:
            assert next(iter(reader))[0] == 0
            assert "authentication rejected" in reader.problem
        refused = RangeReader([strict.address], 0, SEGMENT, Access(timeout_s=patient(30)))
        with refused, pytest.raises(ArchiveError, match="takes credentials with the role log") as error:
            next(iter(refused))
        assert error.value.code == ErrorCode.UNAUTHORISED_ACTION
        shutil.copytree(nodes[0].folder, tmp_path / "young" / "archive")
        purge(str(tmp_path / "young" / "archive"), SEGMENT)
        young = ServedFolder(str(tmp_path / "young" / "archive"))
        try:
            mixed = RangeReader([young.address, strict.address], 0, SEGMENT, Access(timeout_s=patient(30)))
            with mixed, pytest.raises(ArchiveError, match="the other nodes have deleted this part of the log") as error:
                next(iter(mixed))
            assert error.value.code == ErrorCode.UNAUTHORISED_ACTION
        finally:
            young.close()
    finally:
        strict.close()


def test_a_node_that_serves_no_more_readers_is_waited_for(tmp_path: Path, nodes: list[ServedFolder]) -> None:
    shutil.copytree(nodes[0].folder, tmp_path / "archive")
    one = ServedFolder(str(tmp_path / "archive"), replays_max=1)
    try:
        holder = RangeReader([one.address], 0, 4 * SEGMENT)
        next(iter(holder))
        with RangeReader([one.address], 0, SEGMENT) as waiting, ThreadPoolExecutor(1) as pool:
            first = pool.submit(next, iter(waiting))
            await_that(lambda: "the most this archive allows" in waiting.problem, "the second reader to be refused")
            holder.close()
            assert first.result()[0] == 0
    finally:
        one.close()


def test_tasks_begin_where_messages_surely_begin(nodes: list[ServedFolder]) -> None:
    log = NetworkLog((nodes[0].address,))
    found = log.survey()
    runs = plan_network(log, found, 100, found.end_position, 0, 2 * TERM, None)
    assert (runs[0].start, runs[0].after) == (96, 100) and all(run.start % (2 * TERM) == 0 for run in runs[1:])
    assert [run.after for run in runs[1:]] == [run.upto for run in runs[:-1]]
    assert plan_network(log, found, found.end_position, found.end_position, 0, TERM, None) == []
    with RangeReader([nodes[0].address], 33 * 32 + 8, SEGMENT) as reader, pytest.raises(BoundaryError):
        next(iter(reader))


def test_batches_end_between_messages(nodes: list[ServedFolder]) -> None:
    log = NetworkLog((nodes[0].address,))
    found = log.survey()
    ends = ordo.read(nodes[0].folder, columns="position").to_arrow()["position"].to_pylist()
    for after in (0, ends[10], ends[200], ends[-3]):
        later = [end for end in ends if end > after]
        for rows_max in (1, 7, 100_000):
            assert boundary(log, found, after, found.end_position, rows_max) == later[:rows_max][-1]
        for length in (32, 5000, 3 * TERM):
            expected = [end for end in later if end <= after + length] or later[:1]
            end = boundary(log, found, after, after + length)
            assert end == expected[-1] or (end % TERM == 0 and expected[-1] <= end <= after + length)


def purge(folder: str, start: int) -> None:
    catalog = Catalog.open(FileStorage(open_lmdb), folder)
    catalog.update(0, start_position=start)
    catalog.close()
    for base in range(0, start, SEGMENT):
        os.remove(f"{folder}/0-{base}.rec")


def test_purged_positions_are_said(tmp_path: Path, nodes: list[ServedFolder]) -> None:
    shutil.copytree(nodes[0].folder, tmp_path / "archive")
    purge(str(tmp_path / "archive"), SEGMENT)
    one = ServedFolder(str(tmp_path / "archive"))
    try:
        here = rows(nodes[0].folder, start_position=SEGMENT)
        assert rows(url(one)) == here, "what is left, when nothing else was asked for"
        for source in (url(one), one.folder):
            with pytest.raises(DataLossError, match=f"position 64 was asked for, and the log begins at {SEGMENT}"):
                ordo.read(source, start_position=64)
            assert rows(source, start_position=64, fail_on_data_loss=False) == here
        assert rows(url(one, nodes[1])) == rows(nodes[1].folder), "another node still has it"
        log = NetworkLog((one.address,))
        run = NetworkRun(log, log.survey().descriptor._replace(stream_id=140, segment_length=1 << 30), 0, 0, SEGMENT, 0)
        with pytest.raises(DataLossError, match="was deleted everywhere"):
            list(read_network(run, Predicates(), ("position",), 100))
    finally:
        one.close()


@pytest.mark.slow
def test_an_encrypted_cluster_is_read_with_keys(tmp_path: Path) -> None:
    with ready_cluster(
        "examples.counter:Counter", member_count=1, encrypted=True, root=tmp_path, sync="none"
    ) as cluster:
        answers: list[bytes] = []
        with ClusterClient(
            cluster.ingress_endpoints,
            on_message=lambda session_id, timestamp, payload: answers.append(bytes(payload)),
            settings=ClientSettings(**cluster.client_keys),
        ) as client:
            for number in range(20):
                client.send(b"%d" % number, timeout_s=patient(30))
            deadline_s = time.monotonic() + patient(30)
            while len(answers) < 20:
                client.poll()
                assert time.monotonic() < deadline_s
        source = f"ordo://{load_config(cluster.config_path(0)).own_member.archive}"
        assert ordo.read(source, kinds="message", **cluster.client_keys).to_arrow().num_rows == 20
        with pytest.raises(PipelineError, match="no node answered within 2 s"):
            ordo.read(source, timeout=2)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("ordo://node0", {}, "'node0' is no address; give the archive endpoints"),
        ("ordo://node0:9014,/data/archive", {}, "'/data/archive' is no address"),
        ("ordo://node0:9014", {"recording": "all"}, "nodes give the log only"),
        ("ordo://node0:9014", {"commit": "recorded"}, "they know what is committed"),
        ("ordo://node0:9014", {"verify": "true"}, "nodes check every frame"),
        ("ordo://node0:9014", {"nodes": "a,b"}, "it names the cluster, once"),
        ("/tmp", {"timeout": "3"}, "option 'timeout' is for reading over the network"),
    ],
)
def test_what_does_not_fit_is_refused(path: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        ReadSettings.parse({"path": path, **options})


def test_addresses() -> None:
    assert parse_addresses("ordo://a:1, b:2,ordo://a:1,[::1]:9") == ("a:1", "b:2", "[::1]:9")
