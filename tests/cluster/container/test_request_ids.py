"""Ids that callers chose: each is executed once for its principal, whoever sends it, and answered alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import OUTPUT_ID_LEVEL, REQUEST_ID_LEVEL, SERVICE_VERSION_LEVEL
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.runtime.errors import ConfigurationError, ServiceError, SnapshotError
from ordo.service_api import request_ids
from ordo.service_api.request_ids import (
    FORGOTTEN,
    ID_CONFLICT,
    PrincipalIds,
    RequestIdLimits,
    RequestIds,
    check_request_id,
    digest_payload,
    digest_request_id,
)
from ordo.service_api.requests import RequestLimits, RequestTable
from ordo.service_api.service import Cluster, TimeUnit
from ordo.service_api.snapshot import SnapshotReader
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_requests import NAME, OTHER, Adder, Answered, Requests, run, sent
from tests.cluster.container.test_service_container import take_snapshot

MINE, YOURS = b"me", b"you"


class RequestsById(Requests):
    """Requests with ids."""

    def send_by_id(self, number: int, request_id: bytes, payload: bytes, confirmed: int = 0) -> int:
        head = ordo_codecs.REQUEST_BY_ID.encode(
            open_position=self.position,
            number=number,
            confirmed=confirmed,
            **self.stamp(1),
            **ordo_codecs.split_request_digest(digest_request_id(request_id)),
        )
        return self.node.append(head + payload)

    def raise_level(self, level: int) -> None:
        self.node.append(
            ordo_codecs.LEVEL_EVENT.encode(
                leadership_term_id=self.node.leadership_term_id, timestamp=self.node.time, level=level, member_id=0
            )
        )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    node.set_recovery()
    node.begin_term(0, leads=True)
    node.open_session(1)
    yield node
    node.close()


@pytest.fixture
def requests(node: ServiceNode) -> RequestsById:
    return RequestsById(node)


def test_a_client_hears_whether_ids_are_taken(node: ServiceNode, requests: RequestsById) -> None:
    container = node.container(Adder())
    requests.open()
    requests.raise_level(SERVICE_VERSION_LEVEL)
    requests.open()
    requests.raise_level(REQUEST_ID_LEVEL)
    requests.open()
    run(node, container)
    assert [opened.takes_ids for opened in sent(node)] == [0, 0, 1]
    container.on_close()


def test_an_id_is_executed_once_for_all_identities_of_a_principal(node: ServiceNode, requests: RequestsById) -> None:
    container = node.container(service := Adder())
    requests.open()
    first = requests.send_by_id(1, b"payment 1", b"5")
    refused = requests.send_by_id(2, b"payment 2", b"x")
    requests.send_by_id(3, b"payment 1", b"5")
    requests.open(identity=OTHER)
    requests.send_by_id(1, b"payment 1", b"5")
    requests.send_by_id(1, b"payment 1", b"5")
    requests.send_by_id(2, b"payment 2", b"x")
    fresh = requests.send_by_id(3, b"payment 3", b"6")
    run(node, container)
    answers = [one for one in sent(node) if isinstance(one, Answered)]
    assert answers == [
        Answered(1, AnswerStatus.OK, b"5", first),
        Answered(2, AnswerStatus.REJECTED, b"no number", refused),
        Answered(3, AnswerStatus.OK, b"5", first),
        Answered(1, AnswerStatus.OK, b"5", first),
        Answered(1, AnswerStatus.OK, b"5", first),
        Answered(2, AnswerStatus.REJECTED, b"no number", refused),
        Answered(3, AnswerStatus.OK, b"11", fresh),
    ]
    assert (service.total, container.requests_repeated) == (11, 4)
    container.on_close()


def test_an_id_with_another_payload_is_refused_and_its_number_is_used(
    node: ServiceNode, requests: RequestsById
) -> None:
    container = node.container(service := Adder())
    requests.open()
    first = requests.send_by_id(1, b"id", b"5")
    requests.send_by_id(2, b"id", b"6")
    requests.send(3, b"7")
    requests.send_by_id(2, b"id", b"6")
    run(node, container)
    answers = [one for one in sent(node) if isinstance(one, Answered)]
    text = b"the id was used for another payload, at log position %d" % first
    conflict = Answered(2, AnswerStatus.ID_CONFLICT, text, first)
    assert answers[1] == conflict and answers[3] == conflict and answers[2].payload == b"12"
    assert service.total == 12
    container.on_close()


def test_a_snapshot_holds_ids_with_their_answers(node: ServiceNode, requests: RequestsById) -> None:
    container = node.container(Adder())
    requests.raise_level(REQUEST_ID_LEVEL)
    requests.open()
    first = requests.send_by_id(1, b"one", b"5")
    long = requests.send_by_id(2, b"long", b"long%d" % 200_000)
    requests.send_by_id(3, b"refused", b"x")
    run(node, container)
    kept = container.requests.ids.snapshot()
    position, recording_id, _ = take_snapshot(node, container)
    container.on_close()

    node.set_recovery(0, position, node.time, recording_id)
    restored = node.container(service := Adder())
    node.begin_term(1, leads=True)
    sent(node)
    requests.open(identity=OTHER)
    requests.send_by_id(1, b"one", b"5")
    requests.send_by_id(2, b"long", b"long%d" % 200_000)
    requests.send_by_id(3, b"new", b"1")
    run(node, restored)
    opened, one, other, new = sent(node)
    assert opened.takes_ids == 1
    assert (one, other.log_position, new.payload) == (Answered(1, 0, b"5", first), long, b"6")
    assert service.total == 6
    (before,), (after,) = kept, restored.requests.ids.snapshot()
    assert after.rows.startswith(before.rows) and len(restored.requests.ids) == 4
    restored.on_close()


def test_what_a_follower_of_the_log_says_is_what_the_container_did() -> None:
    """`judge` and `note`, with the digest of the id: a repeat by id is none to execute, and takes its number."""
    table = RequestTable()
    digest = digest_request_id(b"id")
    _, first = table.open(NAME, MINE, 1, 0, 100, 0)
    assert table.judge(100, MINE, 1, 0, 5, digest, b"pay") is first and first is not None
    table.note(first, 200, 0, b"")
    _, second = table.open(OTHER, MINE, 2, 0, 300, 6)
    assert table.judge(300, MINE, 1, 0, 7, digest, b"pay") is None
    assert table.judge(300, MINE, 2, 0, 8) is second and second is not None
    table.note(second, 400, 0, b"")
    assert (second.number, second.get_answer(1), len(table.ids)) == (2, (200, 0, b""), 1)


# The table itself


def keep(ids: RequestIds, name: bytes, time: int, *, principal: bytes = MINE, answer: bytes = b"") -> bool:
    """False: it has to wait."""
    digest = digest_payload(name)
    assert ids.find(principal, name, digest, time) is None
    if not ids.make_room(principal, time):
        return False
    ids.keep(principal, name, digest, time, 1000 + time, 0, answer)
    return True


def find(ids: RequestIds, name: bytes, time: int, principal: bytes = MINE) -> tuple[int, int, bytes] | None:
    return ids.find(principal, name, digest_payload(name), time)


def name_of(number: int) -> bytes:
    return b"%016d" % number


def test_statuses_are_those_of_answers() -> None:
    assert (ID_CONFLICT, FORGOTTEN) == (AnswerStatus.ID_CONFLICT, AnswerStatus.FORGOTTEN)


@pytest.mark.parametrize("request_id", [b"", b"x" * 65, "text", 5, None])
def test_an_id_that_is_none_is_refused(request_id: object) -> None:
    with pytest.raises(ConfigurationError, match=r"not executed: .* must be bytes, from 1 to 64$"):
        check_request_id(request_id)  # type: ignore[arg-type]
    assert check_request_id(bytearray(b"x" * 64)) == b"x" * 64


def test_principals_neither_see_nor_block_each_others_ids() -> None:
    ids = RequestIds()
    keep(ids, name_of(1), 0, answer=b"mine")
    assert find(ids, name_of(1), 1, YOURS) is None
    keep(ids, name_of(1), 2, principal=YOURS, answer=b"yours")
    assert find(ids, name_of(1), 3) == (1000, 0, b"mine")
    assert find(ids, name_of(1), 3, YOURS) == (1002, 0, b"yours")


def test_an_id_is_forgotten_after_its_time_and_may_be_used_again() -> None:
    ids = RequestIds(RequestIdLimits(timeout=100))
    keep(ids, name_of(1), 0, answer=b"first")
    assert find(ids, name_of(1), 100) == (1000, 0, b"first")
    keep(ids, name_of(1), 101, answer=b"second")
    assert find(ids, name_of(1), 150) == (1101, 0, b"second")
    assert (len(ids), ids.kept_bytes) == (1, len(b"second") + request_ids.KEPT_OVERHEAD_BYTES)


def test_with_as_many_ids_as_may_be_the_oldest_goes_unless_it_is_new() -> None:
    ids = RequestIds(RequestIdLimits(ids_max=3, time_min=50))
    for number in (1, 2, 3):
        assert keep(ids, name_of(number), number)
    assert not keep(ids, name_of(4), 50), "the oldest is 49 ms old, and kept for 50 at least"
    assert keep(ids, name_of(4), 51)
    assert [find(ids, name_of(number), 51) is None for number in (1, 2, 3, 4)] == [True, False, False, False]


def test_a_principal_with_many_ids_gives_way_to_one_with_few() -> None:
    ids = RequestIds(RequestIdLimits(ids_max=4, time_min=50))
    for number in (1, 2, 3, 4):
        assert keep(ids, name_of(number), number)
    assert keep(ids, name_of(1), 5, principal=YOURS), "however new those of the other are"
    assert keep(ids, name_of(2), 6, principal=YOURS)
    assert not keep(ids, name_of(5), 7), "both have two, and neither takes from the other"
    assert not keep(ids, name_of(3), 7, principal=YOURS)


def test_beyond_the_bytes_that_are_kept_an_answer_goes_and_its_id_stays() -> None:
    each = 100 + request_ids.KEPT_OVERHEAD_BYTES
    ids = RequestIds(RequestIdLimits(answer_bytes_max=2 * each))
    for number in (1, 2, 3):
        keep(ids, name_of(number), number, answer=bytes(100))
    assert find(ids, name_of(1), 4) == (1001, FORGOTTEN, b"executed before, and its answer is not kept any more")
    assert find(ids, name_of(2), 4) == (1002, 0, bytes(100))
    assert ids.kept_bytes == 2 * each
    again = RequestIds(ids.limits)
    again.restore(ids.snapshot(), True)
    assert (again.snapshot(), again.kept_bytes, len(again)) == (ids.snapshot(), ids.kept_bytes, 3)


def test_too_many_new_ids_wait_and_take_no_number() -> None:
    table = RequestTable(RequestLimits(), RequestIdLimits(ids_max=1, time_min=50))
    _, identity = table.open(NAME, MINE, 1, 0, 100, 0)
    assert identity is not None
    for number, time, taken in ((1, 0, True), (2, 49, False), (2, 50, True)):
        found = table.judge(100, MINE, number, 0, time, name_of(time), b"pay")
        assert (found is identity) == taken
        if found is not None:
            table.note(found, 200 + time, 0, b"")
    assert identity.number == 2


def test_a_request_that_waits_is_told_what_holds_it(node: ServiceNode, requests: RequestsById) -> None:
    """It said that too many answers are kept, of which there were none."""
    container = node.container(service := Adder())
    container.set_requests(RequestTable(RequestLimits(), RequestIdLimits(ids_max=1)))
    requests.open()
    requests.send_by_id(1, b"payment 1", b"1")
    requests.send_by_id(2, b"payment 2", b"1", confirmed=1)
    run(node, container)
    waits = [answer for answer in sent(node) if isinstance(answer, Answered) and answer.status == AnswerStatus.WAIT]
    assert [(one.number, b"this caller's are all new" in one.payload) for one in waits] == [(2, True)]
    assert service.total == 1
    container.on_close()


def test_snapshots_keep_ids_of_any_length_and_refuse_what_is_cut() -> None:
    ids = RequestIds()
    for principal in (b"", MINE, YOURS):
        for number in range(3000):
            keep(ids, name_of(number), number, principal=principal, answer=bytes(number % 70))
    keep(ids, name_of(9999), 9999, answer=bytes(200_000))
    states = tuple(ids.snapshot())
    state = container_snapshot.ServiceSnapshot(1000, 1, TimeUnit.MILLIS, 1, (), (), request_ids=states, takes_ids=True)
    messages = list(container_snapshot.encode(state))
    decoded = container_snapshot.decode(iter(messages))
    assert decoded.request_ids == states and decoded.takes_ids
    del messages[3]
    with pytest.raises(SnapshotError, match="out of order"):
        container_snapshot.decode(iter(messages))
    for cut in (1, 55, 100):
        with pytest.raises(SnapshotError, match="cut"):
            RequestIds().restore([PrincipalIds(MINE, states[1].rows[:-cut])], True)
    empty = container_snapshot.encode(container_snapshot.ServiceSnapshot(1000, 1, TimeUnit.MILLIS, 1, (), ()))
    assert not container_snapshot.decode(empty).takes_ids, "as releases before it wrote it"


# -- outputs of applications -------------------------------------------------------------------------------------------


def write_by_id(requests: RequestsById, number: int, request_id: bytes, payload: bytes) -> int:
    head = ordo_codecs.OUTPUT_BY_ID.encode(
        open_position=requests.position,
        number=number,
        target_session_id=-1,
        **requests.stamp(1),
        **ordo_codecs.split_request_digest(digest_request_id(request_id)),
    )
    return requests.node.append(head + payload)


def test_an_output_with_an_id_is_executed_once_and_shares_the_ids_of_clients(
    node: ServiceNode, requests: RequestsById
) -> None:
    container = node.container(service := Adder())
    requests.raise_level(OUTPUT_ID_LEVEL)
    requests.open()
    first = write_by_id(requests, 1, b"payment 1", b"5")
    write_by_id(requests, 2, b"payment 1", b"5")
    write_by_id(requests, 3, b"payment 1", b"6")
    requests.open(identity=OTHER)
    requests.send_by_id(1, b"payment 1", b"5")
    second = requests.send_by_id(2, b"payment 2", b"7")
    write_by_id(requests, 3, b"payment 2", b"7")
    run(node, container)
    text = b"the id was used for another payload, at log position %d" % first
    assert [one for one in sent(node) if isinstance(one, Answered)] == [
        Answered(1, AnswerStatus.OK, b"5", first),
        Answered(2, AnswerStatus.OK, b"5", first),
        Answered(3, AnswerStatus.ID_CONFLICT, text, first),
        Answered(1, AnswerStatus.OK, b"5", first),
        Answered(2, AnswerStatus.OK, b"12", second),
        Answered(3, AnswerStatus.OK, b"12", second),
    ]
    assert service.total == 12
    container.on_close()


def test_below_its_level_the_log_has_no_ids_of_outputs_and_a_snapshot_says_which_it_has(
    node: ServiceNode, requests: RequestsById
) -> None:
    """A member of an earlier release executes each such output: what its client sends makes no two states."""
    container = node.container(service := Adder())
    requests.raise_level(OUTPUT_ID_LEVEL - 1)
    requests.open()
    for number in (1, 2):
        write_by_id(requests, number, b"payment 1", b"5")
    run(node, container)
    assert service.total == 10 and len(container.requests.ids) == 0
    requests.raise_level(OUTPUT_ID_LEVEL)
    requests.open(identity=OTHER)
    write_by_id(requests, 1, b"payment 1", b"1")
    run(node, container)
    assert [one.takes_output_ids for one in sent(node) if not isinstance(one, Answered)] == [0, 1]
    position, recording_id, _ = take_snapshot(node, container)
    container.on_close()

    node.set_recovery(0, position, node.time, recording_id)
    restored = node.container(service := Adder())
    node.begin_term(1, leads=True)
    sent(node)
    requests.open(identity=bytes(16))
    write_by_id(requests, 1, b"payment 1", b"1")
    run(node, restored)
    opened, answer = sent(node)
    assert opened.takes_output_ids == 1 and answer.payload == b"11"
    assert service.total == 11
    restored.on_close()


def test_the_container_of_a_service_refuses_an_id_of_its_own(node: ServiceNode) -> None:
    class Offering(Adder):
        def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
            self.cluster = cluster

        def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
            self.cluster.offer(payload, id=b"one")
            return None

    container = node.container(Offering())
    node.append(codecs.SESSION_MESSAGE_HEADER.encode(leadership_term_id=0, cluster_session_id=1, timestamp=1) + b"x")
    node.commit()
    with pytest.raises(ServiceError, match="an id is for the outputs of applications"):
        node.run(container)
