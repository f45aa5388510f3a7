"""A node: one member's driver, archive, consensus module and service, and the process around them."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ordo.archive.archive import Archive
from ordo.archive.protocol.codes import REFUSALS
from ordo.archive.segments.catalog import CATALOG_NAME
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.checks.requirements import files_reserved, look_ahead
from ordo.cluster.module.consensus_module import ConsensusModule
from ordo.cluster.module.member_parts import ModuleSeams
from ordo.cluster.module.state.commit_note import CommitNote
from ordo.cluster.module.state.folder_rows import Claim, Owner, claim
from ordo.cluster.module.state.peer_notes import PeerNotes
from ordo.cluster.module.state.state_store import open_state_store
from ordo.cluster.monitoring.observation import free_bytes
from ordo.cluster.node.archive_service import LogPlaces, serve_archive
from ordo.cluster.node.authentication import make_authenticator
from ordo.cluster.node.container_process import ContainerProcess, end_containers
from ordo.cluster.node.cycle import NodeCycle
from ordo.cluster.node.disk_wait import DiskWait, is_want_of_room
from ordo.cluster.node.driver_bounds import driver_bounds
from ordo.cluster.node.life_log import log_start, log_stop
from ordo.cluster.node.metrics_process import MetricsProcess
from ordo.cluster.node.service_check import check_services
from ordo.cluster.node.shared_driver import connect_shared_driver
from ordo.cluster.settings.config import NodeSettings
from ordo.cluster.wire.counters.component_errors import ComponentErrors
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.counters.dropped_lines import counted_drops
from ordo.cluster.wire.counters.latencies import SYNC, Latencies, LogSamples, latencies_path
from ordo.cluster.wire.counters.look_durations import durations_to_numbers
from ordo.cluster.wire.counters.mark_file import MODULE_MARK_FILE_NAME, ComponentType
from ordo.cluster.wire.counters.traces import (
    FollowerTraces,
    LogTraces,
    create_traces,
    threshold_of,
    traces_path,
)
from ordo.cluster.wire.streams import (
    CONTROL_CHANNEL,
    INGRESS_STREAM_ID,
    TO_MODULE_STREAM_ID,
    TO_SERVICE_STREAM_ID,
    local_stream,
)
from ordo.runtime.agents.wake import ParkFlag
from ordo.runtime.errors import ArchiveError, ClusterError, ConfigurationError, OrdoError, StorageFullError
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from ordo.runtime.garbage import settle_collector
from ordo.runtime.io.storage import FileStorage, Storage, SyncQueue
from ordo.runtime.native.clock import Clock, SystemClock
from ordo.runtime.native.counters import local_counter
from ordo.runtime.native.file_access import choose_file_access
from ordo.runtime.native.memory import FileMemoryProvider, MemoryProvider
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.random import RandomSource
from ordo.runtime.reporting.logging import get_logger
from ordo.runtime.version import VERSION
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.directory import WAKE_SOCKET_NAME
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.udp import UdpNetwork

if TYPE_CHECKING:
    from ordo.archive.control.conductor import ControlConductor
    from ordo.cluster.container.service_container import ServiceContainer
    from ordo.cluster.container.versions import ServiceVersions
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.runtime.io.datagram import DatagramNetwork
    from ordo.service_api.service import Service
    from ordo.transport.control.ring import ManyToOneRing

TIMER_INTERVAL_NS = 100_000_000
FAREWELL_NS = 3 * TIMER_INTERVAL_NS
"""The publication drains at one driver timer, and says so with its next heartbeat."""
PARK_NS = 1_000_000
START_DRAW_BITS = 63
LOW_SPACE_SHARE = 8
"""No recording begins with less room than this share of disk_low; below a quarter of it none of the log does."""
CLIENT_LIVENESS_TIMEOUT_NS = 24 * 3600 * 1_000_000_000
"""The container's process is watched; a callback may sit at a breakpoint for hours."""


@dataclass(frozen=True)
class NodeSeams:
    """The world a node runs in: the real one, or a simulated one."""

    clock: Clock
    network: DatagramNetwork
    memory: MemoryProvider
    storage: Storage
    random: RandomSource
    events: Callable[..., object] = lambda *_, **__: None
    """Takes canonical events for the log of the process; nobody listens in simulation."""


