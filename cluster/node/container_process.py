"""The service container as a child process of its node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from ordo.cluster.wire.app_version import format_version
from ordo.cluster.wire.counters.component_errors import read_component_errors
from ordo.cluster.wire.counters.mark_file import container_mark_file_name
from ordo.runtime.children import ChildProcess, end_children
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from ordo.runtime.native.memory import FileMemoryProvider

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings

STOP_TIMEOUT_S = 5.0
HASH_SEED = "0"
WATCH_INTERVAL_NS = 100_000_000


class ContainerProcess:
    """Starts, watches and ends `python -m ordo.cluster.container.main`.

    The child also dies with its parent by itself.
    """

    spawn: ClassVar[Callable[..., ChildProcess]] = subprocess.Popen
    """What starts the container, from the arguments of Popen."""

    def __init__(self, config: NodeSettings, service_names: Mapping[int, str], service_id: int = 0) -> None:
        """`service_names`: module:Class by version."""
        self._command = [
            sys.executable,
            "-P",  # a file of the user's must not be taken for a package of Ordo's
            "-m",
            "ordo.cluster.container.main",
            "--cluster-dir",
            str(config.cluster_dir),
            "--archive-dir",
            str(config.archive_dir),
            "--aeron-dir",
            str(config.aeron_dir),
            "--member-id",
            str(config.node.member_id),
            "--cluster-id",
            str(config.cluster.cluster_id),
            "--service-id",
            str(service_id),
            "--queries-max",
            str(config.cluster.queries_max),
            "--egress-buffer-bytes",
            str(config.cluster.egress_buffer_bytes),
            "--egress-buffer-total-bytes",
            str(config.cluster.egress_buffer_total_bytes),
            "--trace-rate",
            str(config.tracing.rate if config.tracing.endpoint else 0.0),
            "--log-level",
            config.node.log_level,
            "--log-format",
            config.node.log_format,
            *([] if config.folder is None else ["--service-folder", str(config.folder)]),
            *(f"--service={format_version(one)}={name}" for one, name in sorted(service_names.items())),
            "--parent-pid",
            str(os.getpid()),
        ]
        self._mark_file = str(config.cluster_dir / container_mark_file_name(service_id))
        self.process: ChildProcess | None = None
        self._watch_ns = 0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None else None

    def start(self) -> None:
        # Strings hash alike on every member, so that a service which iterates over a set of them does so, too.
        environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
        self.process = self.spawn(self._command, stdin=subprocess.DEVNULL, env=environment)

    def has_ended(self, now_ns: int) -> bool:
        """Return whether it is seen to have ended; looks a few times a second, however often it is called."""
        if now_ns < self._watch_ns:
            return False
        self._watch_ns = now_ns + WATCH_INTERVAL_NS
        return not self.is_alive()

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def failure(self) -> str | None:
        """Return why it died by itself, in one line; None while it runs, and if it ended properly."""
        status = self.process.poll() if self.process is not None else None
        return self._describe(status) if status is not None else None

    @property
    def has_raised(self) -> bool:
        """Whether it ended because its service raised, as it would again after a new start."""
        return self.process is not None and self.process.poll() == EXIT_STATUS_SERVICE

    def _describe(self, status: int) -> str | None:
        if status == 0:
            return None
        if status < 0:
            return f"the service container (pid={self.pid}) was killed by signal {-status}: the node ends with it"
        return f"the service container (pid={self.pid}) ended with status {status}: {self._last_error()}"

    def _last_error(self) -> str:
        """First and last line of the newest entry in the container's error log: where, and what was raised."""
        observations = read_component_errors(FileMemoryProvider(), self._mark_file)
        if not observations:
            return "it left nothing in its error log"
        lines = max(observations, key=lambda one: one.last_ms).text.splitlines()
        return " | ".join(dict.fromkeys((lines[0], lines[-1])))


def end_containers(containers: Iterable[ContainerProcess], meanwhile: Callable[[], object] | None) -> None:
    """End those that run, all at once; `meanwhile` as `end_children` has it."""
    running = [one.process for one in containers if one.process is not None and one.is_alive()]
    end_children(running, STOP_TIMEOUT_S, meanwhile)
