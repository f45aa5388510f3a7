"""The canonical form of a member, a message, or a log: the same for states between which no later step can tell.

Times become how they compare with the two lengths of time that there are (tests.exploration.member). Fields that a
member does not read any more before it writes them are left out. Members' ids can be exchanged, so that states that
differ only in who is who become one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, IntFlag
from typing import Any

from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.progress import Progress
from ordo.consensus.state.quorum import Member
from ordo.consensus.state.states import ELECTING_STATES, ElectionState
from tests.consensus.disk import Entry
from tests.exploration.member import BEAT_NS, PROGRESS_FIELDS, TIMEOUT_NS, ExploredMember

Names = Mapping[int, int]
"""By which id each member goes."""
ID_NAMES = frozenset(
    {"voted_for", "leader_id", "graceful_leader_id", "transfer_target_id", "strangers", "vouched", "_acknowledged"}
)
OF_ANY_STATE = frozenset({"member_id", "reported_log_term_id", "is_terminated", "distrusted_ns", "stood_back_ns"})
LEFT_OUT = frozenset(
    {"config", "rng", "now_ns", "commands", "own", "configuration", "joined_end_position", "_watermarks", "_core"}
    | {"_leads"}  # as the log says it
)


def canonical_forms(member: ExploredMember, renamings: Sequence[Names]) -> list[tuple[Any, ...]]:
    """Return the canonical forms of a member whose outputs were taken: one for each way to rename the members."""
    core, disk = member.core, member.disk
    ctx = core._ctx
    gone = LEFT_OUT | _dead_fields(ctx)
    plain, named = list[tuple[str, Any]](), list[tuple[str, Any]]()
    for name, value in vars(ctx).items():
        if name not in gone:
            is_plain = isinstance(value, int) and not (name.endswith("member_id") or name in ID_NAMES)
            (plain if is_plain else named).append((name, value))
    form = _Form(renamings[0], member.now_ns, ctx.state)
    same = (
        tuple(form.of(name, value) for name, value in plain),
        (disk.durable_position, tuple(disk.rows), disk.candidate_term_id),
        (member.has_joined, member.is_live, member.vote[0]),
    )
    forms = []
    for names in renamings:
        form = _Form(names, member.now_ns, ctx.state)
        fields = tuple(form.of(name, value) for name, value in named)
        log = tuple(form.of("", entry) for entry in disk.entries)
        shell = names[member.config.member_id], form.session(member.session_id), names.get(member.vote[1], -1)
        reads = () if member.reads is None else (member.starts, form.of("", member.reads))
        forms.append((same, fields, log, shell, reads))
    return forms


def _dead_fields(ctx: Any) -> frozenset[str]:
    """Return the fields that are written before they are read again, in this state of a member."""
    dead = set()
    if ctx.state is not ElectionState.NOMINATE:
        dead.add("nominate_at_ns")
    if ctx.state is not ElectionState.CANDIDATE_BALLOT:
        dead |= {"ballot", "is_transfer_ballot"}
    if not ctx.is_leading:
        dead.add("last_quorum_ns")
    if ctx.is_closed or not ctx.is_following:
        dead.add("progress_deadline_ns")
    if not ctx.is_transferring:
        dead |= {"transfer_position", "transfer_deadline_ns", "transfer_send_ns"}
    return frozenset(dead)


def canonical(value: Any, names: Names) -> Any:
    """Return the canonical form of a message, an entry or a log."""
    return _Form(names, 0, ElectionState.INIT).of("", value)


class _Form:
    def __init__(self, names: Names, now_ns: int, state: ElectionState) -> None:
        self._names = names
        self._now_ns = now_ns
        self._keeps_votes = state in ELECTING_STATES

    def session(self, session_id: int) -> int:
        """Return the session of a leader under its new name."""
        return session_id if session_id < 0 else session_id - session_id % 16 + self._names[session_id % 16]

    def of(self, name: str, value: Any) -> Any:
        """Return the canonical form of a field."""
        if isinstance(value, bool | None | str | float):
            return value
        if isinstance(value, int):
            return self._number(name, value)
        if isinstance(value, Configuration):
            return self._ids(value.voter_ids), self._ids(value.learner_ids)
        if isinstance(value, Entry):
            return self._entry(value)
        if isinstance(value, Member):
            return self._row(value)
        if isinstance(value, Progress):
            return self._progress(value)
        if isinstance(value, dict):
            return tuple(sorted((self._names[one], self.of(name, each)) for one, each in value.items()))
        if isinstance(value, set | frozenset):
            return tuple(sorted(self.of(name, each) for each in value))
        return self._compound(name, value)

    def _compound(self, name: str, value: Any) -> Any:
        if hasattr(value, "_fields"):
            fields = zip(value._fields, value, strict=True)
            return (type(value).__name__, *(self.of(field, each) for field, each in fields))
        if name == "_office":
            return value[0], self._names.get(value[1], value[1]), value[2]
        if isinstance(value, list | tuple):
            return tuple(self.of(name, each) for each in value)
        return tuple(self.of(each, one) for each, one in vars(value).items() if each not in LEFT_OUT)

    def _number(self, name: str, value: int) -> int:
        if name.endswith("_ns"):
            return self._age(value - self._now_ns)
        if name.endswith("member_id") or name in ID_NAMES:
            return self._names.get(value, value)
        if name == "log_session_id":
            return self.session(value)
        return int(value) if isinstance(value, IntEnum | IntFlag) else value

    @staticmethod
    def _age(since_ns: int) -> int:
        if since_ns <= -TIMEOUT_NS:
            return -3
        if since_ns <= -BEAT_NS:
            return -2
        if since_ns <= 0:
            return -1
        return 1 if since_ns <= BEAT_NS else 2

    def _ids(self, member_ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(self._names[one] for one in member_ids))

    def _entry(self, entry: Entry) -> tuple[Any, ...]:
        identity = -1 - self._names[-1 - entry.identity] if entry.opens_term else entry.identity
        return entry.leadership_term_id, entry.end, identity, self.of("", entry.configuration)

    def _row(self, row: Member) -> tuple[Any, ...]:
        """Return what is known of a member: what it said in an election is forgotten at the next one's beginning."""
        fields = vars(row).items()
        return tuple(self.of(name, value) for name, value in fields if self._keeps_votes or name in OF_ANY_STATE)

    def _progress(self, progress: Progress) -> tuple[Any, ...]:
        fields = tuple(self.of(name, getattr(progress, name)) for name in PROGRESS_FIELDS)
        heard = sorted(
            (new_id, progress.member_position(one), progress.is_active(one, self._now_ns))
            for one, new_id in self._names.items()
        )
        return fields, tuple(heard)
