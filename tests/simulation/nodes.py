"""One simulated member: the node that ships, on a simulated clock, host, disk and memory, and what can befall it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.config import NodeConfig
from cluster.node import Node, NodeSeams
from runtime.clock import VirtualClock
from runtime.errors import CorruptFrameError, OrdoError
from runtime.memory import HeapMemoryProvider
from tests.simulation.network import SimulatedHost
from tests.simulation.service import RegisterService
from tests.simulation.storage import PowerLoss, SimulatedDisk, SimulatedStorage

if TYPE_CHECKING:
    from tests.simulation.world import World

NEVER_NS = (1 << 63) - 1
EPOCH_NS = 1_700_000_000_000_000_000
PORT = 9000


def node_address(member_id: int) -> str:
    return f"10.0.0.{member_id + 1}"


def node_config(world: World, member_id: int) -> NodeConfig:
    options = world.options
    folder = f"/simulated/node{member_id}"
    return NodeConfig.model_validate(
        {
            "node": {
                "member_id": member_id,
                "data_dir": folder,
                "aeron_dir": f"{folder}/aeron",
                "service_mode": "inline",
                "sync": options.sync,
            },
            "members": [{"id": i, "host": node_address(i), "port": PORT} for i in range(options.nodes)],
            "cluster": {
                "leader_heartbeat_timeout": options.heartbeat_timeout_ns,
                "leader_heartbeat_interval": options.heartbeat_interval_ns,
                "election_timeout": options.election_timeout_ns,
                "startup_canvass_timeout": options.startup_canvass_timeout_ns,
                "session_timeout": options.session_timeout_ns,
                "log_term_length": options.term_length,
                "segment_length": options.segment_length,
                "mtu": options.mtu,
                "receiver_window": max(options.receiver_window, 2 * options.mtu),
                "socket_buffer": 256 * 1024,
            },
        }
    )


class SimulatedNode:
    """A member through all its lives. `node` is None while its process is dead; the disk outlives it.

    `due_ns` is the virtual time at which it wants to run again; the world runs it then, or when datagrams arrive.
    """

    def __init__(self, world: World, member_id: int) -> None:
        self.world = world
        self.member_id = member_id
        self.name = f"node{member_id}"
        self.address = node_address(member_id)
        self.config = node_config(world, member_id)
        self.disk = SimulatedDisk(world.random.stream(f"disk {member_id}"))
        self.disk.remembers = world.options.power_loss_mean_ns > 0
        self.disk.sync_delay_ns_min = world.options.sync_min_ns
        self.disk.sync_delay_ns_max = world.options.sync_max_ns
        self.boots = 0
        self.node: Node | None = None
        self.service: RegisterService | None = None
        self.host: SimulatedHost | None = None
        self.due_ns = NEVER_NS
        self.paused_until_ns = 0
        self.clock_offset_ns = 0
        self.clock_rate_ppm = 0
        self.has_disk_faults = False
        self.is_rotten = False
        self.log_end_acknowledged = 0
        """End of the log as it was last reported, by any of its lives: what a restart must find again."""
        self._earliest_ns = 0
        self._storage: SimulatedStorage | None = None
        self._booted_ns = 0
        self._last_state: object = None
        self._last_positions: object = None

    # -- lives -----------------------------------------------------------------------------------------------------

    @property
    def archive_folder(self) -> str:
        return str(self.config.archive_dir)

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
        self.boots += 1
        self._booted_ns = world.now_ns
        self.clock = VirtualClock(1_000_000_000, EPOCH_NS + world.now_ns + self.clock_offset_ns)
        self.host = world.network.host(self.address)
        self._storage = SimulatedStorage(self.disk, self.clock)
        self.service = RegisterService(self.member_id, world, world.options.snapshot_padding)
        seams = NodeSeams(
            self.clock,
            self.host,
            HeapMemoryProvider(),
            self._storage,
            world.random.child(f"{self.name} life {self.boots}"),
        )
        world.note(f"{self.name} boot {self.boots}")
        try:
            self.node = Node(self.config, seams, self.service)
            self.node.start()
        except PowerLoss:
            self.lose_power()
        except OrdoError as error:
            self.die_of(error)
        else:
            self.due_ns = world.now_ns
            world.on_booted(self)

    def _gone(self, text: str) -> None:
        self.world.note(f"{self.name} {text}")
        self.node = None
        self.service = None
        self.due_ns = NEVER_NS
        self.paused_until_ns = 0
        self._last_state = self._last_positions = None
        if self.host is not None:
            self.host.close()
            self.host = None

    def kill(self) -> None:
        """The process is gone at once; what it wrote is in the page cache."""
        self._gone("killed")
        self.disk.kill()

    def lose_power(self) -> None:
        """The machine stops: what was not synced is lost, page by page."""
        self._gone("lost power")
        self.disk.crash()

    def close(self) -> None:
        """Ends the process in order, as SIGTERM does."""
        assert self.node is not None
        node = self.node
        try:
            node.close()
        except PowerLoss:
            self.lose_power()
            return
        except OrdoError as error:
            self.world.note(f"{self.name} close failed: {error}")
        self._gone("closed")
        self.disk.kill()

    def die_of(self, error: OrdoError) -> None:
        """The process ends with an error. Only a disk that was made to fail excuses it."""
        self.world.note(f"{self.name} died: {type(error).__name__}: {error}")
        excused = self.has_disk_faults or (self.is_rotten and isinstance(error, CorruptFrameError))
        if not excused:
            self.world.fail(f"{self.name} died of {type(error).__name__}: {error}")
        self._gone("process ended")
        self.disk.kill()

    def wipe(self) -> None:
        """An operator replaces the disk of a dead member by an empty one."""
        assert self.node is None
        self.disk.wipe()
        self.is_rotten = False
        self.log_end_acknowledged = 0
        self.world.note(f"{self.name} wiped")

    def release(self) -> None:
        """Forgets the process without a word to anybody."""
        self.node = None
        self.service = None
        self.host = None
        self._storage = None

    # -- time ------------------------------------------------------------------------------------------------------

    def _local_ns(self, world_ns: int) -> int:
        elapsed_ns = world_ns - self._booted_ns
        return 1_000_000_000 + elapsed_ns + elapsed_ns * self.clock_rate_ppm // 1_000_000

    def _world_wait_ns(self, local_ns: int) -> int:
        """World time that passes while the local clock goes on by so much, rounded up."""
        return max(0, local_ns) * 1_000_000 // (1_000_000 + self.clock_rate_ppm) + 1

    def step_clock(self, delta_ns: int) -> None:
        """The wall clock of this member jumps."""
        self.clock_offset_ns += delta_ns
        if self.node is not None:
            self.clock.step_epoch(delta_ns)

    def wants_to_run(self, now_ns: int) -> bool:
        if self.node is None or now_ns < self.paused_until_ns:
            return False
        assert self.host is not None
        if self.host.has_arrivals:
            self.due_ns = min(self.due_ns, self._earliest_ns)
        return self.due_ns <= now_ns

    def step(self, now_ns: int) -> bool:
        """One duty cycle at a virtual time; then sleeps until something is due, as the parked node does.

        True when anything that invariants look at has changed.
        """
        node, host = self.node, self.host
        assert node is not None and host is not None
        host.has_arrivals = False
        local_ns = self._local_ns(now_ns)
        self.clock.advance(local_ns - self.clock.now())
        try:
            work = node.do_work(local_ns)
        except PowerLoss:
            self.lose_power()
            return False
        except OrdoError as error:
            self.die_of(error)
            return False
        self._plan(now_ns, local_ns, work)
        return self._has_changed()

    def _plan(self, now_ns: int, local_ns: int, work: int) -> None:
        node, host = self.node, self.host
        assert node is not None and host is not None
        cycle_ns = self.world.options.cycle_ns
        wait_ns = 0
        if not work:
            node.driver.park(local_ns, max(0, node.cycle.next_tick_ns - local_ns))
            wait_ns = self._world_wait_ns(host.parked_ns)
            wait_ns = min(wait_ns, self._until_sync(local_ns))
        self._earliest_ns = now_ns + cycle_ns
        self.due_ns = now_ns + max(cycle_ns, wait_ns)

    def _until_sync(self, local_ns: int) -> int:
        assert self._storage is not None
        due = [queue.next_due_ns(local_ns) for queue in self._storage.queues]
        return min((self._world_wait_ns(at - local_ns) for at in due if at is not None), default=NEVER_NS)

    def _has_changed(self) -> bool:
        module = self.module
        core, sequencer = module.core, module.sequencer
        state = core.state, core.role, core.candidate_term_id, sequencer.leading_term_id
        if state != self._last_state:
            self._last_state = state
            self.world.note(
                f"{self.name} {core.state.name} {core.role.name} term={core.leadership_term_id} "
                f"candidate={core.candidate_term_id} append={self.append_position} commit={self.commit_position}"
            )
        positions = sequencer.append_position, sequencer.commit_position, state
        changed = positions != self._last_positions
        self._last_positions = positions
        return changed

    # -- looking inside --------------------------------------------------------------------------------------------

    @property
    def append_position(self) -> int:
        return int(self.module.sequencer.append_position)

    @property
    def commit_position(self) -> int:
        return int(self.module.sequencer.commit_position)

    @property
    def executed_position(self) -> int:
        """Where the service stands."""
        assert self.node is not None and self.node.container is not None
        return int(self.node.container.log_position)

    @property
    def log_recording_id(self) -> int:
        return int(self.module.log.recording_id)

    @property
    def leads_term(self) -> int:
        """The term whose log it publishes, or -1."""
        return int(self.module.sequencer.leading_term_id)

    @property
    def serves(self) -> bool:
        return self.node is not None and bool(self.module.is_leader)