def real_seams(descriptors_kept: int = 0) -> NodeSeams:
    """Return the node's real seams; sockets leave `descriptors_kept` descriptors to files."""
    return NodeSeams(
        SystemClock(),
        UdpNetwork(descriptors_kept),
        FileMemoryProvider(),
        FileStorage(open_lmdb),
        RandomSource(),
        lambda event, **context: get_logger().info(event, **context),  # by the level of now
    )


class Node:
    """Everything of one member on the caller's thread. `services` run inline; None leaves them to other processes.

    Raises OrdoError subclasses with one clear line when a folder is in use, a port is taken or memory is short;
    nothing is left behind then.
    """

    is_standby: ClassVar[bool] = False
    """The node copies a cluster's log, and takes no part in consensus."""

    def __init__(
        self,
        config: NodeSettings,
        seams: NodeSeams,
        services: Sequence[Service | ServiceVersions] | None = None,
        on_tick: Callable[[int], None] | None = None,
    ) -> None:
        self.config = config
        self._seams = seams
        self._closers: list[Callable[[], Any]] = []
        try:
            self._build(services, on_tick)
        except BaseException:
            self.close()
            raise

    def _build(
        self, services: Sequence[Service | ServiceVersions] | None, on_tick: Callable[[int], None] | None
    ) -> None:
        config, seams = self.config, self._seams
        for directory in (config.node.data_dir, config.archive_dir, config.cluster_dir):
            seams.storage.make_directory(str(directory))
        self._closers.append(seams.storage.lock_directory(str(config.node.data_dir)).close)
        self.errors = self._open_errors()
        self._closers.append(self.errors.close)
        store, lost_state = self._open_store()
        taken = self._claim(store)
        self.driver = self._start_driver() if config.node.own_driver else None
        self.client = self._connect()
        self._closers.append(self.client.close)
        self._park_flag = self._find_park_flag()
        self.latencies = self._make_latencies()
        sync_queue = self._make_sync_queue()
        sync_queue.measure(self.latencies.histograms[SYNC])
        self._traces = self._make_traces()
        self._closers.append(sync_queue.close)
        self.archive = Archive(
            str(config.archive_dir),
            storage=seams.storage,
            clock=seams.clock,
            client=self.client,
            sync=config.node.sync,
            segment_length_bytes=config.cluster.segment_length_bytes,
            sync_queue=sync_queue,
            low_space_bytes=config.archive.disk_low_bytes // LOW_SPACE_SHARE,
        )
        self._closers.append(self.archive.close)
        self._authenticator = make_authenticator(config, seams.clock)
        self.module = self._make_module(store, lost_state, taken)
        self.control = self._serve_archive() if config.node.max_replays else None
        self.containers = self._inline_containers(services or ())
        self.cycle = NodeCycle(
            self.driver,
            self.archive,
            self.module,
            self.client,
            self.containers,
            seams.clock,
            self._on_tick,
            config.node.spins,
            LogSamples(self.latencies, seams.clock),
            self._park_flag,
        )
        self._watch = on_tick

    def _open_store(self) -> tuple[StateStore, str | None]:
        """Return the store of votes and terms, and how an earlier one was lost, or None."""
        config, seams = self.config, self._seams
        has_run = seams.storage.exists(str(config.archive_dir / CATALOG_NAME))
        path = str(config.cluster_dir / "state.mdb")
        store, lost_state = open_state_store(seams.storage, path, seams.clock.epoch_ms(), is_expected=has_run)
        self._closers.append(store.close)
        return store, lost_state

    def _claim(self, store: StateStore) -> Claim:
        """Take the folder for this start. Raises ClusterError if it belongs to another member or cluster."""
        config = self.config
        owner = Owner(config.cluster.cluster_id, config.node.member_id)
        draw = self._seams.random.secret("start").getrandbits(START_DRAW_BITS)
        return claim(store.folder, owner, str(config.node.data_dir), draw, is_standby=self.is_standby)

    def _open_note(self) -> CommitNote:
        note = CommitNote(self._seams.storage, str(self.config.cluster_dir))
        self._closers.append(note.close)
        return note

    def _open_peer_notes(self) -> PeerNotes:
        notes = PeerNotes(self._seams.storage, str(self.config.cluster_dir))
        self._closers.append(notes.close)
        return notes

    def _make_module(self, store: StateStore, lost_state: str | None, taken: Claim) -> ConsensusModule:
        config, seams = self.config, self._seams
        module_seams = ModuleSeams(
            seams.clock,
            self.client,
            self.archive,
            store,
            seams.random,
            self.errors,
            taken,
            self._open_note(),
            self._open_peer_notes(),
            str(config.node.data_dir),
            seams.events,
            lost_state,
            self._look,
        )
        settings = config.module_config().model_copy(update={"is_standby": self.is_standby})
        module = ConsensusModule(settings, config.member_list, module_seams, self._authenticator)
        if self._traces is not None:
            threshold = threshold_of(config.tracing.rate)
            leading = LogTraces(self._traces, seams.clock, threshold)
            module.sequencer.trace(leading, FollowerTraces(self._traces, seams.clock, threshold))
        return module

    def _serve_archive(self) -> ControlConductor:
        invalid_requests = self.module.counters.invalid_requests

        def on_error(error: Exception) -> None:
            """Count what strangers do wrong: they could fill the error log otherwise."""
            if isinstance(error, ArchiveError) and error.code in REFUSALS:
                self.module.member.on_invalid_request(f"archive: {error.message}")
            elif isinstance(error, OrdoError):
                invalid_requests.increment()
            else:
                self.errors.record(error, "serving the archive")

        return serve_archive(
            self.archive,
            self.client,
            self._seams.random.secret("archive control"),
            endpoint=self.config.bound_member.archive,
            commit_position=self.module.counters.commit_position,
            replays_max=self.config.node.max_replays,
            subscribers_max=self.config.node.subscribers_max,
            authenticator=self._authenticator,
            member_ports=self._member_ports,
            log_identity=self.module.told_identity,
            past_identity=self.module.past_identity,
            places=self._make_places(),
            on_error=on_error,
        )

    def _member_ports(self) -> set[int]:
        """Where members of the newest configuration listen."""
        membership = self.module.membership
        return {port for member in (*membership.voters, *membership.learners) for port in member.ports}

    def _look(self) -> dict[str, Any]:
        """Return what operators are shown of a node beside its module."""
        node = self.config.node
        return {
            "version": VERSION,
            "data_free_bytes": free_bytes(node.data_dir),
            "memory_free_bytes": free_bytes(self.config.aeron_dir),
            **durations_to_numbers(self.latencies.read()),
        }

    def _on_tick(self, now_ns: int) -> None:
        self.errors.work(now_ns)
        if self.control is not None:
            self.control.do_work(now_ns)
            self.module.sequencer.mark_readers(self.control.replays.is_followed)
        if self._watch is not None:
            self._watch(now_ns)

    def _open_errors(self) -> ComponentErrors:
        config = self.config
        return ComponentErrors(
            self._seams.memory,
            str(config.cluster_dir / MODULE_MARK_FILE_NAME),
            self._seams.clock,
            component_type=ComponentType.CONSENSUS_MODULE,
            service_stream_id=local_stream(TO_SERVICE_STREAM_ID, config.cluster.cluster_id),
            consensus_module_stream_id=local_stream(TO_MODULE_STREAM_ID, config.cluster.cluster_id),
            ingress_stream_id=INGRESS_STREAM_ID,
            member_id=config.node.member_id,
            service_id=NULL_VALUE,
            cluster_id=config.cluster.cluster_id,
            aeron_directory=str(config.aeron_dir),
            control_channel=CONTROL_CHANNEL,
            ingress_channel=f"aeron:udp?endpoint={config.bound_member.ingress}",
        )

    def _start_driver(self) -> MediaDriver:
        config, seams = self.config, self._seams
        driver = MediaDriver(
            MediaDriverSettings(
                directory=str(config.aeron_dir),
                timer_interval_ns=TIMER_INTERVAL_NS,
                client_liveness_timeout_ns=CLIENT_LIVENESS_TIMEOUT_NS,
                publication_unblock_timeout_ns=2 * CLIENT_LIVENESS_TIMEOUT_NS,
                pid_is_local=True,
                reserve_memory=True,
                **config.encryption.driver_settings(),
                **driver_bounds(config.cluster, config.node.max_replays + config.node.subscribers_max),
            ),
            clock=seams.clock,
            network=seams.network,
            memory=seams.memory,
            random=seams.random,
        )
        driver.on_start()
        self._closers.append(driver.on_close)
        return driver

    def _connect(self) -> TransportClient:
        config, seams, driver = self.config, self._seams, self.driver
        if driver is None:
            return connect_shared_driver(config, seams.clock, seams.memory)
        return TransportClient(
            str(config.aeron_dir),
            clock=seams.clock,
            memory=seams.memory,
            invoker=lambda: driver.do_work(seams.clock.now()),
            name="node",
        )

    def _find_park_flag(self) -> ParkFlag:
        """Return the flag of the node's own driver, which says that this thread is parked.

        Else one for this process alone.
        """
        counters = self.client.counters
        is_own = self.driver is not None
        return ParkFlag(counters.counter(counters.find(CounterType.DRIVER_PARK_FLAG)) if is_own else local_counter())

    def _make_latencies(self) -> Latencies:
        memory, folder, cluster_id = self._seams.memory, str(self.config.aeron_dir), self.config.cluster.cluster_id
        latencies = Latencies.create(memory, folder, cluster_id)
        self._closers.append(lambda: memory.remove(latencies_path(folder, cluster_id)))
        return latencies

    def _make_traces(self) -> ManyToOneRing | None:
        if not self.config.tracing.endpoint:
            return None
        memory, folder, cluster_id = self._seams.memory, str(self.config.aeron_dir), self.config.cluster.cluster_id
        ring = create_traces(memory, folder, cluster_id)
        self._closers.append(lambda: memory.remove(traces_path(folder, cluster_id)))
        return ring

    def _make_places(self) -> LogPlaces:
        return LogPlaces(self.archive, str(self.config.cluster_dir), self.module.counters)

    def _make_sync_queue(self) -> SyncQueue:
        """Make a queue whose completed syncs wake the parked node through the driver's wake socket."""
        path = f"{self.config.aeron_dir}/{WAKE_SOCKET_NAME}"
        if self.driver is None or not os.path.exists(path):
            return self._seams.storage.sync_queue(self._park_flag, -1)
        waker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        waker.connect(path)
        self._closers.append(waker.close)
        return self._seams.storage.sync_queue(self._park_flag, waker.fileno())

    def _inline_containers(self, services: Sequence[Service | ServiceVersions]) -> list[ServiceContainer]:
        if not services:
            return []
        from ordo.cluster.node.inline_services import InlineServices  # see there

        parts = (self.config, self._seams, self.client, self.archive, self.latencies, self._traces)
        return InlineServices(*parts).containers(services)

    def start(self) -> None:
        if self.control is not None:
            self.control.on_start()
            self._closers.append(self.control.on_close)
        now_ns = self._seams.clock.now()
        self.module.on_start(now_ns)
        self._closers.append(self.module.on_close)
        for container in self.containers:
            container.on_start()
            self._closers.append(container.on_close)

    @property
    def has_ended(self) -> bool:
        return self.module.member.has_ended

    def do_work(self, now_ns: int) -> int:
        """One duty cycle. Returns the count of things done."""
        return self.cycle.do_work(now_ns)

    def leave(self) -> None:
        """Leave the log properly; a leader's driver goes on until the followers can have seen its end."""
        is_leading = self.module.sequencer.leading_term_id >= 0
        self.module.on_close()
        deadline_ns = self._seams.clock.now() + FAREWELL_NS
        while is_leading and self.driver is not None and self._seams.clock.now() < deadline_ns:
            self.run_driver()

    def run_driver(self) -> None:
        """Run the node's own driver, and wait for a moment if it has nothing to do."""
        now_ns = self._seams.clock.now()
        if self.driver is not None and self.driver.do_work(now_ns) == 0:
            self.driver.park(now_ns, PARK_NS)

    def close(self) -> None:
        """Close in reverse order of building; the first error is raised when all are done."""
        failures: list[Exception] = []
        while self._closers:
            try:
                self._closers.pop()()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]


