"""Folders of embedded drivers are never shared and never left behind for long."""

import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ordo.runtime.errors import StorageError
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client import client_folders
from ordo.transport.client.client_folders import LOCK_SUFFIX, PREFIX, ClientFolder, remove_abandoned, user_folder
from ordo.transport.driver.media_driver import MediaDriver

ROOT = Path(__file__).parents[2]


def test_two_clients_have_two_folders_and_leave_nothing(tmp_path: Path) -> None:
    first, second = ClientFolder(str(tmp_path)), ClientFolder(str(tmp_path))
    assert first.path != second.path
    for folder in (first, second):
        os.makedirs(f"{folder.path}/publications")
        folder.close()
        folder.close()
    assert os.listdir(tmp_path) == []


def test_the_folder_of_a_live_client_is_left_alone(tmp_path: Path) -> None:
    folder = ClientFolder(str(tmp_path))
    os.mkdir(folder.path)
    assert remove_abandoned(str(tmp_path)) == []
    assert os.path.isdir(folder.path)
    folder.close()


def test_the_folder_of_a_killed_client_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom ordo.transport.client.client_folders import ClientFolder\n"
        f"folder = ClientFolder({str(tmp_path)!r})\nos.makedirs(folder.path + '/images')\n"
        "print(folder.path, flush=True)\nsys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    path = process.stdout.readline().strip()
    assert os.path.isdir(path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    folder = ClientFolder(str(tmp_path))
    assert not os.path.exists(path)
    assert not os.path.exists(path + ".lock")
    folder.close()


def test_a_name_that_somebody_holds_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock of another container's process with the same id, and what others made under the next names."""
    monkeypatch.setattr(client_folders, "_numbers", itertools.count())
    names = [tmp_path / f"{PREFIX}{os.getpid()}-{number}" for number in range(5)]
    with open(f"{names[0]}{LOCK_SUFFIX}", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.mkdir(f"{names[1]}{LOCK_SUFFIX}")
        os.symlink("/etc/hostname", f"{names[2]}{LOCK_SUFFIX}")
        os.symlink(tmp_path, names[3])
        folder = ClientFolder(str(tmp_path))
        assert folder.path == str(names[4])
        folder.close()


def test_a_folder_in_which_no_name_can_be_had_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_folders, "_numbers", itertools.count())
    for number in range(client_folders.ATTEMPTS_MAX):
        os.mkdir(tmp_path / f"{PREFIX}{os.getpid()}-{number}{LOCK_SUFFIX}")
    with pytest.raises(StorageError, match=r"no name for a folder is free in .*: Is a directory"):
        ClientFolder(str(tmp_path))


def test_another_name_is_taken_where_another_user_holds_the_own_folder(tmp_path: Path) -> None:
    own = tmp_path / f"ordo-{os.geteuid()}"
    assert user_folder(str(tmp_path)) == str(own)
    assert own.stat().st_mode & 0o777 == 0o700
    assert user_folder(str(tmp_path)) == str(own)
    own.chmod(0o777)  # whoever can write to it can hold names in it
    assert user_folder(str(tmp_path)) == f"{own}-1"
    os.rmdir(f"{own}-1")
    os.symlink(tmp_path, f"{own}-1")
    Path(f"{own}-2").touch()
    assert user_folder(str(tmp_path)) == f"{own}-3"
    for number in range(3, client_folders.NAMES_MAX):
        Path(f"{own}-{number}").mkdir(exist_ok=True)
        Path(f"{own}-{number}").chmod(0o777)
    made = user_folder(str(tmp_path))
    assert made.startswith(f"{own}-") and os.stat(made).st_mode & 0o777 == 0o700


OTHER_USER = 65_534


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a folder of another user")
def test_a_folder_of_another_user_is_not_taken_for_the_own_one(tmp_path: Path) -> None:
    own = tmp_path / f"ordo-{os.geteuid()}"
    own.mkdir(0o700)
    os.chown(own, OTHER_USER, OTHER_USER)
    assert user_folder(str(tmp_path)) == f"{own}-1"


@pytest.mark.skipif(os.geteuid() != 0, reason="runs a process of another user")
@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_a_driver_whose_folder_another_user_holds_says_whose_it_is(kind: str) -> None:
    """As in /dev/shm: everybody may write there, and nobody may remove what another one made."""
    parent = Path(tempfile.mkdtemp(prefix="ordo-test-", dir=client_folders.shared_memory_folder()))
    path = parent / "driver"
    try:
        parent.chmod(0o1777)
        if kind == "folder":
            path.mkdir(0o700)
        elif kind == "file":
            path.touch()
        else:
            path.symlink_to(parent)
        child = os.fork()
        if child == 0:
            os._exit(_start_driver_as_other_user(str(path)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        shutil.rmtree(parent)


def _start_driver_as_other_user(path: str) -> int:
    """0 if it is refused with a line that says whose the folder is."""
    os.setgroups([])
    os.setgid(OTHER_USER)
    os.setuid(OTHER_USER)
    try:
        driver = MediaDriver(path)
        driver.on_start()
    except StorageError as error:
        is_told = f"{path} belongs to user root, not to " in error.message and "None" not in error.message
        print(error.message, file=sys.stderr)
        return 0 if is_told and "choose another name" in error.message else 2
    return 1


def test_a_link_in_the_place_of_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "driver").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="it is a symbolic link: remove it"):
        FileMemoryProvider().remove_directory(str(tmp_path / "driver"))
