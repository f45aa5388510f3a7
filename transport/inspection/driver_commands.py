"""`ordo driver`: the media driver as a process of its own, and commands for a running one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ordo.runtime.agents.idle import SleepIdle
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.reporting.logging import configure_program, get_logger
from ordo.runtime.reporting.output import printable
from ordo.runtime.reporting.terminal import OutputTable, output_console
from ordo.transport.driver.channels.settings import default_directory
from ordo.transport.inspection import driver_folder
from ordo.transport.inspection.log_inspector import LogInspector
from ordo.transport.inspection.stream_positions import UNKNOWN, backlogs
from ordo.transport.inspection.trace import KINDS, open_trace, read_lines

DEFAULT_DIRECTORY = Path(default_directory())
TRACE_INTERVAL_NS = 20_000_000

driver_app = typer.Typer(
    name="driver",
    help="Run a media driver that many processes share, or look at one.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
DirOption = Annotated[Path, typer.Option("--dir", help="the driver's folder", show_default=False)]
ConfigOption = Annotated[Path | None, typer.Option(help="driver.toml: any setting of a driver")]


@driver_app.callback()
def driver(
    context: typer.Context,
    directory: Annotated[Path | None, typer.Option("--dir", help="folder where clients find it")] = None,
    config: ConfigOption = None,
    threads: Annotated[
        str | None, typer.Option(help="shared, shared-network or dedicated: one thread, two, or three")
    ] = None,
    idle: Annotated[
        str | None, typer.Option(help="what threads without work do: park, backoff, sleep, yield, spin or noop")
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(help="cores of conductor, sender and receiver, as 1,2,3; of fewer threads: as many")
    ] = None,
    termination_token: Annotated[
        str | None, typer.Option(help="lets a client end the driver that says this; without it none may")
    ] = None,
    key_file: Annotated[str | None, typer.Option(help="encrypt with this key; `ordo keys new` makes one")] = None,
    trusted_file: Annotated[
        str | None, typer.Option(help="the keys of those who may take part (`ordo keys trust`)")
    ] = None,
) -> None:
    """Run the driver until SIGTERM or SIGINT, or until it is told to end."""
    if context.invoked_subcommand is not None:
        return
    configure_program()
    from ordo.transport.driver.channels.settings_file import load_driver_settings
    from ordo.transport.driver.program import run_driver

    settings = load_driver_settings(
        config,
        directory=None if directory is None else str(directory),
        threading_mode=threads,
        **dict.fromkeys(("conductor_idle", "sender_idle", "receiver_idle"), idle),
        encryption_key_file=key_file,
        encryption_trusted_file=trusted_file,
        termination_allowed=None if termination_token is None else True,
        termination_token=None if termination_token is None else termination_token.encode(),
    )
    run_driver(replace(settings, **_cores(cpus, settings.threading_mode)), get_logger().info)


@driver_app.command()
def pid(directory: DirOption = DEFAULT_DIRECTORY) -> None:
    """Print the process id of the driver, live or dead."""
    print(driver_folder.driver_pid(directory))


@driver_app.command()
def terminate(
    directory: DirOption = DEFAULT_DIRECTORY,
    token: Annotated[str, typer.Option(help="the driver's termination token")] = "",
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds to wait for its end")] = 10.0,
) -> None:
    """Ask a driver to end, and wait until it has."""
    driver_folder.terminate_driver(directory, token.encode(), timeout)


def streams(directory: DirOption = DEFAULT_DIRECTORY) -> None:
    """Print every stream of a driver, and every counter of it: positions, limits, events."""
    table = OutputTable("stream", "session", "counter", "of", "value", "channel", box=None)
    for one in driver_folder.read_streams(directory):
        table.add_row(
            *(str(one.stream_id), str(one.session_id), one.name, str(one.registration_id)),
            *(f"{one.value:,}", one.channel),
        )
    output_console().print(table)


def backlog(directory: DirOption = DEFAULT_DIRECTORY) -> None:
    """Print how far each party of every stream lags, and how far it is from its limit.

    These are publishers, senders, receivers and subscribers.
    """
    table = OutputTable("stream", "session", "who", "of", "position", "behind", "room", "channel", box=None)
    for one in backlogs(driver_folder.read_streams(directory)):
        numbers = ("-" if value == UNKNOWN else f"{value:,}" for value in one[4:7])
        table.add_row(
            *(str(one.stream_id), str(one.session_id), one.party, str(one.registration_id)), *numbers, one.channel
        )
    output_console().print(table)


def loss(directory: DirOption = DEFAULT_DIRECTORY) -> None:
    """Print what each image of a driver has lost, and was sent again."""
    table = OutputTable("times", "bytes", "first", "last", "session", "stream", "channel", "source", box=None)
    for one in driver_folder.read_loss_report(directory):
        table.add_row(
            *(f"{one.observation_count:,}", f"{one.total_bytes_lost:,}"),
            *(_time(one.first_observation_ms), _time(one.last_observation_ms)),
            *(str(one.session_id), str(one.stream_id), one.channel, one.source),
        )
    output_console().print(table)


def trace(
    directory: DirOption = DEFAULT_DIRECTORY,
    kinds: Annotated[
        str,
        typer.Option("--events", help="with commas: frames-in, frames-out, commands, responses, states; or all"),
    ] = "commands,responses,states",
    duration: Annotated[float | None, typer.Option(min=0.01, help="seconds; without it until Ctrl-C")] = None,
) -> None:
    """Print what a running driver of Ordo does: frames, commands of clients, its responses, changes of state."""
    clock = SystemClock()
    end_ns = None if duration is None else clock.now() + int(duration * 1e9)
    wanted = _kinds(kinds)
    with (
        driver_folder.open_folder(directory) as cnc,
        open_trace(FileMemoryProvider(), str(directory), clock, wanted) as log,
    ):
        lost, idle = log.lost_count, SleepIdle(TRACE_INTERVAL_NS)
        while driver_folder.is_alive(cnc, clock.epoch_ms()) and (end_ns is None or clock.now() < end_ns):
            lines = read_lines(log)
            for line in lines:
                print(printable(line), flush=len(lines) == 1)
            if log.lost_count != lost:
                print(f"... {log.lost_count - lost} events were lost: the driver does more than can be printed")
                lost = log.lost_count
            if not lines:
                idle.after(0)


def _kinds(text: str) -> int:
    """Return the sum of the kinds that are named."""
    if text == "all":
        return sum(KINDS.values())
    names = set(text.split(","))
    if not names <= KINDS.keys():
        raise ConfigurationError(f"--events {text}: must be all, or some of {', '.join(KINDS)}, with commas between")
    return sum(KINDS[name] for name in names)


def log_inspect(
    file: Annotated[Path, typer.Argument(help="a .logbuffer file below a driver's publications or images")],
    payload: Annotated[int, typer.Option(min=0, help="bytes of each payload to print")] = 0,
    frames: Annotated[bool, typer.Option("--frames/--no-frames", help="print the frames")] = True,
) -> None:
    """Print the metadata of a log buffer, the tails of its terms, and its frames."""
    inspector = LogInspector(str(file))
    try:
        for name, value in inspector.describe():
            print(f"{name:>16}: {printable(str(value))}")
        for term in inspector.terms():
            print(f"term {term.number}: id={term.term_id} tail={term.tail_offset} position={term.position}")
            for one in inspector.frames(term.number, payload) if frames else ():
                print(
                    f"  {one.offset}: {one.type_name} frame_length={one.frame_length} flags={one.flags:08b} "
                    f"term_offset={one.term_offset} session_id={one.session_id} stream_id={one.stream_id} "
                    f"term_id={one.term_id} reserved_value={one.reserved_value}"
                    + (f" {one.payload.hex()}" if one.payload else "")
                )
    finally:
        inspector.close()


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _cores(text: str | None, threading_mode: str) -> dict[str, Any]:
    """Return the cores of a `--cpus` option, by the setting that each is for."""
    if text is None:
        return {}
    names = {
        "dedicated": ("conductor_cpu", "sender_cpu", "receiver_cpu"),
        "shared-network": ("conductor_cpu", "sender_cpu"),
    }
    wanted = names.get(threading_mode, ("conductor_cpu",))
    found = text.split(",")
    if len(found) != len(wanted) or not all(core.strip().isdecimal() for core in found):
        raise ConfigurationError(f"--cpus {text}: must be {len(wanted)} core numbers, one for each thread")
    return {name: int(core) for name, core in zip(wanted, found, strict=True)}
