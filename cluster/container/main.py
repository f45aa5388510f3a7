"""The service container as a separate process: its node starts and watches it, and it ends with the node.

Exit status: 0 ended in order, 70 the service raised (see the error log in the cluster folder), 1 anything else.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.container.process_copy import ProcessCopier
from ordo.cluster.container.service_container import (
    APP_VERSION_DEFAULT,
    QUERIES_MAX_DEFAULT,
    ContainerIdentity,
    ContainerLimits,
    ServiceContainer,
    open_recording_in,
)
from ordo.cluster.container.service_loader import load_versions
from ordo.cluster.container.streams.outbox import SESSION_BYTES_MAX_DEFAULT, TOTAL_BYTES_MAX_DEFAULT
from ordo.cluster.wire.app_version import format_version, parse_version
from ordo.cluster.wire.counters.counter_types import CounterType, find_counter
from ordo.cluster.wire.counters.dropped_lines import counted_drops
from ordo.cluster.wire.counters.latencies import Latencies, ServiceSamples
from ordo.cluster.wire.counters.mark_file import LIVENESS_TIMEOUT_MS
from ordo.cluster.wire.counters.traces import ServiceTraces, find_traces, threshold_of
from ordo.cluster.wire.log_index.entries import FILE_NAME
from ordo.cluster.wire.log_index.writer import IndexWriter
from ordo.runtime.agents.idle import BackoffIdle, FutexParker
from ordo.runtime.agents.wake import ParkFlag
from ordo.runtime.children import die_with_parent
from ordo.runtime.errors import (
    ClusterTimeoutError,
    ConfigurationError,
    DriverTimeoutError,
    OrdoError,
    ServiceError,
    StorageInUseError,
)
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE, leave
from ordo.runtime.garbage import settle_collector
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import Counter
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.reporting.logging import configure_program, demands_json, get_logger
from ordo.runtime.reporting.output import LINES, printable
from ordo.transport.client.client import TransportClient
from ordo.transport.control.cnc import FILE_NAME as CNC_FILE_NAME

FAILED_STATUS = 1
USAGE_STATUS = 2
PARK_NS_MAX = 100_000_000
"""The node wakes a container for whatever it has for it; what is due by time may wait as long."""
SPINS_MAX = 10
"""Few: on a machine with few cores the node needs the core that a spinning container would hold."""
YIELDS_MAX = 20
"""Behind the spins: while a node has something for its container again and again, waking it would cost both more."""
NODE_TIMEOUT_NS = 10_000_000_000
PREDECESSOR_TIMEOUT_NS = 1_500_000 * LIVENESS_TIMEOUT_MS
DRIVER_TIMEOUT_NS = 24 * 3600 * 1_000_000_000
"""A node that was stopped for a while goes on with its container; one that died takes it along."""


class ContainerRunner:
    """Runs a container on this thread until it has terminated or `stop` is called."""

    def __init__(
        self,
        container: ServiceContainer,
        client: TransportClient,
        clock: SystemClock,
        cluster_id: int = 0,
        service_id: int = 0,
    ) -> None:
        self._container = container
        self._client = client
        self._clock = clock
        self._cluster_id = cluster_id
        self._service_id = service_id
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        idle = BackoffIdle(
            FutexParker(self._find_park_flag()), spins_max=SPINS_MAX, yields_max=YIELDS_MAX, park_ns_max=PARK_NS_MAX
        )
        container, client, clock = self._container, self._client, self._clock
        container.on_start()
        try:
            with counted_drops(self._find_drop_counter(), container.errors):
                while not self._stopping and not container.terminated:
                    now_ns = clock.now()
                    work_count = container.do_work(now_ns) + client.do_work(now_ns)
                    idle.after(work_count, container.park_timeout_ns)
        finally:
            container.on_close()

    def _find_drop_counter(self) -> Counter | None:
        """Return the node's counter of log lines that were dropped."""
        counters = self._client.counters
        counter_id = find_counter(counters, CounterType.LOG_LINES_DROPPED, self._cluster_id)
        return counters.counter(counter_id) if counter_id >= 0 else None

    def _find_park_flag(self) -> ParkFlag:
        """Return the park flag, which the node allocates before it starts the container.

        Wait a little for it when started by hand.
        """
        deadline_ns = self._clock.now() + NODE_TIMEOUT_NS
        idle = BackoffIdle()
        while not self._stopping:
            kind, counters = CounterType.CONTAINER_PARK_FLAG, self._client.counters
            counter_id = find_counter(counters, kind, self._cluster_id, self._service_id)
            if counter_id >= 0:
                return ParkFlag(self._client.counters.counter(counter_id))
            if self._clock.now() > deadline_ns:
                break
            self._client.do_work(self._clock.now())
            idle.after(0)
        raise ClusterTimeoutError(f"no consensus module runs on the driver in {self._client.directory!r}")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ordo.cluster.container.main", description=__doc__)
    parser.add_argument("--cluster-dir", required=True, help="the node's cluster folder, for the mark file")
    parser.add_argument("--archive-dir", required=True, help="the node's archive folder, read only")
    parser.add_argument("--aeron-dir", required=True, help="folder of the node's media driver")
    parser.add_argument(
        "--service",
        required=True,
        action="append",
        metavar="[VERSION=]MODULE:CLASS",
        help="once for each version of the service; without one: version 1",
    )
    parser.add_argument("--service-folder", type=Path, help="where its module is looked for last, if not on the path")
    parser.add_argument("--member-id", type=int, default=0)
    parser.add_argument("--cluster-id", type=int, default=0)
    parser.add_argument("--service-id", type=int, default=0)
    parser.add_argument("--queries-max", type=int, default=QUERIES_MAX_DEFAULT, help="queries at a time")
    parser.add_argument("--egress-buffer-bytes", type=int, default=SESSION_BYTES_MAX_DEFAULT, help="of a slow client")
    parser.add_argument("--egress-buffer-total-bytes", type=int, default=TOTAL_BYTES_MAX_DEFAULT, help="of all clients")
    parser.add_argument("--trace-rate", type=float, default=0.0, help="share of the requests that is traced")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--log-format", default="auto", help="auto, json or text")
    parser.add_argument("--parent-pid", type=int, default=os.getppid(), help="end when this process ends")
    return parser.parse_args(arguments)


