"""The code of a service that executes the log: always that of the version in force (docs/UPGRADES.md).

The log says which version is in force: the first record of the first leadership term does, and every VersionEvent from
there on. At a VersionEvent the state goes from the old code to the new one as through a snapshot. A container that has
no code of the version in force stands still before the first record that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.container.snapshot_demand import demand_snapshots, implements_snapshots
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots.container_snapshot import SNAPSHOT_MESSAGE_BYTES_MAX
from ordo.cluster.wire.version_rows import HANDS_OVER, HASHES, Code, encode_codes
from ordo.runtime.errors import Category, OrdoError, ServiceError
from ordo.service_api.service import Cluster, Role, Service
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from ordo.service_api.state_hash import implements_state_hash

if TYPE_CHECKING:
    from ordo.cluster.container.streams.control import ContainerControl

HOLD_VERSION = 64
"""There is no code of the version in force."""
UPGRADE = "upgrade"
"""What the callback is called in which a service hands its state over to that of another version."""


class ServiceVersions:
    """The code that a container has, by version. Each instance of a service executes one stretch of the log."""

    def __init__(self, code: Mapping[int, Callable[[], Service]]) -> None:
        """Take `code`, which makes an instance; where it is a class, what it can do is known before."""
        assert code, "a container without code"
        self._code = dict(code)
        self._prepared: dict[int, Service] = {}

    @classmethod
    def of(cls, service: Service | ServiceVersions, app_version: int) -> ServiceVersions:
        """Return the versions; a single service is the only version there is."""
        return service if isinstance(service, ServiceVersions) else cls({app_version: lambda: service})

    @property
    def lowest(self) -> int:
        """The version that a container begins with until the log says what is in force.

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


def _flags_of(service_class: type) -> int:
    """Return what code can do, in the flags of `ordo.cluster.wire.version_rows`."""
    hands_over = HANDS_OVER if implements_snapshots(service_class) else 0
    return hands_over | (HASHES if implements_state_hash(service_class) else 0)


class VersionHost(Protocol):
    """The container."""

    control: ContainerControl
    hold: int

    @property
    def cluster(self) -> Cluster: ...
    @property
    def service(self) -> Service: ...
    @property
    def is_leading(self) -> bool: ...
    @property
    def log_position(self) -> int: ...
    def set_service(self, service: Service) -> None: ...
    def stand_still(self) -> None: ...
    def on_control_sent(self) -> None: ...
    def record_error(self, error: Exception) -> None: ...
    def invoke(self, callback: str, may_call: bool, *arguments: object) -> None:
        """Call the service; what it raises ends the container."""

    def attempt(self, callback: str, action: Callable[[], None]) -> bool:
        """Run something that belongs to the record being executed.

        Return False when it raised, and the service failed.
        """


class VersionSwitch:
    """The versions of one container. `in_force` is the version of the code that `host.service` is an instance of."""

    def __init__(self, host: VersionHost, versions: ServiceVersions, service_id: int) -> None:
        self._host = host
        self._versions = versions
        self._service_id = service_id
        self.in_force = versions.lowest

    def announce(self) -> None:
        """Tell the module what code there is."""
        codes = encode_codes(self._versions.describe(self._host.service))
        self._host.control.send(ordo_codecs.SERVICE_VERSIONS.encode(service_id=self._service_id, versions=codes))

    def choose(self, app_version: int) -> bool:
        """Take an instance of the version that a snapshot, or the log from its beginning on, is of.

        Nothing was executed yet. False, standing still, where there is none.
        """
        if app_version not in self._versions:
            self._lack(app_version)
            return False
        if app_version != self.in_force:
            self._host.set_service(self._versions.make(app_version))
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
            self._host.invoke("on_start", False, self._host.cluster, None)
        return True

    def change(self, app_version: int) -> None:
        """Execute a VersionEvent: from the next record on this version is in force."""
        if app_version == self.in_force:
            return
        if app_version not in self._versions:
            self._lack(app_version)
        elif self._host.attempt(UPGRADE, lambda: self._hand_over(app_version)):
            self.in_force = app_version
            if self._host.is_leading:
                self._host.invoke("on_role_change", False, Role.LEADER)

    def _hand_over(self, app_version: int) -> None:
        """Start the new code from the old code's snapshot: the same bytes as through a recording."""
        host, old = self._host, self._host.service
        messages: list[bytes] = []
        try:
            demand_snapshots(old)
            writer = SnapshotWriter(messages.append, SNAPSHOT_MESSAGE_BYTES_MAX)
            old.on_take_snapshot(writer)
            writer.close()
            self._terminate(old)
            new = self._versions.make(app_version)
            new.on_start(host.cluster, SnapshotReader(messages))
        except ServiceError:
            raise
        except OrdoError as error:  # which would otherwise end the node, and is the service's to answer for
            raise ServiceError(f"{type(error).__name__}: {error.message}") from error
        host.set_service(new)

    def _terminate(self, service: Service) -> None:
        try:
            service.on_terminate(self._host.cluster)
        except Exception as error:
            self._host.record_error(error)

    def _lack(self, app_version: int) -> None:
        """Execute nothing more, and say so to the module, which looks for a way past the stretch."""
        host = self._host
        host.hold |= HOLD_VERSION
        host.stand_still()
        host.control.send(ordo_codecs.SERVICE_LACK.encode(log_position=host.log_position, app_version=app_version))
        host.on_control_sent()
