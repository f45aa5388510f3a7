"""Relayed requests against the table by which members judge them, without a network."""

from __future__ import annotations

import random
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.client.requests.relay import RelayedRequests
from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.cluster.client.requests.relay_window import AnswerRun, RelayedRequest, RelayedStream
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.service_api.requests import RequestLimits, RequestTable

A, B = b"a" * 16, b"b" * 16
MS = 1_000_000
RETRY_NS = 500 * MS
HEADER_BYTES = 8
LENGTH_BYTES_MAX = 1024


class Cluster:
    """Judges what comes as every member does. An answer is the payload's number of executions so far."""

    def __init__(self, limits: RequestLimits | None = None) -> None:
        self.table = RequestTable(limits)
        self.position = 0
        self.executed: list[tuple[bytes, int, bytes]] = []
        self.opened = 0
        self.takes_ids = True
        self.leadership_term_id = 1

    def promote(self, open_position: int, upto: int) -> None:
        """Go on as a standby that has an identity, and its requests up to a number alone."""
        former = self.table.get(open_position)
        assert former is not None
        self.table = RequestTable()
        _, identity = self.table.open(
            former.identity, former.principal, former.incarnation, 0, open_position, self.position
        )
        assert identity is not None
        for number in range(1, upto + 1):
            assert self.table.judge(open_position, former.principal, number, 0, self.position) is identity
            self.table.note(identity, 64 * number, AnswerStatus.OK, b"done")
        self.leadership_term_id += 1 << 20

    def take(self, message: bytes, principal: bytes) -> tuple[str, Any] | None:
        self.position += 64
        found = ordo_codecs.decode(message)
        assert found is not None
        table, values = found
        if table is ordo_codecs.OPEN_IDENTITY:
            self.opened += 1
            return "opened", self._open(values, principal)
        table, values = ordo_codecs.decode_request(message)
        return self._execute(values, message[HEADER_BYTES + table.block_length :], principal)

    def _open(self, values: Any, principal: bytes) -> Any:
        name = ordo_codecs.join_identity(values)
        status, identity = self.table.open(
            name, principal, values.incarnation, values.known_position, self.position, self.position
        )
        return SimpleNamespace(
            incarnation=values.incarnation,
            status=status,
            leadership_term_id=self.leadership_term_id,
            open_position=-1 if identity is None else identity.open_position,
            number=0 if identity is None else identity.number,
            confirmed=0 if identity is None else identity.confirmed,
            length_bytes_max=LENGTH_BYTES_MAX,
            takes_ids=int(self.takes_ids),
        )

    def _execute(self, values: Any, payload: bytes, principal: bytes) -> tuple[str, Any] | None:
        open_position, number = values.open_position, values.number
        digest = ordo_codecs.request_digest(values)
        identity = self.table.judge(open_position, principal, number, values.confirmed, self.position, digest, payload)
        known = next((one for one in self.table if one.open_position == open_position), None)
        if known is None or known.principal != principal:
            return "answer", (open_position, number, self.position, AnswerStatus.UNKNOWN, b"")
        if identity is not None:
            self.executed.append((identity.identity, number, payload))
            status = AnswerStatus.REJECTED if payload == b"refuse" else AnswerStatus.OK
            self.table.note(identity, self.position, status, payload + b" done", len(self.executed))
        answer = known.get_answer(number)
        if answer is not None:
            return "answer", (open_position, number, *answer, known.get_sequence(number))
        if number == known.number + 1:
            return "answer", (open_position, number, self.position, AnswerStatus.WAIT, b"")
        return None


class Link:
    """A session with the cluster: what is sent comes to it, and is answered, with `exchange`; or is lost."""

    max_message_length = LENGTH_BYTES_MAX
    is_connected = True

    def __init__(self, cluster: Cluster, principal: bytes = b"") -> None:
        self.cluster = cluster
        self.principal = principal
        self.session_id, self.leadership_term_id = 7, 1
        self.leader_ingress: Any = self
        self.takes_messages = True
        self.sent: deque[bytes] = deque()
        self.room = 1 << 30
        self.now_ns = MS
        self.relay = RelayedRequests(self, retry_interval_ns=RETRY_NS, identities_max=4)

    def offer(self, message: bytes) -> int:
        if len(self.sent) >= self.room:
            return -2
        self.sent.append(message)
        return 1

    def note_sent(self, count: int = 1) -> None:
        pass

    def note_ingress_lost(self) -> None:
        raise AssertionError("the ingress is connected")

    def exchange(self, *, lost: float = 0.0, draws: random.Random | None = None, turns: int = 1) -> None:
        for _ in range(turns):
            self.now_ns += MS
            self.leadership_term_id = self.cluster.leadership_term_id
            self.relay.work(self.now_ns)
            while self.sent:
                message = self.sent.popleft()
                if draws is not None and draws.random() < lost:
                    continue
                answer = self.cluster.take(message, self.principal)
                if answer is not None and not (draws is not None and draws.random() < lost):
                    self._deliver(answer)

    def _deliver(self, answer: tuple[str, Any]) -> None:
        kind, values = answer
        if kind == "opened":
            self.relay.on_opened(values, self.now_ns)
        else:
            self.relay.on_answer(*values)

    def submit(self, identity: bytes, number: int, payload: bytes = b"x", **more: Any) -> RelayedRequest:
        return self.relay.submit(identity, number, payload, lambda one: None, **more)


