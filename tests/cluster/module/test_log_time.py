"""A log keeps the unit of time that it was begun with: a member with another setting does not go on with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.module.log.log_executor import LogRecord
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.settings import ModuleSettings
from ordo.cluster.module.versions.log_time import LogTime
from ordo.cluster.wire import codecs
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.cluster_time import TimeUnit


def record_of(unit: int) -> LogRecord:
    return LogRecord(96, codecs.NEW_LEADERSHIP_TERM_EVENT, SimpleNamespace(time_unit=unit))


def recovery_of(unit: TimeUnit | None) -> Any:
    contents = None if unit is None else SimpleNamespace(point=SimpleNamespace(time_unit=unit))
    return SimpleNamespace(contents=contents)


@pytest.mark.parametrize("own", TimeUnit)
@pytest.mark.parametrize("found", TimeUnit)
def test_a_member_reads_its_own_unit_alone(own: TimeUnit, found: TimeUnit) -> None:
    rule = LogTime(own)
    if own is found:
        rule.start(recovery_of(found))
        rule.on_record(record_of(found))
        return
    line = f'has time in the unit "{found.symbol}", and this member has time_unit = "{own.symbol}"'
    with pytest.raises(ClusterError, match=f"the snapshot {line}"):
        rule.start(recovery_of(found))
    with pytest.raises(ClusterError, match=f"the log at position 96 {line}"):
        rule.on_record(record_of(found))


def test_a_unit_that_is_none_is_refused() -> None:
    with pytest.raises(ClusterError, match="has time in the unit 7, and this member"):
        LogTime(TimeUnit.MILLIS).on_record(record_of(7))


def test_without_a_snapshot_and_for_other_records_there_is_nothing_to_refuse() -> None:
    rule = LogTime(TimeUnit.NANOS)
    rule.start(recovery_of(None))
    rule.on_record(LogRecord(96, codecs.TIMER_EVENT, SimpleNamespace()))


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
