"""How children die with their parent, and are ended by it."""

import signal
import subprocess
import sys

from runtime.children import end_child

LIVES_ON = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"


def test_a_parent_that_is_gone_is_told() -> None:
    script = (
        "import os, signal; from runtime.children import die_with_parent\n"
        "print(die_with_parent(os.getppid(), signal.SIGKILL), die_with_parent(os.getpid(), signal.SIGKILL))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout == "True False\n"


def test_a_child_that_does_not_listen_is_killed() -> None:
    command = [sys.executable, "-c", LIVES_ON]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"\n"
        end_child(child, 0.05)
        assert child.returncode == -signal.SIGKILL


def test_a_child_that_listens_ends_by_itself() -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        end_child(child, 30)
        assert child.returncode == -signal.SIGTERM
