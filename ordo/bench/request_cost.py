"""`ordo bench requests`: what requests and messages with types cost beside raw messages of the same values."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

from hdrh.histogram import HdrHistogram
from rich.console import Console
from rich.table import Table

from ordo.bench.loads.echo_session import EchoSession, echo_settings
from ordo.bench.loads.hand_answering import VALUES, HandEchoSession
from ordo.bench.loads.latency import new_histogram, percentiles_us, record
from ordo.bench.loads.typed_answering import SIZE_BYTES, Ask, Told, TypedEchoSession
from ordo.bench.node_cost import family, running_ns
from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.closing import Closing

Figures: TypeAlias = dict[str, Any]
SERVICE = "ordo.bench.loads.hand_answering:HandAnswering"
TYPED_SERVICE = "ordo.bench.loads.typed_answering:TypedAnswering"
TYPED = {"raw": "typed", "request": "typed request"}
"""By kind, what is the same with types."""
KINDS = ("raw", "typed", "request", "typed request")
SHOWN = ("p50", "p99")
BATCH_LENGTH = 4_096


class RequestSession(Closing):
    """Makes requests of packed values, and unpacks those of their answers."""

    def __init__(self, ingress_endpoints: Mapping[int, str]) -> None:
        self._client = ClusterClient(dict(ingress_endpoints), settings=echo_settings())

    def close(self) -> None:
        self._client.close()

    def request(self, number: int) -> object:
        """Make a request, and return its answer."""
        return VALUES.unpack(self._client.request(VALUES.pack(number, number, 0)).payload)

    def request_many(self, first: int, count: int) -> Sequence[object]:
        """Make `count` requests, and return their answers."""
        payloads = [VALUES.pack(number, number, 0) for number in range(first, first + count)]
        return [VALUES.unpack(answer.payload) for answer in self._client.request_many(payloads)]

    def round_trips(self, count: int) -> HdrHistogram:
        """`count` requests, one after the other."""
        times_ns = []
        for number in range(count):
            start_ns = time.monotonic_ns()
            self.request(number)
            times_ns.append(time.monotonic_ns() - start_ns)
        histogram = new_histogram()
        record(histogram, times_ns)
        return histogram

    def pipelined(self, count: int, window: int) -> float:
        """Seconds for `count` requests, in batches of BATCH_LENGTH, whatever the window."""
        start_ns = time.monotonic_ns()
        for first in range(0, count, BATCH_LENGTH):
            self.request_many(first, min(BATCH_LENGTH, count - first))
        return (time.monotonic_ns() - start_ns) / 1e9


class TypedRequestSession(RequestSession):
    """Makes an object for each request, and gets one that answers it."""

    def request(self, number: int) -> Told:
        return self._client.request(Ask(number, number, 0))

    def request_many(self, first: int, count: int) -> Sequence[Told]:
        return self._client.request_many([Ask(number, number, 0) for number in range(first, first + count)])


@dataclass(frozen=True)
class Load:
    """A session, and the nodes that execute what it sends, with their containers."""

    session: EchoSession | RequestSession
    node_pids: Sequence[int]

    def pipelined(self, count: int, window: int) -> tuple[float, float]:
        """Return messages a second, and processor time in us a message, of the client and all nodes together."""
        pids = [os.getpid(), *self.node_pids]
        before_ns = sum(map(running_ns, pids))
        seconds = self.session.pipelined(count, window)
        return count / seconds, (sum(map(running_ns, pids)) - before_ns) / count / 1000


def measure_requests(*, rounds: int, round_trip_count: int, message_count: int, window: int) -> Figures:
    """Medians of `rounds`, in each of which all kinds of messages take turns; nothing is synced.

    `requests`: by kind, round trips in us, messages a second, and processor time in us of one of these.
    `request_cost_percent`: by percentile, what the round trip of a raw request takes longer than that of a raw message.
    `typed_cost_percent`: by kind, what the round trip of a message with types takes longer than that of a raw one
    (`p50`, `p99`), how many more of them there are a second (`msgs_per_s`), and how much more processor time each takes
    (`cpu`). All are medians over the rounds.
    """
    trips: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpu_us: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        loads = _open(stack)
        for load in loads.values():
            load.session.round_trips(round_trip_count // 10)
            load.pipelined(message_count // 10, window)
        for _ in range(rounds):
            for kind, load in loads.items():
                trips[kind].append(percentiles_us(load.session.round_trips(round_trip_count)))
            for kind, load in loads.items():
                rate, used_us = load.pipelined(message_count, window)
                rates[kind].append(rate)
                cpu_us[kind].append(used_us)
    return {
        "requests": {
            kind: {
                "rtt_us": {name: round(median(one[name] for one in trips[kind]), 1) for name in SHOWN},
                "msgs_per_s": round(median(rates[kind])),
                "cpu_us": round(median(cpu_us[kind]), 2),
            }
            for kind in KINDS
        },
        "request_cost_percent": _longer_percent(trips["raw"], trips["request"]),
        "typed_cost_percent": {
            kind: {
                **_longer_percent(trips[kind], trips[typed]),
                "msgs_per_s": _median_percent(rates[kind], rates[typed]),
                "cpu": _median_percent(cpu_us[kind], cpu_us[typed]),
            }
            for kind, typed in TYPED.items()
        },
    }


def _open(stack: ExitStack) -> dict[str, Load]:
    """Return a load by kind. Two clusters, for what reads messages with types looks at raw ones first, too."""
    clusters = []
    for service in (SERVICE, TYPED_SERVICE):
        cluster = stack.enter_context(LocalCluster(service, sync="none"))
        cluster.await_leader()
        pids = [pid for member_id in cluster.member_ids for pid in family(cluster.pid(member_id))]
        clusters.append((cluster.ingress_endpoints, pids))
    (raw, raw_pids), (typed, typed_pids) = clusters
    return {
        "raw": Load(stack.enter_context(HandEchoSession(raw, SIZE_BYTES)), raw_pids),
        "typed": Load(stack.enter_context(TypedEchoSession(typed, SIZE_BYTES)), typed_pids),
        "request": Load(stack.enter_context(RequestSession(raw)), raw_pids),
        "typed request": Load(stack.enter_context(TypedRequestSession(typed)), typed_pids),
    }


def _longer_percent(base: list[dict[str, float]], other: list[dict[str, float]]) -> dict[str, float]:
    return {name: _median_percent([one[name] for one in base], [one[name] for one in other]) for name in SHOWN}


def _median_percent(base: list[float], other: list[float]) -> float:
    """Return by how much `other` is above `base`, in percent: the median of the pairs."""
    return round(median(100 * one / of - 100 for of, one in zip(base, other, strict=True)), 1)


def show_requests(console: Console, figures: Figures) -> None:
    """Print the figures if they are there."""
    columns = ("Python client, sync none", "messages a second", "processor us", "rtt p50 us", "rtt p99 us")
    table = Table(*columns, box=None)
    for kind, found in figures.get("requests", {}).items():
        trips = found["rtt_us"]
        rate, cpu = f"{found['msgs_per_s']:,}", f"{found['cpu_us']:g}"
        table.add_row(kind, rate, cpu, f"{trips['p50']:g}", f"{trips['p99']:g}")
    if not table.row_count:
        return
    cost = figures["request_cost_percent"]
    table.add_row("request to raw, median of pairs", "", "", f"{cost['p50']:+g} %", f"{cost['p99']:+g} %")
    for kind, cost in figures["typed_cost_percent"].items():
        rate, cpu = f"{cost['msgs_per_s']:+g} %", f"{cost['cpu']:+g} %"
        table.add_row(f"{TYPED[kind]} to {kind}", rate, cpu, f"{cost['p50']:+g} %", f"{cost['p99']:+g} %")
    console.print(table)
