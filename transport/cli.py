"""`ordo driver`: the media driver as a process of its own, and what one does with a running one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runtime.errors import ConfigurationError
from runtime.logging import configure_logging, get_logger
from transport import tools
from transport.driver.config import default_directory

DEFAULT_DIRECTORY = Path(default_directory())

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
) -> None:
    """Run the driver until SIGTERM or SIGINT, or until it is told to end."""
    if context.invoked_subcommand is not None:
        return
    configure_logging()
    from transport.driver.program import run_driver
    from transport.driver.settings import load_driver_config

    settings = load_driver_config(
        config,
        directory=None if directory is None else str(directory),
        threading_mode=threads,
        **dict.fromkeys(("conductor_idle", "sender_idle", "receiver_idle"), idle),
        **_cores(cpus, threads),
        termination_allowed=None if termination_token is None else True,
        termination_token=None if termination_token is None else termination_token.encode(),
    )
    run_driver(settings, get_logger().info)


@driver_app.command()
def pid(directory: DirOption = DEFAULT_DIRECTORY) -> None:
    """The process id of the driver, live or dead."""
    print(tools.driver_pid(directory))


@driver_app.command()
def terminate(
    directory: DirOption = DEFAULT_DIRECTORY,
    token: Annotated[str, typer.Option(help="the driver's termination token")] = "",
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds to wait for its end")] = 10.0,
) -> None:
    """Ask a driver to end, and wait until it has."""
    tools.terminate_driver(directory, token.encode(), timeout)


def _cores(text: str | None, threads: str | None) -> dict[str, int]:
    """The cores of a `--cpus` option, by the setting that each is for."""
    if text is None:
        return {}
    names = {
        "dedicated": ("conductor_cpu", "sender_cpu", "receiver_cpu"),
        "shared-network": ("conductor_cpu", "sender_cpu"),
    }
    wanted = names.get(threads or "", ("conductor_cpu",))
    found = text.split(",")
    if len(found) != len(wanted) or not all(core.strip().isdecimal() for core in found):
        raise ConfigurationError(f"--cpus {text}: must be {len(wanted)} core numbers, one for each thread")
    return {name: int(core) for name, core in zip(wanted, found, strict=True)}
