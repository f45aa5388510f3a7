"""What differs between nodes' logs: an end that was never committed is no damage, everything else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.audit_report import describe_end, write_report
from tests.archive.model import as_ordo_writes, read_frames

pytestmark = pytest.mark.spark
TERM_RECORD_LENGTH = 96
Terms = dict[int, list[bytes]]  # term -> payloads


def write_log(folder: Path, terms: Terms, stopped: bool = True) -> tuple[str, dict[int, int], list[int]]:
    """Folder, position of each term's first record, and the positions after the messages."""
    archive = str(folder / "archive")
    begins, ends, time = {}, [], 1000
    with RecordingBuilder(archive, stopped=stopped) as builder:
        for term, payloads in terms.items():
            begins[term] = builder.begin_position(TERM_RECORD_LENGTH)
            builder.append(new_term(term, begins[term], time, 0, 1))
            for payload in payloads:
                time += 1
                ends.append(builder.append(session_message(term, 1, time, payload)))
    return archive, begins, ends


def write_logs(root: Path, *logs: Terms) -> tuple[list[str], list[dict[int, int]], list[list[int]]]:
    written = [write_log(root / f"node{index}", terms) for index, terms in enumerate(logs)]
    return [log[0] for log in written], [log[1] for log in written], [log[2] for log in written]


@pytest.mark.thorough
def test_the_end_of_a_deposed_leader_is_named_and_is_no_damage(spark: SparkSession, tmp_path: Path) -> None:
    folders, begins, ends = write_logs(
        tmp_path, {0: [b"a", b"b", b"lost", b"lost too"]}, {0: [b"a", b"b"], 1: [b"c"]}, {0: [b"a", b"b"], 1: [b"c"]}
    )
    facts = audit(spark, folders)
    assert facts["status"] == "clean" and facts["differences"] == []
    assert facts["uncommitted"] == [
        {"node": "node0", "position": begins[1][1], "bytes": ends[0][-1] - ends[0][1], "cut_off_by_term": 1,
         "reference": "node1"}
    ]  # fmt: skip
    said = describe_end(facts["uncommitted"][0])
    assert said == f"uncommitted end of node0: 192 bytes from position {begins[1][1]}, where term 1 begins on node1"
    assert "never committed" in Path(write_report(facts, str(tmp_path / "report"))).read_text()


def test_leaders_that_fell_one_after_another(spark: SparkSession, tmp_path: Path) -> None:
    """Each wrote its term's first record and no quorum had it; the newest term is that of the third node."""
    folders, begins, _ = write_logs(tmp_path, {0: [b"a"], 1: [b"x"]}, {0: [b"a"], 2: []}, {0: [b"a"], 3: [b"b"]})
    facts = audit(spark, folders)
    assert facts["status"] == "clean"
    assert [(end["node"], end["position"], end["cut_off_by_term"]) for end in facts["uncommitted"]] == [
        ("node0", begins[0][1], 3),
        ("node1", begins[1][2], 3),
    ]


def test_records_of_one_term_that_differ_are_damage(spark: SparkSession, tmp_path: Path) -> None:
    """One leader writes one thing at a position, whatever follows."""
    folders, _, ends = write_logs(tmp_path, {0: [b"a", b"b"]}, {0: [b"a", b"X"], 1: [b"c"]}, {0: [b"a", b"b"]})
    facts = audit(spark, folders)
    assert facts["status"] == "damaged" and facts["uncommitted"] == []
    assert {difference["position"] for difference in facts["differences"]} == {ends[0][0]}
    assert facts["first_difference"]["odd"] == "node1"


def test_the_kind_of_a_checksum_is_no_difference(spark: SparkSession, tmp_path: Path) -> None:
    """A member that ran an older version recorded the same frames with another checksum."""
    folders, _, ends = write_logs(tmp_path, {0: [b"a", b"b"]}, {0: [b"a", b"b"]})
    as_ordo_writes(Path(folders[1], "0-0.rec"), read_frames(folders[1], 0, 0, ends[1][-1], 1 << 22, 1 << 20))
    assert Path(folders[0], "0-0.rec").read_bytes() != Path(folders[1], "0-0.rec").read_bytes()
    facts = audit(spark, folders)
    assert facts["status"] == "clean" and facts["differences"] == []
    with open(f"{folders[1]}/0-0.rec", "r+b") as file:
        file.seek(ends[1][0] + 5)
        file.write(b"\x80")
    facts = audit(spark, folders)
    assert facts["status"] == "damaged" and facts["first_problem"]["position"] == ends[1][0]


