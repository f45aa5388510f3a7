"""One member to be explored: the shipping consensus core and read index, with the smallest honest shell around them.

A member is forked by pickling it, so that its core is the real object with all that it holds. Its time has two lengths
only: a beat, in which what is sent again and again becomes due, and a timeout, in which everything expires. However
many beats an exploration has, they never add up to a timeout.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

from ordo.consensus.core import ConsensusCore
from ordo.consensus.read_index import ReadIndex
from ordo.consensus.state import commands, context
from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import NULL_MEMBER, AppendPosition, Lead, Message, ReadMessage, RequestVote, Vote
from ordo.consensus.state.progress import Progress
from ordo.consensus.state.settings import ConsensusSettings, DurableState
from ordo.consensus.state.states import ElectionState
from tests.consensus.disk import Disk, Entry
from tests.consensus.harness import FixedInts

BEAT_NS = 10
TIMEOUT_NS = 1_000_000_000
JUMP_NS = 4 * TIMEOUT_NS
FIRST_NS = 100 * TIMEOUT_NS
FIRST_RECORD_LENGTH = 96
RECORD_LENGTH = 32
ROUNDS_OF_A_RUN = 1_000
READ_MESSAGES = get_args(ReadMessage)
PROGRESS_FIELDS = (
    *("leadership_term_id", "leader_member_id", "is_leader", "is_following", "first_record_end", "own_position"),
    *("notified_position", "commit_position", "last_leader_activity_ns", "last_sent_ns", "last_sent_position"),
    "higher_term_seen",
)


def settings(member_id: int, member_ids: tuple[int, ...], learner_ids: tuple[int, ...] = ()) -> ConsensusSettings:
    """Return the settings of a member whose timeouts are all the same."""
    return ConsensusSettings(
        member_id,
        member_ids,
        learner_ids,
        leader_heartbeat_timeout_ns=TIMEOUT_NS,
        leader_heartbeat_interval_ns=BEAT_NS,
        election_timeout_ns=TIMEOUT_NS,
        election_status_interval_ns=BEAT_NS,
        startup_canvass_timeout_ns=TIMEOUT_NS,
        termination_timeout_ns=TIMEOUT_NS,
    )


def session_of(leadership_term_id: int, member_id: int) -> int:
    """Return the session of a leader's log: a member leads a term at most once."""
    return leadership_term_id * 16 + member_id


class Keep:
    """Lets a crash keep a given number of records that were not synced."""

    def __init__(self, count: int) -> None:
        self.count = count

    def randint(self, low: int, high: int) -> int:
        """Return which record is the first to be lost."""
        return min(low + self.count, high)


