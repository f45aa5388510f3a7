"""What programs outside cost a cluster, and how fast they are: readers of its log, and an application.

    python -m benchmarks.readers [--readers 20] [--seconds 10] [--catch-up-mb 512] [--json out.json]

Three nodes and all their clients on this machine, so readers also take processor time from the cluster, which those
elsewhere would not.

`readers`: echoes a second (as many on the way as fit a window) and round trips (one on the way), without readers, then
with so many that follow the log live, in turn over the three nodes (who begins at the leader goes on at another); and
how far the last of them was behind its end when the load ended.
`node_cost`: processor time of the three nodes for each message of a steady load, without readers, with readers that
share the nodes' live streams, and with as many that have replays of their own. It says what readers cost a node,
whatever they take from the same processors themselves.
`full_load`: bursts at full load beside readers that cost as little as can be (`benchmarks.frame_readers`), by turns
without them: echoes a second, round trips, and what each node spends on a message.
`catch_up`: one reader begins at the log's start: frames as they are (`RangeReader`), and entries one by one
(`LogReader`).
`application`: client, cluster, application, log, client, beside a service inside that answers the same; all with the
Python client, which waits at its sockets, one message on the way. The client reads the application's output in the log
(`application`), or hears it as the message that the leader sends it (`reply`).
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from hdrh.histogram import HdrHistogram

from benchmarks.frame_readers import measure_full_load
from ordo.bench.loads.latency import new_histogram, percentiles_us, record
from ordo.bench.loads.native_load import NativeLoad
from ordo.bench.machine import describe_machine
from ordo.bench.node_cost import running_ns
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.reader import LogReader
from ordo.follow.recordings.ranges import RangeReader, survey
from tools.arguments import writable_file

ECHO = "ordo.bench.loads.echo:Echo"
ORDERING = "ordo:Ordering"
SIZE_BYTES = 32
CATCH_UP_SIZE_BYTES = 1024
WINDOW = 512
CHUNK = 5_000
READERS_PER_PROCESS = 5
WARM_UP = 50
PARK_S = 0.001
ANSWER_TIMEOUT_S = 20.0
STEADY_CHUNK = 250
STEADY_CHUNKS_PER_S = 20
Figures = dict[str, object]


def addresses_of(cluster: LocalCluster) -> list[str]:
    """The archive endpoints of the members."""
    return [archive_endpoint(one) for one in cluster.ingress_endpoints.values()]


def start_cluster(service: str, readers: int) -> LocalCluster:
    """Short terms: each reader takes three of them in the node's shared memory."""
    return LocalCluster(service, cluster={"log_term_length": "4m"}, node={"max_replays": readers + 4})


# Readers


def follow(addresses: list[str], first: int, count: int, kinds: list[EntryKind] | None) -> None:
    """Follows the log live with some readers; says where they are for every line on standard input, until its end.
    Readers of chosen `kinds` have replays of their own."""
    with ExitStack() as stack:
        readers = []
        for number in range(first, first + count):
            turn = number % len(addresses)
            nodes = addresses[turn:] + addresses[:turn]
            readers.append(stack.enter_context(LogReader(nodes, from_position="live", kinds=kinds)))
        while True:
            count = sum(reader.poll(ignore) for reader in readers)
            waited_for: list[Any] = [sys.stdin, *(reader.descriptor for reader in readers)]
            if sys.stdin in select.select(waited_for, [], [], 0 if count else PARK_S)[0]:
                if not sys.stdin.readline():
                    return
                places = [(reader.position or 0, reader.source is not None, reader.is_live) for reader in readers]
                print(json.dumps(places), flush=True)


def ignore(entry: LogEntry) -> None:
    """Readers take entries and do nothing with them."""


@contextmanager
def followed(addresses: list[str], count: int, *, shared: bool = True) -> Iterator[list[subprocess.Popen[str]]]:
    """While so many readers follow, by the nodes' live streams or by replays of their own."""
    processes = []
    try:
        for first in range(0, count, READERS_PER_PROCESS):
            command = [sys.executable, "-m", "benchmarks.readers", "--follow", ",".join(addresses)]
            command += ["--first", str(first), "--readers", str(min(READERS_PER_PROCESS, count - first))]
            command += [] if shared else ["--own-replays"]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        while not all(one.is_live if shared else one.has_node for one in find_places(processes)):
            time.sleep(0.1)
        yield processes
    finally:
        for process in processes:
            process.communicate()


