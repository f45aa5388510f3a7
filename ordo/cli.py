"""The `ordo` command.

Exit status: 0 done; 1 it failed; 2 the command line or the configuration is wrong; 3 no member leads; 4 the credentials
do not suffice; 5 no answer in time, so that an order may have been carried out or not; 70 the service raised; 74 what
it printed could not be written; 130 interrupted; 141 the reader of its output has gone. With `ordo pipeline` 1 is
damage or a difference, 6 that it could not be done, 7 that a library is not installed. Errors are one line on stderr.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from copy import copy
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo

from ordo.runtime.errors import (
    ArchiveError,
    ArchiveTimeoutError,
    ConfigurationError,
    NoQuorumError,
    NotPermittedError,
    OrdoError,
    OutcomeUnknownError,
    ServiceError,
)
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE, leave
from ordo.runtime.reporting.output import (
    EXIT_OUTPUT_LOST,
    EXIT_PIPE_CLOSED,
    OutputLost,
    OutputStream,
    escaped_output,
    open_missing_descriptors,
)
from ordo.runtime.version import VERSION

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NO_QUORUM = 3
EXIT_NOT_PERMITTED = 4
EXIT_UNKNOWN = 5
EXIT_NOT_DONE = 6
EXIT_NO_LIBRARY = 7
EXTRAS = {"pyarrow": "local", "duckdb": "local", "polars": "local", "pandas": "local", "matplotlib": "local"}
"""Libraries that modules of commands import at their top, and the extra that brings each."""
EXIT_INTERRUPTED = 130
LINE_LENGTH_MAX = 60
"""The length of a command's line in the list of all."""
NO_ARGUMENTS = "NoArgsIsHelpError"
"""What typer raises for a group of commands of which none was given."""
COMPLETE_VARIABLE = "_ORDO_COMPLETE"
"""The shell sets it when it asks for what may follow."""


class Elsewhere(NamedTuple):
    """A command of another module, and its line in the list of all commands."""

    place: str
    line: str


ELSEWHERE = {
    "cluster": Elsewhere(
        "ordo.cluster.commands.cluster_commands:cluster_app", "Look into a running cluster, and control it."
    ),
    "archive": Elsewhere(
        "ordo.archive.inspection.archive_commands:archive_app", "Look into the recordings of an archive, or serve one."
    ),
    "bench": Elsewhere("ordo.bench.bench_commands:bench_app", "Measure Ordo on this machine."),
    "driver": Elsewhere(
        "ordo.transport.inspection.driver_commands:driver_app", "Run a media driver that many processes share."
    ),
    "keys": Elsewhere("ordo.transport.secure.key_commands:keys_app", "Make and trust keys, which encrypt datagrams."),
    "init": Elsewhere("ordo.new_commands:init", "Write the configuration of a new cluster."),
    "dev": Elsewhere("ordo.new_commands:dev", "Run a cluster here in the foreground, for development."),
    "doctor": Elsewhere("ordo.cluster.commands.look:doctor", "Check this machine for a node."),
    "size": Elsewhere("ordo.cluster.commands.size:size", "Compute what one member needs for a load."),
    "top": Elsewhere("ordo.cluster.commands.top:top", "Watch members: roles, lags, rates, sessions, disks."),
    "stat": Elsewhere("ordo.cluster.commands.look:stat", "The counters of a node."),
    "errors": Elsewhere("ordo.cluster.commands.look:errors", "The errors that a node and its service have met."),
    "streams": Elsewhere(
        "ordo.transport.inspection.driver_commands:streams", "Every stream of a driver, with its counters."
    ),
    "backlog": Elsewhere(
        "ordo.transport.inspection.driver_commands:backlog", "How far publishers and subscribers are behind."
    ),
    "loss": Elsewhere("ordo.transport.inspection.driver_commands:loss", "What a driver has lost, and was sent again."),
    "log-inspect": Elsewhere(
        "ordo.transport.inspection.driver_commands:log_inspect", "The metadata, tails and frames of a log buffer."
    ),
    "trace": Elsewhere("ordo.transport.inspection.driver_commands:trace", "Print what a running driver does."),
    "log": Elsewhere("ordo.follow.log_commands:log", "Print the committed log, from any machine."),
    "debug": Elsewhere(
        "ordo.debugging.commands.debug_commands:debug_app", "A service at any record of its log, in a debugger."
    ),
    "app": Elsewhere("ordo.applications.commands.instance_commands:app_app", "Run an instance of an application."),
    "apps": Elsewhere(
        "ordo.applications.commands.group_commands:apps", "Show the instances of applications, and their lag."
    ),
    "consumers": Elsewhere(
        "ordo.consumers.consumer_commands:consumers_app", "Look at durable consumers, and move them."
    ),
    "gateway": Elsewhere("ordo.gateway.gateway_commands:gateway", "Serve gRPC in front of a cluster."),
    "kafka": Elsewhere("ordo.gateway.kafka.kafka_commands:kafka", "Serve Kafka's protocol in front of a cluster."),
    "webhook": Elsewhere("ordo.gateway.webhooks.webhook_commands:webhook", "Post each message of the log to a URL."),
    "lake": Elsewhere("ordo.pipeline.lake.lake_commands:lake_app", "The log in Delta and Iceberg tables, as it grows."),
    "deploy": Elsewhere("ordo.deploy_commands:deploy_app", "Run clusters in containers."),
    "backup": Elsewhere("ordo.backup.backup_commands:backup_app", "Keep a copy of a cluster on another machine."),
    "standby": Elsewhere(
        "ordo.standby.standby_commands:standby_app", "Follow a cluster from another place, and take over from it."
    ),
    "schema": Elsewhere("ordo.schema_commands:schema_app", "Messages with types as SBE schemas, and back."),
    "restore": Elsewhere("ordo.backup.backup_commands:restore", "Make the folders of a new cluster from a backup."),
}
"""Commands of other modules, which are imported when the command is used: a start brings in no more than it needs, and
the list of all commands brings in none of them."""