@pytest.fixture
def link() -> Link:
    return Link(Cluster())


def test_requests_of_many_identities_share_a_session(link: Link) -> None:
    requests = [link.submit(identity, number) for number in (1, 2, 3) for identity in (A, B)]
    link.exchange(turns=2)
    assert [one.outcome for one in requests] == [Outcome.EXECUTED] * 6
    assert {one.payload for one in requests} == {b"x done"}
    assert len(link.relay) == 0 and link.cluster.opened == 2


def test_the_same_number_through_another_gateway_gets_the_same_answer(link: Link) -> None:
    other = Link(link.cluster)
    first = link.submit(A, 1)
    link.exchange(turns=2)
    again = other.submit(A, 1, b"x")
    other.exchange(turns=2)
    assert (again.payload, again.log_position) == (first.payload, first.log_position)
    assert len(link.cluster.executed) == 1
    third = link.submit(A, 2)
    link.exchange(turns=2)
    assert third.outcome is Outcome.EXECUTED and link.cluster.opened == 2, "neither took the identity from the other"


def test_two_calls_with_the_same_number_are_sent_once(link: Link) -> None:
    requests = [link.submit(A, 1), link.submit(A, 1)]
    link.exchange(turns=2)
    assert [one.outcome for one in requests] == [Outcome.EXECUTED] * 2
    assert len(link.cluster.executed) == 1 and len(link.relay) == 0


def test_requests_that_come_in_another_order_are_executed_in_theirs(link: Link) -> None:
    requests = [link.submit(A, number) for number in (3, 2, 1)]
    link.exchange(turns=2)
    assert [number for _, number, _ in link.cluster.executed] == [1, 2, 3]
    assert {one.outcome for one in requests} == {Outcome.EXECUTED}


def test_a_gap_is_said_with_the_missing_number(link: Link) -> None:
    link.submit(A, 1)
    request = link.submit(A, 4)
    link.submit(A, 2)
    link.exchange(turns=100)
    assert request.outcome is None
    outcome, text = link.relay.abandon(request)
    assert outcome is Outcome.OUT_OF_ORDER and "number 3 is missing, and 2 was executed last" in text
    assert len(link.relay) == 0


def test_a_predecessor_that_came_by_another_gateway_is_found_out(link: Link) -> None:
    other = Link(link.cluster)
    link.submit(A, 1)
    link.exchange(turns=2)
    other.submit(A, 2)
    other.exchange(turns=2)
    third = link.submit(A, 3)
    link.exchange(turns=60)
    assert third.outcome is Outcome.EXECUTED


def test_a_confirmed_answer_is_gone_and_that_is_said(link: Link) -> None:
    link.submit(A, 1)
    link.exchange(turns=2)
    link.submit(A, 2, confirmed=1)
    link.exchange(turns=2)
    assert link.submit(A, 1).outcome is Outcome.CONFIRMED_BEFORE
    other = Link(link.cluster)
    elsewhere = other.submit(A, 1)
    other.exchange(turns=2)
    assert elsewhere.outcome is Outcome.CONFIRMED_BEFORE and len(other.relay) == 0


