"""The data pipeline on Spark: recordings as data frames, jobs over them, and a writer into a cluster.

`OrdoLog` and `register` need pyspark (`pip install 'ordo-sequencer[pipeline]'`); they are imported when first asked
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.source import OrdoLog, register

__all__ = ["OrdoLog", "register"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from pipeline import source

        return getattr(source, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
