"""Writing a data frame of payloads into a cluster, once, whatever tasks fail and are tried again.

    frame.select("payload").write.format("ordo").mode("append")
        .option("endpoints", "0=host:9000,1=host:9010,2=host:9020").option("writer", "orders-2026-01-31").save()

The service has to pass messages through `pipeline.envelope.SequenceFilter`. `writer` names the write: what was written
under a name is not written again under it. A stream also numbers its batches. Partitions must give the same rows in the
same order when they are tried again, as those read from files and recordings do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StructType

from pipeline.envelope import SequencedWriter, writer_id
from pipeline.errors import PipelineError

OPTIONS = {
    "endpoints": "ingress endpoints of the members, id=host:port with commas",
    "writer": "name of this write; the same name is written once",
    "window": "messages on the way at most, default 256",
    "timeout": "seconds without any acknowledgement after which a task fails, default 60",
    "egress": "channel for answers, default aeron:udp?endpoint=127.0.0.1:0",
}
BATCH_PROPERTY = "streaming.sql.batchId"


@dataclass(frozen=True)
class WriteOptions:
    """Checked options of a write."""

    endpoints: dict[int, str]
    writer: str
    window: int
    timeout_ns: int
    egress: str | None

    @classmethod
    def parse(cls, given: Mapping[str, str], schema: StructType, overwrite: bool) -> WriteOptions:
        """Raises PipelineError for what is missing or not allowed."""
        values = {
            name.lower(): value for name, value in given.items() if name.lower() not in ("path", "checkpointlocation")
        }
        for name in values:
            if name not in OPTIONS:
                raise PipelineError(f"unknown option {name!r} of a write; allowed are {', '.join(OPTIONS)}")
        if overwrite:
            raise PipelineError("a log cannot be overwritten; use mode('append')")
        if schema.names != ["payload"] or schema["payload"].dataType != BinaryType():
            raise PipelineError(f"a write takes one column, payload binary; not {schema.simpleString()}")
        try:
            pairs = (part.split("=") for part in values["endpoints"].split(","))
            endpoints = {int(member): endpoint for member, endpoint in pairs}
            window, timeout = int(values.get("window", "256")), int(values.get("timeout", "60"))
        except (KeyError, ValueError):
            raise PipelineError("a write needs endpoints=0=host:port,1=host:port,... and whole numbers") from None
        if not values.get("writer") or window < 1 or timeout < 1:
            raise PipelineError("a write needs a writer, a window of 1 or more and a timeout of 1 or more")
        return cls(endpoints, values["writer"], window, timeout * 10**9, values.get("egress"))


@dataclass
class Written(WriterCommitMessage):
    """How many messages a task sent, not counting those an earlier try had sent."""

    messages: int


def write_partition(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Publish one partition; comes back when the service has applied all of it."""
    from cluster.client import ClusterClient

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    batch = int((context.getLocalProperty(BATCH_PROPERTY) if context is not None else None) or 0)
    writers: list[SequencedWriter] = []

    def on_message(session_id: int, timestamp: int, payload: bytes) -> None:
        for writer in writers:
            writer.on_message(bytes(payload))

    with ClusterClient(
        options.endpoints,
        options.egress,
        on_message=on_message,
    ) as client:
        writers.append(
            SequencedWriter(
                client,
                writer_id(options.writer, partition),
                batch,
                time.monotonic_ns,
                window=options.window,
                timeout_ns=options.timeout_ns,
            )
        )
        payloads = (payload for found in batches for payload in found["payload"].to_pylist())
        return Written(writers[0].write(payloads))


class ClusterWriter(DataSourceArrowWriter):
    """Batch writes."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_partition(self._options, iterator)


class ClusterStreamWriter(DataSourceStreamArrowWriter):
    """Streaming writes; a batch that is tried again is recognised by its number."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_partition(self._options, iterator)
