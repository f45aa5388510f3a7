"""Says in the log how well the clock is known that stamps it (docs/SIZING.md, How well a clock is known).

Only the leader's clock stamps records, so only the leader reports: when its term begins, and then at intervals as long
as the log grows. A log at rest stays at rest. The record changes no state; audits read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.state.host import AppendingHost
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.levels import CLOCK_LEVEL
from ordo.cluster.wire.ordo_codecs import ClockSource
from ordo.runtime.native.cluster_time import time_ns
from ordo.runtime.native.sentinels import NULL_POSITION, NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel
    from ordo.runtime.native.clock import Clock

AGAIN_NS = 100_000_000
"""After so long a report is tried again that could not be appended."""


class LedLog(Protocol):
    """The log as its leader writes it."""

    @property
    def log_end_position(self) -> int: ...


class ClockReports:
    """Appends the reports of one member, while it leads."""

    def __init__(
        self,
        host: AppendingHost,
        log: LedLog,
        levels: ProtocolLevel,
        clock: Clock,
        own_id: int,
        interval_ns: int,
    ) -> None:
        """Take the member's parts. `interval_ns`: 0 for no reports."""
        self._host = host
        self._log = log
        self._levels = levels
        self._clock = clock
        self._own_id = own_id
        self._interval_ns = interval_ns
        self._term_id = NULL_VALUE
        """The term that the next two are of: what was due in an earlier one is of no concern in this one."""
        self._due_ns = 0
        self._begin = self._end = NULL_POSITION
        """Where the newest report is in the log: while that ends there, there is nothing to report of."""

    def work(self, now_ns: int) -> None:
        """Append the report that is due; called at each turn of the periodic work."""
        host = self._host
        if not self._interval_ns or not host.is_leader or self._levels.newest < CLOCK_LEVEL:
            return
        if host.leadership_term_id != self._term_id:
            self._term_id, self._due_ns, self._end = host.leadership_term_id, now_ns, NULL_POSITION
        begin = self._log.log_end_position
        if now_ns < self._due_ns or begin == self._end:
            return
        if host.append(self._encode()):
            self._due_ns, self._begin, self._end = now_ns + self._interval_ns, begin, self._log.log_end_position
        else:
            self._due_ns = now_ns + AGAIN_NS

    def is_all_between(self, begin_position: int, end_position: int) -> bool:
        """Return whether the newest report is all that the log has between two positions."""
        return (begin_position, end_position) == (self._begin, self._end)

    def _encode(self) -> bytes:
        """Return a report of this moment: what was told of the clock earlier may not be true any more."""
        host, told = self._host, self._clock.quality()
        timestamp = host.cluster_time
        return ordo_codecs.CLOCK_EVENT.encode(
            leadership_term_id=host.leadership_term_id,
            timestamp=timestamp,
            offset_ns=0 if told is None else told.offset_ns,
            error_estimate_ns=0 if told is None else told.error_estimate_ns,
            error_bound_ns=0 if told is None else told.error_bound_ns,
            wall_clock_ahead_ns=self._clock.epoch_ns() - time_ns(timestamp),
            interval_ns=self._interval_ns,
            member_id=self._own_id,
            source=ClockSource.NONE if told is None else ClockSource.KERNEL,
            is_synchronized=int(told is not None and told.is_synchronized),
        )
