"""`ordo apps`: instances of applications beside a running cluster, from anywhere (docs/APPLICATIONS.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ordo.consumers.consumer_commands import AsJson, Egress, Endpoints, open_orders


def apps(
    endpoints: Endpoints,
    token_file: Annotated[Path | None, typer.Option(help="file with a token of the role consumers")] = None,
    egress: Egress = "",
    as_json: AsJson = False,
) -> None:
    """Show every instance of an application: how far it is, how far behind, which code it runs, what it has written."""
    from ordo.cluster.commands.printing import print_json, show

    with open_orders(endpoints, token_file, egress, "ordo apps") as orders:
        found = orders.list_instances()
    if as_json:
        print_json(found)
    else:
        show(make_apps_table(found))


def make_apps_table(found: list[dict[str, Any]]) -> Any:
    """Return a line for each instance, as `ConsumerOrders.list_instances` has them."""
    from ordo.cluster.commands.printing import make_table

    names = ("group", "instance", "", "version", "position", "lag", "outputs", "waiting", "seen")
    table = make_table(*names, padding=(0, 1, 0, 0))
    for one in found:
        waiting = max(0, one["outputs_made"] - one["outputs_executed"])
        counts = (one[name] for name in ("version", "position", "lag", "outputs_executed"))
        table.add_row(
            one["group"],
            one["instance"] or f"session {one['session']}",
            _describe_part(one),
            *map(str, counts),
            str(waiting),
            f"{one['reported_ms'] / 1000:.1f} s",
        )
    return table


def _describe_part(one: dict[str, Any]) -> str:
    """Return what an instance does in its group, and whether some of what it wrote was refused."""
    part = "compares" if one["canary"] else "writes" if one["active"] else "follows"
    return f"{part}, refused" if one.get("refused") else part
