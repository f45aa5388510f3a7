"""`ordo cluster ...`: a running node and its cluster."""

from __future__ import annotations

import json
import sys
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordo.cluster.admin.order_timeouts import (
    MEMBERSHIP_TIMEOUT_S,
    SKIP_TIMEOUT_S,
    SNAPSHOT_TIMEOUT_S,
    SUSPEND_TIMEOUT_S,
    TRANSFER_TIMEOUT_S,
)
from ordo.cluster.commands import evidence, snapshots, versions, wait
from ordo.cluster.commands.printing import EXIT_NO_QUORUM, make_table, or_null, print_json, print_values, show
from ordo.cluster.commands.reaching import Target, reaching
from ordo.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from ordo.cluster.admin.orders import MemberAccess, MemberStatus

cluster_app = typer.Typer(name="cluster", help="Look into a running cluster, and control it.", no_args_is_help=True)
TimeoutOption = Annotated[float, typer.Option("--timeout", min=0.1, help="seconds to wait")]
MembershipTimeout = Annotated[float, typer.Option("--timeout", min=0.1, help="seconds to wait for the commit")]
MemberIdArgument = Annotated[int, typer.Argument(metavar="ID")]
MemberArgument = Annotated[
    str,
    typer.Argument(metavar="ID=HOST:PORT", help="its first port, or ID=ingress,consensus,log,catchup,archive"),
]
ConfigOption = Annotated[Path, typer.Option(help="node.toml of a member that runs on this machine")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON; what is not known is null")]
DoneOption = Annotated[bool, typer.Option("--json", help="print JSON: what was done, and by which member")]


@cluster_app.command()
@reaching
def status(
    target: Target,
    timeout: Annotated[float, typer.Option(min=0.1, help="with --endpoints, seconds to look for a leader")] = 5.0,
    as_json: JsonOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="with --endpoints, everything of each member, a line for each value")
    ] = False,
) -> None:
    """Show state, role, term and positions of one node, and whether it is part of a quorum.

    With --endpoints, from any machine: a line for every member, and which of them leads; with -v everything.

    Exit status: 0 the node leads with a quorum or follows a leader; 1 it does not run here; 2 the command line or the
    configuration is wrong; 3 the node runs, or members are asked, but there is no quorum, or an election has not ended;
    4 the members refuse the credentials.
    """
    if target.is_remote:
        from ordo.cluster.commands.status import remote_status

        remote_status(target, timeout, as_json, verbose)
        return
    if verbose:
        raise ConfigurationError("-v: for --endpoints; with --config everything is shown")
    from ordo.cluster.admin import local_member

    found = local_member.node_status(target.load_config())
    if as_json:
        print_json({name: or_null(value) for name, value in found._asdict().items()})
    else:
        print_values(found._asdict())
    if not found.has_quorum:
        print(
            f"ordo: no quorum: member {found.member_id} neither leads nor follows (election {found.election}) and"
            " commits nothing; see that a majority of the voters runs, and that it reaches them",
            file=sys.stderr,
        )
        raise typer.Exit(EXIT_NO_QUORUM)


@cluster_app.command()
@reaching
def members(target: Target, as_json: JsonOption = False) -> None:
    """List the members of the cluster and their endpoints: from the configuration, with --endpoints from the log."""
    from ordo.cluster.wire.members import ENDPOINT_NAMES

    if target.is_remote:
        from ordo.cluster.admin import orders

        with target.member() as member:
            found = orders.ask_members(member)
        rows = [
            (one.member_id, *(getattr(one, f"{name}_endpoint") for name in ENDPOINT_NAMES), False)
            for one in sorted((*found.active_members, *found.passive_members), key=lambda one: int(one.member_id))
        ]
    else:
        loaded = target.load_config()
        own_id = loaded.node.member_id
        rows = [(*astuple(member), member.id == own_id) for member in loaded.member_list]
    if as_json:
        names = ("id", *ENDPOINT_NAMES, "is_this_node")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    show(make_members_table(rows))


