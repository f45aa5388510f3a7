"""`ordo cluster wait` and `ordo cluster leader`: a start, or a failover, is awaited instead of slept for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ordo.cluster.commands.printing import EXIT_NO_QUORUM, print_json, show
from ordo.cluster.commands.reaching import Target, reaching

if TYPE_CHECKING:
    from ordo.cluster.admin.remote import RemoteCluster
    from ordo.cluster.client.operator import MemberLook
    from ordo.cluster.monitoring.counter_values import NodeStatus
    from ordo.runtime.errors import OrdoError

WAIT_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.1
TELL_AFTER_S = 2.0
TELL_AGAIN_S = 10.0
WaitTimeout = Annotated[float, typer.Option("--timeout", min=0.1, help="seconds to wait")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]


class Patience:
    """How long to wait, and progress messages on standard error meanwhile."""

    def __init__(self, timeout_s: float) -> None:
        from ordo.cluster.admin import orders

        self._orders, self._told = orders, ""
        self._end, self._next = orders.Deadline(timeout_s), orders.Deadline(TELL_AFTER_S)

    def wait(self, trouble: str) -> None:
        """Pause a moment; end the command when the time is over."""
        if self._end.is_over:
            print(f"ordo: not in time: {trouble}", file=sys.stderr)
            raise typer.Exit(EXIT_NO_QUORUM)
        if self._next.is_over:
            if trouble != self._told:
                print(f"ordo: waiting: {trouble}", file=sys.stderr, flush=True)
            self._next, self._told = self._orders.Deadline(TELL_AGAIN_S), trouble
        self._orders.pause()


@reaching
def wait(target: Target, timeout: WaitTimeout = WAIT_TIMEOUT_S, as_json: JsonOption = False) -> None:
    """Wait until members are ready: one leads, the others follow it, and their services have executed the log.

    With --config the member of this machine, with --endpoints every member of the cluster. What it waits for is told on
    the standard error output. Exit status: 0 ready; 3 not in time; 4 the members refuse the credentials.
    """
    ready = _await_members(target, timeout) if target.is_remote else _await_own(target, timeout)
    if as_json:
        print_json({"ready": ready})
    else:
        show(f"member {ready[0]} is ready" if len(ready) == 1 else f"{len(ready)} members are ready")


@reaching
def leader(target: Target, timeout: WaitTimeout = WAIT_TIMEOUT_S, as_json: JsonOption = False) -> None:
    """Wait until a member leads, and print its id.

    With --config the member of this machine says who leads, when it leads itself or knows the others. Exit status: 0 a
    member leads; 3 none did in time; 4 the members refuse the credentials.
    """
    found = _await_leader(target, timeout) if target.is_remote else _find_own_leader(target, timeout)
    if as_json:
        print_json({"leader_member_id": found})
    else:
        show(str(found))


def _await_leader(target: Target, timeout_s: float) -> int:
    from ordo.runtime.errors import NoQuorumError

    patience, trouble = Patience(timeout_s), ""
    with target.connect() as cluster:
        while True:
            try:
                return cluster.find_leader(POLL_INTERVAL_S).member_id
            except NoQuorumError as error:
                trouble = error.message
            patience.wait(trouble)


def _find_own_leader(target: Target, timeout_s: float) -> int:
    from ordo.cluster.admin import local_member, orders
    from ordo.runtime.errors import ClusterError, StorageMissingError

    config, patience = target.load_config(), Patience(timeout_s)
    while True:
        try:
            listed = orders.list_members(local_member.LocalMember(config))
            leading = [member.member_id for member in listed if member.is_leader]
            if leading:
                return leading[0]
            trouble = f"member {config.node.member_id} knows no leader"
        except (ClusterError, StorageMissingError) as error:
            trouble = error.message
        patience.wait(trouble)


def _await_own(target: Target, timeout_s: float) -> list[int]:
    from ordo.cluster.admin import local_member
    from ordo.runtime.errors import StorageMissingError

    config, patience, commit_position = target.load_config(), Patience(timeout_s), -1
    while True:
        try:
            status = local_member.node_status(config)
            trouble = _trouble_of(status, commit_position)
            commit_position = status.commit_position
        except StorageMissingError as error:
            trouble = error.message
        if not trouble:
            return [config.node.member_id]
        patience.wait(trouble)


def _await_members(target: Target, timeout_s: float) -> list[int]:
    patience, committed = Patience(timeout_s), dict[str, int]()
    with target.connect() as cluster:
        while True:
            ready, trouble = _look(cluster, committed)
            if not trouble:
                return sorted(ready)
            patience.wait(trouble)


def _look(cluster: RemoteCluster, committed: dict[str, int]) -> tuple[list[int], str]:
    """Return the ready members, and why the others are not; `committed` has the last commit position of each."""
    from ordo.cluster.admin.remote import check_permission, leader_of, look_status
    from ordo.cluster.client.operator import MemberLook

    found: dict[str, MemberLook | OrdoError] = cluster.look()
    check_permission(found)
    ready, troubles = [], []
    for endpoint, look in sorted(found.items()):
        if isinstance(look, MemberLook):
            status = look_status(look)
            trouble = _trouble_of(status, committed.get(endpoint, -1))
            committed[endpoint] = status.commit_position
            ready.append(status.member_id)
        else:
            trouble = look.message
        troubles += [trouble] if trouble else []
    if not troubles and leader_of(found) is None:
        troubles.append("no member leads")
    return ready, "; ".join(troubles)


def _trouble_of(status: NodeStatus, commit_position: int) -> str:
    """Return why a member is not ready; `commit_position` is what it last reported, -1 at first."""
    if not status.has_quorum:
        return f"member {status.member_id} neither leads nor follows (election {status.election})"
    if status.service_position < (status.commit_position if commit_position < 0 else commit_position):
        return (
            f"the service of member {status.member_id} is at {status.service_position:,} of {status.commit_position:,}"
        )
    return ""