def test_a_caller_is_told_which_number_a_promoted_standby_lacks(link: Link) -> None:
    """The gateway went on with the number that the former cluster had executed last, and nothing was ever answered."""
    first = link.submit(A, 1)
    for number in (2, 3):
        link.submit(A, number)
    link.exchange(turns=2)
    executed = len(link.cluster.executed)
    link.cluster.promote(first.line.open_position, 2)
    early = link.submit(A, 4, confirmed=3)
    link.exchange(turns=600)
    assert link.relay.abandon(early)[0] is Outcome.UNKNOWN, "the former cluster may have it, for all that is known"
    late = link.submit(A, 4, confirmed=3)
    link.exchange(turns=2)
    outcome, text = link.relay.abandon(late)
    assert outcome is Outcome.OUT_OF_ORDER and "number 3 is missing, and 2 was executed last" in text
    asked = link.relay.open(A, lambda one: None)
    link.exchange(turns=2)
    assert (asked.line.executed, len(link.cluster.executed)) == (2, executed)
    again = [link.submit(A, number, confirmed=2) for number in (3, 4)]
    link.exchange(turns=2)
    assert [one.outcome for one in again] == [Outcome.EXECUTED] * 2, "where the caller wants it so"


def test_what_an_earlier_leader_says_late_takes_nothing_back(link: Link) -> None:
    link.submit(A, 1)
    link.exchange(turns=2)
    asked = link.relay.open(A, lambda one: None)
    link.relay.work(link.now_ns)
    (message,) = link.sent
    link.sent.clear()
    late = link.cluster.take(message, b"")
    assert late is not None
    second = link.submit(A, 2)
    link.exchange(turns=2)
    link.cluster.leadership_term_id += 1
    link.exchange()
    link.relay.on_opened(late[1], link.now_ns)
    assert (second.outcome, asked.line.executed) == (Outcome.EXECUTED, 2)


def test_a_refusal_is_an_outcome(link: Link) -> None:
    refused, after = link.submit(A, 1, b"refuse"), link.submit(A, 2)
    link.exchange(turns=2)
    assert (refused.outcome, refused.payload) == (Outcome.REJECTED, b"refuse done")
    assert after.outcome is Outcome.EXECUTED


def test_too_long_payloads_are_refused_unsent(link: Link) -> None:
    early = link.submit(A, 1, bytes(LENGTH_BYTES_MAX))
    link.exchange(turns=2)
    assert early.outcome is Outcome.PAYLOAD_TOO_LONG
    assert link.submit(A, 1, bytes(LENGTH_BYTES_MAX)).outcome is Outcome.PAYLOAD_TOO_LONG
    assert not link.cluster.executed and len(link.relay) == 0


def test_an_identity_of_another_principal_is_forbidden(link: Link) -> None:
    link.submit(A, 1)
    link.exchange(turns=2)
    thief = Link(link.cluster, b"other")
    stolen = thief.submit(A, 2)
    thief.exchange(turns=2)
    assert stolen.outcome is Outcome.IDENTITY_FORBIDDEN and len(link.cluster.executed) == 1


def test_a_position_of_another_identity_gives_no_way_to_it(link: Link) -> None:
    link.submit(A, 1)
    link.exchange(turns=2)
    (identity,) = link.cluster.table
    other = Link(link.cluster)
    requests = [other.submit(B, number, b"false", open_position=identity.open_position) for number in (1, 2)]
    other.exchange(turns=3)
    assert [one.outcome for one in requests] == [Outcome.IDENTITY_EXPIRED] * 2
    assert [payload for _, _, payload in link.cluster.executed] == [b"x"]


def test_an_expired_identity_is_said_to_be_and_never_executed_again() -> None:
    cluster = Cluster(RequestLimits(idle_timeout=10_000))
    link = Link(cluster)
    first = link.submit(A, 1)
    link.exchange(turns=2)
    cluster.position += 20_000
    known, fresh = Link(cluster), Link(cluster)
    request = known.submit(A, 1, open_position=first.line.open_position)
    known.exchange(turns=2)
    assert request.outcome is Outcome.IDENTITY_EXPIRED
    late = fresh.submit(A, 2)
    fresh.exchange(turns=60)
    assert late.outcome is None and fresh.relay.abandon(late)[0] is Outcome.OUT_OF_ORDER
    through_the_same = link.submit(A, 2)
    link.exchange(turns=3)
    assert through_the_same.outcome is Outcome.IDENTITY_EXPIRED
    assert len(cluster.executed) == 1


def test_an_identity_that_a_client_took_is_given_up(link: Link) -> None:
    link.submit(A, 1)
    link.exchange(turns=2)
    link.cluster.table.open(A, b"", 5, 0, link.cluster.position, link.cluster.position)
    request = link.submit(A, 2)
    link.exchange(turns=4)
    assert request.outcome is Outcome.IDENTITY_SUPERSEDED


