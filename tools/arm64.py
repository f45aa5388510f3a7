"""Cross-compiles for arm64 and runs unit tests there under emulation: `python -m tools.arm64 --jobs 2`.

Everything lies in `build/arm64`: `root` holds Debian's arm64 Python as its packages unpack (nothing of them is ever
run as root's own), `site` the wheels for arm64 that the tests import, `source` a copy of the checkout with the native
modules compiled in. A second run compiles only what has changed. Needs root for nothing but what debootstrap asks for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tools.pythons import ROOT, PythonError, checkout_files, copy_sources, run_logged

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64"
PROGRAMS = {
    COMPILER: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    EMULATOR: "qemu-user",
    "debootstrap": "debootstrap",
}
"""What has to be installed, and the Debian packages that have it."""
DEBIAN = "bookworm"
PYTHON = "3.11"
"""The Python of that Debian; the one that runs this must be the same, since Cython's output is compiled with both."""
FOLDERS = "runtime,transport,archive,consensus,service_api,sequencer,cluster,gateway/kafka/service,ordo/bench,tests"
NO_WHEEL = ("hdrhistogram", "pytest-cov", "pytest-xdist")
"""Not installed: the first, which only `ordo bench` imports, has no arm64 wheel; the others have nothing to do here."""
TESTS = (
    *("tests/runtime", "tests/service_api", "tests/cluster/wire", "tests/transport/test_ring.py"),
    *("tests/transport/test_logbuffer.py", "tests/transport/test_broadcast.py", "tests/transport/test_image.py"),
    *("tests/transport/test_publication.py", "tests/transport/test_unblock.py", "tests/transport/test_uri.py"),
    *("tests/archive/test_recorder.py", "tests/archive/test_reader.py", "tests/archive/test_segments.py"),
    *("tests/archive/test_recovery.py", "tests/consensus/test_election.py", "tests/consensus/test_quorum.py"),
)
"""Unit tests of every native layer that start no process: the kernel runs no arm64 program by itself."""
STARTS_PROCESSES = (
    "tests/runtime/test_processes.py::test_a_process_is_alive_until_it_was_waited_for",
    "tests/runtime/test_storage.py::test_folder_of_a_live_process_is_refused_with_its_pid",
    "tests/runtime/test_wake_processes.py",
)
QUICK = "not slow and not spark and not root and not soak and not wheel and not peers"


def missing_programs(*programs: str) -> str:
    """Returns the Debian packages of the programs that are not there, separated by blanks; "" when all are."""
    return " ".join(PROGRAMS[program] for program in programs or PROGRAMS if shutil.which(program) is None)


def unpack_debian(root: Path, log: Path) -> None:
    """Makes `root` hold Debian's arm64 C library and Python with its headers, unpacked and not configured."""
    if (root / "complete").exists():
        return
    shutil.rmtree(root, ignore_errors=True)
    options = ["--download-only", "--arch=arm64", "--variant=minbase", "--include=python3-dev"]
    run_logged(["debootstrap", *options, DEBIAN, root], root.parent, log)
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        run_logged(["dpkg-deb", "--extract", package, root], root.parent, log)
    (root / "complete").touch()


def install_wheels(site: Path, log: Path) -> None:
    """Makes `site` hold the arm64 wheels of what Ordo and its tests import."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tests = [name for name in project["optional-dependencies"]["dev"] if name.startswith(("pytest", "hypothesis"))]
    needed = "\n".join(name for name in [*project["dependencies"], *tests] if not name.startswith(NO_WHEEL))
    if (site / "installed").exists() and (site / "installed").read_text() == needed:
        return
    shutil.rmtree(site, ignore_errors=True)
    platform = ["--platform=manylinux2014_aarch64", "--platform=manylinux_2_28_aarch64", f"--python-version={PYTHON}"]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:"]
    run_logged([*pip, *platform, "--target", site, *needed.split("\n")], ROOT, log)
    (site / "installed").write_text(needed)


def compiler_environment(root: Path) -> dict[str, str]:
    """Return what has setuptools compile for arm64, with the headers of that Debian."""
    includes = [f"-idirafter{root}/usr/include/python{PYTHON}", f"-idirafter{root}/usr/include"]
    return {"CC": COMPILER, "LDSHARED": f"{COMPILER} -shared", "CFLAGS": " ".join(includes)}


def wheel_environment(log: Path) -> dict[str, str]:
    """Return what has setuptools make a wheel for arm64. Raises PythonError when that cannot be done here."""
    folder = prepared_folder(missing_programs(COMPILER, "debootstrap"))
    unpack_debian(folder / "root", log)
    names = {
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{PYTHON.replace('.', '')}-aarch64-linux-gnu.so",
    }
    return compiler_environment(folder / "root") | names


def prepared_folder(missing: str) -> Path:
    """Return the folder of all this. Raises PythonError when programs are missing, or this is another Python."""
    if missing:
        raise PythonError(f"cannot build for arm64 here: apt-get install {missing}")
    if sys.version_info[:2] != tuple(map(int, PYTHON.split("."))):
        raise PythonError(f"cannot build for arm64 with this Python: Debian {DEBIAN} has {PYTHON}, use that")
    folder = ROOT / "build" / "arm64"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compile_modules(copy: Path, root: Path, jobs: int, log: Path) -> None:
    """Compiles the native modules of the copy for arm64, with names that any Python takes."""
    run_logged(
        [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "build/lib"],
        copy,
        log,
        **compiler_environment(root),
        ORDO_ONLY=FOLDERS,
        ORDO_OPTIMIZE="-O1",
        ORDO_THREADS=str(jobs),
    )
    for module in (copy / "build/lib").rglob("*.so"):
        target = copy / module.relative_to(copy / "build/lib").with_name(f"{module.name.split('.')[0]}.so")
        shutil.copy(module, target)


def run_tests(copy: Path, root: Path, site: Path, arguments: list[str]) -> None:
    """Runs the unit tests under emulation. Raises PythonError when one fails."""
    words = [
        EMULATOR,
        "-L",
        str(root),
        str(root / f"usr/bin/python{PYTHON}"),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    words += ["--timeout=600", "-m", QUICK, *(arguments or TESTS)]
    words += [word for test in STARTS_PROCESSES for word in ("--deselect", test)]
    environment = {**os.environ, "PYTHONPATH": f"{copy}:{site}", "PYTHONNOUSERSITE": "1"}
    if subprocess.run(words, cwd=copy, env=environment, check=False).returncode:
        raise PythonError("tests failed on arm64")


def main(arguments: list[str]) -> int:
    """Builds and tests; 1 with one line when something is missing or failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.arm64", description="Tests the arm64 build under emulation.")
    parser.add_argument("tests", nargs="*", help="paths of tests; without, the unit tests that fit the emulator")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    try:
        folder = prepared_folder(missing_programs())
        log = folder / "build.log"
        log.write_bytes(b"")
        unpack_debian(folder / "root", log)
        install_wheels(folder / "site", log)
        copy_sources(checkout_files(), ROOT, folder / "source")
        compile_modules(folder / "source", folder / "root", options.jobs, log)
        run_tests(folder / "source", folder / "root", folder / "site", options.tests)
    except PythonError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
