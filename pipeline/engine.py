"""Chooses the engine that runs a job: Spark, or this process alone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from enum import StrEnum
from importlib.util import find_spec

import typer

from ordo.pipeline.decoding.errors import PipelineError

AUDIT_SPARK_FROM_BYTES = 16 << 30
"""A process checks about 1 GB a second, and Spark takes some 20 s to start."""
REPLAY_SPARK_FROM_BYTES = 1 << 30
"""A replay runs the service, a stretch between snapshots on each core that Spark has."""


class Engine(StrEnum):
    """What `--engine` may say."""

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


def choose_engine(
    engine: Engine,
    folders: Sequence[str],
    spark_from_bytes: int,
    recording: str = "log",
    commit: str = "auto",
    storage: str | None = None,
    on_spark: bool = False,
) -> Engine:
    """Return SPARK or LOCAL, and say in a line on standard error which one was chosen where the caller left it open.

    `on_spark`: options were given that only Spark has. Raises PipelineError for archives that cannot be opened, before
    Spark is started for them: they are opened here once, for their size and for what is wrong with them.
    """
    if engine is Engine.LOCAL and on_spark:
        raise PipelineError("--engine local runs in this process: leave out --master and --cores")
    if engine is Engine.LOCAL:
        return engine
    from ordo.pipeline.recordings.object_store import parse_storage
    from ordo.pipeline.recordings.recordings import open_recordings

    recordings = open_recordings(list(folders), recording, commit, storage=parse_storage(storage))
    if engine is Engine.SPARK or on_spark:
        return Engine.SPARK
    length_bytes = sum(max(0, each.limit - each.start) for each in recordings)
    missing = next((name for name in ("pyspark", "java") if not _is_there(name)), None)
    chosen = Engine.LOCAL if missing or length_bytes < spark_from_bytes else Engine.SPARK
    where = "this process" if chosen is Engine.LOCAL else "Spark"
    reason = f"{missing} is not installed" if missing else f"Spark from {spark_from_bytes >> 30} GiB"
    typer.echo(f"{length_bytes / 1e6:,.1f} MB, in {where} ({reason}; --engine chooses)", err=True)
    return chosen


def _is_there(name: str) -> bool:
    """Return whether a program or a package can be found."""
    return shutil.which(name) is not None or find_spec(name) is not None
