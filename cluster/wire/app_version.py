"""The version of a service's code: a number in the log and in snapshots, a text in configurations and commands.

1 to 65535           a whole number, as it is
65536 and more       MAJOR.MINOR.PATCH = MAJOR * 65536 + MINOR * 256 + PATCH, as Aeron's SemanticVersion
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from ordo.runtime.errors import ConfigurationError

NO_VERSION = 0
ALL_SERVICES = -1
"""In the place of a service's id; what an earlier release has written reads as another negative number."""
PLAIN_MAX = 0xFFFF
_PART_MAX = 0xFF
_SEMANTIC = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_PLAIN = re.compile(r"[1-9]\d{0,4}", re.ASCII)


def parse_version(text: str) -> int:
    """Return the number of a version. Raises ConfigurationError."""
    if _PLAIN.fullmatch(text) and int(text) <= PLAIN_MAX:
        return int(text)
    parts = [int(part) for part in found.groups()] if (found := _SEMANTIC.fullmatch(text)) else []
    if parts and parts[0] > 0 and max(parts) <= _PART_MAX:
        return parts[0] << 16 | parts[1] << 8 | parts[2]
    raise ConfigurationError(
        f"version {text!r}: must be a whole number from 1 to {PLAIN_MAX}, or MAJOR.MINOR.PATCH, each up to "
        f"{_PART_MAX} and MAJOR from 1"
    )


def format_version(app_version: int) -> str:
    """Return the text of a version's number, as `parse_version` reads it."""
    if app_version <= PLAIN_MAX:
        return str(app_version)
    return f"{app_version >> 16}.{app_version >> 8 & _PART_MAX}.{app_version & _PART_MAX}"


def format_versions(app_versions: Iterable[int]) -> str:
    """Several, for a sentence."""
    return ", ".join(map(format_version, app_versions)) or "none"


class OfService(Protocol):
    """What names a service, as a VersionEvent and a request for one do."""

    @property
    def service_id(self) -> int: ...


def is_of_one_service(event: OfService) -> bool:
    """Return whether a VersionEvent, or a request for one, is for one service alone."""
    return event.service_id >= 0


def concerns(event: OfService, service_id: int) -> bool:
    """Return whether a VersionEvent is for this service."""
    return not is_of_one_service(event) or event.service_id == service_id
