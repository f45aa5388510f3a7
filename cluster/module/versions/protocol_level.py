"""The kinds of records that the log may have: those that the release of every member knows (docs/UPGRADES.md).

A release that brings new kinds of records, or new parts of the module's snapshot, has a higher protocol level.
While the log has a lower one than a member's release, that member tells the others so. When all members have said that
they know a higher one, the leader appends a LevelEvent: from there on what is new may be written. There is no way back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.cluster.module.state.host import AppendingHost
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.levels import (
    FIRST_LEVEL,
    PROTOCOL_LEVEL,
    REQUEST_ID_LEVEL,
    SERVICE_VERSION_LEVEL,
    level_of,
)
from ordo.runtime.errors import ClusterError, DecodeError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import bind

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.wire import records
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.sbe import Message

LEVEL_MAX = 1 << 16
SILENCE_NS_MAX = 3_000_000_000
"""What a member has said counts for so long: it may start again with another release."""


class LevelHost(AppendingHost, Protocol):
    """The member whose level it is."""

    def announce(self, event: str, text: str) -> None: ...


class LevelChange(NamedTuple):
    """A change of the level.

    `position` -1: before the snapshot that the member started from, or since the log began.
    """

    position: int
    level: int


class _Report(NamedTuple):
    level: int
    heard_ns: int


class ProtocolLevel:
    """One member's knowledge of the log's level. `own_level` is that of its release."""

    def __init__(
        self,
        host: LevelHost,
        core: ConsensusCore,
        contacts: Contacts,
        own_id: int,
        on_change: Callable[[int], None] = lambda level: None,
    ) -> None:
        """Take the member's parts; `on_change` takes the level at the end of the log whenever it is another."""
        self._host = host
        self._core = core
        self._contacts = contacts
        self._own_id = own_id
        self._on_change = on_change
        self._changes: list[LevelChange] = []
        self._of_snapshot = FIRST_LEVEL
        self._reports: dict[int, _Report] = {}
        self.own_level = PROTOCOL_LEVEL
        self.handlers: dict[Message, Callable[[Any, int], None]] = dict(
            (bind(ordo_codecs.LEVEL_REPORT, self._on_report),)
        )

    def start(self, of_snapshot: int) -> None:
        """Set what is known before the log is read. `of_snapshot` is the level in the starting snapshot.

        Raises ClusterError for a level that this release does not have.
        """
        self._demand(of_snapshot, "the snapshot")
        self._of_snapshot = of_snapshot
        self._on_change(self.newest)

    def _demand(self, level: int, where: str) -> None:
        if level > self.own_level:
            raise ClusterError(
                f"{where} has protocol level {level}, and this release of Ordo knows {self.own_level} at most: install "
                "the release that the other members have"
            )

    # -- the log -------------------------------------------------------------------------------------------------------

    def on_record(self, record: LogRecord) -> None:
        """Check a record of this member's durable log.

        Raises ClusterError for what this release does not know, and for a kind of record that the log may not have
        there.
        """
        if record.table is ordo_codecs.LEVEL_EVENT:
            self._demand(record.values.level, f"the log at position {record.position}")
            self._changes.append(LevelChange(record.position, record.values.level))
            self._on_change(self.newest)
            return
        needed = level_of(record.table, record.values)
        if needed > self.newest:
            raise ClusterError(
                f"log: {record.table.name} at position {record.position} needs protocol level {needed}, and the log "
                f"has {self.newest} there"
            )

    def truncate(self, position: int) -> None:
        """Forget what was read beyond `position`, where the log was cut."""
        while self._changes and self._changes[-1].position > position:
            self._changes.pop()
            self._on_change(self.newest)

    def at(self, log_position: int) -> int:
        """Return the level of the log at a position."""
        return self.change_at(log_position).level

    def change_at(self, log_position: int) -> LevelChange:
        """Return the level of the log at a position, and since when."""
        found = (one for one in reversed(self._changes) if one.position <= log_position)
        return next(found, LevelChange(NULL_VALUE, self._of_snapshot))

    @property
    def newest(self) -> int:
        """The level at the end of this member's log: what a leader may append next."""
        return self._changes[-1].level if self._changes else self._of_snapshot

    @property
    def takes_service_versions(self) -> bool:
        """Whether a leader may append a VersionEvent that is for one service alone."""
        return self.newest >= SERVICE_VERSION_LEVEL

    @property
    def takes_request_ids(self) -> bool:
        """Whether a leader may append requests with ids that their callers chose."""
        return self.newest >= REQUEST_ID_LEVEL

    def execute(self, record: LogRecord) -> None:
        """Execute a committed LevelEvent, which is never undone."""
        self._host.announce(
            "cluster.level",
            f"protocol level {record.values.level} is in force from {record.position} on: older releases of Ordo "
            "cannot read the log any more",
        )

    # -- what members say ----------------------------------------------------------------------------------------------

    def _on_report(self, report: records.LevelReport, now_ns: int) -> None:
        """Note the level that a member reports. Raises DecodeError."""
        if not FIRST_LEVEL < report.level <= LEVEL_MAX:
            raise DecodeError(f"LevelReport: level={report.level}")
        self._reports[report.member_id] = _Report(report.level, now_ns)

    def work(self, now_ns: int) -> None:
        """Report, and raise the level where all members allow it, once a second."""
        if self.own_level <= self.newest:
            return
        self._contacts.broadcast(ordo_codecs.LEVEL_REPORT.encode(member_id=self._own_id, level=self.own_level))
        self._reports[self._own_id] = _Report(self.own_level, now_ns)
        level = min(self._known_levels(now_ns))
        if level > self.newest:
            self._host.append(
                ordo_codecs.LEVEL_EVENT.encode(
                    leadership_term_id=self._host.leadership_term_id,
                    timestamp=self._host.cluster_time,
                    level=level,
                    member_id=self._own_id,
                )
            )

    def _known_levels(self, now_ns: int) -> list[int]:
        """Return the level of each member of the configuration.

        The first level of one that has not been heard lately.
        """
        silent = _Report(FIRST_LEVEL, now_ns)
        reports = [self._reports.get(one, silent) for one in self._core.configuration.member_ids]
        return [one.level if now_ns <= one.heard_ns + SILENCE_NS_MAX else FIRST_LEVEL for one in reports]
