"""Operators at one member: who is let in, what is taken of them, and what strangers cannot use up."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any, cast

import pytest

from ordo.cluster.module.operators import operators
from ordo.cluster.module.operators.operators import (
    CONNECT_BURST,
    CONNECT_TIMEOUT_MS,
    CONNECTIONS_MAX,
    CONNECTIONS_PER_HOST_MAX,
    PAYLOAD_BYTES_MAX,
    REQUESTS_WAITING_MAX,
    SILENCE_MAX_MS,
    MemberAnswers,
    Operators,
)
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.counter_types import ControlToggle, transfer_value
from ordo.cluster.wire.ordo_codecs import MembershipChange, OperatorOrder, OperatorStatus
from ordo.runtime.errors import ClusterError, DecodeError
from ordo.runtime.native.counters import local_counter
from ordo.runtime.security.authentication import EVERYTHING, PRINCIPAL_LENGTH_BYTES_MAX, Right

SECRET = b"secret"
PORT = 4040


class Image:
    """A stream of somebody's machine."""

    def __init__(self, source: str = "10.0.0.9:5000") -> None:
        self.source_identity = source
        self.is_closed = False


class Publication:
    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.is_connected = True
        self.is_closed = False
        self.sent: list[bytes] = []

    def offer(self, message: bytes) -> int:
        self.sent.append(message)
        return len(self.sent)

    def close(self) -> None:
        self.is_closed = True


class Driver:
    def __init__(self) -> None:
        self._ids = count(1)
        self.made: dict[int, Publication] = {}

    def async_add_exclusive_publication(self, channel: str, stream_id: int) -> int:
        registration_id = self.next_correlation_id()
        self.made[registration_id] = Publication(f"{channel} {stream_id}")
        return registration_id

    def get(self, registration_id: int) -> Publication:
        return self.made[registration_id]

    def invoke_driver(self) -> None:
        pass

    def next_correlation_id(self) -> int:
        return next(self._ids)


class Gate:
    """Lets in who shows SECRET; `decide` is what it does with the proxy."""

    def __init__(self, rights: Right = Right.OPERATOR) -> None:
        self.rights = rights
        self.shown: dict[int, bytes] = {}
        self.decide: Callable[[Any], None] = lambda proxy: (
            proxy.authenticate(b"root") if self.shown[proxy.session_id] == SECRET else proxy.reject()
        )

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        self.shown[session_id] = encoded_credentials

    def on_connected_session(self, proxy: Any, now_ms: int) -> None:
        self.decide(proxy)

    def rights_of(self, principal: bytes) -> Right:
        return self.rights


class Member:
    """A member with its operators."""

    member_id = 1

    def __init__(self, gate: Any = None) -> None:
        self.client = cast(Any, Driver())
        self.toggle: Any = local_counter(int(ControlToggle.NEUTRAL))
        self.invalid: list[str] = []
        self.announced: list[str] = []
        self.asked: list[tuple[Any, Any]] = []
        self.answers_later = False
        self.seen: dict[str, Any] = {"sessions": 7}
        ids = count(100)
        answers = MemberAnswers(self.look, self.list_skipped, self.describe, self.answer_question)
        self.operators = Operators(self, answers, self.client, self.toggle, gate, lambda: next(ids))
        self.now_ms = 1_000

    def on_invalid_request(self, detail: str) -> None:
        self.invalid.append(detail)

    def announce(self, event: str, text: str) -> None:
        self.announced.append(text)

    def look(self) -> dict[str, Any]:
        return self.seen

    def list_skipped(self) -> dict[str, Any]:
        return {"skipped": []}

    def describe(self) -> dict[str, Any]:
        return {"terms": [[0, 0]]}

    def answer_question(self, table: Any, values: Any) -> bytes | None:
        self.asked.append((table, values))
        return None if self.answers_later else self.membership_response(values.correlation_id)

    @staticmethod
    def membership_response(correlation_id: int) -> bytes:
        return ordo_codecs.MEMBERSHIP_RESPONSE.encode(
            correlation_id=correlation_id, leader_member_id=1, log_position=5, refusal=""
        )

    def hear(self, message: bytes, image: Any) -> None:
        self.operators.on_message(message, image, self.now_ms)

    def tick(self, passed_ms: int = 10) -> None:
        self.now_ms += passed_ms
        self.operators.work(self.now_ms)


