"""`ordo bench requests`: what requests cost beside raw messages, in turn on one cluster, by the same Python client."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from hdrh.histogram import HdrHistogram

from ordo.bench.loads.echo_session import EchoSession, echo_settings
from ordo.bench.loads.latency import new_histogram, percentiles_us, record
from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.closing import Closing

SERVICE = "ordo.bench.loads.answering:Answering"
SHOWN = ("p50", "p99")
BATCH_LENGTH = 4_096


class RequestSession(Closing):
    """Makes requests of one size, and takes their answers."""

    def __init__(self, ingress_endpoints: Mapping[int, str], size_bytes: int) -> None:
        self._client = ClusterClient(dict(ingress_endpoints), settings=echo_settings())
        self._payload = bytes(size_bytes)

    def close(self) -> None:
        self._client.close()

    def round_trips(self, count: int) -> HdrHistogram:
        """`count` requests, one after the other."""
        times_ns = []
        for _ in range(count):
            start_ns = time.monotonic_ns()
            self._client.request(self._payload)
            times_ns.append(time.monotonic_ns() - start_ns)
        histogram = new_histogram()
        record(histogram, times_ns)
        return histogram

    def batches(self, count: int) -> float:
        """Seconds for `count` requests, in batches of BATCH_LENGTH."""
        start_ns = time.monotonic_ns()
        for first in range(0, count, BATCH_LENGTH):
            self._client.request_many([self._payload] * min(BATCH_LENGTH, count - first))
        return (time.monotonic_ns() - start_ns) / 1e9


def measure_requests(
    size_bytes: int, *, rounds: int, round_trip_count: int, message_count: int, window: int
) -> dict[str, Any]:
    """Medians of `rounds`, in each of which raw messages and requests take turns; nothing is synced.

    `requests`: by kind, round trips in us and messages a second. `request_cost_percent`: by percentile, what a round
    trip takes longer, the median over the rounds.
    """
    trips: dict[str, list[dict[str, float]]] = {"raw": [], "request": []}
    rates: dict[str, list[float]] = {"raw": [], "request": []}
    with LocalCluster(SERVICE, sync="none") as cluster:
        cluster.await_leader()
        with (
            EchoSession(cluster.ingress_endpoints, size_bytes) as raw,
            RequestSession(cluster.ingress_endpoints, size_bytes) as requests,
        ):
            for session in (raw, requests):
                session.round_trips(round_trip_count // 10)
            for _ in range(rounds):
                trips["raw"].append(percentiles_us(raw.round_trips(round_trip_count)))
                trips["request"].append(percentiles_us(requests.round_trips(round_trip_count)))
                rates["raw"].append(message_count / raw.pipelined(message_count, window))
                rates["request"].append(message_count / requests.batches(message_count))
    pairs = list(zip(trips["raw"], trips["request"], strict=True))
    return {
        "requests": {
            kind: {
                "rtt_us": {name: round(median(one[name] for one in trips[kind]), 1) for name in SHOWN},
                "msgs_per_s": round(median(rates[kind])),
            }
            for kind in trips
        },
        "request_cost_percent": {
            name: round(median(100 * one[name] / other[name] - 100 for other, one in pairs), 1) for name in SHOWN
        },
    }