def make_members_table(rows: list[tuple[Any, ...]]) -> Any:
    """Return a line for each member: its id, its endpoints, and whether it is this node."""
    from ordo.cluster.wire.members import ENDPOINT_NAMES

    table = make_table("id", "host", *ENDPOINT_NAMES, "this node", padding=(0, 1, 0, 0))
    for member_id, *endpoints, is_this_node in rows:
        table.add_row(str(member_id), *_without_host(endpoints), "*" if is_this_node else "")
    return table


def _without_host(endpoints: list[str]) -> list[str]:
    """Return the host of a member, then its endpoints: of those that are at this host the port only."""
    host = endpoints[0].rpartition(":")[0]
    return [host, *(one.removeprefix(host) if one.startswith(f"{host}:") else one for one in endpoints)]


@cluster_app.command("list")
@reaching
def list_members(target: Target, as_json: JsonOption = False) -> None:
    """Show voters and learners, according to the log of a running node."""
    from ordo.cluster.admin import orders

    with target.member() as asked:
        found = orders.list_members(asked)
    if as_json:
        print_json([{name: or_null(value) for name, value in member._asdict().items()} for member in found])
        return
    show(make_list_table(found))


def make_list_table(found: list[MemberStatus]) -> Any:
    """Return a line for each voter and learner."""
    from ordo.cluster.monitoring.counter_values import NOT_THERE

    table = make_table("id", "role", "log position", "ingress", "consensus", padding=(0, 1, 0, 0))
    for member in found:
        position = "-" if member.log_position == NOT_THERE else f"{member.log_position:,}"
        role = member.role + (", leads" if member.is_leader else "")
        table.add_row(str(member.member_id), role, position, member.ingress, member.consensus)
    return table


def _tell(text: str, as_json: bool, member: MemberAccess, **more: object) -> None:
    """Print the result of an order, as text or as JSON."""
    if as_json:
        print_json({"done": text, "by_member_id": member.member_id, **more})
    else:
        show(text)


@cluster_app.command()
@reaching
def add_learner(
    target: Target,
    member: MemberArgument,
    timeout: MembershipTimeout = MEMBERSHIP_TIMEOUT_S,
    as_json: DoneOption = False,
) -> None:
    """Add a member that follows without a vote. Start its node after this."""
    from ordo.cluster.settings.sections import new_member

    added = new_member(member)
    _change(target, "ADD_LEARNER", added.id, timeout, as_json, added.encode())


@cluster_app.command()
@reaching
def promote(
    target: Target,
    member_id: MemberIdArgument,
    timeout: MembershipTimeout = MEMBERSHIP_TIMEOUT_S,
    as_json: DoneOption = False,
) -> None:
    """Give a learner that has caught up its vote."""
    _change(target, "PROMOTE", member_id, timeout, as_json)


@cluster_app.command()
@reaching
def demote(
    target: Target,
    member_id: MemberIdArgument,
    timeout: MembershipTimeout = MEMBERSHIP_TIMEOUT_S,
    as_json: DoneOption = False,
) -> None:
    """Make a voter a learner."""
    _change(target, "DEMOTE", member_id, timeout, as_json)


@cluster_app.command()
@reaching
def remove(
    target: Target,
    member_id: MemberIdArgument,
    timeout: MembershipTimeout = MEMBERSHIP_TIMEOUT_S,
    as_json: DoneOption = False,
) -> None:
    """Take a member out of the cluster; its node ends by itself."""
    _change(target, "REMOVE", member_id, timeout, as_json)


ARCHIVE_ROLES = ("record", "delete")
"""The roles of `ordo archive serve`, beside log."""
_OUTCOMES = {
    "ADD_LEARNER": "is a learner now",
    "PROMOTE": "is a voter now",
    "DEMOTE": "is a learner now",
    "REMOVE": "is in the cluster no longer",
}


