"""Planted bugs of clusters whose time is in microseconds or nanoseconds (see `planted.py`)."""

from __future__ import annotations

from typing import Any

from ordo.cluster.module.state.clock_watch import ClockWatch
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.runtime.native.cluster_time import TimeUnit
from tests.simulation.planted import Patch


def one_leader_stamps_in_another_unit(patch: Patch) -> None:
    """A member takes the unit that its log was begun with for another one: milliseconds go back from microseconds."""

    def __init__(self: ClockWatch, host: Any, *parts: Any) -> None:
        *others, unit = parts
        original(self, host, *others, TimeUnit.MILLIS if host._member_id == 1 else unit)

    original: Any = ClockWatch.__init__
    patch(ClockWatch, "__init__", __init__)


def snapshots_forget_the_unit_of_time(patch: Patch) -> None:
    """A service that starts from a snapshot takes its times for milliseconds."""
    original = container_snapshot.decode

    def decode(messages: Any) -> Any:
        return original(messages)._replace(time_unit=TimeUnit.MILLIS)

    patch(container_snapshot, "decode", decode)
