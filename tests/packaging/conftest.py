"""The distributions, built from a copy of the checkout, so that nothing is written into it."""

import subprocess
import sys
from pathlib import Path

import pytest

from ordo.runtime.version import VERSION

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str | Path, cwd: Path, timeout_s: float = 900) -> str:
    """Returns what a command printed; fails the test with all of it when it ends with an error."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, words))}:\n{done.stdout[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release for this Python, as a dry run makes them."""
    out = tmp_path_factory.mktemp("made") / "release"
    run(sys.executable, "-m", "tools.release", VERSION, "--dry", "--out", out, cwd=ROOT, timeout_s=2400)
    return out


@pytest.fixture(scope="session")
def sdist(release: Path) -> Path:
    """The sdist of this checkout."""
    (archive,) = release.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="session")
def wheel(release: Path) -> Path:
    """The wheel built from the sdist, and from nothing else, as auditwheel repaired it."""
    (repaired,) = release.glob("*.whl")
    return repaired
