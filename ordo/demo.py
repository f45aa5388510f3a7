"""`ordo demo`: three nodes on this machine, an order flow through the matching engine, and what came of it."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from ordo.matching.book import render_book
from ordo.matching.engine import MatchingCore
from ordo.matching.flow import OrderFlow
from ordo.matching.itch import read_itch_file
from ordo.matching.itch_feed import ItchFeed
from ordo.matching.order_client import OrderClient
from ordo.matching.protocol import ANSWER, FILL, Kind, encode_request
from ordo.matching.service import REPORT_EVENT
from ordo.runtime.errors import ClusterError, ConfigurationError
from ordo.runtime.reporting.terminal import output_console

SERVICE = "ordo.matching.service:MatchingEngine"
CLIENT_ID = 1
SEED = 20200130
REFRESH_NS = 100_000_000
WINDOW = 512
ROUND_TRIPS_MAX = 1 << 20


class Replica(NamedTuple):
    """What one node's service reported at the end."""

    member_id: int
    position: int
    executions: int
    state_hash: str


class Outcome(NamedTuple):
    """What the demo shows."""

    requests: int
    seconds: float
    refused: int
    fills: int
    resent: int
    round_trips_ns: list[int]  # sorted; of more than ROUND_TRIPS_MAX a sample
    leader: int
    replicas: list[Replica]


def run_demo(
    *, itch: Path | None, print_book: bool, orders: int, keep: bool, kill_leader: bool, console: Console | None = None
) -> Outcome:
    """Run the demo and print its result. With `kill_leader` the leader is killed half way and started again.

    Raises ClusterError when the replicas do not end in one state, or not in the one the requests lead to.
    """
    console = console or output_console()
    count, expected = _look_ahead(itch, orders, console)
    with LocalCluster(SERVICE, keep=keep) as cluster:
        leader = cluster.await_leader()
        console.print(
            f"three nodes run in {cluster.root}, member {leader} leads; sequencing {count:,} requests", soft_wrap=True
        )
        runner = _Runner(cluster, count, kill_leader)
        outcome = runner.run(_requests(itch, orders), console)
        _show(console, outcome, cluster, keep)
        _check(outcome, expected)
    if print_book:
        for instrument, book in sorted(expected.books.items()):
            console.print(f"book of instrument {instrument}, price: shares (orders)")
            console.out(render_book(book), end="", highlight=False)
    return outcome


def _requests(itch: Path | None, orders: int, on_progress: Callable[[int], object] = lambda _: None) -> Iterable[bytes]:
    """Return the requests one after the other, from a feed or the generator."""
    if itch is None:
        return OrderFlow(seed=SEED, count=orders, client_id=CLIENT_ID)
    return (entry.request for entry in ItchFeed(CLIENT_ID).entries(read_itch_file(itch, on_progress)))


def _look_ahead(itch: Path | None, orders: int, console: Console) -> tuple[int, MatchingCore]:
    """How many requests there are, and the same requests through an engine without a cluster."""
    core, count = MatchingCore(), 0
    columns = DownloadColumn() if itch is not None else MofNCompleteColumn()
    with _progress(console, columns, TimeRemainingColumn()) as progress:
        requests = _requests(itch, orders, lambda done: progress.update(task, completed=done))
        total = float(orders) if itch is None else float(itch.stat().st_size)
        task = progress.add_task("looking ahead", total=total)
        for request in requests:
            core.apply(request)
            count += 1
            if itch is None and count % 10_000 == 0:
                progress.update(task, completed=count)
        progress.update(task, completed=total)
    if not count:
        raise ConfigurationError(f"{itch} holds no orders; give a TotalView-ITCH 5.0 file with order messages")
    core.apply(_report(count))
    return count, core


def _report(count: int) -> bytes:
    return encode_request(Kind.REPORT, client_id=CLIENT_ID, sequence=count + 1, order_id=count + 1)


