"""One simulated member: the node that ships, on a simulated clock, host, disk and memory, and what can befall it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from ordo.cluster.container.tables.consumers import ContainerConsumers
from ordo.cluster.container.versions import ServiceVersions
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.node.disk_wait import is_want_of_room
from ordo.cluster.node.node import FAREWELL_NS, Node, NodeSeams
from ordo.cluster.settings.config import NodeSettings
from ordo.cluster.wire.app_version import format_version
from ordo.cluster.wire.counters.counter_types import ControlToggle
from ordo.cluster.wire.levels import FIRST_LEVEL, PROTOCOL_LEVEL
from ordo.consensus.state.configuration import Configuration
from ordo.runtime.errors import CorruptFrameError, OrdoError, ServiceError, StorageError
from ordo.runtime.native.memory import HeapMemoryProvider
from ordo.service_api.requests import RequestLimits, RequestTable
from tests.simulation.copies import SILENCE_NS_MAX, SimulatedCopier
from tests.simulation.late_files import LateFiles
from tests.simulation.other_services import OtherObserver, OtherService
from tests.simulation.own_code import VERSIONS, CodeWorld, OwnCode
from tests.simulation.schemas import OTHERS, SCHEMAS
from tests.simulation.service import Observer, RegisterService, RunService
from tests.simulation.storage import PowerLoss, SimulatedDisk, SimulatedStorage
from tests.simulation.timeline import NEVER_NS, MemberClock, NodeActor
from tests.simulation.told_clocks import KernelClock

if TYPE_CHECKING:
    from ordo.runtime.random import RandomSource
    from ordo.service_api.messages.message import Schema
    from ordo.service_api.service import Service
    from tests.simulation.network import SimulatedNetwork
    from tests.simulation.options import Options
    from tests.simulation.storage import Image

EPOCH_NS = 1_700_000_000_000_000_000
CLOCK_START_NS = 1_000_000_000
PORT = 9000
UNBOUNDED_BYTES = 1 << 40
IMAGES_MAX = 4


def node_address(member_id: int) -> str:
    return f"10.0.0.{member_id + 1}"


def node_name(member_id: int) -> str:
    """The name of the member's host; where `host_names` is set, members know each other by it."""
    return f"host{member_id}.test"


class NodeWorld(Observer, OtherObserver, CodeWorld, Protocol):
    """What a member needs of the world that it lives in."""

    copy_failure_chance: float
    network: SimulatedNetwork

    @property
    def now_ns(self) -> int: ...
    def note_end(self, node: SimulatedNode) -> None: ...
    def at(self, delay_ns: int, action: Callable[[], None]) -> None: ...
    def fail(self, text: str) -> None: ...
    def on_booted(self, node: SimulatedNode) -> None: ...
    def count_fault(self, kind: str) -> None: ...


def services_config(options: Options) -> dict[str, Any]:
    """What the configuration says of services; the code that executes is given to the node as it is."""
    names = {format_version(one): f"simulated:RegisterService{one}" for one in VERSIONS}
    code: dict[str, Any] = {"versions": names} if options.upgrade_mean_ns else {"class": "simulated:Service"}
    common = {"on_error": options.on_error, "state_hash_every": options.state_hash_every_bytes}
    if options.services > 1:
        return {"service": common, "services": [code] * options.services}
    return {"service": {**common, **(code if options.upgrade_mean_ns else {})}}


PRINCIPALS = "tests.simulation.principals:AsTheySay"


def _quotas_config(options: Options) -> dict[str, Any]:
    names = ("session_messages", "session_bytes", "principal_messages")
    principals = [{"name": "client0", "first": True}] if options.has_first_lane else []
    return {"quotas": {name: getattr(options, name) for name in names}, "principals": principals}


def _time_config(options: Options, *, goes_over: bool) -> dict[str, str]:
    if goes_over and options.goes_over_to:
        return {"time_unit": options.goes_over_to, "time_unit_from": options.time_unit}
    return {"time_unit": options.time_unit}


def _leader_config(options: Options, member_id: int) -> dict[str, Any]:
    """What a leader writes into the log."""
    return {"clock_report_interval": options.clock_report_ns, "arrival_time": options.arrivals and member_id > 0}


