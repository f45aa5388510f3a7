"""`ordo stat` and `ordo errors`: what every node shows of itself in shared memory."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from ordo.cluster.monitoring.counters import open_cnc, read_counters
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.component_errors import read_component_errors
from ordo.runtime.errors import ConfigurationError, StorageMissingError
from ordo.runtime.native.counters import CounterDescriptor
from ordo.runtime.native.error_log import ErrorObservation, read_errors
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.reporting.output import printable
from ordo.runtime.reporting.terminal import OutputTable, output_console

ConfigOption = Annotated[Path | None, typer.Option(help="node.toml of a member that runs on this machine")]
DirOption = Annotated[Path | None, typer.Option("--dir", help="folder of a driver, instead of --config")]


def stat(
    config: ConfigOption = None,
    directory: DirOption = None,
    counter_type: Annotated[int | None, typer.Option("--type", help="only counters of this type id")] = None,
    watch: Annotated[float | None, typer.Option(min=0.1, help="show again after this many seconds, until ^C")] = None,
) -> None:
    """List the counters of a node: id, type, value and label."""
    aeron_dir = driver_folder(config, directory)
    console = output_console()
    if watch is None or not console.is_terminal:
        _print_plain(console, read_counters(aeron_dir), counter_type)
        return
    before: dict[int, int] = {}
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            counters = read_counters(aeron_dir)
            live.update(_table(counters, counter_type, before, watch), refresh=True)
            before = {counter.counter_id: counter.value for counter in counters}
            time.sleep(watch)


def doctor(
    config: Annotated[Path, typer.Option(help="node.toml of the member that is to run on this machine")],
    reach: Annotated[
        float,
        typer.Option(min=0.0, max=3600.0, help="seconds to wait for the other members' doctors and try all ports"),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Check this machine for a node.

    Shared memory, disk and its sync time, sockets, limits, names, ports, clock, and the ways to the other members.

    With --reach, given on all members' machines at the same time, every port is tried both ways before the first start.

    Exit status: 0 a node works here, with warnings or without; 1 it will not.
    """
    from ordo.cluster.checks.doctor import Verdict, examine

    if reach:
        others = "`ordo doctor --reach` on the machines of the other members"
        print(f"waiting up to {reach:g} s for {others}", file=sys.stderr, flush=True)
    findings = examine(load_config(config), reach)
    if as_json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            remedy = f": {finding.remedy}" if finding.remedy else ""
            print(f"{finding.verdict:4}  {finding.subject:14}  {finding.text}{remedy}")
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        raise typer.Exit(1)


def errors(config: ConfigOption = None, directory: DirOption = None) -> None:
    """List the distinct errors a node and its service have met: how often, first and last time, and what."""
    aeron_dir = driver_folder(config, directory)
    console = output_console()
    found = 0
    with contextlib.suppress(StorageMissingError), open_cnc(aeron_dir) as cnc:
        found += _print_errors(console, "driver", read_errors(cnc.error_log))
    if config is not None:
        for mark_file in sorted(load_config(config).cluster_dir.glob("cluster-mark*.dat")):
            observations = read_component_errors(FileMemoryProvider(), str(mark_file))
            found += _print_errors(console, mark_file.stem, observations)
    if not found:
        console.print("no errors")


def _print_errors(console: Console, source: str, observations: list[ErrorObservation]) -> int:
    for one in observations:
        head = f"{source}: {one.observation_count} times, first {_time(one.first_ms)}, last {_time(one.last_ms)}"
        console.print(f"{head}\n  " + "\n  ".join(one.text.splitlines()), highlight=False, markup=False, soft_wrap=True)
    return len(observations)


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _print_plain(console: Console, counters: list[CounterDescriptor], counter_type: int | None) -> None:
    for counter in counters:
        if counter_type in (None, counter.type_id):
            line = f"{counter.counter_id:5} {counter.type_id:5} {counter.value:>22,} {printable(counter.label)}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(
    counters: list[CounterDescriptor], counter_type: int | None, before: dict[int, int], interval_s: float
) -> OutputTable:
    table = OutputTable("id", "type", "value", "a second", "label", box=None)
    for counter in counters:
        if counter_type in (None, counter.type_id):
            grown = counter.value - before.get(counter.counter_id, counter.value)
            rate = f"{grown / interval_s:,.0f}" if grown else ""
            table.add_row(str(counter.counter_id), str(counter.type_id), f"{counter.value:,}", rate, counter.label)
    return table


def driver_folder(config: Path | None, directory: Path | None) -> Path:
    """Return the driver's folder, from exactly one of both. Raises ConfigurationError."""
    if (config is None) == (directory is None):
        raise ConfigurationError("give either --config node.toml or --dir with a driver's folder")
    return directory if directory is not None else load_config(config).aeron_dir  # type: ignore[arg-type]
