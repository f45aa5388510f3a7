"""Processes and their parents: how a child dies with its parent, and how a parent ends a child."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int, signal_number: signal.Signals) -> bool:
    """Has the kernel send this process a signal when its parent ends. False: the parent is gone already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
    return os.getppid() == parent_pid


def end_child(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Asks a child to end (SIGTERM), and kills it when it has not within the time."""
    from subprocess import TimeoutExpired

    process.terminate()
    try:
        process.wait(timeout_s)
    except TimeoutExpired:
        process.kill()
        process.wait()
