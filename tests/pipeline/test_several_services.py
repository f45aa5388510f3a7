"""Snapshots of several services are recordings of one stream; the node's store beside the archive tells them apart."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.state_store import Evidence, SnapshotEntry, StateStore
from ordo.pipeline.alerts.state_watch import StateWatch
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.generate import RecordingBuilder
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.stretches import read_snapshot, snapshots
from ordo.pipeline.recordings.object_copy import copy_archive
from ordo.pipeline.recordings.object_store import Store
from ordo.pipeline.recordings.recordings import open_recordings, with_owners
from ordo.runtime.io.storage import FileStorage
from tests.pipeline.exchange import marker
from tests.pipeline.test_network import write_log

POSITION, LATER = 960, 1920


def write_snapshot(directory: str, position: int, state: bytes) -> int:
    """The id of its recording."""
    with RecordingBuilder(directory, stream_id=106) as builder:
        for message in (marker(0, position), marker(2, position), state):
            builder.append(message)
    return max(one.recording_id for one in open_recordings([directory], "all", "recorded"))


def write_node(root: Path, name: str, *states: tuple[bytes, ...], evidence: tuple[bytes, ...] = ()) -> str:
    """An archive folder with snapshots of services 0, 1, ... at two positions, and the store that says whose each is.

    Those of the last service are recorded first. `evidence`: states at the later position that were not the others'.
    """
    folder = str(root / name / "archive")
    write_log(folder)
    kept = [write_snapshot(folder, LATER, state) for state in evidence]
    with closing(open_store(root / name)) as store:
        for position, of_services in zip((POSITION, LATER), states, strict=False):
            first, *more = [write_snapshot(folder, position, state) for state in reversed(of_services)][::-1]
            store.put_snapshot(SnapshotEntry(position, 0, 0, 0, first, 99, True, tuple(more)))
        if kept:
            store.put_evidence(Evidence(LATER, LATER, -1, kept[0], -1, 0, b"1", b"2", tuple(kept[1:])), 1 << 20)
    return folder


def open_store(data_dir: Path) -> StateStore:
    (data_dir / "cluster").mkdir(exist_ok=True)
    return StateStore(FileStorage(open_lmdb).open_metadata(str(data_dir / "cluster" / "state.mdb")))


def states_of(source: str, service_id: int) -> tuple[dict[int, bytes], tuple[str, ...]]:
    """What the snapshots of a service hold, by position, and which were passed over."""
    read = snapshots(with_owners(open_recordings([source], "all")), service_id)
    return {position: read_snapshot(runs).data for position, runs in sorted(read.by_position.items())}, read.unreadable


BOTH = ((b"bank", b"audit"), (b"bank 2", b"audit 2"))


def test_each_service_has_its_own(tmp_path: Path) -> None:
    folder = write_node(tmp_path, "node0", *BOTH)
    assert states_of(folder, 0) == ({POSITION: b"bank", LATER: b"bank 2"}, ())
    assert states_of(folder, 1) == ({POSITION: b"audit", LATER: b"audit 2"}, ())
    assert states_of(folder, 2) == ({}, ())


def test_a_copy_knows_whose_they_are(tmp_path: Path) -> None:
    folder = write_node(tmp_path, "node0", *BOTH)
    url = f"memory://{tmp_path.name}"
    list(copy_archive(folder, Store(url)))
    assert states_of(url, 1) == states_of(folder, 1)


def test_without_the_store_nothing_is_guessed(tmp_path: Path) -> None:
    folder = write_node(tmp_path, "node0", *BOTH)
    shutil.rmtree(tmp_path / "node0" / "cluster")
    found, passed_over = states_of(folder, 0)
    assert found == {} and len(passed_over) == 2
    assert "snapshots at position 960, and nothing says of which service each is; give" in passed_over[0]


def test_a_state_that_was_kept_as_evidence_is_none_to_start_from(tmp_path: Path) -> None:
    folder = write_node(tmp_path, "node0", *BOTH, evidence=(b"bank ?", b"audit ?"))
    assert states_of(folder, 0)[0][LATER] == b"bank 2" and states_of(folder, 1)[0][LATER] == b"audit 2"
    other = write_node(tmp_path, "node1", BOTH[0], evidence=(b"bank ?", b"audit ?"))
    assert states_of(other, 0) == ({POSITION: b"bank"}, ())


def test_a_store_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    folder = write_node(tmp_path, "node0", *BOTH)
    (tmp_path / "node0" / "cluster" / "state.mdb").write_bytes(b"no store" * 4096)
    with pytest.raises(PipelineError, match=r"which snapshots are of which service cannot be told: .*state.mdb"):
        with_owners(open_recordings([folder], "all"))
    assert audit(None, [folder])["status"] == "clean", "what needs no owners does not read the store"


def test_services_of_one_member_are_not_compared_with_each_other(tmp_path: Path) -> None:
    """Each pair of snapshots was an alert."""
    folders = [write_node(tmp_path, f"node{node}", *BOTH) for node in range(3)]
    assert StateWatch(folders).look() == []
    for node in range(3):
        shutil.rmtree(tmp_path / f"node{node}" / "cluster")
    assert StateWatch(folders).look() == []


def test_the_service_that_differs_is_named(tmp_path: Path) -> None:
    folders = [write_node(tmp_path, f"node{node}", *BOTH) for node in range(2)]
    folders.append(write_node(tmp_path, "node2", BOTH[0], (b"bank 2", b"audit ?")))
    states = StateWatch(folders)
    (alert,) = states.look()
    assert alert["id"] == f"state:{LATER}:1" and "the state of service 1 at position 1920 is not" in alert["text"]
    assert states.look() == []


def test_a_difference_shows_without_the_store_too(tmp_path: Path) -> None:
    folders = [write_node(tmp_path, f"node{node}", *BOTH) for node in range(2)]
    folders.append(write_node(tmp_path, "node2", BOTH[0], (b"bank 2", b"audit ?")))
    for node in range(3):
        shutil.rmtree(tmp_path / f"node{node}" / "cluster")
    (alert,) = StateWatch(folders).look()
    assert alert["position"] == LATER
