"""Writing a data frame of payloads into a cluster, once, whatever tasks fail and are tried again.

    frame.select("payload").write.format("ordo").mode("append")
        .option("endpoints", "0=host:9000,1=host:9010,2=host:9020").option("writer", "orders-2026-01-31").save()

The service has to pass requests through `pipeline.decoding.envelope.SequenceFilter`. `writer` names the write. Who
writes
under a name again goes on where the earlier try ended, if the rows begin with what was written, partition by partition;
otherwise it is refused, before anything is written. A stream also numbers its batches.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StructType

from ordo.cluster.client.settings import OUTSTANDING_REQUESTS_LIMIT, ClientSettings
from ordo.pipeline.decoding.envelope import WRITTEN_MAX
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.spark.addresses import address_towards
from ordo.pipeline.spark.pulse import Part
from ordo.pipeline.spark.writer import Sent, SequencedWriter, WriterSettings, check_partitions
from ordo.runtime.security.credentials import credentials_from_file

OPTIONS = {
    "endpoints": "ingress endpoints of the members, id=host:port with commas",
    "writer": "name of this write; the same name is written once",
    "partitions": "how many partitions the frame has: a retry that lacks some of an earlier try is refused at once",
    "window": "messages on the way at most, default 256",
    "timeout": "seconds without any answer after which a task fails, default 60",
    "egress": "channel for answers; default: the address of each executor by which it reaches the members, a free port",
    "tokenfile": "file with a token of the role ingress, where the cluster authenticates",
    "keyfile": "key file of the writer, where the cluster encrypts; default ORDO_KEY_FILE",
    "trustedfile": "keys that the writer trusts; default ORDO_TRUSTED_FILE",
}
BATCH_PROPERTY = "streaming.sql.batchId"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WriteSettings:
    """Checked options of a write."""

    endpoints: dict[int, str]
    writer: str
    window: int
    timeout_s: int
    egress: str | None
    attempt: int
    """Names this run of the write, for all its tasks and their tries."""
    token_file: str = ""
    key_file: str = ""
    trusted_file: str = ""
    partitions: int | None = None
    """How many partitions the frame has, where that is said: Spark tells it to no Python sink."""

    @classmethod
    def parse(cls, given: Mapping[str, str], schema: StructType, overwrite: bool) -> WriteSettings:
        """Raise PipelineError for what is missing or not allowed."""
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
            timeout,
            values.get("egress"),
            1 + int.from_bytes(os.urandom(7)),
            values.get("tokenfile", ""),
            values.get("keyfile", ""),
            values.get("trustedfile", ""),
            _partitions(values),
        )

    def client_settings(self) -> ClientSettings:
        """Return the settings of the client that a task writes with. Raises PipelineError when it reaches no member."""
        return ClientSettings(
            egress_channel=self.egress or local_egress(self.endpoints),
            connect_timeout_s=self.timeout_s,
            outstanding_requests_max=min(self.window, OUTSTANDING_REQUESTS_LIMIT),
            credentials=credentials_from_file(self.token_file) if self.token_file else b"",
            key_file=self.key_file,
            trusted_file=self.trusted_file,
        )


def _partitions(values: Mapping[str, str]) -> int | None:
    text = values.get("partitions")
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= WRITTEN_MAX:
        raise PipelineError(
            f"option partitions={text!r} of a write must be the number of the frame's partitions, 1 to {WRITTEN_MAX}"
        )
    return int(text)


@dataclass
class Written(WriterCommitMessage):
    """What a task has sent."""

    sent: Sent


def write_partition(options: WriteSettings, batches: Iterator[pa.RecordBatch]) -> Written:
    """Publish one partition; comes back when the service has applied all of it."""
    from ordo.cluster.client.session import ClusterClient

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    if options.partitions is not None and partition >= options.partitions:
        raise PipelineError(
            f"write {options.writer!r}: the frame has a partition {partition}, from 0 on, and option partitions says "
            f"{options.partitions}; give frame.rdd.getNumPartitions()"
        )
    batch = int((context.getLocalProperty(BATCH_PROPERTY) if context is not None else None) or 0)
    part = Part(options.writer, options.attempt, partition, batch)
    with ClusterClient(options.endpoints, settings=options.client_settings()) as client:
        writer = SequencedWriter(client, part, WriterSettings(options.window, options.timeout_s))
        return Written(writer.write(payloads_of(batches, partition)))


def check_retry(options: WriteSettings) -> None:
    """Refuse a write that lacks partitions of an earlier try, where it is said how many it has.

    Raises WriteRefusedError, TimeoutError.
    """
    from ordo.cluster.client.session import ClusterClient

    if options.partitions is not None:
        settings = WriterSettings(options.window, options.timeout_s)
        with ClusterClient(options.endpoints, settings=options.client_settings()) as client:
            check_partitions(client, options.writer, options.attempt, options.partitions, settings)


def payloads_of(batches: Iterator[pa.RecordBatch], partition: int) -> Iterator[bytes]:
    """Yield the payloads of a partition. Raises PipelineError for a row that has none."""
    row = 0
    for found in batches:
        for payload in found["payload"].to_pylist():
            row += 1
            if payload is None:
                raise PipelineError(
                    f"row {row} of partition {partition} has null as its payload, which is no message: leave such rows "
                    f"out (where payload is not null), or write an empty payload"
                )
            yield payload


def tell_refusals(options: WriteSettings, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Log how many messages the service refused. They are in the log all the same, and are not sent again."""
    sent = [message.sent for message in messages if isinstance(message, Written)]
    if refused := sum(one.refused for one in sent):
        first = next(one.first_refusal for one in sent if one.refused)
        total = sum(one.messages for one in sent)
        _log.warning(
            "write %r: the service refused %d of %d messages; the first: %s", options.writer, refused, total, first
        )


def local_egress(endpoints: Mapping[int, str]) -> str:
    """Return the channel for answers on the address by which this machine reaches the members; a port that is free.

    Raises PipelineError when it reaches none of them.
    """
    address = address_towards(endpoints.values())
    if address is None:
        raise PipelineError(f"no way to any member from here: endpoints {dict(endpoints)}; give host:port of each")
    return f"aeron:udp?endpoint={f'[{address}]' if ':' in address else address}:0"


class ClusterWriter(DataSourceArrowWriter):
    """Writes a data frame to a cluster as one batch. Raises WriteRefusedError before any task where it can be told."""

    def __init__(self, options: WriteSettings) -> None:
        check_retry(options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_partition(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        tell_refusals(self._options, messages)


class ClusterStreamWriter(DataSourceStreamArrowWriter):
    """Streaming writes; a batch that is tried again is recognised by its number."""

    def __init__(self, options: WriteSettings) -> None:
        if options.partitions is not None:
            raise PipelineError("option partitions is for a frame: a stream's batches have each its own; leave it out")
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_partition(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        tell_refusals(self._options, messages)
