"""`ordo apps`: instances of applications beside a running cluster, from anywhere (docs/APPLICATIONS.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ordo.cluster.wire.sessions.instance_codec import REFUSED_EXACT_MAX
from ordo.consumers.consumer_commands import AsJson, Egress, Endpoints, open_orders


def apps(
    endpoints: Endpoints,
    token_file: Annotated[Path | None, typer.Option(help="file with a token of the role consumers")] = None,
    egress: Egress = "",
    as_json: AsJson = False,
) -> None:
    """Show every instance of an application: its position, its lag, its code version, and what it has written."""
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

    has_refused = any(one.get("refused") for one in found)
    names = ["group", "instance", "", "version", "position", "lag", "outputs", "waiting", "seen"]
    names[7:7] = ["refused"] * has_refused
    table = make_table(*names, padding=(0, 1, 0, 0))
    for one in found:
        waiting = max(0, one["outputs_made"] - one["outputs_executed"])
        counts = [one[name] for name in ("version", "position", "lag", "outputs_executed")]
        table.add_row(
            one["group"],
            one["instance"] or f"session {one['session']}",
            "compares" if one["canary"] else "writes" if one["active"] else "follows",
            *map(str, counts),
            *[_describe_refused(one)] * has_refused,
            str(waiting),
            f"{one['reported_ms'] / 1000:.1f} s",
        )
    return table


def _describe_refused(one: dict[str, Any]) -> str:
    """Return how many of an instance's outputs were refused.

    What an earlier release reports has no count, and in a log of an earlier protocol level there may be more.
    """
    count = one.get("outputs_refused", 0)
    is_exact = one.get("refused_exact", count <= REFUSED_EXACT_MAX and bool(count) == bool(one.get("refused")))
    if one.get("refused") and not count and not is_exact:
        return "some"
    return str(count) if is_exact else f"{count}+"
