"""`ordo kafka` beside real Kafka brokers, with the same client, in turns: `python -m benchmarks.kafka --members 3`.

As many members as brokers: with three of each, a topic has the replication factor 3 and min.insync.replicas 2. Both are
warmed up, by windows that do not count, until three of them agree within 3 %; one that never does is marked. For each,
the table has the median rate, what a message costs each kind of process in time on a processor, and how long one takes
from the call that sends it to the poll that has it, at a fixed rate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.kafka_broker import VERSION, KafkaBrokers
from benchmarks.kafka_client import CLIENT, PAYLOAD_BYTES, TIMEOUT_S, Figures, Load
from benchmarks.pairs import WARM_UPS_MAX, warm_up
from benchmarks.processor import Groups, with_children
from ordo.deploy.launcher import ROOT, LocalCluster

MESSAGES = 300_000
RATE = 500
SECONDS = 6.0
ROUNDS = 5
ORDO, KAFKA = "ordo", "kafka"
DOOR, NODES, SERVICES, BROKERS = "door", "members", "services", "brokers"
KINDS = (CLIENT, DOOR, NODES, SERVICES, BROKERS)


class Contender(NamedTuple):
    """Where the client goes, and the processes that serve it there."""

    address: str
    groups: Groups


class Result(NamedTuple):
    """What was found of one contender."""

    runs: Sequence[Figures]
    is_steady: bool


@contextmanager
def ordo_door(folder: Path, member_count: int, sync: Literal["commit", "none"]) -> Iterator[Contender]:
    """Run a cluster with a door."""
    with LocalCluster("ordo:Topics", root=folder / "cluster", member_count=member_count, sync=sync) as cluster:
        cluster.await_leader(60)
        words = ["kafka", "--endpoints", ",".join(cluster.ingress_endpoints.values()), "--listen", "127.0.0.1:0"]
        log_path = folder / "door.log"
        with log_path.open("wb") as log:
            door = subprocess.Popen([sys.executable, "-m", "ordo.cli", *words], cwd=ROOT, stdout=log, stderr=log)
        try:
            address = cluster.await_value(lambda: _address_in(log_path), "the door's address")
            nodes = [cluster.pid(member_id) for member_id in cluster.ingress_endpoints]
            services = [child for node in nodes for child in with_children(node)[1:]]
            yield Contender(address, {DOOR: [door.pid], NODES: nodes, SERVICES: services})
        finally:
            door.kill()
            door.wait()


def _address_in(log_path: Path) -> str | None:
    lines = [line for line in log_path.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    found = (one for one in map(json.loads, lines) if one["event"] == "kafka.started")
    return next((str(one["address"]) for one in found), None)


def run_client(contender: Contender, topic: str, load: Load) -> Figures:
    """Run the client once, in a process of its own."""
    words = [contender.address, topic, json.dumps(load), json.dumps(contender.groups)]
    command = [sys.executable, "-m", "benchmarks.kafka_client", *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=4 * TIMEOUT_S)
    return Figures(*json.loads(done.stdout))


def measure(contenders: dict[str, Contender], load: Load, rounds: int, warm_ups_max: int) -> dict[str, Result]:
    """Warm up each; then run the client against each in turn, so that what else the machine does falls on all alike."""

    def window_of(contender: Contender) -> Callable[[], float]:
        only_fast = load._replace(seconds=0.0)
        return lambda: run_client(contender, "warm-up", only_fast).messages_per_second

    steady = {name: warm_up(window_of(one), warm_ups_max) for name, one in contenders.items()}
    runs: dict[str, list[Figures]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, one in contenders.items():
            runs[name].append(run_client(one, f"bench-{number}", load))
    return {name: Result(runs[name], steady[name]) for name in contenders}


def show(found: dict[str, Result]) -> str:
    """Return the medians as a table, and what they are of Kafka's."""
    names = {ORDO: "ordo kafka", KAFKA: f"Kafka {VERSION}"}
    lines = ["| | messages a second | p50 | p99 | " + " | ".join(f"us {kind}" for kind in KINDS) + " |"]
    lines.append("|" + "---|" * (4 + len(KINDS)))
    for name, one in found.items():
        rate, p50_ms, p99_ms = _medians(one)
        costs = [_cost(one.runs, kind) for kind in KINDS]
        title = names[name] + ("" if one.is_steady else " *")
        lines.append(f"| {title} | {rate:,.0f} | {p50_ms:.2f} ms | {p99_ms:.2f} ms | " + " | ".join(costs) + " |")
    times = [own / other for own, other in zip(_medians(found[ORDO]), _medians(found[KAFKA]), strict=True)]
    lines.append("| the first by the second | " + " | ".join(f"{one:.2f}" for one in times) + " |" + " |" * len(KINDS))
    return "\n".join(lines)


def _medians(found: Result) -> tuple[float, float, float]:
    """Return the messages a second, p50 and p99."""
    rates, p50s, p99s, _ = zip(*found.runs, strict=True)
    return statistics.median(rates), statistics.median(p50s), statistics.median(p99s)


def _cost(runs: Sequence[Figures], kind: str) -> str:
    each = [one.microseconds[kind] for one in runs if kind in one.microseconds]
    return f"{statistics.median(each):.2f}" if each else "-"


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, and write all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rate", type=int, default=RATE, help="of the records that are timed, a second")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--warm-ups-max", type=int, default=WARM_UPS_MAX, help="windows that do not count, at most")
    parser.add_argument("--members", type=int, default=1, help="and as many brokers")
    parser.add_argument(
        "--sync", choices=("commit", "none"), default="none", help="none: left to the kernel, as Kafka does"
    )
    parser.add_argument("--json", help="file for all figures")
    chosen = parser.parse_args(arguments)
    load = Load(chosen.messages, chosen.rate, chosen.seconds)
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaBrokers(Path(folder) / "kafka", chosen.members) as brokers,
        ordo_door(Path(folder), chosen.members, chosen.sync) as door,
    ):
        contenders = {ORDO: door, KAFKA: Contender(brokers.address, {BROKERS: brokers.pids})}
        found = measure(contenders, load, chosen.rounds, chosen.warm_ups_max)
    print(
        f"{PAYLOAD_BYTES} bytes, acks=all, one partition, {chosen.members} members or brokers, sync={chosen.sync}; "
        f"times at {load.rate} a second; load {os.getloadavg()[0]:.1f}; *: never steady"
    )
    print(show(found))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
