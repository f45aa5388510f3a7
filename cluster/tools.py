"""What the `ordo` command does with a running node: everything goes through the counters in its shared memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cluster.config import NodeConfig
from cluster.counter_types import ControlToggle, CounterType, ModuleState, NodeRole, is_transfer, transfer_value
from cluster.node_counters import is_alive, open_cnc, read_counters
from consensus.states import ElectionState
from runtime.counters import CounterDescriptor, CountersReader
from runtime.errors import ClusterError, ClusterTimeoutError, ConfigurationError, StorageMissingError

ALIVE_TIMEOUT_MS = 2_000
POLL_INTERVAL_S = 0.02
SNAPSHOT_TIMEOUT_S = 60.0
TRANSFER_TIMEOUT_S = 10.0
NOT_THERE = -1


class NodeStatus(NamedTuple):
    """One node, as its counters say. Positions are bytes in the log, -1 when the counter is not there."""

    member_id: int
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


def node_status(config: NodeConfig) -> NodeStatus:
    """Of the node of this configuration on this machine. Raises StorageMissingError when it does not run."""
    counters = running_counters(config)

    def value(counter_type: CounterType) -> int:
        return next((counter.value for counter in counters if counter.type_id == counter_type), NOT_THERE)

    return NodeStatus(
        config.node.member_id,
        _name(ModuleState, value(CounterType.MODULE_STATE)),
        _name(NodeRole, value(CounterType.NODE_ROLE)),
        _name(ElectionState, value(CounterType.ELECTION_STATE)),
        value(CounterType.LEADERSHIP_TERM_ID),
        value(CounterType.COMMIT_POSITION),
        value(CounterType.SERVICE_POSITION),
        value(CounterType.ELECTION_COUNT),
        value(CounterType.SNAPSHOT_COUNT),
        sum(counter.type_id == CounterType.SESSION for counter in counters),
        value(CounterType.MODULE_ERRORS),
    )


def running_counters(config: NodeConfig) -> list[CounterDescriptor]:
    """All counters of a node that is alive; raises StorageMissingError when it is not."""
    _require_alive(config.aeron_dir, config.node.member_id)
    return read_counters(config.aeron_dir)


def request_snapshot(config: NodeConfig, timeout_s: float = SNAPSHOT_TIMEOUT_S) -> None:
    """Has the cluster take a snapshot, and returns once this node, its leader, holds it.

    Raises ClusterError when this node does not lead or is busy, ClusterTimeoutError when it takes too long.
    """
    _toggle(config, ControlToggle.SNAPSHOT)

    def done() -> bool:
        return _counter(config.aeron_dir, CounterType.CONTROL_TOGGLE) == ControlToggle.NEUTRAL

    _await(done, f"the snapshot of member {config.node.member_id} did not end", timeout_s)


def request_shutdown(config: NodeConfig, *, with_snapshot: bool = True, timeout_s: float = SNAPSHOT_TIMEOUT_S) -> None:
    """Has the whole cluster end in good order, with a snapshot first unless told otherwise; returns when this node did.

    Errors as for `request_snapshot`.
    """
    _toggle(config, ControlToggle.SHUTDOWN if with_snapshot else ControlToggle.ABORT)

    def gone() -> bool:
        return not is_alive(config.aeron_dir, _now_ms(), ALIVE_TIMEOUT_MS)

    _await(gone, f"member {config.node.member_id} did not end", timeout_s)


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
        return not is_transfer(_counter(config.aeron_dir, CounterType.CONTROL_TOGGLE))

    _await(done, f"member {own_id} did not hand over", timeout_s)
    if _counter(config.aeron_dir, CounterType.CONTROL_TOGGLE) == ControlToggle.NEUTRAL:
        raise ClusterError(
            f"member {own_id} still leads: no member that was asked could take over; see whether they are running and"
            " have caught up (`ordo cluster status`)"
        )


def _toggle(config: NodeConfig, wanted: int) -> None:
    """Sets counter 202, which the leader reads (cluster-consensus.md §19)."""
    member_id = config.node.member_id
    _require_alive(config.aeron_dir, member_id)
    with open_cnc(config.aeron_dir, writable=True) as cnc:
        counters = CountersReader(cnc.counters_metadata, cnc.counters_values)
        counter_id = counters.find(CounterType.CONTROL_TOGGLE)
        if counter_id < 0:
            raise ClusterError(f"member {member_id} is still starting; try again")
        toggle = counters.counter(counter_id)
        if toggle.compare_and_set(ControlToggle.NEUTRAL, wanted):
            return
        found = "TRANSFER" if is_transfer(toggle.value) else _name(ControlToggle, toggle.value)
    if found == ControlToggle.INACTIVE.name:
        raise ClusterError(
            f"member {member_id} does not lead; use the configuration of the leader (`ordo cluster status`)"
        )
    raise ClusterError(f"member {member_id} is busy with {found}; try again when it is done")


def _counter(aeron_dir: Path, counter_type: CounterType) -> int:
    return next((one.value for one in read_counters(aeron_dir) if one.type_id == counter_type), NOT_THERE)


def _require_alive(aeron_dir: Path, member_id: int) -> None:
    if not is_alive(aeron_dir, _now_ms(), ALIVE_TIMEOUT_MS):
        raise StorageMissingError(f"member {member_id} is not running on this machine: no live node in {aeron_dir}")


def _await(done: Callable[[], bool], what: str, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline_s:
            raise ClusterTimeoutError(f"{what} within {timeout_s:g} s; look at its log")
        time.sleep(POLL_INTERVAL_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _name(values: type[ModuleState] | type[NodeRole] | type[ElectionState] | type[ControlToggle], value: int) -> str:
    try:
        return values(value).name
    except ValueError:
        return "-" if value == NOT_THERE else str(value)
