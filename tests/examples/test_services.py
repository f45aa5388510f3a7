"""The example services, proven deterministic and restorable by the harness a user has."""

from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from examples.counter import Counter
from ordo.bench.loads.echo import Echo
from ordo.bench.loads.echo_native import NativeEcho
from ordo.matching.flow import OrderFlow
from ordo.matching.protocol import (
    FLAG_SELL,
    QUERY,
    TOP_OF_BOOK,
    Kind,
    Status,
    decode_answer,
    decode_execution,
    encode_request,
)
from ordo.matching.service import MatchingEngine
from ordo.service_api.testing.harness import (
    CloseSession,
    Message,
    OpenSession,
    ServiceHarness,
    TakeSnapshot,
    check_service,
)


def orders(count: int, client_id: int, session_id: int) -> list[Message]:
    flow = OrderFlow(seed=client_id, count=count, client_id=client_id)
    return [Message(session_id, number, request) for number, request in enumerate(flow, start=10)]


def test_matching_engine_is_deterministic_and_its_snapshots_hold_all_of_it() -> None:
    """Two clients trade with each other; one of them leaves."""
    first, second = orders(400, 1, 1), orders(400, 2, 2)
    inputs: list[Any] = [OpenSession(1, 1), OpenSession(2, 2)]
    for one, other in zip(first, second, strict=True):
        inputs += [one, other]
    inputs += [TakeSnapshot(1_000), CloseSession(1, 1_001), *orders(500, 2, 2)[400:]]
    harness = check_service(MatchingEngine, inputs)
    notices = [message for message in harness.egress(1) if message[0] == Kind.EXECUTION]
    assert notices
    assert all(decode_execution(notice).client_id == 1 for notice in notices)
    answers = [decode_answer(message) for message in harness.egress(2) if message[0] == Kind.ANSWER]
    assert [answer.sequence for answer in answers] == list(range(1, 501))


def test_top_of_the_book_is_a_query() -> None:
    harness = ServiceHarness(MatchingEngine).execute(OpenSession(1, 1))
    assert TOP_OF_BOOK.unpack(harness.query(QUERY.pack(0))) == (0, 0, 0, 0)
    orders_in = [(1, 100, 5, 0), (2, 100, 3, 0), (3, 99, 9, 0), (4, 101, 7, FLAG_SELL)]
    for order_id, price, quantity, flags in orders_in:
        request = encode_request(
            Kind.NEW, client_id=1, sequence=order_id, order_id=order_id, quantity=quantity, price=price, flags=flags
        )
        harness.execute(Message(1, order_id, request))
    assert TOP_OF_BOOK.unpack(harness.query(QUERY.pack(0))) == (100, 101, 8, 7)
    assert TOP_OF_BOOK.unpack(harness.query(QUERY.pack(1))) == (0, 0, 0, 0)
    with pytest.raises(NotImplementedError, match="query of 3 bytes: an instrument has 2"):
        harness.query(b"???")


def test_a_maker_is_told_in_the_session_it_used_last() -> None:
    sell = encode_request(Kind.NEW, client_id=1, sequence=1, order_id=1, quantity=5, price=100, flags=FLAG_SELL)
    buy = encode_request(Kind.NEW, client_id=2, sequence=1, order_id=2, quantity=5, price=100)
    harness = ServiceHarness(MatchingEngine).execute(
        OpenSession(1, 1),
        OpenSession(2, 1),
        OpenSession(3, 1),
        Message(1, 2, sell),
        Message(2, 3, sell),
        Message(3, 4, buy),
    )
    assert len(harness.egress(1)) == 1
    assert harness.egress(1) == harness.egress(2)[:1]
    assert decode_execution(harness.egress(2)[1]).order_id == 1


def test_report_is_logged_once_with_the_hash_of_the_state() -> None:
    report = encode_request(Kind.REPORT, client_id=1, sequence=1, order_id=77)
    with capture_logs() as logs:
        harness = ServiceHarness(MatchingEngine).execute(
            OpenSession(1, 1), Message(1, 2, report), Message(1, 3, report)
        )
    assert isinstance(harness.service, MatchingEngine)
    (entry,) = [entry for entry in logs if entry["event"] == "matching.state"]
    assert (entry["report_id"], entry["applied"]) == (77, 1)
    assert len(entry["state_hash"]) == 32
    assert [decode_answer(answer).status for answer in harness.egress(1)] == [Status.ACCEPTED] * 2


def test_counter() -> None:
    inputs: list[Any] = [
        OpenSession(1, 1),
        Message(1, 2, b"40"),
        Message(1, 3, b"2"),
        Message(1, 4, b"x"),
        Message(None, 5, b"9"),
    ]
    harness = check_service(Counter, inputs)
    assert harness.egress(1) == [b"40", b"42"]
    assert [effect.value for effect in harness.effects if effect.kind == "reject"] == [b"not a number"]


@pytest.mark.parametrize("service", [Echo, NativeEcho])
def test_echo(service: type[Echo] | type[NativeEcho]) -> None:
    payloads = [b"", b"x", bytes(5_000)]
    inputs: list[Any] = [
        OpenSession(1, 1),
        *(Message(1, 2, payload) for payload in payloads),
        Message(None, 3, b"ignored"),
    ]
    assert check_service(service, inputs).egress(1) == payloads


def test_positions_of_reports_grow() -> None:
    requests = [encode_request(Kind.REPORT, client_id=1, sequence=number, order_id=number) for number in (1, 2, 3)]
    with capture_logs() as logs:
        ServiceHarness(MatchingEngine).execute(OpenSession(1, 1), *(Message(1, 2, request) for request in requests))
    positions = [entry["position"] for entry in logs]
    assert all(before < after for before, after in pairwise(positions))
