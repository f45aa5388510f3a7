"""The audit names the exact place of any damage, on one node and between nodes."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordo.pipeline.generate import (
    LogShape,
    RecordingBuilder,
    generate_log,
    session_close,
    session_message,
    session_open,
)
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.audit_report import describe, write_report
from ordo.pipeline.jobs.session_order import find_violations, session_violations
from ordo.pipeline.sql.local import read
from tests.pipeline.test_clock_stretches import Log

pytestmark = pytest.mark.spark
SHAPE = LogShape(messages=6_000, sessions=4, terms=3, term_length=1 << 17, segment_length=1 << 18)


@pytest.fixture
def nodes(tmp_path: Path) -> list[str]:
    folders = [str(tmp_path / f"node{index}" / "archive") for index in range(3)]
    generate_log(folders[0], SHAPE)
    for folder in folders[1:]:
        shutil.copytree(folders[0], folder)
    return folders


def flip(path: str, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def frames_of(path: str, base: int) -> list[tuple[int, int]]:
    """(position, aligned length) of every data frame, by an obvious walk."""
    with open(path, "rb") as file:
        data = file.read()
    offset, found = 0, []
    while offset < len(data):
        length = (int.from_bytes(data[offset : offset + 4], "little") + 31) // 32 * 32
        if length == 0:
            break
        if data[offset + 6] == 1:
            found.append((base + offset, length))
        offset += length
    return found


def test_three_clean_nodes(spark: SparkSession, nodes: list[str], tmp_path: Path) -> None:
    facts = audit(spark, nodes)
    assert facts["status"] == "clean" and facts["first_problem"] is None
    assert [node["node"] for node in facts["nodes"]] == ["node0", "node1", "node2"]
    assert facts["nodes"][0]["kinds"]["message"] == SHAPE.messages
    assert [term["leadership_term"] for term in facts["nodes"][1]["terms"]] == [0, 1, 2]
    page = write_report(facts, str(tmp_path / "report"))
    assert "clean" in Path(page).read_text() and "data:image/png" in Path(page).read_text()
    assert json.loads((tmp_path / "report" / "audit.json").read_text())["status"] == "clean"


AT_NIGHT = {2, 3, 4, 5, 6, 7, 10, 11}
"""Seeds of flips that `make nightly` tries besides: each takes a whole audit."""


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.soak] if seed in AT_NIGHT else []) for seed in range(12)]
)
def test_one_flipped_byte_is_reported_at_its_frame(spark: SparkSession, nodes: list[str], seed: int) -> None:
    """Anywhere in a frame, header and payload alike."""
    chance = random.Random(seed)
    position, length = chance.choice(frames_of(f"{nodes[1]}/0-262144.rec", 262144))
    offset = position - 262144 + (chance.randrange(32) if seed < 8 else chance.randrange(length))
    flip(f"{nodes[1]}/0-262144.rec", offset)
    facts = audit(spark, nodes)
    assert facts["first_problem"]["position"] == position
    assert facts["first_difference"]["position"] == position
    assert facts["first_difference"]["byte"] == offset + 262144
    assert facts["first_difference"]["odd"] == "node1"
    assert {finding["node"] for finding in facts["findings"]} == {"node1"}
    assert facts["findings"][0]["position"] == position
    assert facts["findings"][0]["segment"] == "0-262144.rec"
    assert str(offset + 262144) in describe(facts["first_difference"])
    assert "node1, 0-262144.rec" in describe(facts["findings"][0])


def test_the_audit_goes_on_behind_the_damage(spark: SparkSession, nodes: list[str]) -> None:
    frames = frames_of(f"{nodes[0]}/0-0.rec", 0)
    broken = [frames[index][0] for index in (100, 200, 300)]
    for position in broken:
        flip(f"{nodes[0]}/0-0.rec", position + 1)  # the length: the chain of frames breaks
    facts = audit(spark, nodes)
    at = [finding["position"] for finding in facts["findings"] if finding["fault"] != "bytes that cannot be read"]
    assert at == broken
    assert sum(node["messages"] for node in facts["nodes"]) == sum(facts["nodes"][1]["kinds"].values()) * 3 - 3


def test_one_removed_segment_is_reported_where_it_begins(spark: SparkSession, nodes: list[str]) -> None:
    os.remove(f"{nodes[2]}/0-524288.rec")
    facts = audit(spark, nodes)
    assert facts["findings"] == [
        {"fault": "the segment file is missing", "position": 524288, "expected": 0, "actual": 0, "node": "node2",
         "recording": 0, "segment": "0-524288.rec"}
    ]  # fmt: skip
    assert facts["first_difference"]["position"] == 524288
    assert facts["first_difference"]["odd"] == "node2"


@pytest.mark.parametrize("cut", [0, 32, 33, 64])
def test_one_truncated_tail_is_reported_at_the_first_frame_that_is_not_whole(
    spark: SparkSession, nodes: list[str], cut: int
) -> None:
    last = sorted(Path(nodes[0]).glob("*.rec"), key=lambda path: int(path.stem.split("-")[1]))[-1]
    base = int(last.stem.split("-")[1])
    position, _ = frames_of(str(last), base)[-20]
    os.truncate(last, position - base + cut)
    facts = audit(spark, nodes)
    assert facts["findings"][0]["position"] == position
    assert facts["findings"][0]["fault"] == "the segment file ends inside the frame"
    assert facts["first_difference"]["byte"] == position + cut // 32 * 32
    assert facts["first_difference"]["odd"] == "node0"


def test_a_zeroed_stretch_is_a_hole(spark: SparkSession, nodes: list[str]) -> None:
    frames = frames_of(f"{nodes[0]}/0-0.rec", 0)
    start, end = frames[50][0], frames[60][0]
    with open(f"{nodes[0]}/0-0.rec", "r+b") as file:
        file.seek(start)
        file.write(bytes(end - start))
    facts = audit(spark, nodes)
    assert [(finding["fault"], finding["position"], finding["actual"]) for finding in facts["findings"]] == [
        ("no frame was written here", start, 0),
        ("bytes that cannot be read", start, end - start),
    ]


def test_a_node_that_is_behind_is_no_damage(spark: SparkSession, tmp_path: Path) -> None:
    folders = [str(tmp_path / f"node{index}" / "archive") for index in range(2)]
    for folder, count in zip(folders, (50, 30), strict=True):
        with RecordingBuilder(folder) as builder:
            for number in range(count):
                builder.append(session_message(0, 1, 5 + number, b"%d" % number))
    facts = audit(spark, folders)
    assert facts["status"] == "clean"
    assert facts["compared_to"] == facts["nodes"][1]["limit"] < facts["nodes"][0]["limit"]


def test_logs_that_diverge_are_reported_at_the_first_message(spark: SparkSession, tmp_path: Path) -> None:
    """Each is intact by itself."""
    folders = [str(tmp_path / f"node{index}" / "archive") for index in range(3)]
    for index, folder in enumerate(folders):
        with RecordingBuilder(folder) as builder:
            for number in range(50):
                after = builder.append(session_message(0, 1, 5 + number, b"x" if (index, number) == (0, 30) else b"y"))
                if number == 29:
                    place = after
    facts = audit(spark, folders)
    assert facts["findings"] == []
    assert facts["first_difference"]["position"] == place
    assert facts["first_difference"]["odd"] == "node0"


def test_time_and_term_never_go_back(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "archive")
    with RecordingBuilder(folder) as builder:
        builder.append(session_message(4, 1, 100, b"a"))
        place = builder.append(session_message(4, 1, 101, b"b"))
        builder.append(session_message(4, 1, 99, b"c"))
        later = builder.writer.position
        builder.append(session_message(3, 1, 102, b"d"))
    findings = audit(spark, [folder])["findings"]
    assert [(finding["fault"], finding["position"]) for finding in findings] == [
        ("time goes back", place),
        ("leadership term goes back", later),
    ]


def test_both_engines_say_the_same_of_clocks(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(tmp_path, tiny=True)
    log.term(0, 0, 0)
    for index in range(40):
        log.report(10 * index, is_synchronized=int(index < 20))
        log.message(10 * index + 1, bytes(8_000))
    log.message(1000)
    stretches = log.stretches()
    assert [one["clock"] for one in stretches] == ["synchronized", "not synchronized", "no report"]
    assert audit(spark, [log.folder]) == audit(None, [log.folder])
    assert audit(spark, [log.folder])["nodes"][0]["clock"] == stretches


def test_sessions_send_only_while_they_are_open(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "archive")
    with RecordingBuilder(folder) as builder:
        builder.append(session_open(0, 1, 1, 5, b"", b""))
        builder.append(session_message(0, 1, 6, b"fine"))
        early = builder.append(session_message(0, 2, 6, b"early"))
        builder.append(session_open(0, 2, 2, 7, b"", b""))
        builder.append(session_close(0, 1, 8, 0))
        late = builder.append(session_message(0, 1, 9, b"late"))
        twice = builder.append(session_close(0, 1, 9, 0))
    log = spark.read.format("ordo").load(folder)
    found = [(row.session_id, row.violation, row.position) for row in session_violations(log).collect()]
    assert found == [(2, "message before open", early), (1, "message after close", late), (1, "closed twice", twice)]
    here = [(row["session_id"], row["violation"], row["position"]) for row in find_violations(read(folder).batches())]
    assert here == found
