"""The rules that the log sets for its own execution: protocol level, cluster identity, versions, skips, schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.streams import MAIN_SERVICE_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.members.cluster_identity import ClusterIdentity
    from ordo.cluster.module.state.module_snapshot import ModuleSnapshot
    from ordo.cluster.module.state.recovery import Recovery
    from ordo.cluster.module.state.state_store import Skip
    from ordo.cluster.module.versions.clock_reports import ClockReports
    from ordo.cluster.module.versions.log_time import LogTime
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel
    from ordo.cluster.module.versions.schemas import Schemas
    from ordo.cluster.module.versions.skips import Skips
    from ordo.cluster.module.versions.state_hashes import StateHashes
    from ordo.cluster.module.versions.versions import Versions
    from ordo.cluster.wire.log_identity import LogIdentity
    from ordo.runtime.sbe import Message
    from ordo.service_api.messages.logged import LoggedSchema


class RulesAt(NamedTuple):
    """The rules at a position of the log, for a snapshot there."""

    skips: list[Skip]
    level: int
    versions: list[int]
    identity: LogIdentity | None
    schemas: list[LoggedSchema]


class LogRules:
    """The rules of one member's log. Each part follows the same records; others are given the part that they need."""

    def __init__(
        self,
        levels: ProtocolLevel,
        identity: ClusterIdentity,
        versions: Versions,
        hashes: StateHashes,
        skips: Skips,
        time: LogTime,
        schemas: Schemas,
        clock: ClockReports,
    ) -> None:
        self.levels = levels
        self.identity = identity
        self.versions = versions
        self.hashes = hashes
        self.skips = skips
        self.clock = clock
        self.time = time
        self.schemas = schemas
        self.handlers: dict[Message, Callable[[LogRecord], None]] = {
            ordo_codecs.VERSION_EVENT: versions.execute,
            ordo_codecs.LEVEL_EVENT: levels.execute,
            ordo_codecs.CLUSTER_IDENTITY_EVENT: identity.execute,
            ordo_codecs.STATE_HASH_EVENT: hashes.execute,
            ordo_codecs.SCHEMA_EVENT: schemas.execute,
        }
        """What executes the committed records, by their kind."""

    def start(self, recovery: Recovery) -> None:
        """Set what is known before the log is read. Raises ClusterError for a snapshot that this member cannot use."""
        self.time.start(recovery)
        self.levels.start(recovery.level)
        self.identity.start(
            recovery.log_identity, recovery.first_origin, has_log=recovery.has_log, past=recovery.past_origins
        )

    def go_on_from(self, log_position: int, contents: ModuleSnapshot | None) -> None:
        """Continue from the starting snapshot, after the log was read; position 0 without one.

        Raises ClusterError for a log that this member's settings do not allow.
        """
        self.time.go_on()
        self.skips.start(contents.skips if contents else [], log_position)
        if contents is not None:
            self.versions.log.start([contents.version_of(one) for one in range(len(contents.trackers))])
        self.schemas.start(contents.schemas if contents else [], log_position)
        self.hashes.start(log_position)

    def on_record(self, record: LogRecord) -> None:
        """Note a record of this member's durable log; it need not be committed. Raises ClusterError."""
        self.levels.on_record(record)
        self.time.on_record(record)
        self.identity.on_record(record)
        self.versions.log.on_record(*record)
        self.hashes.on_record(record)
        self.schemas.on_record(record)
        if record.table is ordo_codecs.SKIP_EVENT:
            self.skips.on_record(record.position, record.values)

    def truncate(self, position: int) -> None:
        """Forget what was read beyond `position`, where the log was cut."""
        for one in (self.time, self.levels, self.identity, self.versions.log, self.hashes, self.skips, self.schemas):
            one.truncate(position)

    def version_at(self, log_position: int) -> int:
        """Return the version of service 0 at a position, which the log's records and snapshots name."""
        return self.versions.log.at(log_position)[MAIN_SERVICE_ID]

    def at(self, log_position: int) -> RulesAt:
        """Return the rules at a position."""
        return RulesAt(
            self.skips.below(log_position),
            self.levels.at(log_position),
            self.versions.log.at(log_position),
            self.identity.at(log_position),
            self.schemas.at(log_position),
        )
