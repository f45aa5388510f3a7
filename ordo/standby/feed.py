"""Feeds a standby's node with the primary's log: recorded as a backup records it, and executed as a member's log is."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ordo.backup.follow import LogBackup
from ordo.backup.report import STOPPED
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS
from ordo.standby.folder import NodeFolder, Write
from ordo.standby.lag import Lag

if TYPE_CHECKING:
    from ordo.archive.client.session import Reply
    from ordo.archive.recorder import Recording
    from ordo.backup.log_copy import LogCopy
    from ordo.cluster.node.node import Node
    from ordo.runtime.native.counters import Counter

MEASURE_INTERVAL_NS = 250_000_000
MEASURE_PATIENCE_NS = 5 * SECOND_NS
UNKNOWN_MS = -1000


@dataclass(frozen=True)
class Primary:
    """The cluster that a standby follows."""

    addresses: list[str]
    """Ingress of some members, or of another standby."""
    credentials: bytes = b""
    interval_s: float = 10.0
    """Members are asked so often who they are."""
    report: Callable[[str], None] = field(default=lambda _: None)
    """Takes one line for the log of the process."""


class Feed:
    """Follows the primary's log into the log of one node. `work` with every slow tick, until `close`."""

    def __init__(self, node: Node, primary: Primary, write: Write) -> None:
        """`write` writes the status, once a second, and the primary's addresses."""
        self._module = module = node.module
        self._clock = module.base.seams.clock
        self._folder = NodeFolder(
            node.config.node.data_dir,
            node.archive,
            module.base.seams.store,
            lambda: module.log.recording_id,
            write,
            self._describe,
        )
        self._backup = LogBackup(
            self._folder,
            node.client,
            primary.addresses,
            credentials=primary.credentials,
            interval_s=primary.interval_s,
            report=primary.report,
            standby_id=node.config.node.member_id,
        )
        self._attached: Recording | None = None
        self._question: tuple[int, Reply] | None = None
        """When a node was asked how far its log is committed, in ns, and its reply."""
        self._measure_ns = 0
        self._now_ns = 0
        self._is_closed = False
        self.lag = Lag()
        self.has_gap = False
        """The primary has let go of the log that comes next: the standby begins anew with a snapshot."""
        self._counters = _Counters(node)

    def work(self, now_ns: int) -> None:
        """Run one duty cycle.

        Raises StorageError; OtherClusterError where the primary is another cluster than the log's, ConfigurationError
        where one of its members has this node's id.
        """
        if self._is_closed or self.has_gap:
            return
        self._now_ns = now_ns
        self._backup.work(now_ns)
        copy = self._backup.log
        if copy is None:
            return
        self._follow(copy)
        self._measure(copy, now_ns)
        self.lag.reach(copy.position)
        self._counters.show(self.lag, now_ns)

    def _follow(self, copy: LogCopy) -> None:
        """Have the node's log grow with the copy."""
        log = self._module.log
        self.has_gap = copy.has_left_gap
        if copy.recording is self._attached:
            return
        if copy.recording is not None and not self.has_gap:
            log.take_copy(copy.recording)
            self._attached = copy.recording
        elif self._attached is not None:
            log.release_copy()
            self._attached = None

    def _measure(self, copy: LogCopy, now_ns: int) -> None:
        """Ask the node that is read how far it is; a node that was left does not answer any more."""
        if self._question is not None and self._question[1].is_done:
            asked_ns, reply = self._question
            self._question = None
            if reply.error is None:
                self.lag.answer(reply.relevant_id, asked_ns, now_ns)
                self._counters.heartbeats.increment()
        if now_ns < self._measure_ns:
            return
        self._measure_ns = now_ns + MEASURE_INTERVAL_NS
        self._counters.source.set(self._backup.source_member_id)
        if self._question is None or now_ns - self._question[0] > MEASURE_PATIENCE_NS:
            reply_to_come = copy.measure()
            self._question = None if reply_to_come is None else (now_ns, reply_to_come)

    def _describe(self) -> dict[str, object]:
        behind_ns, silent_ns = self.lag.behind_ns(self._now_ns), self.lag.silent_ns(self._now_ns)
        # Before a member has answered there is no copy that says how far it is; the log is there all the same.
        own = {"position": self._module.sequencer.append_position} if self._backup.log is None else {}
        return {
            **own,
            "primary_position": self.lag.primary_position,
            "lag_bytes": self.lag.behind_bytes if self.lag.primary_position >= 0 else None,
            "lag_seconds": None if behind_ns is None else round(behind_ns / SECOND_NS, 3),
            "heard_seconds_ago": None if silent_ns is None else round(silent_ns / SECOND_NS, 3),
            "executed_position": self._module.counters.service_position.value,
            "told_ms": self._clock.epoch_ms(),
        }

    def look(self) -> dict[str, int]:
        """Return the lag as the console and `ordo top` have it; nothing of one that does not follow any more."""
        if self._is_closed or self.lag.primary_position < 0:
            return {}
        found, behind_ns = {"standby_lag_bytes": self.lag.behind_bytes}, self.lag.behind_ns(self._now_ns)
        return found if behind_ns is None else found | {"standby_lag_ms": behind_ns // MILLISECOND_NS}

    @property
    def silent_ns(self) -> int | None:
        """How long ago the primary answered; None: not since the start."""
        return self.lag.silent_ns(self._clock.now())

    def close(self) -> None:
        """End following, properly; what was copied stays, and is told. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        told = self._backup.status()
        self._backup.close()
        if self.lag.heard_ns is not None:
            self._folder.write_status({**told, "state": STOPPED})
        if self._attached is not None:
            self._attached = None
            self._module.log.release_copy()


class _Counters:
    """The counters that say whom the standby follows, and how far it is behind."""

    def __init__(self, node: Node) -> None:
        cluster_id = node.config.cluster.cluster_id
        key = struct.pack("<i", cluster_id)

        def add(type_id: CounterType, name: str, value: int) -> Counter:
            made: Counter = node.client.add_counter(int(type_id), f"{name} - clusterId={cluster_id}", key)
            made.set(value)
            return made

        self._behind_bytes = add(CounterType.STANDBY_LAG_BYTES, "ordo standby lag in bytes", 0)
        self._behind_ms = add(CounterType.STANDBY_LAG_MS, "ordo standby lag in ms", UNKNOWN_MS)
        self._silent_ms = add(CounterType.STANDBY_HEARD_MS, "ordo standby heard its primary ms ago", UNKNOWN_MS)
        self.heartbeats = add(CounterType.STANDBY_HEARTBEATS, "Cluster standby heartbeat response count", 0)
        self.source = add(CounterType.STANDBY_SOURCE_MEMBER, "Cluster standby source member id", NULL_VALUE)

    def show(self, lag: Lag, now_ns: int) -> None:
        self._behind_bytes.set(lag.behind_bytes)
        self._behind_ms.set(_ms(lag.behind_ns(now_ns)))
        self._silent_ms.set(_ms(lag.silent_ns(now_ns)))


def _ms(value_ns: int | None) -> int:
    return UNKNOWN_MS if value_ns is None else value_ns // MILLISECOND_NS
