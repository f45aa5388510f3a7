"""Child processes: how a child dies with its parent, and how a parent ends a child."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Protocol

PR_SET_PDEATHSIG = 1
POLL_INTERVAL_S = 0.001


class ChildProcess(Protocol):
    """What a parent does with a child: a part of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


def die_with_parent(parent_pid: int, signal_number: signal.Signals) -> bool:
    """Have the kernel send this process a signal when its parent ends. Returns False if the parent is gone already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
    return os.getppid() == parent_pid


def end_children(
    processes: Sequence[ChildProcess], timeout_s: float, meanwhile: Callable[[], object] | None = None
) -> None:
    """Ask children to end (SIGTERM), all at once, and kill those that have not within the time.

    `meanwhile` is called until then, again and again, and may wait for a moment: what the children wait for.
    """
    for process in processes:
        process.terminate()
    deadline_s = time.monotonic() + timeout_s
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline_s:
        if meanwhile is None:
            time.sleep(POLL_INTERVAL_S)
        else:
            meanwhile()
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
