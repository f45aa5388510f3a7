"""What a member says about its cluster when a tool asks."""

from __future__ import annotations

from typing import Any

from ordo.cluster.module.members.members_query import extended_members_response, members_response
from ordo.cluster.wire import codecs
from ordo.cluster.wire.members import Member, parse_members
from tests.consensus.harness import Harness

MEMBERS = tuple(Member(number, *(f"host{number}:{port}" for port in range(5))) for number in range(3))


def decode(message: bytes) -> Any:
    found = codecs.decode(message)
    assert found is not None
    return found[1]


def test_text() -> None:
    values = decode(members_response(MEMBERS[:2], MEMBERS[2:], 2, 77))
    assert (values.correlation_id, values.leader_member_id, values.passive_followers) == (77, 2, MEMBERS[2].encode())
    assert parse_members(values.active_members) == MEMBERS[:2]


def test_leader_knows_the_positions_of_its_term() -> None:
    leader = Harness().elected()
    leader.ack_from(1, 96)
    values = decode(extended_members_response(MEMBERS, (), 0, leader.core, 1234, 5))
    assert (values.correlation_id, values.current_time_ns) == (5, 1_234_000_000)
    assert (values.leader_member_id, values.member_id, values.passive_members) == (0, 0, [])
    own, acknowledging, silent = values.active_members
    assert (own.leadership_term_id, own.log_position) == (leader.term, leader.core.progress.own_position)
    assert (acknowledging.leadership_term_id, acknowledging.log_position) == (leader.term, 96)
    assert (silent.leadership_term_id, silent.log_position) == (-1, -1)
    assert [one.member_id for one in values.active_members] == [0, 1, 2]
    assert silent.archive_endpoint == "host2:4"


def test_follower_knows_its_own_position() -> None:
    follower = Harness(member_id=1).following(leader_id=0)
    values = decode(extended_members_response(MEMBERS, (), 1, follower.core, 0, 5))
    assert values.leader_member_id == follower.core.leader_member_id
    assert [one.log_position == -1 for one in values.active_members] == [True, False, True]
