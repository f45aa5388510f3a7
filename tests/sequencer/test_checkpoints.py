"""Checkpoints of applications: the last one whole, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.applications.application import ApplicationSettings
from ordo.applications.checkpoints import STORE_NAME, Checkpoints
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.runtime.errors import ConfigurationError, StorageDamagedError, StorageInUseError
from ordo.runtime.io.storage import FileStorage


def test_the_last_one_comes_back(tmp_path: Path) -> None:
    storage, folder = FileStorage(open_lmdb), str(tmp_path / "new" / "folder")
    checkpoints = Checkpoints(storage, folder)
    assert checkpoints.load() is None
    checkpoints.save([b"a", b"", b"c" * 100_000])
    checkpoints.save([b"d", b"e"])
    with pytest.raises(StorageInUseError):
        Checkpoints(storage, folder)
    checkpoints.close()
    again = Checkpoints(storage, folder)
    assert again.load() == [b"d", b"e"]
    again.close()


def test_damage_is_told(tmp_path: Path) -> None:
    storage, folder = FileStorage(open_lmdb), str(tmp_path)
    checkpoints = Checkpoints(storage, folder)
    checkpoints.save([b"a", b"b"])
    checkpoints.close()
    store = open_lmdb(str(tmp_path / STORE_NAME))
    with store.transaction() as transaction:
        transaction.put(b"message 00000001", b"c")
    store.close()
    checkpoints = Checkpoints(storage, folder)
    with pytest.raises(StorageDamagedError, match="is damaged"):
        checkpoints.load()
    checkpoints.close()


def test_settings_are_checked() -> None:
    def settings(**changed: object) -> ApplicationSettings:
        known: dict[str, object] = {"group": "g", "endpoints": ["h:9000"], "folder": "f"}
        return ApplicationSettings(**{**known, **changed})  # type: ignore[arg-type]

    assert archive_endpoint("h:9000") == "h:9004"
    wrong: tuple[dict[str, object], ...] = (
        {"group": ""},
        {"group": "x" * 65},
        {"endpoints": []},
        {"checkpoint_interval_s": 0},
    )
    for changed in wrong:
        with pytest.raises(ConfigurationError):
            settings(**changed)
    with pytest.raises(ConfigurationError, match="must be host:port"):
        archive_endpoint("9000")
