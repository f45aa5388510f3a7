"""A replay executes requests when the cluster did: once, in order, and across a snapshot."""

from __future__ import annotations

import json
from typing import Any

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import REQUEST_ID_LEVEL, SEQUENCE_LEVEL
from ordo.cluster.wire.sessions.instance_codec import InstanceReport, ReportFlag, encode_report
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.pipeline.replaying.replay_cluster import Effect, ReplayCluster, decode_snapshot, lockstep
from ordo.runtime.errors import Reject
from ordo.service_api.requests import IdentityState
from ordo.service_api.service import ClusteredService, TimeUnit

NAME = bytes(range(16))


class Adder(ClusteredService):
    def __init__(self) -> None:
        self.total = 0
        self.identities: list[bytes | None] = []

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        self.identities.append(session.identity)
        if payload.startswith(b'"'):
            raise Reject(f"no account {json.loads(payload)}")
        if not payload.isdigit():
            raise Reject("no number")
        self.total += int(payload)
        return b"%d" % self.total


def row(kind: str, position: int, payload: bytes, **others: Any) -> dict[str, Any]:
    columns = {"session_id": None, "correlation_id": None, "cluster_time": None}
    return {"kind": kind, "position": position, "payload": payload, **columns, **others}


def opened(cluster: ReplayCluster, position: int = 100) -> None:
    record = codecs.SESSION_OPEN_EVENT.encode(
        leadership_term_id=0,
        correlation_id=1,
        cluster_session_id=5,
        timestamp=1,
        response_stream_id=102,
        response_channel="aeron:ipc",
        encoded_principal=b"me",
    )
    cluster.execute(row("session_open", position, record, session_id=5, cluster_time=1))
    message = ordo_codecs.OPEN_IDENTITY.encode(
        leadership_term_id=0,
        cluster_session_id=5,
        timestamp=2,
        incarnation=7,
        known_position=0,
        **ordo_codecs.split_identity(NAME),
    )
    cluster.execute(row("identity", position + 100, message))


def request(cluster: ReplayCluster, number: int, payload: bytes, open_position: int = 200) -> list[Effect]:
    head = ordo_codecs.REQUEST.encode(
        leadership_term_id=0,
        cluster_session_id=5,
        timestamp=10 + number,
        open_position=open_position,
        number=number,
        confirmed=0,
    )
    return list(cluster.execute(row("request", 1000 + number, head + payload)))


def test_a_refusal_says_what_the_container_says_where_utf_8_cannot_hold_it() -> None:
    cluster = ReplayCluster(Adder, None, 0)
    opened(cluster)
    assert request(cluster, 1, rb'"\ud800"') == [Effect("reject", 5, rb"no account \ud800")]


def test_requests_are_executed_once_and_in_order() -> None:
    cluster = ReplayCluster(Adder, None, 0)
    opened(cluster)
    assert request(cluster, 1, b"5") == [Effect("egress", 5, b"5")]
    assert request(cluster, 1, b"5") == []
    assert request(cluster, 3, b"7") == []
    assert request(cluster, 2, b"x") == [Effect("reject", 5, b"no number")]
    assert request(cluster, 2, b"x") == []
    assert request(cluster, 3, b"7", open_position=999) == []
    assert request(cluster, 3, b"7") == [Effect("egress", 5, b"12")]
    assert cluster.time == 13
    service = cluster.service
    assert isinstance(service, Adder) and service.identities == [NAME] * 3


def test_a_log_of_level_3_is_executed_whatever_the_length_of_its_answers() -> None:
    """Below it, the members have requests wait behind 16 MiB of answers, and so does the replay."""
    executed = []
    for level in (REQUEST_ID_LEVEL - 1, REQUEST_ID_LEVEL):
        cluster = ReplayCluster(Long, None, 0)
        event = ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=0, timestamp=1, level=level, member_id=0)
        cluster.execute(row("level", 90, event))
        opened(cluster)
        executed.append(sum(len(request(cluster, number, b"x")) for number in range(1, 21)))
        after = cluster.take_snapshot()
        assert after.takes_ids is (level == REQUEST_ID_LEVEL)
    assert executed == [16, 20]


