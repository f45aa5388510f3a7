"""Gives the bank one order, which is executed once, however often this program or a node of the cluster is killed.

    python -m examples.bank.teller 127.0.0.1:20000,127.0.0.1:20010,127.0.0.1:20020 till.journal transfer ann bob 250

The journal keeps the order from before it is sent until it is answered. If the program is killed in between, do not
give the order again: the next start, with or without an order, sends the one in the journal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from examples.bank.v1 import Balance, Deposit, Transfer
from ordo import ClientSettings, ClusterClient, PendingRequest, decode
from ordo.errors import ClusterTimeoutError, MessageError, RejectedError

Order = Deposit | Transfer
DIGITS_MAX = 15


def order_of(words: Sequence[str]) -> Order | None:
    """Reads an order; no words are none."""
    match words:
        case ["deposit", name, cents]:
            return Deposit(name, cents_of(cents))
        case ["transfer", sender, receiver, cents]:
            return Transfer(sender, receiver, cents_of(cents))
        case []:
            return None
    raise SystemExit("an order is deposit NAME CENTS or transfer SENDER RECEIVER CENTS")


def cents_of(text: str) -> int:
    """Reads digits 0 to 9 alone: `int` takes more, such as signs, spaces and underscores."""
    if not (text.isascii() and text.isdigit()) or len(text) > DIGITS_MAX or int(text) == 0:
        raise SystemExit(f"{text!r} is no amount: allowed are whole cents, from 1 and of {DIGITS_MAX} digits at most")
    return int(text)


def outcome_of(wait: Callable[[], Balance]) -> str:
    """Returns the balance that answers an order, or what became of it otherwise."""
    try:
        return str(wait().cents)
    except RejectedError as error:
        return f"refused: {error}"
    except MessageError as error:
        return str(error)
    except ClusterTimeoutError:
        return "not answered yet: it is in the journal, and the next start sends it again"


def balance_of(pending: PendingRequest) -> Balance:
    """Waits for the answer to a request of the journal, which has bytes and not the classes of messages."""
    answer = pending.result(timeout_s=30)
    try:
        return decode(Balance, answer.payload)
    except MessageError as error:
        raise MessageError(
            f"executed at log position {answer.log_position}, and answered by something else: {error}"
        ) from error


def run(endpoints: Sequence[str], journal: str, order: Order | None, egress: str = "127.0.0.1:0") -> Iterator[str]:
    """Gives what became of the orders: what an earlier run left unanswered, then this one, if there is one."""
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress}", journal=journal)
    with ClusterClient(endpoints, settings=settings) as client:
        for pending in client.recovered_requests:
            yield outcome_of(partial(balance_of, pending))
        if order is not None:
            yield outcome_of(lambda: client.request(order, timeout_s=30))


if __name__ == "__main__":
    for outcome in run(sys.argv[1].split(","), sys.argv[2], order_of(sys.argv[3:])):
        print(outcome, flush=True)
