"""The service container of a node that tests fork: a child that the node had forked before it did anything else.

It waits for what the node would execute `python -m ordo.cluster.container.main` with, and goes on as that: importing
what a container needs takes longer than all else of its start. It is a child of its node as any container is, and ends
with it. A node that starts a second container executes it.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ordo.runtime.children import ChildProcess, die_with_parent

COMMAND = (sys.executable, "-P", "-m", "ordo.cluster.container.main")
HASH_SEED = "0"
"""What nodes give their containers, so that whoever forks them has it from its start."""
PROCESS_NAME = "container"
"""What /proc calls a spare that has become one; its command is still that of the process that forks."""
POLL_INTERVAL_S = 0.001


class Spare:
    """A child that waits to become a container."""

    def __init__(self, pid: int, told: int) -> None:
        self.pid = pid
        self.args: Sequence[str] = ()
        self.returncode: int | None = None
        self._told = told

    @classmethod
    def fork(cls) -> None:
        """Have the first container of this process be one that is forked now."""
        from ordo.cluster.node.container_process import ContainerProcess

        parent_pid = os.getpid()
        tells, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            wait_and_become(tells, parent_pid)
        os.close(tells)
        ContainerProcess.spawn = cls(pid, told).spawn

    def spawn(self, command: Sequence[str], *, stdin: int, env: Mapping[str, str]) -> ChildProcess:
        """Start a container: the spare, if it is there still."""
        is_usual = tuple(command[: len(COMMAND)]) == COMMAND and env.get("PYTHONHASHSEED") == HASH_SEED
        if self.args or not is_usual:
            executed: ChildProcess = subprocess.Popen(command, stdin=stdin, env=env)
            return executed
        self.args = command
        request = {"arguments": command[len(COMMAND) :], "environment": dict(env), "folder": os.getcwd()}
        with os.fdopen(self._told, "w") as told:
            json.dump(request, told)
        return self

    def poll(self) -> int | None:
        """Return the exit status, negative after a signal, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once there is one. Raises subprocess.TimeoutExpired."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline_s is not None and timeout is not None and time.monotonic() > deadline_s:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(POLL_INTERVAL_S)
        return status

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def wait_and_become(tells: int, parent_pid: int) -> NoReturn:
    """Wait for what the node says, and go on as the container; end when it says nothing before it ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if not die_with_parent(parent_pid, signal.SIGKILL):
        os._exit(0)
    with os.fdopen(tells) as told:
        text = told.read()
    if not text:
        os._exit(0)
    request: dict[str, Any] = json.loads(text)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Path("/proc/self/comm").write_text(PROCESS_NAME)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["ordo.cluster.container.main", *request["arguments"]]
    import gc

    from ordo.cluster.container.main import main

    gc.unfreeze()
    end(main(request["arguments"]))


def end(status: int) -> NoReturn:
    """End as a Python does, but that no module is taken apart: that takes 35 ms, of thousands of processes.

    Threads are joined, handlers of `atexit` run, and what was printed is written. Executed nodes do the rest as well.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(status)  # Python has a word for that, and a status
    os._exit(status)