class Numbered(ClusteredService):
    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        return b"%d" % header.sequence

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(b"state")


def test_messages_have_the_numbers_that_the_members_gave_them() -> None:
    cluster = ReplayCluster(Numbered, None, 0)
    opened(cluster)
    action = codecs.CLUSTER_ACTION_REQUEST.encode(leadership_term_id=0, log_position=0, timestamp=1, action=2, flags=0)
    level = ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=0, timestamp=1, level=SEQUENCE_LEVEL, member_id=0)
    assert request(cluster, 1, b"") == [Effect("egress", 5, b"1")]
    assert request(cluster, 1, b"") == []
    cluster.execute(row("cluster_action", 1001, action))
    assert request(cluster, 2, b"") == [Effect("egress", 5, b"0")]
    cluster.execute(row("level", 2000, level))
    assert request(cluster, 3, b"") == [Effect("egress", 5, b"2001")]
    cluster.execute(row("cluster_action", 2001, action))
    assert request(cluster, 4, b"") == [Effect("egress", 5, b"2002")]
    after = cluster.take_snapshot()
    assert (after.sequence, after.keeps_sequence) == (2002, True)
    cluster = ReplayCluster(Numbered, after, 0)
    assert request(cluster, 5, b"") == [Effect("egress", 5, b"2003")]


class Long(ClusteredService):
    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        return bytes(1 << 20)


class Publisher(ClusteredService):
    def on_start(self, cluster: Any, snapshot: Any) -> None:
        self.cluster = cluster

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        return b"%d" % self.cluster.publish(payload.decode(), b"x")


def test_a_service_that_publishes_goes_on_from_its_snapshot() -> None:
    """A snapshot that says where topics and applications stand was once taken for one that was not finished."""
    feed = ordo_codecs.FEED_STATE.encode(sequence=41, position=4096, log_position=900, topic="trades")
    empty = container_snapshot.encode(container_snapshot.ServiceSnapshot(1002, 0, TimeUnit.MILLIS, 1, (), (), ()))
    report = InstanceReport("pricing", "a", 1, 900, 800, 1, 1, 0, ReportFlag.ACTIVE)
    messages = [next(empty), feed, encode_report(report, 0), *empty]
    decoded = decode_snapshot(messages)
    assert [(feed.topic, feed.sequence) for feed in decoded.feeds] == [("trades", 41)]
    cluster = ReplayCluster(Publisher, decoded, 0)
    opened(cluster)
    assert request(cluster, 1, b"trades") == [Effect("publish", 42, b"trades:x"), Effect("egress", 5, b"42")]
    assert request(cluster, 2, b"quotes") == [Effect("publish", 1, b"quotes:x"), Effect("egress", 5, b"1")]


def test_a_snapshot_says_what_was_executed() -> None:
    states = (IdentityState(NAME, b"me", 7, 200, 2, 0, 12, [(1, 1001, 0, b"5"), (2, 1002, 0, bytes(100_000))]),)
    session = codecs.CLIENT_SESSION.decode(
        codecs.CLIENT_SESSION.encode(
            cluster_session_id=5, response_stream_id=102, response_channel="aeron:ipc", encoded_principal=b"me"
        )
    )

    class Session:
        id, response_stream_id = session.cluster_session_id, session.response_stream_id
        response_channel, encoded_principal = session.response_channel, session.encoded_principal

    state = container_snapshot.ServiceSnapshot(1002, 0, TimeUnit.MILLIS, 1, (Session(),), (), states)
    decoded = decode_snapshot(container_snapshot.encode(state))
    assert decoded.requests == states
    cluster = ReplayCluster(Adder, decoded, 0)
    assert request(cluster, 2, b"9") == []
    assert request(cluster, 3, b"9") == [Effect("egress", 5, b"9")]


def test_the_first_pair_that_differs_may_be_one_that_only_one_side_has() -> None:
    first, second = Effect("egress", 1, b"a"), Effect("egress", 1, b"b")
    assert lockstep([first, second], [first, second]) is None
    assert lockstep([first, second], [first]) == (second, None)
    assert lockstep([first], [first, second]) == (None, second)
    assert lockstep([second, first], [first, first]) == (second, first)
