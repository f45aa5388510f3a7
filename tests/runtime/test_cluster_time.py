"""Units of cluster time: what a timestamp's size tells, and conversions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ordo.runtime.native.cluster_time import (
    EARLIEST,
    MICROS_MIN,
    NANOS_MIN,
    TIMESTAMP_MAX,
    TimeUnit,
    describe_time,
    time_ms,
    time_ns,
    timestamp_of_date,
    timestamp_of_ns,
)
from ordo.runtime.settings.dates import parse_time
from ordo.service_api.requests import RequestTable

NOW_NS = 1_795_950_967_418_492_704
AT = datetime(2026, 11, 29, 11, 16, 7, 418_492, UTC)


@pytest.mark.parametrize(
    ("timestamp", "unit"),
    [
        (0, TimeUnit.MILLIS),
        (-1, TimeUnit.MILLIS),
        (NOW_NS // 1_000_000, TimeUnit.MILLIS),
        (MICROS_MIN - 1, TimeUnit.MILLIS),
        (MICROS_MIN, TimeUnit.MICROS),
        (NOW_NS // 1_000, TimeUnit.MICROS),
        (NANOS_MIN - 1, TimeUnit.MICROS),
        (NANOS_MIN, TimeUnit.NANOS),
        (NOW_NS, TimeUnit.NANOS),
        (2**63 - 1, TimeUnit.NANOS),
    ],
)
def test_the_size_of_a_timestamp_tells_its_unit(timestamp: int, unit: TimeUnit) -> None:
    assert TimeUnit.of_timestamp(timestamp) is unit
    assert time_ns(timestamp) == timestamp * unit.length_ns
    assert time_ms(timestamp) == timestamp * unit.length_ns // 1_000_000


@pytest.mark.parametrize("unit", TimeUnit)
def test_clocks_tell_the_unit_from_their_earliest_time_until_the_year_2240(unit: TimeUnit) -> None:
    last = (1 << 43) * 1_000_000 // unit.length_ns - 1
    assert TimeUnit.of_timestamp(EARLIEST[unit]) is TimeUnit.of_timestamp(last) is unit


@pytest.mark.parametrize("timestamp", [0, 7, MICROS_MIN - 1, MICROS_MIN, NANOS_MIN - 1, NANOS_MIN, NOW_NS, 2**63 - 1])
def test_native_code_reads_the_size_as_python_does(timestamp: int) -> None:
    table = RequestTable()
    _, identity = table.open(bytes(16), b"", 1, 0, 64, timestamp)
    assert identity is not None
    table.judge(64, b"", 1, 0, timestamp)
    assert identity.last_time == time_ms(timestamp)


@pytest.mark.parametrize("unit", TimeUnit)
def test_identities_expire_after_seven_days_in_every_unit(unit: TimeUnit) -> None:
    week = unit.duration(seconds=7 * 24 * 3600)
    start = NOW_NS // unit.length_ns
    for later, is_known in ((week, True), (week + unit.duration(milliseconds=1), False)):
        table = RequestTable()
        table.open(bytes(16), b"", 1, 0, 64, start)
        assert (table.judge(64, b"", 1, 0, start + later) is not None) is is_known


def test_durations_are_rounded_up_and_whole_numbers_exact() -> None:
    assert TimeUnit.MILLIS.duration(microseconds=1) == 1
    assert TimeUnit.MILLIS.duration(seconds=2, milliseconds=3) == 2_003
    assert TimeUnit.MICROS.duration(seconds=1.5, nanoseconds=1) == 1_500_001
    assert TimeUnit.NANOS.duration(seconds=9_000_000_000) == 9 * 10**18
    assert TimeUnit.NANOS.duration(microseconds=0.25) == 250


@pytest.mark.parametrize("unit", TimeUnit)
def test_dates_there_and_back(unit: TimeUnit) -> None:
    timestamp = NOW_NS // unit.length_ns
    assert unit.to_datetime(timestamp) == AT.replace(microsecond=418_000 if unit is TimeUnit.MILLIS else 418_492)
    assert unit.to_ns(unit.from_datetime(AT)) == NOW_NS // 1_000_000 * 1_000_000 + (0 if unit == 0 else 492_000)
    assert unit.from_datetime(AT.astimezone(timezone(timedelta(hours=5)))) == unit.from_datetime(AT)
    with pytest.raises(ValueError, match="needs its offset"):
        unit.from_datetime(AT.replace(tzinfo=None))
    assert TimeUnit.named(unit.symbol) is unit


def test_times_are_written_as_exactly_as_they_are_known() -> None:
    assert describe_time(NOW_NS) == "2026-11-29T11:16:07.418492704+00:00"
    assert describe_time(NOW_NS // 1_000) == "2026-11-29T11:16:07.418492+00:00"
    assert describe_time(NOW_NS // 1_000_000) == "2026-11-29T11:16:07.418+00:00"
    assert describe_time(1_795_950_967_000) == "2026-11-29T11:16:07.000+00:00"
    assert describe_time(-(2**62)) == str(-(2**62)), "no date of the calendar"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-11-29T11:16:07.418492704Z", NOW_NS),
        ("2026-11-29T12:16:07.418492704+01:00", NOW_NS),
        ("2026-11-29T11:16:07.418Z", NOW_NS // 1_000_000 * 1_000_000),
        ("2026-11-29T11:16:07.4184927Z", NOW_NS // 100 * 100),
        (f"{NOW_NS}ns", NOW_NS),
        (f"{NOW_NS // 1000}us", NOW_NS // 1000 * 1000),
        (f"{NOW_NS // 1_000_000}ms", NOW_NS // 1_000_000 * 1_000_000),
        ("1970-01-02T00:00:00Z", 86_400_000),
        ("2262-04-11T23:47:16.854775807Z", TIMESTAMP_MAX),
        ("2300-01-01T00:00:00Z", TIMESTAMP_MAX),
        ("9999-12-31T23:59:59Z", TIMESTAMP_MAX),
        ("99999999999999ms", TIMESTAMP_MAX),
        ("9999999999999999999ms", TIMESTAMP_MAX),
        ("0ms", 0),
        ("2026-11-29T11:16:07", None),
        ("12", None),
        ("12s", None),
        ("-1ms", None),
        ("now", None),
    ],
)
def test_times_as_people_write_them(text: str, found: int | None) -> None:
    assert parse_time(text) == found
    assert found is None or time_ns(found) == (found * 1_000_000 if found < MICROS_MIN else found)


def test_dates_and_nanoseconds_as_timestamps() -> None:
    assert timestamp_of_date(AT) == NOW_NS // 1000 * 1000
    assert timestamp_of_date(datetime.max.replace(tzinfo=UTC)) == TIMESTAMP_MAX
    assert timestamp_of_ns(NANOS_MIN - 1) == (NANOS_MIN - 1) // 1_000_000
