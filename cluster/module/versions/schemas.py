"""The schemas of messages that the log has, of each service (docs/MESSAGES.md, The schema in the log).

From protocol level 8 on the leader appends a SchemaEvent with the schema of the code that its own service executes,
once for each digest. It knows its whole log, committed or not, and what it appended itself, so no log has a schema
twice, nor one that contradicts what is in force before it. What a member makes of the log's schemas depends on nothing
else, and its snapshots have all of them.

What a schema says never changes state. Code that contradicts the log's is told of as an error, and is executed all the
same; only an upgrade to such code is refused, before there is a record of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.state.host import AppendingHost
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import format_version
from ordo.cluster.wire.levels import SCHEMA_LEVEL
from ordo.runtime.errors import DecodeError, MessageError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.service_api.messages.logged import LoggedSchema, describe_conflict, describe_lack, extends, unpack_schema

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel
    from ordo.cluster.module.versions.version_log import VersionLog
    from ordo.cluster.wire import records
    from ordo.service_api.messages.message import Schema

SCHEMAS_MAX = 1_000
"""So many of one service a log takes: snapshots have all of them."""
VERSIONS_MAX = 1 << 16


class SchemaHost(AppendingHost, Protocol):
    """The member whose log has them."""

    def record_error(self, message: str) -> None: ...

    def announce(self, event: str, text: str) -> None: ...


class LogEnd(Protocol):
    """How far this member's log goes."""

    @property
    def append_position(self) -> int: ...


class Position(Protocol):
    """How far a service has executed the log."""

    @property
    def value(self) -> int: ...


