"""The audit names forged terms and times at their own record, and says who is shorter and what cannot be proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.jobs import agreement
from ordo.pipeline.jobs.agreement import AuditedLog, named_odd, uncommitted_ends
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.audit_report import describe_shorter, describe_status
from ordo.pipeline.recordings.recordings import open_recordings
from tests.pipeline.test_agreement import write_log, write_logs

SEGMENT = 1 << 16


def write_terms(
    folder: Path, forged: dict[int, int], times: dict[int, int] | None = None, count: int = 600
) -> tuple[str, dict[int, int]]:
    """Two terms of `count` messages each over several segments; the record with a number has another term or time.

    Returns the folder and where each record begins.
    """
    begins: dict[int, int] = {}
    with RecordingBuilder(str(folder / "archive"), term_length=SEGMENT, segment_length=SEGMENT) as builder:
        number = 0
        for term in (1, 2):
            builder.append(new_term(term, builder.begin_position(96), 1000 + number, 0, 1))
            for _ in range(count):
                at = (times or {}).get(number, 1000 + number)
                length = builder.append(session_message(forged.get(number, term), 1, at, bytes(300)))
                begins[number] = length - 384
                number += 1
    return builder.directory, begins


def found(directory: str) -> list[tuple[str, int, int, int]]:
    facts = audit(None, [directory])
    return [(one["fault"], one["position"], one["expected"], one["actual"]) for one in facts["findings"]]


@pytest.mark.parametrize("number", [0, 1, 77, 165, 300, 599, 600, 1199])
def test_a_forged_term_is_named_at_its_record(tmp_path: Path, number: int) -> None:
    """The finding once came again where each later segment begins, and at every record in it. 165 begins one."""
    term = 1 if number < 600 else 2
    directory, begins = write_terms(tmp_path, {number: 99})
    assert found(directory) == [("leadership term that no record begins", begins[number], term, 99)]
    directory, begins = write_terms(tmp_path / "lower", {number: 0})
    assert found(directory) == [("leadership term goes back", begins[number], term, 0)]


def test_several_forged_terms(tmp_path: Path) -> None:
    directory, begins = write_terms(tmp_path, {5: 7, 6: 7, 400: 2, 1000: 1})
    assert [(fault[1], fault[3]) for fault in found(directory)] == [(begins[5], 7), (begins[400], 2), (begins[1000], 1)]


def test_a_forged_new_term_record_is_named_itself(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        builder.append(new_term(1, 0, 5, 0, 1))
        builder.append(session_message(1, 1, 6, b"a"))
        place = builder.begin_position(96)
        builder.append(new_term(9, place, 7, 0, 1))
        for _ in range(5):
            builder.append(session_message(2, 1, 8, b"b"))
    assert found(builder.directory) == [("leadership term that no record begins", place, 2, 9)]


def test_terms_of_a_log_without_its_beginning(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for _ in range(5):
            builder.append(session_message(4, 1, 8, b"b"))
        place = builder.writer.position
        builder.append(session_message(5, 1, 8, b"b"))
    assert found(builder.directory) == [("leadership term that no record begins", place, 4, 5)]


@pytest.mark.parametrize("number", [1, 77, 165, 166, 300, 599, 1198])
def test_a_forged_time_is_named_at_its_record(tmp_path: Path, number: int) -> None:
    directory, begins = write_terms(tmp_path, {}, {number: 5_000_000})
    assert [fault[:2] for fault in found(directory)] == [("time goes back", begins[number])]
    directory, begins = write_terms(tmp_path / "lower", {}, {number: 3})
    assert [fault[:2] for fault in found(directory)] == [("time goes back", begins[number])]


def test_the_reference_is_not_chosen_by_a_forged_term(tmp_path: Path) -> None:
    """One record with a high term once made its log the one that all others were measured by."""
    good, _, _ = write_log(tmp_path / "node0", {0: [b"a"] * 5, 1: [b"b"] * 5})
    other, _, _ = write_log(tmp_path / "node1", {0: [b"a"] * 5, 1: [b"b"] * 5})
    with RecordingBuilder(str(tmp_path / "node2" / "archive")) as builder:
        builder.append(new_term(0, 0, 1000, 0, 1))
        for number in range(5):
            builder.append(session_message(99 if number == 2 else 0, 1, 1001 + number, b"a"))
    facts = audit(None, [good, other, builder.directory])
    assert facts["first_difference"]["odd"] == "node2"
    assert {end["reference"] for end in facts["shorter"]} == {"node0"}


def test_a_member_that_is_shorter_is_said_to_be(tmp_path: Path) -> None:
    folders, _, ends = write_logs(tmp_path, {0: [b"a"] * 9}, {0: [b"a"] * 7}, {0: [b"a"] * 4})
    facts = audit(None, folders)
    assert facts["status"] == "clean"
    assert facts["shorter"] == [
        {"node": "node1", "position": ends[1][-1], "bytes": 2 * 96, "committed_bytes": 0, "reference": "node0"},
        {"node": "node2", "position": ends[2][-1], "bytes": 5 * 96, "committed_bytes": 3 * 96, "reference": "node0"},
    ]
    assert describe_shorter(facts["shorter"][0]).endswith("192 bytes before node0, none of them committed")
    assert describe_shorter(facts["shorter"][1]).endswith("480 bytes before node0, 288 of them committed")


def test_an_uncommitted_end_does_not_make_a_log_longer(tmp_path: Path) -> None:
    folders, _, _ = write_logs(tmp_path, {0: [b"a", *[b"lost"] * 9]}, {0: [b"a"], 1: [b"b"]}, {0: [b"a"], 1: [b"b"]})
    facts = audit(None, folders)
    assert [(end["node"], end["bytes"], end["committed_bytes"]) for end in facts["shorter"]] == [("node0", 192, 192)]


def test_what_cannot_be_proven_is_said(tmp_path: Path) -> None:
    folders, _, _ = write_logs(tmp_path, {0: [b"a"]}, {0: [b"a"]}, {0: [b"a"]})
    one, two, three = (audit(None, folders[:count])["not_proven"] for count in (1, 2, 3))
    assert "One log was given" in one[0] and "Two logs were given" in two[0] and len(three) == 1
    assert "nodes agree" not in describe_status(audit(None, folders[:1]))
    killed, _, _ = write_log(tmp_path / "killed", {0: [b"a"]}, stopped=False)
    assert any(
        "bytes lost at its end do not show" in said for said in audit(None, [killed], commit="recorded")["not_proven"]
    )


def test_many_differences_take_time_in_proportion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """23,424 of them once took 50 s: each was compared with each, and the logs were opened for each. Each with each
    would be 4 * 10^10 comparisons here, which no timeout allows.
    """
    folders, _, _ = write_logs(tmp_path, {0: [b"a"]}, {0: [b"a"]}, {0: [b"a"], 1: []})
    logs = [AuditedLog(entry, term) for entry, term in zip(open_recordings(folders), (0, 0, 1), strict=True)]
    looked = []
    monkeypatch.setattr(agreement, "_record_at", lambda recording, position: looked.append(position))
    differences = [
        {"nodes": ["node2", node], "position": 96 + 32 * number, "padding": False}
        for number in range(100_000) for node in ("node0", "node1")
    ]  # fmt: skip
    assert uncommitted_ends(logs, differences, [], [0, 192]) == []
    assert {one["odd"] for one in named_odd(differences, 3)} == {"node2"}
    assert set(looked) == {192} and len(looked) <= 8
