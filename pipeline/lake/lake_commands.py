"""`ordo lake run | check`: the log in Delta and Iceberg tables, as it grows.

Exit status: 0 done, of `check` complete; 1 a record is missing, doubled or changed; 6 it could not be done; 7 a library
is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

import typer

from ordo.pipeline.decoding.errors import DataLossError, MissingLibraryError, PipelineError
from ordo.pipeline.lake.tables import COMPACT_EVERY, LakeTable
from ordo.runtime.end_signals import EndSignals

lake_app = typer.Typer(
    name="lake",
    help="The log in Delta and Iceberg tables, as it grows, each executed record once.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
EXIT_INCOMPLETE, EXIT_NOT_DONE, EXIT_NO_LIBRARY = 1, 6, 7
Source = Annotated[
    str, typer.Argument(help="the cluster's archive endpoints, ordo://host:port,..., an archive folder or a copy of it")
]
DeltaOption = Annotated[str | None, typer.Option("--delta", help="folder of the Delta table, or s3://bucket/table")]
StorageOption = Annotated[str | None, typer.Option(help="of the Delta table's object store: options, as JSON")]
IcebergOption = Annotated[
    str | None, typer.Option("--iceberg", help="folder of the Iceberg table and its catalog, catalog.db")
]
CommitOption = Annotated[str, typer.Option(help="of a folder: auto, or the node's aeron_dir; or a position")]


@contextmanager
def _telling() -> Iterator[None]:
    """Turn errors of the pipeline into their line and exit status."""
    try:
        yield
    except ModuleNotFoundError as error:
        typer.echo(f"ordo: {error.name} is not installed; run: pip install 'ordo-sequencer[local]'", err=True)
        raise typer.Exit(EXIT_NO_LIBRARY) from error
    except PipelineError as error:
        typer.echo(f"ordo: {error}", err=True)
        raise typer.Exit(EXIT_NO_LIBRARY if isinstance(error, MissingLibraryError) else EXIT_NOT_DONE) from error


def _open_tables(delta: str | None, iceberg: str | None, storage: str | None) -> list[LakeTable]:
    from ordo.pipeline.recordings.object_store import parse_storage

    tables: list[LakeTable] = []
    if storage is not None and delta is None:
        raise PipelineError("--delta-storage is for --delta")
    if delta is not None:
        from ordo.pipeline.lake.delta_table import DeltaLake

        tables.append(DeltaLake(delta, parse_storage(storage)))
    if iceberg is not None:
        from ordo.pipeline.lake.iceberg_table import IcebergLake

        tables.append(IcebergLake(iceberg))
    if not tables:
        raise PipelineError("no table: give --delta, --iceberg, or both")
    return tables


@lake_app.command()
def run(
    source: Source,
    delta: DeltaOption = None,
    iceberg: IcebergOption = None,
    decoder: Annotated[str | None, typer.Option(help="payloads into columns, as for `ordo pipeline decode`")] = None,
    once: Annotated[bool, typer.Option("--once", help="end at what there is now")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="seconds between looks for new records")] = 1.0,
    compact_every: Annotated[
        int, typer.Option(min=2, help="commits after which small files are merged")
    ] = COMPACT_EVERY,
    keep_hours: Annotated[int, typer.Option(min=0, help="how long old versions of the tables are kept")] = 168,
    chunk_mb: Annotated[float, typer.Option(min=0.001, help="MB of the log in one commit, at most")] = 16.0,
    delta_storage: StorageOption = None,
    commit: CommitOption = "auto",
) -> None:
    """Feed tables with the log until SIGTERM or SIGINT; goes on where the tables end."""
    with _telling():
        from ordo.pipeline.decoding.payloads import parse_decoder
        from ordo.pipeline.lake.feed import Feed, FeedSettings

        if commit == "recorded":
            raise PipelineError("--commit recorded: a feed takes what is committed, which nothing replaces any more")
        settings = FeedSettings(
            parse_decoder(decoder) if decoder else None, commit, int(chunk_mb * 1e6), compact_every,
            timedelta(hours=keep_hours),
        )  # fmt: skip
        feed = Feed(source, _open_tables(delta, iceberg, delta_storage), settings)
        end = EndSignals()
        waits_for = ""
        while not end.is_set:
            try:
                log = feed.open_log()
            except DataLossError:
                raise
            except PipelineError as error:
                if once:
                    raise
                if str(error) != waits_for:
                    waits_for = str(error)
                    typer.echo(f"waiting: {error}", err=True)
            else:
                waits_for = ""
                while not end.is_set and feed.step(log):
                    typer.echo(feed.describe())
                if once:
                    return
            end.wait(every)


@lake_app.command()
def check(
    source: Source, delta: DeltaOption = None, iceberg: IcebergOption = None, delta_storage: StorageOption = None,
    commit: CommitOption = "auto",
) -> None:  # fmt: skip
    """Compare tables with the log: the first record that is missing, doubled or changed."""
    with _telling():
        from ordo.pipeline.lake.check import check_table
        from ordo.pipeline.recordings.recordings import open_recordings

        tables = _open_tables(delta, iceberg, delta_storage)
        (*_, log) = open_recordings([source], "log", commit)
        is_complete = True
        for table in tables:
            found = check_table(log, table, commit)
            said = found.problem or f"complete up to position {found.position}, {found.records:,} records"
            typer.echo(f"{table.name}: {said}")
            is_complete = is_complete and not found.problem
    raise typer.Exit(0 if is_complete else EXIT_INCOMPLETE)
