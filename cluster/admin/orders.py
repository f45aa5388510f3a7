"""Orders to a running cluster, and how it is seen that they were carried out; the same however a member is reached."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.cluster.admin.order_timeouts import (
    MEMBERSHIP_TIMEOUT_S,
    QUERY_TIMEOUT_S,
    SKIP_TIMEOUT_S,
    SNAPSHOT_TIMEOUT_S,
    SUSPEND_TIMEOUT_S,
    TRANSFER_TIMEOUT_S,
)
from ordo.cluster.monitoring.counter_values import NOT_THERE
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.component_errors import SNAPSHOT_REFUSED
from ordo.cluster.wire.counters.counter_types import (
    ControlToggle,
    CounterType,
    ModuleState,
    is_transfer,
    succeed_value,
    successor_of,
    transfer_value,
)
from ordo.cluster.wire.levels import FIRST_LEVEL, SEQUENCE_LEVEL
from ordo.cluster.wire.ordo_codecs import MembershipChange
from ordo.cluster.wire.succession import IS_OVER
from ordo.runtime.errors import ClusterError, ClusterTimeoutError, ConfigurationError, OrdoError, OutcomeUnknownError

if TYPE_CHECKING:
    from ordo.cluster.admin.member_details import HeldError
    from ordo.cluster.module.state.state_store import Skip
    from ordo.runtime.sbe import Message

POLL_INTERVAL_S = 0.02
ENDING_INTERVAL_S = 0.002
"""Between two looks at a member that ends: what it says last is soon gone."""


class MemberCounters(Protocol):
    """The counters of a running member."""

    def value(self, counter_type: CounterType) -> int:
        """Return the value of a counter, or NOT_THERE."""

    def set_toggle(self, wanted: int, expected: int) -> int:
        """Set the control toggle if it is as expected; return its previous value, or NOT_THERE."""


class MemberNotes(Protocol):
    """What a member knows of its cluster, its log and itself."""

    def list_others(self) -> list[int]:
        """Return the ids of the other members."""

    def list_errors(self) -> list[HeldError]:
        """Return the newest errors of its consensus module, the newest last."""

    def list_skipped(self) -> tuple[list[Skip], list[int]]:
        """Return the records that the member skips, and the positions that it does not skip yet."""


class MemberAccess(Protocol):
    """A running member, by its shared memory (cluster.admin.local_member) or the network (cluster.admin.remote)."""

    @property
    def member_id(self) -> int: ...
    @property
    def elsewhere(self) -> str:
        """One member, according to a running node's log. Its position is -1 if the node does not know it."""

    @property
    def counters(self) -> MemberCounters: ...
    @property
    def notes(self) -> MemberNotes: ...
    def ask(self, question: Message, values: dict[str, Any], answer: Message, timeout_s: float) -> Any:
        """Return the values of the answer to a question of the control stream."""

    def is_running(self) -> bool: ...


class MemberStatus(NamedTuple):
    """One member, according to a running node's log. Its position is -1 if the node does not know it."""

    member_id: int
    role: str
    log_position: int
    ingress: str
    consensus: str
    log: str
    catchup: str
    archive: str
    is_leader: bool


def take_snapshot(member: MemberAccess, timeout_s: float = SNAPSHOT_TIMEOUT_S) -> None:
    """Has the cluster take a snapshot, and returns once this member, its leader, holds it.

    Raises ClusterError when the member does not lead, is busy, stops leading before it holds the snapshot, or its
    service could not take its part; OutcomeUnknownError when it takes too long.
    """
    taken_before, found_before = member.counters.value(CounterType.SNAPSHOT_COUNT), _list_refusals(member)
    _set_toggle(member, ControlToggle.SNAPSHOT)

    def done() -> bool:
        return member.counters.value(CounterType.CONTROL_TOGGLE) != ControlToggle.SNAPSHOT

    await_done(done, f"the snapshot of member {member.member_id} did not end", timeout_s)
    is_out_of_office = member.counters.value(CounterType.CONTROL_TOGGLE) in (ControlToggle.INACTIVE, NOT_THERE)
    if member.counters.value(CounterType.SNAPSHOT_COUNT) > taken_before:
        return
    if is_out_of_office:
        raise ClusterError(
            f"member {member.member_id} stopped leading before it held the snapshot; see which members hold one, and"
            " ask the new leader if none does (`ordo cluster status`)"
        )
    reason = _why_no_snapshot(member, found_before) or f"member {member.member_id} does not say why; see `ordo errors`"
    raise ClusterError(f"no snapshot was taken: {reason}")