FURTHER = {"cluster": {"recover": "ordo.salvage.recover_commands:recover"}}
"""Keyed by group: the commands that come from a room above that of the group."""


class Commands(TyperGroup):
    """The commands of this module, and those of ELSEWHERE."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*ELSEWHERE, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = ELSEWHERE.get(cmd_name)
        return super().get_command(ctx, cmd_name) if found is None else _load(cmd_name, found.place)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, found.line) for name, found in ELSEWHERE.items()]
        here: list[tuple[str, Any]] = [(name, super(Commands, self).get_command(ctx, name)) for name in self.commands]
        rows += [(name, command.get_short_help_str(LINE_LENGTH_MAX)) for name, command in here]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Unmade(Mapping[str, Any]):
    """The commands of a group by name, each made when it is asked for: making all of a large group takes 10 ms."""

    def __init__(self, group: typer.Typer, subgroups: Mapping[str, Any]) -> None:
        infos = group.registered_commands
        self._infos = {one.name or typer.main.get_command_name(_name_of(one.callback)): one for one in infos}
        self._made = dict(subgroups)
        self._names = (*self._infos, *subgroups)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = typer.main.get_command_from_info(
                command_info=self._infos[name], pretty_exceptions_short=True, rich_markup_mode=None
            )
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _name_of(callback: Any) -> str:
    return str(callback.__name__)


def _load(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        single.command(name)(found)
        return typer.main.get_command(single)
    found, without = copy(found), copy(found)
    found.registered_commands = [*found.registered_commands, *_further(name)]
    without.registered_commands = []
    without.rich_markup_mode = None  # help in plain text, which is there in half the time
    group: Any = typer.main.get_group(without)
    group.commands = Unmade(found, group.commands)
    return group


def _further(group: str) -> list[CommandInfo]:
    """Return the commands that are added to a group."""
    added = typer.Typer()
    for name, place in FURTHER.get(group, {}).items():
        module, _, attribute = place.partition(":")
        added.command(name)(getattr(importlib.import_module(module), attribute))
    return added.registered_commands


app = typer.Typer(
    name="ordo",
    cls=Commands,
    help="Ordo, a sequencer: one total order over a replicated log, delivered to your service on every node.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
    service: Annotated[
        list[str] | None,
        typer.Option(help="the service, as module:Class; overrides [service] class; several times: services 0, 1, ..."),
    ] = None,
    rejoin: Annotated[
        bool, typer.Option("--rejoin", help="this member's folder was lost: it takes no part until it has it again")
    ] = False,
    check_log: Annotated[
        bool, typer.Option("--check-log", help="check all of the log first, not only what is after the snapshot")
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(help="encrypt with this key; overrides [encryption] key_file")
    ] = None,
    trusted_file: Annotated[
        Path | None, typer.Option(help="the keys of those who may take part; overrides [encryption] trusted_file")
    ] = None,
    die_with_parent: Annotated[
        bool, typer.Option("--die-with-parent", help="stop when the process that started this one is gone")
    ] = False,
) -> None:
    """Run one node of a cluster until SIGTERM or SIGINT."""
    from ordo.runtime import children
    from ordo.runtime.reporting.logging import configure_program

    configure_program()
    if die_with_parent and not children.die_with_parent(os.getppid(), signal.SIGTERM):
        raise typer.Exit(EXIT_FAILED)
    from ordo.runtime.settings.config import without_plugins

    with without_plugins():
        from ordo.cluster.settings.config import load_config
        from ordo.cluster.settings.log_settings import apply_log_settings, watch_log_settings

        load = partial(load_config, config, key_file, trusted_file)
        loaded = load()
    apply_log_settings(loaded)
    watch_log_settings(load)
    asked = {name: True for name, is_asked in (("rejoin", rejoin), ("check_log", check_log)) if is_asked}
    loaded = loaded.model_copy(update={"node": loaded.node.model_copy(update=asked)})
    from ordo.cluster.node.node import Node, run_node

    copies = loaded.snapshot.by == "standby"  # most do not, and do without what copies snapshots
    raise typer.Exit(
        run_node(loaded, service or (), _support("ordo.standby.copying", "choose_node") if copies else lambda _: Node)
    )


class Shell(StrEnum):
    """The shells whose Tab key can complete commands."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="which shell")]) -> None:
    """Print a script with which the shell completes commands and options: eval "$(ordo completion bash)"."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="ordo", complete_var=COMPLETE_VARIABLE, shell=shell.value))


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
    """Read recordings as data frames, and run jobs over them, on Spark."""
    try:
        pipeline_app = _support("ordo.pipeline.pipeline_commands", "app", "pip install 'ordo-sequencer[pipeline]'")
    except ConfigurationError as error:
        raise typer.Exit(_fail(error.message, EXIT_NO_LIBRARY)) from error
    try:
        status = pipeline_app(context.args, prog_name="ordo pipeline", standalone_mode=False)
    except OrdoError as error:
        status = _pipeline_status(error)
        if status is None:
            raise
        _fail(error.message, status)
    except OSError as error:  # 1, the status of what nobody expected, stands for damage here
        status = _fail(f"{error.filename or 'input or output'}: {error.strerror or error}", EXIT_NOT_DONE)
    raise typer.Exit(status if isinstance(status, int) else 0)


def _pipeline_status(error: OrdoError) -> int | None:
    """Return the exit status of `ordo pipeline`: 1 for damage and differences, None for the usual one.

    1 is for damage and differences. None: as elsewhere.
    """
    from ordo.pipeline.decoding.errors import CorruptRecordingError, MissingLibraryError, PipelineError

    if isinstance(error, MissingLibraryError):
        return EXIT_NO_LIBRARY
    is_finding = isinstance(error, CorruptRecordingError)
    return EXIT_NOT_DONE if isinstance(error, PipelineError) and not is_finding else None


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status; every error becomes its line here."""
    open_missing_descriptors()
    leave(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Like `main`, but returns the exit status."""
    with escaped_output() as output:
        try:
            status = _run(arguments)
            output.flush()
        except OutputLost:
            return _tell_output_lost(output)
        return status if output.failure is None else _tell_output_lost(output)


def _run(arguments: list[str]) -> int:
    usage_error: Any = typer.BadParameter.__base__
    if COMPLETE_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        status = app(arguments, prog_name="ordo", standalone_mode=False)
    except usage_error as error:
        if type(error).__name__ == NO_ARGUMENTS:
            print(error.format_message().rstrip())  # the help
            return EXIT_USAGE
        message = " ".join(error.format_message().split())  # choices come with lines of their own
        return _fail(f"{message} (see `ordo --help`)", EXIT_USAGE)
    except ConfigurationError as error:
        return _fail(error.message, EXIT_USAGE)
    except OrdoError as error:
        return _fail(error.message, _exit_status(error))
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        return _fail(
            f"{library} is not installed; run: pip install 'ordo-sequencer[{EXTRAS[library]}]'", EXIT_NO_LIBRARY
        )
    except typer.Abort as error:
        return _abort(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return status if isinstance(status, int) else 0


def _abort(error: BaseException) -> int:
    """Typer takes the end of any input for an interrupt."""
    if isinstance(error.__cause__, EOFError):
        return _fail(f"the input ended too early: {error.__cause__}".rstrip(": "), EXIT_FAILED)
    return EXIT_INTERRUPTED


def _tell_output_lost(output: OutputStream) -> int:
    """Tell that output was lost; the command itself may have done all it had to."""
    failure = output.failure
    if isinstance(failure, BrokenPipeError):
        return EXIT_PIPE_CLOSED
    reason = "" if failure is None else failure.strerror or failure
    return _fail(
        f"cannot write the output: {reason}; what was ordered may be done all the same: look before you repeat it",
        EXIT_OUTPUT_LOST,
    )


def _exit_status(error: OrdoError) -> int:
    if isinstance(error, NoQuorumError):
        return EXIT_NO_QUORUM
    if isinstance(error, NotPermittedError) or _is_refusal_of_archive(error):
        return EXIT_NOT_PERMITTED
    if isinstance(error, ServiceError):
        return EXIT_STATUS_SERVICE
    return EXIT_UNKNOWN if isinstance(error, OutcomeUnknownError | ArchiveTimeoutError) else EXIT_FAILED


def _is_refusal_of_archive(error: OrdoError) -> bool:
    if not isinstance(error, ArchiveError):
        return False
    from ordo.archive.protocol.codes import REFUSALS

    return error.code in REFUSALS


def _fail(message: str, status: int) -> int:
    """Print an error as a line for people or, where the log is JSON, for programs; return the status."""
    from ordo.runtime.reporting.logging import demands_json, get_logger

    if demands_json():
        get_logger().error("ordo.failed", text=message, exit_status=status)
        return status
    for line in message.splitlines():
        print(f"ordo: {line}", file=sys.stderr)
    return status


def _support(module: str, name: str, remedy: str = "run this from a checkout after `make build`") -> Any:
    """Something of the demo, a standby or the pipeline, which stand above the cluster and are loaded by name.

    Raises ConfigurationError, with what to do, when a package it needs is not installed.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is not installed: {remedy}") from error


if __name__ == "__main__":
    main()
