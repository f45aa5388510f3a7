"""Writing a data frame of payloads into a cluster, once, whatever tasks fail and are tried again.

    frame.select("payload").write.format("ordo").mode("append")
        .option("endpoints", "0=host:9000,1=host:9010,2=host:9020").option("writer", "orders-2026-01-31").save()

The service has to pass messages through `pipeline.envelope.SequenceFilter`. `writer` names the write. Who writes
under a name again goes on where the earlier try ended, if the rows begin with what was written, partition by partition;
otherwise it is refused, before anything is written. A stream also numbers its batches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StructType

from pipeline.addresses import address_towards
from pipeline.errors import PipelineError
from pipeline.writer import Part, SequencedWriter, WriterSettings

OPTIONS = {
    "endpoints": "ingress endpoints of the members, id=host:port with commas",
    "writer": "name of this write; the same name is written once",
    "window": "messages on the way at most, default 256",
    "timeout": "seconds without any acknowledgement after which a task fails, default 60",
    "egress": "channel for answers; default: the address of each executor by which it reaches the members, a free port",
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
    attempt: int
    """Names this run of the write, for all its tasks and their tries."""

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
        return cls(
            endpoints,
            values["writer"],
            window,
            timeout * 10**9,
            values.get("egress"),
            1 + int.from_bytes(os.urandom(7)),
        )


@dataclass
class Written(WriterCommitMessage):
    """How many messages a task sent, not counting those an earlier try had sent."""

    messages: int


def write_partition(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Publish one partition; comes back when the service has applied all of it."""
    from cluster.client.session import ClusterClient

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    batch = int((context.getLocalProperty(BATCH_PROPERTY) if context is not None else None) or 0)
    writers: list[SequencedWriter] = []

    def on_message(session_id: int, timestamp: int, payload: bytes) -> None:
        for writer in writers:
            writer.on_message(bytes(payload))

    part = Part(options.writer, options.attempt, partition, batch)
    settings = WriterSettings(window=options.window, timeout_ns=options.timeout_ns)
    egress = options.egress or local_egress(options.endpoints)
    with ClusterClient(options.endpoints, egress, on_message=on_message) as client:
        writers.append(SequencedWriter(client, part, time.monotonic_ns, settings))
        payloads = (payload for found in batches for payload in found["payload"].to_pylist())
        return Written(writers[0].write(payloads))


def local_egress(endpoints: Mapping[int, str]) -> str:
    """The channel for answers on the address by which this machine reaches the members; a port that is free.

    Raises PipelineError when it reaches none of them.
    """
    address = address_towards(endpoints.values())
    if address is None:
        raise PipelineError(f"no way to any member from here: endpoints {dict(endpoints)}; give host:port of each")
    return f"aeron:udp?endpoint={f'[{address}]' if ':' in address else address}:0"


class ClusterWriter(DataSourceArrowWriter):
    """Writes a data frame to a cluster as one batch."""

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
