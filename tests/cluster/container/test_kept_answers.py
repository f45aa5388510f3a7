"""What is kept of answers is bounded, and in a log of level 3 that says nothing of what is executed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import cast

import pytest

from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire.levels import OUTPUT_ID_LEVEL, REQUEST_ID_LEVEL, SERVICE_VERSION_LEVEL
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.follow.entries import LogEntry, decode_entry
from ordo.follow.executions import REQUESTS, Executions
from ordo.service_api.request_ids import FORGOTTEN_TEXT, REJECTED_TEXT, RequestIdLimits, RequestIds
from ordo.service_api.requests import Identity, RequestLimits, RequestTable
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_request_ids import RequestsById
from tests.cluster.container.test_requests import NAME, OTHER, Adder, Answered, run, sent

OVERHEAD = 160


class Node(ServiceNode):
    """Keeps what it has written."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.records: list[tuple[int, bytes]] = []

    def append(self, record: bytes) -> int:
        self.records.append((super().append(record), record))
        return self.records[-1][0]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.set_recovery()
    node.begin_term(0, leads=True)
    node.open_session(1)
    yield node
    node.close()


class Service:
    """One of several services over the same log."""

    def __init__(self, node: Node, limits: RequestLimits, *, answers: bool) -> None:
        self.node, self.adder = node, Adder()
        self.container: ServiceContainer = node.container(self.adder)
        self.container.answers = answers
        self.container.set_requests(RequestTable(limits))

    @property
    def total(self) -> int:
        run(self.node, self.container)
        return self.adder.total


def write_too_much(node: Node, level: int) -> None:
    """A client is answered with more than may be kept, and sends once more."""
    requests = RequestsById(node)
    requests.raise_level(level)
    requests.open()
    requests.send(1, b"long2000")
    requests.send(2, b"long2000")
    requests.send(3, b"7")


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("level", [SERVICE_VERSION_LEVEL, REQUEST_ID_LEVEL])
def test_services_that_do_not_answer_execute_what_the_one_that_answers_does(
    node: Node, level: int, *, answers: bool
) -> None:
    """Below level 3 they do not: the one that answers has the third request wait, and no record says so."""
    write_too_much(node, level)
    service = Service(node, RequestLimits(kept_bytes_max=4000), answers=answers)
    waits = answers and level < REQUEST_ID_LEVEL
    assert service.total == (0 if waits else 7)
    assert len(service.adder.identities) == (2 if waits else 3)
    service.container.on_close()


def test_readers_of_the_log_say_what_the_members_executed(node: Node) -> None:
    write_too_much(node, REQUEST_ID_LEVEL)
    service = Service(node, RequestLimits(kept_bytes_max=4000, identity_bytes_max=2000), answers=True)
    assert service.total == 7
    found: list[LogEntry | None] = [decode_entry(*one) for one in node.records]
    table = Executions()
    marked = [table.mark(one) for one in found if one is not None]
    assert [one.is_repeat for one in marked if one.kind in REQUESTS] == [False, False, False]
    service.container.on_close()


def test_the_oldest_answer_goes_and_that_it_was_executed_stays(node: Node) -> None:
    requests = RequestsById(node)
    requests.raise_level(REQUEST_ID_LEVEL)
    requests.open()
    positions = [requests.send(number, payload) for number, payload in enumerate((b"long2000", b"long9", b"x"), 1)]
    for number, payload in enumerate((b"long2000", b"long9", b"x"), 1):
        requests.send(number, payload)
    service = Service(node, RequestLimits(kept_bytes_max=2000 + 2 * OVERHEAD), answers=True)
    assert service.total == 0
    answers = sent(node)[1:]
    assert [one.status for one in answers[:3]] == [AnswerStatus.OK, AnswerStatus.OK, AnswerStatus.REJECTED]
    assert answers[3:] == [
        Answered(1, AnswerStatus.FORGOTTEN, FORGOTTEN_TEXT, positions[0]),
        Answered(2, AnswerStatus.OK, bytes(9), positions[1]),
        Answered(3, AnswerStatus.REJECTED, b"no number", positions[2]),
    ]
    service.container.on_close()


def open_two(limits: RequestLimits) -> tuple[RequestTable, Identity, Identity]:
    table = RequestTable(limits)
    table.ids.is_in_force = True
    _, first = table.open(NAME, b"", 1, 0, 100, 0)
    _, second = table.open(OTHER, b"", 1, 0, 200, 0)
    assert first is not None and second is not None
    return table, first, second


def execute(table: RequestTable, identity: Identity, payload: bytes, status: int = 0, confirmed: int = 0) -> bool:
    found = table.judge(identity.open_position, b"", identity.number + 1, confirmed, 0)
    if found is not None:
        table.note(found, 1001 + found.number, status, payload)
    return found is not None


def test_who_has_most_loses_the_older_half_and_refusals_stay_refusals() -> None:
    table, small, large = open_two(RequestLimits(kept_bytes_max=10_000))
    assert execute(table, small, bytes(500))
    for status in (AnswerStatus.REJECTED, AnswerStatus.OK, AnswerStatus.OK, AnswerStatus.OK):
        assert execute(table, large, bytes(2000), status)
    assert execute(table, small, bytes(600))
    assert execute(table, small, bytes(1000))
    assert table.kept_bytes == 500 + 600 + 1000 + 2 * 2000 + 7 * OVERHEAD, "two of the four answers are gone"
    assert [small.get_answer(number) for number in (1, 2, 3)] == [
        (1001, AnswerStatus.OK, bytes(500)), (1002, AnswerStatus.OK, bytes(600)), (1003, AnswerStatus.OK, bytes(1000))
    ]  # fmt: skip
    assert large.get_answer(1) == (1001, AnswerStatus.REJECTED, REJECTED_TEXT)
    assert large.get_answer(2) == (1002, AnswerStatus.FORGOTTEN, FORGOTTEN_TEXT)
    assert large.get_answer(3) == (1003, AnswerStatus.OK, bytes(2000))
    assert execute(table, large, b"", confirmed=4) and execute(table, small, b"", confirmed=3)
    assert (table.kept_bytes, small.kept_bytes, large.kept_bytes) == (2 * OVERHEAD, OVERHEAD, OVERHEAD)


