"""The unit of the log's time, fixed for all of it: the first record of every term and every snapshot name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire import codecs
from ordo.cluster.wire.codecs import find_time_unit
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.cluster_time import TimeUnit

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.state.recovery import Recovery


class LogTime:
    """Refuses a log, or a snapshot, whose unit of time is not the one of this member's setting."""

    def __init__(self, unit: TimeUnit) -> None:
        self.unit = unit

    def start(self, recovery: Recovery) -> None:
        """Check the snapshot that the member starts from. Raises ClusterError."""
        if recovery.contents is not None:
            self._demand(recovery.contents.point.time_unit, "the snapshot")

    def on_record(self, record: LogRecord) -> None:
        """Check a record of this member's durable log. Raises ClusterError."""
        if record.table is codecs.NEW_LEADERSHIP_TERM_EVENT:
            self._demand(record.values.time_unit, f"the log at position {record.position}")

    def _demand(self, value: int, where: str) -> None:
        found = find_time_unit(value)
        if found is self.unit:
            return
        text = str(value) if found is None else f'"{found.symbol}"'
        raise ClusterError(
            f'{where} has time in the unit {text}, and this member has time_unit = "{self.unit.symbol}": give '
            "[cluster] time_unit of all members the unit that the log was begun with"
        )
