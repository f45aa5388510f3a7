"""This member as its parts see it: who it is, which term it serves, what time it is, and whether it has ended.

The parts of a consensus module are given this, and none of them the module itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire.members import ingress_endpoints
from ordo.runtime.native.cluster_time import time_ms
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.state.clock_watch import ClockWatch
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import Replication
    from ordo.cluster.module.state.settings import ModuleSettings
    from ordo.cluster.module.state.transfer import LeadershipTransfer
    from ordo.cluster.wire.counters.component_errors import ComponentErrors


class Notices:
    """Writes a member's notices: lines of the process's log, and errors, which it also counts."""

    def __init__(
        self, member_id: int, counters: ModuleCounters, errors: ComponentErrors, events: Callable[..., object]
    ) -> None:
        self._member_id = member_id
        self._counters = counters
        self._errors = errors
        self._events = events

    def announce(self, event: str, text: str) -> None:
        """Write one line to the log of the process."""
        self._events(event, member_id=self._member_id, text=text)

    def record_error(self, message: str) -> None:
        """Count an error, and write it to the error log."""
        self._counters.errors.increment()
        self._errors.record_text(message)

    def on_invalid_request(self, detail: str) -> None:
        """Count a refused request, and log one line."""
        self._counters.invalid_requests.increment()
        self.record_error(detail)


class AppendGate(Protocol):
    """What says whether this member, if it leads, may append."""

    def holds_appends(self) -> bool: ...
    def is_log_over(self) -> bool: ...


class OwnMember:
    """The state of the member as a whole. Each part names the few calls that it needs as a Protocol."""

    transfer: LeadershipTransfer
    """Hands this member's leadership over; set once, when the transfer is built."""

    def __init__(
        self,
        config: ModuleSettings,
        notices: Notices,
        clock_watch: ClockWatch,
        replication: Replication,
        gate: AppendGate,
    ) -> None:
        """Take what the member speaks, tells time and appends with; `gate` says while nothing is appended."""
        self.member_id = config.member_id
        self.heartbeat_timeout_ns = config.leader_heartbeat_timeout_ns
        self.leadership_term_id = NULL_VALUE
        self.has_ended = False
        """The node is to stop; it looks at this after every duty cycle."""
        self.starts_again = False
        """Together with `has_ended`: the node is to be built anew from its folders, at once."""
        self.clock_watch = clock_watch
        self._serving_term = NULL_VALUE
        self._notices = notices
        self._replication = replication
        self._gate = gate

    # -- the term --------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """True while this member serves as leader: its term is established and executed."""
        return self._serving_term != NULL_VALUE

    def serve(self, leadership_term_id: int) -> None:
        """Serve as the leader of a term: the first record of it is committed and executed."""
        self._serving_term = self.leadership_term_id = leadership_term_id

    def stop_serving(self) -> None:
        """Serve no longer; the term stays known until another is joined or led."""
        self._serving_term = NULL_VALUE

    @property
    def cluster_time(self) -> int:
        """Epoch time as the cluster has it, in its unit; never earlier than any record of this member's log."""
        return self.clock_watch.now()

    @property
    def cluster_time_ms(self) -> int:
        """Cluster time in milliseconds, whatever its unit."""
        return time_ms(self.cluster_time)

    @property
    def ingress_endpoints(self) -> str:
        """Where clients reach the voters of the configuration in force."""
        replication = self._replication
        return ingress_endpoints(replication.contacts.find(replication.core.configuration.voter_ids))

    @property
    def is_log_over(self) -> bool:
        """Whether a standby goes on with the log, which has ended: nothing is changed any more."""
        return self._gate.is_log_over()

    def append(self, record: bytes) -> bool:
        """Append a record as the serving leader. Returns False while nothing is sequenced."""
        return self.is_leader and not self._gate.holds_appends() and self._replication.sequencer.append(record) > 0

    # -- what it says ----------------------------------------------------------------------------------------------

    def announce(self, event: str, text: str) -> None:
        """Write one line to the log of the process."""
        self._notices.announce(event, text)

    def record_error(self, message: str) -> None:
        """Count an error, and write it to the error log."""
        self._notices.record_error(message)

    def on_invalid_request(self, detail: str) -> None:
        """Count a refused request, and log one line."""
        self._notices.on_invalid_request(detail)

    def start_again(self, reason: str) -> None:
        """End the node, so that it is rebuilt from its folders."""
        self.announce("cluster.restart", reason)
        self.starts_again = self.has_ended = True
