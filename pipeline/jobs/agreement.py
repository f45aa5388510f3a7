"""Compares the nodes' logs byte for byte, and tells damage from an end that was never committed.

All logs are compared with one, the reference: that of the highest term, of these the longest. By the Raft paper (§5.4)
it holds everything that was committed up to its last term, and no intact log can go on beyond it in another way.

A node that stopped as a deposed leader, or as its follower, may hold records that no quorum ever had; a running node
would cut them off when it hears of the new leader. Such an end differs from the others' logs without being damage. An
end of node X from position D on is called uncommitted when

- the record of the reference at D begins a term, and it is higher than any term in the log of X: its leader did not
  have what X has there, so nothing of it had been committed (leader completeness, §5.4.3);
- fewer than a quorum of the logs given hold what X holds at D, for a leader is elected by a quorum and cannot lack what
  a quorum has;
- and nothing is damaged in it.

Everything else that differs is a difference: two records of one term at one position above all. The rule takes the logs
given for those of all members.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ordo.pipeline.decoding.auditor import compare_segments
from ordo.pipeline.decoding.batches import BatchBuilder
from ordo.pipeline.decoding.decoder import RecordDecoder, RowSelection
from ordo.pipeline.decoding.errors import CorruptRecordingError
from ordo.pipeline.recordings.recordings import Recording, Segment, open_cursor

FRAME_FIELDS = ((0, "frame length"), (4, "version"), (5, "flags"), (6, "type"), (8, "term offset"), (12, "checksum"),
                (16, "stream id"), (20, "term id"), (24, "reserved value"), (32, "payload"))  # fmt: skip


@dataclass(frozen=True)
class AuditedLog:
    """A log, bounded by what of it was recorded, and the highest term of its intact records or NULL_TERM."""

    recording: Recording
    term_last: int

    @property
    def node(self) -> str:
        return self.recording.node


@dataclass(frozen=True)
class CompareTask:
    """Positions [start, end) of the reference and of another log; inside one segment of each."""

    left: Recording
    right: Recording
    left_segment: Segment
    right_segment: Segment
    start: int
    end: int


def reference_of(logs: list[AuditedLog]) -> AuditedLog:
    """Return the log that all others are compared with; of several equally good ones, the first."""
    return max(logs, key=lambda log: (log.term_last, log.recording.limit))


def compare_tasks(logs: list[AuditedLog]) -> list[CompareTask]:
    """Every log against the reference, over what both have, cut at the segment ends of both."""
    if len(logs) < 2:
        return []
    reference = reference_of(logs)
    left = reference.recording
    tasks = []
    for right in (log.recording for log in logs if log is not reference):
        first, last = max(left.start, right.start), min(left.limit, right.limit)
        sides = [list(recording.segments(first)) for recording in (left, right)]
        bases = [[segment.base for segment in side] for side in sides]
        cuts = {first, last, *bases[0], *bases[1]}
        for start, end in pairwise(sorted(cut for cut in cuts if first <= cut <= last)):
            pair = [side[bisect_right(base, start) - 1] for side, base in zip(sides, bases, strict=True)]
            tasks.append(CompareTask(left.lean, right.lean, pair[0], pair[1], start, end))
    return tasks


def compare_range(task: CompareTask) -> list[dict[str, Any]]:
    """Frames that differ; the first of `nodes` is the reference."""
    pair = ((task.left, task.left_segment), (task.right, task.right_segment))
    left_cursor, right_cursor = (
        open_cursor(segment, entry.descriptor, task.start, task.end, False, False) for entry, segment in pair
    )
    names = [task.left.node, task.right.node]
    missing = [name for name, (_, segment) in zip(names, pair, strict=True) if not segment.present]
    if missing:
        return [{"nodes": names, "position": task.start, "byte": task.start, "field": "segment file is missing",
                 "left": None, "right": None, "padding": False, "missing": missing}]  # fmt: skip
    return [
        {
            "nodes": names,
            "position": frame,
            "byte": byte,
            "field": field_name(byte - frame),
            "left": left,
            "right": right,
            "padding": padding,
        }
        for frame, byte, left, right, padding in compare_segments(left_cursor, right_cursor, task.start, task.end)
    ]


def field_name(offset: int) -> str:
    """Return the name of the field that a frame has at a byte offset."""
    return next(name for begin, name in reversed(FRAME_FIELDS) if offset >= begin)


def named_odd(differences: list[dict[str, Any]], log_count: int) -> list[dict[str, Any]]:
    """Add `odd`: the node whose log differs from a majority's."""
    others = log_count - 1
    at = Counter(difference["position"] for difference in differences)
    for difference in differences:
        if others < 2:
            difference["odd"] = None
        else:
            difference["odd"] = difference["nodes"][int(at[difference["position"]] <= others / 2)]
    return differences


