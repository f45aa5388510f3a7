"""What a backup can be restored to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import ARCHIVE, BackupFolder
from ordo.backup.plan import Plan, Target, find_plan
from ordo.backup.report import verify_backup
from ordo.runtime.errors import OrdoError
from ordo.runtime.io.storage import FileStorage

pytest.importorskip("ordo.pipeline.decoding.synthetic", reason="the pipeline is not compiled for this Python")
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message

MTU = 1408
LENGTH_BYTES = 5_000


def make_backup(path: Path, end_within_bytes: int) -> list[int]:
    """Make a backup of three messages, of the last only so many bytes; return where its records end."""
    with BackupFolder(path, None):
        pass
    with RecordingBuilder(str(path / ARCHIVE), mtu=MTU) as builder:
        ends = [builder.append(new_term(0, 0, 1, 0, 100))]
        ends += [builder.append(session_message(0, 7, 10 + number, bytes(LENGTH_BYTES))) for number in range(3)]
    if end_within_bytes:
        catalog = Catalog.open(FileStorage(open_lmdb), str(path / ARCHIVE))
        catalog.update(builder.descriptor.recording_id, stop_position=ends[-2] + end_within_bytes)
        catalog.close()
    return ends


def plan_of(path: Path, position: int | None = None) -> Plan:
    with BackupFolder(path, None) as folder:
        return find_plan(folder, Target(position, None))


def test_a_backup_that_ends_within_a_message_is_restored_up_to_it(tmp_path: Path) -> None:
    ends = make_backup(tmp_path, 2 * MTU)
    plan = plan_of(tmp_path)
    assert (plan.survey.position, plan.survey.timestamp) == (ends[-2], 11)
    assert plan.findings == [
        f"the log of the backup ends at {ends[-2] + 2 * MTU}, within a message: it is used up to the one before"
    ]
    *_, (line, is_good) = verify_backup(tmp_path)
    assert is_good and line == f"restorable up to position {ends[-2]}, from the beginning of the log"


def test_a_position_within_a_message_is_still_refused(tmp_path: Path) -> None:
    ends = make_backup(tmp_path, 2 * MTU)
    with pytest.raises(OrdoError, match=f"no record of the log ends there; the one before ends at {ends[-2]}"):
        plan_of(tmp_path, ends[-2] + MTU)
    assert plan_of(tmp_path, ends[1]).survey.position == ends[1]


def test_a_backup_that_ends_with_a_message_is_restored_whole(tmp_path: Path) -> None:
    ends = make_backup(tmp_path, 0)
    plan = plan_of(tmp_path)
    assert (plan.survey.position, plan.findings) == (ends[-1], [])