def _change(target: Target, change: str, member_id: int, timeout_s: float, as_json: bool, text: str = "") -> None:
    """`change` is a name of MembershipChange."""
    from ordo.cluster.admin import orders
    from ordo.cluster.wire.ordo_codecs import MembershipChange

    with target.leader(timeout_s) as leader:
        position = orders.change_membership(leader, MembershipChange[change], member_id, text, timeout_s)
    done = f"member {member_id} {_OUTCOMES[change]} (committed at position {position:,})"
    _tell(done, as_json, leader, log_position=position)


@cluster_app.command()
@reaching
def snapshot(
    target: Target,
    standbys: Annotated[
        bool, typer.Option("--standbys", help="Have the standbys take one, and no member; returns once it is ordered.")
    ] = False,
    timeout: TimeoutOption = SNAPSHOT_TIMEOUT_S,
    as_json: DoneOption = False,
) -> None:
    """Take a snapshot on every node."""
    from ordo.cluster.admin import orders

    with target.leader(timeout) as leader:
        if standbys:
            orders.order_standby_snapshot(leader, timeout)
        else:
            orders.take_snapshot(leader, timeout)
    _tell("ordered: standbys take a snapshot when they come to it" if standbys else "snapshot taken", as_json, leader)


@cluster_app.command()
@reaching
def suspend(target: Target, timeout: TimeoutOption = SUSPEND_TIMEOUT_S, as_json: DoneOption = False) -> None:
    """Take no messages and fire no timers until `resume`; sessions stay open."""
    from ordo.cluster.admin import orders

    with target.leader(timeout) as leader:
        orders.suspend(leader, timeout)
    _tell("cluster suspended", as_json, leader)


@cluster_app.command()
@reaching
def resume(target: Target, timeout: TimeoutOption = SUSPEND_TIMEOUT_S, as_json: DoneOption = False) -> None:
    """Go on after `suspend`."""
    from ordo.cluster.admin import orders

    with target.leader(timeout) as leader:
        orders.resume(leader, timeout)
    _tell("cluster goes on", as_json, leader)


@cluster_app.command()
@reaching
def transfer(
    target: Target,
    to: Annotated[int | None, typer.Option("--to", help="id of the member that is to lead next")] = None,
    timeout: TimeoutOption = TRANSFER_TIMEOUT_S,
    as_json: DoneOption = False,
) -> None:
    """Hand the leadership over to another member."""
    from ordo.cluster.admin import orders

    with target.leader(timeout) as leader:
        new_leader_id = orders.transfer(leader, to, timeout)
    _tell(f"member {leader.member_id} handed over to {new_leader_id}", as_json, leader, new_leader_id=new_leader_id)


@cluster_app.command()
def trust(
    config: ConfigOption,
    accepted: Annotated[
        bool, typer.Option("--accept-loss", help="yes, messages that were acknowledged may be lost")
    ] = False,
) -> None:
    """Let a stopped member vote with what is left of its log, if no other member can supply the rest.

    For a cluster whose members lost too much for one of them to be elected. Choose the member with the longest log.
    Whatever it lacks is lost, although it may have been acknowledged, and executed by services.
    """
    if not accepted:
        raise ConfigurationError("trust: may lose acknowledged messages; say --accept-loss to do it all the same")
    from ordo.cluster.admin import accept_loss
    from ordo.cluster.settings.config import load_config

    show(accept_loss.accept_loss(load_config(config)))


@cluster_app.command()
def adopt(
    config: ConfigOption,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON: what was done")] = False,
) -> None:
    """Make the data folder of another member of the same cluster that of this member, which is stopped.

    A node refuses to start with the folder of another member. After this it starts with it as one that lost its own
    log and its own vote: it follows, and votes once it has caught up. The other member must not run with a copy of it.
    """
    from ordo.cluster.admin import adoption
    from ordo.cluster.settings.config import load_config

    done = adoption.adopt(load_config(config))
    if as_json:
        print_json({"done": done})
    else:
        show(done)


