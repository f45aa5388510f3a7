"""Decode: application payloads into columns of a data frame (pipeline/decoding/payloads.py)."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from ordo.pipeline.decoding.payloads import PayloadDecoder, decode_batches, decoded_schema
from ordo.pipeline.spark.executed import executed_once


def decode(log: DataFrame, decoder: PayloadDecoder, column: str = "payload", repeats: bool = False) -> DataFrame:
    """Return the frame with `message`, `version`, `problem` and a struct column for each message of the decoder.

    Copies of requests that were not executed are left out, for which the frame needs its column `is_repeat`; with
    `repeats` they stay.
    """
    log = log if repeats else executed_once(log)
    schema = decoded_schema(to_arrow_schema(log.schema, timezone="UTC"), decoder, column)
    return log.mapInArrow(partial(decode_batches, decoder, column, schema), from_arrow_schema(schema))
