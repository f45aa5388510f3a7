"""Folders of embedded drivers are never shared and never left behind for long."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from transport.client_folders import ClientFolder, remove_abandoned

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
        "import os, sys\nfrom transport.client_folders import ClientFolder\n"
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