@cluster_app.command()
@reaching
def skip(
    target: Target,
    position: Annotated[int, typer.Argument(min=1, help="where the record ends, as the error log says")],
    timeout: TimeoutOption = SKIP_TIMEOUT_S,
    as_json: DoneOption = False,
) -> None:
    """Leave a record of the log out, on all members, at which services fail; also while nothing runs.

    By the leader, whose service stands still at the record. Where no node runs: with the configurations of all members,
    one after the other; then start them.
    """
    if target.is_remote:
        from ordo.cluster.admin import orders

        with target.leader(timeout) as leader:
            done = orders.skip(leader, position, timeout)
    else:
        from ordo.cluster.admin import local_member, skipping

        loaded = target.load_config()
        done, leader = skipping.skip(loaded, position, timeout), local_member.LocalMember(loaded)
    _tell(done, as_json, leader, log_position=position)


@cluster_app.command()
@reaching
def skipped(target: Target, as_json: JsonOption = False) -> None:
    """List the records of the log that are left out, as one node knows them, running or not."""
    with target.member() as member:
        found, wishes = member.notes.list_skipped()
    if as_json:
        rows = [{**one._asdict(), "text": one.text.decode("utf-8", "replace")} for one in found]
        print_json({"skipped": rows, "asked_for": wishes})
        return
    table = make_table("position", "left out by the record at", "why")
    for one in found:
        why = one.text.decode("utf-8", "replace")
        table.add_row(f"{one.log_position:,}", f"{one.skip_position:,}", why)
    for position in wishes:
        table.add_row(f"{position:,}", "-", "asked for, with `ordo cluster skip`")
    show(table)


cluster_app.command()(versions.upgrade)
cluster_app.command()(versions.versions)
cluster_app.command()(evidence.evidence)
for command in (
    snapshots.snapshots,
    snapshots.recovery_plan,
    snapshots.invalidate_snapshot,
    snapshots.renew_log,
    snapshots.is_leader,
    wait.wait,
    wait.leader,
):
    cluster_app.command()(command)


@cluster_app.command()
@reaching
def shutdown(
    target: Target,
    no_snapshot: Annotated[bool, typer.Option("--no-snapshot", help="end without taking a snapshot first")] = False,
    timeout: TimeoutOption = SNAPSHOT_TIMEOUT_S,
    as_json: DoneOption = False,
) -> None:
    """End every node properly, after a snapshot.

    None is taken where the log has ended for a standby to go on; it says so then.
    """
    from ordo.cluster.admin import orders

    with target.leader(timeout) as leader:
        lacks_snapshot = orders.shut_down(leader, with_snapshot=not no_snapshot, timeout_s=timeout)
    why = f", without a snapshot: {lacks_snapshot}" if lacks_snapshot else ""
    _tell(f"cluster ended{why}", as_json, leader)


@cluster_app.command()
def new_token(
    principal: Annotated[str, typer.Argument(help="name that the service and the log know the client by")],
    from_stdin: Annotated[
        bool, typer.Option("--from-stdin", help="hash the first line of the standard input instead of a new token")
    ] = False,
    role: Annotated[
        list[str] | None,
        typer.Option(
            help="what it is for, once for each role: ingress, queries, consumers, administration, operator, log,"
            " topics, topic:<name>; for"
            " `ordo archive serve --tokens-file`: log, record, delete"
        ),
    ] = None,
) -> None:
    """Make a token for clients.

    Its table for every member's node.toml on the standard output, the token itself, which is kept nowhere, on the
    standard error output.
    """
    from ordo.cluster.settings.sections import check_role
    from ordo.runtime.security import tokens

    roles = role or ["ingress", "queries"]
    for one in roles:
        try:
            one in ARCHIVE_ROLES or check_role(one)
        except ValueError as error:
            raise ConfigurationError(f"{error}; of an archive, {' or '.join(ARCHIVE_ROLES)}") from None
    token = sys.stdin.readline().rstrip("\r\n") if from_stdin else tokens.new_token()
    hashed = tokens.hash_token(token)
    print(f'[[tokens]]\nprincipal = {json.dumps(principal)}\nhash = "{hashed}"\nroles = {json.dumps(roles)}')
    if not from_stdin:
        print(f"token: {token}", file=sys.stderr)
