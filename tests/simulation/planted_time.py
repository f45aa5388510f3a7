"""Planted bugs of cluster time: its unit, and what the log says of the clocks that stamp it (see `planted.py`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ordo.cluster.module.client_parts import ClientParts
from ordo.cluster.module.sessions.timers import TimerService
from ordo.cluster.module.versions import clock_reports
from ordo.cluster.module.versions.clock_reports import ClockReports
from ordo.cluster.module.versions.log_time import LogTime
from ordo.cluster.wire.levels import FIRST_LEVEL
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.sequencer import sequencer
from ordo.service_api.native import Header
from ordo.service_api.timers import ServiceTimers
from tests.simulation.planted import Patch
from tests.simulation.service import RegisterService


def one_leader_stamps_in_another_unit(patch: Patch) -> None:
    """A member takes the unit that its log was begun with for another one: milliseconds go back from microseconds."""

    def begin_term(self: LogTime) -> TimeUnit:
        unit: TimeUnit = original(self)
        if member_id_of(self) == 1:
            self._set_unit(TimeUnit.MILLIS)
        return unit

    original: Any = LogTime.begin_term
    patch(LogTime, "begin_term", begin_term)


def member_id_of(time: LogTime) -> int:
    host: Any = time._host
    return int(host.member_id)


def services_keep_the_deadlines_of_the_former_unit(patch: Patch) -> None:
    """A log goes over to microseconds, and timers that were set in milliseconds are due at once."""
    patch(ServiceTimers, "rescale", lambda self, former, unit: None)


def modules_compare_deadlines_with_times_of_another_unit(patch: Patch) -> None:
    """The leader does not hear in which unit the deadlines of its services are."""
    patch(TimerService, "on_unit", lambda self, unit: None)


def sessions_are_silent_for_a_thousandth_of_their_time(patch: Patch) -> None:
    """A leader measures the silence of clients in the unit that its log was begun with."""
    patch(ClientParts, "take_time_unit", lambda self, unit: None)


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


def a_member_takes_its_own_time_for_that_of_arrival(patch: Patch) -> None:
    """Its services are told when it came to execute a message, not what the log says of its arrival."""
    original = RegisterService.on_session_message

    def on_session_message(self: Any, session: Any, timestamp: int, payload: bytes, header: Any) -> Any:
        if self.member_id == 1 and header.arrival_ns is not None:
            world: Any = self._observer
            header = Header(header.position, header.leadership_term_id, header.sequence, world.now_ns + 1)
        return original(self, session, timestamp, payload, header)

    patch(RegisterService, "on_session_message", on_session_message)


def arrivals_are_written_for_old_members(patch: Patch) -> None:
    """A leader does not wait for the level."""
    patch(sequencer, "ARRIVAL_LEVEL", FIRST_LEVEL)


def only_the_first_term_of_a_leader_has_reports(patch: Patch) -> None:
    """A leader that is elected again waits for the time of a report that is never due."""
    original = ClockReports.work

    def work(self: Any, now_ns: int) -> None:
        if self._term_id in (-1, self._host.leadership_term_id):
            original(self, now_ns)

    patch(ClockReports, "work", work)
