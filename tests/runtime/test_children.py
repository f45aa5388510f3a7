"""How children die with their parent, and are ended by it."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from ordo.runtime.children import end_children

LIVES_ON = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"


def test_a_parent_that_is_gone_is_told() -> None:
    script = (
        "import os, signal; from ordo.runtime.children import die_with_parent\n"
        "print(die_with_parent(os.getppid(), signal.SIGKILL), die_with_parent(os.getpid(), signal.SIGKILL))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout == "True False\n"


def test_a_child_that_does_not_listen_is_killed() -> None:
    command = [sys.executable, "-c", LIVES_ON]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"\n"
        end_children([child], 0.05)
        assert child.returncode == -signal.SIGKILL


def test_a_child_that_listens_ends_by_itself() -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        end_children([child], 30)
        assert child.returncode == -signal.SIGTERM


def test_children_that_wait_for_their_parent_end_by_themselves(tmp_path: Path) -> None:
    """A container that waited for its node's driver was killed after five seconds: the driver had stopped."""
    script = (
        "import pathlib, signal, sys, time; file = pathlib.Path(sys.argv[1]); told = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: told.append(1)); print(flush=True)\n"
        "while not told or not file.exists(): time.sleep(0.001)"
    )
    files = [tmp_path / "0", tmp_path / "1"]
    with ExitStack() as stack:
        children = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", script, file], stdout=subprocess.PIPE))
            for file in files
        ]
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == b"\n"
        turns = iter(files)
        end_children(children, 30, lambda: next(turns, files[-1]).touch())
        assert [child.returncode for child in children] == [0, 0]
