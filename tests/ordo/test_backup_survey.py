"""What a restored cluster is made by: the records of a log up to a position or a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.segments.reader import RecordedMessage
from ordo.backup.restore import check_time_unit, close_log, parse_time
from ordo.backup.survey import Survey
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.settings import ClusterSettings
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.cluster.wire.levels import IDENTITY_LEVEL
from ordo.cluster.wire.log_identity import Log, are_of_two_clusters
from ordo.cluster.wire.members import Member
from ordo.runtime.errors import ArchiveError, ConfigurationError
from ordo.runtime.native.cluster_time import TimeUnit, time_ns

LENGTH = 96


def log(*records: bytes) -> list[RecordedMessage]:
    return [RecordedMessage(record, LENGTH * number, LENGTH * (number + 1), 0) for number, record in enumerate(records)]


def term(term_id: int, base: int, timestamp: int = 0, app_version: int = 1) -> bytes:
    fields: dict[str, Any] = {"leadership_term_id": term_id, "term_base_log_position": base, "timestamp": timestamp}
    return codecs.NEW_LEADERSHIP_TERM_EVENT.encode(app_version=app_version, **fields)


def message(term_id: int, timestamp: int) -> bytes:
    fields = {"leadership_term_id": term_id, "cluster_session_id": 7, "timestamp": timestamp}
    return codecs.SESSION_MESSAGE_HEADER.encode(**fields) + b"payload"


def opened(term_id: int, session_id: int) -> bytes:
    return codecs.SESSION_OPEN_EVENT.encode(leadership_term_id=term_id, cluster_session_id=session_id, timestamp=5)


def closed(term_id: int, session_id: int) -> bytes:
    return codecs.SESSION_CLOSE_EVENT.encode(leadership_term_id=term_id, cluster_session_id=session_id, timestamp=6)


def version(app_version: int, service_id: int = -1) -> bytes:
    return ordo_codecs.VERSION_EVENT.encode(
        leadership_term_id=0, timestamp=7, app_version=app_version, member_id=0, service_id=service_id
    )


def skip(position: int) -> bytes:
    return ordo_codecs.SKIP_EVENT.encode(
        leadership_term_id=0, timestamp=8, skipped_position=position, member_id=0, text=b""
    )


@pytest.mark.parametrize("level", [0, IDENTITY_LEVEL])
def test_a_restored_log_is_another_one_from_its_first_own_record_on(level: int) -> None:
    """It said so from its second or third own record on: what another cluster had in their place counted as its own."""
    member = Member(0, *["host:1"] * 5)
    closing = close_log(Survey(4096, level=level), b"", 65536, NamedConfiguration((member,), ()), 0, b"")
    (said,) = [
        found[1]
        for one in closing.records
        if (found := ordo_codecs.decode(one)) is not None and found[0] is ordo_codecs.CLUSTER_IDENTITY_EVENT
    ]
    assert closing.identity_position == said.log_position == 4096 + 32
    restored = Log(closing.identity, closing.identity_position, 1 << 20)
    for read_position, is_other in ((4096, False), (4096 + 64, True)):
        assert are_of_two_clusters(Log(b"1" * 16, 96, read_position), restored) is is_other


@pytest.mark.parametrize(("term_length", "end"), [(65536, 4096 + 96), (4160, 4160 + 96)])
def test_the_first_record_names_the_position_behind_it_as_leaders_do(term_length: int, end: int) -> None:
    """Where the rest of its term is too short for it, it is in the next one."""
    members = NamedConfiguration((Member(0, *["host:1"] * 5),), ())
    found = codecs.decode(close_log(Survey(4096), b"", term_length, members, 0, b"").records[0])
    assert found is not None and found[1].log_position == end
    assert found[1].term_base_log_position == 4096


def test_terms_sessions_and_time_up_to_a_position() -> None:
    records = log(term(0, 0), opened(0, 1), opened(0, 2), closed(0, 1), term(3, 4 * LENGTH, 9), message(3, 20))
    survey = Survey(0)
    assert survey.advance(records, 5 * LENGTH)
    assert survey.terms == [(0, 0), (3, 4 * LENGTH)]
    assert survey.sessions == {2}
    assert survey.timestamp == 9
    assert survey.versions_of(0) == [1]


def test_no_record_ends_there() -> None:
    survey = Survey(0)
    assert not survey.advance(log(term(0, 0), message(0, 1), message(0, 2)), 2 * LENGTH - 32)
    assert survey.position == LENGTH


def test_a_time_is_proven_by_what_is_later() -> None:
    records = log(term(0, 0, 1), message(0, 10), message(0, 10), message(0, 11))
    survey = Survey(0)
    assert survey.advance_to_time(records, 10)
    assert survey.position == 3 * LENGTH
    assert not Survey(0).advance_to_time(records, 11), "there may have been more of this time"


def test_versions_that_were_left_out_do_not_count() -> None:
    survey = Survey(0)
    assert survey.advance(log(term(0, 0), version(2), version(3), skip(3 * LENGTH)), 4 * LENGTH)
    assert survey.versions_of(0) == [1, 2]
    assert survey.version_of(0) == 2


def test_each_service_has_versions_of_its_own() -> None:
    survey = Survey(0)
    records = log(term(0, 0), version(2, service_id=1), version(3), version(4, service_id=0), skip(4 * LENGTH))
    assert survey.advance(records, 5 * LENGTH)
    assert [survey.versions_of(one) for one in (0, 1)] == [[1, 3], [1, 2, 3]]


def test_the_snapshot_says_what_each_service_begins_with() -> None:
    module = module_snapshot.ModuleSnapshot(module_snapshot.SnapshotPoint(LENGTH, 0, 1), other_versions={1: 2})
    module.trackers = [module_snapshot.PendingTracker(one, 1, 0) for one in range(3)]
    survey = Survey.of_snapshot(module, 7)
    assert [survey.versions_of(one) for one in range(3)] == [[1], [2], [1]]


def test_the_logs_of_two_clusters_are_told_apart() -> None:
    with pytest.raises(ArchiveError, match="not the log of one cluster"):
        Survey(0).advance(log(term(0, 0), message(0, 1), message(1_050_000, 2)), 3 * LENGTH)


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00", "now", "", "12:00", "-5", "1e3"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--time"):
        parse_time(text)


def test_times() -> None:
    texts = (
        "1772366400000",
        "1772366400000000000",
        "1772366400000ms",
        "2026-03-01T12:00:00Z",
        "2026-03-01T13:00:00+01:00",
    )
    assert {time_ns(parse_time(text)) for text in texts} == {1772366400000000000}


@pytest.mark.parametrize("unit", TimeUnit)
def test_the_unit_of_the_log_goes_on_behind_its_end(unit: TimeUnit) -> None:
    first = codecs.NEW_LEADERSHIP_TERM_EVENT.encode(
        leadership_term_id=0, term_base_log_position=0, timestamp=unit.duration(seconds=1_772_366_400), time_unit=unit
    )
    later = [message(0, unit.duration(seconds=1_772_366_400, milliseconds=one)) for one in (1, 2, 3)]
    survey = Survey(0)
    assert survey.advance_to_time(log(first, *later), 1_772_366_400_002), "one that is later proves that these are all"
    assert (survey.position, survey.time_unit) == (3 * LENGTH, unit)
    members = NamedConfiguration((Member(0, *["host:1"] * 5),), ())
    closing = close_log(survey, b"", 64 * 1024, members, 0, b"draw")
    _, values = codecs.decode(closing.records[0]) or (None, None)
    assert values is not None and (values.time_unit, values.timestamp) == (unit, survey.timestamp)


def test_a_unit_that_is_none_is_refused() -> None:
    first = codecs.NEW_LEADERSHIP_TERM_EVENT.encode(leadership_term_id=0, term_base_log_position=0, time_unit=9)
    with pytest.raises(ArchiveError, match="position 96 has time_unit=9"):
        Survey(0).advance(log(first), LENGTH)


@pytest.mark.parametrize(
    ("time_unit", "time_unit_from", "found", "is_refused"),
    [
        ("ms", "", TimeUnit.MILLIS, False),
        ("us", "ms", TimeUnit.MILLIS, False),
        ("us", "ms", TimeUnit.MICROS, False),
        ("us", "", TimeUnit.MILLIS, True),
        ("ms", "", TimeUnit.MICROS, True),
        ("us", "ms", TimeUnit.NANOS, True),
    ],
)
def test_a_member_is_restored_with_the_units_that_it_would_start_with(
    time_unit: Any, time_unit_from: Any, found: TimeUnit, *, is_refused: bool
) -> None:
    """Also to a position before the log went over, with the settings that it went over with."""
    settings = ClusterSettings(time_unit=time_unit, time_unit_from=time_unit_from)
    config: Any = SimpleNamespace(node=SimpleNamespace(member_id=1), cluster=settings)
    survey: Any = SimpleNamespace(terms=[(0, 0)], time_unit=found)
    if not is_refused:
        check_time_unit(config, survey)
        return
    line = f'member 1 has time_unit = "{time_unit}", and the log of the backup has "{found.symbol}" at this position'
    with pytest.raises(ConfigurationError, match=line):
        check_time_unit(config, survey)
