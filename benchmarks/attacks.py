"""What a flood of datagrams from one source costs a cluster: echoes a second while it lasts, beside those without it.

    python -m benchmarks.attacks [--rate 50000] [--seconds 3] [--rounds 5] [--json out.json]

Three nodes and their client on this machine. A process of its own sends `rate` datagrams a second, by turns to the five
ports of the leader: set-ups of ever new streams, NAKs, status messages, connect requests, queries and first fragments
of messages in streams of its own, or a mix of all. It takes processor time from the cluster, which no attacker
elsewhere would; so the same flood also goes to a socket that nobody reads, and what an attack costs is told against
that, both in turns, and the medians count. What the leader itself spends, beside and under it, is told in cores: that
varies less than the echoes.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from cluster.wire import codecs, ordo_codecs
from cluster.wire.streams import INGRESS_STREAM_ID
from deploy.launcher import LocalCluster
from ordo.bench.machine import describe_machine
from ordo.bench.native_load import NativeLoad
from ordo.bench.node_cost import running_ns
from runtime.console import output_console

SERVICE = "ordo.bench.echo:Echo"
PORTS = 5
BATCH = 50
WINDOW = 512
CHUNK = 5_000
SIZE_BYTES = 32
TERM_LENGTH = 65536
UNFRAGMENTED, FIRST_FRAGMENT = 0xC0, 0x80
ATTACKER = "127.0.0.2"
"""Another address than those of members and client: what is bounded for each source must be the attacker's own."""


def set_up(number: int) -> bytes:
    stream_id = (INGRESS_STREAM_ID, 108, 100)[number % 3]
    return struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, 0, number, stream_id, 0, 0, TERM_LENGTH, 1408, 0)


def nak(number: int) -> bytes:
    return struct.pack("<iBBHiiiii", 28, 0, 0, 2, number, INGRESS_STREAM_ID, 0, 0, 1376)


def status_message(number: int) -> bytes:
    return struct.pack("<iBBHiiiiiq", 36, 0, 0, 3, number, INGRESS_STREAM_ID, 0, 0, 131072, number)