class Place(NamedTuple):
    """Where a reader is, and what it reads."""

    position: int
    has_node: bool
    is_live: bool


def find_places(processes: list[subprocess.Popen[str]]) -> list[Place]:
    found: list[Place] = []
    for process in processes:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        assert process.stdout is not None
        found += [Place(*one) for one in json.loads(process.stdout.readline())]
    return found


def measure_readers(count: int, seconds: float) -> Figures:
    round_trips = max(200, round(seconds * 300))
    with start_cluster(ECHO, count) as cluster, NativeLoad(cluster.ingress_endpoints, SIZE_BYTES) as load:
        cluster.await_leader(60)
        addresses = addresses_of(cluster)
        load.sustained(1.0, CHUNK, WINDOW)
        alone = load.sustained(seconds, CHUNK, WINDOW)
        alone_us = percentiles_us(load.round_trips(round_trips))
        with followed(addresses, count) as processes:
            beside = load.sustained(seconds, CHUNK, WINDOW)
            places = find_places(processes)
            end = survey(addresses).end_position
            beside_us = percentiles_us(load.round_trips(round_trips))
    return {
        "readers": count,
        "echoes_per_s": round(alone),
        "echoes_per_s_with_readers": round(beside),
        "throughput_lost_percent": round(100 * (1 - beside / alone), 1),
        "round_trip_us": alone_us,
        "round_trip_us_with_readers": beside_us,
        "lag_bytes_max": max(end - one.position for one in places),
        "readers_live_at_the_end": sum(one.is_live for one in places),
    }


# What they cost the nodes


def measure_node_cost(count: int, seconds: float) -> Figures:
    with start_cluster(ECHO, count) as cluster:
        cluster.await_leader(60)
        addresses = addresses_of(cluster)
        alone = measure_cost_us(cluster, seconds)
        with followed(addresses, count):
            shared = measure_cost_us(cluster, seconds)
        with followed(addresses, count, shared=False):
            own = measure_cost_us(cluster, seconds)
    return {
        "messages_per_s": STEADY_CHUNK * STEADY_CHUNKS_PER_S,
        "readers": count,
        "nodes_us_per_message": round(alone, 2),
        "nodes_us_per_message_live_stream": round(shared, 2),
        "nodes_us_per_message_own_replays": round(own, 2),
    }


def apply_steady_load(load: NativeLoad, seconds: float) -> int:
    """So much that readers keep up; how many messages."""
    begin_s, chunks = time.monotonic(), 0
    while (now_s := time.monotonic()) < begin_s + seconds:
        if now_s >= begin_s + chunks / STEADY_CHUNKS_PER_S:
            load.pipelined(STEADY_CHUNK, WINDOW)
            chunks += 1
        else:
            time.sleep(0.001)
    return chunks * STEADY_CHUNK


def measure_cost_us(cluster: LocalCluster, seconds: float) -> float:
    """Processor time of the nodes, in us, for each message; that of the kernel's loopback is in it."""
    pids = [cluster.pid(member_id) for member_id in cluster.member_ids]
    with NativeLoad(cluster.ingress_endpoints, SIZE_BYTES) as load:
        apply_steady_load(load, 0.5)
        before_ns = sum(map(running_ns, pids))
        messages = apply_steady_load(load, seconds)
        return (sum(map(running_ns, pids)) - before_ns) / 1000 / messages


def measure_load_beside(count: int, seconds: float) -> Figures:
    with start_cluster(ECHO, count) as cluster:
        return measure_full_load(cluster, [0, 1, count], seconds, SIZE_BYTES)


# Catching up


def measure_catch_up(megabytes: int) -> Figures:
    with start_cluster(ECHO, 2) as cluster:
        cluster.await_leader(60)
        with NativeLoad(cluster.ingress_endpoints, CATCH_UP_SIZE_BYTES) as load:
            wanted = (megabytes << 20) // CATCH_UP_SIZE_BYTES
            for _ in range(0, wanted, CHUNK):
                load.pipelined(min(CHUNK, wanted), WINDOW)
        addresses = addresses_of(cluster)
        end = survey(addresses).end_position
        begin_s = time.monotonic()
        with RangeReader(addresses, 0, end) as frames:
            length = sum(len(block) for _, block in frames)
        frames_s = time.monotonic() - begin_s
        assert length >= end
        begin_s = time.monotonic()
        with LogReader(addresses) as reader:
            count = sum(1 for _ in reader.entries(until_position=end))
        entries_s = time.monotonic() - begin_s
    return {
        "log_mb": round(end / 1e6),
        "frames_mb_per_s": round(end / 1e6 / frames_s),
        "entries_mb_per_s": round(end / 1e6 / entries_s),
        "entries_per_s": round(count / entries_s),
    }


