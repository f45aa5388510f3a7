"""Members ask each other which code and which protocol level they have, across releases that say less."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.admin.upgrading import OwnVersions, VersionInForce, cluster_versions, upgrade
from ordo.cluster.module.versions.version_survey import TIMEOUT_NS, VersionSurvey
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import NO_VERSION
from ordo.cluster.wire.version_rows import (
    Code,
    InForce,
    MemberCode,
    MemberLevel,
    decode_codes,
    decode_levels,
    decode_members,
    encode_codes,
    encode_in_force,
    encode_members,
    encode_services,
    shared_rows,
)
from ordo.runtime.errors import ClusterError, DecodeError
from ordo.runtime.sbe import Message

REPORT = ordo_codecs.VERSIONS_REPORT
OLD_REPORT = Message(
    "VersionsReport",
    114,
    901,
    1,
    fields=[
        *(("request_id", "i64"), ("lack_position", "i64"), ("member_id", "i32"), ("follower_member_id", "i32")),
        ("lack_version", "version_t"),
    ],
    data=[("versions", "bytes")],
)
OLD_RESPONSE = Message(
    "VersionsResponse",
    118,
    901,
    1,
    fields=[
        *(("correlation_id", "i64"), ("leader_member_id", "i32"), ("app_version", "version_t")),
        ("since_position", "i64"),
    ],
    data=[("members", "bytes")],
)
"""As releases before protocol levels were shown encode them."""
OLD_FIELDS = "correlation_id", "leader_member_id", "app_version", "since_position", "members"


class Members:
    """Three of them, of which one is of the earlier release and one says nothing. What is sent is kept."""

    def __init__(self, own_level: int = 3, service_count: int = 1) -> None:
        core = SimpleNamespace(configuration=SimpleNamespace(voter_ids=(0, 1, 2)))
        self.sent: list[tuple[int, bytes]] = []
        self.found: list[list[MemberCode]] = []
        level = SimpleNamespace(own_level=own_level)
        self.lacks: dict[int, tuple[int, int]] = {}
        self.survey = VersionSurvey(
            cast(Any, core),
            cast(Any, self),
            cast(Any, level),
            0,
            service_count,
            lambda service_id: self.lacks.get(service_id, (-1, NO_VERSION)),
        )
        self.survey.own = {one: [Code(1, 0)] for one in range(service_count)}

    def send(self, member_id: int, message: bytes) -> None:
        self.sent.append((member_id, message))

    def hear(self, message: bytes) -> None:
        self.survey.handlers[REPORT](REPORT.decode(message), 0)


def report(table: Message, member_id: int, request_id: int, **values: Any) -> bytes:
    codes = encode_codes([Code(1, 0)])
    return table.encode(
        request_id=request_id, lack_position=-1, member_id=member_id, follower_member_id=0, versions=codes, **values
    )


def test_levels_are_of_those_who_said_theirs_in_answer_to_this_question() -> None:
    members = Members()
    members.survey.begin((0, 1, 2), members.found.append, 10)
    members.survey.work(10)
    assert [to for to, _ in members.sent] == [1, 2]
    members.hear(report(REPORT, 1, 9, protocol_level=7))
    assert members.survey.levels_of([1]) == [MemberLevel(1, -1)], "an answer to another question"
    members.hear(report(REPORT, 1, 10, protocol_level=2))
    members.hear(report(OLD_REPORT, 2, 10))
    members.survey.work(11)
    assert members.survey.levels_of([2, 0, 1]) == [MemberLevel(0, 3), MemberLevel(1, 2), MemberLevel(2, -1)]
    assert [(row.member_id, row.app_version) for row in members.found[0]] == [(0, 1), (1, 1), (2, 1)]
    members.survey.begin((0, 1), members.found.append, 20)
    members.survey.work(20 + TIMEOUT_NS)
    assert members.survey.levels_of([0, 1]) == [MemberLevel(0, 3), MemberLevel(1, -1)], "it is silent now"


def test_an_earlier_release_reads_a_report_without_the_level() -> None:
    members = Members()
    question = ordo_codecs.VERSIONS_QUESTION.decode(ordo_codecs.VERSIONS_QUESTION.encode(request_id=5, member_id=1))
    members.survey.handlers[ordo_codecs.VERSIONS_QUESTION](question, 0)
    ((to, message),) = members.sent
    assert to == 1 and REPORT.decode(message).protocol_level == 3
    known = OLD_REPORT.decode(message)
    assert (known.request_id, known.member_id, known.versions) == (5, 0, encode_codes([Code(1, 0)]))


def test_each_service_of_a_member_is_told_of() -> None:
    members, asked = Members(service_count=2), Members(service_count=2)
    members.survey.own[1] = [Code(2, 0)]
    members.survey.begin((0, 1, 2), members.found.append, 5)
    asked.survey.own = {0: [Code(1, 0), Code(3, 0)]}
    question = ordo_codecs.VERSIONS_QUESTION.decode(ordo_codecs.VERSIONS_QUESTION.encode(request_id=5, member_id=0))
    asked.survey.handlers[ordo_codecs.VERSIONS_QUESTION](question, 0)
    assert REPORT.decode(asked.sent[-1][1]).services == b"", "service 1 has said nothing"
    asked.survey.own[1] = [Code(2, 0), Code(3, 0)]
    asked.lacks[1] = 320, 4
    asked.survey.handlers[ordo_codecs.VERSIONS_QUESTION](question, 0)
    answer = REPORT.decode(asked.sent[-1][1])._replace(member_id=1)
    assert (decode_codes(answer.versions), answer.lack_position, answer.lack_version) == ([Code(3, 0)], 320, 4)
    members.survey.handlers[REPORT](answer, 6)
    members.hear(report(OLD_REPORT, 2, 5))
    members.survey.work(7)
    (found,) = members.found
    assert [row for row in found if row.member_id == 1] == [
        MemberCode(1, 1, 1, -1, NO_VERSION, 0),
        MemberCode(1, 1, 3, -1, NO_VERSION, 0),
        MemberCode(1, 1, 2, 320, 4, 1),
        MemberCode(1, 1, 3, 320, 4, 1),
    ]
    of_others = [(row.member_id, row.service_id, row.app_version) for row in found if row.member_id != 1]
    assert of_others == [(0, 0, 1), (0, 1, 2), (2, 0, 1), (2, 1, 1)], "an earlier release says what all have"


def test_rows_of_services_that_nobody_runs_are_not_counted() -> None:
    members = Members(service_count=2)
    members.survey.begin((1,), members.found.append, 5)
    rows = encode_services([MemberCode(1, 1, 7, -1, 0, 2), MemberCode(9, 0, 3, -1, 0, 1)])
    members.hear(report(REPORT, 1, 5, services=rows))
    members.survey.work(6)
    assert members.found[0] == [MemberCode(1, 1, 0, -1, 0, 0), MemberCode(1, 1, 3, -1, 0, 1)]
    with pytest.raises(DecodeError, match="no rows of 28"):
        members.survey.begin((1,), members.found.append, 7)
        members.hear(report(REPORT, 1, 7, services=bytes(27)))


def test_a_command_that_asks_a_node_of_an_earlier_release_shows_what_that_says() -> None:
    rows = encode_members([MemberCode(0, 1, 1, -1, NO_VERSION)])
    old = OLD_RESPONSE.encode(correlation_id=1, leader_member_id=0, app_version=1, since_position=64, members=rows)
    answer = ordo_codecs.VERSIONS_RESPONSE.decode(old)
    found = cluster_versions(cast(Any, SimpleNamespace(ask=lambda *_: answer)))
    assert (found.services, found.protocol_level) == ([VersionInForce("1", 64)], -1)
    assert [one.protocol_level for one in found.members] == [-1]
    new = ordo_codecs.VERSIONS_RESPONSE.encode(
        correlation_id=1, leader_member_id=0, app_version=1, since_position=64, protocol_level=1, members=rows
    )
    assert OLD_RESPONSE.decode(new).members == rows


def test_a_command_is_shown_each_service_and_what_all_have() -> None:
    rows = [MemberCode(0, 1, 1, -1, 0, 0), MemberCode(0, 1, 2, -1, 0, 0), MemberCode(0, 1, 2, 96, 3, 1)]
    answer = ordo_codecs.VERSIONS_RESPONSE.decode(
        ordo_codecs.VERSIONS_RESPONSE.encode(
            correlation_id=1,
            leader_member_id=0,
            app_version=1,
            since_position=64,
            members=encode_members(shared_rows(rows)),
            in_force=encode_in_force([InForce(1, 64), InForce(3, -1)]),
            services=encode_services(rows),
        )
    )
    found = cluster_versions(cast(Any, SimpleNamespace(ask=lambda *_: answer)))
    assert found.services == [VersionInForce("1", 64), VersionInForce("3", -1)]
    (member,) = found.members
    assert member.common == OwnVersions(["2"], 96, "3")
    assert member.services == [OwnVersions(["1", "2"], -1, ""), OwnVersions(["2"], 96, "3")]
    known = OLD_RESPONSE.decode(OLD_RESPONSE.encode(**{name: getattr(answer, name) for name in OLD_FIELDS}))
    assert decode_members(known.members) == [MemberCode(0, 1, 2, 96, 3)], "what an earlier release shows"


def test_one_service_is_not_upgraded_by_a_leader_that_would_upgrade_all() -> None:
    answer = ordo_codecs.VERSIONS_RESPONSE.decode(
        OLD_RESPONSE.encode(correlation_id=1, leader_member_id=0, app_version=1, since_position=64, members=b"")
    )
    asked: list[Message] = []

    def ask(question: Message, *rest: Any) -> Any:
        asked.append(question)
        return answer

    with pytest.raises(ClusterError, match="needs protocol level 2 of the log, which has 0"):
        upgrade(cast(Any, SimpleNamespace(ask=ask)), 2, 1)
    assert asked == [ordo_codecs.VERSIONS_QUERY]


def test_levels_that_are_cut_are_refused() -> None:
    with pytest.raises(DecodeError, match="no rows of 8"):
        decode_levels(bytes(9))
