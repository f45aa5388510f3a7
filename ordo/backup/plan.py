"""Finds what a backup can be restored to, and proves that it has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.backup.folder import BackupFolder, Contents
from ordo.backup.snapshot_copy import check_snapshot
from ordo.backup.survey import Survey
from ordo.cluster.module.state.state_store import SnapshotEntry
from ordo.runtime.errors import CorruptFrameError, OrdoError
from ordo.runtime.native.cluster_time import time_ns


class Target(NamedTuple):
    """Where to: a log position, or a cluster time, whose size tells its unit; the end of the backup for neither."""

    position: int | None
    timestamp: int | None


@dataclass(frozen=True)
class Plan:
    """What is restored, proven to be there."""

    stretch: RecordingDescriptor
    snapshot: SnapshotEntry | None
    digest: bytes
    survey: Survey
    """At the chosen position."""
    findings: list[str]
    """What was found damaged or cut off, and is not used."""


def find_plan(folder: BackupFolder, target: Target) -> Plan:
    """Return what to restore for a target. Raises OrdoError where the backup does not prove it."""
    contents = folder.contents()
    if not contents.stretches:
        raise OrdoError(f"{folder.path}: this backup has no log yet")
    findings: list[str] = []
    for stretch in _stretches_for(contents, target):
        for snapshot in _starts(contents, stretch, target):
            plan = _try_plan(folder, contents, stretch, snapshot, target, findings)
            if plan is not None:
                return plan
    detail = "".join(f"; {one}" for one in findings)
    raise OrdoError(f"{folder.path}: {_describe_target(target)} cannot be restored: {_describe(contents)}{detail}")


def _stretches_for(contents: Contents, target: Target) -> list[RecordingDescriptor]:
    """Stretches that may have the target, the newest first."""
    newest_first = contents.stretches[::-1]
    if target.position is not None:
        return [one for one in newest_first if one.start_position <= target.position <= one.stop_position]
    return newest_first if target.timestamp is not None else newest_first[:1]


def _starts(contents: Contents, stretch: RecordingDescriptor, target: Target) -> list[SnapshotEntry | None]:
    """Where execution may begin, the best first: snapshots within the stretch, None for the beginning of all log."""
    highest = stretch.stop_position if target.position is None else target.position
    found: list[SnapshotEntry | None] = [
        one
        for one in reversed(contents.snapshots)
        if stretch.start_position <= one.log_position <= highest
        and (target.timestamp is None or time_ns(one.timestamp) <= time_ns(target.timestamp))
    ]
    return found + ([None] if stretch.start_position == 0 else [])


def _try_plan(
    folder: BackupFolder,
    contents: Contents,
    stretch: RecordingDescriptor,
    snapshot: SnapshotEntry | None,
    target: Target,
    findings: list[str],
) -> Plan | None:
    """None where another start may do: the snapshot is damaged, or the time is not within the stretch."""
    digest = b""
    if snapshot is None:
        survey = Survey(0)
    else:
        try:
            checked = check_snapshot(folder.archive, snapshot)
            if checked.digest != contents.digests.get(snapshot.log_position):
                raise CorruptFrameError("its digest is not the one that it was copied with")
        except OrdoError as error:
            findings.append(f"the snapshot at log position {snapshot.log_position} is damaged: {error.message}")
            return None
        survey, digest = Survey.of_snapshot(checked.module, snapshot.timestamp), checked.digest
    messages = folder.archive.reader(stretch.recording_id, survey.position).messages()
    if target.timestamp is not None:
        is_proven = survey.advance_to_time(messages, target.timestamp)
        if not is_proven:
            findings.append(f"the newest record of the log at {stretch.stop_position} has time {survey.timestamp}")
            return None
    elif target.position is not None:
        if not survey.advance(messages, target.position):
            raise OrdoError(
                f"--position {target.position}: no record of the log ends there; the one before ends at"
                f" {survey.position}"
            )
    elif not survey.advance(messages, stretch.stop_position):
        findings.append(
            f"the log of the backup ends at {stretch.stop_position}, within a message: it is used up to the one before"
        )
    return Plan(stretch, snapshot, digest, survey, findings)


def _describe_target(target: Target) -> str:
    if target.position is not None:
        return f"position {target.position}"
    return "the end of the log" if target.timestamp is None else f"time {target.timestamp}"


def _describe(contents: Contents) -> str:
    log = ", ".join(f"{one.start_position} to {one.stop_position}" for one in contents.stretches)
    held = ", ".join(str(one.log_position) for one in contents.snapshots) or "none"
    return f"the backup has the log from {log}, and snapshots at {held}"
