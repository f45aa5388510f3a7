"""Every call of a gateway, and how it is refused, in front of one cluster that asks for tokens."""

from __future__ import annotations

import base64
import json
import os
import queue
import shlex
import subprocess
from collections.abc import Iterator
from itertools import islice
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ordo.deploy.launcher import LocalCluster
from ordo.runtime.security.tokens import hash_token
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc
from tests.cluster.integration.agreement import await_that
from tests.clusters import ready_cluster
from tests.gateway.conftest import GatewayProcess, StartGateway, refusal_of, sequencer_of
from tests.patience import patient
from tests.snippets import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ADD = b'{"add": 1}'
TIMEOUT_S = patient(20.0)
PUBLISHER = "tests.gateway.publishing_bank:PublishingBank"
TRADER, RIVAL, VIEWER, OPERATOR = ("t" * 40, "r" * 40, "v" * 40, "o" * 40)
SECOND = "s" * 40
"""Another token of the trader."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    tokens = [
        {"principal": "trader", "hash": hash_token(TRADER), "roles": ["ingress", "queries", "log"]},
        {"principal": "trader", "hash": hash_token(SECOND), "roles": ["ingress", "queries", "log"]},
        {"principal": "rival", "hash": hash_token(RIVAL), "roles": ["ingress", "queries"]},
        {"principal": "viewer", "hash": hash_token(VIEWER), "roles": ["topic:bal*"]},
        {"principal": "root", "hash": hash_token(OPERATOR), "roles": ["operator", "log"]},
    ]
    root = tmp_path_factory.mktemp("calls")
    with ready_cluster(PUBLISHER, root=root / "cluster", tables={"tokens": tokens}) as started:
        yield started


@pytest.fixture(scope="module")
def gateway(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    log_path = tmp_path_factory.mktemp("gateway") / "gateway.log"
    options = ("--stream-requests-max", "8", "--requests-max", "16", "--sessions-max", "3")
    started = GatewayProcess(cluster, log_path, *options)
    yield started
    started.kill()


@pytest.fixture
def channel(gateway: GatewayProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(gateway.address) as opened:
        yield opened


def shown(token: str) -> dict[str, Any]:
    """What a call says of who makes it, and until when."""
    return {"metadata": [("authorization", f"Bearer {token}")], "timeout": TIMEOUT_S}


def request(identity: bytes, number: int, payload: bytes = ADD, **more: Any) -> pb.SubmitRequest:
    return pb.SubmitRequest(identity=identity, number=number, payload=payload, **more)


def test_who_shows_no_token_or_a_wrong_one_is_nobody(channel: grpc.Channel) -> None:
    for metadata in ([], [("authorization", "Bearer " + "x" * 40)]):
        with pytest.raises(grpc.RpcError) as refused:
            sequencer_of(channel).Submit(request(os.urandom(16), 1), metadata=metadata, timeout=TIMEOUT_S)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_principal_with_several_tokens_has_its_share_of_the_sessions(
    cluster: LocalCluster, start_gateway: StartGateway
) -> None:
    """The gateway learns from the cluster that two tokens are of one principal. The first is in use all the while."""
    started = start_gateway(cluster, "--sessions-per-principal", "1", "--operator-hosts", "10.9.9.9")
    batches: queue.SimpleQueue[pb.SubmitBatch | None] = queue.SimpleQueue()
    with grpc.insecure_channel(started.address) as opened:
        sequencer = sequencer_of(opened)
        stream = sequencer.SubmitStream(iter(batches.get, None), **shown(TRADER))
        batches.put(pb.SubmitBatch(identity=os.urandom(16), number=1, payloads=[ADD]))
        assert len(next(stream).payloads) == 1
        for _ in range(2):  # a token that is known by then is refused without a session
            code, text = refusal_of(sequencer.Submit, request(os.urandom(16), 1), **shown(SECOND))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and text.startswith(
                "1 sessions of this token's principal"
            )
        assert sequencer.Submit(request(os.urandom(16), 1), **shown(RIVAL)).log_position > 0
        batches.put(None)
        list(stream)

    def failed() -> int:
        return sum("of this token's principal" in one["trouble"] for one in started.events("gateway.session-failed"))

    await_that(lambda: failed() > 0, "the line of the session that was refused")
    assert failed() == 1


def test_an_identity_belongs_to_the_principal_of_the_token(channel: grpc.Channel) -> None:
    identity = os.urandom(16)
    sequencer_of(channel).Submit(request(identity, 1), **shown(TRADER))
    with pytest.raises(grpc.RpcError) as refused:
        sequencer_of(channel).Submit(request(identity, 2), **shown(RIVAL))
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_refusal_of_the_service_has_its_text_and_its_position(channel: grpc.Channel) -> None:
    identity = os.urandom(16)
    with pytest.raises(grpc.RpcError) as refused:
        sequencer_of(channel).Submit(request(identity, 1, b'{"add": -1}'), **shown(TRADER))
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert refused.value.details() == "the account has 0"
    assert int(dict(refused.value.trailing_metadata())["ordo-log-position"]) > 0
    after = sequencer_of(channel).Submit(request(identity, 2), **shown(TRADER))
    assert json.loads(after.payload)["balance"] == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"identity": b"short", "number": 1}, "identity of 5 bytes: must be 16"),
        ({"identity": b"i" * 16, "number": 0}, "number=0"),
        ({"identity": b"i" * 16, "number": 3, "confirmed": 3}, "confirmed=3: must be below number=3"),
        ({"identity": b"i" * 16, "number": 1, "identity_position": -5}, "identity_position=-5"),
        ({"identity": b"i" * 16, "number": 1, "payload": bytes(200_000)}, "payload of 200000 bytes"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(channel: grpc.Channel, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        sequencer_of(channel).Submit(pb.SubmitRequest(**wrong), **shown(TRADER))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in refused.value.details()


def test_a_gap_is_said_before_the_deadline_passes(channel: grpc.Channel) -> None:
    identity = os.urandom(16)
    with pytest.raises(grpc.RpcError) as refused:
        late = {**shown(TRADER), "timeout": patient(2.0)}
        sequencer_of(channel).Submit(request(identity, 3), **late)
    assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE
    assert "number 2 is missing" in refused.value.details() or "number 1 is missing" in refused.value.details()


def test_an_identity_says_how_far_it_is(channel: grpc.Channel) -> None:
    identity = os.urandom(16)
    sequencer = sequencer_of(channel)
    opened = sequencer.OpenIdentity(pb.OpenIdentityRequest(identity=identity), **shown(TRADER))
    assert (opened.number, opened.confirmed) == (0, 0) and opened.payload_bytes_max > 10_000
    known = {"identity_position": opened.identity_position}
    answer = sequencer.Submit(request(identity, 1, **known), **shown(TRADER))
    assert answer.identity_position == opened.identity_position
    sequencer.Submit(request(identity, 2, confirmed=1, **known), **shown(TRADER))
    again = sequencer.OpenIdentity(pb.OpenIdentityRequest(identity=identity), **shown(TRADER))
    assert (again.number, again.confirmed) == (2, 1)
    with pytest.raises(grpc.RpcError) as refused:
        sequencer.Submit(request(identity, 3, identity_position=opened.identity_position + 64), **shown(TRADER))
    assert refused.value.code() is grpc.StatusCode.ABORTED


def test_an_identity_is_told_no_longer_payload_than_the_gateway_takes(
    cluster: LocalCluster, start_gateway: StartGateway
) -> None:
    identity, most = os.urandom(16), 1 << 16
    with grpc.insecure_channel(start_gateway(cluster, "--message-bytes-max", str(most)).address) as opened:
        sequencer = sequencer_of(opened)
        told = sequencer.OpenIdentity(pb.OpenIdentityRequest(identity=identity), **shown(TRADER))
        assert most - 1_024 < told.payload_bytes_max < most, "the cluster would take more"
        longest = ADD.ljust(told.payload_bytes_max)
        known = {"identity_position": told.identity_position, "id": bytes(64)}
        assert sequencer.Submit(request(identity, 1, longest, **known), **shown(TRADER)).log_position > 0
        code, _ = refusal_of(sequencer.Submit, request(identity, 2, ADD.ljust(most)), **shown(TRADER))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


def unpack(batch: Any) -> Iterator[tuple[int, int, bytes]]:
    """Number, outcome and payload of each answer."""
    outcomes = batch.outcomes or [pb.AnswerBatch.EXECUTED] * len(batch.payloads)
    return zip(range(batch.number, batch.number + len(outcomes)), outcomes, batch.payloads, strict=True)


def test_a_stream_answers_in_order_and_goes_on_after_a_refusal(channel: grpc.Channel) -> None:
    identity = os.urandom(16)
    batches = [
        pb.SubmitBatch(identity=identity, number=1, payloads=[ADD, b'{"add": -5}']),
        pb.SubmitBatch(number=3, payloads=[ADD] * 8, confirmed=2),
        *(pb.SubmitBatch(number=number, payloads=[ADD], confirmed=2) for number in range(11, 60)),
    ]
    answers = [
        answer
        for batch in sequencer_of(channel).SubmitStream(iter(batches), **shown(TRADER))
        for answer in unpack(batch)
    ]
    assert [number for number, _, _ in answers] == list(range(1, 60))
    assert answers[1] == (2, pb.AnswerBatch.REJECTED, b"the account has 1")
    assert json.loads(answers[-1][2])["balance"] == 58


def test_a_stream_has_one_identity_and_batches_of_a_bounded_length(channel: grpc.Channel) -> None:
    first = pb.SubmitBatch(identity=b"s" * 16, number=1, payloads=[ADD])
    for batch, words in (
        (pb.SubmitBatch(identity=b"z" * 16, number=2, payloads=[ADD]), "one identity"),
        (pb.SubmitBatch(number=2, payloads=[ADD] * 9), "batch of 9 payloads: at most 8"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            list(sequencer_of(channel).SubmitStream(iter([first, batch]), **shown(TRADER)))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT and words in refused.value.details()


def test_more_unary_calls_than_may_be_under_way_are_refused(channel: grpc.Channel) -> None:
    sequencer, identity = sequencer_of(channel), os.urandom(16)
    soon = {**shown(TRADER), "timeout": patient(4.0)}
    waiting = [sequencer.Submit.future(request(identity, number), **soon) for number in range(2, 30)]
    codes = [one.code() for one in waiting if isinstance(one.exception(timeout=TIMEOUT_S), grpc.RpcError)]
    assert len(codes) == 28 and codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 12, codes
    # For their callers they have ended; the gateway hears of that later, and would refuse the calls of the next test.
    await_that(lambda: is_taken(sequencer), "the end of the calls at the gateway")


def is_taken(sequencer: Any) -> bool:
    """Whether the gateway takes one more call."""
    try:
        sequencer.Submit(request(os.urandom(16), 1), **shown(TRADER))
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error
        return False
    return True


def test_queries_are_answered_with_their_position(channel: grpc.Channel) -> None:
    sequencer, identity = sequencer_of(channel), os.urandom(16)
    executed = sequencer.Submit(request(identity, 1), **shown(TRADER))
    asked = sequencer.Query(pb.QueryRequest(), **shown(TRADER))
    assert asked.log_position >= executed.log_position
    assert json.loads(asked.payload)[0][identity.hex()] == 1
    stale = pb.QueryRequest(consistency=pb.QueryRequest.STALE, member_id=1, min_position=executed.log_position)
    assert json.loads(sequencer.Query(stale, **shown(TRADER)).payload)[0][identity.hex()] == 1
    with pytest.raises(grpc.RpcError) as failed:
        sequencer.Query(pb.QueryRequest(group="pricing"), **{**shown(TRADER), "timeout": patient(1.0)})
    assert "no instance of group 'pricing' answers queries" in failed.value.details()
    with pytest.raises(grpc.RpcError) as failed:
        sequencer.Query(pb.QueryRequest(group="pricing", member_id=1), **shown(TRADER))
    assert "the leader finds an instance" in failed.value.details()


def test_the_log_is_followed_from_a_position_and_filtered(channel: grpc.Channel) -> None:
    sequencer, identity = sequencer_of(channel), os.urandom(16)
    first = sequencer.Submit(request(identity, 1), **shown(TRADER))
    last = sequencer.Submit(request(identity, 2), **shown(TRADER))
    wanted = pb.SubscribeRequest(kinds=["request"], until_position=last.log_position)
    entries = [one for batch in sequencer.Subscribe(wanted, **shown(TRADER)) for one in batch.entries]
    mine = [one for one in entries if one.identity_position == first.identity_position]
    assert [(one.number, one.payload, one.position) for one in mine] == [
        (1, ADD, first.log_position),
        (2, ADD, last.log_position),
    ]
    assert {one.kind for one in entries} == {"request"}
    assert {(one.identity, one.HasField("is_repeat"), one.is_repeat) for one in mine} == {(identity, True, False)}
    wanted.repeats = True
    copies = [one for batch in sequencer.Subscribe(wanted, **shown(TRADER)) for one in batch.entries]
    assert [one for one in copies if not one.is_repeat] == entries
    later = pb.SubscribeRequest(from_position=first.log_position, until_position=last.log_position)
    found = [one for batch in sequencer.Subscribe(later, **shown(TRADER)) for one in batch.entries]
    assert found[-1].position == last.log_position and min(one.position for one in found) > first.log_position


def test_a_topic_is_followed_and_each_message_has_its_number(channel: grpc.Channel) -> None:
    sequencer, identity = sequencer_of(channel), os.urandom(16)
    first = sequencer.Submit(request(identity, 1), **shown(TRADER))
    live = sequencer.SubscribeTopic(pb.SubscribeTopicRequest(topic="balances"), **shown(TRADER))
    begun = next(live)
    assert not begun.messages
    later = [sequencer.Submit(request(identity, number), **shown(TRADER)) for number in (2, 3, 4)]
    new = list(islice(messages_of(live), len(later)))
    live.cancel()
    assert [(one.position, one.payload) for one in new] == [(one.log_position, one.payload) for one in later]
    whole = messages_of(
        sequencer.SubscribeTopic(pb.SubscribeTopicRequest(topic="balances", from_position=0), **shown(TRADER))
    )
    found = list(islice(whole, new[-1].sequence))
    assert [one.sequence for one in found] == list(range(1, len(found) + 1))
    assert found[-3:] == new and found[-4].position == first.log_position
    for begin in ({"from_position": first.log_position}, {"from_sequence": new[0].sequence}):
        asked = pb.SubscribeTopicRequest(topic="balances", **begin)
        assert next(messages_of(sequencer.SubscribeTopic(asked, **shown(TRADER)))) == new[0]
    oldest = pb.SubscribeTopicRequest(topic="balances", oldest=True)
    assert next(messages_of(sequencer.SubscribeTopic(oldest, **shown(TRADER)))) == found[0]


def test_whose_role_names_a_topic_reads_it_and_not_the_log(channel: grpc.Channel) -> None:
    sequencer = sequencer_of(channel)
    sequencer.Submit(request(os.urandom(16), 1), **shown(TRADER))
    asked = pb.SubscribeTopicRequest(topic="balances", from_position=0)
    assert next(messages_of(sequencer.SubscribeTopic(asked, **shown(VIEWER)))).sequence == 1
    with pytest.raises(grpc.RpcError) as refused:
        list(sequencer.Subscribe(pb.SubscribeRequest(), **shown(VIEWER)))
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def messages_of(batches: Any) -> Iterator[Any]:
    """The messages of a topic; each batch says which number comes next."""
    for batch in batches:
        yield from batch.messages
        assert not batch.messages or batch.next_sequence == batch.messages[-1].sequence + 1


@pytest.mark.parametrize(
    ("wanted", "token", "code", "said"),
    [
        ({"topic": "no topic"}, TRADER, grpc.StatusCode.INVALID_ARGUMENT, "topic 'no topic'"),
        ({"topic": "balances", "from_position": -5}, TRADER, grpc.StatusCode.INVALID_ARGUMENT, "from_position=-5"),
        ({"topic": "balances", "from_sequence": 0}, TRADER, grpc.StatusCode.INVALID_ARGUMENT, "from_sequence=0"),
        ({"topic": "balances"}, RIVAL, grpc.StatusCode.PERMISSION_DENIED, "role log"),
        ({"topic": "balances"}, "x" * 40, grpc.StatusCode.UNAUTHENTICATED, ""),
    ],
)
def test_a_topic_that_cannot_be_read_is_refused(
    channel: grpc.Channel, wanted: dict[str, Any], token: str, code: grpc.StatusCode, said: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        next(sequencer_of(channel).SubscribeTopic(pb.SubscribeTopicRequest(**wanted), **shown(token)))
    assert refused.value.code() is code
    assert said in refused.value.details()


def test_a_subscription_is_for_whom_the_cluster_lets_in(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        next(sequencer_of(channel).Subscribe(pb.SubscribeRequest(), timeout=TIMEOUT_S))
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(grpc.RpcError) as unknown:
        next(sequencer_of(channel).Subscribe(pb.SubscribeRequest(kinds=["nothing"]), **shown(TRADER)))
    assert unknown.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_operators_give_orders_and_others_do_not(channel: grpc.Channel, cluster: LocalCluster) -> None:
    administration: Any = ordo_pb2_grpc.AdministrationStub(channel)  # type: ignore[no-untyped-call]
    members = administration.Status(pb.StatusRequest(), **shown(OPERATOR)).members
    (leader,) = [one.member_id for one in members if one.is_leader]
    assert [one.member_id for one in members] == [0, 1, 2]
    administration.TakeSnapshot(pb.TakeSnapshotRequest(), **shown(OPERATOR))
    administration.Suspend(pb.SuspendRequest(), **shown(OPERATOR))
    administration.Resume(pb.ResumeRequest(), **shown(OPERATOR))
    target = (leader + 1) % 3
    administration.TransferLeadership(pb.TransferLeadershipRequest(member_id=target), **shown(OPERATOR))
    await_that(lambda: cluster.leader() == target, "the new leader")
    with pytest.raises(grpc.RpcError) as refused:
        administration.TakeSnapshot(pb.TakeSnapshotRequest(), **shown(TRADER))
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_it_serves_while_a_leader_answers(channel: grpc.Channel) -> None:
    checked = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
    assert checked.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.soak  # it builds a client for minutes, whose calls are those of the tests in Python
@pytest.mark.timeout(600)
def test_grpcurl_finds_the_contract_by_reflection(gateway: GatewayProcess, grpcurl: str) -> None:
    """As the page calls it; the gateway's cluster asks for tokens."""
    page = Page("GATEWAY.md")
    text = page.take("sh", "Sequencer/Submit") + page.take("sh", "LookAtMembers")
    given = {"grpcurl": grpcurl, "10.0.0.9:50051": gateway.address, "authorization: Bearer TOKEN": bearer(OPERATOR)}

    def call(line: str, *token: str) -> str:
        program, *words = (given.get(word, word) for word in shlex.split(line))
        done = subprocess.run(
            [program, *token, *words], capture_output=True, text=True, timeout=patient(60), check=False
        )
        assert done.returncode == 0, done
        return done.stdout

    listing, submit, look, recordings = text.replace("\\\n", " ").splitlines()
    services = {f"ordo.v1.{name}" for name in ("Sequencer", "Administration", "Consumers", "Archives")}
    assert {*services, "grpc.health.v1.Health"} <= set(call(listing).split())
    answer = json.loads(call(submit, "-H", bearer(TRADER)))
    assert answer == json.loads(call(submit, "-H", bearer(TRADER)))
    assert int(answer["log_position"]) == json.loads(base64.b64decode(answer["payload"]))["position"]
    assert len(json.loads(call(look))["members"]) == 3
    assert all(one["recordings"] for one in json.loads(call(recordings))["members"])


def bearer(token: str) -> str:
    return f"authorization: Bearer {token}"
