"""`ordo cluster status --endpoints`: every member that answers, and which of them leads."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from ordo.cluster.admin.remote import describe_trouble, leader_of, look_status
from ordo.cluster.client.operator import MemberLook
from ordo.cluster.commands.printing import EXIT_NO_QUORUM, make_table, or_null, print_json, print_values, show
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.runtime.errors import NoQuorumError

if TYPE_CHECKING:
    from ordo.cluster.commands.reaching import Target
    from ordo.cluster.monitoring.counter_values import NodeStatus
    from ordo.runtime.errors import OrdoError


def remote_status(target: Target, timeout_s: float, as_json: bool, is_verbose: bool) -> None:
    """Print what the members report; exit with EXIT_NO_QUORUM if none leads within the time."""
    with target.connect() as cluster:
        with suppress(NoQuorumError):  # what is found below says so
            cluster.find_leader(timeout_s)
        found = cluster.look()
    leader = leader_of(found)
    statuses = {endpoint: look_status(one) for endpoint, one in found.items() if isinstance(one, MemberLook)}
    if as_json:
        print_json(_document(found, statuses, leader))
    elif is_verbose:
        _print_all(found, statuses)
    else:
        show(make_status_table(found, statuses))
    if leader is None:
        print(f"ordo: no quorum: {describe_trouble(found)}", file=sys.stderr)
        raise typer.Exit(EXIT_NO_QUORUM)


def _document(
    found: dict[str, MemberLook | OrdoError], statuses: dict[str, NodeStatus], leader: str | None
) -> dict[str, Any]:
    look = None if leader is None else found[leader]
    members: list[dict[str, Any]] = []
    for endpoint, one in found.items():
        if isinstance(one, MemberLook):
            values = {name: or_null(value) for name, value in statuses[endpoint]._asdict().items()}
            members.append({"ingress": endpoint, **values, "version": one.version, "error": None})
        else:
            members.append({"ingress": endpoint, "member_id": None, "error": one.message})
    return {
        "has_quorum": leader is not None,
        "leader_member_id": look.get("member_id") if isinstance(look, MemberLook) else None,
        "leader_ingress": leader,
        "leadership_term_id": look.counter(CounterType.LEADER_TERM) if isinstance(look, MemberLook) else None,
        "members": members,
    }


def make_status_table(found: dict[str, MemberLook | OrdoError], statuses: dict[str, NodeStatus]) -> Any:
    """One line for each member, within 80 columns where its endpoint is an address."""
    table = make_table(
        "id", "ingress", "role", "term", "commit position", "behind", "clients", "", padding=(0, 1, 0, 0)
    )
    for endpoint, status in _in_order(found, statuses):
        if status is None:
            table.add_row("?", endpoint, "-", "-", "-", "-", "-", "no answer")
            continue
        behind = max(status.commit_position - status.service_position, 0) if status.service_position >= 0 else "-"
        cells = (status.role, status.leadership_term_id, status.commit_position, behind, status.sessions)
        shown = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
        table.add_row(str(status.member_id), endpoint, *shown, describe_state(status))
    return table


def describe_state(status: NodeStatus) -> str:
    """Return what is unusual about a member, in a few words, or ''."""
    told = [] if status.election in ("CLOSED", "-") else [f"election {status.election}"]
    told += [status.state] if status.state not in ("ACTIVE", "-") else []
    told += ["LOST LOG"] if status.lost not in ("NONE", "-", "") else []
    told += ["NO ROOM"] if status.no_room not in ("NONE", "-", "") else []
    told += ["DAMAGED"] if status.damaged > 0 else []
    told += [f"{status.errors:,} errors"] if status.errors > 0 else []
    return ", ".join(told)


def _print_all(found: dict[str, MemberLook | OrdoError], statuses: dict[str, NodeStatus]) -> None:
    """Everything of every member, a line for each value."""
    for endpoint, status in _in_order(found, statuses):
        one = found[endpoint]
        if status is None:
            assert not isinstance(one, MemberLook)
            print_values({"ingress": endpoint, "error": one.message.removeprefix(f"{endpoint}: ")})
        else:
            print_values({"ingress": endpoint, **status._asdict()})
        print()


def _in_order(
    found: dict[str, MemberLook | OrdoError], statuses: dict[str, NodeStatus]
) -> list[tuple[str, NodeStatus | None]]:
    return sorted(((one, statuses.get(one)) for one in found), key=lambda item: _order(item[1]))


def _order(status: NodeStatus | None) -> tuple[bool, int]:
    """Order members by id; those that did not answer come last."""
    return (status is None, 0 if status is None else status.member_id)
