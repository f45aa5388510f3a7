"""Reads that take no log entry: Raft §8, dissertation §6.4."""

from __future__ import annotations

from collections.abc import Sequence

from ordo.consensus.read_index import ReadIndex
from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.messages import (
    NULL_MEMBER,
    ReadHeartbeat,
    ReadHeartbeatAck,
    ReadIndexRequest,
    ReadIndexResponse,
    ReadMessage,
)
from ordo.runtime.native.sentinels import NULL_POSITION
from tests.consensus.harness import FIRST_RECORD, MS, Harness

INTERVAL_NS = 50 * MS
FIRST_ROUND = 700


class Reader:
    """A member's reads over its core, with the others played by the test. `position`: where its log ends."""

    def __init__(self, node: Harness) -> None:
        self.node = node
        self.reads: ReadIndex[str] = ReadIndex(node.core, INTERVAL_NS, FIRST_ROUND)

    def ask(self, *names: str) -> Reader:
        for name in names:
            assert self.reads.add(name, self.node.now_ns)
        return self

    def receive(self, *messages: ReadMessage) -> Reader:
        for message in messages:
            self.reads.on_message(message, self.node.now_ns)
        return self

    def ack(self, *member_ids: int, round_id: int = FIRST_ROUND, leadership_term_id: int = 0) -> Reader:
        return self.receive(*[ReadHeartbeatAck(leadership_term_id, round_id, member_id) for member_id in member_ids])

    def tick(self, ms: float = 0) -> Reader:
        self.node.now_ns += int(ms * MS)
        self.reads.tick(self.node.now_ns)
        return self

    def sent(self) -> Sequence[tuple[int, ReadMessage]]:
        return self.reads.take_messages()

    def confirmed(self) -> list[tuple[str, int]]:
        return self.reads.take_confirmed()

    def failed(self) -> list[str]:
        return self.reads.take_failed()


def leader(member_count: int = 3) -> Reader:
    return Reader(Harness(member_count=member_count).serving())


def follower() -> Reader:
    """Of member 0, in term 0."""
    return Reader(Harness(member_id=1).following(0, 0))


def alone() -> Harness:
    """The leader of a cluster of one."""
    node = Harness(member_count=1).tick()
    node.core.on_log_ready(55, FIRST_RECORD, node.now_ns)
    node.core.on_new_term(node.term, 0)
    return node.appended(FIRST_RECORD)


def test_a_round_under_way_ends_when_the_members_it_waited_for_are_removed() -> None:
    """Those that have answered are a quorum of the smaller configuration, and nobody else will answer."""
    reader = leader(5).ask("a").ack(1)
    assert reader.confirmed() == []
    reader.node.core.on_configuration(2 * FIRST_RECORD, Configuration((0, 1, 2)))
    reader.tick(50)
    assert [name for name, _ in reader.confirmed()] == ["a"]


# -- the leader --------------------------------------------------------------------------------------------------------


def test_leader_answers_after_a_quorum_said_that_it_still_leads() -> None:
    reader = leader().ask("a")
    assert reader.sent() == [(NULL_MEMBER, ReadHeartbeat(0, FIRST_ROUND, 0))]
    assert reader.confirmed() == []
    assert reader.ack(1).confirmed() == [("a", FIRST_RECORD)]
    assert reader.ack(2).confirmed() == []


def test_quorum_of_five_is_two_others() -> None:
    reader = leader(5).ask("a")
    assert reader.ack(3).confirmed() == []
    assert reader.ack(3).confirmed() == [], "the same member twice is one"
    assert reader.ack(9).confirmed() == [], "a stranger is none"
    assert reader.ack(4).confirmed() == [("a", FIRST_RECORD)]


def test_only_leader_of_one_answers_at_once_and_asks_nobody() -> None:
    reader = Reader(alone())
    assert reader.ask("a").confirmed() == [("a", FIRST_RECORD)]
    assert reader.sent() == []


def test_read_index_is_the_commit_position_when_the_round_began() -> None:
    reader = leader().ask("a")
    reader.node.appended(FIRST_RECORD + 128).ack_from(1, FIRST_RECORD + 128)
    assert reader.node.core.commit_position == FIRST_RECORD + 128
    assert reader.ack(1).confirmed() == [("a", FIRST_RECORD)]


def test_reads_that_come_during_a_round_join_the_next() -> None:
    """What they must see may have been committed after the round's position was noted."""
    reader = leader().ask("a")
    reader.node.appended(FIRST_RECORD + 128).ack_from(1, FIRST_RECORD + 128)
    reader.ask("b", "c").sent()
    assert reader.ack(1).confirmed() == [("a", FIRST_RECORD)]
    assert reader.sent() == [(NULL_MEMBER, ReadHeartbeat(0, FIRST_ROUND + 1, 0))]
    assert reader.ack(1, 2).confirmed() == [], "acknowledgements of the round before"
    assert reader.ack(2, round_id=FIRST_ROUND + 1).confirmed() == [
        ("b", FIRST_RECORD + 128),
        ("c", FIRST_RECORD + 128),
    ]


