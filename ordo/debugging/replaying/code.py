"""The code that executes a log: a class for every version, or one for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ordo.cluster.container.service_container import APP_VERSION_DEFAULT
from ordo.cluster.container.service_loader import load_service
from ordo.cluster.container.versions import ServiceVersions
from ordo.cluster.wire.app_version import parse_version
from ordo.runtime.errors import ConfigurationError
from ordo.service_api.service import Service

MakeVersions = Callable[[], ServiceVersions]
"""Versions of which no instance has executed anything."""


class EveryVersion(ServiceVersions):
    """One class, which executes the log whatever version the log says is in force."""

    def __init__(self, code: Callable[[], Service]) -> None:
        super().__init__({APP_VERSION_DEFAULT: code})

    def __contains__(self, app_version: int) -> bool:
        return True

    def make(self, app_version: int) -> Service:
        return super().make(self.lowest)


def code_of(service: Callable[[], Service] | Mapping[int, Callable[[], Service]]) -> MakeVersions:
    """Return the code for a class, or for one class for each version."""
    if isinstance(service, Mapping):
        return lambda: ServiceVersions(service)
    return lambda: EveryVersion(service)


def load_code(names: Sequence[str]) -> MakeVersions:
    """Return the code that a command line names: `module:Class`, or `VERSION=module:Class` for each version.

    Raises ConfigurationError.
    """
    if len(names) == 1 and "=" not in names[0]:
        return code_of(load_service(names[0]))
    found: dict[int, Callable[[], Service]] = {}
    for name in names:
        version, separator, place = name.partition("=")
        if not separator:
            raise ConfigurationError(
                f"--service {name}: of several, each must say its version, such as 1=bank:Bank and 1.1=bank:NewBank"
            )
        found[parse_version(version)] = load_service(place)
    return code_of(found)