def order_standby_snapshot(member: MemberAccess, timeout_s: float = QUERY_TIMEOUT_S) -> None:
    """Have the standbys of the cluster take a snapshot; return once this member, its leader, has it in its log.

    Raises ClusterError when the member does not lead, is busy, or stops leading before; also where the log cannot have
    the order yet, OutcomeUnknownError when it takes too long.
    """
    level = member.ask(ordo_codecs.VERSIONS_QUERY, {}, ordo_codecs.VERSIONS_RESPONSE, timeout_s).protocol_level
    if level < SEQUENCE_LEVEL:
        raise ClusterError(
            f"standbys take no snapshots of their own in a log of protocol level {max(level, FIRST_LEVEL)}, but from "
            f"level {SEQUENCE_LEVEL} on: update all members (`ordo cluster versions`)"
        )
    _set_toggle(member, ControlToggle.STANDBY_SNAPSHOT)

    def done() -> bool:
        return member.counters.value(CounterType.CONTROL_TOGGLE) != ControlToggle.STANDBY_SNAPSHOT

    await_done(done, f"member {member.member_id} did not take the order", timeout_s)
    if member.counters.value(CounterType.CONTROL_TOGGLE) in (ControlToggle.INACTIVE, NOT_THERE):
        raise ClusterError(f"member {member.member_id} stopped leading meanwhile: give the order again")


def _list_refusals(member: MemberAccess) -> list[str]:
    """Return what its consensus module noted of services that could not take their part of a snapshot."""
    return [one.text for one in member.notes.list_errors() if SNAPSHOT_REFUSED in one.text]


def _why_no_snapshot(member: MemberAccess, found_before: list[str]) -> str:
    found = [one for one in _list_refusals(member) if one not in found_before]
    return f"on member {member.member_id} {found[-1]}" if found else ""


def suspend(member: MemberAccess, timeout_s: float = SUSPEND_TIMEOUT_S) -> None:
    """Suspend the cluster; return when that is committed. Sessions stay open.

    Errors as for `take_snapshot`.
    """
    _set_toggle(member, ControlToggle.SUSPEND)
    _await_state(member, ModuleState.SUSPENDED, timeout_s)


def _await_state(member: MemberAccess, state: ModuleState, timeout_s: float) -> None:
    """Raise ClusterError when the member stops leading before."""

    def reached() -> bool:
        if member.counters.value(CounterType.CONTROL_TOGGLE) in (ControlToggle.INACTIVE, NOT_THERE):
            raise ClusterError(
                f"member {member.member_id} stopped leading before that was committed; see whether it came about, and"
                " ask the new leader if not (`ordo cluster status`)"
            )
        return member.counters.value(CounterType.MODULE_STATE) == state

    await_done(reached, f"member {member.member_id} did not become {state.name}", timeout_s)


def resume(member: MemberAccess, timeout_s: float = SUSPEND_TIMEOUT_S) -> None:
    """Resume a suspended cluster; return when that is committed.

    Raises ClusterError when the member does not lead or is not suspended, OutcomeUnknownError when it takes too long.
    """
    _set_toggle(member, ControlToggle.RESUME, expected=ControlToggle.SUSPEND)
    _await_state(member, ModuleState.ACTIVE, timeout_s)


def end_for_successor(member: MemberAccess, successor: int, timeout_s: float = SUSPEND_TIMEOUT_S) -> None:
    """End the log of a suspended cluster for a standby to go on with, by the number that it has drawn.

    Return when that is committed. Raises ClusterError when it was refused, and nothing has come of it;
    OutcomeUnknownError when it may still be committed: the standby's own log says whether it was.
    """
    _set_toggle(member, succeed_value(successor), expected=ControlToggle.SUSPEND)

    def is_decided() -> bool:
        found = member.counters.value(CounterType.CONTROL_TOGGLE)
        return found in (ControlToggle.SUCCEEDED, ControlToggle.SUSPEND, ControlToggle.NEUTRAL)

    await_done(is_decided, f"member {member.member_id} did not commit the end of its log", timeout_s)
    if member.counters.value(CounterType.CONTROL_TOGGLE) != ControlToggle.SUCCEEDED:
        raise ClusterError(
            f"member {member.member_id} did not end its log: it is not suspended, or a member has a release that does "
            "not know of a switch (`ordo cluster versions`)"
        )


def dismiss(member: MemberAccess) -> None:
    """End the members of a cluster with whose log a standby goes on; their clients are told to look for it."""
    _set_toggle(member, ControlToggle.ABORT, expected=ControlToggle.SUCCEEDED)


