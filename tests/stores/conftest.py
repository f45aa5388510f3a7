"""What these tests fetch: packages of the Java registry through Spark, and a Spark that Delta Lake has one for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ordo.pipeline.generate import LogShape, generate_log
from tests.pipeline.conftest import s3

__all__ = ["s3"]
ROOT = Path(__file__).resolve().parents[2]
DELTA_SPARK = "pyspark==4.1.*"
"""Delta Lake's package for Spark follows Spark's releases by months."""


@pytest.fixture
def log(tmp_path: Path) -> str:
    """The folder of an archive with 2,000 messages."""
    folder = str(tmp_path / "node0" / "archive")
    generate_log(folder, LogShape(messages=2_000, sessions=3, terms=2, term_length=1 << 16, segment_length=1 << 16))
    return folder


@pytest.fixture(scope="session")
def delta_spark() -> Path:
    """A folder to import that Spark from, below build/; it is fetched once."""
    folder = ROOT / "build" / "stores" / DELTA_SPARK.replace("==", "-").removesuffix(".*")
    if not (folder / "pyspark").exists():
        words = ["-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), DELTA_SPARK]
        subprocess.run([sys.executable, *words], check=True, timeout=600)
    return folder
