"""What the `ordo` command does with a running node, through its shared memory: counters and control streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from cluster.node.config import NodeConfig
from cluster.node.counters import is_alive, open_cnc, read_counters
from cluster.node.observation import NOT_THERE as NOT_THERE
from cluster.node.observation import has_quorum
from cluster.wire import codecs, ordo_codecs
from cluster.wire.counter_types import (
    ControlToggle,
    CounterType,
    ModuleState,
    NodeRole,
    find_counter,
    is_of_cluster,
    is_transfer,
    transfer_value,
)
from cluster.wire.ordo_codecs import MembershipChange
from cluster.wire.streams import CONTROL_CHANNEL, TO_MODULE_STREAM_ID, TO_SERVICE_STREAM_ID, local_stream
from consensus.distrust import Distrust
from consensus.states import ElectionState
from runtime.clock import SystemClock
from runtime.counters import CounterDescriptor, CountersReader
from runtime.errors import ClusterError, ClusterTimeoutError, ConfigurationError, StorageMissingError
from runtime.memory import FileMemoryProvider
from runtime.sbe import Message
from transport.client import TransportClient

ALIVE_TIMEOUT_MS = 2_000
POLL_INTERVAL_S = 0.02
SNAPSHOT_TIMEOUT_S = 60.0
TRANSFER_TIMEOUT_S = 10.0
SUSPEND_TIMEOUT_S = 10.0
MEMBERSHIP_TIMEOUT_S = 10.0
QUERY_TIMEOUT_S = 5.0
SKIP_TIMEOUT_S = 30.0
_NODE_TYPES = frozenset(CounterType) - {CounterType.RECORDING_POSITION, CounterType.DRIVER_PARK_FLAG}


class NodeStatus(NamedTuple):
    """One node, as its counters say. Positions are bytes in the log, -1 when the counter is not there."""

    member_id: int
    has_quorum: bool
    """Whether the member leads with a quorum behind it, or follows a leader; False during an election, too."""
    state: str
    role: str
    election: str
    leadership_term_id: int
    commit_position: int
    service_position: int
    elections: int
    snapshots: int
    sessions: int
    errors: int
    skipped_records: int
    """How many records of the log its service leaves out."""
    lost: str
    """What the member lost, so that it may not vote; NONE: it votes."""


def node_status(config: NodeConfig) -> NodeStatus:
    """Of the node of this configuration on this machine. Raises StorageMissingError when it does not run."""
    counters = running_counters(config)

    def value(counter_type: CounterType) -> int:
        return next((counter.value for counter in counters if counter.type_id == counter_type), NOT_THERE)

    state = value(CounterType.MODULE_STATE)
    return NodeStatus(
        config.node.member_id,
        has_quorum(value(CounterType.ELECTION_STATE), state),
        _name(ModuleState, state),
        _name(NodeRole, value(CounterType.NODE_ROLE)),
        _name(ElectionState, value(CounterType.ELECTION_STATE)),
        value(CounterType.LEADERSHIP_TERM_ID),
        value(CounterType.COMMIT_POSITION),
        value(CounterType.SERVICE_POSITION),
        value(CounterType.ELECTION_COUNT),
        value(CounterType.SNAPSHOT_COUNT),
        sum(counter.type_id == CounterType.SESSION for counter in counters),
        value(CounterType.MODULE_ERRORS),
        value(CounterType.SKIPPED_RECORDS),
        _lost(value(CounterType.DISTRUST)),
    )


def running_counters(config: NodeConfig) -> list[CounterDescriptor]:
    """All counters of a node that is alive; raises StorageMissingError when it is not."""
    _require_alive(config)
    return _counters_of(config)


def request_snapshot(config: NodeConfig, timeout_s: float = SNAPSHOT_TIMEOUT_S) -> None:
    """Has the cluster take a snapshot, and returns once this node, its leader, holds it.

    Raises ClusterError when this node does not lead, is busy, or stops leading before it holds the snapshot,
    ClusterTimeoutError when it takes too long.
    """
    member_id = config.node.member_id
    taken_before = _counter(config, CounterType.SNAPSHOT_COUNT)
    _toggle(config, ControlToggle.SNAPSHOT)

    def done() -> bool:
        return _counter(config, CounterType.CONTROL_TOGGLE) != ControlToggle.SNAPSHOT

    await_done(done, f"the snapshot of member {member_id} did not end", timeout_s)
    is_out_of_office = _counter(config, CounterType.CONTROL_TOGGLE) in (ControlToggle.INACTIVE, NOT_THERE)
    if is_out_of_office and _counter(config, CounterType.SNAPSHOT_COUNT) <= taken_before:
        raise ClusterError(
            f"member {member_id} stopped leading before it held the snapshot; see which members hold one, and ask the"
            " new leader if none does (`ordo cluster status`)"
        )


def request_suspend(config: NodeConfig, timeout_s: float = SUSPEND_TIMEOUT_S) -> None:
    """Has the cluster stand still: returns once this node, its leader, sequences nothing more. Sessions stay open.

    Errors as for `request_snapshot`.
    """
    _toggle(config, ControlToggle.SUSPEND)
    _await_state(config, ModuleState.SUSPENDED, timeout_s)


def request_resume(config: NodeConfig, timeout_s: float = SUSPEND_TIMEOUT_S) -> None:
    """Has a suspended cluster go on: returns once that is committed.

    Raises ClusterError when this node does not lead or is not suspended, ClusterTimeoutError when it takes too long.
    """
    _toggle(config, ControlToggle.RESUME, expected=ControlToggle.SUSPEND)
    _await_state(config, ModuleState.ACTIVE, timeout_s)


def request_shutdown(config: NodeConfig, *, with_snapshot: bool = True, timeout_s: float = SNAPSHOT_TIMEOUT_S) -> None:
    """Has the whole cluster end in good order, with a snapshot first unless told otherwise; returns when this node did.

    Errors as for `request_snapshot`.
    """
    _toggle(config, ControlToggle.SHUTDOWN if with_snapshot else ControlToggle.ABORT)

    def gone() -> bool:
        return not is_running(config)

    await_done(gone, f"member {config.node.member_id} did not end", timeout_s)


def request_transfer(
    config: NodeConfig, target_member_id: int | None = None, timeout_s: float = TRANSFER_TIMEOUT_S
) -> None:
    """Has this node, the leader, hand over to a member, or to the one with most of the log; returns when it did.

    Raises ConfigurationError for a member that is not in the configuration, ClusterError when this node does not lead,
    is busy, or leads still because the target could not take over; ClusterTimeoutError when it takes too long.
    """
    own_id = config.node.member_id
    others = [member.id for member in config.member_list if member.id != own_id]
    if target_member_id is not None and target_member_id not in others:
        raise ConfigurationError(f"--to {target_member_id}: must be another member than {own_id}: {others}")
    _toggle(config, transfer_value(target_member_id))

    def done() -> bool:
        return not is_transfer(_counter(config, CounterType.CONTROL_TOGGLE))

    await_done(done, f"member {own_id} did not hand over", timeout_s)
    if _counter(config, CounterType.CONTROL_TOGGLE) == ControlToggle.NEUTRAL:
        raise ClusterError(
            f"member {own_id} still leads: no member that was asked could take over; see whether they are running and"
            " have caught up (`ordo cluster status`)"
        )


class MemberStatus(NamedTuple):
    """One member, as a running node's log says. Its position is -1 where the node does not know it."""

    member_id: int
    role: str
    log_position: int
    ingress: str
    consensus: str
    is_leader: bool