class Operator:
    """One who connects to a member."""

    def __init__(self, member: Member, image: Any = None, credentials: bytes = SECRET, port: int = PORT) -> None:
        self.member = member
        self.image: Any = image or Image()
        before = set(member.client.made)
        member.hear(
            ordo_codecs.OPERATOR_CONNECT.encode(correlation_id=1, response_port=port, credentials=credentials),
            self.image,
        )
        made = [one for one in member.client.made if one not in before]
        self.publication = member.client.made[made[0]] if made else None
        member.tick()

    def received(self) -> list[Any]:
        assert self.publication is not None
        found = [ordo_codecs.decode(message) for message in self.publication.sent]
        return [one[1] for one in found if one is not None]

    @property
    def connection_id(self) -> int:
        return int(self.received()[0].connection_id)

    def ask(self, order: int, *, value: int = 0, expected: int = 0, question: bytes = b"", tick: bool = True) -> Any:
        message = ordo_codecs.OPERATOR_REQUEST.encode(
            connection_id=self.connection_id,
            correlation_id=2,
            order=order,
            value=value,
            expected=expected,
            question=question,
        )
        self.member.hear(message, self.image)
        if tick:
            self.member.tick()
        return self.received()[-1]


@pytest.fixture
def member() -> Member:
    return Member(Gate())


def test_an_answer_goes_to_the_host_that_asks_and_nowhere_else(member: Member) -> None:
    operator = Operator(member)
    assert operator.publication is not None
    assert operator.publication.channel.startswith(f"aeron:udp?endpoint=10.0.0.9:{PORT}|")
    assert operator.received()[0].status == OperatorStatus.OK
    assert json.loads(operator.ask(OperatorOrder.LOOK).payload) == {"sessions": 7}


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_port_that_is_none_is_refused(member: Member, port: int) -> None:
    assert Operator(member, port=port).publication is None
    assert len(member.invalid) == 1


def test_a_stream_that_names_no_host_is_refused(member: Member) -> None:
    assert Operator(member, image=Image("ipc")).publication is None


def test_the_credentials_decide(member: Member) -> None:
    refused = Operator(member, credentials=b"wrong")
    (told,) = refused.received()
    assert told.status == OperatorStatus.NOT_ALLOWED
    assert b"rejected" in told.text
    assert len(member.invalid) == 1
    message = ordo_codecs.OPERATOR_REQUEST.encode(
        connection_id=told.connection_id, correlation_id=2, order=OperatorOrder.LOOK, value=0, expected=0
    )
    member.hear(message, refused.image)
    member.tick()
    assert len(refused.received()) == 1, "a refused connection takes nothing"
    member.tick(2_000)
    assert len(member.operators) == 0


def test_every_other_right_but_log_together_is_not_enough() -> None:
    told = Operator(Member(Gate(EVERYTHING & ~Right.LOG))).received()[0]
    assert told.status == OperatorStatus.NOT_ALLOWED
    assert b"neither the role operator nor log" in told.text


@pytest.mark.parametrize("rights", [Right.LOG, EVERYTHING])
def test_a_reader_of_the_log_asks_where_members_are_and_nothing_else(rights: Right) -> None:
    member = Member(Gate(rights))
    reader = Operator(member)
    assert reader.ask(OperatorOrder.LOOK).status == OperatorStatus.OK
    query = codecs.CLUSTER_MEMBERS_QUERY.encode(correlation_id=3, extended=1)
    assert reader.ask(OperatorOrder.ASK, question=query).status == OperatorStatus.OK
    ((table, _),) = member.asked
    assert table is codecs.CLUSTER_MEMBERS_QUERY
    for order, fields in (
        (OperatorOrder.TOGGLE, {"value": int(ControlToggle.SNAPSHOT), "expected": int(ControlToggle.NEUTRAL)}),
        (OperatorOrder.SKIPPED, {}),
        (OperatorOrder.DETAILS, {}),
        (99, {}),
        (OperatorOrder.ASK, {"question": membership(MembershipChange.REMOVE)}),
        (OperatorOrder.ASK, {"question": ordo_codecs.VERSIONS_QUERY.encode(correlation_id=3)}),
        (OperatorOrder.ASK, {"question": query[:-2]}),
        (OperatorOrder.ASK, {"question": b"nonsense"}),
    ):
        told = reader.ask(order, **fields)
        assert told.status == OperatorStatus.NOT_ALLOWED and b"role operator" in told.payload, order
    assert member.toggle.value == ControlToggle.NEUTRAL
    assert len(member.asked) == 1 and member.announced == []


def test_an_authenticator_that_challenges_refuses() -> None:
    gate = Gate()
    gate.decide = lambda proxy: proxy.challenge(b"?")
    assert b"challenges" in Operator(Member(gate)).received()[0].text


def test_a_principal_has_a_length() -> None:
    gate = Gate()
    gate.decide = lambda proxy: proxy.authenticate(bytes(PRINCIPAL_LENGTH_BYTES_MAX + 1))
    with pytest.raises(ClusterError, match="principal"):
        Operator(Member(gate))


