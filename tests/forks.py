"""Nodes and commands of tests, forked from one process that has imported `ordo` already.

Importing what a node needs takes longer than all else of its start, and tests start thousands: `Forks.spawn` takes what
`subprocess.Popen` takes, and has the process of this module fork one that goes on as `python -P -m ordo.cli` would. It
has the arguments, environment, folder and descriptors it is given, a session of its own if that is asked for, and
nothing open besides. What differs: all such processes hash strings alike, as containers do, and /proc names this module
as their command. One of PROGRAMS is forked in the same way once it was imported, and ends as `python -P -m PROGRAM`
does, but that what was imported is not looked through. What a fork cannot give is executed: other programs, a prefix
before the command, another `PYTHONPATH`, and all nodes and commands with ORDO_FORKS=no, which the fixture
`executed_nodes` sets. The service container of a forked node is a `Spare` of it (tests/spares.py).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.patience import patient
from tests.spares import HASH_SEED, Spare, end

if TYPE_CHECKING:
    from ordo.runtime.children import ChildProcess

ROOT = Path(__file__).resolve().parents[1]
COMMAND = (sys.executable, "-P", "-m", "ordo.cli")
PROGRAMS = ("tests.ordo.closing", "tests.ordo.async_closing")
"""Modules whose `main` takes its arguments from `sys.argv`."""
SWITCH = "ORDO_FORKS"
REQUEST_LENGTH_MAX = 1 << 20
STANDARD = (0, 1, 2)
IMPORTED = (
    *("ordo.cli", "ordo.cluster.node.node", "ordo.cluster.settings.config", "ordo.cluster.settings.log_settings"),
    "ordo.cluster.container.main",
    *(
        "ordo.cluster.commands.cluster_commands",
        "ordo.cluster.commands.look",
        "ordo.archive.inspection.archive_commands",
    ),
)
"""What nodes and the commands that tests give most often need."""
DOORS = {
    "gateway": ("ordo.gateway.gateway_commands", "ordo.gateway.server"),
    "kafka": ("ordo.gateway.kafka.kafka_commands", "ordo.gateway.kafka.server"),
    "webhook": ("ordo.gateway.webhooks.webhook_commands",),
}
"""What else is imported before the first command of this name is forked."""


class ForkedProcess:
    """A child of the process that forks; its number is not given to another before its status was asked for."""

    def __init__(self, forks: Forks, pid: int, arguments: Sequence[str]) -> None:
        self.pid = pid
        self.args = arguments
        self.returncode: int | None = None
        self._forks = forks
        self._lock = threading.Lock()
        self._end = os.pidfd_open(pid)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self._end)

    def poll(self) -> int | None:
        """Return the exit status, negative after a signal, or None while it runs."""
        return self.returncode if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once there is one. Raises subprocess.TimeoutExpired."""
        if not self._has_ended(None if timeout is None else int(timeout * 1000)):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout_ms: int | None) -> bool:
        if self.returncode is not None:
            return True
        end = select.poll()
        end.register(self._end, select.POLLIN)
        if not end.poll(timeout_ms):
            return False
        with self._lock:
            if self.returncode is None:
                self.returncode = self._forks.status_of(self.pid)
        return True


class Forks:
    """The process that forks, started when it is first needed, by the main thread: it ends with that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._socket: socket.socket | None = None
        self._settings: dict[str, str] = {}

    def spawn(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any],
        stderr: int | IO[Any],
        cwd: str | Path | None = None,
        start_new_session: bool = False,
    ) -> ChildProcess:
        """Start a command, which is forked if it can be, and executed otherwise."""
        files: dict[str, Any] = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        is_special = stdin != subprocess.DEVNULL or not _are_open((stdout, stderr))
        if is_special or not self._can_fork(command, env):
            process: ChildProcess = subprocess.Popen(
                command, **files, env=env, cwd=cwd, start_new_session=start_new_session
            )
            return process
        request = {
            "program": command[len(COMMAND) - 1],
            "arguments": list(command[len(COMMAND) :]),
            "environment": dict(env),
            "folder": str(cwd or Path.cwd()),
            "is_leader": start_new_session,
        }
        outputs = [one if isinstance(one, int) else one.fileno() for one in (stdout, stderr)]
        return ForkedProcess(self, self._ask(request, outputs), command)

    def status_of(self, pid: int) -> int:
        """Return the exit status of a child that has ended; its number is free from then on."""
        return self._ask({"ended": pid}, [])

    def close(self) -> None:
        """End the process that forks, and what it has forked that ends with its parent."""
        if self._socket is not None and os.getpid() == self._pid:
            self._socket.close()
            self._process.wait()
            self._socket = None

    def _can_fork(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        if (
            tuple(command[: len(COMMAND) - 1]) != COMMAND[:-1]
            or command[len(COMMAND) - 1] not in (COMMAND[-1], *PROGRAMS)
            or os.environ.get(SWITCH) == "no"
            or os.getpid() != self._pid
            or not hasattr(os, "pidfd_open")
        ):
            return False
        with self._lock:
            if self._socket is None and threading.current_thread() is threading.main_thread():
                self._start(environment)
        return self._socket is not None and _settings_of(environment) == self._settings

    def _start(self, environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.forks", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**environment, "PYTHONHASHSEED": HASH_SEED},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._settings = _settings_of(environment)
        self._socket = ours

    def _ask(self, request: dict[str, Any], descriptors: list[int]) -> int:
        assert self._socket is not None
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer = self._socket.recv(64)
        if not answer:
            raise RuntimeError(f"the process that forks has ended with status {self._process.wait()}")
        return int(answer)


def _are_open(outputs: Sequence[int | IO[Any]]) -> bool:
    """Return whether these are descriptors, and not PIPE, DEVNULL or STDOUT of subprocess."""
    return all(not isinstance(one, int) or one >= 0 for one in outputs)


def _settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a Python takes from its environment only when it starts."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


FORKS = Forks()


def usual_environment() -> dict[str, str]:
    """Return the environment of this process with the checkout on the path, as `LocalCluster` has it for nodes."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


