"""What a client knows of its messages: marks and their answers, against the container's count (docs/CLIENT.md)."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from ordo.cluster.client.acknowledgements import Acknowledged, Acknowledgements, HandedOver, Unsequenced
from ordo.cluster.container.tables.message_numbers import MessageNumbers
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.ordo_codecs import AcknowledgementLevel
from ordo.runtime.errors import NotSequencedError
from ordo.runtime.native.time_units import SECOND_NS


class Session:
    """A session of the cluster's, which has executed what came before its mark."""

    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.next_number = -1


class Cluster:
    """Session, publication and loop of a client in one, with the log behind them: `arrive` says how much came in."""

    def __init__(self) -> None:
        self.numbers = MessageNumbers()
        self.takes_messages = True
        self.leadership_term_id = 1
        self.kept: deque[bytes] = deque()
        self.marks: list[Any] = []
        self.close_requests: list[int] = []
        self.position = 0
        self.has_room = True
        self.given_back: list[Unsequenced] = []
        self.told: list[Acknowledged] = []
        self.open(1)
        self.client = Acknowledgements(
            self,  # type: ignore[arg-type]
            self,
            interval_ns=10_000_000,
            patience_ns=5 * SECOND_NS,
            kept_bytes_max=1 << 20,
            on_acknowledged=self.told.append,
            on_unsequenced=self.given_back.append,
        )
        assert self.client.begin(self, 0)  # type: ignore[arg-type]

    def open(self, session_id: int) -> None:
        self.session = Session(session_id)
        self.session_id = session_id

    @property
    def leader_ingress(self) -> Cluster:
        return self

    def note_sent(self) -> None:
        """No transport to run."""

    def keep_messages(self, kept: deque[bytes] | None, bytes_max: int) -> None:
        assert kept is not None
        self.kept = kept

    def take_kept(self) -> bytes:
        return self.kept.popleft()

    def offer(self, message: bytes) -> int:
        found = ordo_codecs.decode_any(message)
        assert found is not None
        if found[0] is codecs.SESSION_CLOSE_REQUEST:
            self.close_requests.append(found[1].cluster_session_id)
        elif self.has_room:
            self.marks.append(found[1])
        return 1 if self.has_room else -2

    def send(self, count: int) -> None:
        for _ in range(count):
            self.kept.append(b"%d" % self.client.next_number)

    def arrive(self, count: int = 0, *, answers: bool = True, now_ns: int = 0) -> None:
        """So many messages, then the oldest mark, are executed."""
        if self.session.next_number >= 0:
            self.session.next_number += count
        mark = self.marks.pop(0)
        self.position += 100
        row = self.numbers.mark(self.session, mark)
        if answers:
            self.answer(row, now_ns)

    def answer(self, row: dict[str, Any], now_ns: int = 0) -> None:
        message = ordo_codecs.MESSAGES_MARKED.encode(
            leadership_term_id=1, cluster_session_id=self.session.id, timestamp=0, log_position=self.position, **row
        )
        found = ordo_codecs.decode(message)
        assert found is not None
        self.client.on_marked(found[1], now_ns)

    def answer_sequenced(self, number: int) -> None:
        self.answer(
            {
                "number": number,
                "known_number": 0,
                "level": AcknowledgementLevel.SEQUENCED,
                "previous": 0,
                "gaps": b"",
            }
        )


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.arrive()
    return cluster


def test_marks_follow_messages_and_stop_when_all_is_known(cluster: Cluster) -> None:
    cluster.client.work(SECOND_NS)
    assert not cluster.marks
    cluster.send(3)
    cluster.client.work(SECOND_NS)
    cluster.client.work(SECOND_NS)
    assert [mark.number for mark in cluster.marks] == [4]
    cluster.arrive(3, now_ns=SECOND_NS)
    assert cluster.client.executed == Acknowledged("executed", 3, 200) and cluster.client.is_complete
    assert cluster.told == [Acknowledged("sequenced", 3, 200), cluster.client.executed]
    cluster.client.work(2 * SECOND_NS)
    assert not cluster.marks and not cluster.given_back