def test_nothing_is_taken_until_the_authenticator_has_decided() -> None:
    gate = Gate()
    gate.decide = lambda proxy: None
    member = Member(gate)
    operator = Operator(member)
    assert operator.received() == []
    member.hear(
        ordo_codecs.OPERATOR_REQUEST.encode(connection_id=100, correlation_id=2, order=0, value=0, expected=0),
        operator.image,
    )
    member.tick()
    assert operator.received() == []
    assert len(member.invalid) == 1
    member.tick(CONNECT_TIMEOUT_MS + 1)
    assert len(member.operators) == 0


def test_a_connection_is_its_own_images(member: Member) -> None:
    operator = Operator(member)
    other = Image(operator.image.source_identity)
    message = ordo_codecs.OPERATOR_REQUEST.encode(
        connection_id=operator.connection_id, correlation_id=9, order=OperatorOrder.TOGGLE, value=5, expected=1
    )
    member.hear(message, other)
    member.tick()
    assert member.toggle.value == ControlToggle.NEUTRAL
    assert "of another" in member.invalid[0]


def test_orders_set_the_toggle_only_as_it_is_expected(member: Member) -> None:
    operator = Operator(member)
    done = operator.ask(OperatorOrder.TOGGLE, value=ControlToggle.SNAPSHOT, expected=ControlToggle.NEUTRAL)
    assert (done.status, done.value) == (OperatorStatus.OK, ControlToggle.NEUTRAL)
    assert member.toggle.value == ControlToggle.SNAPSHOT
    assert member.announced == ["operator 'root' at 10.0.0.9: SNAPSHOT"]
    busy = operator.ask(OperatorOrder.TOGGLE, value=ControlToggle.SHUTDOWN, expected=ControlToggle.NEUTRAL)
    assert (busy.value, member.toggle.value) == (ControlToggle.SNAPSHOT, ControlToggle.SNAPSHOT)
    assert len(member.announced) == 1
    for value in (transfer_value(2), ControlToggle.STANDBY_SNAPSHOT):
        member.toggle.set(int(ControlToggle.NEUTRAL))
        assert operator.ask(OperatorOrder.TOGGLE, value=value, expected=1).status == OperatorStatus.OK
        assert member.toggle.value == value


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 1), (1, 1), (8, 1), (-1, 1), (1 << 40, 1), (ControlToggle.SNAPSHOT, 0), (4, 4)]
)
def test_no_other_values_reach_the_toggle(member: Member, value: int, expected: int) -> None:
    assert Operator(member).ask(OperatorOrder.TOGGLE, value=value, expected=expected).status == OperatorStatus.REFUSED
    assert member.toggle.value == ControlToggle.NEUTRAL


def membership(change: int) -> bytes:
    return ordo_codecs.MEMBERSHIP_REQUEST.encode(correlation_id=77, member_id=2, change=change, member="")


def test_questions_are_answered_under_a_number_of_the_members_own(member: Member) -> None:
    operator = Operator(member)
    assert operator.ask(OperatorOrder.ASK, question=membership(MembershipChange.PROMOTE)).status == OperatorStatus.OK
    ((table, values),) = member.asked
    assert table is ordo_codecs.MEMBERSHIP_REQUEST
    assert values.correlation_id != 77


def test_an_answer_may_come_later_and_only_to_who_asked(member: Member) -> None:
    operator = Operator(member)
    member.answers_later = True
    operator.ask(OperatorOrder.ASK, question=membership(MembershipChange.REMOVE))
    assert len(operator.received()) == 1
    assert not member.operators.take_answer(Member.membership_response(1_000)), "that of a tool of this machine"
    assert member.operators.take_answer(Member.membership_response(member.asked[0][1].correlation_id))
    member.tick()
    assert operator.received()[-1].status == OperatorStatus.OK
    operator.ask(OperatorOrder.ASK, question=membership(MembershipChange.REMOVE))
    member.operators.image_gone(operator.image)
    assert not member.operators.take_answer(Member.membership_response(member.asked[1][1].correlation_id))


@pytest.mark.parametrize(
    "question",
    [
        b"",
        b"nonsense",
        membership(4),
        membership(-1),
        membership(0)[:-2],
        codecs.SESSION_CLOSE_REQUEST.encode(leadership_term_id=1, cluster_session_id=1),
    ],
)
def test_what_is_no_question_reaches_nobody(member: Member, question: bytes) -> None:
    assert Operator(member).ask(OperatorOrder.ASK, question=question).status == OperatorStatus.REFUSED
    assert member.asked == []


