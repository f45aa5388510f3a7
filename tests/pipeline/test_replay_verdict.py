"""A replay says of every stretch whether it agrees, differs, or was not checked at all; silence is no agreement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.pipeline.decoding.errors import PipelineError, VersionChangesError
from ordo.pipeline.generate import RecordingBuilder, encode_record, new_term, session_message, session_open, var_data
from ordo.pipeline.jobs.stretches import cut_log
from ordo.pipeline.jobs.verdict import run_stretch, verdict_of
from ordo.service_api.service import ClusteredService
from tests.pipeline.exchange import marker

HERE = "tests.pipeline.test_replay_verdict"


class Tally(ClusteredService):
    """Counts messages and tells each client its number."""

    step = 1

    def on_start(self, cluster, snapshot):  # type: ignore[no-untyped-def]
        self.count = int(snapshot.read()) if snapshot is not None else 0

    def on_session_message(self, session, timestamp, payload, header):  # type: ignore[no-untyped-def]
        self.count += self.step
        session.offer(b"%d" % self.count)

    def on_take_snapshot(self, writer):  # type: ignore[no-untyped-def]
        writer.write(b"%d" % self.count)


class DoubleTally(Tally):
    step = 2


class Picky(Tally):
    def on_session_message(self, session, timestamp, payload, header):  # type: ignore[no-untyped-def]
        if bytes(payload) == b"9":
            raise ValueError("no nines")
        super().on_session_message(session, timestamp, payload, header)  # type: ignore[no-untyped-call]


class HashedTally(Tally):
    def state_hash(self):  # type: ignore[no-untyped-def]
        return b"%d" % self.count


class HashedDoubleTally(HashedTally):
    step = 2


class LateDoubleTally(HashedTally):
    """Counts otherwise from its tenth message on."""

    def on_session_message(self, session, timestamp, payload, header):  # type: ignore[no-untyped-def]
        self.step = 1 if self.count < 9 else 2
        super().on_session_message(session, timestamp, payload, header)  # type: ignore[no-untyped-call]


class NeverStarts(Tally):
    def on_start(self, cluster, snapshot):  # type: ignore[no-untyped-def]
        raise KeyError("configuration")


def skip_event(position: int) -> bytes:
    return ordo_codecs.SKIP_EVENT.encode(
        leadership_term_id=0, timestamp=50, skipped_position=position, member_id=1, text=b"ValueError: no nines"
    )


def hash_event(agreed_position: int, count: int) -> bytes:
    """`count`: what a quorum had at `agreed_position`."""
    digest = digest_of([b"%d" % count]) if agreed_position >= 0 else b""
    return ordo_codecs.STATE_HASH_EVENT.encode(
        leadership_term_id=0, timestamp=50, agreed_position=agreed_position, member_id=1, agreed_digest=digest
    )


def write_hashed_log(folder: Path) -> tuple[str, list[int]]:
    """Twelve messages to a Tally, a hash event after every third; returns where these are."""
    directory = str(folder / "node0" / "archive")
    events: list[int] = []
    with RecordingBuilder(directory) as builder:
        builder.append(new_term(0, 0, 5, 0, 1))
        builder.append(session_open(0, 1, 1, 6, b"c", b"me"))
        for number in range(12):
            builder.append(session_message(0, 1, 10 + number, b"%d" % number))
            if number % 3 == 2:
                agreed = (events[-1], number - 2) if events else (-1, 0)
                events.append(builder.append(hash_event(*agreed)))
    return directory, events


def upgrade(service_id: int) -> bytes:
    """To version 2.0.0."""
    fields = {"leadership_term_id": 0, "timestamp": 50, "app_version": 2 << 16, "member_id": 1}
    return ordo_codecs.VERSION_EVENT.encode(**fields, service_id=service_id)


def write_log(
    folder: Path,
    snapshots_after: tuple[int, ...],
    count: int = 12,
    left_out: int | None = None,
    upgraded_after: int | None = None,
    upgraded_service: int = -1,
) -> tuple[str, list[int]]:
    """A log of `count` messages to a Tally, and the position after each; one of them may be left out."""
    directory = str(folder / "node0" / "archive")
    ends = []
    with RecordingBuilder(directory) as builder:
        builder.append(new_term(0, 0, 5, 0, 1))
        builder.append(session_open(0, 1, 1, 6, b"c", b"me"))
        for number in range(count):
            ends.append(builder.append(session_message(0, 1, 10 + number, b"%d" % number)))
            if number == left_out:
                builder.append(skip_event(ends[-1]))
            if number + 1 == upgraded_after:
                ends.append(builder.append(upgrade(upgraded_service)))
            if number + 1 in snapshots_after:
                with RecordingBuilder(directory, stream_id=106) as snapshot:
                    snapshot.append(marker(0, ends[-1]))
                    snapshot.append(encode_record(102, b"\1" + bytes(7) + b"f\0\0\0", var_data(b"c") + var_data(b"me")))
                    snapshot.append(marker(2, ends[-1]))
                    snapshot.append(b"%d" % (number + 1 - (left_out is not None and left_out <= number)))
    return directory, ends


def replay(
    directory: str, service: str, baseline: str | None = None, end: str | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    parts = cut_log(directory, end=end).stretches
    names = f"{HERE}:{service}", f"{HERE}:{baseline}" if baseline else None
    results = [run_stretch(*names, part) for part in parts]
    return verdict_of(results), results


def test_a_log_without_snapshot_and_baseline_is_not_checked(tmp_path: Path) -> None:
    """The verdict was once that it agrees, whatever the service did."""
    directory, _ = write_log(tmp_path, ())
    facts, results = replay(directory, "DoubleTally")
    assert facts["status"] == "not checked"
    assert facts["coverage"] == {"records": 14, "agrees": 0, "differs": 0, "not_checked": 14}
    assert results[0]["reason"] == "no snapshot at its end, and no baseline"


def test_hashes_of_the_state_that_the_log_has_are_compared(tmp_path: Path) -> None:
    """They show a difference where no snapshot does; what is behind the last of them stays unchecked."""
    directory, events = write_hashed_log(tmp_path)
    facts, [result] = replay(directory, "HashedTally")
    assert facts["status"] == "not checked" and result["hashes_compared"] == 3
    upto = f"the hashes of its state agree up to position {events[2]}; "
    assert result["reason"] == f"{upto}no snapshot at its end, and no baseline"
    facts, _ = replay(directory, "DoubleTally")
    assert facts["status"] == "not checked", "it gives no hashes"
    facts, [result] = replay(directory, "LateDoubleTally")
    assert facts["status"] == "not checked" and result["hashes_compared"] == 3, "it differs behind the last one"


def test_a_hash_that_differs_is_the_first_difference(tmp_path: Path) -> None:
    directory, events = write_hashed_log(tmp_path)
    facts, _ = replay(directory, "HashedDoubleTally")
    assert facts["status"] == "differs"
    first = facts["first_difference"]
    assert (first["position"], first["what"]) == (events[0], "hash of the state")
    assert (first["expected"], first["actual"]) == (digest_of([b"3"]).hex(), digest_of([b"6"]).hex())


def test_what_the_cluster_left_out_is_left_out(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path, (4, 12), left_out=9)
    facts, _ = replay(directory, "Picky", end="snapshot")
    assert facts["status"] == "agrees", facts
    directory, ends = write_log(tmp_path / "executed", (4, 12))
    facts, _ = replay(directory, "Picky")
    assert facts["status"] == "differs" and facts["first_difference"]["position"] == ends[9]


def test_a_stretch_that_two_versions_executed_is_not_checked(tmp_path: Path) -> None:
    """One class would execute all of it, and be called different, or alike, for no reason."""
    directory, ends = write_log(tmp_path, (4, 8, 12), upgraded_after=6)
    facts, results = replay(directory, "Tally")
    assert facts["status"] == "partly checked"
    assert [result["verdict"] for result in results] == ["agrees", "not checked", "agrees"]
    assert results[1]["reason"].startswith(f"version 2.0.0 of the service came into force at position {ends[6]}: ")
    assert f"--end {ends[6]}" in results[1]["reason"]
    _, results = replay(directory, "Tally", end=str(ends[6]))
    assert [result["reason"] for result in results[1:]] == ["no snapshot at its end, and no baseline"]
    with pytest.raises(VersionChangesError, match="one class cannot execute"):
        list(cut_log(directory).stretches[1].records())


@pytest.mark.parametrize(("service_id", "verdicts"), [(0, ["agrees", "agrees"]), (1, ["agrees", "not checked"])])
def test_a_stretch_in_which_another_service_was_upgraded_is_checked(
    tmp_path: Path, service_id: int, verdicts: list[str]
) -> None:
    directory, _ = write_log(tmp_path, (4, 8), count=8, upgraded_after=6, upgraded_service=1)
    stretches = cut_log(directory, end="snapshot", service_id=service_id).stretches
    assert [run_stretch(f"{HERE}:Tally", None, one)["verdict"] for one in stretches] == verdicts


def test_what_lies_behind_the_last_snapshot_is_not_checked(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path, (4, 8))
    facts, results = replay(directory, "Tally")
    assert facts["status"] == "partly checked"
    assert [result["verdict"] for result in results] == ["agrees", "agrees", "not checked"]
    assert facts["coverage"] == {"records": 14, "agrees": 10, "differs": 0, "not_checked": 4}
    facts, results = replay(directory, "Tally", end="snapshot")
    assert facts["status"] == "agrees" and results[-1]["end"] == ends[7]


def test_a_baseline_checks_what_no_snapshot_does(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path, (4,))
    facts, results = replay(directory, "Tally", "Tally")
    assert facts["status"] == "agrees"
    assert [result["checked_by"] for result in results] == [["snapshot", "baseline"], ["baseline"]]
    facts, _ = replay(directory, "DoubleTally", "Tally")
    assert facts["status"] == "differs" and facts["first_difference"]["position"] == ends[0]


def test_a_state_that_differs_is_found_without_a_baseline(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path, (4,))
    facts, _ = replay(directory, "DoubleTally")
    assert facts["status"] == "differs"
    assert facts["first_difference"]["position"] == ends[3]
    assert facts["first_difference"]["what"] == "snapshot: state differs at byte 0: 52 and 56"


@pytest.mark.parametrize("baseline", [None, "Tally"])
def test_a_service_that_raises_is_a_finding_with_its_position(tmp_path: Path, baseline: str | None) -> None:
    directory, ends = write_log(tmp_path, (4,))
    facts, results = replay(directory, "Picky", baseline)
    assert facts["status"] == "differs"
    assert [result["verdict"] for result in results] == ["agrees", "differs"]
    first = facts["first_difference"]
    assert (first["position"], first["what"], first["record"]["payload"]) == (ends[9], "the service raised", "39")
    assert first["actual"].startswith("ValueError: no nines (") and "in on_session_message" in first["actual"]


def test_a_service_that_does_not_start_is_a_finding_of_every_stretch(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path, (4,))
    _, results = replay(directory, "NeverStarts")
    assert [result["first_difference"]["position"] for result in results] == [0, ends[3]]


def test_a_damaged_stretch_is_not_checked_and_the_others_are(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path, (4, 8))
    with open(f"{directory}/0-0.rec", "r+b") as file:
        file.seek(ends[5] + 70)
        file.write(b"\xff")
    facts, results = replay(directory, "Tally", end="snapshot")
    assert facts["status"] == "partly checked"
    assert results[1]["verdict"] == "not checked"
    assert f"fault=checksum position={ends[5]}" in results[1]["reason"]


def test_a_hole_before_a_snapshot_is_damage_even_where_the_end_is_not_known(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path, (8,))
    with open(f"{directory}/0-0.rec", "r+b") as file:
        file.seek(ends[5])
        file.write(bytes(ends[6] - ends[5]))
    part = cut_log(directory, "recorded", "snapshot").stretches[0]
    assert "no frame was written here" in run_stretch(f"{HERE}:Tally", None, part)["reason"]


def test_a_snapshot_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path, (4, 8))
    with open(f"{directory}/1-0.rec", "r+b") as file:
        file.seek(40)
        file.write(b"\xff\xff\xff")
    cut = cut_log(directory)
    assert [part.end for part in cut.stretches] == [ends[7], ends[11]]
    assert len(cut.unreadable_snapshots) == 1 and cut.unreadable_snapshots[0].startswith("recording 1: damaged")


@pytest.mark.parametrize(("end", "words"), [("12x", "must be snapshot, or"), ("99999999", "up to"), ("0", "above 0")])
def test_a_wrong_end_is_refused(tmp_path: Path, end: str, words: str) -> None:
    directory, _ = write_log(tmp_path, (4,))
    with pytest.raises(PipelineError, match=words):
        cut_log(directory, end=end)


def test_the_last_snapshot_has_to_be_there(tmp_path: Path) -> None:
    directory, _ = write_log(tmp_path, ())
    with pytest.raises(PipelineError, match="no service snapshot"):
        cut_log(directory, end="snapshot")
