"""One Spark session for all tests of the pipeline, and small archives to read."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
S3_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pyspark.testing.utils  # noqa: F401  (warns on import, once, here)
    from pyspark.sql import SparkSession

from ordo.pipeline.generate import LogShape, generate_log  # noqa: E402


@pytest.fixture(autouse=True)
def index_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Indexes of one test are not seen by another."""
    folder = tmp_path_factory.mktemp("index")
    monkeypatch.setenv("ORDO_INDEX_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two threads with format `ordo` registered."""
    from ordo.pipeline.spark.session import local_session

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


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, Any]]:
    """Options of a file system that reaches an S3 server; delta-rs holds the interpreter meanwhile, so not in here."""
    pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    with subprocess.Popen([sys.executable, "-c", S3_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None and server.stdin is not None
        port = int(server.stdout.readline())
        options = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{port}"}}
        s3fs.S3FileSystem(**options).mkdir("bucket")
        yield options
        server.stdin.close()
