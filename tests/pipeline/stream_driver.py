"""A streaming query as a process of its own, to be killed: python stream_driver.py <folder> <archive> <commit> <mode>

Each batch becomes one file, named by the batch's number and put in place whole. A batch that was there already has to
have the same bytes; otherwise `conflict` is written. Mode `follow` never ends, `rest` takes what is there and ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from ordo.pipeline.spark.session import local_session


def main(folder: Path, archive: str, commit: str, mode: str) -> None:
    spark = local_session("stream", 2, str(folder / "scratch"), memory="512m")
    spark.conf.set("spark.sql.shuffle.partitions", "1")

    def handle(frame: DataFrame, batch_id: int) -> None:
        lines = [
            f"{row.position} {row.kind} {bytes(row.payload).hex()}\n" for row in frame.orderBy("position").collect()
        ]
        data, target = "".join(lines), folder / "batches" / str(batch_id)
        if target.exists() and target.read_text() != data:
            (folder / "conflict").write_text(f"batch {batch_id}")
        made = folder / f"{batch_id}.new"
        made.write_text(data)
        os.replace(made, target)

    rows_max = 20_000 if mode == "rest" else 100
    stream = spark.readStream.format("ordo").option("startingPosition", "earliest").option("commit", commit)
    stream = stream.option("maxRecordsPerTrigger", rows_max).option("columns", "position,kind,payload")
    query = stream.load(archive).writeStream.foreachBatch(handle)
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    trigger = query.trigger(availableNow=True) if mode == "rest" else query.trigger(processingTime="50 milliseconds")
    trigger.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: not to outlive the test
    main(Path(sys.argv[1]), *sys.argv[2:5])
