"""Watches the lag of the member's own service behind the commit position, and what it means for leading.

    lag        for a second something committed has not been executed: the member stands back from leading where another
               voter does not (ordo.consensus.handlers.trust), so that clients are answered by one that is level
    standstill the service has executed nothing for `service_timeout` although something is committed: a leader says so
               and hands over, to a member that is level; where there is none it leads on
    backlog    as much of the log waits for the leader's service as may (`service_backlog`, ordo.sequencer.quotas):
               messages of clients wait in their ingress, and with them what keeps their sessions open

Nothing of this touches the log, or what is acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.state.host import MemberHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.state.counters import LowestPosition
    from ordo.cluster.module.state.settings import ClusterSettings
    from ordo.runtime.native.counters import Counter

LAG_NS = 1_000_000_000
LEVEL_NS = LAG_NS // 2
TOUCH_INTERVAL_NS = 500_000_000


class ServiceHost(MemberHost, Protocol):
    """The member whose service is watched."""

    @property
    def is_leader(self) -> bool: ...


class Successors(Protocol):
    """The calls that report the service's lag to consensus, and ask for successors."""

    @property
    def successors(self) -> list[int]: ...
    def lag(self, lags: bool) -> None: ...


class Ingress(Protocol):
    """How far the log goes, and how much of it is committed."""

    @property
    def commit_position(self) -> int: ...
    @property
    def log_end_position(self) -> int: ...


class ServiceWatch:
    """Watches one member's service; `work` looks at it with every slow tick."""

    def __init__(
        self,
        host: ServiceHost,
        settings: ClusterSettings,
        core: Successors,
        sequencer: Ingress,
        service_position: Counter | LowestPosition,
        touch_sessions: Callable[[], None],
    ) -> None:
        """Take the member's parts; `touch_sessions` counts every session as heard from now."""
        self._host = host
        self._touch_sessions = touch_sessions
        self._timeout_ns = settings.service_timeout_ns
        self._backlog_bytes = settings.service_backlog_bytes
        self._core = core
        self._sequencer = sequencer
        self._service_position = service_position
        self._mark = (0, 0)
        """A position that was committed, and when it was seen."""
        self._moved = (-1, 0)
        """Where the service was last seen to move, and when."""
        self._touch_ns = 0
        self._told_ns: int | None = None
        self.lags = False

    def work(self, now_ns: int) -> None:
        """Check once; called with every slow tick."""
        committed, executed = int(self._sequencer.commit_position), self._service_position.value
        self._look_for_lag(committed, executed, now_ns)
        if executed != self._moved[0] or executed >= committed:
            self._moved = executed, now_ns
            self._told_ns = None
        if self._host.is_leader:
            self._hand_over(committed, executed, now_ns)
            self._keep_open(max(committed, self._sequencer.log_end_position) - executed, now_ns)

    def _look_for_lag(self, committed: int, executed: int, now_ns: int) -> None:
        position, seen_ns = self._mark
        lag_ns = now_ns - seen_ns
        if executed < position:
            self.lags = self.lags or lag_ns > LAG_NS
        else:
            self.lags = self.lags and lag_ns > LEVEL_NS and executed < committed
            self._mark = committed, now_ns
        self._core.lag(self.lags)

    def _hand_over(self, committed: int, executed: int, now_ns: int) -> None:
        stood_ns = now_ns - self._moved[1]
        if stood_ns < self._timeout_ns or (self._told_ns is not None and now_ns - self._told_ns < self._timeout_ns):
            return
        successors = self._core.successors
        what = "this member hands over" if successors else "no other member's service is level, so it leads on"
        if self._told_ns is None or successors:
            self._host.record_error(
                f"the service has executed nothing for {stood_ns / 1e9:.0f} s (service_timeout) and stands at log "
                f"position {executed}, {committed - executed} bytes behind what is committed: {what}; see what its "
                "process does"
            )
        self._told_ns = now_ns
        if successors:
            self._host.transfer.begin(None, now_ns)

    def _keep_open(self, backlog_bytes: int, now_ns: int) -> None:
        """Keep open the sessions whose messages delay their own keep-alives."""
        if backlog_bytes > self._backlog_bytes // 2 and now_ns >= self._touch_ns:
            self._touch_ns = now_ns + TOUCH_INTERVAL_NS
            self._touch_sessions()