def test_only_acknowledgements_of_the_own_term_count() -> None:
    reader = leader().ask("a")
    assert reader.ack(1, leadership_term_id=1).confirmed() == []
    assert reader.ack(1, leadership_term_id=-1).confirmed() == []
    assert reader.ack(1).confirmed() == [("a", FIRST_RECORD)]


def test_leader_whose_term_is_not_on_a_quorum_yet_does_not_answer() -> None:
    """§6.4: it does not know what is committed before its own first entry is."""
    reader = Reader(Harness().elected())
    assert not reader.reads.add("a", reader.node.now_ns)
    reader.receive(ReadIndexRequest(0, 5, 1))
    assert reader.sent() == [(1, ReadIndexResponse(5, NULL_POSITION, 0))]


def test_round_is_repeated_for_it_may_be_lost() -> None:
    reader = leader().ask("a")
    reader.sent()
    assert reader.tick(49).sent() == []
    assert reader.tick(1).sent() == [(NULL_MEMBER, ReadHeartbeat(0, FIRST_ROUND, 0))]
    assert reader.ack(1).confirmed() == [("a", FIRST_RECORD)]
    assert reader.tick(100).sent() == []


def test_leader_that_lost_its_office_fails_its_reads() -> None:
    reader = leader().ask("a", "b")
    reader.node.tick(1500)
    assert not reader.node.core.is_serving
    assert reader.tick().failed() == ["a", "b"]
    assert reader.ack(1, 2).confirmed() == []


def test_acknowledgement_that_comes_after_the_office_was_lost_confirms_nothing() -> None:
    reader = leader().ask("a")
    reader.node.tick(1500)
    assert reader.ack(1, 2).confirmed() == []
    assert reader.failed() == ["a"]


# -- members that are asked --------------------------------------------------------------------------------------------


def test_follower_acknowledges_its_own_leader_in_its_term() -> None:
    reader = follower()
    assert reader.receive(ReadHeartbeat(0, 7, 0)).sent() == [(0, ReadHeartbeatAck(0, 7, 1))]
    assert reader.receive(ReadHeartbeat(1, 8, 0)).sent() == []
    assert reader.receive(ReadHeartbeat(0, 9, 2)).sent() == [], "another member does not lead this term"


def test_member_that_is_bound_to_a_later_term_acknowledges_nothing() -> None:
    """This member gave its vote in a later term, and may have made another member the leader."""
    reader = follower()
    reader.node.tick(600)
    assert reader.receive(ReadHeartbeat(0, 7, 0)).sent() == []


# -- followers that read -----------------------------------------------------------------------------------------------


def test_follower_asks_its_leader_for_the_position() -> None:
    reader = follower().ask("a")
    assert reader.sent() == [(0, ReadIndexRequest(0, FIRST_ROUND, 1))]
    assert reader.receive(ReadIndexResponse(FIRST_ROUND, 4096, 0)).confirmed() == [("a", 4096)]


def test_reads_that_come_during_a_request_join_the_next() -> None:
    reader = follower().ask("a", "b")
    reader.sent()
    assert reader.receive(ReadIndexResponse(FIRST_ROUND, 4096, 0)).confirmed() == [("a", 4096)]
    assert reader.sent() == [(0, ReadIndexRequest(0, FIRST_ROUND + 1, 1))]
    assert reader.receive(ReadIndexResponse(FIRST_ROUND + 1, 8192, 0)).confirmed() == [("b", 8192)]


def test_answers_to_other_requests_are_ignored() -> None:
    """Such as those of an earlier life of this member, whose reads wanted an older position."""
    reader = follower().ask("a")
    assert reader.receive(ReadIndexResponse(FIRST_ROUND - 1, 4096, 0)).confirmed() == []


def test_follower_whose_leader_does_not_lead_fails_its_reads() -> None:
    reader = follower().ask("a")
    assert reader.receive(ReadIndexResponse(FIRST_ROUND, NULL_POSITION, 0)).failed() == ["a"]


def test_follower_that_lost_its_leader_fails_its_reads_and_takes_no_more() -> None:
    reader = follower().ask("a")
    reader.node.tick(600)
    assert reader.tick().failed() == ["a"]
    assert not reader.reads.add("b", reader.node.now_ns)


def test_leader_confirms_for_a_follower_by_a_round_too() -> None:
    reader = leader().receive(ReadIndexRequest(0, 5, 2), ReadIndexRequest(0, 5, 2))
    assert reader.sent() == [(NULL_MEMBER, ReadHeartbeat(0, FIRST_ROUND, 0))]
    assert reader.ack(1).sent() == [(2, ReadIndexResponse(5, FIRST_RECORD, 0))], "once, though it was asked twice"
    assert reader.confirmed() == []


def test_request_of_another_term_is_told_so() -> None:
    reader = leader().receive(ReadIndexRequest(3, 5, 2))
    assert reader.sent() == [(2, ReadIndexResponse(5, NULL_POSITION, 0))]
