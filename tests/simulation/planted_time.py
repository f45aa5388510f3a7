"""Planted bugs of cluster time: its unit, and what the log says of the clocks that stamp it (see `planted.py`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ordo.cluster.module.state.clock_watch import ClockWatch
from ordo.cluster.module.versions import clock_reports
from ordo.cluster.module.versions.clock_reports import ClockReports
from ordo.cluster.wire.levels import FIRST_LEVEL
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


def what_a_clock_was_first_told_is_reported_again(patch: Patch) -> None:
    """A leader that is elected again, or reports again, has the figures of its first report."""
    original: Any = ClockReports._encode
    first: dict[int, Any] = {}

    def _encode(self: Any) -> Any:
        clock = self._clock
        told = first.setdefault(id(self), clock.quality())
        self._clock = SimpleNamespace(quality=lambda: told, epoch_ns=clock.epoch_ns)
        try:
            return original(self)
        finally:
            self._clock = clock

    patch(ClockReports, "_encode", _encode)


def reports_of_deposed_leaders_are_kept(patch: Patch) -> None:
    """What a leader could not append before it was deposed it appends when it leads again."""
    original = ClockReports._encode

    def _encode(self: Any) -> Any:
        made, self.made = getattr(self, "made", None), original(self)
        return made or self.made

    patch(ClockReports, "_encode", _encode)


def clocks_are_reported_to_old_members(patch: Patch) -> None:
    """A leader does not wait for the level."""
    patch(clock_reports, "CLOCK_LEVEL", FIRST_LEVEL)


def only_the_first_term_of_a_leader_has_reports(patch: Patch) -> None:
    """A leader that is elected again waits for the time of a report that is never due."""
    original = ClockReports.work

    def work(self: Any, now_ns: int) -> None:
        if self._term_id in (-1, self._host.leadership_term_id):
            original(self, now_ns)

    patch(ClockReports, "work", work)