def in_own_stream(number: int, message: bytes, flags: int = UNFRAGMENTED) -> bytes:
    """The first frame of a new stream, by turns with its SETUP."""
    session_id, is_data = divmod(number, 2)
    if not is_data:
        return struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, 0, session_id, INGRESS_STREAM_ID, 0, 0, TERM_LENGTH, 1408, 0)
    frame = struct.pack("<iBBHiiiiq", 32 + len(message), 0, flags, 1, 0, session_id, INGRESS_STREAM_ID, 0, 0) + message
    return frame.ljust(-(-len(frame) // 32) * 32, b"\0")


def query(number: int) -> bytes:
    message = ordo_codecs.QUERY.encode(
        cluster_session_id=number, correlation_id=number, min_position=-1, consistency=0, payload=b"query"
    )
    return in_own_stream(number, message)


def fragment(number: int) -> bytes:
    """Of a message that never ends."""
    return in_own_stream(number, bytes(1376 - 32), FIRST_FRAGMENT)


def connect_request(number: int) -> bytes:
    message = codecs.SESSION_CONNECT_REQUEST.encode(
        correlation_id=number,
        response_stream_id=102,
        version=codecs.CLIENT_PROTOCOL_VERSION,
        response_channel="aeron:udp?endpoint=127.0.0.1:9",
        encoded_credentials=b"",
        client_info="",
    )
    return in_own_stream(number, message)


def mixed(number: int) -> bytes:
    return (set_up, nak, status_message, connect_request, query, fragment)[number % 6](number // 6)


KINDS: dict[str, Callable[[int], bytes]] = {
    "set-ups": set_up,
    "NAKs": nak,
    "status messages": status_message,
    "connect requests": connect_request,
    "queries": query,
    "fragments": fragment,
    "all of them": mixed,
}


def flood(kind: str, ports: list[int], rate: int) -> None:
    """Sends until it is ended; says every second how many went out."""
    make, numbers = KINDS[kind], count()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind((ATTACKER, 0))
        begin_s = told_s = time.monotonic()
        sent = told = 0
        while True:
            for number in (next(numbers) for _ in range(BATCH)):
                own.sendto(make(number), ("127.0.0.1", ports[number % len(ports)]))
            sent += BATCH
            now_s = time.monotonic()
            if now_s - told_s >= 1.0:
                print(round((sent - told) / (now_s - told_s)), flush=True)
                told, told_s = sent, now_s
            if (ahead_s := begin_s + sent / rate - now_s) > 0:
                time.sleep(ahead_s)


@contextmanager
def flooded(kind: str, ports: list[int], rate: int) -> Iterator[list[int]]:
    """While a process floods; the rates that it reached, when it is over."""
    reached: list[int] = []
    command = [sys.executable, "-m", "benchmarks.attacks", "--flood", kind, "--rate", str(rate)]
    command += ["--ports", ",".join(map(str, ports))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield reached
    finally:
        process.terminate()
        out, _ = process.communicate()
        reached += [int(line) for line in out.split()]


def sustained(load: NativeLoad, leader_pid: int, seconds: float) -> tuple[float, float]:
    """Echoes a second, and how much of a core the leader took meanwhile."""
    before_ns, began_ns = running_ns(leader_pid), time.monotonic_ns()
    echoes_per_s = load.sustained(seconds, CHUNK, WINDOW)
    return echoes_per_s, (running_ns(leader_pid) - before_ns) / (time.monotonic_ns() - began_ns)


def measure(rate: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Runs all kinds, each in turns with the same flood beside the cluster."""
    figures: dict[str, Any] = {"machine": describe_machine(), "datagrams_per_s_wanted": rate}
    with (
        LocalCluster(SERVICE) as cluster,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
        NativeLoad(cluster.ingress_endpoints, SIZE_BYTES) as load,
    ):
        sink.bind(("127.0.0.1", 0))
        leader = cluster.await_leader()
        first = int(cluster.ingress_endpoints[leader].rpartition(":")[2])
        load.sustained(1.0, CHUNK, WINDOW)
        figures["echoes_per_s"] = round(load.sustained(seconds, CHUNK, WINDOW))
        pid = cluster.pid(leader)
        for kind in KINDS:
            beside, under, reached = [], [], []
            for _ in range(rounds):
                with flooded(kind, [sink.getsockname()[1]], rate):
                    beside.append(sustained(load, pid, seconds))
                with flooded(kind, list(range(first, first + PORTS)), rate) as rates:
                    under.append(sustained(load, pid, seconds))
                reached += rates
            figures[kind] = _row(beside, under) | {"datagrams_per_s": round(median(reached or [0]))}
        figures["leader_stayed"] = cluster.await_leader() == leader
    return figures


def _row(beside: list[tuple[float, float]], under: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians of the rounds; the cost is the median of what each round cost."""
    costs = [100 * (1 - flooded_rate / rate) for (rate, _), (flooded_rate, _) in zip(beside, under, strict=True)]
    return {
        "echoes_per_s_beside": round(median(rate for rate, _ in beside)),
        "echoes_per_s_under": round(median(rate for rate, _ in under)),
        "cost_percent": round(median(costs), 1),
        "cost_percent_of_rounds": [round(cost, 1) for cost in costs],
        "leader_cores_beside": round(median(cores for _, cores in beside), 2),
        "leader_cores_under": round(median(cores for _, cores in under), 2),
    }


def show(figures: dict[str, Any]) -> None:
    """Prints a table, a line for each kind."""
    table = Table("flood", "datagrams/s", "echoes/s beside", "echoes/s under", "cost", "leader's cores", box=None)
    for kind in KINDS:
        found = figures[kind]
        table.add_row(
            kind,
            *(f"{found[name]:,}" for name in ("datagrams_per_s", "echoes_per_s_beside", "echoes_per_s_under")),
            f"{found['cost_percent']} % ({min(rounds := found['cost_percent_of_rounds'])} to {max(rounds)})",
            f"{found['leader_cores_beside']} / {found['leader_cores_under']}",
        )
    output_console().print(table)
    print(f"without a flood: {figures['echoes_per_s']:,} echoes/s; leader stayed: {figures['leader_stayed']}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--flood", choices=list(KINDS))
    parser.add_argument("--ports")
    options = parser.parse_args()
    if options.flood:
        flood(options.flood, [int(port) for port in options.ports.split(",")], options.rate)
    figures = measure(options.rate, options.seconds, options.rounds)
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
