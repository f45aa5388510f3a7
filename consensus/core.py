"""Raft without I/O: events and the time go in, commands come out.

The shell around it hands in what it receives and scans, calls `tick`, and executes the commands in order. The same
inputs give the same commands. Nothing here opens a socket or a file, reads a clock, starts a thread or rolls dice.
"""

from collections.abc import Collection

from ordo.consensus import deadlines, dispatch, invariants
from ordo.consensus.handlers import following, leading, membership, termination, transfer
from ordo.consensus.state.commands import Command, PersistTerm
from ordo.consensus.state.configuration import MEMBERS_MAX, Configuration
from ordo.consensus.state.context import Context
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import FORGOTTEN_TERM, Lead, Message
from ordo.consensus.state.progress import Progress
from ordo.consensus.state.settings import ConsensusSettings, DurableState, UniformInts
from ordo.consensus.state.states import ElectionState, Role
from ordo.runtime.errors import ConsensusError

STRANGERS_MAX = 2 * MEMBERS_MAX


class ConsensusCore:
    """One member's part in the consensus.

    Any method may add commands: call `take_commands` after each. In state CLOSED the shell may feed `progress`
    natively instead of calling `on_message` for AppendPosition and CommitPosition and `on_appended`, and send those two
    messages itself (noting it with `Progress.note_sent`); `tick` then notices what became of it.
    Every method may raise ConsensusError: the node must stop then.
    """

    def __init__(self, config: ConsensusSettings, durable: DurableState, rng: UniformInts) -> None:
        self._ctx = Context(config, durable, rng)
        self._watermarks = invariants.Watermarks()
        self._is_started = False

    # -- inputs ---------------------------------------------------------------------------------------------------

    def start(self, now_ns: int) -> None:
        """Start the core. Its first tick leaves the state INIT."""
        assert not self._is_started
        self._is_started = True
        self._ctx.now_ns = now_ns
        self._ctx.state_since_ns = now_ns
        self._ctx.quorum_candidate_at_ns = now_ns

    def tick(self, now_ns: int) -> None:
        """Let time pass; call it at least every 10 ms, or at `next_deadline_ns`."""
        dispatch.tick(self._at(now_ns))

    def on_message(self, message: Message, now_ns: int) -> None:
        """Handle a message from another member.

        Messages of strangers, echoes, and everything during INIT are ignored.
        """
        dispatch.on_message(self._at(now_ns), message)

    def on_new_term(self, leadership_term_id: int, base_position: int, lead: Lead | None = None) -> None:
        """Take note of a term whose first record was found in this member's log at `base_position`, and names its lead.

        Report it before any `on_appended` beyond. Emits PersistTerm.
        """
        ctx = self._ctx
        if not ctx.can_begin_term(leadership_term_id, base_position):
            raise ConsensusError(
                f"a record of leadership_term_id={leadership_term_id} begins at {base_position}, in state"
                f" {ctx.state.name} of term {ctx.leadership_term_id}, after terms {ctx.terms.rows} and"
                f" append_position={ctx.append_position}"
            )
        ctx.terms.append(leadership_term_id, base_position, lead)
        ctx.raise_candidate_term(leadership_term_id)
        ctx.emit(PersistTerm(leadership_term_id, base_position, lead))

    def on_configuration(self, position: int, configuration: Configuration) -> None:
        """Put a configuration in force that was found in this member's durable log, up to `position`.

        Report it before any `on_appended` to it or beyond.
        """
        ctx = self._ctx
        is_in_log = self._is_started and position <= ctx.append_position
        if is_in_log or position <= ctx.configurations.position:
            raise ConsensusError(
                f"a configuration at position={position}, after the one at {ctx.configurations.position} and"
                f" append_position={ctx.append_position}"
            )
        ctx.configure(position, configuration)

    def may_introduce(self, member_id: int) -> bool:
        """Return whether a member's word is enough to take another for a member.

        It is when the former is known, and was not removed.
        """
        ctx = self._ctx
        return member_id in ctx.members and not ctx.is_removed_member(member_id)

    def on_introduction(self, member_id: int) -> bool:
        """Take note, for an election, of a member that this one may not know, introduced by one that `may_introduce`.

        False when there are too many.
        """
        ctx = self._ctx
        if member_id in ctx.members or len(ctx.strangers) < STRANGERS_MAX:
            ctx.introduce(member_id)
        return member_id in ctx.members

    def on_appended(self, append_position: int, now_ns: int) -> None:
        """Take note that this member's log is durable, and scanned for terms, up to `append_position`."""
        ctx = self._at(now_ns)
        has_grown = append_position > ctx.append_position
        ctx.grow_to(append_position)
        if has_grown and ctx.is_following:
            following.note_progress(ctx)
        if ctx.log_is_open:
            self.tick(now_ns)

    def on_log_ready(self, log_session_id: int, first_record_end: int, now_ns: int) -> None:
        """Announce the term: PrepareLog is done, the term's first record is appended and ends at `first_record_end`."""
        leading.on_log_ready(self._at(now_ns), log_session_id, first_record_end)

    def on_joined(self, position: int, now_ns: int) -> None:
        """Begin catching up: JoinLog is done, and the leader's log arrives from `position` on."""
        following.on_joined(self._at(now_ns), position)

    def on_restarted(self, member_id: int) -> None:
        """Take note that a member's process has started again: if it led, it leads no longer."""
        following.on_restarted(self._ctx, member_id)

    def bear_standstill(self, now_ns: int) -> None:
        """Give a follower time to continue joining while it cannot take the log for a reason of its own."""
        ctx = self._at(now_ns)
        if ctx.is_following and not ctx.is_closed:
            following.note_progress(ctx)

    def on_live(self, now_ns: int) -> None:
        """Become a follower: catch-up has reached the leader's live stream."""
        following.on_live(self._at(now_ns))

    def on_log_lost(self, reason: str, end_of_stream: bool, now_ns: int) -> None:
        """Take note that the log publication, the image or its recording is gone.

        `end_of_stream`: the leader closed it properly.
        """
        dispatch.on_log_lost(self._at(now_ns), reason, end_of_stream)

    def on_truncated(self, position: int, now_ns: int) -> None:
        """Leave INIT: the shell has carried out TruncateLog."""
        ctx = self._at(now_ns)
        if position != ctx.pending_truncation:
            raise ConsensusError(f"log was truncated to position={position}, ordered was {ctx.pending_truncation}")
        ctx.shrink_to(position)

    def begin_termination(self, position: int, now_ns: int) -> None:
        """Have all members stop once they executed the log up to `position`, as the serving leader.

        May be repeated, to give them the termination timeout anew.
        """
        termination.begin_termination(self._at(now_ns), position)

    def acknowledge_termination(self, position: int, now_ns: int) -> None:
        """Note, as a follower, that the log is executed up to `position` and the services have stopped.

        The leader is told if it asked.
        """
        termination.acknowledge_termination(self._at(now_ns), position)

    def transfer_leadership(self, target_member_id: int | None, end_position: int, now_ns: int) -> bool:
        """Hand the leadership over, as the serving leader, to a member or to the one with most of the log (Raft §3.10).

        The shell has stopped appending, its log ends at `end_position`, and it appends nothing while `is_transferring`.
        False, with nothing begun, when no such member was heard lately, or while the cluster ends.
        """
        begun = transfer.begin_transfer(self._at(now_ns), target_member_id, end_position)
        if begun:
            self.tick(now_ns)
        return begun

    def find_refusal(self, wanted: Configuration, near_position: int, now_ns: int) -> str:
        """Return why this member may not append a configuration to the log now, or an empty string (Raft §4.1, §4.2.2).

        A learner that is to vote must have the log up to `near_position`. The shell has no other configuration appended
        that is not durable yet, and appends at once.
        """
        return membership.find_refusal(self._at(now_ns), wanted, near_position)

    # -- outputs --------------------------------------------------------------------------------------------------

    def take_commands(self) -> list[Command]:
        """Return the commands to carry out now, in order; each is handed out once."""
        commands = self._ctx.commands
        if commands:
            self._ctx.commands = []
        return commands

    def next_deadline_ns(self) -> int:
        """Return when `tick` has something to do, at the latest (ns)."""
        return deadlines.next_deadline_ns(self._ctx)

    # -- looking inside -------------------------------------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """The steady state; progress.pxd says which part writes what, and when."""
        return self._ctx.progress

    @property
    def state(self) -> ElectionState:
        """The election state; CLOSED while none is running."""
        return self._ctx.state

    @property
    def role(self) -> Role:
        """Follower, candidate or leader."""
        return self._ctx.role

    @property
    def member_id(self) -> int:
        """The id of this member."""
        return self._ctx.own.member_id

    @property
    def takes_part(self) -> bool:
        """Whether this node is, or may become, a member of the cluster whose log it has."""
        return True

    @property
    def is_serving(self) -> bool:
        """Whether this member leads a term whose first record is committed."""
        return self._ctx.is_leading and self._ctx.is_closed

    def is_bound_to(self, leadership_term_id: int, leader_member_id: int) -> bool:
        """Return whether this member follows a leader, and has voted in no later term."""
        ctx = self._ctx
        is_follower = ctx.is_following and self.leader_member_id == leader_member_id
        return is_follower and ctx.leadership_term_id == ctx.candidate_term_id == leadership_term_id

    def is_quorum(self, member_ids: Collection[int]) -> bool:
        """Return whether the voters among these members are enough for a decision."""
        return len(set(self._ctx.configuration.voter_ids) & set(member_ids)) >= self._ctx.quorum_threshold

    @property
    def leadership_term_id(self) -> int:
        """The term this member leads or follows, or did last; NULL_TERM before the first."""
        return self._ctx.leadership_term_id

    @property
    def term_base_position(self) -> int:
        """Where the log of `leadership_term_id` begins, or NULL_POSITION before this run's first term."""
        return self._ctx.term_base_position

    @property
    def leader_member_id(self) -> int:
        """The leader of the term, this member included, or NULL_MEMBER."""
        return self._ctx.progress.leader_member_id

    @property
    def log_session_id(self) -> int:
        """Session of the leader's log publication; of meaning while there is a leader."""
        return self._ctx.log_session_id

    @property
    def candidate_term_id(self) -> int:
        """The term this member is bound to: it votes and follows in no lower one."""
        return self._ctx.candidate_term_id

    @property
    def append_position(self) -> int:
        """The position up to which the log of this member is durable."""
        return self._ctx.append_position

    @property
    def log_term_id(self) -> int:
        """Term of the last entry of this member's durable log, or NULL_TERM."""
        return self._ctx.log_term_id

    @property
    def terms(self) -> list[tuple[int, int]]:
        """The term table: (term id, base position), oldest first."""
        return self._ctx.terms.rows

    @property
    def commit_position(self) -> int:
        """Everything below is committed; never goes back."""
        return self._ctx.progress.commit_position

    @property
    def distrust(self) -> Distrust:
        """What is wrong with this member, so that it may not vote, or (STATE alone) not serve as a leader."""
        return self._ctx.distrust

    def doubt_state(self) -> None:
        """Stand back from leadership until the next start; the member still votes.

        Its service's state is not that of the others. Not to be called while leading.
        """
        assert not self._ctx.is_leading, "a leader hands over first"
        self._ctx.doubt_state()

    def lag(self, lags: bool) -> None:
        """Note that the service lags far behind the commit position, or has caught up.

        While it is behind, the member stands back if another is level.
        """
        self._ctx.lag(lags)

    @property
    def successors(self) -> list[int]:
        """Members to which this leader could hand over now."""
        ctx = self._ctx
        return [one.member_id for one in ctx.others() if ctx.is_leading and transfer.can_lead(ctx, one.member_id)]

    @property
    def is_leading(self) -> bool:
        """Whether this member leads its term, serving or not yet."""
        return self._ctx.is_leading

    @property
    def untrusted_members(self) -> list[int]:
        """Voters that lost something, as they said lately, so that they may not vote; this one included if so."""
        ctx = self._ctx
        has_lost = ctx.distrust.is_loss
        return [one.member_id for one in ctx.voters() if ctx.is_distrusted(one) or (one is ctx.own and has_lost)]

    @property
    def unknown_terms(self) -> list[int]:
        """Members whose term this member must still learn, because it forgot its vote."""
        ctx = self._ctx
        if Distrust.VOTE not in ctx.distrust:
            return []
        ids = [other.member_id for other in ctx.others()]
        return [one for one in ids if ctx.trust_terms.get(one, FORGOTTEN_TERM) == FORGOTTEN_TERM]

    @property
    def is_leader_startup(self) -> bool:
        """Whether the leader of the term was elected right after its start."""
        return self._ctx.is_leader_startup

    @property
    def termination_position(self) -> int:
        """The position at which the cluster was told to stop, or NULL_POSITION."""
        return self._ctx.termination_position

    @property
    def termination_is_complete(self) -> bool:
        """Leader: all followers have left, or the termination timeout has passed."""
        return termination.termination_is_complete(self._ctx)

    @property
    def is_transferring(self) -> bool:
        """Leader: handing over; false again when another member was elected, or none came forward in time."""
        return self._ctx.is_transferring

    @property
    def election_timeout_ns(self) -> int:
        """How long a ballot, or a transfer, may take."""
        return self._ctx.config.election_timeout_ns

    @property
    def configuration(self) -> Configuration:
        """Voters and learners: the newest configuration of this member's durable log, committed or not."""
        return self._ctx.configuration

    @property
    def known_member_ids(self) -> list[int]:
        """All that were ever named, this member included: whom `Broadcast` goes to."""
        return list(self._ctx.members)

    @property
    def configuration_position(self) -> int:
        """Where the record of the configuration in force ends; NULL_POSITION while the log has none."""
        return self._ctx.configurations.position

    def configuration_at(self, position: int) -> Configuration | None:
        """Return the log's configuration at a position at or beyond the newest snapshot, or None."""
        return self._ctx.configurations.at(position)

    @property
    def may_vote(self) -> bool:
        """Whether this member may give votes."""
        return self._ctx.may_vote

    @property
    def is_removed(self) -> bool:
        """Whether this member follows a leader in a cluster that it was taken out of: its node may end."""
        return self._ctx.is_removed

    def invariants(self) -> None:
        """Raise AssertionError where the member's state contradicts itself or the last call."""
        invariants.check(self._ctx, self._watermarks)

    def describe(self) -> str:
        """Return one line for logs and errors, always in the same form."""
        ctx = self._ctx
        return (
            f"member={ctx.own.member_id} state={ctx.state.name} role={ctx.role.name} term={ctx.leadership_term_id}"
            f" leader={self.leader_member_id} candidateTerm={ctx.candidate_term_id} logTerm={ctx.log_term_id}"
            f" append={ctx.append_position} commit={ctx.progress.commit_position}"
            + ("" if not ctx.distrust else f" distrust={ctx.distrust.name}")
        )

    # -- inside ---------------------------------------------------------------------------------------------------

    def _at(self, now_ns: int) -> Context:
        """Set the time, which never goes back here, even if the caller's clock does."""
        assert self._is_started
        ctx = self._ctx
        ctx.now_ns = max(ctx.now_ns, now_ns)
        return ctx
