"""`ordo archive ...`: looks into the recordings of a folder, whether or not a node runs on it; serves an archive."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archive import tools
from runtime.console import output_console
from runtime.errors import ConfigurationError
from runtime.logging import configure_logging, get_logger
from transport.driver.config import default_directory
from transport.uri import parse_size

archive_app = typer.Typer(
    name="archive", help="Look into the recordings of an archive folder, or serve one.", no_args_is_help=True
)
DirArgument = Annotated[Path, typer.Argument(metavar="DIR", help="the archive folder: <data_dir>/archive of a node")]
RecordingOption = Annotated[int | None, typer.Option("--recording", min=0, help="only this recording")]


@archive_app.command("list")
def list_recordings(directory: DirArgument) -> None:
    """Every recording: positions, stream and channel."""
    table = Table("id", "stream", "session", "start", "stop", "length", "channel", box=None)
    for found in tools.list_recordings(_folder(directory)):
        stop, length = "active", "-"
        if not found.is_active:
            stop, length = f"{found.stop_position:,}", f"{found.stop_position - found.start_position:,}"
        numbers = (str(found.recording_id), str(found.stream_id), str(found.session_id), f"{found.start_position:,}")
        table.add_row(*numbers, stop, length, found.stripped_channel)
    output_console().print(table)


@archive_app.command()
def describe(directory: DirArgument, recording: RecordingOption = None) -> None:
    """One line with everything the catalog holds of each recording."""
    for line in tools.describe(_folder(directory), recording):
        print(line)


@archive_app.command()
def verify(directory: DirArgument, recording: RecordingOption = None) -> None:
    """Check every frame of every recording; status 1 when one is damaged."""
    folder, damaged = _folder(directory), 0
    for result in tools.verify(folder, recording):
        print(result)
        damaged += not result.is_good
    for orphan in tools.orphaned_segments(folder):
        print(f"segment file of no recording: {orphan}")
    if damaged:
        raise typer.Exit(1)


@archive_app.command()
def serve(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="folder of the recordings; made when it is not there")
    ],
    control: Annotated[str, typer.Option(metavar="HOST:PORT", help="where clients reach it")] = "127.0.0.1:8010",
    aeron_dir: Annotated[str, typer.Option(help="folder of its media driver")] = "",
    sync: Annotated[
        str, typer.Option(help="commit: positions count when on disk; none: when in the page cache")
    ] = "commit",
    segment_length: Annotated[str, typer.Option(help="of segment files, such as 64m; a power of two")] = "64m",
    recordings_max: Annotated[int, typer.Option(min=1, max=64, help="recordings at a time")] = 20,
    replays_max: Annotated[int, typer.Option(min=1, max=64, help="replays at a time")] = 20,
    sessions_max: Annotated[int, typer.Option(min=1, help="clients at a time")] = 64,
) -> None:
    """Serve an archive to clients, with a media driver of its own, until SIGTERM or SIGINT."""
    from archive.control.config import ControlConfig
    from archive.server import ArchiveServer, ArchiveServerConfig

    configure_logging()
    log = get_logger()
    config = ArchiveServerConfig(
        str(directory),
        ControlConfig(
            control_channel=f"aeron:udp?endpoint={control}",
            recordings_max=recordings_max,
            replays_max=replays_max,
            sessions_max=sessions_max,
        ),
        aeron_dir or default_directory(),
        sync,
        _size(segment_length),
    )
    server = ArchiveServer(config, lambda error: log.warning("archive.error", error=str(error)))
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.end())
        log.info("archive.serving", control=control, directory=str(directory), aeron_dir=config.aeron_dir)
        server.run()
    finally:
        server.close()


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise ConfigurationError(f"--segment-length {text}: allowed is {error}") from None


def _folder(directory: Path) -> str:
    if not directory.is_dir():
        raise ConfigurationError(f"archive folder {directory} is not there; give <data_dir>/archive of a node")
    return str(directory)