def list_members(config: NodeConfig, timeout_s: float = QUERY_TIMEOUT_S) -> list[MemberStatus]:
    """Who is in the cluster and votes, by the log of this running node; only a leader knows the others' positions.

    Raises StorageMissingError when the node does not run, ClusterTimeoutError when it does not answer.
    """
    query: dict[str, Any] = {"extended": 1}
    found = ask(config, codecs.CLUSTER_MEMBERS_QUERY, query, codecs.CLUSTER_MEMBERS_EXTENDED_RESPONSE, timeout_s)
    roles = (("voter", found.active_members), ("learner", found.passive_members))
    return sorted(
        MemberStatus(
            one.member_id,
            role,
            one.log_position,
            one.ingress_endpoint,
            one.consensus_endpoint,
            one.member_id == found.leader_member_id,
        )
        for role, members in roles
        for one in members
    )


def request_membership(
    config: NodeConfig,
    change: MembershipChange,
    member_id: int,
    member: str = "",
    timeout_s: float = MEMBERSHIP_TIMEOUT_S,
) -> int:
    """Has this node, the leader, change one member, and returns the log position of the change once it is committed.

    `member` is the text of a new learner, as in `cluster.wire.members`. Raises ClusterError with the reason when the
    leader refuses, ClusterTimeoutError when it does not come about in time: it may then still do.
    """
    request = {"member_id": member_id, "change": change, "member": member}
    response = ordo_codecs.MEMBERSHIP_RESPONSE
    answer = ask(config, ordo_codecs.MEMBERSHIP_REQUEST, request, response, timeout_s)
    leader_id = answer.leader_member_id
    if answer.refusal and leader_id not in (NOT_THERE, config.node.member_id):
        raise ClusterError(f"{answer.refusal}; member {leader_id} does: use its configuration")
    if answer.refusal:
        raise ClusterError(answer.refusal)
    return int(answer.log_position)


