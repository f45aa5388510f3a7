"""The unit of the log's time: that of the first record of the newest term. Snapshots name it as well.

A log keeps the unit that it was begun with, unless the setting of a leader's `time_unit_from` names it: then a term of
that leader begins with the finer `time_unit`, and the log goes on in it, for good (docs/CONCEPTS.md, Time). Members
follow, whatever their own settings say. It needs a protocol level of the log, and services that can convert the times
of their states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ordo.cluster.wire import codecs
from ordo.cluster.wire.codecs import find_time_unit
from ordo.cluster.wire.levels import TIME_UNIT_LEVEL
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.runtime.native.sentinels import NULL_POSITION

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.state.recovery import Recovery
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel


class TimeHost(Protocol):
    """The member whose log it is."""

    def announce(self, event: str, text: str) -> None: ...


class UnitChange(NamedTuple):
    """From the term on whose first record ends at `position` the log has this unit; -1: from the snapshot on."""

    position: int
    unit: TimeUnit


class LogTime:
    """The unit at each position of one member's log. Refuses a log, or a snapshot, that its settings do not allow."""

    def __init__(
        self,
        host: TimeHost,
        levels: ProtocolLevel,
        unit: TimeUnit,
        former: TimeUnit | None,
        converts: Callable[[], bool],
        set_unit: Callable[[TimeUnit], None],
    ) -> None:
        """Take the settings `time_unit` and `time_unit_from`.

        `converts` says whether all own services convert their times, `set_unit` takes the unit at the log's end.
        """
        self._host = host
        self._levels = levels
        self._setting = unit
        self._former = former
        self._converts = converts
        self._set_unit = set_unit
        self._changes: list[UnitChange] = []
        self._has_told = False

    def start(self, recovery: Recovery) -> None:
        """Take the unit of the snapshot that the member starts from. Raises ClusterError for one that is none."""
        if recovery.contents is not None:
            self._take(NULL_POSITION, recovery.contents.point.time_unit, "the snapshot")

    def go_on(self) -> None:
        """Check the unit at the end of the log, which was read. Raises ClusterError for one that is not the setting."""
        if self._changes:
            self._demand(self._changes[-1].unit, self._where(self._changes[-1].position))

    def on_record(self, record: LogRecord) -> None:
        """Check a record of this member's durable log. Raises ClusterError."""
        if record.table is codecs.NEW_LEADERSHIP_TERM_EVENT:
            self._take(record.position, record.values.time_unit, self._where(record.position))

    def truncate(self, position: int) -> None:
        """Forget what was read beyond `position`, where the log was cut."""
        while self._changes and self._changes[-1].position > position:
            self._changes.pop()
        if self._changes:
            self._set_unit(self._changes[-1].unit)

    def at(self, log_position: int) -> TimeUnit:
        """Return the unit at a position of the log."""
        found = (one.unit for one in reversed(self._changes) if one.position <= log_position)
        return next(found, self._setting)

    def begin_term(self) -> TimeUnit:
        """Return the unit of the term that this member is about to lead."""
        newest = self._changes[-1].unit if self._changes else self._setting
        if self._setting > newest and not self._refuses():
            newest = self._setting
        self._set_unit(newest)
        return newest

    def _refuses(self) -> bool:
        """Return whether the log cannot go over to the setting now; says why, once."""
        if self._levels.newest < TIME_UNIT_LEVEL:
            return True
        if self._converts():
            return False
        if not self._has_told:
            self._has_told = True
            self._host.announce(
                "cluster.time_unit",
                f'this term goes on in the log\'s unit of time, not in time_unit = "{self._setting.symbol}": not all '
                "services of this member have said that they convert the times of their states (on_time_unit); once "
                "they have, the next change of leaders changes the unit (`ordo cluster transfer`)",
            )
        return True

    def _take(self, position: int, value: int, where: str) -> None:
        found = find_time_unit(value)
        newest = self._changes[-1].unit if self._changes else None
        if found is None or (newest is None and found not in (self._setting, self._former) and position > 0):
            raise self._refusal(value, where)
        if found is not newest:
            if newest is not None and (found < newest or self._levels.newest < TIME_UNIT_LEVEL):
                raise self._refusal(value, where)
            self._changes.append(UnitChange(position, found))
        self._set_unit(found)  # also where it is the newest: this member may have begun a term that did not come to be

    def _where(self, position: int) -> str:
        return "the snapshot" if position == NULL_POSITION else f"the log at position {position}"

    def _demand(self, found: TimeUnit, where: str) -> None:
        if found not in (self._setting, self._former):
            raise self._refusal(found, where)

    def _refusal(self, value: int, where: str) -> ClusterError:
        found = find_time_unit(value)
        text = str(value) if found is None else f'"{found.symbol}"'
        return ClusterError(
            f'{where} has time in the unit {text}, and this member has time_unit = "{self._setting.symbol}": give '
            "[cluster] time_unit of all members the unit that the log has"
        )