def shut_down(member: MemberAccess, *, with_snapshot: bool = True, timeout_s: float = SNAPSHOT_TIMEOUT_S) -> str:
    """Shut the whole cluster down properly, with a snapshot first unless told otherwise; return why there is none.

    That is empty where one was taken, or none was asked for. Returns when this member, which ends last, did. Errors as
    for `take_snapshot`; a ClusterError also where all have ended without the snapshot.
    """
    taken_before, found_before = member.counters.value(CounterType.SNAPSHOT_COUNT), _list_refusals(member)
    lacks_snapshot = ""
    if member.counters.value(CounterType.CONTROL_TOGGLE) == ControlToggle.SUCCEEDED:
        lacks_snapshot = IS_OVER if with_snapshot else ""
        with_snapshot = False  # none is of use any more
        dismiss(member)
    else:
        _set_toggle(member, ControlToggle.SHUTDOWN if with_snapshot else ControlToggle.ABORT)
    deadline = Deadline(timeout_s)
    is_taken, reason = not with_snapshot, ""
    is_running = True
    while is_running:
        if deadline.is_over:
            raise OutcomeUnknownError(f"member {member.member_id} did not end within {timeout_s:g} s; look at its log")
        is_running = member.is_running()  # first: what a member on this machine left behind is looked at once more
        with suppress(OrdoError):  # it may end between two looks
            is_taken = is_taken or member.counters.value(CounterType.SNAPSHOT_COUNT) > taken_before
            reason = "" if is_taken else _why_no_snapshot(member, found_before) or reason
        if is_running:
            time.sleep(ENDING_INTERVAL_S)
    if not is_taken:
        raise ClusterError(
            f"the cluster ended, but {f'without its snapshot: {reason}' if reason else 'its snapshot was not seen'};"
            " nothing is lost: members start from an older one and the log; look with `ordo cluster snapshots`"
        )
    return lacks_snapshot


def transfer(member: MemberAccess, target_member_id: int | None = None, timeout_s: float = TRANSFER_TIMEOUT_S) -> int:
    """Has this member, the leader, hand over to a member, or to the one with most of the log.

    Returns when it did, and another leads: which one.

    Raises ConfigurationError for a target that is no other member, ClusterError when the member does not lead, is busy,
    leads still because the target could not take over, or another one leads now than the target; OutcomeUnknownError
    when it takes too long.
    """
    deadline = Deadline(timeout_s)
    own_id = member.member_id
    if target_member_id is not None:
        others = member.notes.list_others()
        if target_member_id not in others:
            raise ConfigurationError(f"--to {target_member_id}: must be another member than {own_id}: {others}")
    _set_toggle(member, transfer_value(target_member_id))

    def done() -> bool:
        return not is_transfer(member.counters.value(CounterType.CONTROL_TOGGLE))

    await_done(done, f"member {own_id} did not hand over", timeout_s)
    if member.counters.value(CounterType.CONTROL_TOGGLE) == ControlToggle.NEUTRAL:
        raise ClusterError(
            f"member {own_id} still leads: no member that was asked could take over; see whether they are running and"
            " have caught up (`ordo cluster status`)"
        )
    leader_id = _await_successor(member, deadline)
    if target_member_id not in (None, leader_id):
        raise ClusterError(
            f"member {own_id} leads no more, but member {leader_id} does, not {target_member_id}; see whether"
            f" {target_member_id} has caught up (`ordo cluster status`), and ask the leader"
        )
    return leader_id


def _await_successor(member: MemberAccess, deadline: Deadline) -> int:
    """Wait for the member that leads instead of this one, and return it."""
    leader_id = NOT_THERE
    while leader_id in (NOT_THERE, member.member_id):
        if deadline.is_over:
            raise OutcomeUnknownError(
                f"member {member.member_id} leads no more, and no other was seen to lead in time; look with"
                " `ordo cluster status`"
            )
        with suppress(ClusterTimeoutError):  # in the middle of an election a member may not answer
            leader_id = int(ask_members(member, max(deadline.left_s, POLL_INTERVAL_S)).leader_member_id)
        pause()
    return leader_id


def ask_members(member: MemberAccess, timeout_s: float = QUERY_TIMEOUT_S) -> Any:
    """Return the ClusterMembersExtendedResponse of a member: who is in the cluster and votes, by its log."""
    query: dict[str, Any] = {"extended": 1}
    return member.ask(codecs.CLUSTER_MEMBERS_QUERY, query, codecs.CLUSTER_MEMBERS_EXTENDED_RESPONSE, timeout_s)


def list_members(member: MemberAccess, timeout_s: float = QUERY_TIMEOUT_S) -> list[MemberStatus]:
    """Who is in the cluster and votes; only a leader knows the others' positions."""
    found = ask_members(member, timeout_s)
    roles = (("voter", found.active_members), ("learner", found.passive_members))
    return sorted(
        MemberStatus(
            one.member_id,
            role,
            one.log_position,
            one.ingress_endpoint,
            one.consensus_endpoint,
            one.log_endpoint,
            one.catchup_endpoint,
            one.archive_endpoint,
            one.member_id == found.leader_member_id,
        )
        for role, members in roles
        for one in members
    )


