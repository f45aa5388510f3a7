"""`ordo bench encryption`: what encryption costs, by the same load on a plain and on an encrypted cluster in turn."""

from __future__ import annotations

from statistics import median
from typing import Any

from ordo.bench.loads.latency import percentiles_us
from ordo.bench.loads.native_load import NativeLoad
from ordo.deploy.launcher import LocalCluster

KINDS = {"plain": False, "encrypted": True}
SHOWN = ("p50", "p99")


def measure_encryption(
    service: str, sizes_bytes: tuple[int, ...], *, rounds: int, round_trip_count: int, message_count: int, window: int
) -> dict[str, Any]:
    """Medians of `rounds`, in each of which the two clusters run one after the other; nothing is synced.

    `encryption`: by kind, messages a second and round trips in us by size; `encryption_cost`: what is lost by size.
    """
    rates: dict[str, dict[str, list[float]]] = {kind: {str(size): [] for size in sizes_bytes} for kind in KINDS}
    trips: dict[str, dict[str, list[dict[str, float]]]] = {
        kind: {str(size): [] for size in sizes_bytes} for kind in KINDS
    }
    for _ in range(rounds):
        for kind, is_encrypted in KINDS.items():
            with LocalCluster(service, sync="none", service_mode="inline", encrypted=is_encrypted) as cluster:
                cluster.await_leader()
                for size in sizes_bytes:
                    with NativeLoad(cluster.ingress_endpoints, size, keys=cluster.client_keys) as load:
                        load.pipelined(message_count // 10, window)
                        rates[kind][str(size)].append(message_count / load.pipelined(message_count, window))
                        trips[kind][str(size)].append(percentiles_us(load.round_trips(round_trip_count)))
    figures = {
        kind: {
            "msgs_per_s": {size: round(median(found)) for size, found in rates[kind].items()},
            "rtt_us": {
                size: {name: round(median(one[name] for one in found), 1) for name in SHOWN}
                for size, found in trips[kind].items()
            },
        }
        for kind in KINDS
    }
    return {"encryption": figures, "encryption_cost": _cost(figures["plain"], figures["encrypted"])}


def _cost(plain: dict[str, Any], encrypted: dict[str, Any]) -> dict[str, Any]:
    """Return, by message size, the throughput lost in percent and the longer round trip in us."""
    return {
        size: {
            "throughput_lost_percent": round(100 - 100 * encrypted["msgs_per_s"][size] / rate, 1),
            "rtt_added_us": {
                name: round(encrypted["rtt_us"][size][name] - plain["rtt_us"][size][name], 1) for name in SHOWN
            },
        }
        for size, rate in plain["msgs_per_s"].items()
    }