def ask(config: NodeConfig, question: Message, values: dict[str, Any], answer: Message, timeout_s: float) -> Any:
    """Asks a running node over its control streams, and returns the values of the answer."""
    member_id = config.node.member_id
    _require_alive(config)
    answers: list[Any] = []
    clock = SystemClock()
    with TransportClient(str(config.aeron_dir), clock=clock, memory=FileMemoryProvider(), name="ordo") as client:
        correlation_id = client.next_correlation_id()

        def on_message(message: bytes, _header: object) -> None:
            found = ordo_codecs.decode_any(message)
            if found is not None and found[0] is answer and found[1].correlation_id == correlation_id:
                answers.append(found[1])

        subscription = client.add_subscription(
            CONTROL_CHANNEL, local_stream(TO_SERVICE_STREAM_ID, config.cluster.cluster_id)
        )
        publication = client.add_exclusive_publication(
            CONTROL_CHANNEL, local_stream(TO_MODULE_STREAM_ID, config.cluster.cluster_id)
        )
        encoded = question.encode(correlation_id=correlation_id, **values)

        def is_sent() -> bool:
            client.do_work(clock.now())
            return subscription.is_connected and publication.offer(encoded) > 0

        def is_answered() -> bool:
            client.do_work(clock.now())
            subscription.poll_messages(on_message)
            return bool(answers)

        await_done(is_sent, f"member {member_id} did not take the request", timeout_s)
        await_done(is_answered, f"member {member_id} did not answer", timeout_s)
    return answers[0]


def _toggle(config: NodeConfig, wanted: int, expected: ControlToggle = ControlToggle.NEUTRAL) -> None:
    """Sets counter 202, which the leader reads (cluster-consensus.md §19)."""
    member_id = config.node.member_id
    _require_alive(config)
    with open_cnc(config.aeron_dir, writable=True) as cnc:
        counters = CountersReader(cnc.counters_metadata, cnc.counters_values)
        counter_id = find_counter(counters, CounterType.CONTROL_TOGGLE, config.cluster.cluster_id)
        if counter_id < 0:
            raise ClusterError(f"member {member_id} is still starting; try again")
        toggle = counters.counter(counter_id)
        if toggle.compare_and_set(expected, wanted):
            return
        found = "TRANSFER" if is_transfer(toggle.value) else _name(ControlToggle, toggle.value)
    if found == ControlToggle.INACTIVE.name:
        raise ClusterError(
            f"member {member_id} does not lead; use the configuration of the leader (`ordo cluster status`)"
        )
    if found == ControlToggle.NEUTRAL.name:
        raise ClusterError(f"member {member_id} is not suspended")
    if found == ControlToggle.SUSPEND.name:
        raise ClusterError(f"member {member_id} is suspended; have it go on first (`ordo cluster resume`)")
    raise ClusterError(f"member {member_id} is busy with {found}; try again when it is done")


def _await_state(config: NodeConfig, state: ModuleState, timeout_s: float) -> None:
    def reached() -> bool:
        return _counter(config, CounterType.MODULE_STATE) == state

    await_done(reached, f"member {config.node.member_id} did not become {state.name}", timeout_s)


def _counter(config: NodeConfig, counter_type: CounterType) -> int:
    return next((one.value for one in _counters_of(config) if one.type_id == counter_type), NOT_THERE)


def _counters_of(config: NodeConfig) -> list[CounterDescriptor]:
    """Of the node's own driver all, of a shared one those of the node's cluster."""
    counters = read_counters(config.aeron_dir)
    if config.node.own_driver:
        return counters
    return [one for one in counters if one.type_id in _NODE_TYPES and is_of_cluster(one, config.cluster.cluster_id)]


def _require_alive(config: NodeConfig) -> None:
    if not is_running(config):
        raise StorageMissingError(
            f"member {config.node.member_id} is not running on this machine: no live node in {config.aeron_dir}"
        )


def is_running(config: NodeConfig) -> bool:
    """Whether the node lives. Its driver shows a heartbeat; one that is shared also holds the node's counters, until it
    misses the node."""
    if not is_alive(config.aeron_dir, _now_ms(), ALIVE_TIMEOUT_MS):
        return False
    return config.node.own_driver or _counter(config, CounterType.MODULE_STATE) != NOT_THERE


def await_done(done: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Waits for something. Raises ClusterTimeoutError, which says what did not happen."""
    deadline_s = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline_s:
            raise ClusterTimeoutError(f"{what} within {timeout_s:g} s; look at its log")
        time.sleep(POLL_INTERVAL_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _lost(value: int) -> str:
    return "-" if value == NOT_THERE else Distrust(value).name or "NONE"


def _name(values: type[ModuleState] | type[NodeRole] | type[ElectionState] | type[ControlToggle], value: int) -> str:
    try:
        return values(value).name
    except ValueError:
        return "-" if value == NOT_THERE else str(value)
