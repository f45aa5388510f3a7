"""Builds with other Pythons and runs quick tests there: `python -m tools.pythons 3.12 /usr/bin/python3.13`.

Each Python has `build/python/<name>`: an environment, and a copy of the checkout that the native modules are compiled
in, from the C that `make build` translated them to: it is the same for every Python. Nothing else is written. A second
run installs, copies and compiles only what has changed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (
    "runtime,transport,archive,consensus,service_api,sequencer,cluster,gateway/kafka/service,ordo/bench,tests/runtime"
)
"""Without the data pipeline: what it needs is not to be had for every Python, and the tests below do without."""
TESTS = ("tests/runtime", "tests/consensus", "tests/service_api", "tests/ordo")
QUICK = "not slow and not spark and not root and not soak and not wheel and not peers"
SOURCES = (".py", ".pyx", ".pxd", ".pyi", ".h")


class PythonError(Exception):
    """There is no such Python, or one of the steps failed."""


def interpreter(wanted: str, versions: Path) -> Path:
    """Returns the interpreter of a path, or of a version: pyenv's newest below `versions`, or one on the PATH."""
    if "/" in wanted:
        if not os.access(wanted, os.X_OK) or Path(wanted).is_dir():
            raise PythonError(f"{wanted} is no program: give a Python's path, or a version such as 3.13")
        return Path(wanted).absolute()
    fitting = [p for p in versions.glob("*/bin/python") if re.fullmatch(rf"{re.escape(wanted)}(\.\d+)*", p.parts[-3])]
    if fitting:
        return max(fitting, key=lambda path: [int(part) for part in path.parts[-3].split(".")])
    found = shutil.which(f"python{wanted}")
    if found is None:
        raise PythonError(
            f"no Python {wanted} in {versions} nor python{wanted} on the PATH: install it, or give its path"
        )
    return Path(found)


def copy_sources(names: list[str], source: Path, target: Path) -> None:
    """Makes `target` hold the named files of `source` as they are now, and none that was there before but is gone."""
    for name in names:
        old, new = source / name, target / name
        if old.is_symlink() and not new.is_symlink():
            new.parent.mkdir(parents=True, exist_ok=True)
            new.symlink_to(old.readlink())
        if old.is_symlink() or not old.is_file():
            continue
        if not new.exists() or new.read_bytes() != old.read_bytes():
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(old, new)
    for path in target.rglob("*"):
        below = path.relative_to(target)
        if below.parts[0] == "build":
            continue
        made_from = below.with_name(f"{below.name.split('.')[0]}.pyx") if path.suffix == ".so" else below
        if path.suffix in (*SOURCES, ".so") and not (source / made_from).exists():
            path.unlink()


def checkout_files() -> list[str]:
    """Returns the paths of the files of this checkout, those not yet committed included."""
    words = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


def translated_files() -> list[str]:
    """Returns the paths of the C files that Cython made of the native modules."""
    return [path.relative_to(ROOT).as_posix() for path in (ROOT / "build" / "cython").rglob("*.c")]


def run_logged(words: list[str | Path], cwd: Path, log: Path | None = None, **environment: str) -> None:
    """Runs a command; its output goes to `log`, whose end is in the error when it fails, or is shown as it comes."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")} | environment
    output = log.open("ab") if log is not None else None
    try:
        done = subprocess.run(words, cwd=cwd, stdout=output, stderr=output and subprocess.STDOUT, env=env, check=False)
    finally:
        if output is not None:
            output.close()
    if done.returncode:
        end = log.read_text(errors="replace")[-4000:] if log is not None else ""
        raise PythonError(f"{end}\n{' '.join(map(str, words))}: exit status {done.returncode}".strip())


def check(python: Path, name: str, jobs: int) -> None:
    """Installs, compiles and tests with one Python. Raises PythonError with the reason when that fails."""
    folder = ROOT / "build" / "python" / name
    copy, own, log = folder / "source", folder / "venv" / "bin" / "python", folder / "build.log"
    folder.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    copy_sources(checkout_files(), ROOT, copy)
    installed, needed = folder / "venv" / "installed", f"{python}\n{(copy / 'pyproject.toml').read_text()}"
    if not installed.exists() or installed.read_text() != needed:
        pip: list[str | Path] = [own, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run_logged([python, "-m", "venv", "--clear", folder / "venv"], folder, log)
        run_logged([*pip, "setuptools>=77", "wheel", "cython>=3.1"], folder, log)
        run_logged([*pip, "--no-build-isolation", "-e", ".[dev]"], copy, log, ORDO_ONLY="none")
        installed.write_text(needed)
    # After the sources and Cython's own, which would be taken for newer.
    copy_sources(translated_files(), ROOT, copy)
    build: list[str | Path] = [own, "setup.py", "-q", "build_ext", "--inplace"]
    run_logged(build, copy, log, ORDO_ONLY=FOLDERS, ORDO_OPTIMIZE="-O0", ORDO_THREADS=str(jobs))
    run_logged([own, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "loadfile", "-m", QUICK, *TESTS], copy)


def main(arguments: list[str]) -> int:
    """Checks every Python named, whatever became of those before; 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.pythons", description="Tests with other Pythons.")
    parser.add_argument("pythons", nargs="+", help="a version such as 3.13, or an interpreter's path")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--installed", action="store_true", help="leave out, with a line, those that are not installed")
    options = parser.parse_args(arguments)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    failed = []
    for wanted in options.pythons:
        try:
            python = interpreter(wanted, versions)
        except PythonError as error:
            print(f"left out: {error}" if options.installed else error, file=sys.stderr)
            failed += [] if options.installed else [wanted]
            continue
        print(f"Python {wanted}", flush=True)
        try:
            check(python, wanted.strip("/").replace("/", "-"), options.jobs)
        except PythonError as error:
            print(error, file=sys.stderr)
            failed.append(wanted)
    if failed:
        print(f"failed with Python {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
