"""Copies what is new of a topic by Spark's own source and sink: `spark_copy.py JARS ADDRESS TOPIC CHECKPOINT`."""

from __future__ import annotations

import sys


def copy(jars: str, address: str, topic: str, checkpoint: str) -> None:
    """Copy to `TOPIC-copy`, from the checkpoint to the end."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    session = spark.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    server = "kafka.bootstrap.servers"
    source = session.readStream.format("kafka").option(server, address).option("subscribe", topic)
    rows = source.option("startingOffsets", "earliest").load().selectExpr("key", "value")
    sink = rows.writeStream.format("kafka").option(server, address).option("topic", f"{topic}-copy")
    query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    copy(*sys.argv[1:])
