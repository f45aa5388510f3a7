"""One simulated member: a consensus core with the smallest honest shell that carries its commands out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Protocol

from ordo.consensus.core import ConsensusCore
from ordo.consensus.state import commands
from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.messages import (
    NULL_TERM,
    AppendPosition,
    CanvassPosition,
    CommitPosition,
    Lead,
    Message,
    NewLeadershipTerm,
    TrustAnswer,
)
from ordo.consensus.state.settings import ConsensusSettings, DurableState
from ordo.consensus.state.states import ElectionState, Role
from tests.consensus.disk import Disk, Entry

if TYPE_CHECKING:
    from tests.consensus.faults import Faults

FIRST_RECORD_LENGTH = 96
ENTRIES_PER_DATAGRAM = 32
PULL_INTERVAL_NS = 15_000_000
NEAR_BYTES = 512


class SeededInts:
    """`UniformInts` on a seeded generator."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def uniform_int(self, low: int, high: int) -> int:
        return self._rng.randint(low, high)


class Trace(Protocol):
    """A hash over what happened."""

    def update(self, data: bytes, /) -> object: ...


class NodeWorld(Protocol):
    """What a member needs of the world that it lives in."""

    rng: Random
    now_ns: int
    faults: Faults
    faults_on: bool
    nodes: list[SimulatedNode]
    transitions: set[tuple[ElectionState, ElectionState]]

    @property
    def trace(self) -> Trace: ...
    def at(self, delay_ns: int, action: Callable[[], None]) -> None: ...
    def send(self, source: int, target: int, deliver: Callable[[SimulatedNode], None]) -> None: ...
    def send_message(self, source: int, target: int, message: Message) -> None: ...
    def new_identity(self) -> int: ...
    def note_committed(self, node: SimulatedNode, position: int) -> None: ...
    def note_elected(self, leadership_term_id: int, node: SimulatedNode) -> None: ...


