"""The `ordo` command.

Exit status: 0 done; 1 it failed; 2 the command line or the configuration is wrong. Errors are one line on stderr.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from archive.cli import archive_app
from cluster.node.cli import cluster_app
from cluster.node.cli_look import errors, stat
from ordo.bench.cli import bench_app
from ordo.init import PORT_DEFAULT, PORT_MAX, Profile, next_steps, write_cluster
from runtime.errors import ConfigurationError, OrdoError
from runtime.logging import configure_logging
from runtime.version import VERSION
from sequencer.cli import log
from transport.cli import backlog, driver_app, log_inspect, loss, streams

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
PR_SET_PDEATHSIG = 1

app = typer.Typer(
    name="ordo",
    help="Ordo, a sequencer: one total order over a replicated log, delivered to your service on every node.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(cluster_app)
app.add_typer(archive_app)
app.add_typer(bench_app)
app.add_typer(driver_app)
app.command()(stat)
app.command()(errors)
for command in (streams, backlog, loss, log_inspect, log):
    app.command()(command)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"ordo {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    """Ordo, a sequencer: one total order over a replicated log, delivered to your service on every node."""


@app.command()
def node(
    config: Annotated[Path, typer.Option(help="node.toml of this member")],
    service: Annotated[str | None, typer.Option(help="the service, as module:Class; overrides [service] class")] = None,
    rejoin: Annotated[
        bool, typer.Option("--rejoin", help="this member's folder was lost: it takes no part until it has it again")
    ] = False,
    check_log: Annotated[
        bool, typer.Option("--check-log", help="check all of the log first, not only what is behind the snapshot")
    ] = False,
    die_with_parent: Annotated[
        bool, typer.Option("--die-with-parent", help="stop when the process that started this one is gone")
    ] = False,
) -> None:
    """Run one node of a cluster until SIGTERM or SIGINT."""
    configure_logging()
    if die_with_parent:
        _die_with_parent(os.getppid())
    from cluster.node.config import load_config

    loaded = load_config(config)
    asked = {name: True for name, is_asked in (("rejoin", rejoin), ("check_log", check_log)) if is_asked}
    loaded = loaded.model_copy(update={"node": loaded.node.model_copy(update=asked)})
    name = service or loaded.service.class_
    if name is None:
        raise ConfigurationError("service: missing; give --service module:Class, or class in the [service] table")
    from cluster.node.node import run_node

    raise typer.Exit(run_node(loaded, name))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="folder for the files")] = Path("."),
    host: Annotated[
        list[str] | None, typer.Option(help="address of a member; once for each, in order of their ids")
    ] = None,
    members: Annotated[int | None, typer.Option(help="how many members, on this machine; 3 without --host")] = None,
    port: Annotated[
        int,
        typer.Option(min=1, max=PORT_MAX, help="first of a member's five ports; on one machine others are 10 apart"),
    ] = PORT_DEFAULT,
    profile: Annotated[
        Profile, typer.Option(help="auto: development on one machine, production on several hosts")
    ] = Profile.AUTO,
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of the members' data folders; /var/lib/ordo on hosts, else ./data")
    ] = None,
    service: Annotated[str | None, typer.Option(help="the service, as module:Class")] = None,
) -> None:
    """Write a configuration for each member of a new cluster; on one machine a service and a client to try, too."""
    if host and members is not None:
        raise ConfigurationError("--members: is for one machine; with --host there are as many members as hosts")
    hosts = host or []
    written = write_cluster(
        folder,
        hosts=hosts,
        member_count=3 if members is None else members,
        port=port,
        profile=profile,
        data_dir=data_dir,
        service=service,
    )
    for line in next_steps(folder, written, hosts):
        print(line)


@app.command()
def dev(
    service: Annotated[str, typer.Option(help="the service, as module:Class")],
    members: Annotated[int, typer.Option(help="how many members")] = 3,
    port: Annotated[
        int, typer.Option(min=1, max=PORT_MAX, help="first port of member 0; those of the others are 10 apart")
    ] = PORT_DEFAULT,
    data: Annotated[
        Path | None, typer.Option(help="folder that keeps data and logs; without it they go at the end")
    ] = None,
    reload: Annotated[bool, typer.Option(help="start again when Python files below this folder change")] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="begin with an empty log at every reload")] = False,
) -> None:
    """Run a cluster here in the foreground, for development; it starts again when the code changes."""
    from ordo.dev import run_dev

    run_dev(service, member_count=members, port=port, data=data, is_watching=reload, is_fresh=fresh)


@app.command()
def demo(
    itch: Annotated[Path | None, typer.Option(help="a NASDAQ TotalView-ITCH 5.0 file to sequence")] = None,
    print_book: Annotated[bool, typer.Option("--print-book", help="print the final order book")] = False,
    orders: Annotated[int, typer.Option(min=1, help="how many generated orders, without --itch")] = 1_000_000,
    keep: Annotated[bool, typer.Option("--keep", help="keep the nodes' data and logs")] = False,
    kill_leader: Annotated[bool, typer.Option("--kill-leader", help="kill the leader half way")] = False,
) -> None:
    """Run three nodes here, sequence an order flow through a matching engine, and show the result."""
    run_demo = _support("ordo.demo", "run_demo")
    run_demo(itch=itch, print_book=print_book, orders=orders, keep=keep, kill_leader=kill_leader)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def pipeline(context: typer.Context) -> None:
    """Data frames and jobs over recordings, on Spark."""
    pipeline_app = _support("pipeline.cli", "app", "pip install 'ordo-sequencer[pipeline]'")
    status = pipeline_app(context.args, prog_name="ordo pipeline", standalone_mode=False)
    raise typer.Exit(status if isinstance(status, int) else 0)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its status; every error becomes its line here."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Like `main`, but returns the exit status."""
    usage_error: Any = typer.BadParameter.__base__
    try:
        status = app(arguments, prog_name="ordo", standalone_mode=False)
    except usage_error as error:
        return _fail(f"{error.format_message()} (see `ordo --help`)", EXIT_USAGE)
    except ConfigurationError as error:
        return _fail(error.message, EXIT_USAGE)
    except OrdoError as error:
        return _fail(error.message, EXIT_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_FAILED
    return status if isinstance(status, int) else 0


def _fail(message: str, status: int) -> int:
    for line in message.splitlines():
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"ordo: {line}", markup=False)
    return status


def _support(module: str, name: str, remedy: str = "run this from a checkout after `make build`") -> Any:
    """Something of the demo or the pipeline, which stand above the cluster and are loaded by name.

    Raises ConfigurationError, with what to do, when a package it needs is not installed.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is not installed: {remedy}") from error


def _die_with_parent(parent_pid: int) -> None:
    """Has the kernel send SIGTERM when the parent ends; ends at once if it did before that could be asked for."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        raise typer.Exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