def node_config(world: NodeWorld, member_id: int, *, goes_over: bool = False) -> NodeSettings:
    options = world.options
    folder = f"/simulated/node{member_id}"
    host = node_name if options.host_names else node_address
    ids = sorted({*range(options.nodes), member_id})
    return NodeSettings.model_validate(
        {
            "node": {
                "member_id": member_id,
                "data_dir": folder,
                "aeron_dir": f"{folder}/aeron",
                "service_mode": "inline",
                "sync": options.sync,
                "check_log": options.check_log,
                "learner": member_id >= options.nodes,
            },
            "members": [{"id": i, "host": host(i), "port": PORT} for i in ids],
            "cluster": {
                "leader_heartbeat_timeout": options.heartbeat_timeout_ns,
                "leader_heartbeat_interval": options.heartbeat_interval_ns,
                "election_timeout": options.election_timeout_ns,
                "startup_canvass_timeout": options.startup_canvass_timeout_ns,
                "session_timeout": options.session_timeout_ns,
                "max_sessions": options.sessions_max,
                **_time_config(options, goes_over=goes_over or member_id >= options.nodes),
                **_leader_config(options, member_id),
                "appointed_leader_id": options.appointed_leader_id,
                "log_term_length": options.term_length,
                "segment_length": options.segment_length,
                "mtu": options.mtu,
                "receiver_window": max(options.receiver_window, 2 * options.mtu),
                "socket_buffer": 256 * 1024,
                "service_backlog": options.service_backlog,
            },
            **_quotas_config(options),
            "archive": {
                "scrub": options.scrub_ns,
                "scrub_rate": 16 * 1024 * 1024,
                "disk_low": options.disk_low,
                "disk_high": options.disk_high,
            },
            **services_config(options),
            "authentication": {"class": PRINCIPALS} if options.names_clients else {},
            "snapshot": {"every_bytes": options.snapshot_every_bytes, "keep": options.snapshots_kept},
            "retention": {
                "bytes": None if options.retention_bytes < 0 else options.retention_bytes,
                "patience_seconds": options.retention_patience_s,
            },
        }
    )


