"""`ordo debug index` (docs/LOG.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ordo.runtime.errors import ConfigurationError, OrdoError

Folder = Annotated[Path, typer.Argument(help="the folder of a member (its data_dir)")]


def index(
    folder: Folder,
    build: Annotated[bool, typer.Option("--build", help="build it anew; the member is stopped")] = False,
    check: Annotated[bool, typer.Option("--check", help="compare all of it with the log")] = False,
    sequence: Annotated[int | None, typer.Option(min=1, help="where the message of this number begins")] = None,
    commit: Annotated[
        str, typer.Option(help="where the log ends: auto, a position, or recorded for whatever is on disk")
    ] = "auto",
) -> None:
    """Show what the index of a member's log covers, compare it with the log, or build it anew.

    Exit status: 1 where the index is missing or damaged, or does not agree with the log.
    """
    from ordo.debugging.log_index import build_index, check_index, describe_index, open_index
    from ordo.debugging.replaying.recorded_log import RECORDED, RecordedLog

    if "://" in str(folder):
        raise ConfigurationError(f"{folder}: the index is looked into where it is: give the folder of a member")
    if build and commit == RECORDED:
        raise ConfigurationError(
            f"--build with --commit {RECORDED}: an index has what is committed alone: give auto, or a position"
        )
    log = RecordedLog(folder, commit)
    found = build_index(log) if build else describe_index(open_index(log))
    first = f"position {found.first_position} with number {found.first_sequence + 1}"
    last = f"position {found.last_position} with number {found.last_sequence + 1}"
    typer.echo(f"{found.entry_count} entries, from {first} to {last}")
    if check:
        typer.echo(f"{check_index(log)} places agree with the log")
    if sequence is not None:
        position = open_index(log).find_sequence(sequence)
        if position is None:
            raise OrdoError(f"number {sequence} is in no part of the log that is indexed: count from a snapshot")
        typer.echo(f"number {sequence} begins at position {position}")
