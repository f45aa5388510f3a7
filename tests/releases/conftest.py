"""The last release, built from its commit beside this checkout, or another revision: `PREVIOUS`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAST_RELEASE = Path(__file__).with_name("previous.txt")
"""Has the commit of the last release and nothing else; cutting a release changes it (RELEASING.md)."""
FOLDERS = ("runtime", "transport", "archive", "consensus", "service_api", "follow", "sequencer", "cluster", "ordo")
"""What members and clients are made of, in any release: each has some of these."""
KEPT_MAX = 3


def run(words: list[str], cwd: Path, **environment: str) -> str:
    """Returns what a command printed; fails the test with the end of it when it ends with an error."""
    done = subprocess.run(
        words,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-4000:]}"
    return done.stdout


def make_environment(folder: Path) -> None:
    """Its .venv finds the checkout in `folder`, and what this interpreter has installed."""
    run([sys.executable, "-m", "venv", "--without-pip", ".venv"], folder)
    (packages,) = (folder / ".venv" / "lib").glob("python3*/site-packages")
    installed = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "release.pth").write_text("\n".join([str(folder), *installed]) + "\n")


def build(revision: str) -> Path:
    """The checkout of a revision with its native modules, below build/; it is built once."""
    commit = run(["git", "rev-parse", "--verify", "--short", f"{revision}^{{commit}}"], ROOT).strip()
    folder = ROOT / "build" / "releases" / commit
    done = folder / "build" / ".built"
    if done.exists():
        done.touch()
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(["sh", "-c", f"git archive {commit} | tar -xf - -C {folder}"], ROOT)
    only = ",".join(name for name in FOLDERS if (folder / name).is_dir())
    run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], folder, ORDO_ONLY=only)
    make_environment(folder)
    done.touch()
    built = sorted(folder.parent.iterdir(), key=lambda path: (path / "build" / ".built").stat().st_mtime)
    for old in built[:-KEPT_MAX]:
        shutil.rmtree(old)
    return folder


@pytest.fixture(scope="session")
def previous() -> Path:
    """The checkout of the last release."""
    return build(os.environ.get("PREVIOUS") or LAST_RELEASE.read_text().strip())
