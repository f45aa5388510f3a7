"""Which Python `make test SUITE=python` takes, and what it copies; the runs themselves take minutes."""

from pathlib import Path

import pytest

from tools.pythons import PythonError, copy_sources, interpreter, main


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
