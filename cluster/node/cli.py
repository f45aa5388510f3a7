"""`ordo cluster ...`: a running node and its cluster."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.module import tokens
from cluster.node import tools
from cluster.node.config import load_config, new_member
from cluster.wire.ordo_codecs import MembershipChange
from runtime.errors import ConfigurationError

cluster_app = typer.Typer(name="cluster", help="Look into a running cluster, and control it.", no_args_is_help=True)
TIMEOUT_S = tools.MEMBERSHIP_TIMEOUT_S
TimeoutOption = Annotated[float, typer.Option("--timeout", min=0.1, help="seconds to wait")]
MembershipTimeout = Annotated[float, typer.Option("--timeout", min=0.1, help="seconds to wait for the commit")]
MemberIdArgument = Annotated[int, typer.Argument(metavar="ID")]
MemberArgument = Annotated[
    str,
    typer.Argument(metavar="ID=HOST:PORT", help="its first port, or ID=ingress,consensus,log,catchup,archive"),
]
ConfigOption = Annotated[Path, typer.Option(help="node.toml of a member that runs on this machine")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON; what is not known is null")]
EXIT_NO_QUORUM = 3


@cluster_app.command()
def status(
    config: Annotated[Path | None, typer.Option(help="node.toml of a member that runs on this machine")] = None,
    endpoints: Annotated[
        str | None, typer.Option(help="ask the cluster from any machine: HOST:PORT,... of members' ingress")
    ] = None,
    egress: Annotated[
        str, typer.Option(help="with --endpoints, HOST:PORT that members answer to; by default found out")
    ] = "",
    timeout: Annotated[float, typer.Option(min=0.1, help="with --endpoints, seconds to look for a leader")] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """State, role, term and positions of one node, and whether a quorum stands behind what it is part of.

    With --endpoints, from any machine: which member leads, and whether a quorum is behind it. Opens a session for that.

    Exit status: 0 the node leads with a quorum or follows a leader; 1 it does not run here; 2 the command line or the
    configuration is wrong; 3 the node runs, or members are asked, but there is no quorum, or an election has not ended.
    """
    if (config is None) == (endpoints is None):
        raise ConfigurationError("give either --config node.toml of a member on this machine, or --endpoints")
    if endpoints is not None:
        _remote_status(endpoints, egress, timeout, as_json)
        return
    assert config is not None
    found = tools.node_status(load_config(config))
    if as_json:
        _print_json({name: _or_null(value) for name, value in found._asdict().items()})
    else:
        _print_values(found._asdict())
    if not found.has_quorum:
        print(
            f"ordo: no quorum: member {found.member_id} neither leads nor follows (election {found.election}) and"
            " commits nothing; see that a majority of the voters runs, and that it reaches them",
            file=sys.stderr,
        )
        raise typer.Exit(EXIT_NO_QUORUM)


def _remote_status(endpoints: str, egress: str, timeout_s: float, as_json: bool) -> None:
    from cluster.node.remote import cluster_status

    found = cluster_status(endpoints, egress=egress, timeout_s=timeout_s)
    shown = found._asdict()
    reason = shown.pop("reason")
    if as_json:
        _print_json({name: None if value == "" else _or_null(value) for name, value in shown.items()})
    elif found.has_quorum:
        _print_values(shown)
    if not found.has_quorum:
        print(f"ordo: no quorum: {reason}", file=sys.stderr)
        raise typer.Exit(EXIT_NO_QUORUM)


@cluster_app.command()
def members(config: ConfigOption, as_json: JsonOption = False) -> None:
    """The members of the cluster and their endpoints, from the configuration."""
    loaded = load_config(config)
    if as_json:
        own_id = loaded.node.member_id
        _print_json([{**asdict(member), "is_this_node": member.id == own_id} for member in loaded.member_list])
        return
    table = _table("id", "ingress", "consensus", "log", "catchup", "archive", "this node")
    for member in loaded.member_list:
        endpoints = (member.ingress, member.consensus, member.log, member.catchup, member.archive)
        table.add_row(str(member.id), *endpoints, "*" if member.id == loaded.node.member_id else "")
    _show(table)


@cluster_app.command("list")
def list_members(config: ConfigOption, as_json: JsonOption = False) -> None:
    """Voters and learners, as the log of a running node says."""
    found = tools.list_members(load_config(config))
    if as_json:
        _print_json([{name: _or_null(value) for name, value in member._asdict().items()} for member in found])
        return
    table = _table("id", "role", "log position", "ingress", "consensus")
    for member in found:
        position = "-" if member.log_position == tools.NOT_THERE else f"{member.log_position:,}"
        role = member.role + (", leads" if member.is_leader else "")
        table.add_row(str(member.member_id), role, position, member.ingress, member.consensus)
    _show(table)


def _table(*columns: str, **options: Any) -> Any:
    """A table of rich, which is imported when one is shown: most commands show none."""
    from rich.table import Table

    return Table(*columns, **options)


def _show(shown: Any) -> None:
    from runtime.console import output_console

    output_console().print(shown)


def _print_values(values: dict[str, Any]) -> None:
    table = _table(show_header=False, box=None)
    for name, value in values.items():
        table.add_row(name.replace("_", " "), _cell(value))
    _show(table)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def _or_null(value: Any) -> Any:
    """What a counter that is not there shows, as JSON."""
    is_missing = value == "-" or (value == tools.NOT_THERE and not isinstance(value, bool))
    return None if is_missing else value


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int) else str(value)


@cluster_app.command()
def add_learner(config: ConfigOption, member: MemberArgument, timeout: MembershipTimeout = TIMEOUT_S) -> None:
    """Add a member that follows without a vote; with the configuration of the leader. Start its node after this."""
    added = new_member(member)
    _change(config, MembershipChange.ADD_LEARNER, added.id, timeout, "is a learner now", added.encode())


@cluster_app.command()
def promote(config: ConfigOption, member_id: MemberIdArgument, timeout: MembershipTimeout = TIMEOUT_S) -> None:
    """Give a learner that has caught up its vote; with the configuration of the leader."""
    _change(config, MembershipChange.PROMOTE, member_id, timeout, "is a voter now")


@cluster_app.command()
def demote(config: ConfigOption, member_id: MemberIdArgument, timeout: MembershipTimeout = TIMEOUT_S) -> None:
    """Make a voter a learner; with the configuration of the leader."""
    _change(config, MembershipChange.DEMOTE, member_id, timeout, "is a learner now")


@cluster_app.command()
def remove(config: ConfigOption, member_id: MemberIdArgument, timeout: MembershipTimeout = TIMEOUT_S) -> None:
    """Take a member out of the cluster, its node ends by itself; with the configuration of the leader."""
    _change(config, MembershipChange.REMOVE, member_id, timeout, "is in the cluster no longer")


def _change(
    config: Path, change: MembershipChange, member_id: int, timeout_s: float, outcome: str, member: str = ""
) -> None:
    position = tools.request_membership(load_config(config), change, member_id, member, timeout_s)
    _show(f"member {member_id} {outcome} (committed at position {position:,})")


@cluster_app.command()
def snapshot(config: ConfigOption, timeout: TimeoutOption = tools.SNAPSHOT_TIMEOUT_S) -> None:
    """Take a snapshot on every node; with the configuration of the leader."""
    tools.request_snapshot(load_config(config), timeout)
    _show("snapshot taken")


@cluster_app.command()
def suspend(config: ConfigOption, timeout: TimeoutOption = tools.SUSPEND_TIMEOUT_S) -> None:
    """Take no messages and fire no timers until `resume`; sessions stay open. With the configuration of the leader."""
    tools.request_suspend(load_config(config), timeout)
    _show("cluster suspended")


@cluster_app.command()
def resume(config: ConfigOption, timeout: TimeoutOption = tools.SUSPEND_TIMEOUT_S) -> None:
    """Go on after `suspend`; with the configuration of the leader."""
    tools.request_resume(load_config(config), timeout)
    _show("cluster goes on")


@cluster_app.command()
def transfer(
    config: ConfigOption,
    to: Annotated[int | None, typer.Option("--to", help="id of the member that is to lead next")] = None,
    timeout: TimeoutOption = tools.TRANSFER_TIMEOUT_S,
) -> None:
    """Hand the leadership over to another member; with the configuration of the leader."""
    loaded = load_config(config)
    tools.request_transfer(loaded, to, timeout)
    _show(f"member {loaded.node.member_id} handed over")


@cluster_app.command()
def trust(
    config: ConfigOption,
    accepted: Annotated[
        bool, typer.Option("--accept-loss", help="yes, messages that were acknowledged may be lost")
    ] = False,
) -> None:
    """Let a stopped member vote with what is left of its log, when nobody can give back the rest.

    For a cluster in which so many members lost something that none can be elected. Choose the member with the longest
    log. Whatever it lacks is lost, although it may have been acknowledged, and executed by services.
    """
    if not accepted:
        raise ConfigurationError("trust: may lose acknowledged messages; say --accept-loss to do it all the same")
    from cluster.node import accept_loss

    _show(accept_loss.accept_loss(load_config(config)))


@cluster_app.command()
def skip(
    config: ConfigOption,
    position: Annotated[int, typer.Argument(min=1, help="where the record ends, as the error log says")],
    timeout: TimeoutOption = tools.SKIP_TIMEOUT_S,
) -> None:
    """Leave a record of the log out, on all members, at which services fail; also while nothing runs.

    With the configuration of the leader, whose service stands still at the record. Where no node runs: with those of
    all members, one after the other; then start them.
    """
    from cluster.node import skipping

    _show(skipping.skip(load_config(config), position, timeout))


@cluster_app.command()
def skipped(config: ConfigOption, as_json: JsonOption = False) -> None:
    """Records of the log that are left out, as one node knows them, running or not."""
    from cluster.node import skipping

    found, wishes = skipping.list_skipped(load_config(config))
    if as_json:
        rows = [{**one._asdict(), "text": one.text.decode("utf-8", "replace")} for one in found]
        _print_json({"skipped": rows, "asked_for": wishes})
        return
    table = _table("position", "left out by the record at", "why")
    for one in found:
        table.add_row(f"{one.log_position:,}", f"{one.skip_position:,}", one.text.decode("utf-8", "replace"))
    for position in wishes:
        table.add_row(f"{position:,}", "-", "asked for, with `ordo cluster skip`")
    _show(table)


@cluster_app.command()
def shutdown(
    config: ConfigOption,
    no_snapshot: Annotated[bool, typer.Option("--no-snapshot", help="end without taking a snapshot first")] = False,
    timeout: TimeoutOption = tools.SNAPSHOT_TIMEOUT_S,
) -> None:
    """End every node in good order, after a snapshot; with the configuration of the leader."""
    tools.request_shutdown(load_config(config), with_snapshot=not no_snapshot, timeout_s=timeout)
    _show("cluster ended")


@cluster_app.command()
def new_token(
    principal: Annotated[str, typer.Argument(help="name that the service and the log know the client by")],
    from_stdin: Annotated[
        bool, typer.Option("--from-stdin", help="hash the first line of the standard input instead of a new token")
    ] = False,
) -> None:
    """Make a token for clients: its table for every member's node.toml on the standard output, the token itself, which
    is kept nowhere, on the standard error output."""
    token = sys.stdin.readline().rstrip("\r\n") if from_stdin else tokens.new_token()
    hashed = tokens.hash_token(token)
    print(f'[[tokens]]\nprincipal = {json.dumps(principal)}\nhash = "{hashed}"\nroles = ["ingress", "queries"]')
    if not from_stdin:
        print(f"token: {token}", file=sys.stderr)
