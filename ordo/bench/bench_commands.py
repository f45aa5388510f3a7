"""`ordo bench ...`: measures Ordo on this machine."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.io.durable_files import why_not_writable

bench_app = typer.Typer(name="bench", help="Measure Ordo on this machine.", no_args_is_help=True)
JsonOption = Annotated[Path | None, typer.Option("--json", help="write the figures to this file as well")]
QuickOption = Annotated[bool, typer.Option("--quick", help="fewer samples: to see that it runs, not to quote")]


@bench_app.command()
def rtt(json: JsonOption = None, quick: QuickOption = False) -> None:
    """Round trips, one outstanding, beside the raw floor of this machine."""
    _run("rtt", json, quick)


@bench_app.command()
def throughput(json: JsonOption = None, quick: QuickOption = False) -> None:
    """Messages a second with a window of requests on the way."""
    _run("throughput", json, quick)


@bench_app.command()
def costs(json: JsonOption = None, quick: QuickOption = False) -> None:
    """Processor time and system calls of one message, by role; system calls need strace."""
    _run("costs", json, quick)


@bench_app.command()
def encryption(json: JsonOption = None, quick: QuickOption = False) -> None:
    """Throughput and round trips of a plain and of an encrypted cluster in turn, and the difference."""
    _run("encryption", json, quick)


@bench_app.command()
def requests(json: JsonOption = None, quick: QuickOption = False) -> None:
    """Round trips and throughput of requests and of messages with types beside raw ones, by the Python client."""
    _run("requests", json, quick)


@bench_app.command()
def messages(json: JsonOption = None, quick: QuickOption = False) -> None:
    """Messages with types, written and read, beside struct, msgspec and protobuf where they are installed."""
    _run("messages", json, quick)


@bench_app.command()
def snapshot(json: JsonOption = None, quick: QuickOption = False) -> None:
    """How long a service with 1 GiB of state stands still for its snapshot, forked and not."""
    _run("snapshot", json, quick)


@bench_app.command()
def top(json: JsonOption = None, quick: QuickOption = False) -> None:
    """Where the time of a request goes, step by step, as a waterfall; needs ordo-sequencer[otel]."""
    _run("top", json, quick)


@bench_app.command("all")
def everything(json: JsonOption = None, quick: QuickOption = False) -> None:
    """Everything, within about five minutes."""
    _run("all", json, quick)


def _run(what: str, json: Path | None, quick: bool) -> None:
    if json is not None and (problem := why_not_writable(json)):
        raise ConfigurationError(f"--json {json}: {problem}; give a file in an existing folder")
    try:
        suite: Any = importlib.import_module("ordo.bench.suite")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed; run this from a checkout after `make build`"
        ) from error
    suite.run_suite(what, json, quick=quick)
