"""A member's messages count once their stream has shown what only that member's endpoint receives."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ordo.cluster.module.members import member_proofs
from ordo.cluster.module.members.member_proofs import CHALLENGE_INTERVAL_NS, HELD_MAX, SENDER_FIELDS, MemberProofs
from ordo.cluster.wire import ordo_codecs
from ordo.consensus.state import messages

OWN_ID, PEER_ID, OTHER_ID = 0, 1, 2


class Stream:
    """An image of the consensus stream."""

    member_id = member_proofs.NULL_MEMBER

    def prove(self, member_id: int) -> None:
        self.member_id = member_id

    def disprove(self) -> None:
        self.member_id = member_proofs.NULL_MEMBER


class Member:
    def __init__(self) -> None:
        self.sent: list[tuple[int, Any, Any]] = []
        self.refused: list[str] = []
        self.foreign: set[int] = set()
        self.proofs = MemberProofs(OWN_ID, self, Random(1), self.refused.append, self)

    def __contains__(self, member_id: int) -> bool:
        return member_id in (OWN_ID, PEER_ID, OTHER_ID)

    def send(self, member_id: int, message: bytes) -> None:
        found = ordo_codecs.decode(message)
        assert found is not None
        self.sent.append((member_id, *found))

    def encode_proof(self, nonce: int) -> bytes:
        return ordo_codecs.MEMBER_PROOF.encode(nonce=nonce, member_id=OWN_ID)

    def admits(self, values: Any) -> bool:
        return not self.is_foreign(values.member_id)

    def is_foreign(self, member_id: int) -> bool:
        return member_id in self.foreign

    def hear(self, stream: Any, sender_id: int, message: bytes = b"position", now_ns: int = 0) -> bool:
        return self.proofs.admits(stream, sender_id, message, now_ns)

    def prove(self, stream: Any, member_id: int, nonce: int) -> list[bytes]:
        found = ordo_codecs.decode(ordo_codecs.MEMBER_PROOF.encode(nonce=nonce, member_id=member_id))
        assert found is not None
        return list(self.proofs.on_proof(stream, found[1]))

    def nonce(self, member_id: int) -> int:
        return next(int(values.nonce) for to, _, values in self.sent if to == member_id)


@pytest.fixture
def member() -> Member:
    return Member()


def test_what_was_said_before_the_proof_counts_after_it_in_order(member: Member) -> None:
    stream = Stream()
    assert not member.hear(stream, PEER_ID, b"first")
    assert not member.hear(stream, PEER_ID, b"second")
    assert [(to, table) for to, table, _ in member.sent] == [(PEER_ID, ordo_codecs.MEMBER_CHALLENGE)]
    assert member.prove(stream, PEER_ID, member.nonce(PEER_ID)) == [b"first", b"second"]
    assert member.hear(stream, PEER_ID)
    assert member.refused == []


def test_a_member_that_speaks_and_never_proves_itself_is_one_line(member: Member) -> None:
    """An Aeron node, or one whose endpoint is wrong: without the line the cluster was silent about it."""
    stream, later = Stream(), Stream()
    for second in range(20):
        member.hear(stream, PEER_ID, now_ns=second * 1_000_000_000)
    assert len(member.refused) == 1 and "member 1 does not prove who it is" in member.refused[0]
    assert "Aeron" in member.refused[0] and "\n" not in member.refused[0]
    assert member.prove(later, PEER_ID, member.nonce(PEER_ID)) == []
    for second in range(20, 24):
        member.hear(stream, PEER_ID, now_ns=second * 1_000_000_000)
    assert len(member.refused) == 1, "it has proven itself meanwhile, and is waited for anew"


def test_the_number_is_known_only_where_the_member_listens(member: Member) -> None:
    stranger = Stream()
    member.hear(stranger, PEER_ID)
    for guess in (0, 1, -1, member.nonce(PEER_ID) + 1):
        assert member.prove(stranger, PEER_ID, guess) == []
    assert not member.hear(stranger, PEER_ID)
    assert len(member.refused) == 4


def test_a_proof_is_worth_nothing_for_another_member(member: Member) -> None:
    stream, stranger = Stream(), Stream()
    member.hear(stream, PEER_ID)
    member.prove(stream, PEER_ID, member.nonce(PEER_ID))
    assert not member.hear(stream, OTHER_ID), "a member speaks for itself only"
    assert member.prove(stranger, OTHER_ID, member.nonce(PEER_ID)) == []
    assert not member.hear(stranger, PEER_ID), "and a stream for no other stream"


def test_a_proof_before_any_challenge_is_none(member: Member) -> None:
    assert member.prove(Stream(), PEER_ID, 0) == []
    assert len(member.refused) == 1


@pytest.mark.parametrize("sender_id", [OWN_ID, 9, -1])
def test_nobody_is_asked_who_is_no_other_member(member: Member, sender_id: int) -> None:
    assert not member.hear(Stream(), sender_id)
    assert (member.sent, len(member.refused)) == ([], 1)


def test_a_flood_causes_one_small_datagram_an_interval_and_is_not_kept(member: Member) -> None:
    stream = Stream()
    for number in range(10 * HELD_MAX):
        member.hear(stream, PEER_ID, b"%d" % number)
    assert len(member.sent) == 1
    member.hear(stream, PEER_ID, b"last", CHALLENGE_INTERVAL_NS)
    assert len(member.sent) == 2
    assert len(member.prove(stream, PEER_ID, member.nonce(PEER_ID))) == HELD_MAX


def test_a_challenge_is_answered_to_the_members_own_endpoint_only(member: Member) -> None:
    for asker in (PEER_ID, OWN_ID, 9):
        found = ordo_codecs.decode(ordo_codecs.MEMBER_CHALLENGE.encode(nonce=77, member_id=asker))
        assert found is not None
        member.proofs.on_challenge(found[1])
    assert [(to, table, values.nonce, values.member_id) for to, table, values in member.sent] == [
        (PEER_ID, ordo_codecs.MEMBER_PROOF, 77, OWN_ID)
    ]


def test_every_message_of_consensus_has_a_sender() -> None:
    """By a field of its own, or the leader, or the stream that was proven before: a new message must say which."""
    of_leader = {messages.StopCatchup, messages.TerminationPosition}
    of_proven = {messages.Introduction}
    kinds = set(messages.Message.__args__)
    assert kinds == set(SENDER_FIELDS) | of_leader | of_proven
    assert all(name in kind._fields for kind, name in SENDER_FIELDS.items())
