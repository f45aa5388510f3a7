"""Which Python `make test SUITE=python` takes, and what it copies; the runs themselves take minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.pythons import FOLDERS, QUICK, ROOT, TESTS, PythonError, copy_sources, interpreter, main

COLLECT = """
import sys
from importlib.machinery import ExtensionFileLoader, PathFinder
from pathlib import Path

import pytest

root, folders = Path(sys.argv[1]), tuple(sys.argv[2].split(","))

class Compiled(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
            return spec
        file = Path(spec.origin)
        if not file.is_relative_to(root) or ".venv" in file.relative_to(root).parts:
            return spec
        below = file.relative_to(root).as_posix().removeprefix("ordo/")
        if below.startswith(tuple(f"{folder}/" for folder in folders)):
            return spec
        raise ModuleNotFoundError(f"{name} is not compiled for other Pythons", name=name)

sys.meta_path.insert(0, Compiled)
sys.exit(pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", "-m", sys.argv[3], *sys.argv[4:]]))
"""
"""Collects tests where only the native modules of the named folders can be imported, as with another Python."""


def make_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_version_is_the_newest_that_pyenv_has(tmp_path: Path) -> None:
    for version in ("3.1.9", "3.13.2", "3.13.10", "3.13-dev", "3.14.0"):
        make_program(tmp_path / version / "bin" / "python")
    assert interpreter("3.13", tmp_path) == tmp_path / "3.13.10" / "bin" / "python"
    assert interpreter("3.13.2", tmp_path) == tmp_path / "3.13.2" / "bin" / "python"


def test_without_pyenv_the_one_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_program(tmp_path / "bin" / "python3.13")
    monkeypatch.setenv("PATH", str(program.parent))
    assert interpreter("3.13", tmp_path / "versions") == program
    assert interpreter(str(program), tmp_path / "versions") == program


@pytest.mark.parametrize("wanted", ["3.99", "/nowhere/python3", "/"])
def test_what_is_not_there_fails_in_one_line(wanted: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([wanted]) == 1
    reason, summary = capfd.readouterr().err.splitlines()
    assert wanted in reason
    assert summary == f"failed with Python {wanted}"
    with pytest.raises(PythonError):
        interpreter(wanted, Path("/nowhere"))


def test_the_copy_follows_the_checkout_and_keeps_what_was_compiled(tmp_path: Path) -> None:
    checkout, copy = tmp_path / "checkout", tmp_path / "copy"
    (checkout / "runtime").mkdir(parents=True)
    for name in ("setup.py", "runtime/clock.pyx", "runtime/old.pyx"):
        (checkout / name).write_text("1")
    (checkout / "ordo").mkdir()
    (checkout / "ordo" / "runtime").symlink_to("../runtime")
    copy_sources(["setup.py", "ordo/runtime", "runtime/clock.pyx", "runtime/old.pyx"], checkout, copy)
    for name in ("runtime/clock.cpython-313.so", "runtime/old.cpython-313.so", "build/made.py"):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("2")
    untouched = (copy / "setup.py").stat().st_ino
    (checkout / "runtime" / "old.pyx").unlink()
    (checkout / "runtime" / "clock.pyx").unlink()
    (checkout / "runtime" / "clock.pyx").write_text("3")
    copy_sources(["setup.py", "runtime/clock.pyx", "runtime/old.pyx"], checkout, copy)
    left = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert left == {"setup.py", "runtime/clock.pyx", "runtime/clock.cpython-313.so", "build/made.py"}
    assert (copy / "runtime" / "clock.pyx").read_text() == "3"
    assert (copy / "setup.py").stat().st_ino == untouched
    assert (copy / "ordo" / "runtime" / "clock.pyx").read_text() == "3"


def test_ci_leaves_out_what_is_not_installed_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--installed", "3.99"]) == 0
    assert capfd.readouterr().err.startswith("left out: no Python 3.99 in ")


def test_the_quick_tests_import_no_more_than_is_compiled_for_other_pythons() -> None:
    words = [sys.executable, "-c", COLLECT, str(ROOT), FOLDERS, QUICK, *TESTS]
    without_xdist = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(words, cwd=ROOT, env=without_xdist, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
