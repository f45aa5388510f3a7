"""The process that forks Spark's Python workers in tests: one that has imported what they need.

Spark forks a new worker for each data source it plans, and each of them would import pyarrow and `ordo` anew. A
worker also looks for garbage after each task: what is imported here is left out of that.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

BESIDES = {"pyspark.worker": ("pandas",)}
"""What workers of one kind need besides."""
IMPORTED = (
    *("pyarrow.compute", "pyspark.sql.pandas.types", "pyspark.sql.pandas.serializers"),
    *("ordo.pipeline.spark.source", "ordo.pipeline.spark.sink"),
)


def main() -> None:
    """Import, and go on as Spark's own daemon, whose argument is the kind of worker."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a fork takes no threads along
    kind = sys.argv[1]
    for module in (kind, *IMPORTED, *BESIDES.get(kind, ())):
        import_module(module)
    gc.freeze()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
