"""The states of a whole cluster, and the steps from one to the next.

A step is one input of one member. What a member does with an input in a state is computed once, by the real core, and
looked up from then on: the core is deterministic, and members share nothing but messages and the leader's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from random import Random
from typing import Any, NamedTuple, Protocol

from ordo.consensus.state import messages
from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.states import ElectionState
from tests.consensus.disk import Entry
from tests.exploration.canonical import canonical, canonical_forms
from tests.exploration.member import ExploredMember, Forker, settings

WEIGHT_BITS = 64
LANE_BITS = 80
"""Room for the sum of the weights of all parts of a state."""
NOT_WEIGHED = -1
DIGEST_MASK = (1 << WEIGHT_BITS) - 1
Action = tuple[Any, ...]
Log = tuple[Entry, ...]

TERM_FIELDS: dict[type[Any], str] = {
    messages.Vote: "candidate_term_id",
    messages.NewLeadershipTerm: "leadership_term_id",
    messages.AppendPosition: "leadership_term_id",
    messages.CommitPosition: "leadership_term_id",
    messages.TimeoutNow: "leadership_term_id",
}
"""Messages that say nothing to a member that is bound to a higher term, and the field that tells their term."""
HEARTBEATS = (messages.AppendPosition, messages.CommitPosition)
"""Messages that are as good as lost where they say nothing new when they are sent."""


class Left(NamedTuple):
    """How often each thing may still happen."""

    timeouts: int = 0
    beats: int = 0
    crashes: int = 0
    appends: int = 0
    transfers: int = 0
    reads: int = 0
    changes: int = 0


class Stage(NamedTuple):
    """A part of what has happened before the exploration begins: an election among the members that are present."""

    without: tuple[int, ...] = ()
    """Those that are absent: who was elected as the first, the second ... leader."""
    is_whole: bool = True
    """Whether all have followed the leader, and nothing is on its way. Otherwise it was elected, and no more."""
    appends: int = 0
    """How many records the leader then has appended that nobody else has got yet."""
    changes: bool = False
    """Whether the leader then has appended the wanted configuration."""
    commits: bool = False
    """Whether the leader then has committed all of its log, which nobody else has heard of."""
    reads: bool = False
    """Whether the leader then was asked for the read index; one has answered in time, and the others' answers are on
    their way."""
    until: type[Any] | None = None
    """The message with which it ends as soon as one is on its way, before anybody leads."""
    keeps: bool = False
    """Whether all that is on its way at the end stays so; otherwise it is lost, where all have followed the leader."""


class Bounds(NamedTuple):
    """What is explored, and where it ends."""

    left: Left
    members: tuple[int, ...] = (0, 1, 2)
    learners: tuple[int, ...] = ()
    terms: int = 1
    """How many terms are opened beyond those of the beginning."""
    in_flight: int = 1
    """How many messages of one kind are on their way from one member to another: those sent last.

    They arrive in any order, or never.
    """
    repeats: bool = False
    """Whether a message may arrive again and again."""
    stages: tuple[Stage, ...] = (Stage(),)
    """What has happened at the beginning."""
    syncs_at_once: bool = False
    wanted: Configuration | None = None
    """What the members are to become, where they change."""
    alike: tuple[int, ...] = ()
    """The members that can be exchanged for each other; all, where none are named."""


class View(NamedTuple):
    """What the world sees of a member."""

    state: ElectionState
    term_id: int
    bound_to: int
    leads: bool
    serves: bool
    follows: bool
    is_transferring: bool
    session_id: int
    has_joined: bool
    is_live: bool
    log: Log
    log_number: int
    end_position: int
    durable_position: int
    commit_position: int
    leader_id: int
    configuration: Configuration
    may_change: bool


class State(NamedTuple):
    """A cluster: members, messages and logs are numbers in the tables of the space."""

    members: tuple[int, ...]
    network: frozenset[int]
    sessions: tuple[tuple[int, int], ...]
    """The log that each leader has sent so far: by its session."""
    committed: int
    """All that was ever known to be committed, by anybody: a log."""
    committed_in: tuple[int, ...]
    """In which term each of these records was committed."""
    leaders: tuple[tuple[int, int], ...]
    left: Left
    records: int
    ghost: Any = None
    """What a follower of the exploration makes of the way to this state; states that differ in it alone are one."""


class Outcome(NamedTuple):
    """What became of a member by an input, and what it sent."""

    member: int
    sent: tuple[int, ...]
    events: tuple[tuple[Any, ...], ...]
    problem: str


class Violation(AssertionError):
    """A step that must not be possible."""


class Follower(Protocol):
    """Follows every step of an exploration."""

    def begin(self) -> Any:
        """Return what there is at the beginning."""

    def follow(self, ghost: Any, member_id: int, request: Action, outcome: Outcome) -> Any:
        """Return what a step makes of it. Raises Violation where the step must not be possible."""


class Table:
    """Numbers for values, with a weight for each: what it adds to the digests of states that it is a part of.

    A weight has a lane of LANE_BITS for each way to rename the members. Random weights are the same for the same
    canonical form, so that the sums of equal states are equal, and those of others are not.
    """

    def __init__(self, weights: dict[Any, int], rng: Random) -> None:
        self.values: list[Any] = []
        self.weights: list[int] = []
        self._numbers: dict[Any, int] = {}
        self._of_forms = weights
        self._rng = rng

    def find(self, key: Any) -> int | None:
        """Return the number of a key, or None."""
        return self._numbers.get(key)

    def add(self, key: Any, value: Any, forms: Iterable[Any] | None) -> int:
        """Give a key the next number; `forms` are its canonical forms under each renaming, None if they come later."""
        number = self._numbers[key] = len(self.values)
        self.values.append(value)
        self.weights.append(NOT_WEIGHED)
        if forms is not None:
            self.weigh(number, forms)
        return number

    def weigh(self, number: int, forms: Iterable[Any]) -> int:
        """Return the weight of what has a number, by its canonical forms."""
        weight = 0
        for lane, form in enumerate(forms):
            one = self._of_forms.get(form)
            if one is None:
                one = self._of_forms[form] = self._rng.getrandbits(WEIGHT_BITS)
            weight |= one << (lane * LANE_BITS)
        self.weights[number] = weight
        return weight

    def __len__(self) -> int:
        return len(self.values)


class Space:
    """All states within bounds, as far as they were met."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.term_max = bounds.terms - 1
        self.outcomes: dict[tuple[int, Any], Outcome] = {}
        self.steps = 0
        self.follower: Follower | None = None
        self._forker = Forker()
        self._stored: list[bytes] = []
        weights: dict[Any, int] = {}
        rng = Random(1)
        self._members, self._messages, self._logs = (Table(weights, rng) for _ in range(3))
        self._sessions, self._commits = (Table(weights, rng) for _ in range(2))
        self.views: list[View] = self._members.values
        self.messages: list[tuple[int, int, Any]] = self._messages.values
        self.logs: list[Log] = self._logs.values
        self._matches: dict[tuple[int, int], bool] = {}
        self._ignored: dict[tuple[int, int], bool] = {}
        self._bits: dict[int, int] = {}
        alike = bounds.alike or tuple(one for one in bounds.members if one not in bounds.learners)
        self._renamings = [
            {**{one: one for one in bounds.members}, **dict(zip(alike, order, strict=True))}
            for order in permutations(alike)
        ]

    # -- tables -------------------------------------------------------------------------------------------------------

    def put_member(self, member: ExploredMember) -> int:
        """Return the number of a member's state."""
        key = canonical_forms(member, self._renamings[:1])[0]
        number = self._members.find(key)
        if number is None:
            number = self._members.add(key, self._view(member), None)
            self._stored.append(self._forker.save(member))
        return number

    def put_message(self, source_id: int, target_id: int, message: Any) -> int:
        """Return the number of a message on its way."""
        key = source_id, target_id, type(message), message
        number = self._messages.find(key)
        if number is None:
            forms = (
                ("sent", names[source_id], names[target_id], canonical(message, names)) for names in self._renamings
            )
            number = self._messages.add(key, (source_id, target_id, message), forms)
        return number

    def put_log(self, log: Log) -> int:
        """Return the number of a log."""
        number = self._logs.find(log)
        if number is None:
            number = self._logs.add(log, log, (("log", canonical(log, names)) for names in self._renamings))
        return number

    def _weigh_member(self, number: int) -> int:
        member = self._forker.load(self._stored[number])
        return self._members.weigh(number, canonical_forms(member, self._renamings))

    def _session_weight(self, session: tuple[int, int]) -> int:
        number = self._sessions.find(session)
        if number is None:
            session_id, log = session
            term, member_id = divmod(session_id, 16)
            forms = [("session", term, names[member_id], canonical(self.logs[log], names)) for names in self._renamings]
            number = self._sessions.add(session, session, forms)
        return self._sessions.weights[number]

    def _history_weight(self, state: State) -> int:
        """Return the weight of what is known of the past: who led, and what was committed in which term."""
        key = state.leaders, state.committed, state.committed_in
        number = self._commits.find(key)
        if number is None:
            log = self.logs[state.committed]
            forms = [
                (
                    "past",
                    tuple((term_id, names[one]) for term_id, one in state.leaders),
                    canonical(log, names),
                    state.committed_in,
                )
                for names in self._renamings
            ]
            number = self._commits.add(key, key, forms)
        return self._commits.weights[number]

    def _view(self, member: ExploredMember) -> View:
        core, disk = member.core, member.disk
        wanted = self.bounds.wanted
        return View(
            core.state,
            core.leadership_term_id,
            core.candidate_term_id,
            core.is_leading,
            core.is_serving,
            core.progress.is_following,
            core.is_transferring,
            member.session_id,
            member.has_joined,
            member.is_live,
            tuple(disk.entries),
            self.put_log(tuple(disk.entries)),
            disk.end_position,
            disk.durable_position,
            core.commit_position,
            core.leader_member_id,
            core.configuration,
            wanted is not None and core.is_serving and member.may_change_to(wanted),
        )

    def canonical_parts(self, state: State) -> tuple[int, int]:
        """Return a number for the members and their past, and a bit for each thing that is on its way.

        Both are the same for all states that differ only in the members' names: of all ways to rename the members, one
        that gives the smallest number is taken.
        """
        members, network = self._members.weights, self._messages.weights
        core = self._history_weight(state)
        for one in state.members:
            weight = members[one]
            core += self._weigh_member(one) if weight == NOT_WEIGHED else weight
        others = [network[one] for one in state.network]
        others += [self._session_weight(one) for one in state.sessions]
        total = sum(others)
        smallest = lane_found = -1
        for lane in range(len(self._renamings)):
            shift = lane * LANE_BITS
            one = (((core >> shift) & DIGEST_MASK) << WEIGHT_BITS) | ((total >> shift) & DIGEST_MASK)
            if lane_found < 0 or one < smallest:
                smallest, lane_found = one, shift
        bits, mask = self._bits, 0
        for weight in others:
            form = (weight >> lane_found) & DIGEST_MASK
            mask |= bits.get(form) or bits.setdefault(form, 1 << len(bits))
        return hash((smallest >> WEIGHT_BITS, state.records)), mask

    # -- members ------------------------------------------------------------------------------------------------------

    def begin(self) -> State:
        """Return the state in which all members have started, with empty disks."""
        bounds = self.bounds
        members = []
        for one in bounds.members:
            has_reads = bounds.left.reads > 0
            members.append(self.put_member(ExploredMember(settings(one, bounds.members, bounds.learners), has_reads)))
        empty = self.put_log(())
        ghost = None if self.follower is None else self.follower.begin()
        state = State(tuple(members), frozenset(), (), empty, (), (), bounds.left, 1, ghost)
        for one in bounds.members:
            state = self.apply(state, one, ("beat",))
        return state

    def outcome(self, number: int, request: Action) -> Outcome:
        """Return what a member in a state does with an input."""
        found = self.outcomes.get((number, request))
        if found is None:
            found = self.outcomes[number, request] = self._compute(number, request)
        return found

    def _compute(self, number: int, request: Action) -> Outcome:
        member = self._forker.load(self._stored[number])
        kind, *arguments = request
        if kind == "deliver":
            arguments = [self.messages[arguments[0]][2]]
        self.steps += 1
        try:
            member.take(kind, *arguments)
            if self.bounds.syncs_at_once:
                member.take("sync")
            sent, events = member.sent, tuple(member.events)
            member.sent, member.events = [], []
            own_id = member.config.member_id
            numbers = dict.fromkeys(self.put_message(own_id, target_id, each) for target_id, each in sent)
            return Outcome(self.put_member(member), tuple(numbers), events, "")
        except Exception as error:  # whatever a member fails with is what is looked for
            return Outcome(number, (), (), f"{type(error).__name__}: {error}")

    # -- steps --------------------------------------------------------------------------------------------------------

    def actions(self, state: State) -> Iterator[Action]:
        """Yield every step that is possible within the bounds."""
        left = state.left
        for number in sorted(state.network):
            yield ("deliver", number)
        for member_id, number in enumerate(state.members):
            view = self.views[number]
            yield from self._own_actions(state, member_id, view)
            if left.timeouts:
                yield ("timeout", member_id)
            if left.beats:
                yield ("beat", member_id)
            if left.crashes:
                unsynced = sum(entry.end > view.durable_position for entry in view.log)
                for kept in range(unsynced + 1):
                    yield ("crash", member_id, kept)

    def _own_actions(self, state: State, member_id: int, view: View) -> Iterator[Action]:
        left = state.left
        if view.end_position > view.durable_position:
            yield ("sync", member_id)
        if view.follows and self.next_data(state, view) is not None:
            yield ("data", member_id)
        if left.reads and (view.leads or view.follows):
            yield ("read", member_id)
        if not view.serves or view.is_transferring:
            return
        if left.appends:
            yield ("append", member_id)
        if left.changes and view.may_change:
            yield ("change", member_id)
        if left.transfers:
            for target_id in self.bounds.members:
                if target_id != member_id:
                    yield ("transfer", member_id, target_id)

    def next_data(self, state: State, view: View) -> Action | None:
        """Return the input by which a follower gets the next record of the log it joined, or learns of its end."""
        log_number = dict(state.sessions).get(view.session_id)
        if log_number is None:
            return None
        log = self.logs[log_number]
        entry = next((one for one in log if one.start == view.end_position), None)
        end_position = log[-1].end if log else 0
        is_end = (view.end_position if entry is None else entry.end) >= end_position
        if entry is None and view.has_joined and (view.is_live or not is_end):
            return None
        return ("data", view.session_id, entry, is_end)

    def take(self, state: State, action: Action) -> State:
        """Return the state after a step. Raises Violation where the step breaks a rule."""
        kind, subject, *arguments = action
        left = state.left
        if kind == "deliver":
            if not self.bounds.repeats:
                state = state._replace(network=state.network - {subject})
            return self.apply(state, self.messages[subject][1], action)
        request: Action = (kind, *arguments)
        if kind == "data":
            found = self.next_data(state, self.views[state.members[subject]])
            assert found is not None
            request = found
        elif kind == "append":
            request = ("append", state.records)
            state = state._replace(records=state.records + 1)
        elif kind == "read":
            committed = self.logs[state.committed]
            request = ("read", committed[-1].end if committed else 0)
        elif kind == "change":
            request = ("change", self.bounds.wanted)
        if kind in SPENT:
            name = SPENT[kind]
            state = state._replace(left=left._replace(**{name: getattr(left, name) - 1}))
        return self.apply(state, subject, request)

    def apply(self, state: State, member_id: int, request: Action) -> State:
        """Give a member an input, and check what comes of it."""
        number = state.members[member_id]
        outcome = self.outcome(number, request)
        if outcome.problem:
            raise Violation(outcome.problem)
        before, view = self.views[number], self.views[outcome.member]
        members = list(state.members)
        members[member_id] = outcome.member
        network = self._tidy(self._cap(state.network, outcome.sent), members, member_id, outcome.sent)
        sessions = self._sessions_after(state, view, network, members)
        committed, committed_in, leaders, left, records, ghost = state[3:]
        if self.follower is not None:
            ghost = self.follower.follow(ghost, member_id, request, outcome)
        after = State(tuple(members), network, sessions, committed, committed_in, leaders, left, records, ghost)
        for kind, value in outcome.events:
            after = (note_elected if kind == "elected" else note_commit)(self, after, member_id, value)
        if view.log_number != before.log_number or view.durable_position < before.durable_position:
            check_logs(self, after, member_id)
        return after

    def _sessions_after(
        self, state: State, view: View, network: frozenset[int], members: list[int]
    ) -> tuple[tuple[int, int], ...]:
        """Return the logs that leaders have sent; those that nobody can join any more are left out."""
        sessions = dict(state.sessions)
        if view.leads and view.session_id >= 0:
            sessions[view.session_id] = view.log_number
        if not sessions:
            return ()
        wanted = {self.views[one].session_id for one in members}
        for one in network:
            message = self.messages[one][2]
            if isinstance(message, messages.NewLeadershipTerm):
                wanted.add(message.log_session_id)
        return tuple(sorted(one for one in sessions.items() if one[0] in wanted))

    def is_within(self, state: State) -> bool:
        """Return whether no member is bound to a term beyond the last that is explored."""
        return all(self.views[one].bound_to <= self.term_max for one in state.members)

    def is_idle(self, state: State, action: Action) -> bool:
        """Return whether a step is the arrival of a message that changes nothing: it could as well be lost."""
        if action[0] != "deliver":
            return False
        return self._changes_nothing(state.members[self.messages[action[1]][1]], action[1])

    def _changes_nothing(self, target: int, number: int) -> bool:
        outcome = self.outcome(target, ("deliver", number))
        return outcome.member == target and not outcome.sent and not outcome.events and not outcome.problem

    def _cap(self, network: frozenset[int], sent: tuple[int, ...]) -> frozenset[int]:
        """Return what is on its way: of too many of a kind, what was sent last stays."""
        if not sent:
            return network
        fresh = set(sent)
        by_link: dict[tuple[Any, ...], list[int]] = {}
        for number in sent:
            by_link.setdefault(self._link(number), []).append(number)
        for number in sorted(network - fresh, key=lambda one: tuple(self.messages[one][2]), reverse=True):
            link = self._link(number)
            if link not in by_link or len(by_link[link]) < self.bounds.in_flight:
                by_link.setdefault(link, []).append(number)
        limit = self.bounds.in_flight
        return frozenset(one for numbers in by_link.values() for one in numbers[-limit:])

    def _link(self, number: int) -> tuple[Any, ...]:
        source_id, target_id, message = self.messages[number]
        return source_id, target_id, type(message)

    def _tidy(
        self, network: frozenset[int], members: list[int], changed_id: int, sent: tuple[int, ...]
    ) -> frozenset[int]:
        """Leave out messages of lower terms that their target ignores."""
        gone = [
            one
            for one in network
            if (one in sent or self.messages[one][1] == changed_id)
            and self._is_ignored(members[self.messages[one][1]], one)
        ]
        return network.difference(gone) if gone else network

    def _is_ignored(self, target: int, number: int) -> bool:
        known = self._ignored.get((target, number))
        if known is None:
            known = self._ignored[target, number] = self._find_ignored(target, number)
        return known

    def _find_ignored(self, target: int, number: int) -> bool:
        message = self.messages[number][2]
        field = TERM_FIELDS.get(type(message))
        is_old = field is not None and getattr(message, field) < self.views[target].bound_to
        return (is_old or isinstance(message, HEARTBEATS)) and self._changes_nothing(target, number)

    def match(self, one: int, other: int) -> bool:
        """Return whether two logs that hold a record of one term at one position are equal up to there (Raft §5.3)."""
        known = self._matches.get((one, other))
        if known is None:
            a, b = self.logs[one], self.logs[other]
            common = min(len(a), len(b))
            while common and a[common - 1][:3] != b[common - 1][:3]:
                common -= 1
            known = self._matches[one, other] = a[:common] == b[:common]
        return known