class SimulatedNode:
    """Survives crashes as its disk; everything else is made anew by a restart."""

    def __init__(self, world: NodeWorld, config: ConsensusSettings) -> None:
        self.world = world
        self.config = config
        self.member_id = config.member_id
        self.disk = Disk()
        self.core: ConsensusCore | None = None
        self.run = 0
        self.paused_until_ns = 0
        self.tick_at_ns = -1
        self.clear()

    def clear(self) -> None:
        self.session_id = -1
        self.leader_id = -1
        self.is_serving = False
        self.has_joined = False
        self.is_live = False
        self.pulls = 0
        self.scanned_count = 0
        self.configured_position = 0
        self.is_changing = False
        self.sync_is_running = False
        self.applied_count = 0
        self.applied_position = 0

    # -- life -----------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        if self.core is not None:
            return
        self.run += 1
        self.clear()
        self.scanned_count = len(self.disk.entries)
        disk = self.disk
        durable = DurableState(
            disk.candidate_term_id, list(disk.rows), disk.end_position, distrust=disk.distrust, leads=disk.leads()
        )
        self.core = ConsensusCore(self.config, durable, SeededInts(self.world.rng))
        self.configure(disk.end_position)
        self.core.start(self.world.now_ns)
        self.tick_at_ns = -1
        self.execute()

    def crash(self) -> None:
        if self.core is not None:
            self.core = None
            self.run += 1
            self.disk.crash(self.world.rng)
            self.clear()

    def close(self) -> None:
        """Leave in good order: followers see the end of the stream."""
        if self.core is None:
            return
        session_id, was_leader = self.session_id, self.core.progress.is_leader
        self.disk.durable_position = self.disk.end_position
        self.crash()
        for node in self.world.nodes:
            if was_leader and node is not self:
                self.world.send(self.member_id, node.member_id, lambda other: other.on_end_of_stream(session_id))

    def pause(self, duration_ns: int) -> None:
        self.paused_until_ns = self.world.now_ns + duration_ns

    def later(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Run an action of this run of the process, after the pause if there is one."""
        run = self.run

        def act() -> None:
            if run != self.run or self.core is None:
                return
            if self.world.now_ns < self.paused_until_ns:
                self.world.at(self.paused_until_ns - self.world.now_ns, act)
                return
            action()
            self.execute()

        self.world.at(delay_ns, act)

    def receive(self, deliver: Callable[[SimulatedNode], None]) -> None:
        if self.core is None:
            return
        if self.world.now_ns < self.paused_until_ns:
            self.world.at(self.paused_until_ns - self.world.now_ns, lambda: self.receive(deliver))
            return
        deliver(self)
        self.execute()

    def schedule_tick(self) -> None:
        assert self.core is not None
        due_ns = max(self.core.next_deadline_ns(), self.world.now_ns)
        if due_ns > self.world.now_ns + 10_000_000_000 or (self.tick_at_ns >= 0 and self.tick_at_ns <= due_ns):
            return
        self.tick_at_ns = due_ns

        def tick() -> None:
            if self.tick_at_ns == due_ns:
                self.tick_at_ns = -1
            assert self.core is not None
            self.core.tick(self.world.now_ns)

        self.later(due_ns - self.world.now_ns + self.world.rng.randint(0, 500_000), tick)

    # -- inputs ---------------------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        core = self.core
        assert core is not None
        if self.world.faults.native and core.state is ElectionState.CLOSED:
            if isinstance(message, AppendPosition):
                core.progress.append_position_received(
                    message.follower_member_id, message.leadership_term_id, message.log_position, self.world.now_ns
                )
                core.progress.advance_leader_commit(self.disk.durable_position, self.world.now_ns)
                return
            if isinstance(message, CommitPosition):
                core.progress.commit_notified(
                    message.leadership_term_id, message.log_position, message.leader_member_id, self.world.now_ns
                )
                core.progress.advance_follower_commit(self.disk.durable_position)
                return
        core.on_message(message, self.world.now_ns)

    def offer(self) -> None:
        """As serving leader, append a client's message."""
        if self.core is None or not self.is_serving or self.world.now_ns < self.paused_until_ns:
            return
        if self.core.is_transferring:
            return
        self.append_own(self.core.leadership_term_id, self.world.rng.choice((32, 64, 128)), False)
        self.execute()

    def transfer(self, target_id: int | None) -> bool:
        """As serving leader, hand over; the log ends where it ends now."""
        if self.core is None or not self.is_serving or self.world.now_ns < self.paused_until_ns:
            return False
        has_begun = self.core.transfer_leadership(target_id, self.disk.end_position, self.world.now_ns)
        self.execute()
        return has_begun

    def change(self, wanted: Configuration) -> bool:
        """As serving leader, append a configuration, if that may be."""
        core = self.core
        if core is None or not self.is_serving or self.is_changing or self.world.now_ns < self.paused_until_ns:
            return False
        if core.find_refusal(wanted, max(0, self.disk.end_position - NEAR_BYTES), self.world.now_ns):
            return False
        self.is_changing = True
        self.append_own(core.leadership_term_id, 32, False, wanted)
        self.execute()
        return True

    def append_own(
        self, leadership_term_id: int, length: int, opens_term: bool, configuration: Configuration | None = None
    ) -> None:
        start = self.disk.end_position
        self.disk.append(
            Entry(leadership_term_id, start, start + length, self.world.new_identity(), opens_term, configuration)
        )
        self.begin_sync()

    # -- durability -----------------------------------------------------------------------------------------------

    def begin_sync(self) -> None:
        if self.world.faults.early_scan:
            self.scan(self.disk.end_position)
        if not self.sync_is_running:
            self.sync_is_running = True
            delay_ns = self.world.rng.randint(50_000, self.world.faults.sync_ns_max)
            session_id, position = self.session_id, self.disk.end_position
            self.later(delay_ns, lambda: self.on_synced(session_id, position))

    def on_synced(self, session_id: int, position: int) -> None:
        if self.session_id != session_id:
            return
        self.sync_is_running = False
        self.report(min(position, self.disk.end_position))
        if self.disk.end_position > self.disk.durable_position:
            self.begin_sync()

    def scan(self, position: int) -> None:
        """Tell the core of new terms in entries not looked at yet."""
        assert self.core is not None
        self.scanned_count = min(self.scanned_count, len(self.disk.entries))
        while self.scanned_count < len(self.disk.entries):
            entry = self.disk.entries[self.scanned_count]
            if entry.end > position:
                break
            self.scanned_count += 1
            if entry.opens_term:
                self.core.on_new_term(entry.leadership_term_id, entry.start, entry.lead)

    def configure(self, position: int) -> None:
        """Tell the core of the configurations up to a durable position that it was not told of yet."""
        assert self.core is not None
        for entry in self.disk.entries[self.disk.index_at(self.configured_position) :]:
            if entry.end > position:
                break
            self.configured_position = entry.end
            if entry.configuration is not None:
                self.is_changing = False
                self.core.on_configuration(entry.end, entry.configuration)

    def report(self, position: int) -> None:
        """The log is durable up to a position."""
        core = self.core
        assert core is not None
        if position <= self.disk.durable_position:
            return
        self.scan(position)
        self.configure(position)
        self.disk.durable_position = position
        if self.world.faults.native and core.state is ElectionState.CLOSED:
            if core.progress.is_leader:
                core.progress.advance_leader_commit(position, self.world.now_ns)
            else:
                core.progress.advance_follower_commit(position)
            for command in core.take_commands():
                self.carry_out(command)
        else:
            core.on_appended(position, self.world.now_ns)

    # -- the leader's log -----------------------------------------------------------------------------------------

    def pull(self) -> None:
        """As follower, ask the leader for what comes next, for as long as the log is joined."""
        if self.session_id < 0 or self.leader_id in (-1, self.member_id):
            return
        session_id, position, source = self.session_id, self.disk.end_position, self.member_id
        self.world.send(source, self.leader_id, lambda node: node.on_pull(source, session_id, position))
        self.pulls += 1
        pulls = self.pulls
        self.later(PULL_INTERVAL_NS, lambda: self.pull() if self.pulls == pulls else None)

    def on_pull(self, follower_id: int, session_id: int, position: int) -> None:
        if session_id != self.session_id or self.leader_id != self.member_id:
            return
        first = self.disk.index_at(position)
        entries = self.disk.entries[first : first + ENTRIES_PER_DATAGRAM]
        end_position = self.disk.end_position
        self.world.send(
            self.member_id, follower_id, lambda node: node.on_data(session_id, position, entries, end_position)
        )

    def on_data(self, session_id: int, position: int, entries: list[Entry], leader_end_position: int) -> None:
        core = self.core
        assert core is not None
        if session_id != self.session_id or self.leader_id == self.member_id:
            return
        if not self.has_joined:
            self.has_joined = True
            core.on_joined(core.append_position, self.world.now_ns)
        if position == self.disk.end_position and entries:
            for entry in entries:
                self.disk.append(entry)
            self.begin_sync()
            if self.disk.end_position < leader_end_position:
                self.pull()
        if not self.is_live and leader_end_position - self.disk.end_position <= 256:
            self.is_live = True
            core.on_live(self.world.now_ns)

    def on_end_of_stream(self, session_id: int) -> None:
        if session_id == self.session_id and self.leader_id != self.member_id:
            assert self.core is not None
            self.core.on_log_lost("end of stream", True, self.world.now_ns)

    # -- commands -------------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Carry out commands until there are none, checking the core after each step."""
        while self.core is not None:
            core = self.core
            core.invariants()
            todo = core.take_commands()
            if not todo:
                break
            for command in todo:
                if self.world.faults_on and self.world.rng.random() < self.world.faults.crash_in_commands:
                    self.crash()
                    return
                self.carry_out(command)
        if self.core is not None:
            self.schedule_tick()

    def carry_out(self, command: commands.Command) -> None:
        name = type(command).__name__
        handler: Callable[[commands.Command], None] = getattr(self, "do_" + name)
        handler(command)

    def do_Send(self, command: commands.Send) -> None:
        message = command.message
        if isinstance(message, TrustAnswer) and message.leadership_term_id != NULL_TERM:
            message = message._replace(log_position=self.disk.end_position)
        self.introduce(command.member_id, message)
        self.world.send_message(self.member_id, command.member_id, message)

    def do_Broadcast(self, command: commands.Broadcast) -> None:
        assert self.core is not None
        for member_id in self.core.known_member_ids:
            if member_id != self.member_id:
                self.introduce(member_id, command.message)
                self.world.send_message(self.member_id, member_id, command.message)

    def introduce(self, member_id: int, message: Message) -> None:
        """A member that has its configuration from the log may be a stranger to the others."""
        assert self.core is not None
        if isinstance(message, CanvassPosition | NewLeadershipTerm) and self.core.configuration_position >= 0:
            for named_id in self.core.configuration.member_ids:
                self.do_Introduce(commands.Introduce(member_id, named_id))

    def do_Introduce(self, command: commands.Introduce) -> None:
        named = partial(SimulatedNode.on_introduction, by=self.member_id, member_id=command.introduced_id)
        self.world.send(self.member_id, command.member_id, named)

    def on_introduction(self, by: int, member_id: int) -> None:
        """Believed of a member that is known itself."""
        assert self.core is not None
        if member_id != self.member_id and self.core.may_introduce(by):
            self.core.on_introduction(member_id)

    def do_PersistCandidateTerm(self, command: commands.PersistCandidateTerm) -> None:
        assert command.candidate_term_id > self.disk.candidate_term_id
        self.disk.candidate_term_id = command.candidate_term_id

    def do_PersistTerm(self, command: commands.PersistTerm) -> None:
        self.disk.put_row(command.leadership_term_id, command.base_position)

    def do_PersistDistrust(self, command: commands.PersistDistrust) -> None:
        self.disk.distrust = command.distrust

    def do_PrepareLog(self, command: commands.PrepareLog) -> None:
        assert command.base_position == self.disk.durable_position == self.disk.end_position
        self.world.note_elected(command.leadership_term_id, self)
        self.session_id = self.world.new_identity()
        self.leader_id = self.member_id
        session_id, base = self.session_id, command.base_position
        self.disk.append(
            Entry(
                command.leadership_term_id,
                base,
                base + FIRST_RECORD_LENGTH,
                self.world.new_identity(),
                opens_term=True,
                lead=Lead(self.member_id, session_id),
            )
        )

        def ready() -> None:
            if self.session_id == session_id:
                assert self.core is not None
                self.core.on_log_ready(session_id, base + FIRST_RECORD_LENGTH, self.world.now_ns)
                self.begin_sync()

        self.later(self.world.rng.randint(0, 3_000_000), ready)

    def do_JoinLog(self, command: commands.JoinLog) -> None:
        assert command.from_position == self.disk.durable_position == self.disk.end_position
        self.session_id = command.log_session_id
        self.leader_id = command.leader_member_id
        self.has_joined = self.is_live = False
        self.pull()

    def do_LeaveLog(self, command: commands.LeaveLog) -> None:
        assert self.core is not None
        self.session_id = self.leader_id = -1
        self.is_serving = self.sync_is_running = self.is_changing = False
        if self.world.faults.leave_discards:
            del self.disk.entries[self.disk.index_at(self.disk.durable_position) :]
            self.scanned_count = min(self.scanned_count, len(self.disk.entries))
        else:
            self.report(self.disk.end_position)

    def do_TruncateLog(self, command: commands.TruncateLog) -> None:
        assert self.session_id == -1
        self.disk.truncate(command.position)
        self.scanned_count = min(self.scanned_count, len(self.disk.entries))
        self.configured_position = min(self.configured_position, command.position)

        def truncated() -> None:
            assert self.core is not None
            self.core.on_truncated(command.position, self.world.now_ns)

        self.later(self.world.rng.randint(0, 1_000_000), truncated)

    def do_Commit(self, command: commands.Commit) -> None:
        assert command.position <= self.disk.durable_position
        self.world.note_committed(self, command.position)

    def do_ChangeRole(self, command: commands.ChangeRole) -> None:
        self.world.trace.update(f"{self.world.now_ns} {self.member_id} {command.role.name}\n".encode())

    def do_Transition(self, command: commands.Transition) -> None:
        assert self.core is not None
        self.world.transitions.add((command.old_state, command.new_state))
        if command.new_state is ElectionState.CLOSED and self.core.role is Role.LEADER:
            assert self.leader_id == self.member_id
            self.is_serving = True
        line = (
            f"{self.world.now_ns} {self.member_id} {command.old_state.name} {command.new_state.name} {command.reason}"
        )
        self.world.trace.update(line.encode())
