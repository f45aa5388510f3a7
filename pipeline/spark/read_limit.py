"""How much one micro-batch of a stream takes, by the options of the read."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from ordo.pipeline.recordings.options import ReadSettings


def default_read_limit(options: ReadSettings) -> ReadLimit:
    """`maxBytesPerTrigger` or `maxRecordsPerTrigger`; without them everything there is."""
    if options.bytes_per_trigger_max is not None:
        return ReadMaxBytes(options.bytes_per_trigger_max)
    if options.records_per_trigger_max is not None:
        return ReadMaxRows(options.records_per_trigger_max)
    return ReadAllAvailable()
