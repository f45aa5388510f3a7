"""The version of each service that the log has in force at each of its positions (docs/UPGRADES.md).

    begin      what the first record of the first leadership term says, for all services
    change     each VersionEvent from that record on, for all services or for the one that it names
    snapshot   what its parts are of, where this member's log begins behind those records

A VersionEvent that is left out (cluster.module.versions.skips) changes nothing. The log may be longer than what is
committed, and be cut.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.app_version import ALL_SERVICES, NO_VERSION, OfService, is_of_one_service
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.runtime.sbe import Message


class VersionFields(OfService, Protocol):
    """The fields of a VersionEvent, in the log or as readers of the log are given it."""

    @property
    def app_version(self) -> int: ...


class VersionChange(NamedTuple):
    """A record of the log that changes the version in force, for one service or for ALL_SERVICES."""

    position: int
    app_version: int
    service_id: int = ALL_SERVICES

    @classmethod
    def of_event(cls, position: int, event: VersionFields) -> VersionChange:
        """Return the change that a VersionEvent makes."""
        return cls(position, event.app_version, event.service_id if is_of_one_service(event) else ALL_SERVICES)

    def concerns(self, service_id: int) -> bool:
        return self.service_id in (ALL_SERVICES, service_id)


def find_change(position: int, table: Message, values: Any) -> VersionChange | None:
    """Return the change that a record makes, or None where it makes none."""
    if table is ordo_codecs.VERSION_EVENT:
        return VersionChange.of_event(position, values)
    if table is codecs.NEW_LEADERSHIP_TERM_EVENT and values.term_base_log_position == 0:
        return VersionChange(position, values.app_version)
    return None


class VersionLog:
    """The versions of one member's services. `skipped` returns the records that are left out."""

    def __init__(self, service_count: int, skipped: Container[int]) -> None:
        self._skipped = skipped
        self.changes: list[VersionChange] = []
        """The changes in this member's log that are skipped."""
        self._of_snapshot = [NO_VERSION] * service_count

    def start(self, of_snapshot: Sequence[int]) -> None:
        """Begin with the versions of the starting snapshot, by service, or without any.

        The log's own records were given to `on_record` before.
        """
        for service_id, app_version in enumerate(of_snapshot):
            self._of_snapshot[service_id] = app_version

    def on_record(self, position: int, table: Message, values: Any) -> None:
        """Note a record of this member's durable log; it counts for the services once it is committed."""
        change = find_change(position, table, values)
        if change is not None:
            self.changes.append(change)

    def truncate(self, position: int) -> None:
        """Forget what was read beyond `position`, where the log was cut."""
        while self.changes and self.changes[-1].position > position:
            self.changes.pop()

    @property
    def service_ids(self) -> range:
        return range(len(self._of_snapshot))

    def change_at(self, log_position: int, service_id: int) -> VersionChange:
        """Return the version in force for the state of a service at a position, and since when.

        Since NULL_VALUE means since before the snapshot.
        """
        for one in reversed(self.changes):
            if one.position <= log_position and one.concerns(service_id) and one.position not in self._skipped:
                return one
        return VersionChange(NULL_VALUE, self._of_snapshot[service_id], service_id)

    def at(self, log_position: int) -> list[int]:
        """Return the versions in force for the state at a position, by service; NO_VERSION for an empty log."""
        return [self.change_at(log_position, one).app_version for one in self.service_ids]
