"""`ordo archive ...`: the recordings in one folder, whether or not a node is running on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archive import tools
from runtime.console import output_console
from runtime.errors import ConfigurationError

archive_app = typer.Typer(name="archive", help="Look into the recordings of an archive folder.", no_args_is_help=True)
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


def _folder(directory: Path) -> str:
    if not directory.is_dir():
        raise ConfigurationError(f"archive folder {directory} is not there; give <data_dir>/archive of a node")
    return str(directory)
