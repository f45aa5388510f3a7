"""Planted bugs of members that run several services (see `planted.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.container.versions import VersionSwitch
from ordo.cluster.module.services.service_reports import ServiceReports
from ordo.cluster.module.sessions.service_messages import PendingServiceMessages, ServiceMessages
from ordo.cluster.module.sessions.timers import ClusterTimers, TimerService
from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.versions.version_lacks import VersionLacks
from ordo.cluster.wire.app_version import ALL_SERVICES

Patch = Callable[[object, str, Any], None]


def a_snapshot_counts_that_one_service_has_not_taken(patch: Patch) -> None:
    """The first ack stands for all services: the part of another one is that of the snapshot before, or none."""
    original = ServiceReports.on_service_ack

    def on_service_ack(
        self: ServiceReports, service_id: int, log_position: int, timestamp: int, relevant_id: int
    ) -> None:
        for one in range(self._count):
            original(self, one, log_position, timestamp, relevant_id)

    patch(ServiceReports, "on_service_ack", on_service_ack)


def services_go_on_while_others_come_to_the_snapshot(patch: Patch) -> None:
    """What a service asks for behind the snapshot is in the module's part, when another one comes there later."""
    original = SnapshotTaker._arrive

    def arrive(self: SnapshotTaker, service_id: int, point: Any) -> None:
        original(self, service_id, point)
        self._sequencer.release_service(service_id)

    patch(SnapshotTaker, "_arrive", arrive)


def services_share_their_timers(patch: Patch) -> None:
    """A timer of one service takes the place of another one's with the same correlation id."""

    def init(self: ClusterTimers, service_count: int) -> None:
        self._services = [TimerService()] * service_count

    patch(ClusterTimers, "__init__", init)


def services_number_their_messages_together(patch: Patch) -> None:
    """Messages of the services get numbers of one row, in the order in which each member happens to hear of them."""

    def init(self: ServiceMessages, service_count: int) -> None:
        self._services = [PendingServiceMessages()] * service_count

    patch(ServiceMessages, "__init__", init)


def apply_versions_late(patch: Patch, is_late: Callable[[Any], bool]) -> None:
    """These containers execute records behind a VersionEvent with the code of before, up to the next that is no
    message."""
    on_version, on_record = ServiceContainer._on_version, ServiceContainer.on_record

    def change_later(self: Any, event: Any, position: int) -> None:
        if is_late(self):
            self.late_event = event
        else:
            on_version(self, event, position)

    def execute(self: Any, record: bytes, position: int) -> None:
        late = getattr(self, "late_event", None)
        on_record(self, record, position)
        if late is not None:
            self.late_event = None
            on_version(self, late, position)

    patch(ServiceContainer, "_on_version", change_later)
    patch(ServiceContainer, "on_record", execute)


def one_service_applies_versions_late(patch: Patch) -> None:
    """Service 1, on all members alike."""
    apply_versions_late(patch, lambda container: container.identity.service_id == 1)


def one_service_stays_at_its_version(patch: Patch) -> None:
    """Service 1 of one member misses upgrades, until it starts again."""
    on_version = ServiceContainer._on_version

    def change(self: Any, event: Any, position: int) -> None:
        if self.identity.service_id != 1 or self.identity.member_id != 1:
            on_version(self, event, position)

    patch(ServiceContainer, "_on_version", change)


def one_service_takes_the_versions_of_another(patch: Patch) -> None:
    """Service 1 goes over with every upgrade, whichever service it is for, on all members alike."""
    on_version = ServiceContainer._on_version

    def change(self: Any, event: Any, position: int) -> None:
        on_version(self, event._replace(service_id=ALL_SERVICES) if self.identity.service_id == 1 else event, position)

    patch(ServiceContainer, "_on_version", change)


def members_execute_with_the_code_that_they_have(patch: Patch) -> None:
    """Where one lacks the code that is in force it goes on with what it has, as the releases of no log did."""

    def choose(self: VersionSwitch, app_version: int) -> bool:
        return original(self, app_version if app_version in self._versions else self.in_force)

    def change(self: VersionSwitch, app_version: int) -> None:
        if app_version in self._versions:
            original_change(self, app_version)

    original, original_change = VersionSwitch.choose, VersionSwitch.change
    patch(VersionSwitch, "choose", choose)
    patch(VersionSwitch, "change", change)


def members_without_the_code_look_for_no_snapshot(patch: Patch) -> None:
    """They stand still until they are given the code, although a snapshot lies behind the stretch."""
    patch(VersionLacks, "work", lambda *_: None)


def modules_wait_for_services_that_stand_still(patch: Patch) -> None:
    """A member without the code stops executing at the next snapshot, and leads without ever serving where it must."""
    patch(SnapshotTaker, "on_service_stands", lambda *_: None)


def snapshots_forget_the_versions_of_other_services(patch: Patch) -> None:
    """The module's part says of all services that they are of service 0's version."""
    encode = module_snapshot.encode

    def encode_without(snapshot: module_snapshot.ModuleSnapshot) -> Iterator[bytes]:
        return encode(replace(snapshot, other_versions={}))

    patch(module_snapshot, "encode", encode_without)