class SimulatedNode(NodeActor):
    """A member through all its lives. `node` is None while its process is dead; the disk outlives it."""

    def __init__(self, world: NodeWorld, member_id: int) -> None:
        self.world = world
        self.member_id = member_id
        self.name = f"node{member_id}"
        self.address = node_address(member_id)
        self.config = node_config(world, member_id)
        capacity_bytes = world.options.disk_bytes or UNBOUNDED_BYTES
        self.disk = SimulatedDisk(world.random.stream(f"disk {member_id}"), capacity_bytes)
        self.disk.remembers, self.disk.on_stall = world.options.power_loss_mean_ns > 0, self._wait_for_disk
        self.disk.sync_delay_ns_min = world.options.sync_min_ns
        self.disk.sync_delay_ns_max = world.options.sync_max_ns
        self.boots = 0
        self.code = OwnCode(world, self.name)
        self.is_installed_anew = False
        """It was given the present release when it was added to the cluster again."""
        self.node: Node | None = None
        self.service: RegisterService | None = None
        self.others: dict[int, OtherService] = {}
        """The services 1, 2, ..., by id."""
        self.cycle_ns = world.options.cycle_ns
        self.clock_offset_ns = 0
        self.clock_rate_ppm = 0
        self.has_disk_faults = False
        self.waits_for_room = False
        """Its process found the disk full, and starts the member again when there is room."""
        self._is_closed = False
        self.was_filled = False
        """Something else than the member has filled its disk."""
        self.is_rotten = False
        """Damage of its log that it has not cut off yet."""
        self.has_lost = False
        """Something it had promised to keep was taken from it since it ran last."""
        self.has_foreign_volume = False
        """It was given the volume of another member or cluster: it is to end, and to change nothing."""
        self.has_old_data = False
        """It was given an older copy of its volume, and does not know it yet."""
        self.images: list[Image] = []
        """Copies of its volume, as it was before some of its lives."""
        self.acknowledged_before_loss = 0
        """What a leader may still count, although the disk has lost it; until the log is as long again."""
        self.was_removed = False
        self.starts_again = False
        """The member has ended to be built anew, and is to be booted when it has left."""
        self.is_forgotten = False
        """It ended because its log was not begun anew with that of others."""
        self.has_own_error = False
        """The service of this member alone was made to raise."""
        self.started_position = 0
        self.log_end_acknowledged = 0
        """End of the log as it was last reported, by any of its lives: what a restart must find again."""

    @cached_property
    def first_configuration(self) -> Configuration:
        """What it was set up with: a spare is a learner that nobody knows."""
        return self.config.module_config().consensus(self.config.member_list).configuration

    @cached_property
    def kernel_clock(self) -> KernelClock:
        return KernelClock(self.member_id, self.world.random.stream(f"kernel clock {self.member_id}"))

    # -- lives -----------------------------------------------------------------------------------------------------

    @property
    def archive_folder(self) -> str:
        return str(self.config.archive_dir)

    @property
    def state_path(self) -> str:
        return str(self.config.cluster_dir / "state.mdb")

    @property
    def stored_rows(self) -> dict[bytes, bytes]:
        """Its store of votes and terms, as the disk has it."""
        return self.disk.stores.get(self.state_path, {})

    @property
    def is_alive(self) -> bool:
        return self.node is not None

    @property
    def module(self) -> Any:
        assert self.node is not None
        return self.node.module

    def boot(self) -> None:
        """Starts a new process on the disk as it is."""
        world = self.world
        if self.boots > 0 and not (self.starts_again or self.waits_for_room):
            self.code.draw()
        if self.boots > 0 and self.log_end_acknowledged > 0:  # the log was begun with the former unit
            cluster = self.config.cluster.model_copy(update=_time_config(world.options, goes_over=True))
            self.config = self.config.model_copy(update={"cluster": cluster})
        self.boots += 1
        self.starts_again = self.waits_for_room = False
        if world.options.volume_mean_ns and not self.has_foreign_volume:
            self.images = [*self.images[-IMAGES_MAX + 1 :], self.disk.image()]
            self.has_old_data = self.has_old_data and not self.stored_rows.get(b"distrust", b"\0")[0]
        offset_ns = EPOCH_NS + world.now_ns + self.clock_offset_ns - CLOCK_START_NS
        self.clock = MemberClock(CLOCK_START_NS, offset_ns, world.options.look_ns)
        self.clock.tell_quality = lambda: self.kernel_clock.tell(self.module.member, self.clock)
        host = self.host = world.network.host(self.address)
        storage = SimulatedStorage(self.disk, self.clock)
        self.service = None
        code = self._versions() if world.options.upgrade_mean_ns else self._make_service(1)
        random = world.random.child(f"{self.name} life {self.boots}")
        seams = NodeSeams(self.clock, host, HeapMemoryProvider(), storage, random)
        world.note(f"{self.name} boot {self.boots}")
        try:
            self.node = self.make_node(seams, [code, *self._other_services()])
            self.node.module.rules.levels.own_level = self.level
            if world.options.late_files and self.node.driver is not None:
                LateFiles(self.node.driver, seams.memory, random.stream("log files"), world.count_fault)
            if world.options.copies:
                self._copy_services(self.node, random)
            for container in self.node.containers if world.options.kept_bytes_max else ():
                container.set_requests(RequestTable(RequestLimits(kept_bytes_max=world.options.kept_bytes_max)))
            for container in self.node.containers[1:]:
                container.record_limit = world.options.service_record_limit
            self.node.start()
        except PowerLoss:
            self.lose_power()
        except OrdoError as error:
            self.die_of(error)
        else:
            self.attach(self.node, self.clock, host, storage.queues, world.now_ns, self.clock_rate_ppm)
            world.on_booted(self)
            self.has_lost = False

    def make_node(self, seams: NodeSeams, services: Sequence[Service | ServiceVersions]) -> Node:
        """The node of a life that begins."""
        return Node(self.config, seams, services)

    @property
    def level(self) -> int:
        """What the release knows that its process runs."""
        options = self.world.options
        is_old = self.boots == 1 and self.member_id < options.old_members and not self.is_installed_anew
        return PROTOCOL_LEVEL if options.levels and not is_old else FIRST_LEVEL

    def install_release(self) -> None:
        """As an operator does before a member is added to a cluster whose log the old release cannot read."""
        self.is_installed_anew = True
        if self.node is not None:
            self.node.module.rules.levels.own_level = self.level

    def _copy_services(self, node: Node, random: RandomSource) -> None:
        """Services are copied for their snapshots, as in processes of their own."""
        world, copies = self.world, random.stream("copies")
        for container in node.containers:
            container.snapshots.silence_ns_max = SILENCE_NS_MAX
            container.snapshots.copier = SimulatedCopier(
                self.clock.now, copies, lambda: world.copy_failure_chance, world.count_fault
            )

    def _other_services(self) -> list[OtherService | ServiceVersions]:
        """The services 1, 2, ..."""
        ids, has_versions = range(1, self.world.options.services), self.world.options.upgrade_mean_ns > 0
        self.others = {}
        return [self._other_versions(one) if has_versions else self._make_other(one, 1) for one in ids]

    def _make_other(self, service_id: int, version: int) -> OtherService:
        made = self.others[service_id] = OtherService(self.member_id, service_id, self.world, version)
        return made

    def _other_versions(self, service_id: int) -> ServiceVersions:
        return ServiceVersions(
            {version: partial(self._make_other, service_id, version) for version in self.code.of(service_id)}
        )

    def _make_service(self, version: int) -> RegisterService:
        """The instance that executes from now on."""
        former, options = self.service, self.world.options
        # every second member takes its messages many at a time: the states are compared
        make_service = RunService if self.member_id % 2 else RegisterService
        self.service = make_service(self.member_id, self.world, options.snapshot_padding, version)
        self.service.publishes = options.feed_readers > 0
        self.service.can_fork = self.member_id % 3 < 2
        self.service.fails_next = former is not None and former.fails_next
        if options.schemas:
            self.service.schema = self._schemas[version]  # type: ignore[attr-defined]
        return self.service

    def _versions(self) -> ServiceVersions:
        code = {version: partial(self._make_service, version) for version in self.code.of(0)}
        for version, make in code.items() if self.world.options.schemas else ():
            make.schema = self._schemas[version]  # type: ignore[attr-defined]
        return ServiceVersions(code)

    @property
    def _schemas(self) -> dict[int, Schema]:
        """The schemas of its code, by version."""
        world = self.world
        if not world.options.has_other_code:
            return SCHEMAS
        other_id = world.random.stream("other code").randrange(world.options.nodes)
        return OTHERS if self.member_id == other_id else SCHEMAS

    def _gone(self, text: str) -> None:
        self.world.note(f"{self.name} {text}")
        if self.host is not None:
            self.host.close()
        self.release()

    def kill(self) -> None:
        """The process is gone at once; what it wrote is in the page cache."""
        self._gone("killed")
        self.disk.kill()

    def lose_power(self) -> None:
        """The machine stops: what was not synced is lost, page by page."""
        self._gone("lost power")
        self.disk.crash()

    def close(self) -> None:
        """Tells the process to end, as SIGTERM does: it leaves the log; a leader's driver lingers, as `Node.leave`."""
        assert self.node is not None
        if self.is_leaving:
            return
        was_leading = self.leads_term >= 0
        self.world.note(f"{self.name} told to end")
        if not self._in_order(self.node.module.on_close):
            return
        if was_leading:
            self.leaves_at_ns = self.world.now_ns + FAREWELL_NS
            self.due_ns = self.world.now_ns
        else:
            self.on_left()

    @property
    def is_leaving(self) -> bool:
        return self.leaves_at_ns < NEVER_NS

    def on_left(self) -> None:
        assert self.node is not None
        if self._in_order(self.node.close):
            self._gone("closed")
            self.disk.kill()

    def _in_order(self, action: Callable[[], object]) -> bool:
        """False when the power went out meanwhile; an error of a broken disk ends the process all the same."""
        try:
            action()
        except PowerLoss:
            self.lose_power()
            return False
        except OrdoError as error:
            self.die_of(error)
            return False
        return True

    def die_of(self, error: OrdoError) -> None:
        """The process ends with an error. A disk that was made to fail excuses it, an error of the service's own, and
        an old release in a member that was removed: the others no longer wait for it to know what they write."""
        if is_want_of_room(error, self.config.node.data_dir):
            self._wait_for_room(error)
            return
        self.world.note(f"{self.name} died: {type(error).__name__}: {error}")
        excused = self.has_disk_faults or (self.is_rotten and isinstance(error, CorruptFrameError | StorageError))
        excused = excused or (self.has_own_error and isinstance(error, ServiceError))
        excused = excused or (self.level < PROTOCOL_LEVEL and "protocol level" in str(error) and self._is_removed())
        self.is_forgotten = self.world.options.renews_some and "`ordo cluster renew-log`" in str(error)
        excused = excused or self.has_foreign_volume
        if not (excused or self.is_forgotten):
            self.world.fail(f"{self.name} died of {type(error).__name__}: {error}")
        self._gone("process ended")
        self.disk.kill()

    def _is_removed(self) -> bool:
        """Whether the leader knows a configuration without it."""
        leader = self.world.leader()
        return leader is not None and self.member_id not in leader.module.core.configuration.member_ids

    def _wait_for_room(self, error: OrdoError) -> None:
        """The process goes on without the member. Its marks let no disk become full that only it writes to; the last of
        them refuses recordings that would begin."""
        self._gone(f"waits for room: {error}")
        self.disk.kill()
        self.waits_for_room = True
        is_refused = "needs more than" in error.message
        if not (self.was_filled or self.has_disk_faults or is_refused):
            self.world.fail(f"{self.name} has filled its disk in spite of its marks: {error}")

    def notes_closed_ingress(self) -> bool:
        """True once each time that it is seen as a leader that takes no messages for want of room."""
        was_closed, self._is_closed = (
            self._is_closed,
            self.node is not None and bool(self.module.watches.room.is_closed),
        )
        return self._is_closed and not was_closed

    @property
    def may_go_on(self) -> bool:
        """Whether there is room again for a member that waits for it."""
        return self.waits_for_room and self.disk.free_bytes >= self.config.archive.disk_high_bytes

    def wipe(self) -> None:
        """An operator replaces the disk of a dead member by an empty one, and says so in its configuration."""
        assert self.node is None
        self.disk.wipe()
        self.config = self.config.model_copy(update={"node": self.config.node.model_copy(update={"rejoin": True})})
        self.has_lost = True
        self.world.note(f"{self.name} wiped")

    def release(self) -> None:
        """Forgets the process without a word to anybody."""
        self.node = None
        self.service = None
        self.others = {}
        self.detach()

    # -- time ------------------------------------------------------------------------------------------------------

    def step_clock(self, delta_ns: int) -> None:
        """The wall clock of this member jumps."""
        self.clock_offset_ns += delta_ns
        if self.node is not None:
            self.clock.step_epoch(delta_ns)

    def on_failed(self, error: BaseException) -> None:
        self.world.note_end(self)
        if isinstance(error, PowerLoss):
            self.lose_power()
        elif isinstance(error, OrdoError):
            self.die_of(error)
        else:
            raise error

    def on_state_changed(self) -> None:
        core = self.module.core
        self.world.note(
            f"{self.name} {core.state.name} {core.role.name} term={core.leadership_term_id} "
            f"candidate={core.candidate_term_id} append={self.append_position} commit={self.commit_position}"
        )

    # -- looking inside --------------------------------------------------------------------------------------------

    @contextmanager
    def readable_disk(self) -> Iterator[None]:
        """Whoever looks inside meets no failing call."""
        disk = self.disk
        faults = disk.reads_until_failure, disk.metadata_until_failure
        disk.reads_until_failure = disk.metadata_until_failure = -1
        try:
            yield
        finally:
            disk.reads_until_failure, disk.metadata_until_failure = faults

    def _wait_for_disk(self, duration_ns: int) -> None:
        """Its process stands still after this duty cycle until its disk has done what it was asked to."""

        def stand_still() -> None:
            if self.is_alive and self.paused_until_ns < NEVER_NS:
                self.pause(max(self.world.now_ns, self.paused_until_ns) + duration_ns)

        self.world.at(0, stand_still)

    @property
    def store(self) -> StateStore:
        """The durable state of a live member."""
        found: StateStore = self.module.base.seams.store
        return found

    @property
    def executed_position(self) -> int:
        """Where service 0 stands."""
        assert self.node is not None
        return int(self.node.containers[0].log_position)

    @property
    def has_level_services(self) -> bool:
        """Whether all services have executed the same."""
        assert self.node is not None
        return len({int(one.log_position) for one in self.node.containers}) == 1

    @property
    def told(self) -> ContainerConsumers:
        """What it knows of instances of applications, canaries and consumers."""
        assert self.node is not None
        found: ContainerConsumers = self.node.containers[0].consumers
        return found

    def counts_refusals(self, name: str) -> bool:
        """Whether a shared consumer counts only refusals, as far as this member has executed."""
        consumer = self.told.table.get(name)
        return consumer is not None and consumer.work is not None and consumer.work.counts_refusals

    @property
    def log_recording_id(self) -> int:
        return int(self.module.log.recording_id)

    def ask(self, wanted: int, expected: ControlToggle = ControlToggle.NEUTRAL) -> bool:
        """Sets the toggle of this leader, as an operator's command does; False while it says something else."""
        try:
            return bool(self.module.counters.control_toggle.compare_and_set(expected, wanted))
        except OrdoError:
            return False

    def ask_to_resume(self) -> bool:
        return self.ask(ControlToggle.RESUME, ControlToggle.SUSPEND)

    @property
    def is_suspended(self) -> bool:
        return bool(self.module.controls.control.is_suspended)

    @property
    def serves(self) -> bool:
        return self.node is not None and not self.is_leaving and bool(self.module.member.is_leader)
