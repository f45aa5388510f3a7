#!/usr/bin/env bash
# order-matching 0.12.0, a matching engine in Python, takes orders with `place` and returns trades from `match`.
#
# The surprise: `cancel_order` matches as well. It executes all orders that were placed and not yet matched, and throws away
# the trades: it returns None, `match` has nothing left to return afterwards, and the orders are gone from the book as if
# they had been cancelled with the one that was. So an order that somebody cancels makes trades of others vanish, two sides
# of a trade both believe that nothing happened, and positions no longer add up. What is written at `cancel_order` is that it
# cancels an order.
#
# Seen with: order-matching 0.12.0, polars 2.1.0, CPython 3.11, Linux x86-64. `x` rests in the book; `a` (buys 5 for 10)
# and `b` (sells 5 for 10) were placed:
#   match                   one trade of a and b, 5 at 10; x rests
#   cancel_order("x")       None; the book is empty; match returns no trade
#
# What follows: match before each cancel. Orders of a sequenced log are executed one by one, a cancel as well: there is never
# anything placed that was not matched, which is why Ordo's own engine (ordo/matching) has no such state.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check order-matching==0.12.0 polars==2.1.0 pandera==0.35.0

cat >"$folder/seen.py" <<'PYTHON'
from datetime import datetime, timedelta

from loguru import logger
from order_matching.enums import Side
from order_matching.matching_engine import MatchingEngine
from order_matching.order import LimitOrder
from order_matching.orders import Orders

BEGIN = datetime(2026, 1, 2, 9)
logger.remove()


def order(name, side, price, second):
    at = BEGIN + timedelta(seconds=second)
    return LimitOrder(side=side, price=price, size=5, timestamp=at, order_id=name, trader_id=name)


def placed():
    """x rests; a and b would trade, and were not matched yet."""
    engine = MatchingEngine(seed=1)
    engine.place(Orders([order("x", Side.BUY, 9, 0)]))
    assert engine.match(BEGIN).trades == []
    engine.place(Orders([order("a", Side.BUY, 10, 1), order("b", Side.SELL, 10, 2)]))
    return engine


def trades(engine):
    found = engine.match(BEGIN + timedelta(seconds=3)).trades
    return [(one.incoming_order_id, one.book_order_id, one.size, one.price) for one in found]


def resting(engine):
    book = engine.unprocessed_orders
    return sorted(one.order_id for side in (book.bids, book.offers) for level in side.values() for one in level)


engine = placed()
matched = trades(engine), resting(engine)
print("match:             ", *matched)
engine = placed()
cancelled = engine.cancel_order("x"), resting(engine), trades(engine)
print("cancel_order('x'): ", *cancelled)
assert matched == ([("b", "a", 5, 10)], ["x"])
assert cancelled == (None, [], [])
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"
echo "as seen before: a cancel executes what was placed, and nobody is told of the trades"
