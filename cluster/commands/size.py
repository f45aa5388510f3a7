"""`ordo size`: what a load needs of each member's machine (docs/SIZING.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ordo.cluster.checks.sizing import Load, needs_of
from ordo.cluster.commands.printing import make_table, print_json, show
from ordo.cluster.settings.config import load_config
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.config import parse_size_bytes


def size(
    config: Annotated[Path, typer.Option(help="node.toml of a member")],
    requests: Annotated[float, typer.Option(min=0, help="requests of all clients in a second")],
    length: Annotated[str, typer.Option(help="of a request, as 256 or 4k")],
    answer: Annotated[str, typer.Option(help="length of an answer")] = "0",
    days: Annotated[float, typer.Option(min=0, help="so long log is kept; by default as [retention] says")] = 0.0,
    state: Annotated[str, typer.Option(help="memory that the service's state takes, as 500m")] = "0",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Compute what one member needs for a load: disk, shared memory, memory, network, processor."""
    load = Load(requests, _bytes("--length", length), _bytes("--answer", answer), days, _bytes("--state", state))
    needs = needs_of(load_config(config), load)
    if as_json:
        print_json([need._asdict() for need in needs])
        return
    table = make_table("what", "how much", "of what it is made")
    for need in needs:
        table.add_row(need.subject, _shown(need.amount, need.unit), need.reason)
    show(table)


def _bytes(option: str, text: str) -> int:
    try:
        return parse_size_bytes(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} {text}: {error}") from None


def _shown(amount: float, unit: str) -> str:
    if unit == "cores":
        return f"{amount:.2f} cores"
    for prefix, size_bytes in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= size_bytes:
            return f"{amount / size_bytes:,.1f} {prefix}B{unit.removeprefix('bytes')}"
    return f"{amount:.0f} {unit}"
