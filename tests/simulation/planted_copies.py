"""Planted bugs of services that go on behind their snapshots, and of the copies that write these (see `planted.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.cluster.container.snapshots import ContainerSnapshots
from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from tests.simulation.copies import SimulatedCopier, SimulatedCopy

Patch = Callable[[object, str, Any], None]


def service_runs_ahead_of_its_snapshot(patch: Patch) -> None:
    """What a service asked for behind its next snapshot is in the module's part of it."""
    patch(SnapshotTaker, "_hold_service", lambda self, one, early: self._early.update({one: early}))


class SharingCopy(SimulatedCopy):
    """Writes what it finds when it comes to it."""

    write: Callable[[Callable[[bytes], None]], None]

    def take(self) -> list[bytes]:
        if not self._messages and self.digest is None and self._now_ns() >= self._due_ns:
            self.write(self._messages.append)
            self._whole_digest = digest_of(self._messages)
        return super().take()


def copies_write_the_state_of_their_end(patch: Patch) -> None:
    """A copy of the service shares its memory, as a thread would: its snapshot has what was executed meanwhile."""

    def copy(self: SimulatedCopier, write: Any) -> SimulatedCopy:
        found = SharingCopy([], self._now_ns, self._rng, "")
        found.write = write
        return found

    patch(SimulatedCopier, "copy", copy)


def the_module_is_captured_when_the_copy_is_done(patch: Patch) -> None:
    """The module's part of a snapshot is of a later position than the service's, which went on."""

    def on_service_begun(self: SnapshotTaker, service_id: int, log_position: int, session_id: int) -> None:
        self._parts.session_ids[service_id] = session_id
        self._host.go_on()

    patch(SnapshotTaker, "on_service_begun", on_service_begun)


def nobody_hears_of_a_copy_that_died(patch: Patch) -> None:
    """The consensus module waits for a snapshot that never comes."""
    patch(ContainerSnapshots, "_fail", lambda self, error: self.close())
