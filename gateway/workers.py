"""Several processes of a gateway on one port: `ordo gateway --workers`.

The kernel gives each connection to one of them (SO_REUSEPORT). Each is a gateway by itself, with its own sessions with
the cluster and its own limits. The process that was started serves nothing: it holds the address, puts another worker
in the place of one that died, and ends them all.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol

from ordo.gateway.callers.settings import GatewaySettings
from ordo.runtime import children
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.logging import get_logger

ENDING = {signal.SIGTERM, signal.SIGINT}
WATCHED = {*ENDING, signal.SIGCHLD}
FAILED = 1
LOOK_S = 0.1
"""How often a signal is looked for while a worker starts or ends."""
START_S = 60.0
"""How long a worker may take to serve, before it is killed; one that takes another's place is replaced itself."""
PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 10.0
"""For how long the place of a worker that died stays empty: longer each time, if one dies soon after another."""
CALM_S = 30.0
"""The pause is the shortest again after this time without a death."""
END_S = 5.0
"""How much longer than the grace a worker may take to end."""


class Run(Protocol):
    """Serves until SIGTERM or SIGINT, and says when it has begun."""

    def __call__(self, settings: GatewaySettings, on_started: Callable[[], object]) -> Coroutine[None, None, None]: ...


def run_workers(run: Run, settings: GatewaySettings) -> None:
    """Run the workers until SIGTERM or SIGINT. Raises ConfigurationError, SystemExit for a worker that cannot start."""
    if not settings.client.egress_channel.endswith(":0"):
        raise ConfigurationError("--egress: with --workers its port must be 0, for each worker has its own")
    with _hold_address(settings.listen) as held:
        host = settings.listen.rpartition(":")[0]
        Workers(run, replace(settings, listen=f"{host}:{held.getsockname()[1]}")).run()


@contextmanager
def _hold_address(listen: str) -> Iterator[socket.socket]:
    """Keep an address, which workers share, from other programs. Raises ConfigurationError if it cannot be had."""
    host, _, port = listen.rpartition(":")
    with ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, _, _, place = found[0]
            if place[1]:  # of two that begin at the same time, one gets the lock
                lock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                lock.bind(f"\0ordo-gateway-{place}")
            with _bound(family, kind, place, socket.SO_REUSEADDR) as alone:  # fails where another program listens
                place = (place[0], alone.getsockname()[1], *place[2:])
            held = stack.enter_context(_bound(family, kind, place, socket.SO_REUSEADDR, socket.SO_REUSEPORT))
        except OSError as error:
            raise ConfigurationError(f"--listen {listen}: {error.strerror or error}") from None
        yield held


def _bound(family: int, kind: int, place: tuple[Any, ...], *options: int) -> socket.socket:
    made = socket.socket(family, kind)
    try:
        for one in options:
            made.setsockopt(socket.SOL_SOCKET, one, 1)
        made.bind(place)
    except BaseException:
        made.close()
        raise
    return made


class Starting(NamedTuple):
    """A worker that does not serve yet."""

    told: BinaryIO
    """What it tells once it serves."""
    until_s: float

    @property
    def has_told(self) -> bool:
        """Return whether it serves, or has ended."""
        return bool(select.select([self.told], [], [], 0)[0])