def test_without_an_authenticator_everybody_looks_and_nobody_orders() -> None:
    member = Member(gate=None)
    operator = Operator(member, credentials=b"")
    assert operator.ask(OperatorOrder.LOOK).status == OperatorStatus.OK
    assert operator.ask(OperatorOrder.SKIPPED).status == OperatorStatus.OK
    assert json.loads(operator.ask(OperatorOrder.DETAILS).payload) == {"terms": [[0, 0]]}
    query = codecs.CLUSTER_MEMBERS_QUERY.encode(correlation_id=3, extended=1)
    assert operator.ask(OperatorOrder.ASK, question=query).status == OperatorStatus.OK
    for refused in (
        operator.ask(OperatorOrder.TOGGLE, value=ControlToggle.SHUTDOWN, expected=ControlToggle.NEUTRAL),
        operator.ask(OperatorOrder.ASK, question=membership(MembershipChange.REMOVE)),
        operator.ask(OperatorOrder.ASK, question=ordo_codecs.SKIP_REQUEST.encode(correlation_id=3, log_position=8)),
    ):
        assert refused.status == OperatorStatus.NOT_ALLOWED
    assert member.toggle.value == ControlToggle.NEUTRAL
    assert [table for table, _ in member.asked] == [codecs.CLUSTER_MEMBERS_QUERY]
    assert member.announced == []


def test_an_unknown_order_says_so(member: Member) -> None:
    assert b"no such order" in Operator(member).ask(99).payload


def test_an_answer_that_is_too_long_is_not_sent(member: Member) -> None:
    member.seen = {"x": "y" * PAYLOAD_BYTES_MAX}
    assert Operator(member).ask(OperatorOrder.LOOK).status == OperatorStatus.REFUSED


@pytest.mark.parametrize("length_bytes", range(8, 24))
def test_a_message_that_is_cut_short_is_a_decode_error(member: Member, length_bytes: int) -> None:
    whole = ordo_codecs.OPERATOR_CONNECT.encode(correlation_id=1, response_port=PORT, credentials=b"")
    with pytest.raises(DecodeError):
        member.hear(whole[:length_bytes], Image())


def test_one_request_a_tick_and_few_that_wait(member: Member) -> None:
    operator = Operator(member)
    for _ in range(REQUESTS_WAITING_MAX + 3):
        operator.ask(OperatorOrder.LOOK, tick=False)
    assert len(member.invalid) == 3
    for answered in range(REQUESTS_WAITING_MAX):
        assert len(operator.received()) == 1 + answered
        member.tick()
    member.tick()
    assert len(operator.received()) == 1 + REQUESTS_WAITING_MAX


def test_a_host_uses_up_its_own_share_only(member: Member) -> None:
    friend = Operator(member, image=Image("10.0.0.1:1"))
    crowd = [Operator(member, image=Image(f"10.0.0.66:{port}")) for port in range(3 * CONNECTIONS_PER_HOST_MAX)]
    assert len(member.operators) == 1 + CONNECTIONS_PER_HOST_MAX
    assert friend.ask(OperatorOrder.LOOK).status == OperatorStatus.OK
    assert [one.publication.is_closed for one in crowd if one.publication] == [True] * 16 + [False] * 8


def test_a_host_that_connects_again_and_again_is_refused(member: Member) -> None:
    """Each connection costs a publication: one stream of connects kept a cluster from answering anybody."""
    crowd = [Image(f"10.0.0.66:{port}") for port in range(10)]
    for image in crowd * 100:
        member.hear(ordo_codecs.OPERATOR_CONNECT.encode(correlation_id=1, response_port=PORT, credentials=b""), image)
    assert len(member.client.made) == CONNECT_BURST
    assert member.invalid == ["operators: 10.0.0.66 connects too often"] * (1000 - CONNECT_BURST)
    assert Operator(member, image=Image("10.0.0.1:1")).ask(OperatorOrder.LOOK).status == OperatorStatus.OK


def test_many_hosts_stay_within_the_bound_of_all(member: Member) -> None:
    for host in range(2 * CONNECTIONS_MAX):
        Operator(member, image=Image(f"10.0.1.{host}:1"))
    assert len(member.operators) == CONNECTIONS_MAX
    open_ones = [one for one in member.client.made.values() if not one.is_closed]
    assert len(open_ones) == CONNECTIONS_MAX


def test_who_is_silent_or_gone_is_dropped(member: Member) -> None:
    silent, gone, busy = Operator(member), Operator(member), Operator(member)
    gone.image.is_closed = True
    member.tick(SILENCE_MAX_MS - 100)
    assert len(member.operators) == 2
    busy.ask(OperatorOrder.LOOK)
    member.tick(200)
    assert silent.publication is not None and silent.publication.is_closed
    assert busy.ask(OperatorOrder.LOOK).status == OperatorStatus.OK


def test_the_answers_fit_what_a_connection_takes() -> None:
    assert PAYLOAD_BYTES_MAX + 64 <= operators.TERM_LENGTH_BYTES // 8
