"""`ordo cluster status --endpoints`: every member that answers, and which of them leads."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from cluster.client.operator import MemberLook
from cluster.node.cli_print import EXIT_NO_QUORUM, make_table, or_null, print_json, show
from cluster.node.remote import describe_trouble, leader_of, look_status
from cluster.wire.counter_types import CounterType
from runtime.errors import NoQuorumError

if TYPE_CHECKING:
    from cluster.node.cli_reach import Target
    from cluster.node.counter_values import NodeStatus
    from runtime.errors import OrdoError

COLUMNS = (
    "role",
    "state",
    "election",
    "commit_position",
    "service_position",
    "sessions",
    "errors",
    "lost",
    "no_room",
    "damaged",
)


def remote_status(target: Target, timeout_s: float, as_json: bool) -> None:
    """Prints what the members say; exits with EXIT_NO_QUORUM when none leads within the time."""
    with target.connect() as cluster:
        with suppress(NoQuorumError):  # what is found below says so
            cluster.find_leader(timeout_s)
        found = cluster.look()
    leader = leader_of(found)
    statuses = {endpoint: look_status(one) for endpoint, one in found.items() if isinstance(one, MemberLook)}
    if as_json:
        print_json(_document(found, statuses, leader))
    else:
        _print(found, statuses)
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


def _print(found: dict[str, MemberLook | OrdoError], statuses: dict[str, NodeStatus]) -> None:
    table = make_table("member", "ingress", "term", *(name.replace("_", " ") for name in COLUMNS))
    for endpoint, one in sorted(found.items(), key=lambda item: _order(statuses.get(item[0]))):
        status = statuses.get(endpoint)
        if status is None:
            assert not isinstance(one, MemberLook)
            table.add_row("?", endpoint, one.message.removeprefix(f"{endpoint}: "))
            continue
        values = [getattr(status, name) for name in COLUMNS]
        cells = [f"{value:,}" if isinstance(value, int) else str(value) for value in values]
        table.add_row(str(status.member_id), endpoint, str(status.leadership_term_id), *cells)
    show(table)


def _order(status: NodeStatus | None) -> tuple[bool, int]:
    """By member id; those that did not answer last."""
    return (status is None, 0 if status is None else status.member_id)
