"""One Spark session for all tests of the pipeline, and small archives to read."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pyspark.testing.utils  # noqa: F401  (warns on import, once, here)
    from pyspark.sql import SparkSession

from pipeline.generate import LogShape, generate_log  # noqa: E402


@pytest.fixture(autouse=True)
def index_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Indexes of one test are not seen by another."""
    folder = tmp_path_factory.mktemp("index")
    monkeypatch.setenv("ORDO_INDEX_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two threads with format `ordo` registered."""
    from pipeline.session import local_session

    session = local_session("tests", cores=2, folder=str(tmp_path_factory.mktemp("spark")))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shape() -> LogShape:
    return LogShape(messages=20_000, sessions=5, terms=3, term_length=1 << 18, segment_length=1 << 20)


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory, shape: LogShape) -> str:
    """An archive folder with a log of 20,000 messages; not to be written to."""
    folder = tmp_path_factory.mktemp("cluster") / "node0" / "archive"
    generate_log(str(folder), shape)
    return str(folder)
