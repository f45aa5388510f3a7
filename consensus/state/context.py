"""The state of one member that all handlers share, and the few ways to change it."""

from ordo.consensus.state import commands
from ordo.consensus.state.configuration import Configuration, ConfigurationTable
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import NULL_MEMBER, NULL_TERM, Message, RequestVote
from ordo.consensus.state.progress import Progress
from ordo.consensus.state.quorum import NEVER_NS, Member
from ordo.consensus.state.settings import ConsensusSettings, DurableState, UniformInts
from ordo.consensus.state.states import ElectionState, Role
from ordo.consensus.state.term_table import TermTable
from ordo.runtime.errors import ConsensusError
from ordo.runtime.native.sentinels import NULL_POSITION

REQUEST_ID_MAX = (1 << 62) - 1


class Context:
    """Everything a handler may read, and the primitives through which it changes state and gives commands.

    `leadership_term_id` is the term this member leads or follows, or did last; `candidate_term_id` the durable one it
    is bound to; `term_seen` the highest term met in any message, of use only to choose the next candidate term.
    `configuration` is the one in force: the newest in this member's durable log, committed or not (Raft §4.1).
    `members` are all that were ever named: by the settings, by the log, or by others (`strangers`; `vouched`, since
    the configuration in force).
    Those of the configuration in force count; the others are talked to, for either side may know an older one.
    """

    def __init__(self, config: ConsensusSettings, durable: DurableState, rng: UniformInts) -> None:
        self.config = config
        self.rng = rng
        self.now_ns = 0
        self.state = ElectionState.INIT
        self.role = Role.FOLLOWER
        self.commands: list[commands.Command] = []
        self.configurations = self._first_configurations(config, durable)
        self.own = Member(config.member_id)
        self.members = {one: Member(one) for one in config.member_ids if one != config.member_id}
        self.members[config.member_id] = self.own
        self.strangers, self.vouched = set[int](), set[int]()

        self.terms = TermTable(durable.terms, durable.leads)
        self.leadership_term_id = self.terms.term_before(durable.append_position)
        self.candidate_term_id = max(durable.candidate_term_id, self.terms.last_term_id)
        self.term_seen = self.candidate_term_id
        self.voted_for = NULL_MEMBER

        self.progress = Progress(config.member_id, config.configuration.voter_ids, config.leader_heartbeat_timeout_ns)
        self._put_in_force()
        self.progress.own_position = durable.append_position
        self.progress.commit_position = durable.commit_position
        self.progress.leadership_term_id = self.leadership_term_id
        self.announced_commit_position = durable.commit_position

        self._ask_to_be_trusted(durable.distrust, durable.known_position)
        self.ballot: list[Member] = []  # those that canvassed lately when this member nominated itself

        self.state_since_ns = 0
        self.next_send_ns = 0
        self.nominate_at_ns = 0
        self.progress_deadline_ns = 0
        self.last_leader_activity_ns = NEVER_NS
        self.quorum_candidate_at_ns = 0
        self.last_quorum_ns = 0
        self.is_startup = True
        self.is_leader_startup = True
        self.is_extended_canvass = True
        self.graceful_leader_id = NULL_MEMBER
        self.pending_truncation = NULL_POSITION

        self.log_is_open = False
        self.log_session_id = 0
        self.joined_end_position = NULL_POSITION
        self.term_base_position = NULL_POSITION
        self.termination_position = NULL_POSITION
        self.termination_deadline_ns = 0
        self.termination_send_ns = 0
        self._nothing_is_handed_over()

    @staticmethod
    def _first_configurations(config: ConsensusSettings, durable: DurableState) -> ConfigurationTable:
        if durable.configuration is None:
            return ConfigurationTable(config.configuration)
        return ConfigurationTable(durable.configuration, durable.commit_position)

    def _ask_to_be_trusted(self, distrust: Distrust, known_position: int) -> None:
        self.known_position = known_position  # was committed, as this member knew before it started
        self.distrust = distrust
        self.trust_request_id = self.rng.uniform_int(1, REQUEST_ID_MAX) if distrust else 0
        self.trust_send_ns = 0
        self.trust_terms: dict[int, int] = {}  # what other members are bound to, by member id
        self.lags = False
        self.trust_position = NULL_POSITION  # end of all that the leader of this term had published

    def lag(self, lags: bool) -> None:
        """Note that this member's service lags far behind the commit position, or has caught up."""
        self.lags = lags

    def doubt_state(self) -> None:
        """Stand back from leadership until the next start: the service's state is not that of the others."""
        self.distrust |= Distrust.STATE

    def _nothing_is_handed_over(self) -> None:
        self.transfer_target_id = NULL_MEMBER  # leader: who is to lead next
        self.transfer_position = NULL_POSITION  # leader: end of the log that the target must have
        self.transfer_deadline_ns = 0
        self.transfer_send_ns = 0
        self.stands_at_once = False  # asked to by the leader, while the log is being left
        self.is_transfer_ballot = False
        self.transfer_request: RequestVote | None = None  # to be answered when the log is left

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def append_position(self) -> int:
        """The position up to which the log of this member is durable."""
        return self.progress.own_position

    @property
    def log_term_id(self) -> int:
        """Term of the last entry of this member's durable log, or NULL_TERM while it is empty."""
        return self.terms.term_before(self.append_position)

    @property
    def has_unwritten_term(self) -> bool:
        """Whether the term table has a row for a record that did not become durable."""
        return self.terms.last_base_position >= self.append_position

    @property
    def is_closed(self) -> bool:
        """Whether no election is running."""
        return self.state is ElectionState.CLOSED

    @property
    def is_leading(self) -> bool:
        """Whether this member was elected in the current term, established or not."""
        return self.progress.is_leader

    @property
    def is_following(self) -> bool:
        """Whether this member follows a leader with a log known to begin with its own."""
        return self.progress.is_following

    @property
    def log_is_writable(self) -> bool:
        """Whether records can reach this member's log: as a leader whose log is ready, or a follower that joined."""
        return self.log_is_open and self.state not in (
            ElectionState.LEADER_INIT,
            ElectionState.FOLLOWER_CATCHUP_INIT,
            ElectionState.FOLLOWER_CATCHUP_AWAIT,
        )

    @property
    def is_log_left_over(self) -> bool:
        """Whether the end of a log that was left may still be reported: until the tick that leaves INIT."""
        return self.state is ElectionState.INIT and self.pending_truncation == NULL_POSITION

    @property
    def is_transferring(self) -> bool:
        """Whether this member leads and is handing its leadership over."""
        return self.transfer_target_id != NULL_MEMBER

    @property
    def is_terminating(self) -> bool:
        """Whether the cluster was told to stop."""
        return self.termination_position != NULL_POSITION

    @property
    def quorum_threshold(self) -> int:
        """The number of voters that must agree to a decision."""
        return self.configuration.quorum_threshold

    @property
    def may_vote(self) -> bool:
        """Whether this member may give votes: the one notion of its voting right, whatever it depends on.

        A member that its log names as a learner votes when it is asked: the candidate has a newer configuration, in
        which it is a voter (§4.1). One that only its settings call a learner may be a voter that lost its disk. One
        that knows what it lost does not vote before it is trusted again (ordo.consensus.handlers.trust).
        """
        if self.distrust.is_loss:
            return False
        if self.is_voter or self.was_voter_lately:
            return True
        return self.own.member_id in self.configuration.learner_ids and self.configurations.position != NULL_POSITION

    @property
    def may_stand(self) -> bool:
        """Whether this member may stand for election: a voter, or one until lately, with the right to vote."""
        return self.may_vote and (self.is_voter or self.was_voter_lately)

    @property
    def stands_back(self) -> bool:
        """Whether this member leaves the leadership to others where they can take it.

        It does while its service's state is in doubt, or far behind while another's is level.
        """
        return self.is_in_doubt or (self.lags and self._hears_level_voter)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the service's state is in doubt. An only voter has nobody to differ from."""
        return Distrust.STATE in self.distrust and not self.is_only_voter

    @property
    def _hears_level_voter(self) -> bool:
        """Whether another voter takes part in the election that has not said that it stands back."""
        limit_ns = self.now_ns - self.config.leader_heartbeat_timeout_ns
        others = (one for one in self.voters() if one is not self.own and one.heard_ns > limit_ns)
        return any(not (self.is_distrusted(one) or self.has_stood_back(one)) for one in others)

    @property
    def is_voter(self) -> bool:
        """Whether this member has a vote in the configuration in force."""
        return self.own.member_id in self.configuration.voter_ids

    @property
    def was_voter_lately(self) -> bool:
        """Whether the record that takes the own vote away may not be committed: others may not have it (§4.2.2)."""
        before = self.configurations.before
        if before is None or self.is_voter or self.configurations.position <= self.progress.commit_position:
            return False
        return self.own.member_id in before.voter_ids

    @property
    def is_only_voter(self) -> bool:
        """Whether this member's own vote is all that a decision needs."""
        return self.configuration.voter_ids == (self.own.member_id,)

    @property
    def is_removed(self) -> bool:
        """Whether a committed configuration leaves this member out, seen with the log its leader had at joining.

        A learner that was not added yet was not removed.
        """
        own_id, position = self.own.member_id, self.configurations.position
        if own_id in self.configuration.member_ids or not self.is_following:
            return False
        if own_id in self.config.learner_ids and not self.configurations.names(own_id):
            return False
        return self.append_position >= self.joined_end_position and position <= self.progress.commit_position

    def voters(self) -> list[Member]:
        """Return the members whose votes and positions count, by ascending id.

        This member is among them if it has a vote.
        """
        return [self.members[member_id] for member_id in self.configuration.voter_ids]

    def others(self) -> list[Member]:
        """Return all members of the configuration but this one, by ascending id."""
        return [self.members[one] for one in self.configuration.member_ids if one != self.own.member_id]

    def is_heard(self, member_id: int) -> bool:
        """Return whether messages of a member are looked at; those of strangers only while there is no leader."""
        if member_id == self.own.member_id or member_id not in self.members:
            return False
        return not self.is_leading or member_id not in self.strangers

    def is_removed_member(self, member_id: int) -> bool:
        """Return whether a committed configuration removed a member: it can no longer be elected or lead.

        Unless another member says that it is one: it was added again in log that this member lacks.
        """
        is_back = member_id in self.vouched
        return not is_back and self.configurations.has_removed(member_id, self.progress.commit_position)

    def is_distrusted(self, member: Member) -> bool:
        """Return whether a member said within the heartbeat timeout that it may not vote."""
        return self.now_ns < member.distrusted_ns + self.config.leader_heartbeat_timeout_ns

    def has_stood_back(self, member: Member) -> bool:
        """Return whether a member said within the heartbeat timeout that it is not to lead."""
        return self.now_ns < member.stood_back_ns + self.config.leader_heartbeat_timeout_ns

    def leader_was_heard_lately(self) -> bool:
        """Return whether a leader that may still lead was heard within the heartbeat timeout."""
        return self.now_ns < self.last_leader_activity_ns + self.config.leader_heartbeat_timeout_ns

    # -- changing -------------------------------------------------------------------------------------------------

    def emit(self, command: commands.Command) -> None:
        """Append a command for the shell to carry out."""
        self.commands.append(command)

    def send(self, member_id: int, message: Message) -> None:
        """Send a message to one member; it may be lost."""
        assert member_id != self.own.member_id, message
        self.emit(commands.Send(member_id, message))

    def broadcast(self, message: Message) -> None:
        """Send a message to every other member; each copy may be lost."""
        if len(self.members) > 1:
            self.emit(commands.Broadcast(message))

    def configure(self, position: int, configuration: Configuration) -> None:
        """Put the configuration of a record that ends at `position` of this member's log in force."""
        self.configurations.append(position, configuration)
        self._put_in_force()

    def unconfigure(self, position: int) -> None:
        """Return to the configuration that was in force when the log ended at `position`."""
        self.configurations.truncate(position)
        self._put_in_force()

    def _put_in_force(self) -> None:
        configuration = self.configuration = self.configurations.in_force
        for member_id in configuration.member_ids:
            self.members.setdefault(member_id, Member(member_id))
        self.strangers.difference_update(configuration.member_ids)
        self.vouched.clear()
        self.progress.configure(configuration.voter_ids, configuration.learner_ids)

    def introduce(self, member_id: int) -> None:
        """Talk to a member that a newer configuration may name."""
        if member_id not in self.members:
            self.members[member_id] = Member(member_id)
            self.strangers.add(member_id)
        if member_id not in self.configuration.member_ids:
            self.vouched.add(member_id)

    def raise_candidate_term(self, candidate_term_id: int) -> None:
        """Bind this member to a term, durably, before it sends any message of that term (Raft §5.1)."""
        if candidate_term_id > self.candidate_term_id:
            self.candidate_term_id = candidate_term_id
            self.voted_for = NULL_MEMBER
            self.note_term(candidate_term_id)
            self.emit(commands.PersistCandidateTerm(candidate_term_id, self.append_position))

    def open_term(self) -> None:
        """Bind this member to a term of its own, higher than any it knows, with its vote for itself (Raft §5.2)."""
        self.raise_candidate_term(max(self.candidate_term_id, self.term_seen) + 1)
        self.voted_for = self.own.member_id

    def note_term(self, leadership_term_id: int) -> None:
        """Remember the highest term that this member has met."""
        self.term_seen = max(self.term_seen, leadership_term_id)

    def refresh_own(self) -> None:
        """Update this member's row in the table of members with the end of its log."""
        self.own.log_leadership_term_id = self.log_term_id
        self.own.log_position = self.append_position
        self.own.heard_ns = self.now_ns

    def announce_commit(self) -> None:
        """Tell the shell when the commit position has moved."""
        position = self.progress.commit_position
        assert position >= self.announced_commit_position
        if position > self.announced_commit_position:
            self.announced_commit_position = position
            self.emit(commands.Commit(position))

    def hear_leader(self) -> None:
        """Note that a leader which this member may follow is alive: it does not canvass for a while."""
        self.last_leader_activity_ns = self.now_ns
        self.quorum_candidate_at_ns = self.now_ns + self.config.leader_heartbeat_timeout_ns

    def forget_leader(self) -> None:
        """Forget a leader that no longer leads, so that members do not wait for it."""
        self.last_leader_activity_ns = NEVER_NS

    def can_begin_term(self, leadership_term_id: int, base_position: int) -> bool:
        """Return whether a term's first record may be at `base_position` of this member's log in the present state."""
        if leadership_term_id <= self.terms.last_term_id or base_position < self.append_position:
            return False
        if base_position <= self.terms.last_base_position:
            return False
        if not self.log_is_open:
            return self.is_log_left_over
        if not self.log_is_writable:
            return False
        if base_position == self.term_base_position:
            return leadership_term_id == self.leadership_term_id
        return base_position < self.term_base_position and leadership_term_id < self.leadership_term_id

    def grow_to(self, position: int) -> None:
        """Take a new end of this member's durable log. Raises ConsensusError if the log cannot have grown so."""
        if position == self.append_position:
            return
        if position < self.append_position:
            raise ConsensusError(f"append position went back from {self.append_position} to {position}")
        if not (self.log_is_writable or self.is_log_left_over):
            raise ConsensusError(
                f"append position grew from {self.append_position} to {position} in state {self.state.name}, while no"
                " log is joined: report the end of a log that was left before the next tick"
            )
        if self.terms.term_before(position) == NULL_TERM:
            raise ConsensusError(f"append_position={position} without a term: report on_new_term before on_appended")
        is_in_current_term = self.log_is_open and position > self.term_base_position
        if is_in_current_term and self.terms.last_term_id != self.leadership_term_id:
            raise ConsensusError(
                f"append_position={position} lies in term {self.leadership_term_id}, which began at"
                f" {self.term_base_position} and has no row in {self.terms.rows}: report on_new_term before on_appended"
            )
        self.progress.own_position = position

    def shrink_to(self, position: int) -> None:
        """Take a new end of this member's log after truncation.

        Last term and configuration are those of the remaining prefix.
        """
        self.pending_truncation = NULL_POSITION
        self.terms.truncate(position)
        self.unconfigure(position)
        self.progress.own_position = position
        assert not self.has_unwritten_term