SPENT = {
    "timeout": "timeouts",
    "beat": "beats",
    "crash": "crashes",
    "append": "appends",
    "transfer": "transfers",
    "read": "reads",
    "change": "changes",
}
"""Of what each step takes one."""


def demand(holds: bool, rule: str) -> None:
    """Raise Violation, with the rule, if it does not hold."""
    if not holds:
        raise Violation(rule)


def note_elected(space: Space, state: State, member_id: int, leadership_term_id: int) -> State:
    """Check election safety (Raft §5.2) and leader completeness (§5.4)."""
    leaders = dict(state.leaders)
    demand(
        leaders.setdefault(leadership_term_id, member_id) == member_id,
        f"election safety: {leaders[leadership_term_id]} and {member_id} both lead term {leadership_term_id}",
    )
    committed = space.logs[state.committed]
    log = space.views[state.members[member_id]].log
    for index, entry in enumerate(committed):
        if state.committed_in[index] < leadership_term_id:
            demand(
                index < len(log) and log[index] == entry,
                f"leader completeness: {member_id} leads term {leadership_term_id} without the committed {entry}",
            )
    return state._replace(leaders=tuple(sorted(leaders.items())))


def note_commit(space: Space, state: State, member_id: int, position: int) -> State:
    """Check state-machine safety (§5.4.3), and that a quorum has what a leader says is committed."""
    view = space.views[state.members[member_id]]
    committed, terms = list(space.logs[state.committed]), list(state.committed_in)
    for index, entry in enumerate(view.log):
        if entry.end > position:
            break
        if index < len(committed):
            demand(committed[index] == entry, f"state-machine safety: {member_id} executes another {entry}")
            continue
        demand(view.leads, f"{member_id} follows, and is the first to commit {entry}")
        committed.append(entry)
        terms.append(view.term_id)
    after = state._replace(committed=space.put_log(tuple(committed)), committed_in=tuple(terms))
    if view.leads:
        last_term_id = max(entry.leadership_term_id for entry in view.log if entry.end <= position)
        demand(last_term_id == view.term_id, f"{member_id} of term {view.term_id} commits term {last_term_id} by count")
        check_quorum(space, after, view.configuration)
    return after


def check_quorum(space: Space, state: State, configuration: Configuration) -> None:
    """Check that a quorum's disks have all that is committed."""
    committed = space.logs[state.committed]
    if not committed:
        return
    count, end = len(committed), committed[-1].end
    holders = [
        one
        for one in configuration.voter_ids
        if space.views[state.members[one]].durable_position >= end
        and space.views[state.members[one]].log[:count] == committed
    ]
    demand(
        len(holders) >= configuration.quorum_threshold,
        f"an acknowledged record is lost: only {holders} have what is committed up to {end}",
    )


def check_logs(space: Space, state: State, member_id: int) -> None:
    """Check log matching (§5.3) between a member and the others, and that no committed record is lost."""
    own = space.views[state.members[member_id]].log_number
    for other_id, number in enumerate(state.members):
        other = space.views[number].log_number
        demand(other == own or space.match(own, other), f"log matching: the logs of {member_id} and {other_id} differ")
    named = [entry.configuration for entry in space.logs[state.committed] if entry.configuration is not None]
    voters = tuple(one for one in space.bounds.members if one not in space.bounds.learners)
    check_quorum(space, state, named[-1] if named else Configuration(voters))