def test_answers_that_nobody_confirms_stop_an_identity_until_they_are() -> None:
    link = Link(Cluster(RequestLimits(answers_max=2)))
    requests = [link.submit(A, number) for number in (1, 2, 3)]
    link.exchange(turns=4)
    assert [one.outcome for one in requests] == [Outcome.EXECUTED, Outcome.EXECUTED, None]
    again = link.submit(A, 3, confirmed=2)
    link.exchange(turns=3)
    assert requests[2].outcome is again.outcome is Outcome.EXECUTED
    link.submit(A, 4)
    stopped = link.submit(A, 5)
    link.exchange(turns=3)
    assert link.relay.abandon(stopped)[0] is Outcome.KEPT_TOO_MUCH


def test_too_many_identities_are_said_to_be() -> None:
    link = Link(Cluster(RequestLimits(identities_max=1)))
    link.submit(A, 1)
    link.exchange(turns=2)
    request = link.submit(B, 1)
    link.exchange(turns=20)
    assert link.relay.abandon(request)[0] is Outcome.IDENTITIES_FULL
    assert len(link.cluster.executed) == 1


def test_without_a_leader_nothing_is_sent_and_that_is_said(link: Link) -> None:
    link.leader_ingress = None
    request = link.submit(A, 1)
    link.exchange(turns=5)
    assert link.relay.abandon(request)[0] is Outcome.NOT_SENT and not link.sent


def test_what_was_sent_and_not_answered_is_unknown(link: Link) -> None:
    link.submit(A, 1)
    link.exchange(turns=2)
    request = link.submit(A, 2)
    link.relay.work(link.now_ns)
    assert link.relay.abandon(request)[0] is Outcome.UNKNOWN


def test_an_ingress_without_room_is_tried_again(link: Link) -> None:
    link.room = 1
    requests = [link.submit(A, number) for number in range(1, 6)]
    link.exchange(turns=10)
    assert {one.outcome for one in requests} == {Outcome.EXECUTED}
    assert not link.relay.has_unsent


def test_silent_identities_are_forgotten_beyond_the_bound(link: Link) -> None:
    for index in range(20):
        link.submit(bytes([index]) * 16, 1)
        link.exchange(turns=2)
    assert len(link.relay._lines) == 4
    assert len(link.relay._by_position) == 4


def take(stream: RelayedStream) -> AnswerRun:
    run = stream.take(100, 1 << 20)
    assert run is not None
    return run


def test_a_stream_is_answered_in_its_order_and_says_once_that_it_is(link: Link) -> None:
    told: list[int] = []
    stream = RelayedStream(lambda: told.append(len(stream)))
    link.relay.submit_many(stream, A, 1, [b"x", b"refuse", b"y"])
    assert stream.take(100, 1 << 20) is None and not told
    link.exchange(turns=2)
    run = take(stream)
    assert told == [3] and (run.number, run.payloads, run.request_bytes) == (
        1,
        [b"x done", b"refuse done", b"y done"],
        8,
    )
    assert run.outcomes == [Outcome.EXECUTED, Outcome.REJECTED, Outcome.EXECUTED]
    assert run.log_positions == sorted(run.log_positions) and len(stream) == 0
    assert run.sequences == [1, 2, 3]
    link.relay.submit_many(stream, A, 4, [b"z"], confirmed=3)
    link.exchange(turns=2)
    assert len(told) == 2 and take(stream).outcomes == []


def test_a_run_of_answers_ends_where_a_number_does_not_follow_and_at_its_bounds(link: Link) -> None:
    stream = RelayedStream(lambda: None)
    link.relay.submit_many(stream, A, 1, [b"a", b"b", b"c", b"d"])
    link.relay.submit_many(stream, A, 2, [b"b"])
    link.exchange(turns=3)
    run = stream.take(3, 1 << 20)
    assert run is not None and len(run.payloads) == 3
    run = stream.take(100, 1)
    assert run is not None and (run.number, len(run.payloads)) == (4, 1)
    assert take(stream).number == 2 and len(link.cluster.executed) == 4


def test_an_id_is_executed_once_through_any_gateway_and_identity(link: Link) -> None:
    digest, other = b"d" * 16, Link(link.cluster)
    first = link.relay.submit(A, 1, b"x", lambda request: None, digest=digest)
    link.exchange(turns=2)
    again = other.relay.submit(B, 1, b"x", lambda request: None, digest=digest)
    changed = other.relay.submit(B, 2, b"y", lambda request: None, digest=digest)
    after = other.submit(B, 3)
    other.exchange(turns=3)
    assert [one.outcome for one in (first, again, after)] == [Outcome.EXECUTED] * 3
    assert (again.payload, again.log_position) == (b"x done", first.log_position)
    assert changed.outcome is Outcome.ID_CONFLICT and b"another payload" in changed.payload
    assert [name for name, _, _ in link.cluster.executed] == [A, B]