# Through an application


def measure_application(count: int) -> Figures:
    with start_cluster(ECHO, 2) as cluster:
        cluster.await_leader(60)
        inside = percentiles_us(record_replies(cluster, count))
    with start_cluster(ORDERING, 2) as cluster, tempfile.TemporaryDirectory() as folder:
        cluster.await_leader(60)
        endpoints = ",".join(cluster.ingress_endpoints.values())
        command = [sys.executable, "-P", "-m", "ordo.cli", "app", "--service", ECHO, "--group", "echo"]
        application = subprocess.Popen([*command, "--folder", folder, "--endpoints", endpoints])
        try:
            outside = percentiles_us(record_outside(cluster, count))
            replies = percentiles_us(record_replies(cluster, count))
        finally:
            application.terminate()
            application.wait()
    return {
        "inside_us": inside,
        "application_us": outside,
        "reply_us": replies,
        "times_p50": round(outside["p50"] / inside["p50"], 2),
        "reply_times_p50": round(replies["p50"] / inside["p50"], 2),
    }


def record_replies(cluster: LocalCluster, count: int) -> HdrHistogram:
    answers: list[int] = []
    histogram = new_histogram()

    def on_message(session_id: int, timestamp: int, payload: bytes) -> None:
        answers.append(int(payload))

    with ClusterClient(cluster.ingress_endpoints, on_message=on_message) as client:
        for number in range(WARM_UP + count):
            took_ns = measure_turn(client, number, answers, client.poll, [client.descriptor])
            record(histogram, [took_ns] if number >= WARM_UP else [])
    return histogram


def record_outside(cluster: LocalCluster, count: int) -> HdrHistogram:
    answers: list[int] = []
    histogram = new_histogram()
    addresses = addresses_of(cluster)
    reader = LogReader(addresses, from_position="live", kinds=[EntryKind.OUTPUT])
    with ClusterClient(cluster.ingress_endpoints) as client, reader:
        while reader.position is None or reader.source is None:
            reader.poll(ignore)

        def turn() -> int:
            return client.poll() + reader.poll(lambda entry: answers.append(int(entry.payload)))

        for number in range(WARM_UP + count):
            took_ns = measure_turn(client, number, answers, turn, [client.descriptor, reader.descriptor])
            record(histogram, [took_ns] if number >= WARM_UP else [])
    return histogram


def measure_turn(
    client: ClusterClient, number: int, answers: list[int], turn: Callable[[], int], descriptors: list[Any]
) -> int:
    """One round trip, in ns. An answer may come twice in the log, where it was sent again."""
    begin_ns = time.monotonic_ns()
    client.send(b"%32d" % number)
    while number not in answers[-3:]:
        if not turn():
            select.select(descriptors, [], [], PARK_S)
        if time.monotonic_ns() - begin_ns > ANSWER_TIMEOUT_S * 1e9:
            raise TimeoutError(f"message {number} was not answered in {ANSWER_TIMEOUT_S:g} s")
    return time.monotonic_ns() - begin_ns


def measure(readers: int, seconds: float, catch_up_mb: int, round_trips: int) -> Figures:
    """All of it, each part printed as soon as it is there."""
    figures: Figures = {"machine": describe_machine()}
    parts: dict[str, Callable[[], Figures]] = {
        "readers": lambda: measure_readers(readers, seconds),
        "node_cost": lambda: measure_node_cost(readers, seconds),
        "full_load": lambda: measure_load_beside(readers, seconds),
        "catch_up": lambda: measure_catch_up(catch_up_mb),
        "application": lambda: measure_application(round_trips),
    }
    for name, part in parts.items():
        figures[name] = part()
        print(f"{name}: {json.dumps(figures[name])}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--catch-up-mb", type=int, default=512)
    parser.add_argument("--round-trips", type=int, default=3000)
    parser.add_argument("--json", type=writable_file)
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--own-replays", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        kinds = list(EntryKind) if options.own_replays else None
        follow(options.follow.split(","), options.first, options.readers, kinds)
        return
    figures = measure(options.readers, options.seconds, options.catch_up_mb, options.round_trips)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