NodeMaker = Callable[
    [NodeSettings, NodeSeams, "Sequence[Service | ServiceVersions] | None", Callable[[int], None] | None], Node
]
"""Makes a node, as its class does."""


def run_node(
    config: NodeSettings,
    service_names: Sequence[str] = (),
    next_life: Callable[[NodeSettings], NodeMaker | None] = lambda _: Node,
) -> int:
    """Run a node until it is told to end (SIGTERM, SIGINT, shutdown); return the exit status.

    `service_names`, module:Class, by service id, take the place of those that the configuration names. `next_life`
    gives, before each start, what makes the node; None: it is told to end.
    `python -O` would remove the assertions that guard the log, and is refused.
    """
    if not __debug__:
        raise ConfigurationError("python -O removes the assertions that guard the log: run without it")
    choose_file_access(config.node.file_access)
    config = config.with_services(service_names)
    names = config.services_by_id
    versions = _load_services(config, names)
    config = look_ahead(config, get_logger())
    settle_collector()
    metrics = MetricsProcess(config)
    try:
        while True:
            try:
                make_node = next_life(config)
                if make_node is None:
                    return 0
                status, starts_again = _run_once(config, names, versions, metrics, make_node)
            except StorageFullError as error:
                if not is_want_of_room(error, config.node.data_dir):
                    raise
                if not DiskWait(config, get_logger().warning).wait(error):
                    return 0
                continue
            if not starts_again or status != 0:
                return status
    finally:
        metrics.close()


