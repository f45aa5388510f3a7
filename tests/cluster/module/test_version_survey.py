"""Members ask each other which code and which protocol level they have, across releases that say less."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.module.version_survey import TIMEOUT_NS, VersionSurvey
from cluster.node.upgrading import cluster_versions
from cluster.wire import ordo_codecs
from cluster.wire.app_version import NO_VERSION
from cluster.wire.version_rows import Code, MemberCode, MemberLevel, decode_levels, encode_codes, encode_members
from runtime.errors import DecodeError
from runtime.sbe import Message

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


class Members:
    """Three of them, of which one is of the earlier release and one says nothing. What is sent is kept."""

    def __init__(self, own_level: int = 3) -> None:
        core = SimpleNamespace(configuration=SimpleNamespace(voter_ids=(0, 1, 2)))
        self.sent: list[tuple[int, bytes]] = []
        self.found: list[list[MemberCode]] = []
        level = SimpleNamespace(own_level=own_level)
        lack = -1, NO_VERSION
        self.survey = VersionSurvey(cast(Any, core), cast(Any, self), cast(Any, level), 0, lambda: lack)
        self.survey.own = [Code(1, 0)]

    def send(self, member_id: int, message: bytes) -> None:
        self.sent.append((member_id, message))

    def hear(self, message: bytes) -> None:
        self.survey.handlers[REPORT](REPORT.decode(message), 0)


def report(table: Message, member_id: int, request_id: int, **values: int) -> bytes:
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


def test_a_command_that_asks_a_node_of_an_earlier_release_shows_what_that_says() -> None:
    rows = encode_members([MemberCode(0, 1, 1, -1, NO_VERSION)])
    old = OLD_RESPONSE.encode(correlation_id=1, leader_member_id=0, app_version=1, since_position=64, members=rows)
    answer = ordo_codecs.VERSIONS_RESPONSE.decode(old)
    found = cluster_versions(cast(Any, SimpleNamespace(ask=lambda *_: answer)))
    assert (found.in_force, found.since_position, found.protocol_level) == ("1", 64, -1)
    assert [one.protocol_level for one in found.members] == [-1]
    new = ordo_codecs.VERSIONS_RESPONSE.encode(
        correlation_id=1, leader_member_id=0, app_version=1, since_position=64, protocol_level=1, members=rows
    )
    assert OLD_RESPONSE.decode(new).members == rows


def test_levels_that_are_cut_are_refused() -> None:
    with pytest.raises(DecodeError, match="no rows of 8"):
        decode_levels(bytes(9))