def uncommitted_ends(
    logs: list[AuditedLog], differences: list[dict[str, Any]], findings: list[dict[str, Any]], begins: Iterable[int]
) -> list[dict[str, Any]]:
    """Return the ends that were never committed.

    Node, position, bytes, and the term that begins there in the reference.

    `begins`: where new-term records are. An end can only be where the reference has one, or padding before one; so the
    logs are looked at there alone, however many differences there are.
    """
    found = []
    new_terms = frozenset(begins)
    for log in logs:
        intact_from = max((finding["position"] + 1 for finding in findings if finding["node"] == log.node), default=0)
        places = sorted({
            difference["position"]
            for difference in differences
            if difference["nodes"][1] == log.node and difference["position"] >= intact_from
            and (difference["padding"] or difference["position"] in new_terms)
        })  # fmt: skip
        ends = (_uncommitted_end(logs, log, position) for position in places)
        end = next((end for end in ends if end is not None), None)
        if end is not None:
            found.append(end)
    return found


def without_ends(differences: list[dict[str, Any]], ends: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the differences that do not lie in an uncommitted end."""
    begins = {end["node"]: end["position"] for end in ends}
    return [
        difference
        for difference in differences
        if difference["position"] < begins.get(difference["nodes"][1], difference["position"] + 1)
    ]


def shorter(logs: list[AuditedLog], ends: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the members whose log ends before the longest: how much they lack, and how much of that was committed.

    Committed is what a quorum of the logs given holds, or what a running node says is. That a member lacks it is no
    damage: it fetches it from its leader.
    """
    if len(logs) < 2:
        return []
    cut = {end["node"]: end["position"] for end in ends}
    until = {log.node: min(log.recording.limit, cut.get(log.node, log.recording.limit)) for log in logs}
    reference = reference_of(logs)
    on_quorum = sorted(until.values(), reverse=True)[len(logs) // 2]
    said = [log.recording.limit for log in logs if log.recording.exact and log.recording.descriptor.is_active]
    committed = max([on_quorum, *said])
    return [
        {
            "node": log.node,
            "position": until[log.node],
            "bytes": until[reference.node] - until[log.node],
            "committed_bytes": max(0, committed - until[log.node]),
            "reference": reference.node,
        }
        for log in logs
        if until[log.node] < until[reference.node]
    ]


def not_proven(logs: list[AuditedLog]) -> list[str]:
    """Return, in sentences, what the given folders cannot show."""
    said = []
    if len(logs) == 1:
        said.append(
            "One log was given: whether other members have the same, go on beyond its end, or committed something that "
            "it lacks is not known. Give the folders of all members."
        )
    if len(logs) == 2:
        said.append("Two logs were given: where they differ, nothing tells which one is right.")
    if len(logs) > 1:
        said.append("Quorums are counted over the logs given; with a member left out, what is committed may be more.")
    for log in logs:
        if log.recording.start > 0:
            said.append(f"{log.node}: what was before position {log.recording.start:,} is not in the folder.")
        if not log.recording.exact:
            said.append(f"{log.node}: where its log was meant to end is not known; bytes lost at its end do not show.")
    return said


def _uncommitted_end(logs: list[AuditedLog], log: AuditedLog, position: int) -> dict[str, Any] | None:
    """Return the end of one log from where it differs from the reference; None when that is a real difference."""
    reference = reference_of(logs)
    newer, older = _record_at(reference.recording, position), _record_at(log.recording, position)
    if newer is None or newer["kind"] != "new_term" or newer["leadership_term"] <= log.term_last:
        return None
    if older is not None:
        holders = sum(_record_at(other.recording, position) == older for other in logs)
        if holders > len(logs) // 2:
            return None
    return {
        "node": log.node,
        "position": position,
        "bytes": log.recording.limit - position,
        "cut_off_by_term": newer["leadership_term"],
        "reference": reference.node,
    }


def _record_at(recording: Recording, position: int) -> dict[str, Any] | None:
    """Return the first complete and intact record at or after a frame position, or None; padding is skipped."""
    columns = ("kind", "leadership_term", "start_position", "position", "cluster_time", "payload")
    for segment in recording.segments(position):
        start = max(segment.start, position)
        cursor = open_cursor(segment, recording.descriptor, start, segment.end, True, False)
        decoder = RecordDecoder(cursor, RowSelection(), BatchBuilder(columns, 0, "", 0, 1), recording.is_log)
        try:
            batch = decoder.next_batch()
        except CorruptRecordingError:
            return None
        if batch is not None:
            return dict(batch.to_pylist()[0])
    return None
