"""The service `ordo:Topics`: each record once, in order; offsets of groups; snapshots; orders that lie."""

from __future__ import annotations

import json
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo import Cluster, SnapshotReader, SnapshotWriter, Topics
from ordo.gateway.kafka.service.orders import (
    MAGIC,
    METADATA_LENGTH_MAX,
    SEQUENCES,
    Append,
    KafkaError,
    OrderAnswer,
    OrderKind,
    decode_answer,
    decode_append,
    encode_order,
)
from ordo.gateway.kafka.service.producers import Producers, Run, Verdict
from ordo.runtime.errors import DecodeError
from ordo.service_api.feeds import TOPICS_MAX
from ordo.service_api.testing.harness import Input, Message, OpenSession, ServiceHarness, check_service
from tests.gateway.kafka.appends import encode_append, encode_appends

CREATE = encode_order(OrderKind.CREATE, topic="orders")
NEW = encode_order(OrderKind.NEW_PRODUCER)


def answers(harness: ServiceHarness, *orders: bytes) -> list[OrderAnswer]:
    """Have orders executed, and return the answers to them."""
    before = len(harness.egress(1))
    harness.execute(*(Message(1, 5, one) for one in orders))
    return [decode_answer(one) for one in harness.egress(1)[before:]]


def append(*payloads: bytes, producer: tuple[int, int, int] = (-1, 0, 0), topic: str = "orders") -> bytes:
    producer_id, epoch, sequence = producer
    return encode_append(Append(topic, producer_id, epoch, sequence, payloads))


@pytest.fixture
def harness() -> ServiceHarness:
    """A service with the topic `orders` and the producer 1."""
    harness = ServiceHarness(Topics).execute(OpenSession(1, 1))
    assert answers(harness, CREATE, NEW) == [(0, -1), (0, 1)]
    return harness


def test_records_are_published_in_order(harness: ServiceHarness) -> None:
    assert answers(harness, append(b"a", b"b"), append(b"c")) == [(0, 1), (0, 3)]
    assert harness.feed("orders") == [b"a", b"b", b"c"]
    assert json.loads(harness.query(encode_order(OrderKind.TOPICS))) == {"orders": 3}


def test_a_batch_that_is_sent_again_is_told_its_first_number(harness: ServiceHarness) -> None:
    first, second = append(b"a", b"b", producer=(1, 0, 0)), append(b"c", producer=(1, 0, 2))
    assert answers(harness, first, first, second, append(b"x"), second, first) == [
        (0, 1), (0, 1), (0, 3), (0, 4), (0, 3), (0, 1),
    ]  # fmt: skip
    assert harness.feed("orders") == [b"a", b"b", b"c", b"x"]


def test_of_a_batch_that_was_cut_elsewhere_only_the_rest_is_appended(harness: ServiceHarness) -> None:
    assert answers(harness, append(b"a", b"b", producer=(1, 0, 0))) == [(0, 1)]
    assert answers(harness, append(b"b", b"c", b"d", producer=(1, 0, 1))) == [(0, 2)]
    assert answers(harness, append(b"e", producer=(1, 0, 4))) == [(0, 5)]
    assert harness.feed("orders") == [b"a", b"b", b"c", b"d", b"e"]


