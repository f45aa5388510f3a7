"""The logs of two clusters are not mixed: in one read, in an export, in a copy, or behind a stream's checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ordo
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.log_identity import Origin, find_origin, unpack_identity
from ordo.pipeline.alerts.state_watch import StateWatch
from ordo.pipeline.export.chunks import checked_origin
from ordo.pipeline.export.export import ExportState
from ordo.pipeline.export.lake import CLUSTER_PARTS, LakeOptions, export_delta
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.recordings.options import ReadOptions
from ordo.pipeline.recordings.recordings import open_recordings, whose_log
from ordo.runtime.errors import OtherClusterError
from ordo.runtime.io.storage import FileStorage

BEGAN_MS = 1_700_000_000_000
LATER = b"later" + bytes(11)
"""The identity of a cluster that was restored, or of one of an earlier release."""


def first_record(began_ms: int) -> bytes:
    return new_term(0, 0, began_ms, 0, 1)


def identity_event(identity: bytes) -> bytes:
    return ordo_codecs.CLUSTER_IDENTITY_EVENT.encode(
        leadership_term_id=0, timestamp=BEGAN_MS, **unpack_identity(identity), log_position=-1, member_id=0
    )


def write_log(root: Path, records: list[bytes], count: int = 9, node: str = "node0") -> str:
    """Write the archive folder of a member whose log begins with these records; its store is not there."""
    with RecordingBuilder(str(root / node / "archive")) as builder:
        for record in records:
            builder.append(record)
        for number in range(count):
            builder.append(session_message(0, 1, BEGAN_MS + number, b"%d" % number))
    return builder.directory


def write_store(archive: str, origin: Origin | None) -> None:
    """The store of votes and terms, as a member has it beside its archive."""
    path = Path(archive).parent / "cluster" / "state.mdb"
    path.parent.mkdir()
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(path)))
    if origin is not None:
        store.folder.put_origin(origin)
    store.close()


def origin_of(began_ms: int) -> Origin:
    origin = find_origin(first_record(began_ms))
    assert origin is not None
    return origin


ONE, OTHER = origin_of(BEGAN_MS), origin_of(BEGAN_MS + 1)


@pytest.fixture
def one(tmp_path: Path) -> str:
    return write_log(tmp_path / "one", [first_record(BEGAN_MS)])


@pytest.fixture
def other(tmp_path: Path) -> str:
    """Of another cluster, and longer; its member has the same name."""
    return write_log(tmp_path / "other", [first_record(BEGAN_MS + 1)], 20)


def refused(told: Origin, whose: str, origin: Origin, remedy: str) -> str:
    """The line that says so."""
    return re.escape(f"is of the cluster with identity {told}, and {whose} of the one with identity {origin}: {remedy}")


def told(archive: str) -> Any:
    return whose_log(archive, open_recordings([archive]))


def test_a_folder_says_whose_log_it_has(one: str, tmp_path: Path) -> None:
    assert told(one)[:2] == ONE
    write_store(one, Origin(LATER, 64))
    assert told(one)[:2] == (LATER, 64), "the member knows it"
    unsaid = write_log(tmp_path / "unsaid", [first_record(BEGAN_MS)])
    write_store(unsaid, None)
    assert told(unsaid) is None, "nothing of it is committed, or the release is an earlier one"
    assert told(write_log(tmp_path / "purged", [])) is None
    restored = write_log(tmp_path / "restored", [first_record(BEGAN_MS), identity_event(LATER)])
    assert told(restored).identity == LATER
    repeated = write_log(tmp_path / "repeated", [first_record(BEGAN_MS), identity_event(ONE.identity)])
    assert told(repeated)[:2] == ONE
    purged = write_log(tmp_path / "event", [identity_event(LATER)])
    assert told(purged).identity == LATER


def test_a_store_that_cannot_be_read_says_nothing(one: str) -> None:
    write_store(one, ONE)
    (Path(one).parent / "cluster" / "state.mdb").write_bytes(b"damaged")
    assert told(one) is None


def test_folders_of_two_clusters_are_not_read_together(one: str, other: str, tmp_path: Path) -> None:
    wanted = refused(OTHER, f"{one}, which was met first,", ONE, "give folders of one cluster")
    with pytest.raises(OtherClusterError, match=f"^{re.escape(other)} {wanted}$"):
        ordo.read([one, other])
    with pytest.raises(OtherClusterError, match=wanted):
        ReadOptions.parse({"paths": json.dumps([one, other]), "nodes": "a,b"}).open_recordings()
    same = write_log(tmp_path / "same", [first_record(BEGAN_MS)], 20, "node1")
    unsaid = write_log(tmp_path / "unsaid", [], 5, "node2")
    assert ordo.read([one, same, unsaid]).to_arrow().num_rows == 10 + 21 + 5


def test_a_member_that_knows_no_restored_identity_yet_is_read(one: str, tmp_path: Path) -> None:
    """It was cut off before the cluster got the identity that the other member knows."""
    write_store(one, ONE)
    newer = write_log(tmp_path / "newer", [first_record(BEGAN_MS)], 20, "node1")
    write_store(newer, Origin(LATER, 1 << 20))
    assert ordo.read([one, newer]).to_arrow().num_rows == 31


def test_members_of_two_clusters_are_not_audited_or_watched_together(one: str, other: str) -> None:
    """Without stores, logs that begin differently are for the audit to compare."""
    assert audit(None, [one, other])["status"] == "damaged"
    write_store(one, ONE)
    write_store(other, OTHER)
    wanted = refused(OTHER, f"{one}, which was met first,", ONE, "give folders of one cluster")
    with pytest.raises(OtherClusterError, match=wanted):
        audit(None, [one, other])
    with pytest.raises(OtherClusterError, match=wanted):
        StateWatch([one, other]).look()


Export = Callable[[str, str], dict[str, int]]


def export_state_only(folder: str, target: str) -> dict[str, int]:
    """As `ordo.pipeline.export.export` keeps its state, without Spark."""
    file = Path(target) / "state"
    file.parent.mkdir(exist_ok=True)
    state = ExportState.parse(file.read_text() if file.exists() else None)
    recordings = open_recordings([folder])
    state.origin = checked_origin(recordings, state.exported, state.origin, target)
    state.exported |= {entry.key: entry.limit for entry in recordings}
    file.write_text(state.text())
    return state.exported


def export_table(folder: str, target: str) -> dict[str, int]:
    pytest.importorskip("deltalake")
    return export_delta([folder], target, LakeOptions())


@pytest.mark.parametrize("export", [export_state_only, export_table])
def test_an_export_goes_on_with_its_own_cluster_only(export: Export, one: str, other: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    before = export(one, target)
    with pytest.raises(OtherClusterError) as caught:
        export(other, target)
    remedy = "export each cluster into a folder of its own"
    assert re.fullmatch(
        f"{re.escape(other)} {refused(OTHER, f'the export {target}', ONE, remedy)}", caught.value.message
    )
    assert export(one, target) == before, "nothing of it was written"


def test_a_table_without_an_identity_takes_it_at_the_next_run(one: str, other: str, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    target, unsaid = str(tmp_path / "target"), write_log(tmp_path / "unsaid", [])
    export_delta([unsaid], target, LakeOptions())
    assert deltalake.DeltaTable(target).transaction_version(CLUSTER_PARTS[0]) is None
    export_delta([one], target, LakeOptions())
    assert deltalake.DeltaTable(target).transaction_version(CLUSTER_PARTS[0]) == int.from_bytes(ONE.identity[:4])
    with pytest.raises(OtherClusterError, match="export each cluster"):
        export_delta([other], target, LakeOptions())


def test_the_state_of_an_export_of_an_earlier_release_goes_on(one: str) -> None:
    state = ExportState.parse('{"exported": {"node0/0": 320}}')
    assert state == ExportState({"node0/0": 320}, None)
    state.origin = checked_origin(open_recordings([one]), state.exported, state.origin, "target")
    assert ExportState.parse(state.text()) == ExportState({"node0/0": 320}, ONE)


@pytest.mark.parametrize(("exported", "is_two"), [(320, False), (1 << 21, True)])
def test_an_export_goes_on_with_the_cluster_that_was_restored_from_it(one: str, exported: int, is_two: bool) -> None:
    """From later than what was exported; otherwise another log was exported."""
    write_store(one, Origin(LATER, 1 << 20))
    recordings = open_recordings([one])
    if is_two:
        with pytest.raises(OtherClusterError):
            checked_origin(recordings, {"node0/0": exported}, ONE, "target")
    else:
        assert checked_origin(recordings, {"node0/0": exported}, ONE, "target") == (LATER, 1 << 20)
