"""Each sync of the recorder left out in turn: the tests of durability must miss it.

The recorder is native. It is compiled once more, with a switch at each sync, and takes the place of the real one in a
process that runs these tests. `test_syncs.py` does the same with syncs of Python.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from setup import DIRECTIVES
from tests.thorough import few_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "archive" / "recorder.pyx").read_text()
SYNC = re.compile(
    r"^( +)(self\._(?:previous|folder|file)\.sync_now\(\)|self\._request\(\w[\w.]*\)|"
    r".* = self\._queue\.request\(file\))",
    re.MULTILINE,
)
SYNCS = [f"{number}-{found[2]}" for number, found in enumerate(SYNC.finditer(SOURCE), start=1)]
FIRST_LINE = "cdef int32_t _BLOCK_LENGTH_MAX"
SWITCH = 'import os\ncdef int _LEFT_OUT = int(os.environ["ORDO_LEFT_OUT"])     # the number of a sync; 0: none\n'
PROGRAM = """
import importlib.util, sys

class Finder:
    def find_spec(name, path, target=None):
        if name == "ordo.archive.recorder":
            return importlib.util.spec_from_file_location(name, sys.argv[1])

sys.meta_path.insert(0, Finder)
import pytest
status = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not root", sys.argv[2]])
assert sys.modules["ordo.archive.recorder"].__file__ == sys.argv[1]
sys.exit(status)
"""


def with_switches() -> str:
    count = 0

    def switched(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"{found[1]}if _LEFT_OUT != {count}: {found[2]}"

    before, line, after = SYNC.sub(switched, SOURCE).partition(FIRST_LINE)
    assert line
    return f"{before}{SWITCH}{line}{after}"


Run = Callable[[int], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the tests of durability without the sync of a number; 0: with all of them."""
    folder = tmp_path_factory.mktemp("recorder")
    source, module = folder / "recorder.pyx", folder / "recorder.so"
    source.write_text(with_switches())
    directives = [word for name, value in DIRECTIVES.items() for word in ("-X", f"{name}={value}")]
    named = ["--module-name", "ordo.archive.recorder", "-I", str(ROOT), "-o", str(source.with_suffix(".c"))]
    subprocess.run([sys.executable, "-m", "cython", *directives, *named, str(source)], check=True, cwd=ROOT)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    includes = [f"-I{one}" for one in (sysconfig.get_paths()["include"], ROOT / "ordo" / "runtime" / "native", ROOT)]
    command = [*compiler, "-shared", "-fPIC", "-O0", "-w", *includes, str(source.with_suffix(".c")), "-o", str(module)]
    subprocess.run(command, check=True, cwd=ROOT)
    tests = ROOT / "tests" / "archive" / "test_durability.py"

    def run_without(number: int) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "ORDO_LEFT_OUT": str(number)}
        command = [sys.executable, "-c", PROGRAM, str(module), str(tests)]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    return run_without


@pytest.mark.slow
def test_with_all_syncs_the_tests_pass(run: Run) -> None:
    ended = run(0)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("sync", few_of(SYNCS, SYNCS[::4]))
def test_a_sync_of_the_recorder_that_is_left_out_is_found(run: Run, sync: str) -> None:
    ended = run(int(sync.partition("-")[0]))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert " failed" in ended.stdout and "error" not in ended.stdout.splitlines()[-1]


def test_the_syncs_are_those_of_the_list() -> None:
    assert len(SYNCS) == 9 == len(re.findall(r"sync_now\(|self\._request\(|_queue\.request\(", SOURCE))
