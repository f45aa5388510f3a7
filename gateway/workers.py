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
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, NoReturn, Protocol

from ordo.gateway.callers.settings import GatewaySettings
from ordo.runtime import children
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.logging import get_logger

ENDING = {signal.SIGTERM, signal.SIGINT}
WATCHED = {*ENDING, signal.SIGCHLD}
FAILED = 1
LOOK_S = 0.1
"""How often a signal is looked for while a worker starts."""


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


def _hold_address(listen: str) -> socket.socket:
    """Keep an address, which workers share, from other programs. Raises ConfigurationError if it cannot be had."""
    host, _, port = listen.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, place = found[0]
        with _bound(family, kind, place, socket.SO_REUSEADDR) as alone:  # fails where another gateway has workers
            place = (place[0], alone.getsockname()[1], *place[2:])
        return _bound(family, kind, place, socket.SO_REUSEADDR, socket.SO_REUSEPORT)
    except OSError as error:
        raise ConfigurationError(f"--listen {listen}: {error.strerror or error}") from None


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


class Workers:
    """The processes of one gateway, from the one that started them."""

    def __init__(self, run: Run, settings: GatewaySettings) -> None:
        self._run = run
        self._settings = settings
        self._pids: dict[int, int] = {}
        """Worker -> its process. Empty in a worker."""
        self._mask: set[int] = set()

    def run(self) -> None:
        """Start all, and see to them until SIGTERM or SIGINT. Raises SystemExit in workers, and where one fails."""
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED))
        try:
            for number in range(self._settings.workers):
                self._start(number)
            pids = list(self._pids.values())
            get_logger().info("gateway.workers", address=self._settings.listen, processes=pids)
            while signal.sigwait(WATCHED) == signal.SIGCHLD:
                self._replace_dead()
        finally:
            failed = self._end()
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        if failed:
            raise SystemExit(FAILED)

    def _start(self, number: int) -> None:
        """Start a worker, and wait until it serves. Raises SystemExit if it does not, and in the worker at its end."""
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._pids.clear()
            os.close(reading)
            self._serve(number, parent, writing)
        os.close(writing)
        self._pids[number] = pid
        with os.fdopen(reading, "rb") as told:
            while not select.select([told], [], [], LOOK_S)[0]:
                if signal.sigpending() & ENDING:
                    return
            if not told.read(1):  # it has said itself why
                del self._pids[number]
                raise SystemExit(abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) or FAILED)

    def _serve(self, number: int, parent: int, writing: int) -> NoReturn:
        """Be a worker. Raises SystemExit in the end, ConfigurationError."""
        if not children.die_with_parent(parent, signal.SIGTERM):
            raise SystemExit(FAILED)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        settings = self._settings
        if number:
            settings = replace(settings, console="", console_names=(), decoder="")
        asyncio.run(self._run(settings, lambda: os.write(writing, b"1")))
        raise SystemExit(0)

    def _replace_dead(self) -> None:
        for number, pid in list(self._pids.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._pids[number]
                code = os.waitstatus_to_exitcode(status)
                ended_by = f"signal {-code}" if code < 0 else f"status {code}"
                get_logger().error("gateway.worker-died", process=pid, ended_by=ended_by)
                self._start(number)

    def _end(self) -> bool:
        """End all workers, and return whether one of them did not end well."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGTERM)
        statuses = [os.waitpid(pid, 0)[1] for pid in self._pids.values()]
        return any(statuses)