class ExploredMember:
    """Survives crashes as its disk, and what `vote` remembers of what it promised."""

    def __init__(self, config: ConsensusSettings, has_reads: bool) -> None:
        self.config = config
        self.has_reads = has_reads
        self.disk = Disk()
        self.now_ns = FIRST_NS
        self.has_joined, self.is_live = False, False
        self.vote = (-1, NULL_MEMBER)
        """The last vote that anybody heard of: its term, and for whom."""
        self.starts = 0
        self.sent: list[tuple[int, Message]] = []
        self.events: list[tuple[Any, ...]] = []
        self.core: ConsensusCore
        self.reads: ReadIndex[int] | None = None
        self._start()

    # -- inputs -------------------------------------------------------------------------------------------------------

    def take(self, kind: str, *arguments: Any) -> None:
        """Take one input, and carry out all that follows from it at once."""
        handler: Callable[..., None] = getattr(self, f"on_{kind}")
        handler(*arguments)
        self._settle()

    def on_beat(self) -> None:
        """Let so much time pass that what is repeated becomes due."""
        self.now_ns += BEAT_NS

    def on_timeout(self) -> None:
        """Let so much time pass that every timeout of this member is over."""
        self.now_ns += JUMP_NS

    def on_deliver(self, message: Message) -> None:
        """Receive a message."""
        if isinstance(message, READ_MESSAGES):
            if self.reads is not None:
                self.reads.on_message(message, self.now_ns)
        else:
            self.core.on_message(message, self.now_ns)

    def on_crash(self, kept: int) -> None:
        """Lose what was not synced, but for its first `kept` records, and start again."""
        self.disk.crash(Keep(kept))  # type: ignore[arg-type]
        self._start()

    def on_sync(self) -> None:
        """Have all of the log durable."""
        self._report(self.disk.end_position)

    def on_append(self, identity: int) -> None:
        """Append a client's record, as the serving leader."""
        self._append_own(RECORD_LENGTH, identity, False)

    def on_change(self, wanted: Configuration) -> None:
        """Append a configuration, as the serving leader."""
        self._append_own(RECORD_LENGTH, 0, False, wanted)

    def on_transfer(self, target_id: int) -> None:
        """Hand the leadership over."""
        self.core.transfer_leadership(target_id, self.disk.end_position, self.now_ns)

    def on_read(self, required_position: int) -> None:
        """Ask for the read index; what is confirmed must not be below a position that is known to be committed."""
        assert self.reads is not None
        self.reads.add(required_position, self.now_ns)

    def on_data(self, session_id: int, entry: Entry | None, is_end: bool) -> None:
        """Receive the next record of the leader's log, or learn that there is none."""
        core = self.core
        if session_id != self.session_id or self.leader_id == self.config.member_id:
            return
        if not self.has_joined:
            self.has_joined = True
            core.on_joined(core.append_position, self.now_ns)
        if entry is not None:
            self.disk.append(entry)
        if is_end and not self.is_live:
            self.is_live = True
            self._report(self.disk.end_position)
            core.on_live(self.now_ns)

    def may_change_to(self, wanted: Configuration) -> bool:
        """Return whether the serving leader may append a configuration now."""
        is_pending = any(one.configuration for one in self.disk.entries[self.disk.index_at(self.configured_position) :])
        return not is_pending and not self.core.find_refusal(wanted, self.disk.end_position, self.now_ns)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        disk = self.disk
        self.session_id, self.leader_id = -1, NULL_MEMBER
        self.has_joined = self.is_live = False
        self.scanned_count, self.configured_position = len(disk.entries), 0
        durable = DurableState(
            disk.candidate_term_id, list(disk.rows), disk.end_position, distrust=Distrust.NONE, leads=disk.leads()
        )
        self.core = ConsensusCore(self.config, durable, FixedInts())
        self._configure(disk.end_position)
        self.core.start(self.now_ns)
        if self.has_reads:
            self.starts += 1
            self.reads = ReadIndex(self.core, BEAT_NS, self.starts * ROUNDS_OF_A_RUN)

    def _settle(self) -> None:
        """Carry out commands, and tick, until nothing more follows."""
        self._carry_out()
        while True:
            self.core.tick(self.now_ns)
            if not self._carry_out():
                break
        if self.reads is not None:
            self._take_reads(self.reads)

    def _carry_out(self) -> bool:
        any_done = False
        while True:
            self.core.invariants()
            todo = self.core.take_commands()
            if not todo:
                return any_done
            any_done = True
            for command in todo:
                handler: Callable[[Any], None] | None = getattr(self, f"_do_{type(command).__name__}", None)
                if handler is not None:
                    handler(command)

    def _take_reads(self, reads: ReadIndex[int]) -> None:
        reads.tick(self.now_ns)
        for target_id, message in reads.take_messages():
            for one in self.core.known_member_ids if target_id == NULL_MEMBER else [target_id]:
                self._send(one, message)
        for required_position, position in reads.take_confirmed():
            assert position >= required_position, (
                f"a read was answered at {position}, and {required_position} was committed when it was asked"
            )
        reads.take_failed()

    def _append_own(
        self, length: int, identity: int, opens_term: bool, configuration: Configuration | None = None
    ) -> None:
        start = self.disk.end_position
        term_id, member_id = self.core.leadership_term_id, self.config.member_id
        lead = Lead(member_id, session_of(term_id, member_id)) if opens_term else None
        self.disk.append(Entry(term_id, start, start + length, identity, opens_term, configuration, lead))

    def _report(self, position: int) -> None:
        if position <= self.disk.durable_position:
            return
        while self.scanned_count < len(self.disk.entries):
            entry = self.disk.entries[self.scanned_count]
            self.scanned_count += 1
            if entry.opens_term:
                self.core.on_new_term(entry.leadership_term_id, entry.start, entry.lead)
                self._carry_out()
        self._configure(position)
        self.disk.durable_position = position
        self.core.on_appended(position, self.now_ns)

    def _configure(self, position: int) -> None:
        for entry in self.disk.entries[self.disk.index_at(self.configured_position) :]:
            if entry.end > position:
                break
            self.configured_position = entry.end
            if entry.configuration is not None:
                self.core.on_configuration(entry.end, entry.configuration)

    def _send(self, target_id: int, message: Message) -> None:
        if target_id == self.config.member_id:
            return
        if isinstance(message, AppendPosition):
            assert message.log_position <= self.disk.durable_position, "acknowledged before it was durable"
        if isinstance(message, Vote) and message.vote:
            self._promise(message.candidate_term_id, message.candidate_member_id)
        if isinstance(message, RequestVote):
            self._promise(message.candidate_term_id, self.config.member_id)
        self.sent.append((target_id, message))

    def _promise(self, candidate_term_id: int, candidate_id: int) -> None:
        last_term_id, last_id = self.vote
        assert (candidate_term_id, candidate_id) == self.vote or candidate_term_id > last_term_id, (
            f"a vote in term {candidate_term_id} for {candidate_id}, after one in term {last_term_id} for {last_id}"
        )
        self.vote = candidate_term_id, candidate_id

    # -- commands -----------------------------------------------------------------------------------------------------

    def _do_Send(self, command: commands.Send) -> None:
        self._send(command.member_id, command.message)

    def _do_Broadcast(self, command: commands.Broadcast) -> None:
        for member_id in self.core.known_member_ids:
            self._send(member_id, command.message)

    def _do_PersistCandidateTerm(self, command: commands.PersistCandidateTerm) -> None:
        assert command.candidate_term_id > self.disk.candidate_term_id
        self.disk.candidate_term_id = command.candidate_term_id

    def _do_PersistTerm(self, command: commands.PersistTerm) -> None:
        self.disk.put_row(command.leadership_term_id, command.base_position)

    def _do_PrepareLog(self, command: commands.PrepareLog) -> None:
        assert command.base_position == self.disk.durable_position == self.disk.end_position
        member_id = self.config.member_id
        self.session_id, self.leader_id = session_of(command.leadership_term_id, member_id), member_id
        self.events.append(("elected", command.leadership_term_id))
        self._append_own(FIRST_RECORD_LENGTH, -1 - member_id, True)
        self.core.on_log_ready(self.session_id, self.disk.end_position, self.now_ns)

    def _do_JoinLog(self, command: commands.JoinLog) -> None:
        assert command.from_position == self.disk.durable_position == self.disk.end_position
        self.session_id, self.leader_id = command.log_session_id, command.leader_member_id
        self.has_joined = self.is_live = False

    def _do_LeaveLog(self, command: commands.LeaveLog) -> None:
        self.session_id, self.leader_id = -1, NULL_MEMBER
        self._report(self.disk.end_position)

    def _do_TruncateLog(self, command: commands.TruncateLog) -> None:
        self.disk.truncate(command.position)
        self.scanned_count = min(self.scanned_count, len(self.disk.entries))
        self.configured_position = min(self.configured_position, command.position)
        self.core.on_truncated(command.position, self.now_ns)

    def _do_Commit(self, command: commands.Commit) -> None:
        assert command.position <= self.disk.durable_position, "committed before it was durable here"
        self.events.append(("commit", command.position))


