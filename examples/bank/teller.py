"""Gives the bank one order, which is executed once, however often this program or a node of the cluster is killed.

    python -m examples.bank.teller 127.0.0.1:20000,127.0.0.1:20010,127.0.0.1:20020 till.journal transfer ann bob 250

The journal keeps the order from before it is sent until it is answered. If the program is killed in between, do not
give the order again: the next start, with or without an order, sends the one in the journal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ordo import ClientSettings, ClusterClient
from ordo.errors import RejectedError


def run(endpoints: Sequence[str], journal: str, order: str, egress: str = "127.0.0.1:0") -> list[str]:
    """Returns what became of the orders: what an earlier run left unanswered, then this one, if it is not empty."""
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress}", journal=journal)
    with ClusterClient(endpoints, settings=settings) as client:
        pending = list(client.recovered_requests)
        if order:
            pending.append(client.submit(order.encode()))
        outcomes = []
        for one in pending:
            try:
                outcomes.append(one.result(timeout_s=30).payload.decode())
            except RejectedError as error:
                outcomes.append(f"refused: {error}")
        return outcomes


if __name__ == "__main__":
    for outcome in run(sys.argv[1].split(","), sys.argv[2], " ".join(sys.argv[3:])):
        print(outcome)