def test_a_mark_without_an_answer_is_sent_again_less_and_less_often(cluster: Cluster) -> None:
    cluster.send(1)
    sent = []
    for at_ms in range(0, 4000, 50):
        cluster.client.work(SECOND_NS + at_ms * 1_000_000)
        if cluster.marks:
            sent.append(at_ms)
            cluster.marks.clear()
    assert sent == [0, 250, 750, 1750, 3750]


def test_what_was_lost_with_a_leader_is_given_back(cluster: Cluster) -> None:
    cluster.send(5)
    cluster.has_room = False
    assert not cluster.client.begin(cluster, 0)  # type: ignore[arg-type]
    cluster.has_room = True
    assert cluster.client.begin(cluster, 0)  # type: ignore[arg-type]
    cluster.send(2)
    cluster.answer_sequenced(8)  # of the new term: says nothing of the five before it
    assert not cluster.told and not cluster.client.is_complete
    cluster.arrive(3)
    assert cluster.given_back == [Unsequenced(4, b"4", True), Unsequenced(5, b"5", True)]
    cluster.answer_sequenced(8)
    assert cluster.client.sequenced.number == 7 and cluster.client.executed.number == 5
    assert cluster.client.is_complete and len(cluster.given_back) == 2


def test_an_answer_that_is_lost_with_the_next_leader_is_in_the_one_after_it(cluster: Cluster) -> None:
    cluster.send(2)
    cluster.client.begin(cluster, 0)  # type: ignore[arg-type]
    cluster.send(2)
    cluster.arrive(1, answers=False)
    cluster.client.begin(cluster, 0)  # type: ignore[arg-type]
    cluster.arrive(1)
    assert [message.number for message in cluster.given_back] == [2, 4]


def test_a_new_session_asks_what_became_of_the_last_one(cluster: Cluster) -> None:
    cluster.send(4)
    lost = cluster.session
    cluster.open(2)
    cluster.client.begin(cluster, 0)  # type: ignore[arg-type]
    cluster.send(1)
    assert cluster.close_requests == [1]
    lost.next_number += 3
    cluster.arrive()
    assert not cluster.given_back and not cluster.client.is_complete  # the last one is not closed yet
    cluster.numbers.close(lost)
    cluster.client.work(SECOND_NS // 2)
    cluster.arrive(1)
    assert cluster.given_back == [Unsequenced(4, b"4", True)] and cluster.client.is_complete


def test_of_a_session_that_the_cluster_has_forgotten_nobody_can_tell(cluster: Cluster) -> None:
    cluster.send(2)
    cluster.numbers = MessageNumbers()
    cluster.open(2)
    cluster.client.begin(cluster, 0)  # type: ignore[arg-type]
    cluster.send(1)
    cluster.arrive()
    assert [message.is_certain for message in cluster.given_back] == [False, False]
    cluster.client.give_up()
    assert cluster.given_back[2:] == [Unsequenced(3, b"3", False)]


def test_a_message_that_is_waited_for_ends_in_one_of_three_ways(cluster: Cluster) -> None:
    cluster.send(3)
    for number in (1, 2, 3):
        cluster.client.watch(number)
    cluster.answer_sequenced(2)
    assert cluster.client.has_reached(1, "sequenced") and not cluster.client.has_reached(1, "executed")
    assert not cluster.client.has_reached(2, "sequenced")
    cluster.client.begin(cluster, 0)  # type: ignore[arg-type]
    cluster.arrive(1)
    assert cluster.client.has_reached(1, "executed")
    with pytest.raises(NotSequencedError, match="never will be") as lost:
        cluster.client.has_reached(2, "sequenced")
    assert lost.value.is_certain and not cluster.given_back
    assert HandedOver(64, 2) == 64 and HandedOver(64, 2).number == 2
