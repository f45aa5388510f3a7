"""`ordo dev`: a cluster on this machine in the foreground, started again whenever the service's code changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from ordo.cluster.container.service_loader import load_service
from ordo.deploy.launcher import LocalCluster
from ordo.init import MEMBERS_MAX, PORTS_APART
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError, OrdoError, ServiceError
from ordo.runtime.reporting.log_sink import drop_what_cannot_be_written
from ordo.runtime.reporting.terminal import output_console

POLL_INTERVAL_S = 0.2
CHECK_TIMEOUT_S = 30.0
SETTLE_S = 0.3
"""An editor writes several files; they are taken together."""
WATCHED_MAX = 10_000
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build"})

Stamps = dict[Path, tuple[int, int]]


def stamps(folder: Path) -> Stamps:
    """Time and length of every Python file below a folder; hidden folders and virtual environments are left out."""
    found: Stamps = {}
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            one for one in folders if one[0] != "." and one not in SKIPPED and not (here / one / "pyvenv.cfg").exists()
        )
        for path in (here / name for name in names if name.endswith(".py")):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # removed just now
            found[path] = (status.st_mtime_ns, status.st_size)
            if len(found) > WATCHED_MAX:
                raise ConfigurationError(
                    f"more than {WATCHED_MAX} Python files below {folder}: run this in the folder of your service, or"
                    " give --no-reload"
                )
    return found


def changed(before: Stamps, after: Stamps) -> list[Path]:
    """Files that are new, gone or different, in order."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


class DevCluster:
    """The cluster, what it prints, and what is watched."""

    def __init__(
        self,
        service: str,
        console: Console,
        *,
        member_count: int,
        port: int,
        data: Path | None,
        is_watching: bool,
        is_fresh: bool,
    ) -> None:
        if not 1 <= member_count <= MEMBERS_MAX:
            raise ConfigurationError(f"--members {member_count}: allowed are 1 to {MEMBERS_MAX}")
        load_service(service)
        self._console = console
        self._folder = Path.cwd()
        self._is_watching, self._is_fresh = is_watching, is_fresh
        self._watched = stamps(self._folder) if is_watching else {}
        self._read: dict[int, int] = {}
        self._cluster = LocalCluster(
            service,
            member_count=member_count,
            root=data,
            keep=data is not None,
            sync="none",
            cluster={"session_timeout": "5m", "log_term_length": "1m", "segment_length": "16m"},
            ports=[port + member_id * PORTS_APART for member_id in range(member_count)],
        )

    def run(self) -> None:
        """Until the process is told to end. Raises NodeFailedError when a node fails and nothing is watched."""
        try:
            while True:
                self._start()
                while not self._is_changed():
                    self._show_logs()
                    time.sleep(POLL_INTERVAL_S)
                self._cluster.stop_all()
                if self._is_fresh:
                    for member_id in self._cluster.member_ids:
                        self._cluster.wipe(member_id)
        finally:
            self._cluster.close()
            self._show_logs()

    def _start(self) -> None:
        cluster = self._cluster
        try:
            self._check_service()
            cluster.start()
            leader = cluster.await_leader()
        except OrdoError as error:
            if not self._is_watching or isinstance(error, ClusterTimeoutError):
                raise
            self._show_logs()
            self._say(f"failed: {error.message}")
            self._say("waiting for a change of the code")
            return
        self._show_logs()
        endpoints = ", ".join(f"{member_id}: {one}" for member_id, one in cluster.ingress_endpoints.items())
        self._say(f"{cluster.service} runs on {len(cluster.member_ids)} members, member {leader} leads; ^C ends it")
        self._say(f"clients connect to {endpoints}; data and logs are in {cluster.root}")

    def _check_service(self) -> None:
        """Try the service in a process of its own, so that the code of now is tried. Raises ServiceError."""
        command = [sys.executable, "-P", "-m", "ordo.dev_check", self._cluster.service]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            self._say(f"the service was not tried: it did not come to an end within {CHECK_TIMEOUT_S:g} s")
            return
        lines = done.stdout.splitlines()
        if done.returncode == 1 and lines:
            raise ServiceError(lines[-1])
        for line in lines:
            self._say(f"warning: {line}")

    def _is_changed(self) -> bool:
        if not self._is_watching:
            self._cluster.check_running()
            return False
        now = stamps(self._folder)
        if now == self._watched:
            return False
        time.sleep(SETTLE_S)
        now = stamps(self._folder)
        names = [str(path.relative_to(self._folder)) for path in changed(self._watched, now)]
        self._watched = now
        self._say(f"changed: {', '.join(names)}; starting again")
        return True

    def _show_logs(self) -> None:
        """Show what nodes and services printed since the last time; of the log only warnings and errors."""
        for member_id in self._cluster.member_ids:
            for line in self._new_lines(member_id):
                for shown in _lines_of(line):
                    self._console.print(f"member {member_id}: {shown}", markup=False, highlight=False, soft_wrap=True)

    def _new_lines(self, member_id: int) -> Iterator[str]:
        path = self._cluster.log_path(member_id)
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read.get(member_id, 0))
            whole, separator, _ = file.read().rpartition(b"\n")
        self._read[member_id] = self._read.get(member_id, 0) + len(whole) + len(separator)
        yield from whole.decode(errors="replace").splitlines()

    def _say(self, text: str) -> None:
        self._console.print(f"ordo dev: {text}", markup=False, highlight=False, soft_wrap=True)


def _lines_of(line: str) -> list[str]:
    """Return what is shown of a line of a node's log.

    What services print as it is, events that are no news not at all, what the service raised with its traceback as
    Python prints it.
    """
    try:
        event = json.loads(line) if line.startswith("{") else None
    except ValueError:
        event = None
    if not isinstance(event, dict):
        return [line]
    if event.get("level") not in ("warning", "error"):
        return []
    if event.get("event") != "service.failed":
        return [line]
    payload = f", payload {event['payload']}" if "payload" in event else ""
    return [f"{event.get('text')}{payload}", *str(event.get("traceback")).splitlines()]


def run_dev(
    service: str, *, member_count: int, port: int, data: Path | None, is_watching: bool, is_fresh: bool
) -> None:
    """Run until SIGINT or SIGTERM, which both end it properly."""

    def on_signal(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    drop_what_cannot_be_written()
    signal.signal(signal.SIGTERM, on_signal)
    cluster = DevCluster(
        service,
        output_console(),
        member_count=member_count,
        port=port,
        data=data,
        is_watching=is_watching,
        is_fresh=is_fresh,
    )
    try:
        cluster.run()
    except KeyboardInterrupt:
        return