def test_requests_wait_for_the_number_of_answers_alone_whatever_they_say() -> None:
    """So does everyone who keeps no payloads: the other services, readers of the log, applications."""
    limits = RequestLimits(kept_bytes_max=8 * OVERHEAD, answers_max=6)
    random = Random(7)
    (keeps, *of_keeps), (bare, *of_bare) = open_two(limits), open_two(limits)
    said = []
    for _ in range(400):
        index = random.randrange(2)
        confirmed = max(0, of_keeps[index].number - random.choice((4, 6, 9)))
        payload = bytes(random.choice((0, 10, 2000)))
        said.append(execute(keeps, of_keeps[index], payload, confirmed=confirmed))
        assert execute(bare, of_bare[index], b"", confirmed=confirmed) is said[-1]
        assert keeps.kept_bytes <= limits.kept_bytes_max
        assert bare.kept_bytes == OVERHEAD * sum(one.number - one.confirmed for one in of_bare)
    assert said.count(False) > 50 and said.count(True) > 50


def fill(table: RequestTable, identity: Identity) -> int:
    """Executes requests of one identity until one has to wait; how many."""
    count = 0
    while table.judge(identity.open_position, identity.principal, identity.number + 1, 0, 0) is not None:
        table.note(identity, 1000 + count, AnswerStatus.OK, b"")
        count += 1
    return count


def open_three(*, level: int) -> tuple[RequestTable, list[Identity]]:
    """Two identities of one principal, and one of another; room for sixteen answers."""
    table = RequestTable(RequestLimits(kept_bytes_max=16 * OVERHEAD, answers_max=10))
    table.ids.is_in_force, table.ids.takes_outputs = level >= REQUEST_ID_LEVEL, level >= OUTPUT_ID_LEVEL
    opened = [table.open(bytes([index]) * 16, principal, 1, 0, 100 * index, 0)[1]
              for index, principal in enumerate((b"greedy", b"greedy", b"modest"), 1)]  # fmt: skip
    assert None not in opened
    return table, cast(list[Identity], opened)


def test_one_principal_leaves_a_quarter_of_the_answers_to_the_others() -> None:
    table, (first, second, modest) = open_three(level=OUTPUT_ID_LEVEL)
    assert [fill(table, identity) for identity in (first, second, modest)] == [10, 2, 4]
    assert fill(table, second) == 0
    assert table.judge(first.open_position, b"greedy", first.number + 1, 5, 0) is first, "it confirmed five answers"
    table.note(first, 2000, AnswerStatus.OK, b"")
    assert fill(table, second) == 4, "twelve in all for its principal"


def test_below_level_5_a_principal_may_have_all_answers() -> None:
    table, (first, second, modest) = open_three(level=REQUEST_ID_LEVEL)
    assert [fill(table, identity) for identity in (first, second, modest)] == [10, 6, 0]


def test_a_member_that_starts_from_a_snapshot_knows_what_each_principal_has() -> None:
    table, identities = open_three(level=OUTPUT_ID_LEVEL)
    fill(table, identities[0])
    again = RequestTable(table.limits)
    again.restore(table.snapshot())
    again.ids.restore((), True, True)
    restored = {one.open_position: one for one in again}
    for identity in identities[1:]:
        assert fill(again, restored[identity.open_position]) == fill(table, identity)
    assert again.snapshot() == table.snapshot()


def test_what_an_expired_identity_had_is_no_longer_its_principals() -> None:
    table, (first, second, _) = open_three(level=OUTPUT_ID_LEVEL)
    fill(table, first)
    later = table.limits.idle_timeout + 1
    assert table.judge(first.open_position, b"greedy", first.number + 1, 0, later) is None
    assert len(table) == 2 and fill(table, second) == 10


def test_a_member_that_starts_from_a_snapshot_sheds_the_same() -> None:
    limits = RequestLimits(kept_bytes_max=20_000)
    table, *identities = open_two(limits)
    random = Random(3)
    for _ in range(40):
        execute(table, random.choice(identities), bytes(random.randrange(3000)))
    again = RequestTable(limits)
    again.restore(table.snapshot())
    again.ids.restore((), True)
    assert (again.snapshot(), again.kept_bytes) == (table.snapshot(), table.kept_bytes)
    restored = {one.open_position: one for one in again}
    for _ in range(40):
        identity, payload = random.choice(identities), bytes(random.randrange(3000))
        assert execute(table, identity, payload) is execute(again, restored[identity.open_position], payload)
        assert (again.snapshot(), again.kept_bytes) == (table.snapshot(), table.kept_bytes)


def test_a_refusal_by_an_id_stays_one_without_its_reason() -> None:
    ids = RequestIds(RequestIdLimits(answer_bytes_max=100))
    ids.keep(b"me", b"1", b"digest", 0, 500, AnswerStatus.REJECTED, b"no")
    ids.keep(b"me", b"2", b"digest", 0, 600, AnswerStatus.OK, bytes(30))
    assert ids.find(b"me", b"1", b"digest", 0) == (500, AnswerStatus.REJECTED, REJECTED_TEXT)
