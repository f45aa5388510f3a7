"""Keeps cluster time, and reports when the wall clock is far from it (docs/ARCHITECTURE.md, Cluster time)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.consensus.state.messages import Message, NewLeadershipTerm
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.sequencer.cluster_clock import ClusterClock

if TYPE_CHECKING:
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.native.counters import Counter

FAR_MS = 1_000
"""More than clocks that are kept in step differ by."""
NEAR_MS = 500


class Announcer(Protocol):
    def announce(self, event: str, text: str) -> None: ...


class Scanned(Protocol):
    @property
    def last_timestamp(self) -> int: ...


class Recovered(Protocol):
    """The part of the recovery plan that cluster time starts from."""

    @property
    def log_timestamp(self) -> int:
        """The cluster time where the scan of this member's log begins."""


class ClockWatch:
    """Reports when the wall clock is more than a second off cluster time.

    It writes one line when the difference is found, one for each further step of the wall clock, and one when the two
    agree again. The counter has the difference in milliseconds.
    """

    def __init__(
        self,
        host: Announcer,
        core: ConsensusCore,
        sequencer: Scanned,
        wall_clock: Clock,
        counter: Counter,
        recovery: Recovered,
        unit: TimeUnit = TimeUnit.MILLIS,
    ) -> None:
        """Take the member's parts, and the unit of its cluster's time."""
        self._host = host
        self._core = core
        self._sequencer = sequencer
        self.clock = ClusterClock(wall_clock, unit)
        self._recovery = recovery
        self.clock.note(recovery.log_timestamp)
        self._counter = counter
        self._told_ms = 0

    def now(self) -> int:
        """Return cluster time in its unit, never earlier than any record of this member's log."""
        self.clock.note(self._sequencer.last_timestamp)
        return self.clock.now()

    def set_unit(self, unit: TimeUnit) -> None:
        """Go on in the unit that the log's end has now; records of the other one are not forgotten."""
        self.clock.note(self._sequencer.last_timestamp)
        self.clock.set_unit(unit)
        self.clock.note(self._recovery.log_timestamp)

    def note(self, values: object) -> None:
        """Take note of a record that became durable in this member's log."""
        self.clock.note(getattr(values, "timestamp", 0))

    def on_message(self, message: Message) -> None:
        """Take over the time of the leader that this member follows: its own may have been wrong since its start."""
        if isinstance(message, NewLeadershipTerm) and self._core.is_bound_to(
            message.leadership_term_id, message.leader_member_id
        ):
            self.clock.adopt(message.timestamp)

    def work(self) -> None:
        """Check the wall clock; called with every slow tick."""
        ahead_ms = self.clock.wall_clock_ahead_ms
        self._counter.set(ahead_ms)
        if abs(ahead_ms) < NEAR_MS and self._told_ms:
            self._told_ms = 0
            self._host.announce("cluster.clock", "the wall clock agrees with cluster time again")
        elif abs(ahead_ms) > FAR_MS and abs(ahead_ms - self._told_ms) > FAR_MS:
            self._tell(ahead_ms)

    def _tell(self, ahead_ms: int) -> None:
        self._told_ms = ahead_ms
        seconds, side = abs(ahead_ms) / 1000, "ahead of" if ahead_ms > 0 else "behind"
        self._host.announce(
            "cluster.clock",
            f"the wall clock of this member is {seconds:.1f} s {side} cluster time, which goes on evenly and is drawn "
            "towards the wall clock of the leader by one part in a thousand; if the wall clock is wrong, correct it",
        )