def _load_services(config: NodeSettings, names: Sequence[dict[int, str]]) -> list[ServiceVersions] | None:
    """Return the code of services on the node's thread, None where they run elsewhere. Raises ConfigurationError."""
    if config.node.service_mode != "inline":
        check_services(names, config.folder)
        return None
    from ordo.cluster.container.service_loader import load_versions

    return [load_versions(one, config.folder) for one in names]


def _run_once(
    config: NodeSettings,
    service_names: Sequence[dict[int, str]],
    versions: Sequence[ServiceVersions] | None,
    metrics: MetricsProcess,
    make_node: NodeMaker,
) -> tuple[int, bool]:
    """One life of a node: the exit status, and whether it is to be started again at once."""
    children: list[ContainerProcess] = []
    causes: list[str] = []
    log = get_logger()

    def on_tick(now_ns: int) -> None:
        metrics.watch(now_ns)
        if any(child.has_ended(now_ns) for child in children) and not _ended_as_told(node.module, children):
            node.client.demand_driver()  # it ends the containers as well, and they may be the first to notice
            causes.append("the service container ended")
            node.module.member.has_ended = True

    def on_signal(number: int, _frame: object) -> None:
        causes.append(signal.Signals(number).name)
        node.module.end()

    node = make_node(config, real_seams(files_reserved(config)), versions, on_tick)
    has_started, failure = False, ""
    try:
        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)
        node.start()
        log_start(config, log)
        has_started = True
        if versions is None:
            for service_id, names in enumerate(service_names):
                child = ContainerProcess(config, names, service_id)
                child.start()
                children.append(child)
        with counted_drops(node.module.counters.log_lines_dropped, node.errors):
            node.cycle.run()
            node.leave()
    except Exception as error:
        node.errors.record(error, f"the node ended at log position {node.module.sequencer.commit_position}")
        raised = _one_line(error)
        failure = raised.message
        raise raised from error
    finally:
        status, lost = _close(node, children, has_failed=bool(failure))
        if has_started:
            reason = failure or lost or _stop_reason(node.module, causes)
            log_stop(config, log, reason, has_failed=bool(failure or status))
    return status, node.module.member.starts_again


