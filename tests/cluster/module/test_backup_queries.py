"""Backups that ask one member what it has: who is told, where the response goes, and what strangers cannot use up."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

import pytest

from ordo.cluster.module.operators.backup_queries import (
    QUERIES_MAX,
    QUERIES_PER_HOST_MAX,
    QUERY_BURST,
    QUERY_TIMEOUT_MS,
    BackupQueries,
)
from ordo.cluster.wire import codecs
from ordo.runtime.errors import DecodeError
from ordo.runtime.security.authentication import Right
from tests.cluster.module.test_operators import SECRET, Driver, Gate

SOURCE = "10.0.0.9:5000"
RESPONSE = b"what this member has"


class Member:
    """A member that is asked."""

    member_id = 1

    def __init__(self, gate: Any = None) -> None:
        self.driver = Driver()
        self.invalid: list[str] = []
        self.described: list[int] = []
        self.answered: list[int] = []
        self.response: bytes | None = RESPONSE
        ids = count(100)
        self.queries = BackupQueries(self, self._describe, cast(Any, self.driver), gate, lambda: next(ids))
        self.now_ms = 1_000

    def on_invalid_request(self, detail: str) -> None:
        self.invalid.append(detail)

    def _describe(self, correlation_id: int, log_position: int) -> bytes | None:
        self.described.append(log_position)
        self.answered.append(correlation_id)
        return self.response

    def ask(
        self,
        correlation_id: int = 7,
        channel: str = "aeron:udp?endpoint=1.2.3.4:4040",
        source: str = SOURCE,
        **fields: Any,
    ) -> None:
        fields = {"response_stream_id": 108, "encoded_credentials": SECRET, **fields}
        query = codecs.BACKUP_QUERY.encode(correlation_id=correlation_id, response_channel=channel, **fields)
        self.queries.on_message(query, source, self.now_ms)

    def beat(self, correlation_id: int, channel: str = "aeron:udp?endpoint=1.2.3.4:4040") -> None:
        request = codecs.HEARTBEAT_REQUEST.encode(
            correlation_id=correlation_id,
            response_stream_id=108,
            response_channel=channel,
            encoded_credentials=SECRET,
        )
        self.queries.on_message(request, SOURCE, self.now_ms)

    def work(self) -> None:
        self.queries.work(self.now_ms)

    def sent(self) -> list[bytes]:
        return [message for one in self.driver.made.values() for message in one.sent]


class ChallengingGate(Gate):
    """Challenges first, and lets in who answers with SECRET."""

    def __init__(self) -> None:
        super().__init__(Right.LOG)
        self.answers: dict[int, bytes] = {}
        self.decide = lambda proxy: proxy.challenge(b"prove it")

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        self.answers[session_id] = encoded_credentials

    def on_challenged_session(self, proxy: Any, now_ms: int) -> None:
        answer = self.answers.get(proxy.session_id)
        if answer is not None:
            proxy.authenticate(b"root") if answer == SECRET else proxy.reject()


def test_the_response_goes_to_the_host_that_asked() -> None:
    member = Member()
    member.ask()
    member.work()
    ((_, publication),) = member.driver.made.items()
    assert publication.channel.startswith("aeron:udp?endpoint=10.0.0.9:4040|"), "not to 1.2.3.4"
    assert publication.channel.endswith(" 108")
    assert publication.sent == [RESPONSE]
    assert publication.is_closed
    assert member.described == [-1], "without a position the newest snapshot is asked for"


def test_a_heartbeat_request_is_answered_with_its_correlation_id_alone() -> None:
    member = Member()
    member.response = None  # there is no log to copy yet
    member.beat(41)
    member.beat(41)  # asked again it is told once
    member.work()
    ((_, publication),) = member.driver.made.items()
    assert publication.channel.startswith("aeron:udp?endpoint=10.0.0.9:4040|"), "not to 1.2.3.4"
    (message,) = publication.sent
    found = codecs.decode(message)
    assert found is not None
    assert found[0] is codecs.HEARTBEAT_RESPONSE and found[1].correlation_id == 41
    assert publication.is_closed and member.described == []


def test_a_heartbeat_needs_the_role_that_a_backup_needs() -> None:
    for rights, told in ((Right.LOG, codecs.HEARTBEAT_RESPONSE), (Right.INGRESS, codecs.SESSION_EVENT)):
        member = Member(Gate(rights))
        member.beat(41)
        member.work()
        (message,) = member.sent()
        assert (codecs.decode(message) or (None,))[0] is told
    with pytest.raises(DecodeError, match="HeartbeatRequest: no response can be sent to 'aeron:ipc'"):
        Member().beat(41, channel="aeron:ipc")


def test_a_snapshot_is_asked_for_by_position() -> None:
    member = Member()
    member.ask(log_position=4096)
    member.work()
    assert member.described == [4096]


def test_asked_again_it_is_told_once() -> None:
    member = Member()
    member.response = None
    member.ask()
    member.ask()
    member.work()
    assert member.sent() == []
    member.response = RESPONSE
    member.work()
    assert member.sent() == [RESPONSE]


def test_a_query_that_cannot_be_answered_is_dropped_in_time() -> None:
    member = Member()
    member.response = None
    member.ask()
    member.work()
    assert member.queries.has_work
    member.now_ms += QUERY_TIMEOUT_MS + 1
    member.work()
    assert not member.queries.has_work
    assert all(one.is_closed for one in member.driver.made.values())


@pytest.mark.parametrize("channel", ["aeron:ipc", "aeron:udp?endpoint=a:0", "nonsense", ""])
def test_a_response_channel_that_is_none(channel: str) -> None:
    member = Member()
    with pytest.raises(DecodeError, match="no response"):
        member.ask(channel=channel)
    assert not member.driver.made


def test_strangers_cannot_pile_up_queries() -> None:
    member = Member()
    member.response = None
    for number in range(QUERIES_MAX + 5):
        member.ask(number, source=f"10.0.0.{number}:5000")
        member.work()
    assert sum(not one.is_closed for one in member.driver.made.values()) == QUERIES_MAX


def test_a_host_uses_up_its_own_share_only_and_no_more_of_it_than_its_rate() -> None:
    member = Member()
    member.ask(1, source="10.0.0.1:5000")
    for number in range(2 * QUERY_BURST):
        member.ask(number, source=f"10.0.0.66:{number}")
        member.queries.work(member.now_ms - 1)  # takes up the publications
    assert len(member.driver.made) == 1 + QUERY_BURST
    assert member.invalid == ["backup: 10.0.0.66 asks too often"] * QUERY_BURST
    member.response = None
    assert sum(not one.is_closed for one in member.driver.made.values()) <= 1 + QUERIES_PER_HOST_MAX
    assert member.answered.count(1) >= 1


def test_other_messages_are_ignored_and_cut_ones_refused() -> None:
    member = Member()
    member.queries.on_message(codecs.HEARTBEAT_RESPONSE.encode(correlation_id=1), SOURCE, 0)
    with pytest.raises(DecodeError):
        member.queries.on_message(codecs.BACKUP_QUERY.encode(correlation_id=1)[:20], SOURCE, 0)
    assert not member.driver.made


def refusal_of(message: bytes) -> Any:
    found = codecs.decode(message)
    assert found is not None
    assert found[0] is codecs.SESSION_EVENT
    assert found[1].code == codecs.EventCode.AUTHENTICATION_REJECTED
    return found[1]


@pytest.mark.parametrize(
    ("gate", "credentials", "words"),
    [
        (Gate(Right.LOG), b"wrong", "rejected the credentials"),
        (Gate(Right.INGRESS | Right.QUERIES | Right.OPERATOR), SECRET, "role log"),
    ],
)
def test_strangers_are_told_nothing(gate: Gate, credentials: bytes, words: str) -> None:
    member = Member(gate)
    member.ask(encoded_credentials=credentials)
    member.work()
    (refusal,) = map(refusal_of, member.sent())
    assert refusal.correlation_id == 7
    assert words in refusal.detail
    assert member.described == []
    assert len(member.invalid) == 1


def test_who_has_the_role_is_told() -> None:
    member = Member(Gate(Right.LOG))
    member.ask()
    member.work()
    assert member.sent() == [RESPONSE]


@pytest.mark.parametrize(("answer", "is_let_in"), [(SECRET, True), (b"wrong", False)])
def test_an_authenticator_may_challenge(answer: bytes, is_let_in: bool) -> None:
    member = Member(ChallengingGate())
    member.ask()
    member.work()
    member.work()
    (challenge,) = member.sent()
    found = codecs.decode(challenge)
    assert found is not None
    assert found[0] is codecs.CHALLENGE
    assert found[1].encoded_challenge == b"prove it"
    response = codecs.CHALLENGE_RESPONSE.encode(
        correlation_id=8, cluster_session_id=found[1].cluster_session_id, encoded_credentials=answer
    )
    member.queries.on_message(response, SOURCE, member.now_ms)
    member.work()
    last = member.sent()[-1]
    if is_let_in:
        assert (last, member.answered) == (RESPONSE, [8]), "the message that was sent last is answered"
    else:
        assert refusal_of(last).correlation_id == 8
