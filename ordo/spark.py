"""The data pipeline on Spark: `OrdoLog` for data frames of a log, `register` for `spark.read.format("ordo")`.

Needs pyspark: `pip install 'ordo-sequencer[pipeline]'`. `ordo.read` reads a log without Spark.
"""

from ordo.pipeline.generate import LogShape, generate_log
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.spark.source import OrdoLog, register

__all__ = ["LogShape", "OrdoLog", "audit", "generate_log", "register"]
