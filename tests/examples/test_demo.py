"""The demo with real processes: three nodes, a real feed, a leader that is killed."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from ordo.demo import run_demo

pytestmark = pytest.mark.slow


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_real_feed_ends_in_the_exchange_s_book_on_every_node(
    aapl_feed: Path, aapl_final_book: str, console: Console
) -> None:
    outcome = run_demo(itch=aapl_feed, print_book=True, orders=1, keep=False, kill_leader=False, console=console)
    assert (outcome.requests, outcome.fills, outcome.refused) == (9549, 849, 0)
    assert len({replica.state_hash for replica in outcome.replicas}) == 1
    assert sorted(replica.member_id for replica in outcome.replicas) == [0, 1, 2]
    assert aapl_final_book in shown(console)
    assert "member " + str(outcome.leader) in shown(console)


def test_every_order_is_applied_once_when_the_leader_is_killed(console: Console) -> None:
    """`run_demo` itself compares every replica's state with an engine that took the same requests without a cluster."""
    outcome = run_demo(itch=None, print_book=False, orders=30_000, keep=False, kill_leader=True, console=console)
    assert outcome.resent > 0
    assert {replica.executions for replica in outcome.replicas} == {outcome.fills}
    assert len(outcome.round_trips_ns) == 30_001
