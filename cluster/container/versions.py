"""The code of a service that executes the log: always that of the version in force (docs/UPGRADES.md).

The log says which version is in force: the first record of the first leadership term does, and every VersionEvent from
there on. At a VersionEvent the state goes from the old code to the new one as through a snapshot. A container that has
no code of the version in force stands still before the first record that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import concerns
from ordo.cluster.wire.snapshots.container_snapshot import SNAPSHOT_MESSAGE_BYTES_MAX
from ordo.cluster.wire.version_rows import CONVERTS_TIME, HANDS_OVER, HASHES, Code, encode_codes
from ordo.runtime.errors import Category, MessageError, OrdoError, ServiceError
from ordo.service_api.messages.logged import pack_schema
from ordo.service_api.messages.message import Schema
from ordo.service_api.optional_callbacks import overrides
from ordo.service_api.service import Role, Service
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from ordo.service_api.snapshot_demand import demand_snapshots, implements_snapshots
from ordo.service_api.state_hash import implements_state_hash

if TYPE_CHECKING:
    from ordo.cluster.container.execution import ServiceExecution
    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.cluster.wire import records
    from ordo.service_api.messages.logged import PackedSchema

HOLD_VERSION = 64
"""There is no code of the version in force."""
UPGRADE = "upgrade"
"""What the callback is called in which a service hands its state over to that of another version."""


class ServiceVersions:
    """The code that a container has, by version. Each instance of a service executes one stretch of the log."""

    def __init__(self, code: Mapping[int, Callable[[], Service]]) -> None:
        """Take `code`, which makes an instance; if it is a class, its capabilities are known before."""
        assert code, "a container without code"
        self._code = dict(code)
        self._prepared: dict[int, Service] = {}

    @classmethod
    def of(cls, service: Service | ServiceVersions, app_version: int) -> ServiceVersions:
        """Return the versions; a single service is the only version there is."""
        return service if isinstance(service, ServiceVersions) else cls({app_version: lambda: service})

    @property
    def lowest(self) -> int:
        """The version with which a container begins until the log says which is in force.

        Also the choice for a new log.
        """
        return min(self._code)

    def __contains__(self, app_version: int) -> bool:
        return app_version in self._code

    def prepare(self) -> None:
        """Make the instance that a container begins with. Raises ServiceError when the constructor raised."""
        self._prepared[self.lowest] = self.make(self.lowest)

    def make(self, app_version: int) -> Service:
        """Return a new instance. Raises ServiceError when the constructor raised."""
        if app_version in self._prepared:
            return self._prepared.pop(app_version)
        code = self._code[app_version]
        try:
            return code()
        except Exception as error:
            name = getattr(code, "__qualname__", str(app_version))
            text = f"{name}() raised {type(error).__name__}: {error}"
            raise ServiceError(text, category=Category.FATAL) from error

    def describe(self, present: Service) -> list[Code]:
        """Return what others are told. Of code that is no class only the present instance shows what it can do."""
        classes = {number: code if isinstance(code, type) else type(present) for number, code in self._code.items()}
        return [Code(number, _flags_of(classes[number])) for number in sorted(classes)]

    def schemas(self, present: Service) -> dict[int, Schema]:
        """Return the schemas of the code that has one, by version; `present` as in `describe`."""
        own = {
            number: code if isinstance(code, type) or hasattr(code, "schema") else present
            for number, code in sorted(self._code.items())
        }
        found = {number: getattr(one, "schema", None) for number, one in own.items()}
        return {number: schema for number, schema in found.items() if isinstance(schema, Schema)}


def _flags_of(service_class: type) -> int:
    """Return what code can do, in the flags of `ordo.cluster.wire.version_rows`."""
    hands_over = HANDS_OVER if implements_snapshots(service_class) else 0
    hashes = HASHES if implements_state_hash(service_class) else 0
    return hands_over | hashes | (CONVERTS_TIME if overrides(service_class, "on_time_unit") else 0)


class VersionSwitch:
    """The versions of one container. `in_force` is the version of the code that `loop.service` is an instance of."""

    def __init__(
        self,
        loop: ContainerLoop,
        control: ContainerControl,
        execution: ServiceExecution,
        versions: ServiceVersions,
        service_id: int,
    ) -> None:
        self._loop = loop
        self._control = control
        self._execution = execution
        self._versions = versions
        self._service_id = service_id
        self.in_force = versions.lowest

    def announce(self) -> None:
        """Tell the module what code there is, and the schemas of its messages."""
        codes = encode_codes(self._versions.describe(self._loop.service))
        self._control.send(ordo_codecs.SERVICE_VERSIONS.encode(service_id=self._service_id, versions=codes))
        schemas = self._pack_schemas()
        for part, (app_version, packed) in enumerate(schemas.items()):
            self._control.send(
                ordo_codecs.SERVICE_SCHEMA.encode(
                    service_id=self._service_id,
                    app_version=app_version,
                    part=part,
                    parts=len(schemas),
                    **packed._asdict(),
                )
            )

    def _pack_schemas(self) -> dict[int, PackedSchema]:
        """Return the schemas of the code, by version. One that the log cannot keep is told of, and left out."""
        found: dict[int, PackedSchema] = {}
        for app_version, schema in self._versions.schemas(self._loop.service).items():
            try:
                found[app_version] = pack_schema(schema)
            except MessageError as error:
                self._execution.record_error(error)
        return found

    def choose(self, app_version: int) -> bool:
        """Take an instance of the version that a snapshot, or the log from its beginning on, is of.

        Nothing was executed yet. False, standing still, where there is none.
        """
        if app_version not in self._versions:
            self._lack(app_version)
            return False
        if app_version != self.in_force:
            self._loop.set_service(self._versions.make(app_version))
            self.in_force = app_version
        return True

    def begin_log(self, app_version: int) -> bool:
        """Put the version in force that the first record of the log names.

        Return False where the container stands still.
        """
        former = self.in_force
        if not self.choose(app_version):
            return False
        if app_version != former:
            self._execution.invoke("on_start", False, self._execution.cluster, None)
        return True

    def on_event(self, event: records.VersionEvent, position: int) -> None:
        """Execute a VersionEvent, unless it is another service's, or left out."""
        if concerns(event, self._service_id) and not self._execution.leaves_out(position):
            self.change(event.app_version)

    def change(self, app_version: int) -> None:
        """Put a version in force from the next record on."""
        if app_version == self.in_force:
            return
        if app_version not in self._versions:
            self._lack(app_version)
        elif self._execution.attempt(UPGRADE, lambda: self._hand_over(app_version)):
            self.in_force = app_version
            if self._loop.is_leading:
                self._execution.invoke("on_role_change", False, Role.LEADER)

    def _hand_over(self, app_version: int) -> None:
        """Start the new code from the old code's snapshot: the same bytes as through a recording."""
        cluster, old = self._execution.cluster, self._loop.service
        messages: list[bytes] = []
        try:
            demand_snapshots(old)
            writer = SnapshotWriter(messages.append, SNAPSHOT_MESSAGE_BYTES_MAX)
            old.on_take_snapshot(writer)
            writer.close()
            self._execution.end(old)
            new = self._versions.make(app_version)
            new.on_start(cluster, SnapshotReader(messages))
        except ServiceError:
            raise
        except OrdoError as error:  # which would otherwise end the node, and is the service's to answer for
            raise ServiceError(f"{type(error).__name__}: {error.message}") from error
        self._loop.set_service(new)

    def _lack(self, app_version: int) -> None:
        """Halt, and report the missing code to the module, which looks for a snapshot after this part of the log."""
        loop = self._loop
        loop.hold |= HOLD_VERSION
        self._execution.stand_still()
        self._control.send(ordo_codecs.SERVICE_LACK.encode(log_position=loop.log_position, app_version=app_version))