def _ended_as_told(module: ConsensusModule, children: Sequence[ContainerProcess]) -> bool:
    """Return whether containers end because the cluster does: a leader still waits for its followers then."""
    termination = module.controls.termination
    if not termination.has_told_services or any(child.failure() for child in children):
        return False
    if not any(child.is_alive() for child in children):
        termination.on_services_ended()
    return True


def _stop_reason(module: ConsensusModule, causes: list[str]) -> str:
    """Return what ended the node first. A cause precedes its effects: the end of a cluster ends its services."""
    if module.core.is_removed:
        return "removed from the cluster"
    if module.controls.termination.is_under_way:
        return "shutdown of the cluster"
    if module.member.starts_again:
        return "starts again at once"
    return causes[0] if causes else "told to end"


def _one_line(error: Exception) -> OrdoError:
    if isinstance(error, OrdoError):
        return error
    return ClusterError(f"the node ended on {type(error).__name__}: {error}; its error log has the traceback")


def _close(node: Node, children: Sequence[ContainerProcess], *, has_failed: bool) -> tuple[int, str]:
    """End the containers first, so that none outlives its node. Returns the exit status, and what went wrong.

    A container may wait for an answer of the driver, which goes on unless the node `has_failed`, perhaps in the driver.
    """
    status, lost = 0, ""
    failures = [(child, child.failure()) for child in children]
    end_containers(children, None if has_failed or node.driver is None else node.run_driver)
    for child, failure in failures:
        if failure is not None:
            node.module.member.record_error(failure)
            lost = lost or failure
            status = EXIT_STATUS_SERVICE if child.has_raised else status or 1
    try:
        node.close()
    except OrdoError as error:
        lost, status = lost or error.message, status or 1
    return status, lost
