"""What a backup has, and whether it is whole: `ordo backup status | verify`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ordo.archive.inspection.recording_inspection import verify as verify_archive
from ordo.backup.folder import ARCHIVE, CLUSTER, STATUS, BackupFolder, look, read_json
from ordo.backup.plan import Target, find_plan
from ordo.backup.snapshot_copy import check_snapshot
from ordo.runtime.errors import OrdoError
from ordo.runtime.native.cluster_time import time_ms

STOPPED = "stopped"
GONE = "gone"
SILENCE_MAX_S = 10.0
"""A process that keeps a backup writes its status once a second; longer than this, and it is gone or hangs."""


def describe_backup(path: Path) -> dict[str, Any]:
    """Return the status as JSON has it. Raises ConfigurationError where there is no backup."""
    contents = look(path)
    told, cluster = read_status(path / STATUS, "backup"), read_json(path / CLUSTER)
    return {
        "folder": str(path),
        "cluster": cluster.get("cluster", ""),
        "endpoints": cluster.get("endpoints", []),
        "log": [
            {"start": one.start_position, "end": None if one.is_active else one.stop_position}
            for one in contents.stretches
        ],
        "snapshots": [
            {
                "position": one.log_position,
                "timestamp": time_ms(one.timestamp),
                "leadership_term": one.leadership_term_id,
                "digest": contents.digests.get(one.log_position, b"").hex(),
            }
            for one in contents.snapshots
        ],
        "running": told,
    }


def read_status(path: Path, kept: str) -> dict[str, Any]:
    """Return what the process that keeps a backup, or a standby, says of itself; a silent one is gone.

    `kept`: what it is.
    """
    told = read_json(path)
    if told.get("state", STOPPED) == STOPPED:
        return told
    silence_s = time.time() - path.stat().st_mtime
    if silence_s <= SILENCE_MAX_S:
        return told
    problem = f"no process has kept this {kept} for {silence_s:.0f} s, or it hangs; it was {told['state']}"
    return {**told, "state": GONE, "problem": "; ".join(filter(None, (problem, told.get("problem"))))}


def describe_lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the status as lines for people."""
    running = found["running"]
    yield f"state      {running.get('state', 'never ran')}"
    if found["cluster"]:
        yield f"cluster    {found['cluster']}"
    for name in ("source", "position", "cluster_position", "problem"):
        if running.get(name) not in (None, "", -1):
            yield f"{name.replace('_', ' '):17}{running[name]}"
    for one in found["log"]:
        end = "open" if one["end"] is None else one["end"]
        yield f"log from   {one['start']} to {end}"
    for one in found["snapshots"]:
        yield f"snapshot   at {one['position']}, term {one['leadership_term']}, digest {one['digest']}"


def verify_backup(path: Path) -> Iterator[tuple[str, bool]]:
    """One line for each recording and each snapshot, and whether it is good; then whether a cluster can be restored.

    Raises StorageInUseError while the backup is being written.
    """
    look(path)
    with BackupFolder(path, None) as folder:
        for found in verify_archive(str(path / ARCHIVE)):
            yield str(found), found.is_good
        contents = folder.contents()
        for entry in contents.snapshots:
            head = f"snapshot at {entry.log_position}: "
            try:
                checked = check_snapshot(folder.archive, entry)
            except OrdoError as error:
                yield f"{head}DAMAGED {error.message}", False
                continue
            is_same = checked.digest == contents.digests.get(entry.log_position)
            yield f"{head}{'OK' if is_same else 'DAMAGED its digest is another one'}", is_same
        if contents.stretches or contents.snapshots:
            yield _try_restore(folder)


def _try_restore(folder: BackupFolder) -> tuple[str, bool]:
    """Find out what `ordo restore` would do with the newest log, as it does."""
    try:
        plan = find_plan(folder, Target(None, None))
    except OrdoError as error:
        return f"NOT RESTORABLE {error.message}", False
    begin = "the beginning of the log" if plan.snapshot is None else f"the snapshot at {plan.snapshot.log_position}"
    return f"restorable up to position {plan.survey.position}, from {begin}", True