def test_a_stream_may_have_ids_and_goes_on_after_a_conflict(link: Link) -> None:
    stream = RelayedStream(lambda: None)
    digests = [b"1" * 16, None, b"1" * 16, b"1" * 16]
    link.relay.submit_many(stream, A, 1, [b"x", b"y", b"z", b"x"], digests=digests)
    link.exchange(turns=3)
    outcomes = [Outcome.EXECUTED, Outcome.EXECUTED, Outcome.ID_CONFLICT, Outcome.EXECUTED]
    assert take(stream).outcomes == outcomes and len(link.cluster.executed) == 2


def test_a_cluster_that_takes_no_ids_says_so_until_it_does(link: Link) -> None:
    link.cluster.takes_ids = False
    early = link.relay.submit(A, 1, b"x", lambda request: None, digest=b"d" * 16)
    link.exchange(turns=2)
    assert early.outcome is Outcome.IDS_NOT_TAKEN and early.payload.startswith(b"not executed: requests with an id")
    link.cluster.takes_ids = True
    assert link.relay.submit(A, 1, b"x", lambda request: None, digest=b"d" * 16).outcome is Outcome.IDS_NOT_TAKEN
    link.submit(A, 1, b"plain")
    link.exchange(turns=3)
    later = link.relay.submit(A, 2, b"x", lambda request: None, digest=b"d" * 16)
    link.exchange(turns=2)
    assert later.outcome is Outcome.EXECUTED


def test_what_was_not_executed_stays_at_the_head_of_a_stream(link: Link) -> None:
    stream = RelayedStream(lambda: None)
    link.relay.submit_many(stream, A, 1, [b"x", bytes(LENGTH_BYTES_MAX), b"y"])
    link.exchange(turns=30)
    assert take(stream).payloads == [b"x done"]
    assert stream.take(100, 1 << 20) is None
    assert stream.first is not None and stream.first.outcome is Outcome.PAYLOAD_TOO_LONG
    for request in stream.take_all():
        link.relay.abandon(request)
    assert len(link.relay) == 0 and stream.first is None


@pytest.mark.parametrize("seed", range(20))
def test_each_number_is_executed_once_whatever_is_lost_and_whichever_gateway_is_asked(seed: int) -> None:
    draws = random.Random(seed)
    cluster = Cluster()
    links = [Link(cluster), Link(cluster), Link(cluster)]
    answered: dict[tuple[bytes, int], set[tuple[bytes, int]]] = {}
    waiting: dict[bytes, tuple[Link, RelayedRequest]] = {}
    numbers = {A: 1, B: 1}
    for _ in range(6000):
        for identity in (A, B):
            _advance(draws, links, identity, numbers, waiting, answered)
        if draws.random() < 0.01:
            draws.choice(links).leadership_term_id += 1
        if draws.random() < 0.005:
            links[draws.randrange(3)] = Link(cluster)
        for link in links:
            link.exchange(lost=0.1, draws=draws)
    assert all(len(answers) == 1 for answers in answered.values())
    assert sorted((identity, number) for identity, number, _ in cluster.executed) == sorted(
        {(identity, number) for identity, number, _ in cluster.executed}
    )
    assert min(numbers.values()) > 30


def _advance(
    draws: random.Random,
    links: list[Link],
    identity: bytes,
    numbers: dict[bytes, int],
    waiting: dict[bytes, tuple[Link, RelayedRequest]],
    answered: dict[tuple[bytes, int], set[tuple[bytes, int]]],
) -> None:
    """A caller with one request under way: it takes the answer, or loses patience and asks another gateway."""
    if identity in waiting:
        link, request = waiting[identity]
        if request.outcome is None and draws.random() > 0.01 and link in links:
            return
        if request.outcome is None:
            link.relay.abandon(request)
        else:
            assert request.outcome is Outcome.EXECUTED, request.payload
            answered.setdefault((identity, request.number), set()).add((request.payload, request.log_position))
            numbers[identity] += draws.random() < 0.7  # or asks once more for what it has
    number, link = numbers[identity], draws.choice(links)
    payload = b"%d" % number
    waiting[identity] = link, link.submit(identity, number, payload, confirmed=max(number - 2, 0))
