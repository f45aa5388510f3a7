"""The metadata store on LMDB."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ordo.archive.store.lmdb_store import LmdbStore, open_lmdb
from ordo.runtime.errors import StorageError, StorageMissingError
from ordo.runtime.io.storage import FileStorage


def test_transaction_is_atomic(tmp_path: Path) -> None:
    with LmdbStore(str(tmp_path / "m.mdb")) as store:
        with store.transaction() as txn:
            txn.put(b"a", b"1")
            txn.put(b"b", b"2")
        with pytest.raises(ValueError, match="no"), store.transaction() as txn:
            txn.delete(b"a")
            txn.put(b"c", b"3")
            assert txn.get(b"a") is None
            assert txn.get(b"b") == b"2"
            raise ValueError("no")
        assert store.items() == [(b"a", b"1"), (b"b", b"2")]


def test_items_of_a_prefix_in_key_order(tmp_path: Path) -> None:
    with LmdbStore(str(tmp_path / "m.mdb")) as store:
        with store.transaction() as txn:
            for key in (b"b/2", b"c", b"b/1", b"a", b"b"):
                txn.put(key, key)
        assert [key for key, _ in store.items(b"b/")] == [b"b/1", b"b/2"]
        assert store.items(b"x") == []
        with store.transaction() as txn:
            txn.delete(b"b/1")
            txn.delete(b"missing")
        assert store.get(b"b/1") is None


def test_content_survives_kill_right_after_the_transaction(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom ordo.archive.store.lmdb_store import LmdbStore\nstore = LmdbStore(sys.argv[1])\n"
        "with store.transaction() as txn:\n    txn.put(b'vote', b'7')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = str(tmp_path / "m.mdb")
    subprocess.run([sys.executable, "-c", code, path], cwd=Path(__file__).parents[2], check=False)
    with LmdbStore(path) as store:
        assert store.get(b"vote") == b"7"


def test_reader_in_another_process_sees_committed_state(tmp_path: Path) -> None:
    path = str(tmp_path / "m.mdb")
    code = (
        "import sys\nfrom ordo.archive.store.lmdb_store import open_lmdb\n"
        "print(open_lmdb(sys.argv[1], True).get(b'k').decode())\n"
    )
    with LmdbStore(path) as store:
        with store.transaction() as txn:
            txn.put(b"k", b"seen")
        done = subprocess.run(
            [sys.executable, "-c", code, path],
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
            text=True,
        )
    assert done.stdout == "seen\n"


def test_map_grows_when_full(tmp_path: Path) -> None:
    value = os.urandom(1 << 18)
    with LmdbStore(str(tmp_path / "m.mdb"), map_bytes=1 << 20) as store:
        for i in range(16):
            with store.transaction() as txn:
                txn.put(b"%d" % i, value)
        assert len(store.items()) == 16
        assert store.get(b"15") == value


def test_through_the_storage_seam(tmp_path: Path) -> None:
    storage = FileStorage(open_lmdb)
    path = str(tmp_path / "m.mdb")
    with pytest.raises(StorageMissingError):
        storage.open_metadata(path, read_only=True)
    storage.open_metadata(path).close()
    store = storage.open_metadata(path, read_only=True)
    with pytest.raises(StorageError, match="read-only"), store.transaction():
        pass
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.get(b"k")
