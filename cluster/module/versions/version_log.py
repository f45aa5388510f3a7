"""Which version of each service the log has in force at each of its positions (docs/UPGRADES.md).

    begin      what the first record of the first leadership term says, for all services
    change     each VersionEvent from that record on, for all services or for the one that it names
    snapshot   what its parts are of, where the own log begins behind those records

A VersionEvent that is left out (cluster.module.versions.skips) changes nothing. The log may be longer than what is
committed, and be cut.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.module.sessions.sessions import NULL_VALUE
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.app_version import ALL_SERVICES, NO_VERSION, is_of_one_service

if TYPE_CHECKING:
    from ordo.runtime.sbe import Message


class VersionChange(NamedTuple):
    """A record of the log that says what is in force behind it, for one service or for ALL_SERVICES."""

    position: int
    app_version: int
    service_id: int = ALL_SERVICES

    @classmethod
    def of_event(cls, position: int, event: Any) -> VersionChange:
        """What a VersionEvent says."""
        return cls(position, event.app_version, event.service_id if is_of_one_service(event) else ALL_SERVICES)

    def concerns(self, service_id: int) -> bool:
        return self.service_id in (ALL_SERVICES, service_id)


def find_change(position: int, table: Message, values: Any) -> VersionChange | None:
    """What a record changes, if it is one that does."""
    if table is ordo_codecs.VERSION_EVENT:
        return VersionChange.of_event(position, values)
    if table is codecs.NEW_LEADERSHIP_TERM_EVENT and values.term_base_log_position == 0:
        return VersionChange(position, values.app_version)
    return None


class VersionLog:
    """Of the services of one member. `skipped`: the records that are left out, whenever it is asked."""

    def __init__(self, service_count: int, skipped: Container[int]) -> None:
        self._skipped = skipped
        self.changes: list[VersionChange] = []
        """By the own log, those among them that are left out."""
        self._of_snapshot = [NO_VERSION] * service_count

    def start(self, of_snapshot: Sequence[int]) -> None:
        """`of_snapshot`: by service, what the snapshot is of that the member starts from; nothing without one. The
        log's own records were given to `on_record` before."""
        for service_id, app_version in enumerate(of_snapshot):
            self._of_snapshot[service_id] = app_version

    def on_record(self, position: int, table: Message, values: Any) -> None:
        """A record of the own durable log; it counts for the services once it is committed."""
        change = find_change(position, table, values)
        if change is not None:
            self.changes.append(change)

    def truncate(self, position: int) -> None:
        """The log was cut at `position`."""
        while self.changes and self.changes[-1].position > position:
            self.changes.pop()

    @property
    def service_ids(self) -> range:
        return range(len(self._of_snapshot))

    def change_at(self, log_position: int, service_id: int) -> VersionChange:
        """What is in force for the state of a service at a position, and since when; NULL_VALUE: since before the
        snapshot."""
        for one in reversed(self.changes):
            if one.position <= log_position and one.concerns(service_id) and one.position not in self._skipped:
                return one
        return VersionChange(NULL_VALUE, self._of_snapshot[service_id], service_id)

    def at(self, log_position: int) -> list[int]:
        """In force for the state at a position, by service; NO_VERSION for that of an empty log."""
        return [self.change_at(log_position, one).app_version for one in self.service_ids]