class _Runner:
    """Sends the requests, keeps the score, and kills the leader when it is asked to."""

    def __init__(self, cluster: LocalCluster, count: int, kill_leader: bool) -> None:
        self.cluster = cluster
        self.count = count
        self.answered = self.refused = self.fills = 0
        self.round_trips_ns = array("q")
        self._stride = 1
        self._kill_at = count // 2 if kill_leader else -1
        self._killed: int | None = None
        self._refresh_ns = 0

    def run(self, requests: Iterable[bytes], console: Console) -> Outcome:
        with ClusterClient(
            self.cluster.ingress_endpoints, on_message=self._on_message, on_new_leader=self._on_new_leader
        ) as connection:
            self.orders = OrderClient(connection, time.monotonic_ns, self._on_answer, window=WINDOW)
            seconds = self._send(requests, console)
            self.orders.run([_report(self.count)])
        self._restart_killed()
        replicas = self.cluster.await_value(self._replicas, "the report of every replica")
        leader, resent = self.cluster.await_leader(), self.orders.resent_count
        return Outcome(
            self.count, seconds, self.refused, self.fills, resent, sorted(self.round_trips_ns), leader, replicas
        )

    def _send(self, requests: Iterable[bytes], console: Console) -> float:
        """Send every request and return the seconds until all were answered."""
        with _progress(console, MofNCompleteColumn(), TimeElapsedColumn()) as progress:
            task = progress.add_task("sequencing", total=self.count)
            start_ns = time.monotonic_ns()
            self.orders.run(requests, self._cycle(lambda: progress.update(task, completed=self.answered)))
            progress.update(task, completed=self.count)
            return (time.monotonic_ns() - start_ns) / 1e9

    def _cycle(self, show: Callable[[], None]) -> Callable[[], None]:
        def cycle() -> None:
            now_ns = time.monotonic_ns()
            if now_ns - self._refresh_ns < REFRESH_NS:
                return
            self._refresh_ns = now_ns
            show()
            self.cluster.check_running()
            if 0 <= self._kill_at <= self.answered:
                self._kill_at = -1
                self._killed = self.cluster.await_leader()
                self.cluster.kill(self._killed)

        return cycle

    def _restart_killed(self) -> None:
        if self._killed is not None:
            self.cluster.restart(self._killed)
            self._killed = None

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        self.orders.on_message(payload)

    def _on_new_leader(self, *_: object) -> None:
        self.orders.on_new_leader()

    def _on_answer(self, answer: bytes, round_trip_ns: int) -> None:
        self.answered += 1
        if answer[1]:
            self.refused += 1
        elif len(answer) > ANSWER.size:
            self.fills += (len(answer) - ANSWER.size) // FILL.size
        if self.answered % self._stride == 0:
            self.round_trips_ns.append(round_trip_ns)
            if len(self.round_trips_ns) > ROUND_TRIPS_MAX:
                self.round_trips_ns = self.round_trips_ns[1::2]
                self._stride *= 2

    def _replicas(self) -> list[Replica] | None:
        """One report of each member, or None when one is missing yet."""
        found = [replica for member_id in self.cluster.member_ids for replica in self._reports(member_id)]
        return found if len(found) == len(self.cluster.member_ids) else None

    def _reports(self, member_id: int) -> Iterator[Replica]:
        for event in self.cluster.log_events(member_id, REPORT_EVENT):
            if event["report_id"] == self.count + 1:
                yield Replica(
                    member_id, int(str(event["position"])), int(str(event["executions"])), str(event["state_hash"])
                )
                return


def _progress(console: Console, *columns: ProgressColumn) -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), *columns, console=console)


def _check(outcome: Outcome, expected: MatchingCore) -> None:
    hashes = {replica.state_hash for replica in outcome.replicas}
    if hashes != {expected.state_hash()}:
        raise ClusterError(f"replicas differ: state hashes {sorted(hashes)}, expected {expected.state_hash()}")


def _show(console: Console, outcome: Outcome, cluster: LocalCluster, keep: bool) -> None:
    table = Table("", "", show_header=False, box=None)
    rate = f"{outcome.requests / outcome.seconds:,.0f} a second, {WINDOW} on the way, sync = {cluster.sync}"
    table.add_row("sequenced", f"{outcome.requests:,} requests, {rate}")
    table.add_row(
        "round trip", ", ".join(f"p{at:g} {_percentile_ms(outcome, at):,.1f} ms" for at in (50, 90, 99, 99.9))
    )
    table.add_row("engine", f"{outcome.fills:,} executions; {outcome.refused:,} requests refused, their order was gone")
    table.add_row("leader", f"member {outcome.leader}; {outcome.resent:,} requests sent again")
    for replica in outcome.replicas:
        table.add_row(f"member {replica.member_id}", f"state {replica.state_hash} at {replica.position:,}")
    table.add_row("logs", f"{cluster.root}/*.log" if keep else f"{cluster.root}, removed now (--keep keeps it)")
    console.print(table)


def _percentile_ms(outcome: Outcome, percentile: float) -> float:
    values_ns = outcome.round_trips_ns
    return values_ns[int((len(values_ns) - 1) * percentile / 100)] / 1e6
