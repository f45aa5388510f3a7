"""The process that shows a node's metrics and health, as its node starts and watches it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from ordo.runtime.children import end_children
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.spans import check_packages

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings

RESTART_INTERVAL_NS = 5_000_000_000
STOP_TIMEOUT_S = 5.0
BACKLOG = 64


class MetricsProcess:
    """The process that serves metrics, if `[metrics] port` is set, and sends traces, if `[tracing] endpoint` is.

    It is restarted when it dies.

    The node holds the listening socket, so a port that is taken stops its start, and no scrape is lost to a restart.
    Raises ConfigurationError when the port cannot be had.
    """

    def __init__(self, config: NodeSettings) -> None:
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._next_start_ns = 0
        if config.tracing.endpoint:
            check_packages("tracing.endpoint")
        self._listener = None if config.metrics.port is None else self._listen()

    def _listen(self) -> socket.socket:
        host, port = self._config.metrics.host, self._config.metrics.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host.strip("[]"), port or 0), family=family, backlog=BACKLOG)
        except OSError as error:
            raise ConfigurationError(
                f"metrics: cannot listen on {host}:{port}: {error.strerror}; give another [metrics] host or port"
            ) from error

    @property
    def port(self) -> int | None:
        """The port it listens on; for port 0, the one that the system chose."""
        return None if self._listener is None else int(self._listener.getsockname()[1])

    def watch(self, now_ns: int) -> None:
        """Start the process when it does not run, at most once in RESTART_INTERVAL_NS."""
        if (self._listener is None and not self._config.tracing.endpoint) or now_ns < self._next_start_ns:
            return
        if self._process is None or self._process.poll() is not None:
            self._process = self._start(None if self._listener is None else self._listener.fileno())
        self._next_start_ns = now_ns + RESTART_INTERVAL_NS

    def _start(self, listener: int | None) -> subprocess.Popen[bytes]:
        config = self._config
        options = {
            "listener": -1 if listener is None else listener,
            "trace-endpoint": config.tracing.endpoint,
            "parent-pid": os.getpid(),
            "member-id": config.node.member_id,
            "cluster-id": config.cluster.cluster_id,
            "aeron-dir": config.aeron_dir.absolute(),
            "data-dir": config.node.data_dir.absolute(),
            "disk-free-min": config.metrics.disk_free_bytes_min,
            "clock-error-max": config.metrics.clock_error_ns_max,
        }
        command = [sys.executable, "-P", "-m", "ordo.cluster.monitoring.metrics_main"]
        command += [f"--{name}={value}" for name, value in options.items()]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[] if listener is None else [listener])

    def close(self) -> None:
        """End the process and let the port go."""
        if self._process is not None and self._process.poll() is None:
            end_children([self._process], STOP_TIMEOUT_S)
        if self._listener is not None:
            self._listener.close()