class Schemas:
    """The schemas of one member's log, and those of its services' code."""

    def __init__(
        self,
        host: SchemaHost,
        sequencer: LogEnd,
        levels: ProtocolLevel,
        versions: VersionLog,
        own_id: int,
        service_positions: Sequence[Position],
    ) -> None:
        self._host = host
        self._sequencer = sequencer
        self._levels = levels
        self._versions = versions
        self._own_id = own_id
        self._service_positions = service_positions
        self._logged: list[LoggedSchema] = []
        """The schemas in this member's durable log and its snapshot, committed or not, in their order."""
        self._appended: list[LoggedSchema] = []
        """What this member appended as the leader of `_appended_term_id` and has not seen in its durable log yet."""
        self._appended_term_id = NULL_VALUE
        self._own: dict[int, dict[int, LoggedSchema]] = {}
        """Schemas of the services' code, keyed by service and by version; they have no position."""
        self._superseding: dict[tuple[bytes, bytes], bool] = {}
        self._judged: set[tuple[int, bytes, bytes]] = set()
        self._told: set[str] = set()

    # -- the log -------------------------------------------------------------------------------------------------------

    def start(self, of_snapshot: list[LoggedSchema], snapshot_position: int) -> None:
        """Begin with those of the starting snapshot; the log's own records were given to `on_record` before."""
        self._logged = [*of_snapshot, *(one for one in self._logged if one.position > snapshot_position)]

    def on_record(self, record: LogRecord) -> None:
        """Note a record of this member's durable log; it need not be committed."""
        if record.table is ordo_codecs.SCHEMA_EVENT:
            values = record.values
            found = LoggedSchema(record.position, values.service_id, values.digest, values.packed)
            self._logged.append(found)
            self._appended = [one for one in self._appended if not _is_same(one, found)]

    def truncate(self, position: int) -> None:
        """Forget what was read beyond `position`, where the log was cut."""
        while self._logged and self._logged[-1].position > position:
            self._logged.pop()

    def at(self, log_position: int) -> list[LoggedSchema]:
        """Return all schemas up to a position, for a snapshot there."""
        return [one for one in self._logged if one.position <= log_position]

    def execute(self, record: LogRecord) -> None:
        """Execute a committed SchemaEvent, which is never undone."""
        values = record.values
        try:
            found = unpack_schema(values.digest, values.packed)
        except MessageError as error:
            self._tell_once(f"the log at position {record.position}: {error.message}")
            return
        self._host.announce(
            "cluster.schema",
            f"schema {found.id} ({found.name}) of service {values.service_id} is in version {found.version} from "
            f"{record.position} on",
        )

    # -- this member's services ----------------------------------------------------------------------------------------

    def on_service_schema(self, service_id: int, values: records.ServiceSchema) -> None:
        """Note the schema of one version of a service's code. Raises DecodeError."""
        if not 0 <= values.part < values.parts <= VERSIONS_MAX:
            raise DecodeError(f"ServiceSchema: part {values.part} of {values.parts}")
        own = self._own.setdefault(service_id, {})
        if values.part == 0:
            own.clear()
        found = LoggedSchema(NULL_VALUE, service_id, values.digest, values.packed)
        if self._read(found, f"service {service_id}, version {format_version(values.app_version)}") is not None:
            own[values.app_version] = found

    def find_conflict(self, service_id: int, app_version: int) -> str:
        """Return why a leader does not put a version of a service's own code into force; empty where it can.

        It need not go with what is written only, but also with what will be: the schema of the code that the log's
        end puts into force. Where other code led for a while, that contradicts what is written: then what goes with
        it is as good as what is in force already.
        """
        own = self._own.get(service_id, {}).get(app_version)
        if own is None or self._is_known(own):
            return ""
        before = self._newest(own, self._known)
        coming = self._own_at(service_id, self._sequencer.append_position)
        if coming is not None and coming.schema.id == own.schema.id:
            if self._may_append(coming, before):
                before = coming
            elif before is not None and self._goes_on(own, coming, before):
                return ""
        conflict = "" if before is None else describe_conflict(own.schema, before.schema)
        return f"service {service_id}, version {format_version(app_version)}: {conflict}" if conflict else ""

    @staticmethod
    def _goes_on(own: LoggedSchema, coming: LoggedSchema, before: LoggedSchema) -> bool:
        """Return whether a schema goes with that of the code in force, which contradicts the log's."""
        is_contradicting = bool(describe_conflict(coming.schema, before.schema))
        return is_contradicting and not describe_conflict(own.schema, coming.schema)

    def _own_at(self, service_id: int, log_position: int) -> LoggedSchema | None:
        """Return the schema of the code that the log puts into force at a position."""
        return self._own.get(service_id, {}).get(self._versions.change_at(log_position, service_id).app_version)

    def _judge(self, own: LoggedSchema, log_position: int) -> None:
        """Tell, once, how the schema of the code in force does not go with the log's; everything goes on."""
        logged = self.at(log_position)
        before = self._newest(own, logged)
        if before is None or (pair := (own.service_id, own.digest, before.digest)) in self._judged:
            return
        self._judged.add(pair)
        if any(_is_same(one, own) for one in logged):
            return
        if problem := describe_conflict(own.schema, before.schema) or describe_lack(own.schema, before.schema):
            app_version = self._versions.change_at(log_position, own.service_id).app_version
            text = f"service {own.service_id}, version {format_version(app_version)}: {problem}"
            self._host.record_error(text)
            self._host.announce("cluster.schema_conflict", text)

    def _newest(self, own: LoggedSchema, among: list[LoggedSchema]) -> LoggedSchema | None:
        """Return the newest schema of a service that has the id of its own."""
        for one in reversed(among):
            if one.service_id == own.service_id:
                found = self._read(one, f"the log at position {one.position}")
                if found is not None and found.id == own.schema.id:
                    return one
        return None

    def _read(self, one: LoggedSchema, place: str) -> Schema | None:
        """Return the classes of a schema; None, and one line, for one that is damaged."""
        try:
            return one.schema
        except MessageError as error:
            self._tell_once(f"{place}: {error.message}")
            return None

    # -- once a second -------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Judge the schema of the code that each service executes; as a leader, make sure that the log has it."""
        for service_id in self._versions.service_ids:
            position = self._service_positions[service_id].value
            own = self._own_at(service_id, position)
            if own is None:
                continue
            self._judge(own, position)
            if self._host.is_leader and not self._is_known(own):
                self._append(own)

    @property
    def _known(self) -> list[LoggedSchema]:
        """The schemas of the log, with those that this leader has appended and not seen yet."""
        if not self._host.is_leader or self._host.leadership_term_id != self._appended_term_id:
            self._appended.clear()
        return [*self._logged, *self._appended]

    def _is_known(self, own: LoggedSchema) -> bool:
        return any(_is_same(one, own) for one in self._known)

    def _may_append(self, own: LoggedSchema, before: LoggedSchema | None) -> bool:
        """Return whether a schema comes into the log behind another one: it extends that, by more than new names."""
        if self._levels.newest < SCHEMA_LEVEL:
            return False
        if before is None:
            return True
        pair = own.digest, before.digest
        if pair not in self._superseding:
            is_newer = extends(own.schema, before.schema) and not extends(before.schema, own.schema)
            self._superseding[pair] = is_newer
        return self._superseding[pair]

    def _append(self, own: LoggedSchema) -> None:
        if not self._may_append(own, self._newest(own, self._known)):
            return
        if sum(one.service_id == own.service_id for one in self._known) >= SCHEMAS_MAX:
            self._tell_once(f"the log has {SCHEMAS_MAX} schemas of service {own.service_id}, and takes no more")
            return
        record = ordo_codecs.SCHEMA_EVENT.encode(
            leadership_term_id=self._host.leadership_term_id,
            timestamp=self._host.cluster_time,
            log_position=NULL_VALUE,
            service_id=own.service_id,
            member_id=self._own_id,
            digest=own.digest,
            packed=own.packed,
        )
        self._appended_term_id = self._host.leadership_term_id
        self._appended.append(own)
        if not self._host.append(record):
            self._appended.pop()

    def _tell_once(self, problem: str) -> None:
        if problem not in self._told:
            self._told.add(problem)
            self._host.record_error(problem)


def _is_same(one: LoggedSchema, other: LoggedSchema) -> bool:
    return (one.service_id, one.digest) == (other.service_id, other.digest)
