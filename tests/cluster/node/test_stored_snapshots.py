"""What the store of a member says of its snapshots, and what a start would make of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cli import run
from ordo.cluster.admin import stored_snapshots
from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore
from ordo.cluster.settings.config import load_config
from ordo.runtime.io.storage import FileStorage

OLD, NEW, DAMAGED = 640, 1280, 1920


@pytest.fixture
def config_path(tmp_path: Path) -> Iterator[Path]:
    """A member that has run, with a log that begins behind nothing, two snapshots and a damaged one."""
    path = tmp_path / "node.toml"
    path.write_text(
        f'[node]\nmember_id = 0\ndata_dir = "{tmp_path}/data"\n[[members]]\nid = 0\nhost = "127.0.0.1"\nport = 20000\n'
    )
    config = load_config(path)
    storage = FileStorage(open_lmdb)
    for folder in (config.node.data_dir, config.cluster_dir):
        storage.make_directory(str(folder))
    store = StateStore(storage.open_metadata(str(config.cluster_dir / "state.mdb")))
    store.put_candidate_term(3, 0, 0)
    store.put_term(2, 320)
    store.put_snapshot(SnapshotEntry(OLD, 2, 320, 1000, 1, 2, True), b"d" * 16)
    store.put_snapshot(SnapshotEntry(NEW, 2, 320, 2000, 3, 5, True, (4,)), b"e" * 16)
    store.put_snapshot(SnapshotEntry(DAMAGED, 2, 320, 3000, 6, 7, False))
    store.close()
    yield path


def call(path: Path, *words: str) -> int:
    return run(["cluster", *words, "--config", str(path)])


def rebase(path: Path, position: int) -> None:
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(load_config(path).cluster_dir / "state.mdb")))
    store.rebase(position)
    store.close()


def test_snapshots_are_listed_with_their_recordings(config_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(config_path, "snapshots", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["log_position"], row["recording_ids"], row["is_valid"]) for row in rows] == [
        (OLD, [1, 2], True),
        (NEW, [3, 4, 5], True),
        (DAMAGED, [6, 7], False),
    ]
    assert [row["digest"] for row in rows] == [(b"d" * 16).hex(), (b"e" * 16).hex(), None]
    assert call(config_path, "snapshots") == 0
    assert "1,280" in capsys.readouterr().out


def test_the_plan_names_what_a_start_begins_with(config_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rebase(config_path, NEW)
    assert call(config_path, "recovery-plan", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["candidate_term_id"], plan["last_term_id"], plan["log_recording_id"]) == (3, 2, None)
    assert (plan["log_start"], plan["log_end"], plan["snapshot_position"]) == (NEW, NEW, NEW)
    assert (plan["snapshot_recording_ids"], plan["lost"]) == ([3, 4, 5], "NONE")
    assert call(config_path, "recovery-plan") == 0
    assert "3, 4, 5" in capsys.readouterr().out


def test_an_invalidated_snapshot_is_not_started_from(
    config_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(load_config(config_path).cluster_dir / "state.mdb")))
    store.put_log_recording(9)
    store.close()
    log = SimpleNamespace(recording_id=9, start_position=0, stop_position=4096)
    monkeypatch.setattr(stored_snapshots, "list_recordings", lambda directory: [log])
    for begins in ("the snapshot at 640", "the beginning of its log"):
        assert call(config_path, "invalidate-snapshot", "--json") == 0
        assert json.loads(capsys.readouterr().out)["done"].endswith(begins)
    assert call(config_path, "invalidate-snapshot", str(OLD)) == 1
    assert "it has: none" in capsys.readouterr().err


def test_the_only_snapshot_of_a_log_that_begins_behind_it_stays(
    config_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rebase(config_path, NEW)
    assert call(config_path, "invalidate-snapshot") == 1
    assert "the only one to start from: it stays" in capsys.readouterr().err


def test_a_member_that_does_not_run_does_not_lead(config_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(config_path, "is-leader") == 1
    (line,) = [one for one in capsys.readouterr().err.splitlines() if not one.startswith("{")]
    assert line.startswith("ordo: ")
