"""`ordo backup ...` and `ordo restore` say what is not done, and end with a status that is not 0."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ordo.backup.folder import ARCHIVE, STATUS, BackupFolder, write_json
from ordo.backup.report import SILENCE_MAX_S
from ordo.backup.restore import RESTORING
from ordo.cli import EXIT_FAILED, run
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import ROOT
from ordo.pipeline.generate import LogShape, generate_log
from tests.cluster.integration.agreement import await_that
from tests.patience import patient

NOBODY = "127.0.0.1:1"


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup that has a log from its beginning, and no snapshot."""
    folder = tmp_path / "backup"
    BackupFolder(folder, None).close()
    generate_log(str(folder / ARCHIVE), LogShape(messages=50))
    return folder


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = run(list(words))
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def start_copy(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ordo.cli", "backup", "run", str(folder), "--endpoints", NOBODY, "--once"]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def test_a_copy_that_is_interrupted_is_not_done(tmp_path: Path) -> None:
    """By the signal of a service manager or a terminal: `backup run --once && rotate` must not go on."""
    for number in (signal.SIGTERM, signal.SIGINT):
        folder = tmp_path / str(number)
        process = start_copy(folder)
        try:
            await_that((folder / STATUS).exists, "the status of the backup")
            process.send_signal(number)
            _, errors = process.communicate(timeout=patient(60))
        finally:
            process.kill()
        assert process.returncode == EXIT_FAILED, errors
        last = errors.splitlines()[-1]
        assert last.startswith("ordo: interrupted before everything was copied: ") and NOBODY in last, errors
        assert json.loads((folder / STATUS).read_text())["state"] == "stopped"


def test_a_copy_that_takes_too_long_says_what_it_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "backup")
    status, _, errors = told(capsys, "backup", "run", folder, "--endpoints", NOBODY, "--once", "--timeout", "1")
    last = errors.splitlines()[-1]
    assert status == EXIT_FAILED and last.startswith("ordo: not everything was copied within 1 s: looking for a member")
    assert last.endswith(f"none of {NOBODY} has answered")


def test_a_backup_of_nothing_is_not_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BackupFolder(tmp_path, None).close()
    status, out, errors = told(capsys, "backup", "verify", str(tmp_path))
    assert (status, out) == (EXIT_FAILED, "")
    assert errors.endswith("nothing was checked: this backup has neither log nor snapshots yet\n")


def test_a_backup_says_up_to_where_it_can_be_restored(backup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = told(capsys, "backup", "verify", str(backup))
    recording, verdict = out.splitlines()
    end = recording.partition("stop=")[2].split()[0]
    assert (status, verdict) == (0, f"restorable up to position {end}, from the beginning of the log")


def test_a_backup_from_which_nothing_can_be_restored_is_not_good(
    backup: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its frames are whole, and its log begins after the beginning, with no snapshot there."""
    with BackupFolder(backup, None) as folder:
        (stretch,) = folder.contents().stretches
        second = next(iter(folder.archive.reader(stretch.recording_id, None).messages())).position
        folder.archive.catalog.update(stretch.recording_id, start_position=second)
    status, out, errors = told(capsys, "backup", "verify", str(backup))
    assert status == EXIT_FAILED and "NOT RESTORABLE" in out and "snapshots at none" in out, (out, errors)


def test_a_restore_makes_all_folders_or_none(backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of one call have an identity of their own: a folder that were left could be used with no other."""
    cluster = tmp_path / "cluster"
    assert run(["init", str(cluster)]) == 0
    configs = [f"--config={path}" for path in sorted(cluster.glob("node*.toml"))]
    folders = [load_config(Path(one.partition("=")[2])).node.data_dir for one in configs]
    assert len(folders) == 3
    capsys.readouterr()
    shutil.rmtree(folders[0].parent, ignore_errors=True)
    folders[0].parent.mkdir(parents=True)
    blocked = folders[2].with_name(folders[2].name + RESTORING)
    blocked.touch()
    status, out, errors = told(capsys, "restore", str(backup), *configs)
    assert (status, out) == (EXIT_FAILED, "") and errors.count("\n") == 1, errors
    assert os.listdir(folders[0].parent) == [blocked.name]
    blocked.unlink()
    status, out, errors = told(capsys, "restore", str(backup), *configs)
    assert status == 0 and sorted(os.listdir(folders[0].parent)) == sorted(one.name for one in folders), errors


def test_a_process_that_was_killed_keeps_no_backup(backup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(backup / STATUS, {"state": "following", "position": 96, "problem": ""})
    assert "state      following" in told(capsys, "backup", "status", str(backup))[1]
    written_s = (backup / STATUS).stat().st_mtime - SILENCE_MAX_S - 60
    os.utime(backup / STATUS, (written_s, written_s))
    status, out, _ = told(capsys, "backup", "status", str(backup))
    assert status == 0 and "state      gone" in out
    assert "no process has kept this backup for 7" in out and "it was following" in out
    running = json.loads(told(capsys, "backup", "status", str(backup), "--json")[1])["running"]
    assert (running["state"], running["position"]) == ("gone", 96)
