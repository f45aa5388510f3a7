"""One core under test: events in, commands out, with the other members played by the test."""

from typing import TypeVar

from ordo.consensus.core import ConsensusCore
from ordo.consensus.state import commands
from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import (
    AppendPosition,
    CanvassPosition,
    CommitPosition,
    Lead,
    Message,
    NewLeadershipTerm,
    RequestVote,
    Vote,
)
from ordo.consensus.state.settings import ConsensusSettings, DurableState
from ordo.consensus.state.states import ElectionState, Role
from ordo.runtime.native.sentinels import NULL_POSITION

MS = 1_000_000
FIRST_RECORD = 96

CommandT = TypeVar("CommandT")
MessageT = TypeVar("MessageT")


class FixedInts:
    """A random source that always gives the lowest number."""

    def uniform_int(self, low: int, high: int) -> int:
        return low


class Harness:
    """A core at virtual time `now_ns`; `taken` are the commands of the last step, in order."""

    def __init__(
        self,
        member_count: int = 3,
        member_id: int = 0,
        terms: tuple[tuple[int, int], ...] = (),
        append_position: int = 0,
        commit_position: int = 0,
        candidate_term_id: int = -1,
        appointed_leader_id: int = -1,
        app_version: int = 1,
        learner_ids: tuple[int, ...] = (),
        configuration: Configuration | None = None,
        distrust: Distrust = Distrust.NONE,
        known_position: int = 0,
        last_lead: tuple[int, int] | None = None,
    ) -> None:
        self.config = ConsensusSettings(
            member_id,
            tuple(range(member_count)),
            learner_ids,
            appointed_leader_id=appointed_leader_id,
            app_version=app_version,
        )
        durable = DurableState(
            candidate_term_id,
            list(terms),
            append_position,
            commit_position,
            configuration,
            distrust,
            known_position,
            {} if last_lead is None else {terms[-1][0]: Lead(*last_lead)},
        )
        self.core = ConsensusCore(self.config, durable, FixedInts())
        self.now_ns = 0
        self.taken: list[commands.Command] = []
        self.core.start(0)

    # -- steps ----------------------------------------------------------------------------------------------------

    def after(self) -> "Harness":
        self.taken = self.core.take_commands()
        self.core.invariants()
        return self

    def tick(self, ms: float = 0) -> "Harness":
        """Let time pass and tick once."""
        self.now_ns += int(ms * MS)
        self.core.tick(self.now_ns)
        return self.after()

    def receive(self, message: Message) -> "Harness":
        self.core.on_message(message, self.now_ns)
        return self.after()

    def appended(self, position: int) -> "Harness":
        self.core.on_appended(position, self.now_ns)
        return self.after()

    def configured(self, voters: tuple[int, ...], learners: tuple[int, ...] = ()) -> "Harness":
        """A record of a configuration, 32 bytes long, becomes durable at the end of the own log."""
        position = self.core.append_position + 32
        self.core.on_configuration(position, Configuration(voters, learners))
        return self.appended(position)

    def refusal(self, voters: tuple[int, ...], learners: tuple[int, ...] = ()) -> str:
        """Why the configuration may not be appended now; learners must be at the end of the log to become voters."""
        return self.core.find_refusal(Configuration(voters, learners), self.core.append_position, self.now_ns)

    def expect(self, state: ElectionState) -> "Harness":
        """Demand a state."""
        assert self.core.state is state, self.core.describe()
        return self

    # -- what came out --------------------------------------------------------------------------------------------

    def of(self, kind: type[CommandT]) -> list[CommandT]:
        """Commands of one kind, in order."""
        return [command for command in self.taken if isinstance(command, kind)]

    def sent(self, kind: type[MessageT]) -> list[tuple[int | None, MessageT]]:
        """Messages of one kind as (target, message); a target of None means all others."""
        out: list[tuple[int | None, MessageT]] = []
        for command in self.taken:
            if isinstance(command, commands.Send) and isinstance(command.message, kind):
                out.append((command.member_id, command.message))
            elif isinstance(command, commands.Broadcast) and isinstance(command.message, kind):
                out.append((None, command.message))
        return out

    @property
    def state(self) -> ElectionState:
        return self.core.state

    @property
    def term(self) -> int:
        return self.core.candidate_term_id

    # -- the others -----------------------------------------------------------------------------------------------

    def others(self) -> list[int]:
        return [member_id for member_id in self.config.member_ids if member_id != self.config.member_id]

    def canvass_from(self, *member_ids: int, log_term: int = -1, position: int = 0, bound: int = -1) -> "Harness":
        for member_id in member_ids:
            self.receive(CanvassPosition(log_term, position, bound, member_id))
        return self

    def vote_from(self, *member_ids: int, vote: bool = True) -> "Harness":
        for member_id in member_ids:
            self.receive(Vote(self.term, -1, 0, self.config.member_id, member_id, vote))
        return self

    def request_from(self, member_id: int, leadership_term_id: int, log_term: int = -1, position: int = 0) -> "Harness":
        return self.receive(RequestVote(log_term, position, leadership_term_id, member_id))

    def ack_from(self, member_id: int, position: int, leadership_term_id: int | None = None) -> "Harness":
        return self.receive(
            AppendPosition(self.term if leadership_term_id is None else leadership_term_id, position, member_id)
        )

    def commit_from(self, member_id: int, position: int, leadership_term_id: int | None = None) -> "Harness":
        return self.receive(
            CommitPosition(self.term if leadership_term_id is None else leadership_term_id, position, member_id)
        )

    def announce(
        self,
        leader_id: int,
        leadership_term_id: int,
        base: int,
        log_term: int = -1,
        next_term: int | None = None,
        next_base: int | None = None,
        next_end: int = NULL_POSITION,
        position: int | None = None,
        commit: int = 0,
        app_version: int = 1,
        session_id: int = 77,
    ) -> "Harness":
        """NewLeadershipTerm of a leader whose row after `log_term` is, unless told, that of its new term."""
        return self.receive(
            NewLeadershipTerm(
                log_leadership_term_id=log_term,
                next_leadership_term_id=leadership_term_id if next_term is None else next_term,
                next_term_base_log_position=base if next_base is None else next_base,
                next_log_position=next_end,
                leadership_term_id=leadership_term_id,
                term_base_log_position=base,
                log_position=base if position is None else position,
                leader_recording_id=-1,
                timestamp=0,
                leader_member_id=leader_id,
                log_session_id=session_id,
                app_version=app_version,
                is_startup=True,
                commit_position=commit,
            )
        )

    # -- ready-made situations ------------------------------------------------------------------------------------

    def canvassing(self) -> "Harness":
        self.tick()
        self.expect(ElectionState.CANVASS)
        return self

    def balloting(self) -> "Harness":
        """Candidate, with all others known to have an empty log."""
        self.canvassing().canvass_from(*self.others()).tick(1).tick(1)
        self.expect(ElectionState.CANDIDATE_BALLOT)
        return self

    def elected(self) -> "Harness":
        """Announcing its term; its first record is appended but durable nowhere."""
        self.balloting().vote_from(*self.others())
        self.expect(ElectionState.LEADER_INIT)
        self.core.on_log_ready(55, self.core.append_position + FIRST_RECORD, self.now_ns)
        self.after()
        self.expect(ElectionState.LEADER_READY)
        return self

    def serving(self) -> "Harness":
        """Leader of its term with every member's log at its own end."""
        self.elected()
        base = self.core.term_base_position
        self.core.on_new_term(self.term, base)
        self.appended(base + FIRST_RECORD)
        for member_id in self.others():
            self.ack_from(member_id, base + FIRST_RECORD)
        self.expect(ElectionState.CLOSED)
        assert self.core.role is Role.LEADER
        return self

    def following(self, leader_id: int = 1, leadership_term_id: int = 0) -> "Harness":
        """Follower of a leader whose log began with the own, joined and live; the term's first record is durable."""
        self.canvassing()
        base, log_term = self.core.append_position, self.core.log_term_id
        self.announce(leader_id, leadership_term_id, base, log_term=log_term)
        self.expect(ElectionState.FOLLOWER_CATCHUP_AWAIT)
        self.core.on_joined(base, self.now_ns)
        self.core.on_new_term(leadership_term_id, base)
        self.core.on_appended(base + FIRST_RECORD, self.now_ns)
        self.core.on_live(self.now_ns)
        self.after()
        self.expect(ElectionState.CLOSED)
        return self
