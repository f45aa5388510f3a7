"""`ordo cluster ...`: a running node and its cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cluster import tools
from cluster.cli_output import output_console
from cluster.config import load_config

cluster_app = typer.Typer(name="cluster", help="Look into a running cluster, and control it.", no_args_is_help=True)
ConfigOption = Annotated[Path, typer.Option(help="node.toml of a member that runs on this machine")]


@cluster_app.command()
def status(config: ConfigOption) -> None:
    """State, role, term and positions of one node."""
    table = Table(show_header=False, box=None)
    for name, value in tools.node_status(load_config(config))._asdict().items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value)
    output_console().print(table)


@cluster_app.command()
def members(config: ConfigOption) -> None:
    """The members of the cluster and their endpoints, from the configuration."""
    loaded = load_config(config)
    table = Table("id", "ingress", "consensus", "log", "catchup", "archive", "this node")
    for member in loaded.member_list:
        endpoints = (member.ingress, member.consensus, member.log, member.catchup, member.archive)
        table.add_row(str(member.id), *endpoints, "*" if member.id == loaded.node.member_id else "")
    output_console().print(table)


@cluster_app.command()
def snapshot(
    config: ConfigOption,
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds to wait")] = tools.SNAPSHOT_TIMEOUT_S,
) -> None:
    """Take a snapshot on every node; with the configuration of the leader."""
    tools.request_snapshot(load_config(config), timeout)
    output_console().print("snapshot taken")


@cluster_app.command()
def transfer(
    config: ConfigOption,
    to: Annotated[int | None, typer.Option("--to", help="id of the member that is to lead next")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds to wait")] = tools.TRANSFER_TIMEOUT_S,
) -> None:
    """Hand the leadership over to another member; with the configuration of the leader."""
    loaded = load_config(config)
    tools.request_transfer(loaded, to, timeout)
    output_console().print(f"member {loaded.node.member_id} handed over")


@cluster_app.command()
def shutdown(
    config: ConfigOption,
    no_snapshot: Annotated[bool, typer.Option("--no-snapshot", help="end without taking a snapshot first")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds to wait")] = tools.SNAPSHOT_TIMEOUT_S,
) -> None:
    """End every node in good order, after a snapshot; with the configuration of the leader."""
    tools.request_shutdown(load_config(config), with_snapshot=not no_snapshot, timeout_s=timeout)
    output_console().print("cluster ended")
