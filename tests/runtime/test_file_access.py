"""Files of messages are for the user who runs the process, unless told otherwise."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.file_access import VARIABLE, choose_file_access
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def for_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "owner")


def make_all(folder: Path) -> list[Path]:
    """One of every kind of file, two folders deep."""
    FileMemoryProvider().create(f"{folder}/a/b/x.logbuffer", 4096).close()
    storage = FileStorage(open_lmdb)
    storage.make_directory(f"{folder}/a/c")
    storage.open_segment(f"{folder}/a/c/1.rec", 4096, create=True).close()
    storage.open_metadata(f"{folder}/a/c/x.mdb").close()
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize(("access", "file", "directory"), [("owner", 0o600, 0o700), ("group", 0o660, 0o770)])
def test_every_file_and_folder_has_the_access_that_was_chosen(
    tmp_path: Path, access: str, file: int, directory: int
) -> None:
    mask = os.umask(0)
    try:
        choose_file_access(access)
        made = make_all(tmp_path)
    finally:
        os.umask(mask)
    assert len(made) >= 7
    assert {mode(path) for path in made if path.is_file()} == {file}
    assert {mode(path) for path in made if path.is_dir()} == {directory}


def test_a_driver_is_its_users_own(tmp_path: Path) -> None:
    with MediaDriver(MediaDriverSettings(directory=f"{tmp_path}/driver")):
        found = [tmp_path / "driver", *(tmp_path / "driver").rglob("*")]
        assert mode(tmp_path / "driver") == 0o700
        assert len(found) > 4
        assert all(mode(path) & 0o077 == 0 for path in found if not path.is_socket()), "the socket lies in the folder"


def test_an_access_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="owner, group, all"):
        choose_file_access("everybody")
    with pytest.raises(ConfigurationError, match="file_access"):
        MediaDriverSettings(directory="/x", file_access="everybody")
    monkeypatch.setenv(VARIABLE, "0644")
    with pytest.raises(ConfigurationError, match=VARIABLE):
        FileMemoryProvider().create(f"{tmp_path}/x", 4096)
