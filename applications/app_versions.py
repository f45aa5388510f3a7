"""The versions of the code that an instance has. The log says which is in force (docs/APPLICATIONS.md, Upgrades)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ordo.cluster.wire.app_version import format_version, format_versions
from ordo.runtime.errors import ServiceError, SnapshotError
from ordo.service_api.service import Service

FIRST_VERSION = 1


class AppVersions:
    """Makes services; each executes one stretch of the log."""

    def __init__(self, code: Mapping[int, Callable[[], Service]]) -> None:
        assert code, "an instance without code"
        self._code = dict(code)

    @classmethod
    def of(cls, service: Service | AppVersions) -> AppVersions:
        """Return the versions; a single service is the only version there is."""
        return service if isinstance(service, AppVersions) else cls({FIRST_VERSION: lambda: service})

    @property
    def lowest(self) -> int:
        """What an instance begins with that has no checkpoint."""
        return min(self._code)

    @property
    def newest(self) -> int:
        return max(self._code)

    def make(self, app_version: int) -> Service:
        """Return a new service of a known version."""
        return self._code[app_version]()

    def demand_for_checkpoint(self, app_version: int) -> None:
        """Raise SnapshotError if there is no code that can continue from a checkpoint of this version."""
        if app_version not in self._code:
            raise SnapshotError(f"the checkpoint is of version {format_version(app_version)}, {self._describe()}")

    def demand(self, app_version: int, where: str) -> None:
        """Raise ServiceError if there is no code of this version, which is in force `where`."""
        if app_version not in self._code:
            raise ServiceError(f"version {format_version(app_version)} is in force {where}, {self._describe()}")

    def _describe(self) -> str:
        return f"and this instance has version {format_versions(sorted(self._code))} only: give it the code of both"
