"""How a command of the pipeline runs: a Spark session with a line of progress, and libraries that may be missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ordo.pipeline.decoding.errors import MissingLibraryError, own_error
from ordo.runtime.errors import OrdoError
from ordo.runtime.reporting.output import OutputStream
from ordo.runtime.reporting.terminal import console_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Job:
    """A running job: the session, and a line that shows progress."""

    spark: SparkSession
    progress: Progress
    task: int

    def show(self, done: int, total: int, text: str) -> None:
        self.progress.update(self.task, completed=done, total=total, description=text)  # type: ignore[arg-type]


def plain_error(error: Exception) -> Exception:
    """Return Ordo's own error where Spark has wrapped one in a stack trace; any other error unchanged."""
    return error if isinstance(error, OrdoError) else own_error(error) or error


@contextmanager
def _terminal() -> Iterator[Any]:
    """Open standard error by a descriptor of its own: Spark's start takes descriptor 2 for a while."""
    file = os.fdopen(os.dup(2), "w")
    try:
        yield OutputStream(file, is_lossy=True)
    finally:
        with suppress(OSError):
            file.close()


@contextmanager
def running(name: str, master: str | None, cores: int | None) -> Iterator[Job]:
    """Open a Spark session for one job; it is stopped when the block ends."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    try:
        with ExitStack() as stack:
            console = console_on(stack.enter_context(_terminal()))
            progress = stack.enter_context(Progress(*columns, console=console, transient=not console.is_terminal))
            task = progress.add_task(f"{name}: starting Spark", total=None)
            from ordo.pipeline.spark.session import local_session

            scratch = stack.enter_context(TemporaryDirectory(prefix="ordo-spark-", ignore_cleanup_errors=True))
            spark = local_session(name, cores, scratch, master=master, log=os.path.join(scratch, "spark.log"))
            try:
                progress.update(task, description=name)
                yield Job(spark, progress, task)
            except Exception as error:
                raise plain_error(error) from error
            finally:
                spark.stop()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow", "matplotlib"):
            raise
        raise MissingLibraryError(describe_missing(error.name or "", "pipeline")) from error


def describe_missing(module: str, extra: str) -> str:
    """Return a line for a module that cannot be imported: its package is not installed, or is too old to have it."""
    package, what = module.partition(".")[0], f"{module} is not installed"
    with suppress(PackageNotFoundError, ValueError):
        if module != package and find_spec(package) is not None:
            what = f"{package} {version(package)} is too old, it has no {module}"
    return f"{what}; run: pip install 'ordo-sequencer[{extra}]'"


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Turn a failed import of an optional dependency into one clear line."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingLibraryError(describe_missing(error.name or "", extra)) from error
