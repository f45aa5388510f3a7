"""Each field of the tables that snapshots take up, dropped in turn where it is written or read, must be missed.

`test_snapshot_fields` does it for the parts of a snapshot; here are the tables themselves: consumers, instances,
differences, feeds, ids of requests, identities, timers and messages of services.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from ordo.cluster.container.streams.feed_queue import FeedQueue
from ordo.cluster.container.streams.feeds import ContainerFeeds
from ordo.cluster.container.tables import consumer_table
from ordo.cluster.container.tables.consumer_table import ConsumerMember, ConsumerTable, DurableConsumer
from ordo.cluster.container.tables.consumer_work import SharedWork, WorkItem
from ordo.cluster.container.tables.difference_table import DifferenceTable
from ordo.cluster.container.tables.instance_table import InstanceTable
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.sessions import difference_codec, instance_codec
from ordo.cluster.wire.sessions.consumer_codec import ConsumerMode, ConsumerStatus
from ordo.cluster.wire.sessions.difference_codec import DifferenceKind, DifferenceReport
from ordo.cluster.wire.sessions.instance_codec import NOT_COUNTED, InstanceReport
from ordo.service_api import request_ids
from ordo.service_api.request_ids import RequestIds
from ordo.service_api.requests import IdentityState, RequestTable
from tests.mutants.functions import dropped, field_mutants


def check_consumers() -> None:
    """An exclusive consumer and a shared one are what they were."""
    work = SharedWork(64, ack_timeout=5, in_flight_max=6, tries_max=7, by_key=True)
    work.counts_refusals, work._silent = True, {21}
    work.frontier, work.dead_count, work._turn, work.dead = 960, 3, 2, [(32, 7), (48, 8)]
    work._items = {96: WorkItem(96, 11, 21, 2, 900, False, 1, 2), 128: WorkItem(128, 12, -1, 1, 0, True)}
    members = {
        key: ConsumerMember(key, key + 1, key + 2, ConsumerStatus(1), f"text {key}", key + 3) for key in (31, 30)
    }
    shared = DurableConsumer("b", ConsumerMode.SHARED, 1, 2, 3, 4, True, members, work)
    alone = DurableConsumer("a", ConsumerMode.EXCLUSIVE, 11, 12, 13, 14, False, {}, None)
    table, restored = ConsumerTable(), ConsumerTable()
    table._consumers, table.counts_refusals = {"a": alone, "b": shared}, True
    restored.restore(list(table.snapshot()))
    found = restored._consumers
    assert restored.counts_refusals
    assert list(found) == ["a", "b"] and found["a"] == alone
    other = found["b"].work
    assert other is not None and vars(other) == vars(work)
    assert list(found["b"].members.items()) == list(members.items())
    found["b"].work = work
    assert found["b"] == shared


def check_instances() -> None:
    """What two instances reported is what it was."""
    table, restored = InstanceTable(), InstanceTable()
    for number in (1, 2):
        refused = 88 if number == 2 else NOT_COUNTED
        table.take(InstanceReport(f"group {number}", "x", number, 22, 33, 44, 55, 66, 3, 77, refused))
    restored.restore(list(table.snapshot()))
    assert restored._reports == table._reports and len(restored._reports) == 2


def check_differences() -> None:
    """What two canaries told is what it was, in its order."""
    table, restored = DifferenceTable(), DifferenceTable()
    for number in (1, 2):
        names = f"group {3 - number}", "x"
        kind, texts = DifferenceKind.TARGET, (b"written", b"canary!!")
        table.take(DifferenceReport(*names, number, 22, 320 + number, 44, 55, 66, 77, kind, 7, 8, *texts))
    restored.restore(list(table.snapshot()))
    assert restored._groups == table._groups and list(restored._groups) == ["group 2", "group 1"]


class Feeds(ContainerFeeds):
    """Feeds without a transport."""

    def __init__(self) -> None:
        self._topics, self._waiting = {}, FeedQueue()
        self.opened: list[str] = []

    def _open(self, topic: Any) -> None:
        self.opened.append(topic.name)


def check_feeds() -> None:
    """Two topics stand where they stood, and their streams go on."""
    states = [
        ordo_codecs.FEED_STATE.encode(sequence=one, position=one + 1, log_position=one + 2, topic=f"topic {one}")
        for one in (5, 9)
    ]
    feeds = Feeds()
    feeds.restore([ordo_codecs.FEED_STATE.decode(one) for one in states])
    rows = [(one.name, one.sequence, one.position, one.log_position) for one in feeds._topics.values()]
    assert rows == [("topic 5", 5, 6, 7), ("topic 9", 9, 10, 11)]
    assert feeds.opened == ["topic 5", "topic 9"] == list(feeds._topics)
    assert list(feeds.snapshot()) == states


def check_ids() -> None:
    """Ids, with and without their answers, are what they were."""
    table, restored = RequestIds(), RequestIds()
    for number, name in enumerate((b"a", b"a", b"b"), 1):
        digest = bytes([number]) * 16
        table.keep(name, digest, bytes([number + 8]) * 16, 100 + number, 320 + number, number, b"answer %d" % number)
    first = next(iter(table._scopes[b"a"].ids))
    table._forget_answer(table._scopes[b"a"], first)
    table._scopes[b"a"].ids[first] = table._scopes[b"a"].ids[first]._replace(payload=None)
    restored.restore(table.snapshot(), True, True)
    assert restored.is_in_force and restored.takes_outputs and len(restored) == len(table) == 3
    assert restored.kept_bytes == table.kept_bytes > 0
    assert list(restored._scopes) == [b"a", b"b"]
    for name, scope in table._scopes.items():
        found = restored._scopes[name]
        assert (list(found.ids.items()), found.kept_bytes) == (list(scope.ids.items()), scope.kept_bytes)
        assert list(found.answered.items()) == list(scope.answered.items())


class Part(NamedTuple):
    """One table: the functions that write and read it, and what must hold."""

    name: str
    functions: tuple[tuple[type | ModuleType, str], ...]
    check: Callable[[], None]


PARTS = (
    Part(
        "consumers",
        (
            (consumer_table, "_state"),
            (consumer_table, "_restored"),
            (SharedWork, "state"),
            (ConsumerTable, "snapshot"),
            (ConsumerTable, "restore"),
        ),
        check_consumers,
    ),
    Part("instances", ((InstanceTable, "snapshot"), (InstanceTable, "restore")), check_instances),
    Part("reports", ((instance_codec, "encode_report"), (instance_codec, "decode_report")), check_instances),
    Part("differences", ((DifferenceTable, "snapshot"), (DifferenceTable, "restore")), check_differences),
    Part("told", ((difference_codec, "encode_difference"), (difference_codec, "decode_difference")), check_differences),
    Part("feeds", ((ContainerFeeds, "snapshot"), (ContainerFeeds, "restore")), check_feeds),
    Part(
        "ids",
        ((request_ids, "_pack"), (request_ids, "unpack_rows"), (RequestIds, "snapshot"), (RequestIds, "restore")),
        check_ids,
    ),
)
HARMLESS = {
    "leadership_term_id": "the log's; a snapshot has 0",
    "of SnapshotError": "only in the text of an error",
}
"""What may be dropped, and why: by a part of a mutant's name. The list may only shrink."""


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_what_is_dropped_of_a_table_is_missed(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    part.check()
    survivors, count = [], 0
    for owner, name in part.functions:
        original = vars(owner)[name]
        for place, mutant in field_mutants(original):
            count += 1
            with monkeypatch.context() as patch:
                patch.setattr(original, "__code__", mutant.__code__)
                patch.setitem(original.__globals__, "_dropped", dropped)
                try:
                    part.check()
                except Exception:
                    continue
            survivors.append(f"{name}: {place}")
    assert count > 2
    found = [one for one in survivors if not any(text in one for text in HARMLESS)]
    assert not found, "\n".join(found)


def state_of(number: int) -> IdentityState:
    answers = [(one, 320 + one, one, b"answer %d" % one) for one in (4, 5)]
    return IdentityState(bytes([number]) * 16, b"desk %d" % number, 2, 320 * number, 5, 3, 1000 + number, answers)


def test_identities_are_restored_field_by_field() -> None:
    """Native: each field is told apart by the snapshot of the restored table."""
    states = [state_of(1), state_of(2)]
    table = RequestTable()
    table.restore(states)
    assert table.snapshot() == states
    for name in IdentityState._fields:
        changed = state_of(2)._replace(**{name: dropped(getattr(states[1], name))})
        other = RequestTable()
        try:
            other.restore([states[0], changed])
        except Exception:
            continue
        assert other.snapshot() != states, name
    for index in range(4):
        answer: Any = list(states[1].answers[0])
        answer[index] = dropped(answer[index])
        other = RequestTable()
        try:
            other.restore([states[0], states[1]._replace(answers=[tuple(answer), states[1].answers[1]])])
        except Exception:
            continue
        assert other.snapshot() != states, index
