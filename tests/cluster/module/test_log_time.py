"""A log keeps the unit of time that it was begun with, unless it is told to go over to a finer one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.module.log.log_executor import LogRecord
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.settings import ModuleSettings
from ordo.cluster.module.versions.log_time import LogTime
from ordo.cluster.wire import codecs
from ordo.cluster.wire.levels import PROTOCOL_LEVEL, TIME_UNIT_LEVEL
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.cluster_time import TimeUnit


class Member:
    """A member's log, its clock, and what was told of it."""

    def __init__(
        self, unit: TimeUnit, former: TimeUnit | None = None, *, level: int = PROTOCOL_LEVEL, converts: bool = True
    ) -> None:
        self.told: list[str] = []
        self.clock: list[TimeUnit] = []
        self.levels = SimpleNamespace(newest=level)
        self.converts = converts
        self.time = LogTime(self, cast(Any, self.levels), unit, former, lambda: self.converts, self.clock.append)

    def announce(self, event: str, text: str) -> None:
        self.told.append(text)

    def start(self, snapshot: TimeUnit | None, *terms: int) -> Member:
        contents = None if snapshot is None else SimpleNamespace(point=SimpleNamespace(time_unit=snapshot))
        recovery: Any = SimpleNamespace(contents=contents)
        self.time.start(recovery)
        for number, unit in enumerate(terms, 1):
            self.record(unit, 96 * number)
        self.time.go_on()
        return self

    def record(self, unit: int, position: int = 96) -> None:
        self.time.on_record(LogRecord(position, codecs.NEW_LEADERSHIP_TERM_EVENT, SimpleNamespace(time_unit=unit)))


MS, US, NS = TimeUnit


@pytest.mark.parametrize("own", TimeUnit)
@pytest.mark.parametrize("found", TimeUnit)
def test_a_member_starts_with_its_own_unit_alone(own: TimeUnit, found: TimeUnit) -> None:
    if own is found:
        assert Member(own).start(found, found).time.begin_term() is own
        return
    line = f'has time in the unit "{found.symbol}", and this member has time_unit = "{own.symbol}"'
    with pytest.raises(ClusterError, match=f"the snapshot {line}"):
        Member(own).start(found)
    with pytest.raises(ClusterError, match=f"the log at position 96 {line}"):
        Member(own).start(None, found)


def test_a_unit_that_is_none_is_refused() -> None:
    with pytest.raises(ClusterError, match="has time in the unit 7, and this member"):
        Member(MS).start(None, 7)


def test_without_a_snapshot_and_for_other_records_there_is_nothing_to_refuse() -> None:
    member = Member(NS).start(None)
    member.time.on_record(LogRecord(96, codecs.TIMER_EVENT, SimpleNamespace()))
    assert member.time.begin_term() is NS and member.clock == [NS]


def test_a_term_begins_with_the_finer_unit_where_the_settings_name_the_former_one() -> None:
    member = Member(US, MS).start(MS, MS)
    assert member.time.at(96) is MS and set(member.clock) == {MS}
    assert member.time.begin_term() is US and member.clock[-1] is US
    member.record(US, 192)
    assert [member.time.at(position) for position in (96, 191, 192, 500)] == [MS, MS, US, US]
    member.time.truncate(150)
    assert member.time.at(500) is MS and member.clock[-1] is MS, "that term was not committed"
    assert member.time.begin_term() is US


def test_a_running_member_follows_whatever_its_settings_say_and_starts_with_the_right_ones() -> None:
    member = Member(MS).start(None, MS)
    member.record(US, 192)
    assert member.time.begin_term() is US, "and never goes back"
    with pytest.raises(ClusterError, match='the log at position 192 has time in the unit "us", and this member has'):
        Member(MS).start(None, MS, US)
    assert Member(US, MS).start(None, MS, US).time.begin_term() is US
    with pytest.raises(ClusterError, match='position 96 has time in the unit "ms"'):
        Member(US).start(None, MS, US)
    assert Member(US).start(US, US).time.begin_term() is US, "the beginning is gone"


def test_a_term_that_did_not_come_to_be_leaves_the_unit_of_the_log() -> None:
    """Its first record found no room, and another member leads the next term, in the former unit."""
    member = Member(US, MS).start(None, MS)
    assert member.time.begin_term() is US and member.clock[-1] is US
    member.record(MS, 192)
    assert member.time.at(500) is MS and member.clock[-1] is MS


def test_a_log_goes_over_to_finer_units_alone() -> None:
    member = Member(NS, MS).start(None, MS)
    member.record(NS, 192)
    with pytest.raises(ClusterError, match='position 288 has time in the unit "us"'):
        member.record(US, 288)


def test_a_log_of_a_lower_protocol_level_keeps_its_unit() -> None:
    member = Member(US, MS, level=TIME_UNIT_LEVEL - 1).start(None, MS)
    assert member.time.begin_term() is MS and member.told == []
    with pytest.raises(ClusterError, match='position 192 has time in the unit "us"'):
        member.record(US, 192)
    member.levels.newest = TIME_UNIT_LEVEL
    assert member.time.begin_term() is US


def test_services_that_cannot_convert_their_times_keep_the_unit_and_that_is_told_once() -> None:
    member = Member(US, MS, converts=False).start(None, MS)
    assert [member.time.begin_term() for _ in range(3)] == [MS] * 3
    assert len(member.told) == 1 and "on_time_unit" in member.told[0]
    member.converts = True
    assert member.time.begin_term() is US


def test_the_former_unit_is_the_coarser_one() -> None:
    assert ModuleSettings(member_id=0, time_unit="us", time_unit_from="ms").former_time_unit is TimeUnit.MILLIS
    with pytest.raises(ValueError, match='time_unit_from="us": allowed is a coarser unit than time_unit="us", or ""'):
        ModuleSettings(member_id=0, time_unit="us", time_unit_from="us")


def test_milliseconds_are_the_default() -> None:
    assert ModuleSettings(member_id=0).cluster_time_unit is TimeUnit.MILLIS
    assert ModuleSettings(member_id=0, time_unit="ns").cluster_time_unit is TimeUnit.NANOS


@pytest.mark.parametrize("codec", [module_snapshot, container_snapshot])
def test_snapshots_of_a_version_that_had_no_time_unit_are_in_milliseconds(codec: Any) -> None:
    no_unit: Any = -(2**31)
    point = module_snapshot.SnapshotPoint(640, 3, 1, no_unit)
    contents: Any = module_snapshot.ModuleSnapshot(point, 2, terms=[(3, 0)])
    if codec is container_snapshot:
        contents = container_snapshot.ServiceSnapshot(640, 3, no_unit, 1, (), ())
    found = codec.decode(iter(list(codec.encode(contents))))
    assert (found.point if codec is module_snapshot else found).time_unit is TimeUnit.MILLIS
