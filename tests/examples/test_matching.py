"""The matching engine: price-time priority against a slow model, real input, exactly-once, snapshots."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.matching.book import BUY, SELL, OrderBook, format_price, render_book
from ordo.matching.engine import ANSWERS_KEPT, MatchingCore
from ordo.matching.flow import OrderFlow
from ordo.matching.itch import read_itch_file
from ordo.matching.itch_feed import ItchFeed
from ordo.matching.protocol import (
    FLAG_ANY_PRICE,
    FLAG_IMMEDIATE,
    FLAG_SELL,
    Answer,
    Kind,
    Status,
    decode_answer,
    decode_execution,
    encode_request,
)

AAPL_LOCATE = 13
ROOT = Path(__file__).parents[2]


class Entry:
    """Sends requests of one client to a core, numbering them."""

    def __init__(self, core: MatchingCore, client_id: int = 1) -> None:
        self.core = core
        self.client_id = client_id
        self.sequence = 0

    def send(
        self, kind: Kind, order_id: int = 0, quantity: int = 0, price: int = 0, flags: int = 0,
        new_order_id: int | None = None,
    ) -> Answer:  # fmt: skip
        self.sequence += 1
        request = encode_request(
            kind, client_id=self.client_id, sequence=self.sequence, order_id=order_id, quantity=quantity, price=price,
            flags=flags, new_order_id=new_order_id,
        )  # fmt: skip
        return decode_answer(self.core.apply(request))


# ---- real input -----------------------------------------------------------------------------------------------------


def test_real_feed_gives_the_exchange_s_own_executions_and_book(aapl_feed: Path, aapl_final_book: str) -> None:
    core = MatchingCore()
    feed = ItchFeed(client_id=1)
    aggressive = executions = 0
    for entry in feed.entries(read_itch_file(aapl_feed)):
        answer = decode_answer(core.apply(entry.request))
        assert answer.status is Status.ACCEPTED
        fills = [(fill.maker_order_id, fill.quantity, fill.price) for fill in answer.fills]
        assert fills == [tuple(fill) for fill in entry.expected]
        assert answer.filled == sum(fill.quantity for fill in entry.expected)
        aggressive += bool(fills)
        executions += len(fills)
    assert (executions, aggressive, feed.dangling_count) == (849, 693, 0)
    assert len(core.books[AAPL_LOCATE].orders) == 215
    assert render_book(core.books[AAPL_LOCATE]) == aapl_final_book


def test_real_feed_after_1001_messages(aapl_feed: Path, aapl_book_after_1001: str) -> None:
    core = MatchingCore()
    for entry in ItchFeed(client_id=1).entries(islice(read_itch_file(aapl_feed), 1001)):
        core.apply(entry.request)
    book = core.books[AAPL_LOCATE]
    bids = [f"B {format_price(level.price)}: {level.quantity}" for level in reversed(book.levels(BUY))]
    offers = [f"S {format_price(level.price)}: {level.quantity}" for level in book.levels(SELL)]
    assert len(book.orders) == 80
    assert [*bids, "-----", *offers] == aapl_book_after_1001.splitlines()


def test_three_instruments_in_one_feed_keep_their_own_books(ritch_feed: Path) -> None:
    """The artificial feed refers to 117 orders it never added: 94 D, 18 E, 3 X, 2 U."""
    core = MatchingCore()
    feed = ItchFeed(client_id=1)
    for entry in feed.entries(read_itch_file(ritch_feed)):
        core.apply(entry.request)
    assert feed.dangling_count == 117
    assert len(core.books) == 3
    assert core.applied == feed.sequence


# ---- priority and life of orders ------------------------------------------------------------------------------------


def test_best_price_first_then_oldest_first() -> None:
    entry = Entry(MatchingCore())
    for order_id, price in ((1, 102), (2, 101), (3, 101), (4, 100)):
        entry.send(Kind.NEW, order_id, 10, price, FLAG_SELL)
    answer = entry.send(Kind.NEW, 9, 35, 101)
    assert [(fill.maker_order_id, fill.quantity, fill.price) for fill in answer.fills] == [
        (4, 10, 100), (2, 10, 101), (3, 10, 101),
    ]  # fmt: skip
    assert (answer.filled, answer.remaining) == (30, 5)
    assert [fill.match_number for fill in answer.fills] == [1, 2, 3]


def test_reduction_keeps_priority_and_replacement_loses_it() -> None:
    entry = Entry(MatchingCore())
    for order_id in (1, 2, 3):
        entry.send(Kind.NEW, order_id, 10, 100, FLAG_SELL)
    assert entry.send(Kind.REDUCE, 1, 4).remaining == 6
    entry.send(Kind.REPLACE, 2, 10, 100, new_order_id=22)
    answer = entry.send(Kind.NEW, 9, 26, 100)
    assert [(fill.maker_order_id, fill.quantity) for fill in answer.fills] == [(1, 6), (3, 10), (22, 10)]


def test_immediate_and_market_orders_never_rest() -> None:
    core = MatchingCore()
    entry = Entry(core)
    entry.send(Kind.NEW, 1, 10, 100, FLAG_SELL)
    assert entry.send(Kind.NEW, 2, 30, 100, FLAG_IMMEDIATE).filled == 10
    assert entry.send(Kind.NEW, 3, 30, 0, FLAG_ANY_PRICE).filled == 0
    assert core.books[0].orders == {}
    assert core.books[0].best(SELL) is None


def test_a_replacement_through_the_price_matches() -> None:
    entry = Entry(MatchingCore())
    entry.send(Kind.NEW, 1, 10, 101, FLAG_SELL)
    entry.send(Kind.NEW, 2, 10, 99)
    answer = entry.send(Kind.REPLACE, 2, 10, 101, new_order_id=3)
    assert [(fill.maker_order_id, fill.price) for fill in answer.fills] == [(1, 101)]


@pytest.mark.parametrize(
    ("request_arguments", "status"),
    [
        ({"kind": Kind.CANCEL, "order_id": 7}, Status.UNKNOWN_ORDER),
        ({"kind": Kind.REDUCE, "order_id": 7, "quantity": 1}, Status.UNKNOWN_ORDER),
        ({"kind": Kind.REPLACE, "order_id": 7, "quantity": 1, "price": 1, "new_order_id": 8}, Status.UNKNOWN_ORDER),
        ({"kind": Kind.REPLACE, "order_id": 1, "quantity": 1, "price": 1}, Status.BAD_REQUEST),
        (
            {"kind": Kind.REPLACE, "order_id": 1, "quantity": 1, "price": 1, "new_order_id": 2},
            Status.DUPLICATE_ORDER_ID,
        ),
        ({"kind": Kind.NEW, "order_id": 1, "quantity": 1, "price": 1}, Status.DUPLICATE_ORDER_ID),
        ({"kind": Kind.NEW, "order_id": 5, "quantity": 0, "price": 1}, Status.BAD_REQUEST),
        ({"kind": Kind.NEW, "order_id": 5, "quantity": 1, "price": 0}, Status.BAD_REQUEST),
        ({"kind": Kind.ANSWER, "order_id": 5}, Status.BAD_REQUEST),
    ],
)
def test_refusals_change_no_book(request_arguments, status: Status) -> None:  # type: ignore[no-untyped-def]
    core = MatchingCore()
    entry = Entry(core)
    entry.send(Kind.NEW, 1, 10, 100)
    entry.send(Kind.NEW, 2, 10, 100)
    before = render_book(core.books[0])
    assert entry.send(**request_arguments).status is status
    assert render_book(core.books[0]) == before


def test_only_its_owner_may_change_an_order_and_is_told_of_executions() -> None:
    core = MatchingCore()
    maker, taker = Entry(core, 1), Entry(core, 2)
    maker.send(Kind.NEW, 1, 10, 100, FLAG_SELL)
    assert taker.send(Kind.CANCEL, 1).status is Status.UNKNOWN_ORDER
    taker.send(Kind.NEW, 2, 4, 100)
    ((client_id, notice),) = core.executions
    execution = decode_execution(notice)
    assert client_id == execution.client_id == 1
    assert (execution.order_id, execution.quantity, execution.price, execution.match_number) == (1, 4, 100, 1)
    maker.send(Kind.CANCEL, 1)
    assert core.executions == []


# ---- exactly once ---------------------------------------------------------------------------------------------------


def test_a_request_sent_again_is_answered_again_and_not_applied() -> None:
    core = MatchingCore()
    core.apply(encode_request(Kind.NEW, client_id=1, sequence=1, order_id=1, quantity=10, price=100, flags=FLAG_SELL))
    request = encode_request(Kind.NEW, client_id=1, sequence=2, order_id=2, quantity=4, price=100)
    first = core.apply(request)
    before = core.state_hash()
    assert core.apply(request) == first
    assert core.state_hash() == before
    assert core.applied == 2


def test_a_gap_is_refused_with_the_number_expected() -> None:
    core = MatchingCore()
    answer = decode_answer(
        core.apply(encode_request(Kind.NEW, client_id=1, sequence=3, order_id=1, quantity=1, price=1))
    )
    assert (answer.status, answer.order_id) == (Status.GAP, 1)
    assert core.applied == 0


def test_answers_are_kept_for_a_bounded_time() -> None:
    core = MatchingCore()
    requests = list(OrderFlow(seed=3, count=ANSWERS_KEPT + 10))
    answers = [core.apply(request) for request in requests]
    assert core.apply(requests[10]) == answers[10]
    assert decode_answer(core.apply(requests[9])).status is Status.TOO_OLD


def test_bytes_too_short_for_a_request_are_not_answered() -> None:
    core = MatchingCore()
    before = core.state_hash()
    assert core.apply(b"\1" * 31) == b""
    assert core.state_hash() == before


# ---- against a model ------------------------------------------------------------------------------------------------


class SlowBook:
    """Price-time priority by sorting everything each time."""

    def __init__(self) -> None:
        self.orders: list[list[int]] = []  # arrival, id, side, quantity, price
        self.arrival = 0

    def enter(self, order_id: int, side: int, quantity: int, price: int, rests: bool) -> list[tuple[int, int, int]]:
        sign = 1 if side == BUY else -1
        against = sorted(
            (order for order in self.orders if order[2] != side and sign * order[4] <= sign * price),
            key=lambda order: (sign * order[4], order[0]),
        )
        fills = []
        for order in against:
            taken = min(order[3], quantity)
            if taken:
                fills.append((order[1], taken, order[4]))
                order[3] -= taken
                quantity -= taken
        self.arrival += 1
        if quantity and rests:
            self.orders.append([self.arrival, order_id, side, quantity, price])
        self.orders = [order for order in self.orders if order[3]]
        return fills

    def cancel(self, order_id: int) -> None:
        self.orders = [order for order in self.orders if order[1] != order_id]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("nnnic"), st.integers(0, 1), st.integers(1, 20), st.integers(1, 8), st.integers(0, 60)
        ),
        max_size=60,
    )
)
def test_matches_like_a_slow_and_obvious_book(steps: list[tuple[str, int, int, int, int]]) -> None:
    core, model = MatchingCore(), SlowBook()
    entry = Entry(core)
    for order_id, (what, side, quantity, price, target) in enumerate(steps, start=1):
        if what == "c":
            entry.send(Kind.CANCEL, target)
            model.cancel(target)
            continue
        flags = (FLAG_SELL if side else 0) | (FLAG_IMMEDIATE if what == "i" else 0)
        answer = entry.send(Kind.NEW, order_id, quantity, price, flags)
        expected = model.enter(order_id, side, quantity, price, rests=what == "n")
        assert [(fill.maker_order_id, fill.quantity, fill.price) for fill in answer.fills] == expected
        check_book(core.books[0])
    if 0 in core.books:
        assert {order_id: order.quantity for order_id, order in core.books[0].orders.items()} == {
            order[1]: order[3] for order in model.orders
        }


def check_book(book: OrderBook) -> None:
    """The invariants of OrderBook, and the sums of its levels."""
    bid, offer = book.best(BUY), book.best(SELL)
    assert bid is None or offer is None or bid < offer
    linked = {}
    for side in (BUY, SELL):
        for level in book.levels(side):
            orders = list(level.orders())
            assert level.count == len(orders)
            assert level.quantity == sum(order.quantity for order in orders)
            assert all(order.quantity > 0 for order in orders)
            linked.update({order.order_id: order for order in orders})
    assert linked == book.orders


# ---- snapshots and determinism --------------------------------------------------------------------------------------


def test_a_snapshot_carries_on_exactly_where_it_was_taken() -> None:
    requests = list(OrderFlow(seed=11, count=6_000))
    whole, first = MatchingCore(), MatchingCore()
    answers = [whole.apply(request) for request in requests]
    for request in requests[:3_000]:
        first.apply(request)
    snapshot = b"".join(first.dump())
    restored = MatchingCore.load([snapshot[:100], snapshot[100:101], snapshot[101:]])
    assert restored.state_hash() == first.state_hash()
    assert restored.apply(requests[2_990]) == answers[2_990]
    assert [restored.apply(request) for request in requests[3_000:]] == answers[3_000:]
    assert restored.state_hash() == whole.state_hash()


@pytest.mark.parametrize(
    ("data", "what"), [(b"", "begins with b''"), (b"nonsense" * 9, "begins with b'nonsense'"), (b"+1", "has length")]
)
def test_foreign_snapshots_are_refused(data: bytes, what: str) -> None:
    snapshot = b"".join(MatchingCore().dump()) + data[1:] if data[:1] == b"+" else data
    with pytest.raises(ValueError, match=what):
        MatchingCore.load([snapshot])


def test_the_state_hash_is_the_same_in_another_process() -> None:
    program = (
        "from ordo.matching.engine import MatchingCore\n"
        "from ordo.matching.flow import OrderFlow\n"
        "core = MatchingCore()\n"
        "for request in OrderFlow(seed=5, count=2000): core.apply(request)\n"
        "print(core.state_hash())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    core = MatchingCore()
    for request in OrderFlow(seed=5, count=2000):
        core.apply(request)
    assert seen == {core.state_hash() + "\n"}


def test_any_difference_shows_in_the_state_hash() -> None:
    hashes = set()
    for last_quantity in (1, 2):
        entry = Entry(MatchingCore())
        entry.send(Kind.NEW, 1, last_quantity, 100)
        hashes.add(entry.core.state_hash())
    assert len(hashes) == 2


def test_order_flow_is_seeded_and_lively() -> None:
    requests = list(OrderFlow(seed=1, count=20_000))
    assert requests == list(OrderFlow(seed=1, count=20_000))
    assert requests != list(OrderFlow(seed=2, count=20_000))
    core = MatchingCore()
    answers = [decode_answer(core.apply(request)) for request in requests]
    refused = sum(answer.status is not Status.ACCEPTED for answer in answers)
    filled = sum(bool(answer.fills) for answer in answers)
    assert {request[0] for request in requests} == {Kind.NEW, Kind.CANCEL, Kind.REDUCE, Kind.REPLACE}
    assert refused < 0.2 * len(requests)
    assert filled > 0.05 * len(requests)
    assert core.books[1].best(BUY) is not None
    assert core.books[1].best(SELL) is not None


def test_prices_below_a_cent_are_shown_in_full() -> None:
    assert [format_price(price) for price in (3214500, 199999_9900, 12345)] == ["321.45", "199999.99", "1.2345"]
