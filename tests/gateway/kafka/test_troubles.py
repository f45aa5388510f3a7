"""What clients are told when the cluster does not answer: the codes that make all of them ask again, or give up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from ordo.cluster.client.requests.request_window import Answer
from ordo.runtime.errors import (
    ClusterError,
    ClusterTimeoutError,
    DecodeError,
    NoQuorumError,
    OrdoError,
    OtherClusterError,
    QueryFailedError,
    RejectedError,
    RequestOutcome,
    SessionClosedError,
)

pytest.importorskip("kio", reason="needs the extra kafka")

from kio.schema.create_topics.v4.request import CreatableTopic
from kio.schema.describe_configs.v3.request import DescribeConfigsResource
from kio.schema.join_group.v3.request import JoinGroupRequestProtocol
from kio.schema.metadata.v8.request import MetadataRequestTopic
from kio.schema.offset_commit.v7.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_fetch.v5.request import OffsetFetchRequestTopic

from ordo.gateway.doors.settings import SessionsFullError
from ordo.gateway.kafka import sessions
from ordo.gateway.kafka.service.orders import (
    Append,
    KafkaError,
    OrderAnswer,
    decode_reply,
    encode_answer,
)
from ordo.gateway.kafka.sessions import ClusterSession, ClusterSessions
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.topic_readers import NoReaderError
from ordo.gateway.kafka.wire.messages import Api
from tests.gateway.kafka.appends import encode_append
from tests.gateway.kafka.batches import codes_of, request_of, response_of
from tests.gateway.kafka.memory import TOKEN, MemoryDoor, framed, pass_time, run
from tests.gateway.kafka.test_connection import HANDSHAKE, METADATA, SECOND, authenticate, fetch, list_offsets, produce

ASIDE = ClusterTimeoutError("no leader in time")
CLOSED = SessionClosedError("the session is closed", outcome=RequestOutcome.UNKNOWN)
NOT_SENT = ClusterError("no room for a request", outcome=RequestOutcome.NOT_EXECUTED)
OFFSETS = request_of(
    Api.OFFSET_FETCH, 5, 2, group_id="g", topics=(OffsetFetchRequestTopic(name="orders", partition_indexes=(0,)),)
)


def commit(metadata: str) -> bytes:
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    topics = (OffsetCommitRequestTopic(name="orders", partitions=(offset,)),)
    return request_of(
        Api.OFFSET_COMMIT, 7, 2, group_id="g", generation_id_or_member_epoch=-1, member_id="",
        group_instance_id=None, topics=topics,
    )  # fmt: skip


COMMIT = commit("")
NEW_PRODUCER = request_of(Api.INIT_PRODUCER_ID, 1, 2, transactional_id=None, transaction_timeout=SECOND)
DESCRIBE = request_of(Api.DESCRIBE_GROUPS, 4, 2, groups=("g",), include_authorized_operations=False)
PRODUCE = produce([(None, b"x", [])], 2)


def told(request: bytes, trouble: OrdoError) -> set[int]:
    """Return the codes of the response to a request that meets trouble behind the door."""

    async def work() -> bytes:
        door = MemoryDoor()
        await door.serve(framed(METADATA))
        door.session.trouble = trouble
        return (await door.serve(framed(request))).frames()[0]

    api, version = request[1], request[3]
    return codes_of(response_of(api, version, run(work()))[1])


@pytest.mark.parametrize(
    ("request_bytes", "trouble", "code"),
    [
        (PRODUCE, ASIDE, KafkaError.REQUEST_TIMED_OUT),
        (PRODUCE, CLOSED, KafkaError.REQUEST_TIMED_OUT),
        (PRODUCE, NOT_SENT, KafkaError.LEADER_NOT_AVAILABLE),
        (PRODUCE, RejectedError("no"), KafkaError.INVALID_REQUEST),
        (PRODUCE, DecodeError("another service"), KafkaError.INVALID_REQUEST),
        (fetch(1, 2), ASIDE, KafkaError.NOT_LEADER_OR_FOLLOWER),
        (fetch(1, 2), NoReaderError("32 places are read"), KafkaError.NOT_LEADER_OR_FOLLOWER),
        (list_offsets(-2, 2), ASIDE, KafkaError.NOT_LEADER_OR_FOLLOWER),
        (COMMIT, ASIDE, KafkaError.NOT_COORDINATOR),
        (COMMIT, CLOSED, KafkaError.NOT_COORDINATOR),
        (COMMIT, RejectedError("no"), KafkaError.INVALID_REQUEST),
        (OFFSETS, ASIDE, KafkaError.NOT_COORDINATOR),
        (NEW_PRODUCER, ASIDE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        (NEW_PRODUCER, RejectedError("no"), KafkaError.INVALID_REQUEST),
    ],
)
def test_a_client_is_told_whether_to_ask_again(request_bytes: bytes, trouble: OrdoError, code: int) -> None:
    assert told(request_bytes, trouble) - {KafkaError.NONE} == {code}


@pytest.mark.parametrize(
    ("trouble", "code"), [(ASIDE, KafkaError.NOT_COORDINATOR), (RejectedError("no"), KafkaError.INVALID_REQUEST)]
)
def test_a_group_that_cannot_be_described_has_an_error(trouble: OrdoError, code: int) -> None:
    async def work() -> bytes:
        door = MemoryDoor()
        async with door.at_work():
            await door.serve(framed(METADATA), framed(OFFSETS))  # from here on it coordinates the group
            door.session.trouble = trouble
            return (await door.serve(framed(DESCRIBE))).frames()[0]

    assert response_of(Api.DESCRIBE_GROUPS, 4, run(work()))[1].groups[0].error_code == code


def test_a_topic_that_cannot_be_created_hides_no_other() -> None:
    names = [MetadataRequestTopic(name=one) for one in ("unknown", "orders", "another")]
    more = request_of(
        Api.METADATA, 8, 2, topics=tuple(names), allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
    )  # fmt: skip
    asked: list[bytes] = []

    async def work() -> bytes:
        door = MemoryDoor()
        await door.serve(framed(METADATA))

        async def answer(payload: bytes) -> OrderAnswer:
            asked.append(payload)
            raise ASIDE

        door.session.answer_client = answer
        return (await door.serve(framed(more))).frames()[0]

    found = response_of(Api.METADATA, 8, run(work()))[1].topics
    assert [(one.name, one.error_code) for one in found] == [
        ("unknown", KafkaError.LEADER_NOT_AVAILABLE),
        ("orders", KafkaError.NONE),
        ("another", KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert len(asked) == 1, "each waits for as long as the cluster is waited for"


GROUP = {"group_id": "g", "generation_id": 1, "member_id": "m"}
JOIN = request_of(
    Api.JOIN_GROUP, 3, 2, group_id="g", member_id="", protocol_type="consumer", session_timeout=6 * SECOND,
    rebalance_timeout=6 * SECOND, protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
)  # fmt: skip
CREATE = request_of(
    Api.CREATE_TOPICS, 4, 2, timeout=SECOND, validate_only=False,
    topics=(CreatableTopic(name="more", num_partitions=1, replication_factor=1, assignments=(), configs=()),),
)  # fmt: skip
CONFIGS = request_of(
    Api.DESCRIBE_CONFIGS, 3, 2, include_synonyms=False, include_documentation=False,
    resources=(DescribeConfigsResource(resource_type=2, resource_name="more", configuration_keys=None),),
)  # fmt: skip
FIND = request_of(Api.FIND_COORDINATOR, 2, 2, key="g", key_type=0)
NO_LEADER: Mapping[Api, tuple[bytes, int]] = {
    Api.PRODUCE: (PRODUCE, KafkaError.REQUEST_TIMED_OUT),
    Api.FETCH: (fetch(1, 2), KafkaError.NOT_LEADER_OR_FOLLOWER),
    Api.LIST_OFFSETS: (list_offsets(-2, 2), KafkaError.NOT_LEADER_OR_FOLLOWER),
    Api.METADATA: (METADATA, KafkaError.LEADER_NOT_AVAILABLE),
    Api.OFFSET_COMMIT: (COMMIT, KafkaError.NOT_COORDINATOR),
    Api.OFFSET_FETCH: (OFFSETS, KafkaError.NOT_COORDINATOR),
    Api.FIND_COORDINATOR: (FIND, KafkaError.COORDINATOR_NOT_AVAILABLE),
    Api.JOIN_GROUP: (JOIN, KafkaError.NOT_COORDINATOR),
    Api.HEARTBEAT: (request_of(Api.HEARTBEAT, 2, 2, **GROUP), KafkaError.NOT_COORDINATOR),
    Api.LEAVE_GROUP: (request_of(Api.LEAVE_GROUP, 2, 2, group_id="g", member_id="m"), KafkaError.NOT_COORDINATOR),
    Api.SYNC_GROUP: (request_of(Api.SYNC_GROUP, 2, 2, assignments=(), **GROUP), KafkaError.NOT_COORDINATOR),
    Api.DESCRIBE_GROUPS: (DESCRIBE, KafkaError.NOT_COORDINATOR),
    Api.LIST_GROUPS: (request_of(Api.LIST_GROUPS, 2, 2), KafkaError.COORDINATOR_NOT_AVAILABLE),
    Api.SASL_HANDSHAKE: (HANDSHAKE, KafkaError.NONE),
    Api.API_VERSIONS: (request_of(Api.API_VERSIONS, 0, 2), KafkaError.NONE),
    Api.CREATE_TOPICS: (CREATE, KafkaError.REQUEST_TIMED_OUT),
    Api.INIT_PRODUCER_ID: (NEW_PRODUCER, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
    Api.DESCRIBE_CONFIGS: (CONFIGS, KafkaError.REQUEST_TIMED_OUT),
    Api.SASL_AUTHENTICATE: (authenticate(TOKEN), KafkaError.ILLEGAL_SASL_STATE),
    Api.DELETE_GROUPS: (request_of(Api.DELETE_GROUPS, 1, 2, groups_names=("g",)), KafkaError.NOT_COORDINATOR),
}
"""Every request, and what it is answered with while no member leads."""


def test_the_table_has_every_request() -> None:
    assert set(NO_LEADER) == set(Api)


@pytest.mark.parametrize("api", Api, ids=lambda api: api.name)
def test_without_a_leader_each_request_is_answered(api: Api) -> None:
    request, code = NO_LEADER[api]
    assert told(request, ASIDE) - {KafkaError.NONE} == {code} - {KafkaError.NONE}


@pytest.mark.parametrize("api", [Api.METADATA, Api.LIST_GROUPS, Api.DESCRIBE_CONFIGS], ids=lambda api: api.name)
def test_who_may_not_ask_is_told_so(api: Api) -> None:
    assert told(NO_LEADER[api][0], QueryFailedError("no right to ask")) == {KafkaError.INVALID_REQUEST}


def test_no_topics_is_an_answer_that_is_not_given_for_want_of_one() -> None:
    everything = request_of(
        Api.METADATA, 8, 2, topics=None, allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
    )  # fmt: skip

    async def work() -> bytes:
        door = MemoryDoor()
        async with door.at_work():
            await door.serve(framed(NO_LEADER[Api.FIND_COORDINATOR][0]))  # from here on it has its place
            door.session.trouble = ClusterTimeoutError("no leader in time")  # keeps what it went through
            with pytest.raises(ClusterTimeoutError, match="no leader in time"):
                await door.serve(framed(everything))
            door.session.trouble = None
            await door.serve(framed(METADATA))
            door.session.trouble = ASIDE
            return (await door.serve(framed(everything))).frames()[0]

    (topic,) = response_of(Api.METADATA, 8, run(work()))[1].topics
    assert (topic.name, topic.error_code) == ("orders", KafkaError.LEADER_NOT_AVAILABLE)


def test_metadata_that_no_order_can_carry_is_told_so() -> None:
    assert told(commit("m" * 32_000), ASIDE) == {KafkaError.OFFSET_METADATA_TOO_LARGE}


@pytest.mark.parametrize("kind", [NoQuorumError, SessionsFullError])
def test_what_passes_is_no_wrong_token(kind: type[OrdoError]) -> None:
    async def work() -> list[bytes]:
        door = MemoryDoor()
        door.session.refusal = kind("not now")  # one that outlives the test would keep the connection
        with pytest.raises(kind, match="not now"):
            await door.serve(framed(HANDSHAKE), framed(authenticate(TOKEN)))
        door.session.refusal = None
        return (await door.serve(framed(HANDSHAKE), framed(authenticate(TOKEN)))).frames()

    assert response_of(Api.SASL_AUTHENTICATE, 1, run(work())[1])[1].error_code == KafkaError.NONE


@pytest.mark.parametrize("payload", [b"", b"\xf0ordo.topics\x01", b"{", b"[" * 100_000])
def test_what_another_service_answers_is_no_reply(payload: bytes) -> None:
    with pytest.raises(DecodeError, match="it must be ordo:Topics"):
        decode_reply(payload)


def test_so_many_tokens_have_a_session_and_unused_ones_make_room() -> None:
    taken = ClusterSessions(KafkaSettings(endpoints=["127.0.0.1:9"], sessions_max=2))
    first, second = taken.take(b"first"), taken.take(b"second")
    assert taken.take(b"first") is first
    with pytest.raises(SessionsFullError, match="2 sessions are open"):
        taken.take(b"third")
    taken.give_back(first)
    with pytest.raises(SessionsFullError):
        taken.take(b"third")
    taken.give_back(second, is_refused=True)
    assert taken.take(b"third") is not second
    taken.give_back(first)
    assert taken.take(b"second").users == 1, "that of the first token has made room"
    assert taken.take(b"second").users == 2


class OneCluster:
    """A client as a session has it. `trouble`: what its requests end with."""

    session_id = 1
    trouble: OrdoError | None = None

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def open(self) -> None:
        """It is open at once."""

    def close(self) -> None:
        """It holds nothing."""

    async def request(self, payload: bytes, timeout_s: float) -> Answer:
        self.asked.append(payload)
        if self.trouble is not None:
            await pass_time(float(len(self.asked)))
            raise self.trouble
        return Answer(encode_answer(KafkaError.NONE, 1), 1024)


@pytest.mark.parametrize(
    "trouble",
    [
        OtherClusterError("goes on behind position=640", kept_position=640, lost_requests=(1,)),
        SessionClosedError("session 1 is over"),
    ],
)
def test_a_door_goes_on_with_a_promoted_standby_and_vouches_for_nothing_that_it_may_lack(
    trouble: OrdoError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed with a cluster that was gone, and told a producer done what was lost.

    One whose session had ended before opens the next one there, and has nothing that shows it.
    """

    async def work() -> None:
        former, promoted, done = OneCluster(), OneCluster(), [OrderAnswer(KafkaError.NONE, 1)]
        clients = iter((former, promoted))
        monkeypatch.setattr(sessions, "AsyncClusterClient", lambda *_, **__: next(clients))
        session = ClusterSession(KafkaSettings(endpoints=["127.0.0.1:9"]), b"")
        first, second, third = (encode_append(Append("orders", one, 0, 0, [b"x"])) for one in (7, 8, 9))
        for _ in range(2):
            assert await session.append([first]) == done
        former.trouble = trouble
        failing = [asyncio.create_task(session.append([one])) for one in (second, third)]
        for one in failing:  # the second ends when the door has a session with the promoted one
            assert await one == [trouble]
            assert await session.append([first]) == done
        assert await session.append([second]) == done
        assert (former.asked, promoted.asked) == ([first, second, third], [first, second])

    run(work())


def test_a_session_that_is_closed_opens_no_other_one_for_orders_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their turns come as what is under way is ended. Nobody would have closed what they opened."""

    async def work() -> None:
        made: list[OneCluster] = []

        def make(*_: object, **__: object) -> OneCluster:
            made.append(OneCluster())
            made[-1].trouble = SessionClosedError("after a while")
            return made[-1]

        monkeypatch.setattr(sessions, "AsyncClusterClient", make)
        session = ClusterSession(KafkaSettings(endpoints=["127.0.0.1:9"]), b"")
        session.turns.hold(True)
        orders = [asyncio.create_task(session.append([one])) for one in (b"1", b"2", b"3")]
        await pass_time(0.5)
        session.close()
        *_, last = await asyncio.gather(*orders, return_exceptions=True)
        assert isinstance(last, list)
        (waited,) = last
        assert isinstance(waited, SessionClosedError) and "the door has closed" in waited.message
        assert [one.asked for one in made] == [[b"1", b"2"]]

    run(work())
