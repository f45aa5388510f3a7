"""A Spark session of our own, for the command line and for tests. A session that the user has is as good."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.spark.addresses import address_towards
from ordo.pipeline.spark.source import register

ROOT = Path(__file__).parents[3]


def check_java() -> None:
    """Raise PipelineError when Spark would find no Java."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and os.access(os.path.join(home, "bin", "java"), os.X_OK)):
        return
    raise PipelineError(
        "Spark needs Java 17 or later and none was found; install a JRE (Debian: openjdk-17-jre-headless) "
        "or set JAVA_HOME"
    )


@contextmanager
def _errors_into(path: str | None) -> Iterator[None]:
    """Error output goes to a file meanwhile; that of processes started meanwhile stays there. None: nothing changes."""
    if path is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _is_elsewhere(master: str | None) -> bool:
    return master is not None and not master.startswith("local")


def driver_address(master: str | None) -> dict[str, str]:
    """Spark's settings of where executors reach the driver, so far as `master` tells.

    Here: loopback, whatever this machine is called. A standalone master: the address by which it is reached. Others
    (YARN, Kubernetes) settle it themselves, or with `spark.driver.host`. Raises PipelineError for a master that is not
    found.
    """
    if not _is_elsewhere(master):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master is None or not master.startswith("spark://"):
        return {}
    address = address_towards(master.removeprefix("spark://").split(","))
    if address is None:
        raise PipelineError(f"master {master!r}: no way there; give spark://host:port of a master that can be reached")
    return {"spark.driver.host": address, "spark.driver.bindAddress": "0.0.0.0" if ":" not in address else "::"}


def local_session(
    name: str,
    cores: int | None = None,
    folder: str | None = None,
    memory: str = "2g",
    master: str | None = None,
    log: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session on this machine (or on `master`) with format `ordo`; `settings` are Spark's own, and win.

    Its scratch files go below `folder`; with `log`, what Spark's processes say goes to that file and not to the
    terminal. Raises PipelineError without Java, or when Spark does not start.
    """
    check_java()
    scratch = folder or tempfile.mkdtemp(prefix="ordo-spark-")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    search_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(ROOT) not in search_path:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), *search_path]))
    builder = (
        SparkSession.builder.master(master or f"local[{cores or '*'}]")
        .appName(f"ordo {name}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", memory)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.warehouse.dir", os.path.join(scratch, "warehouse"))
    )
    here = {} if _is_elsewhere(master) else {
        "spark.sql.shuffle.partitions": str(2 * (cores or os.cpu_count() or 1)),
        "spark.local.dir": os.path.join(scratch, "local"),
    }  # fmt: skip
    for key, value in {**here, **driver_address(master), **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        with _errors_into(log):
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        said = Path(log).read_text(errors="replace").strip().splitlines() if log else []
        reason = next((line for line in said if "Error" in line or "Exception" in line), str(error))
        raise PipelineError(f"Spark did not start: {reason}; it needs Java 17 or later (java, or JAVA_HOME)") from error
    session.sparkContext.setLogLevel("ERROR")
    return register(session)