class Workers:
    """The processes of one gateway, from the one that started them."""

    def __init__(self, run: Run, settings: GatewaySettings) -> None:
        self._run = run
        self._settings = settings
        self._pids: dict[int, int] = {}
        """Worker -> its process. Empty in a worker."""
        self._pause_s = PAUSE_MIN_S
        """How long the place of the next one that dies stays empty."""
        self._starting: dict[int, Starting] = {}
        """Workers that are to take another's place, and do not serve yet."""
        self._due_s: dict[int, float] = {}
        """Worker that died -> when another one takes its place."""
        self._calm_s = 0.0
        """When the pause is the shortest again, unless one dies before."""

    def run(self) -> None:
        """Start all, and see to them until SIGTERM or SIGINT. Raises SystemExit in workers, and where one fails.

        The signals stay blocked, for the process ends then: another SIGTERM does not change how.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        try:
            if self._start_all():
                pids = list(self._pids.values())
                get_logger().info("gateway.workers", address=self._settings.listen, processes=pids)
                self._see_to_all()
        finally:
            failed = self._end()
        if failed:
            raise SystemExit(FAILED)

    def _start_all(self) -> bool:
        """Start each, and return whether they serve; if not, SIGTERM has come. Raises SystemExit if one cannot."""
        for number in range(self._settings.workers):
            status = self._start(number)
            if status is None:
                return False
            if status:
                raise SystemExit(status if status > 0 else FAILED)
        return True

    def _see_to_all(self) -> None:
        while True:
            found = signal.sigtimedwait(WATCHED, self._rest_s())
            if found is not None and found.si_signo in ENDING:
                return
            self._note_dead()
            self._note_started()
            self._replace_dead()

    def _rest_s(self) -> float:
        """Return how long to wait for a signal."""
        if self._starting:
            return LOOK_S
        due_s = min(self._due_s.values(), default=None)
        return PAUSE_MAX_S if due_s is None else max(0.0, due_s - time.monotonic())

    def _start(self, number: int) -> int | None:
        """Start a worker, and wait until it serves: return 0, else its status, negative for a signal that ended it.

        None: SIGTERM or SIGINT has come. Raises SystemExit in the worker at its end.
        """
        until_s = time.monotonic() + START_S
        with self._fork(number) as told:
            while not select.select([told], [], [], LOOK_S)[0]:
                if signal.sigpending() & ENDING:
                    return None
                if time.monotonic() > until_s:
                    until_s = float("inf")
                    self._kill_starting(number)
            if told.read(1):
                return 0
        status = os.waitstatus_to_exitcode(os.waitpid(self._pids[number], 0)[1])
        if status < 0:  # otherwise it has said itself why
            _tell_died(self._pids[number], f"signal {-status}, while it started")
        del self._pids[number]
        return status or FAILED

    def _fork(self, number: int) -> BinaryIO:
        """Start a worker, and return what it writes to once it serves. Raises SystemExit in the worker at its end."""
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._pids.clear()
            os.close(reading)
            self._serve(number, parent, writing)
        os.close(writing)
        self._pids[number] = pid
        return os.fdopen(reading, "rb")

    def _serve(self, number: int, parent: int, writing: int) -> NoReturn:
        """Be a worker. Raises SystemExit in the end, ConfigurationError."""
        if not children.die_with_parent(parent, signal.SIGKILL):
            raise SystemExit(FAILED)
        settings = self._settings
        if number:
            settings = replace(settings, console="", console_names=(), decoder="")
        asyncio.run(self._run_unblocked(settings, writing))
        raise SystemExit(0)

    async def _run_unblocked(self, settings: GatewaySettings, writing: int) -> None:
        """Serve, and take signals only once the loop handles them: before, they would end the process."""

        def tell_parent() -> None:
            with suppress(BrokenPipeError):  # it is ending already, and does not listen any more
                os.write(writing, b"1")

        serving = asyncio.ensure_future(self._run(settings, tell_parent))
        await asyncio.sleep(0)  # it handles them from its first step on
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        try:
            await serving
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # the loop handles them no more

    def _note_dead(self) -> None:
        """Have those that ended replaced. Raises SystemExit where one could not start, which has said itself why."""
        for number, pid in list(self._pids.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if not found:
                continue
            del self._pids[number]
            code = os.waitstatus_to_exitcode(status)
            ended_by = f"signal {-code}" if code < 0 else f"status {code}"
            starting = self._starting.pop(number, None)
            if starting is not None:
                with starting.told as told:
                    has_served = bool(told.read(1))
                if not has_served and code >= 0:
                    raise SystemExit(code or FAILED)
                ended_by += "" if has_served else ", while it started"
            _tell_died(pid, ended_by, again_after_s=self._put_off(number))

    def _note_started(self) -> None:
        """Note which serve by now, and kill those that took too long, which are replaced once they have ended."""
        for number, one in list(self._starting.items()):
            if one.has_told and one.told.read(1):
                one.told.close()
                del self._starting[number]
            elif time.monotonic() > one.until_s:
                self._starting[number] = one._replace(until_s=float("inf"))
                self._kill_starting(number)

    def _kill_starting(self, number: int) -> None:
        get_logger().error("gateway.worker-killed", process=self._pids[number], after_s=START_S)
        os.kill(self._pids[number], signal.SIGKILL)

    def _put_off(self, number: int) -> float:
        """Have another worker take its place after a pause, which is returned, and longer if one died just before."""
        now_s = time.monotonic()
        if now_s > self._calm_s:
            self._pause_s = PAUSE_MIN_S
        pause_s = self._pause_s
        self._due_s[number] = now_s + pause_s
        self._calm_s = now_s + pause_s + CALM_S
        self._pause_s = min(2 * pause_s, PAUSE_MAX_S)
        return pause_s

    def _replace_dead(self) -> None:
        """Start others in the place of those that are due. What each of them takes to start holds nobody up."""
        now_s = time.monotonic()
        for number in [one for one, due_s in self._due_s.items() if due_s <= now_s]:
            del self._due_s[number]
            self._starting[number] = Starting(self._fork(number), now_s + START_S)

    def _end(self) -> bool:
        """End all workers, those that do not end by SIGKILL, and return whether one of them did not end well."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGTERM)
        end_s = time.monotonic() + self._settings.grace_s + END_S
        statuses = []
        while self._pids:
            for number, pid in list(self._pids.items()):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    del self._pids[number]
                    statuses.append(status)
            if self._pids and time.monotonic() > end_s:
                for pid in self._pids.values():
                    get_logger().error("gateway.worker-killed", process=pid, after_s=self._settings.grace_s + END_S)
                    os.kill(pid, signal.SIGKILL)
                end_s = float("inf")
            if self._pids:
                signal.sigtimedwait({signal.SIGCHLD}, LOOK_S)
        return any(statuses)


def _tell_died(pid: int, ended_by: str, **more: object) -> None:
    get_logger().error("gateway.worker-died", process=pid, ended_by=ended_by, **more)