def start_ordo(arguments: Sequence[str], log: int | IO[Any], prefix: Sequence[str] = ()) -> ChildProcess:
    """Start a command of `ordo` that runs on and writes to its log; what has a prefix is executed."""
    command = [*prefix, *COMMAND, *arguments]
    return FORKS.spawn(command, env=usual_environment(), stdout=log, stderr=log, cwd=ROOT)


def run_ordo(arguments: Sequence[str], timeout_s: float, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command of `ordo` in a folder, that of this checkout unless one is given, and capture what it prints.

    Raises subprocess.TimeoutExpired.
    """
    return run_program(COMMAND[-1], arguments, timeout_s, folder)


def run_program(
    program: str, arguments: Sequence[str], timeout_s: float, folder: Path = ROOT, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `ordo.cli` or one of PROGRAMS with more in its environment, and capture what it prints.

    Raises subprocess.TimeoutExpired.
    """
    command = [*COMMAND[:-1], program, *arguments]
    environment = usual_environment() | more
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = FORKS.spawn(command, env=environment, stdout=output, stderr=errors, cwd=folder)
        try:
            status = process.wait(patient(timeout_s))
        except BaseException:
            process.kill()
            process.wait()
            raise
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(command, status, *texts)


def serve(requests: socket.socket) -> tuple[str, list[str]]:
    """Fork what is asked for, and return program and arguments in each child. Ends with the other side."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(requests, REQUEST_LENGTH_MAX, len(STANDARD))
        if not text:
            os._exit(0)
        request = json.loads(text)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            requests.send(b"%d" % os.waitstatus_to_exitcode(status))
            continue
        imports_of(request["program"], request["arguments"])
        became, says = os.pipe()
        pid = os.fork()
        if pid == 0:
            requests.close()
            os.close(became)
            become(request, descriptors)
            os.close(says)
            return request["program"], [str(one) for one in request["arguments"]]
        for descriptor in (says, *descriptors):
            os.close(descriptor)
        os.read(became, 1)  # ends when the child leads its session, as `subprocess.Popen` awaits it
        os.close(became)
        requests.send(b"%d" % pid)


def imports_of(program: str, arguments: Sequence[str]) -> None:
    """Import what a command needs besides; none of it starts a thread, which a fork would be without."""
    for module in (program,) if program in PROGRAMS else DOORS.get("".join(arguments[:1]), ()):
        import_module(module)


def become(request: dict[str, Any], outputs: Sequence[int]) -> None:
    """Take over session, folder, environment and descriptors from what was asked for."""
    if request["is_leader"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, descriptor in zip(STANDARD[1:], outputs, strict=True):
        os.dup2(descriptor, number)
    for descriptor in outputs:
        os.close(descriptor)


def main() -> None:
    """Import what is needed, fork, and go on as the command in each child."""
    import gc

    from ordo.runtime.children import die_with_parent

    if not die_with_parent(os.getppid(), signal.SIGKILL):
        return
    for module in IMPORTED:
        import_module(module)
    sys.modules["rich"] = None  # type: ignore[assignment]
    import_module("structlog")  # as a node has it that writes JSON: without what colours a terminal
    del sys.modules["rich"]
    gc.freeze()
    program, arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    if program in PROGRAMS:
        sys.argv = [program, *arguments]
        import_module(program).main()
        return
    if arguments[:1] == ["node"]:
        Spare.fork()
    gc.unfreeze()
    sys.argv = [str(ROOT / "ordo" / "cli.py"), *arguments]
    end(import_module("ordo.cli").run(arguments))


if __name__ == "__main__":
    main()