def find_versions(names: Sequence[str]) -> dict[int, str]:
    """Return `module:Class` by version, from the arguments of --service. Raises ConfigurationError."""
    found: dict[int, str] = {}
    for name in names:
        version, separator, service = name.rpartition("=")
        app_version = parse_version(version) if separator else APP_VERSION_DEFAULT
        if app_version in found:
            raise ConfigurationError(f"--service {name}: version {format_version(app_version)} is given twice")
        found[app_version] = service
    return found


def await_driver(aeron_dir: str, clock: SystemClock) -> None:
    """Raise DriverTimeoutError when no driver has made its file in the folder in time."""
    deadline_ns = clock.now() + NODE_TIMEOUT_NS
    idle = BackoffIdle()
    while not os.path.exists(f"{aeron_dir}/{CNC_FILE_NAME}"):
        if clock.now() > deadline_ns:
            raise DriverTimeoutError(f"no media driver in {aeron_dir!r}; start the node, or correct the folder")
        idle.after(0)


def await_predecessor(build: Callable[[], ServiceContainer], clock: SystemClock) -> ServiceContainer:
    """Build the container once the mark file is free: a killed node's container may take a moment to go."""
    deadline_ns = clock.now() + PREDECESSOR_TIMEOUT_NS
    idle = BackoffIdle()
    while True:
        try:
            return build()
        except StorageInUseError:
            if clock.now() > deadline_ns:
                raise
        idle.after(0)


def _measure(
    container: ServiceContainer, options: argparse.Namespace, clock: SystemClock, memory: FileMemoryProvider
) -> None:
    """Set up durations and traces for the service that answers queries."""
    latencies = Latencies.find(memory, options.aeron_dir, options.cluster_id, writable=True)
    ring = find_traces(memory, options.aeron_dir, options.cluster_id) if options.trace_rate else None
    if ring is not None:
        container.traces = ServiceTraces(ring, clock, threshold_of(options.trace_rate))
    container.set_samples(None if latencies is None else ServiceSamples(latencies, clock))


def run_container(options: argparse.Namespace) -> None:
    """Build and run the container; raise what ended it."""
    as_json = None if options.log_format == "auto" else options.log_format == "json"
    configure_program(options.log_level, json=as_json)
    # Nothing less than SIGKILL: a container in a long callback would go on beside the one that a new node starts.
    if not die_with_parent(options.parent_pid, signal.SIGKILL):
        raise ClusterTimeoutError("the node that started this container is gone")
    service = load_versions(find_versions(options.service), options.service_folder)
    service.prepare()
    settle_collector()
    clock, memory = SystemClock(), FileMemoryProvider()
    await_driver(options.aeron_dir, clock)
    with TransportClient(
        options.aeron_dir,
        clock=clock,
        memory=memory,
        name=f"service-{options.service_id}",
        driver_timeout_ns=DRIVER_TIMEOUT_NS,
    ) as client:
        container = await_predecessor(
            partial(
                ServiceContainer,
                service,
                ContainerIdentity(options.cluster_dir, options.member_id, options.service_id, options.cluster_id),
                client=client,
                clock=clock,
                open_recording=open_recording_in(FileStorage(open_lmdb), options.archive_dir),
                memory=memory,
                limits=ContainerLimits(
                    options.queries_max, options.egress_buffer_bytes, options.egress_buffer_total_bytes
                ),
            ),
            clock,
        )
        container.snapshots.copier = ProcessCopier()
        if container.answers:
            _measure(container, options, clock, memory)
            container.index = IndexWriter(f"{options.cluster_dir}/{FILE_NAME}", container.execution.record_error)
        runner = ContainerRunner(container, client, clock, options.cluster_id, options.service_id)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: runner.stop())
        runner.run()


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        run_container(parse_arguments(arguments))
    except ServiceError as error:
        return _report(error, EXIT_STATUS_SERVICE)
    except ConfigurationError as error:
        return _report(error, USAGE_STATUS)
    except OrdoError as error:
        return _report(error, FAILED_STATUS)
    return 0


def _report(error: OrdoError, status: int) -> int:
    if demands_json():
        get_logger().error("service.failed", text=error.message, exit_status=status)
        return status
    print(f"ordo service container: {printable(error.message, LINES)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    leave(main())