# -- forking ----------------------------------------------------------------------------------------------------------


class ProgressState(NamedTuple):
    """What a Progress holds, taken and put back through its own methods."""

    member_id: int
    configuration: tuple[tuple[int, ...], tuple[int, ...]]
    now_ns: int
    fields: tuple[int, ...]
    heard: tuple[tuple[int, int, bool], ...]
    """Of each other member: its id, its position, and whether it was heard lately."""


def restore_progress(state: ProgressState) -> Progress:
    """Return a Progress as it was; who was heard lately was heard now, which is the same to a clock of two lengths."""
    progress: Progress = vars(context)["Progress"](state.member_id, state.configuration[0], TIMEOUT_NS)
    progress.configure(*state.configuration)
    values = dict(zip(PROGRESS_FIELDS, state.fields, strict=True))
    progress.leadership_term_id, progress.is_leader = values["leadership_term_id"], True
    for member_id, position, is_active in state.heard:
        heard_ns = state.now_ns if is_active else 0
        if position >= 0:
            progress.append_position_received(member_id, progress.leadership_term_id, position, heard_ns)
        elif is_active:
            progress.touch(member_id, heard_ns)
    for name, value in values.items():
        setattr(progress, name, value)
    return progress


class Forker:
    """Turns members into bytes and back; what never changes is shared."""

    def __init__(self) -> None:
        self._shared: list[Any] = []

    def save(self, member: ExploredMember) -> bytes:
        """Return a member as bytes."""
        buffer = io.BytesIO()
        _Pickler(buffer, self._shared, member).dump(member)
        return buffer.getvalue()

    def load(self, data: bytes) -> ExploredMember:
        """Return another member of the same state."""
        member: ExploredMember = _Unpickler(io.BytesIO(data), self._shared).load()
        return member


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, shared: list[Any], member: ExploredMember) -> None:
        super().__init__(buffer, protocol=5)
        self._shared = shared
        self._member = member

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, ConsensusSettings | Configuration | Entry | ElectionState):
            return None
        for index, shared in enumerate(self._shared):
            if shared is obj:
                return index
        if isinstance(obj, ConsensusSettings | ElectionState):
            self._shared.append(obj)
            return len(self._shared) - 1
        return None

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Progress):
            return NotImplemented
        configuration, now_ns = self._member.core.configuration, self._member.now_ns
        heard = tuple(
            (one, obj.member_position(one), obj.is_active(one, now_ns))
            for one in configuration.member_ids
            if one != obj.member_id
        )
        fields = tuple(getattr(obj, name) for name in PROGRESS_FIELDS)
        ids = configuration.voter_ids, configuration.learner_ids
        return restore_progress, (ProgressState(obj.member_id, ids, now_ns, fields, heard),)


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, shared: list[Any]) -> None:
        super().__init__(buffer)
        self._shared = shared

    def persistent_load(self, index: Any) -> Any:
        return self._shared[index]
