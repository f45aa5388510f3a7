"""The protocol level of the log: raised when every member knows the next one, checked at each record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.module.log.log_executor import LogRecord
from ordo.cluster.module.versions.protocol_level import SILENCE_NS_MAX, ProtocolLevel
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.cluster.wire.levels import MEMBERS_LEVEL
from ordo.cluster.wire.members import Member
from ordo.runtime.errors import ClusterError, DecodeError
from ordo.runtime.native.time_units import SECOND_NS


class OwnMember:
    """One whose log is what it has appended itself. `sent`: levels that it has told the others."""

    def __init__(self, own_level: int = 1, leads: bool = True) -> None:
        self.leadership_term_id, self.cluster_time, self.leads = 3, 1000, leads
        self.appended: list[Any] = []
        self.sent: list[int] = []
        core = SimpleNamespace(configuration=SimpleNamespace(member_ids=(0, 1, 2)))
        self.level = ProtocolLevel(cast(Any, self), cast(Any, core), cast(Any, self), 0)
        self.level.own_level = own_level

    def append(self, record: bytes) -> bool:
        if self.leads:
            found = ordo_codecs.decode(record)
            assert found is not None
            self.appended.append(found[1])
            self.level.on_record(LogRecord(100 * len(self.appended), *found))
        return self.leads

    def broadcast(self, message: bytes) -> None:
        found = ordo_codecs.decode(message)
        assert found is not None and found[1].member_id == 0
        self.sent.append(found[1].level)

    def hear(self, member_id: int, level: int, now_ns: int) -> None:
        report = SimpleNamespace(member_id=member_id, level=level)
        self.level.handlers[ordo_codecs.LEVEL_REPORT](report, now_ns)


def hash_event(position: int) -> LogRecord:
    return LogRecord(position, ordo_codecs.STATE_HASH_EVENT, SimpleNamespace())


def version_event(position: int, service_id: int) -> LogRecord:
    return LogRecord(position, ordo_codecs.VERSION_EVENT, SimpleNamespace(service_id=service_id))


def configuration_event(position: int, voter_count: int, learner_count: int) -> LogRecord:
    voters = [Member(one, *(f"h:{one}{port}" for port in range(5))) for one in range(voter_count)]
    learners = [Member(9 + one, *(f"h:{9 + one}{port}" for port in range(5))) for one in range(learner_count)]
    found = ordo_codecs.decode(NamedConfiguration(tuple(voters), tuple(learners)).encode(3, 1000))
    assert found is not None
    return LogRecord(position, *found)


def level_event(position: int, level: int) -> LogRecord:
    return LogRecord(position, ordo_codecs.LEVEL_EVENT, SimpleNamespace(level=level))


def test_it_is_raised_when_all_members_know_it_and_then_nobody_speaks_of_it() -> None:
    member = OwnMember()
    for now_ns in range(3):
        member.level.work(now_ns)
    member.hear(1, 1, 3)
    member.level.work(3)
    assert member.appended == [] and member.sent == [1] * 4, "member 2 may be of a release that knows nothing of it"
    member.hear(2, 7, 4)
    member.level.work(4)
    assert [(one.level, one.member_id) for one in member.appended] == [(1, 0)]
    member.level.work(5)
    assert len(member.appended) == 1 and len(member.sent) == 5
    assert (member.level.newest, member.level.at(99), member.level.at(100)) == (1, 0, 1)


def test_what_a_member_said_before_it_was_silent_does_not_count() -> None:
    member = OwnMember()
    member.hear(1, 1, 0)
    member.hear(2, 1, SECOND_NS)
    member.level.work(SILENCE_NS_MAX + 1)
    assert member.appended == []


def test_a_log_that_is_cut_has_the_level_of_before_and_is_spoken_of_again() -> None:
    member = OwnMember(leads=False)
    member.level.on_record(level_event(200, 1))
    member.level.truncate(100)
    assert member.level.newest == 0
    member.level.work(0)
    assert member.sent == [1]


def test_a_release_that_does_not_know_the_level_says_so() -> None:
    text = "the log at position 200 has protocol level 2, and this release of Ordo knows 1 at most: install the release"
    with pytest.raises(ClusterError, match=text):
        OwnMember().level.on_record(level_event(200, 2))
    with pytest.raises(ClusterError, match="the snapshot has protocol level 2"):
        OwnMember().level.start(2)


def test_a_record_that_the_log_may_not_have_is_refused() -> None:
    member = OwnMember()
    with pytest.raises(ClusterError, match="StateHashEvent at position 96 needs protocol level 1, and the log has 0"):
        member.level.on_record(hash_event(96))
    member.level.on_record(level_event(200, 1))
    member.level.on_record(hash_event(300))
    restarted = OwnMember()
    restarted.level.start(1)
    restarted.level.on_record(hash_event(300))


def test_a_version_of_one_service_needs_a_level_and_one_of_all_does_not() -> None:
    member = OwnMember(own_level=2)
    for level, position in ((0, 100), (1, 300)):
        member.level.on_record(version_event(position, -1))
        member.level.on_record(version_event(position, -(2**31)))  # as an earlier release has written it
        text = f"VersionEvent at position {position} needs protocol level 2, and the log has {level} there"
        with pytest.raises(ClusterError, match=text):
            member.level.on_record(version_event(position, 0))
        assert not member.level.takes_service_versions
        member.level.on_record(level_event(position + 100, level + 1))
    member.level.on_record(version_event(500, 0))
    assert member.level.takes_service_versions


def test_a_level_that_is_none_is_refused() -> None:
    for level in (-1, 0, 1 << 20):
        with pytest.raises(DecodeError, match=f"LevelReport: level={level}"):
            OwnMember().hear(1, level, 0)


def test_more_than_seven_members_need_a_level_of_their_own() -> None:
    member = OwnMember(own_level=MEMBERS_LEVEL)
    member.level.on_record(configuration_event(100, 7, 0))
    member.level.on_record(configuration_event(200, 3, 4))
    with pytest.raises(ClusterError, match=f"ConfigurationEvent at position 300 needs protocol level {MEMBERS_LEVEL}"):
        member.level.on_record(configuration_event(300, 3, 5))
    member.level.on_record(level_event(300, MEMBERS_LEVEL))
    member.level.on_record(configuration_event(400, 3, 5))
