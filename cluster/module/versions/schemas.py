"""The schemas of messages that the log has, of each service (docs/MESSAGES.md, The schema in the log).

From protocol level 8 on the leader appends a SchemaEvent with the schema of the code that is in force, once for each
digest. It knows its whole log, committed or not, so no log has a schema twice, nor one that contradicts what is in
force before it. What a member makes of the log's schemas depends on nothing else, and its snapshots have all of them.

A container waits for the verdict on its schemas before it executes anything; it looks by itself at those that come into
force later (cluster/container/versions.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.state.host import AppendingHost
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import format_version
from ordo.cluster.wire.levels import SCHEMA_LEVEL
from ordo.runtime.errors import DecodeError, MessageError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.service_api.messages.logged import LoggedSchema, PackedSchema, describe_conflict, extends, unpack_schema

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


class Schemas:
    """The schemas of one member's log, and those of its services' code."""

    def __init__(
        self,
        host: SchemaHost,
        sequencer: LogEnd,
        levels: ProtocolLevel,
        versions: VersionLog,
        own_id: int,
        send: Callable[[int, bytes], None],
    ) -> None:
        """Take the member's parts; `send` takes a service and a message to it."""
        self._host = host
        self._sequencer = sequencer
        self._levels = levels
        self._versions = versions
        self._own_id = own_id
        self._send = send
        self._logged: list[LoggedSchema] = []
        """The schemas in this member's durable log and its snapshot, committed or not, in their order."""
        self._own: dict[int, dict[int, PackedSchema]] = {}
        """Keyed by service, and by version of its code."""
        self._told: set[str] = set()

    # -- the log -------------------------------------------------------------------------------------------------------

    def start(self, of_snapshot: list[LoggedSchema], snapshot_position: int) -> None:
        """Begin with those of the starting snapshot; the log's own records were given to `on_record` before."""
        self._logged = [*of_snapshot, *(one for one in self._logged if one.position > snapshot_position)]

    def on_record(self, record: LogRecord) -> None:
        """Note a record of this member's durable log; it need not be committed."""
        if record.table is ordo_codecs.SCHEMA_EVENT:
            values = record.values
            self._logged.append(LoggedSchema(record.position, values.service_id, values.digest, values.packed))

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
        """Note the schema of one version of a service's code; after the last one the container gets its verdict.

        Raises DecodeError.
        """
        if not 0 <= values.part < values.parts <= VERSIONS_MAX:
            raise DecodeError(f"ServiceSchema: part {values.part} of {values.parts}")
        own = self._own.setdefault(service_id, {})
        if values.part == 0:
            own.clear()
        own[values.app_version] = PackedSchema(values.digest, values.packed)
        if values.part == values.parts - 1:
            refusal = self.find_conflict(service_id, self._version_in_force(service_id))
            verdict = ordo_codecs.SCHEMA_VERDICT.encode(service_id=service_id, refusal=refusal.encode())
            self._send(service_id, verdict)

    def find_conflict(self, service_id: int, app_version: int) -> str:
        """Return why a version of a service's own code cannot go on with the log; empty where it can."""
        own = self._own.get(service_id, {}).get(app_version)
        if own is None or self._is_logged(service_id, own):
            return ""
        try:
            schema = unpack_schema(*own)
        except MessageError as error:
            return error.message
        before = self._newest(service_id, schema.id)
        conflict = "" if before is None else describe_conflict(schema, before.schema)
        if before is None or not conflict:
            return ""
        return f"service {service_id}, version {format_version(app_version)}: {conflict}"

    def _version_in_force(self, service_id: int) -> int:
        return self._versions.change_at(self._sequencer.append_position, service_id).app_version

    def _is_logged(self, service_id: int, schema: PackedSchema) -> bool:
        return any((one.service_id, one.digest) == (service_id, schema.digest) for one in self._logged)

    def _newest(self, service_id: int, schema_id: int) -> LoggedSchema | None:
        """Return the schema with an id that is in force for a service at the end of the log."""
        for one in reversed(self._logged):
            if one.service_id != service_id:
                continue
            try:
                if one.schema.id == schema_id:
                    return one
            except MessageError as error:
                self._tell_once(f"the log at position {one.position}: {error.message}")
        return None

    # -- the leader ----------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Make sure, as a leader and once a second, that the log has the schemas of the code that is in force."""
        if not self._host.is_leader or self._levels.newest < SCHEMA_LEVEL:
            return
        for service_id in self._versions.service_ids:
            own = self._own.get(service_id, {}).get(self._version_in_force(service_id))
            if own is not None and not self._is_logged(service_id, own):
                self._append(service_id, own)

    def _append(self, service_id: int, own: PackedSchema) -> None:
        schema = unpack_schema(*own)
        if not self._supersedes(service_id, schema):
            return
        if sum(one.service_id == service_id for one in self._logged) >= SCHEMAS_MAX:
            self._tell_once(f"the log has {SCHEMAS_MAX} schemas of service {service_id}, and takes no more")
            return
        record = ordo_codecs.SCHEMA_EVENT.encode(
            leadership_term_id=self._host.leadership_term_id,
            timestamp=self._host.cluster_time,
            log_position=NULL_VALUE,
            service_id=service_id,
            member_id=self._own_id,
            digest=own.digest,
            packed=own.packed,
        )
        self._host.append(record)

    def _supersedes(self, service_id: int, schema: Schema) -> bool:
        """Return whether a schema extends the one in force; one that it extends is of a program not upgraded yet."""
        before = self._newest(service_id, schema.id)
        return before is None or extends(schema, before.schema)

    def _tell_once(self, problem: str) -> None:
        if problem not in self._told:
            self._told.add(problem)
            self._host.record_error(problem)
