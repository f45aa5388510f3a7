"""Where an export goes: a folder here, or anything that Spark's Hadoop file systems reach (`s3a://`, `hdfs://`, ...).

The data is written by Spark. The small state file beside it goes the same way, so that it is where the data is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ordo.pipeline.decoding.errors import PipelineError
from ordo.runtime.io.durable_files import write_durably

_NEW = ".new"


class Target(Protocol):
    """One small file beside the data, replaced as a whole."""

    def read(self) -> str | None: ...
    def write(self, text: str) -> None: ...


def open_target(spark: SparkSession, target: str, name: str) -> Target:
    """Open the file `name` below a folder. Raises PipelineError when the folder cannot be written."""
    parsed = urlparse(target)
    if parsed.scheme in ("", "file"):
        return LocalFile(Path(unquote(parsed.path) if parsed.scheme else target) / name)
    try:
        return HadoopFile(spark, target, name)
    except Py4JJavaError as error:
        raise PipelineError(f"cannot write to {target}: {_reason(error)}") from error


def _reason(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString()).splitlines()[0]


class LocalFile:
    """Written beside and renamed, so that a crash leaves the old one or the new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"cannot write to {path.parent}: {error.strerror}; give another folder") from error
        if not os.access(path.parent, os.W_OK):
            raise PipelineError(f"cannot write to {path.parent}; give a folder that this user may write")

    def read(self) -> str | None:
        return self._path.read_text() if self._path.exists() else None

    def write(self, text: str) -> None:
        write_durably(self._path, text)


class HadoopFile:
    """Written beside, then put into the place of the old one; where a crash came between, the one beside counts."""

    def __init__(self, spark: SparkSession, target: str, name: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        folder = jvm.org.apache.hadoop.fs.Path(target)
        self._path = jvm.org.apache.hadoop.fs.Path(folder, name)
        self._new = jvm.org.apache.hadoop.fs.Path(folder, name + _NEW)
        self._system = folder.getFileSystem(spark._jsc.hadoopConfiguration())
        self._system.mkdirs(folder)

    def read(self) -> str | None:
        for path in (self._new, self._path):  # a new one is whole once it has its last line
            if self._system.exists(path):
                stream = self._system.open(path)
                try:
                    text = str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
                finally:
                    stream.close()
                if text.endswith("}\n"):
                    return text
        return None

    def write(self, text: str) -> None:
        stream = self._system.create(self._new, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._system.delete(self._path, False)
        self._system.rename(self._new, self._path)