def test_a_batch_whose_predecessor_is_missing_is_not_appended(harness: ServiceHarness) -> None:
    wrong = append(b"b", producer=(1, 0, 1))
    assert answers(harness, wrong) == [(KafkaError.UNKNOWN_PRODUCER_ID, -1)]
    answers(harness, append(b"a", producer=(1, 0, 0)))
    assert answers(harness, append(b"c", producer=(1, 0, 2))) == [(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    assert harness.feed("orders") == [b"a"]


def test_an_epoch_begins_anew_and_ends_the_one_before(harness: ServiceHarness) -> None:
    assert answers(harness, append(b"a", producer=(1, 0, 0)), append(b"b", producer=(1, 1, 0))) == [(0, 1), (0, 2)]
    assert answers(harness, append(b"c", producer=(1, 0, 1))) == [(KafkaError.INVALID_PRODUCER_EPOCH, -1)]
    assert answers(harness, append(b"c", producer=(1, 2, 1))) == [(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]


def test_a_producer_that_was_given_no_id_here_is_unknown(harness: ServiceHarness) -> None:
    assert answers(harness, append(b"a", producer=(2, 0, 0))) == [(KafkaError.UNKNOWN_PRODUCER_ID, -1)]


def test_topics_are_bounded_and_named_as_others(harness: ServiceHarness) -> None:
    orders = [encode_order(OrderKind.CREATE, topic=f"t{index}") for index in range(TOPICS_MAX)]
    assert [one.error for one in answers(harness, *orders)] == [0] * (TOPICS_MAX - 1) + [KafkaError.POLICY_VIOLATION]
    for name, error in (("a b", KafkaError.INVALID_TOPIC), (7, KafkaError.INVALID_TOPIC), ("orders", 36)):
        assert answers(harness, encode_order(OrderKind.CREATE, topic=name)) == [(error, -1)]
    assert answers(harness, append(b"a", topic="unknown")) == [(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert answers(harness, append(bytes(32_001))) == [(KafkaError.MESSAGE_TOO_LARGE, -1)]


def test_what_groups_have_read_is_kept(harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordo.gateway.kafka.service.topics.GROUPS_MAX", 4)

    def commit(*offsets: object, group: str = "g") -> int:
        return answers(harness, encode_order(OrderKind.COMMIT, group=group, offsets=offsets))[0].error

    assert commit(["orders", 7, "note"]) == commit(["orders", 3, ""], group="h") == 0
    assert commit(["unknown", 7, ""]) == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(["orders", 8, "x" * (METADATA_LENGTH_MAX + 1)]) == KafkaError.OFFSET_METADATA_TOO_LARGE
    assert commit(["orders", 8, ""], group="") == KafkaError.INVALID_GROUP_ID
    assert json.loads(harness.query(encode_order(OrderKind.OFFSETS, group="g"))) == {"orders": [7, "note"]}
    assert json.loads(harness.query(encode_order(OrderKind.GROUPS))) == ["g", "h"]
    forget = encode_order(OrderKind.DELETE_GROUP, group="g")
    assert answers(harness, forget, forget) == [(0, -1), (KafkaError.GROUP_ID_NOT_FOUND, -1)]
    for index in range(3):
        assert commit(["orders", 1, ""], group=f"g{index}") == 0
    assert commit(["orders", 1, ""], group="one more") == KafkaError.POLICY_VIOLATION
    assert commit(["orders", 4, ""], group="h") == 0


@pytest.mark.parametrize(
    "order",
    [
        MAGIC,
        MAGIC + b"\x09",
        append(b"a")[:-1],
        append(b"a") + b"x",
        append(b"a").replace(b"orders", b"order\xff"),
        append(producer=(1, 0, 0)),
        append(b"a", producer=(1, -1, 0)),
        append(b"a", producer=(1, 0, -1)),
        MAGIC + bytes((OrderKind.COMMIT,)) + b"[]",
        MAGIC + bytes((OrderKind.COMMIT,)) + b"{",
        MAGIC + bytes((OrderKind.COMMIT,)) + b"[" * 100_000,
        encode_order(OrderKind.COMMIT, group="g", offsets=[["orders"]]),
        encode_order(OrderKind.COMMIT, group="g", offsets=[["orders", -2, ""]]),
        encode_order(OrderKind.COMMIT, group="g", offsets=7),
        encode_order(OrderKind.TOPICS),
    ],
)
def test_an_order_that_is_none_is_refused_and_changes_nothing(harness: ServiceHarness, order: bytes) -> None:
    before = harness.take_snapshot().messages
    harness.execute(Message(1, 6, order))
    assert harness.effects[-1].kind == "reject"
    assert harness.take_snapshot().messages == before


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.integers(1, 100), st.integers(0, SEQUENCES - 1))
def test_an_append_in_parts_has_the_same_records(payloads: list[bytes], bytes_max: int, sequence: int) -> None:
    append = Append("orders", 7, 1, sequence, payloads)
    parts = [decode_append(one[len(MAGIC) + 1 :]) for one in encode_appends(append, bytes_max)]
    assert [payload for one in parts for payload in one.payloads] == payloads
    begins = list(accumulate((len(one.payloads) for one in parts[:-1]), initial=0))
    assert [one.sequence for one in parts] == [(sequence + begin) % SEQUENCES for begin in begins]
    lengths = [sum(len(payload) + 4 for payload in one.payloads) for one in parts]
    assert all(length <= bytes_max or len(one.payloads) == 1 for length, one in zip(lengths, parts, strict=True))
    after = [len(one.payloads[0]) + 4 for one in parts[1:]]
    assert all(length + more > bytes_max for length, more in zip(lengths[:-1], after, strict=True)), "no part is short"


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=5), st.data())
def test_every_cut_of_an_append_is_refused(payloads: list[bytes], data: st.DataObject) -> None:
    body = encode_append(Append("orders", -1, 0, 0, payloads))[len(MAGIC) + 1 :]
    with pytest.raises(DecodeError, match="an append is damaged"):
        decode_append(body[: data.draw(st.integers(0, len(body) - 1))])


def test_a_cut_is_refused_with_the_text_that_members_of_all_releases_have() -> None:
    """What is rejected is answered from the log's state, which must not depend on who executed it."""
    body = encode_append(Append("orders", -1, 0, 0, [b"abc"]))[len(MAGIC) + 1 :]
    at = len(body) - 7
    with pytest.raises(DecodeError, match=f"a buffer of at least {at + 4} bytes for unpacking 4 bytes at offset {at} "):
        decode_append(body[: at + 2])
    with pytest.raises(DecodeError, match=f"damaged: count=1 sequence=0 epoch=0 length={at + 5}$"):
        decode_append(body[: at + 5])


def test_other_messages_are_in_the_log_and_nothing_happens(harness: ServiceHarness) -> None:
    before = list(harness.effects)
    harness.execute(Message(1, 6, b"hello"))
    assert harness.effects == before


class Engine(Topics):
    """A service of one's own: it executes orders, and publishes trades."""

    def take_record(self, topic: str, payload: bytes) -> int:
        self.publish("trades", b"traded " + payload)
        return 0


def test_a_service_of_one_s_own_takes_the_records() -> None:
    harness = ServiceHarness(Engine).execute(OpenSession(1, 1))
    assert answers(harness, CREATE, append(b"a")) == [(0, -1), (0, -1)]
    assert harness.feed("trades") == [b"traded a"] and harness.feed("orders") == []
    assert json.loads(harness.query(encode_order(OrderKind.TOPICS))) == {"orders": 0, "trades": 1}


class Marking(Topics):
    """A service of one's own that has its say in what is published alone."""

    def publish(self, topic: str, payload: bytes) -> int:
        return super().publish(topic, b"marked " + payload)


@pytest.mark.parametrize(("service", "mark"), [(Topics, b""), (Marking, b"marked ")])
def test_records_of_a_batch_are_published_as_the_service_says(service: type[Topics], mark: bytes) -> None:
    harness = ServiceHarness(service).execute(OpenSession(1, 1))
    batch = encode_append(Append("orders", -1, 0, 0, [b"a", b"b", b"c"]))
    assert answers(harness, CREATE, batch, batch) == [(0, -1), (0, 1), (0, 4)]
    assert harness.feed("orders") == [mark + one for one in (b"a", b"b", b"c")] * 2
    assert json.loads(harness.query(encode_order(OrderKind.TOPICS))) == {"orders": 6}


class Counting(Topics):
    """A service of one's own with state: it numbers what it takes."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        super().on_start(cluster, snapshot)
        self.taken = 0 if snapshot is None else int.from_bytes(snapshot.read_exactly(3), "big")

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        super().on_take_snapshot(writer)
        writer.write_message(self.taken.to_bytes(3, "big"))

    def take_record(self, topic: str, payload: bytes) -> int:
        self.taken += 1
        return self.publish(topic, b"%d: %s" % (self.taken, payload))


def test_a_service_of_one_s_own_keeps_its_state_behind_that_of_topics() -> None:
    inputs: list[Input] = [
        OpenSession(1, 1),
        *(Message(1, 5, one) for one in (CREATE, append(b"a"), append(b"b"), append(b"c"))),
    ]
    harness = check_service(Counting, inputs)
    assert harness.feed("orders") == [b"1: a", b"2: b", b"3: c"]
    restored = ServiceHarness(Counting, snapshot=harness.take_snapshot())
    assert answers(restored, append(b"d")) == [(0, 4)] and restored.feed("orders")[-1] == b"4: d"


class Client:
    """A producer as clients are: batches in order, sent again until they are answered, also after they were."""

    def __init__(self, random: Random, producer_id: int) -> None:
        self._random = random
        self._producer_id = producer_id
        self._sequence = 0
        self.sent: list[bytes] = []
        self._before: list[bytes] = []

    def send(self) -> list[bytes]:
        """Return what arrives: old batches again, then the next one, whole or cut, once or more often."""
        count = self._random.randint(1, 4)
        payloads = [b"%d:%d" % (self._producer_id, self._sequence + index) for index in range(count)]
        cut = self._random.randint(1, count)
        parts = [append(*payloads[:cut], producer=(self._producer_id, 0, self._sequence))]
        if cut < count:
            parts.append(append(*payloads[cut:], producer=(self._producer_id, 0, self._sequence + cut)))
        whole = append(*payloads, producer=(self._producer_id, 0, self._sequence))
        arrived = self._random.sample(self._before, min(len(self._before), 1))
        arrived += self._random.choice((parts, [*parts, *parts], [*parts, whole], [parts[0], whole], [whole, whole]))
        self._before = [*self._before, whole][-5:]
        self._sequence += count
        self.sent += payloads
        return arrived


def storm(seed: int) -> tuple[list[Input], list[Client]]:
    """Return what arrives from three producers, with snapshots between."""
    random = Random(seed)
    clients = [Client(random, one) for one in (1, 2, 3)]
    orders = [CREATE, NEW, NEW, NEW]
    for _ in range(60):
        orders += random.choice(clients).send()
        group = f"g{random.randint(1, 3)}"
        orders.append(encode_order(OrderKind.COMMIT, group=group, offsets=[["orders", random.randint(1, 99), ""]]))
    return [OpenSession(1, 1), *(Message(1, 2 + index, one) for index, one in enumerate(orders))], clients


def doubled(harness: ServiceHarness, clients: list[Client]) -> bool:
    """Return whether the topic is something else than what was sent, each record once and in its producer's order."""
    feed = harness.feed("orders")
    return any([one for one in feed if one in set(client.sent)] != client.sent for client in clients)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_sent_again_each_record_is_there_once_also_over_snapshots(seed: int) -> None:
    inputs, clients = storm(seed)
    assert not doubled(check_service(Topics, inputs), clients)


def test_a_service_that_believes_every_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producers, "judge", lambda *_: Verdict(0, -1, 0))
    inputs, clients = storm(0)
    assert doubled(ServiceHarness(Topics).execute(*inputs), clients)


def test_a_service_that_forgets_a_batch_s_rest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Producers.judge

    def careless(self: Producers, producer_id: int, epoch: int, topic: str, sequence: int, count: int) -> Verdict:
        verdict = judge(self, producer_id, epoch, topic, sequence, count)
        return verdict._replace(skipped=0) if 0 < verdict.skipped < count else verdict

    monkeypatch.setattr(Producers, "judge", careless)
    inputs, clients = storm(0)
    assert doubled(ServiceHarness(Topics).execute(*inputs), clients)


def test_sequences_begin_anew_after_their_last() -> None:
    producers = Producers()
    producers.restore(1, "orders", 0, [Run(SEQUENCES - 2, 1, 10)])
    assert producers.judge(1, 0, "orders", SEQUENCES - 1, 3) == (0, -1, 0)
    producers.append(1, 0, "orders", SEQUENCES - 1, 3, 11)
    assert producers.judge(1, 0, "orders", 2, 1) == (0, -1, 0)
    assert producers.judge(1, 0, "orders", SEQUENCES - 1, 3) == (0, 11, 3)
    assert producers.judge(1, 0, "orders", 1, 2) == (0, 13, 1)
    assert producers.judge(1, 0, "orders", 5, 1).error == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_of_records_with_the_same_sequence_the_latest_count() -> None:
    producers, quarter = Producers(), SEQUENCES // 4
    runs = [Run(index * quarter % SEQUENCES, quarter, 1 + index * (quarter + 1)) for index in range(8)]
    producers.restore(1, "orders", 0, runs)
    assert producers.judge(1, 0, "orders", SEQUENCES - 1, 1) == (0, runs[-1].number + quarter - 1, 1)


def test_a_batch_of_long_ago_is_a_duplicate_without_a_number() -> None:
    producers = Producers()
    for index in range(20):
        producers.append(1, 0, "orders", index, 1, 1 + 2 * index)
    assert producers.judge(1, 0, "orders", 0, 1) == (KafkaError.DUPLICATE_SEQUENCE_NUMBER, -1, 1)
    assert producers.judge(1, 0, "orders", 19, 1) == (0, 39, 1)


def test_producers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordo.gateway.kafka.service.producers.PRODUCERS_MAX", 2)
    producers = Producers()
    for producer_id in (1, 2, 1, 3):
        sequence = 1 if producer_id == 1 and len(producers) == 2 else 0
        producers.append(producer_id, 0, "orders", sequence, 1, producer_id)
    assert [one[0] for one in producers.state()] == [1, 3]
    assert producers.judge(2, 0, "orders", 1, 1).error == KafkaError.UNKNOWN_PRODUCER_ID