def change_membership(
    member: MemberAccess,
    change: MembershipChange,
    member_id: int,
    text: str = "",
    timeout_s: float = MEMBERSHIP_TIMEOUT_S,
) -> int:
    """Has the leader change one member, and returns the log position of the change once it is committed.

    `text` is that of a new learner, as in `cluster.wire.members`. Raises ClusterError with the reason when the leader
    refuses, OutcomeUnknownError when it does not come about in time: it may then still do.
    """
    request = {"member_id": member_id, "change": change, "member": text}
    answer = member.ask(ordo_codecs.MEMBERSHIP_REQUEST, request, ordo_codecs.MEMBERSHIP_RESPONSE, timeout_s)
    check_refusal(member, answer)
    return int(answer.log_position)


def add_learner(member: MemberAccess, text: str, timeout_s: float = MEMBERSHIP_TIMEOUT_S) -> int:
    """`change_membership` for a new learner, as `ID=HOST:PORT` or with its five endpoints.

    Raises ConfigurationError, too.
    """
    from ordo.cluster.settings.sections import new_member  # with all models of a configuration

    added = new_member(text)
    return change_membership(member, MembershipChange.ADD_LEARNER, added.id, added.encode(), timeout_s)


def skip(member: MemberAccess, log_position: int, timeout_s: float = SKIP_TIMEOUT_S) -> str:
    """Skip the record that ends at a position; return one line that says what was done.

    The member must lead, and its service stand still at the record.
    """
    if is_left_out(member, log_position):
        return f"member {member.member_id} leaves out the record at position {log_position} already"
    request = {"log_position": log_position}
    answer = member.ask(ordo_codecs.SKIP_REQUEST, request, ordo_codecs.SKIP_RESPONSE, timeout_s)
    check_refusal(member, answer)

    def done() -> bool:
        return is_left_out(member, log_position)

    await_done(done, f"the skip of position {log_position} was not committed", timeout_s)
    return f"the record at position {log_position} is left out"


def is_left_out(member: MemberAccess, log_position: int) -> bool:
    """Return whether the member leaves out the record that ends at a position."""
    return log_position in {one.log_position for one in member.notes.list_skipped()[0]}


def check_refusal(member: MemberAccess, answer: Any) -> None:
    """Raise ClusterError with the reason if a member has refused."""
    leader_id = answer.leader_member_id
    if answer.refusal and leader_id not in (NOT_THERE, member.member_id):
        raise ClusterError(f"{answer.refusal}; member {leader_id} does: {member.elsewhere}")
    if answer.refusal:
        raise ClusterError(answer.refusal)


def _set_toggle(member: MemberAccess, wanted: int, expected: ControlToggle = ControlToggle.NEUTRAL) -> None:
    """Set counter 202, which the leader reads (cluster-consensus.md §19)."""
    found, name = member.counters.set_toggle(wanted, expected), f"member {member.member_id}"
    if found == expected:
        return
    if found == NOT_THERE:
        raise ClusterError(f"{name} is still starting; try again")
    if found == ControlToggle.INACTIVE:
        raise ClusterError(f"{name} does not lead; {member.elsewhere} (`ordo cluster status`)")
    if found == ControlToggle.NEUTRAL:
        raise ClusterError(f"{name} is not suspended")
    if found == ControlToggle.SUCCEEDED:
        raise ClusterError(f"{name}: {IS_OVER}")
    if found == ControlToggle.SUSPEND:
        raise ClusterError(f"{name} is suspended; have it go on first (`ordo cluster resume`)")
    busy = "TRANSFER" if is_transfer(found) else "a switch" if successor_of(found) else _toggle_name(found)
    raise ClusterError(f"{name} is busy with {busy}; try again when it is done")


def _toggle_name(value: int) -> str:
    return ControlToggle(value).name if value in set(ControlToggle) else str(value)


def await_done(done: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Wait for something. Raises OutcomeUnknownError, which says what did not happen."""
    deadline = Deadline(timeout_s)
    while not done():
        if deadline.is_over:
            raise OutcomeUnknownError(f"{what} within {timeout_s:g} s; look at its log")
        pause()


class Deadline:
    """So many seconds from now on."""

    def __init__(self, timeout_s: float) -> None:
        self._end_s = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Negative once it is over."""
        return self._end_s - time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.left_s <= 0


def pause() -> None:
    """Pause for a moment between two looks."""
    time.sleep(POLL_INTERVAL_S)
