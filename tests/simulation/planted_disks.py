"""Planted bugs of members whose disks are slow (see `planted.py`)."""

from __future__ import annotations

from tests.simulation.planted import Patch
from tests.simulation.planted_sync_queue import HastySyncQueue
from tests.simulation.storage import SimulatedStorage


def syncs_are_through_by_the_next_heartbeat(patch: Patch) -> None:
    """Raft §5: a member counts what it has asked its disk to sync a heartbeat ago, and does not wait for the answer."""
    patch(SimulatedStorage, "sync_queue_class", HastySyncQueue)