def test_what_a_quorum_holds_cannot_be_cut_off(spark: SparkSession, tmp_path: Path) -> None:
    """A leader of a later term without it was elected against the rules."""
    folders, begins, _ = write_logs(tmp_path, {0: [b"a", b"b"]}, {0: [b"a", b"b"]}, {0: [b"a"], 1: [b"c"]})
    facts = audit(spark, folders)
    assert facts["status"] == "damaged" and facts["uncommitted"] == []
    assert facts["first_difference"]["position"] == begins[2][1]
    assert facts["first_difference"]["odd"] == "node2"


def test_a_damaged_end_is_reported_as_damage(spark: SparkSession, tmp_path: Path) -> None:
    folders, begins, _ = write_logs(tmp_path, {0: [b"a", b"lost"]}, {0: [b"a"], 1: []}, {0: [b"a"], 1: []})
    with open(f"{folders[0]}/0-0.rec", "r+b") as file:
        file.seek(begins[1][1] + 40)
        file.write(b"\xff")
    facts = audit(spark, folders)
    assert facts["status"] == "damaged" and facts["first_problem"]["position"] == begins[1][1]
    assert facts["findings"][0]["fault"] == "checksum" and facts["uncommitted"] == []


def test_damage_before_an_uncommitted_end_keeps_its_place(spark: SparkSession, tmp_path: Path) -> None:
    folders, begins, ends = write_logs(
        tmp_path, {0: [b"a", b"b", b"lost"]}, {0: [b"a", b"b"], 1: [b"c"]}, {0: [b"a", b"b"], 1: [b"c"]}
    )
    with open(f"{folders[0]}/0-0.rec", "r+b") as file:
        file.seek(ends[0][0] + 24)
        file.write(b"\x01")
    facts = audit(spark, folders)
    assert [difference["byte"] for difference in facts["differences"]] == [ends[0][0] + 24]
    assert facts["first_difference"]["odd"] == "node0"
    assert [end["position"] for end in facts["uncommitted"]] == [begins[1][1]]


def test_logs_longer_than_the_first_are_compared_with_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """The audit once compared everything with the first log, and nothing beyond its end."""
    folders, _, ends = write_logs(tmp_path, {0: [b"a"]}, {0: [b"a", b"b", b"c"]}, {0: [b"a", b"b", b"X"]})
    facts = audit(spark, folders)
    assert facts["first_difference"]["position"] == ends[1][1]
    assert facts["first_difference"]["nodes"] == ["node1", "node2"]


def test_nodes_that_were_killed_agree_up_to_what_each_has_recorded(spark: SparkSession, tmp_path: Path) -> None:
    """Their files go on with zeros; the audit once took those for a difference."""
    payloads = [b"%d" % number for number in range(50)]
    folders = [
        write_log(tmp_path / f"node{index}", {0: payloads[:count]}, stopped=False)[0]
        for index, count in enumerate((50, 30))
    ]
    for folder in folders:
        os.truncate(f"{folder}/0-0.rec", 1 << 22)
    facts = audit(spark, folders, commit="recorded")
    assert facts["status"] == "clean" and facts["compared_to"] == facts["nodes"][1]["limit"]
    assert facts["nodes"][1]["limit"] < facts["nodes"][0]["limit"] < 1 << 14


def test_a_hole_before_a_later_segment_is_found_where_the_end_is_not_known(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "archive")
    with RecordingBuilder(folder, term_length=1 << 16, segment_length=1 << 16, stopped=False) as builder:
        ends = [builder.append(session_message(0, 1, number, b"x" * 900)) for number in range(100)]
    place = ends[20]
    with open(f"{folder}/0-0.rec", "r+b") as file:
        file.seek(place)
        file.write(bytes((1 << 16) - place))
    findings = audit(spark, [folder], commit="recorded")["findings"]
    assert [(finding["fault"], finding["position"]) for finding in findings] == [("no frame was written here", place)]
