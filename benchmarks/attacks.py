"""What a flood of datagrams from one source costs a cluster: echoes a second while it lasts, beside those without it.

    python -m benchmarks.attacks [--rate 50000] [--seconds 3] [--rounds 5] [--json out.json]

Three nodes and their client on this machine. A process of its own sends `rate` datagrams a second, by turns to the five
ports of the leader: set-ups of ever new streams, NAKs, status messages, connect requests, queries and first fragments
of messages in streams of its own, or a mix of all. It takes processor time from the cluster, which no attacker
elsewhere would; so the same flood also goes to a socket that nobody reads, and what an attack costs is told against
that, both in turns, and the medians count. What the leader itself spends, beside and under it, is told in cores: that
varies less than the echoes. Least of all varies what a datagram of the flood costs the leader while nobody else asks
anything of it, in processor time of its own and of the kernel that hands it the datagram.

One more attacker has a single stream, in which it sends connect requests of operators, each of which costs a member a
publication, as fast as flow control lets it.
"""

from __future__ import annotations

import argparse
import json
import os
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
from transport.client_transport import ClientTransport

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


ONE_STREAM = "one stream"
KINDS: dict[str, Callable[[int], bytes]] = {
    "set-ups": set_up,
    "NAKs": nak,
    "status messages": status_message,
    "connect requests": connect_request,
    "queries": query,
    "fragments": fragment,
    "all of them": mixed,
}


def flood_one_stream(port: int) -> None:
    """Sends connect requests of operators in one stream until it is ended; says every second how many went out."""
    transport = ClientTransport.embedded("attacker")
    channel = f"aeron:udp?endpoint=127.0.0.1:{port}|term-length=256k|interface={ATTACKER}"
    publication = transport.client.add_exclusive_publication(channel, INGRESS_STREAM_ID)
    message = ordo_codecs.OPERATOR_CONNECT.encode(correlation_id=1, response_port=9, credentials=b"")
    sent, told_s = 0, time.monotonic()
    while True:
        for _ in range(BATCH):
            sent += publication.offer(message) > 0
        transport.drive()
        if time.monotonic() - told_s >= 1.0:
            print(sent, flush=True)
            sent, told_s = 0, time.monotonic()


def flood(kind: str, ports: list[int], rate: int) -> None:
    """Sends until it is ended; says every second how many went out."""
    if kind == ONE_STREAM:
        flood_one_stream(ports[0])
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


def split_times_s(pid: int) -> tuple[float, float]:
    """Processor time of a process, in seconds: its own, and the kernel's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(fields[11]) / ticks, int(fields[12]) / ticks


def rest(load: NativeLoad, seconds: float) -> None:
    """Sends nothing for a while; sessions are kept alive."""
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        load.keep()
        time.sleep(0.05)


def spent_on_each(
    load: NativeLoad, kind: str, ports: list[int], rate: int, pid: int, seconds: float
) -> tuple[float, float]:
    """What a datagram of a flood costs a leader that has nothing else to do, in us: its own time, and the kernel's."""
    before = split_times_s(pid)
    rest(load, seconds)
    idle = [(now - then) / seconds for now, then in zip(split_times_s(pid), before, strict=True)]
    with flooded(kind, ports, rate) as rates:
        before, began_s = split_times_s(pid), time.monotonic()
        rest(load, seconds)
        after, passed_s = split_times_s(pid), time.monotonic() - began_s
    count = max(median(rates or [rate]), 1)
    own_us, kernel_us = (
        1e6 * ((now - then) / passed_s - quiet) / count for now, then, quiet in zip(after, before, idle, strict=True)
    )
    return round(own_us, 2), round(kernel_us, 2)


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
        ports = list(range(first, first + PORTS))
        figures[ONE_STREAM] = _one_stream(load, ports, rate, pid, seconds, rounds)
        for kind in KINDS:
            beside, under, reached = [], [], []
            for _ in range(rounds):
                with flooded(kind, [sink.getsockname()[1]], rate):
                    beside.append(sustained(load, pid, seconds))
                with flooded(kind, ports, rate) as rates:
                    under.append(sustained(load, pid, seconds))
                reached += rates
            own_us, kernel_us = spent_on_each(load, kind, ports, rate, pid, seconds)
            figures[kind] = _row(beside, under) | {
                "datagrams_per_s": round(median(reached or [0])),
                "leader_us_per_datagram": own_us,
                "kernel_us_per_datagram": kernel_us,
            }
        figures["leader_stayed"] = cluster.await_leader() == leader
    return figures


def _one_stream(load: NativeLoad, ports: list[int], rate: int, pid: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Beside nothing, for nowhere else would take its stream."""
    beside, under, reached = [], [], []
    for _ in range(rounds):
        beside.append(sustained(load, pid, seconds))
        with flooded(ONE_STREAM, ports, rate) as rates:
            under.append(sustained(load, pid, seconds))
        reached += rates
    return _row(beside, under) | {"messages_per_s": round(median(reached or [0]))}


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
    columns = ("flood", "datagrams/s", "echoes/s beside", "echoes/s under", "cost", "leader's cores", "us a datagram")
    table = Table(*columns, box=None)
    for kind in KINDS:
        found = figures[kind]
        table.add_row(
            kind,
            *(f"{found[name]:,}" for name in ("datagrams_per_s", "echoes_per_s_beside", "echoes_per_s_under")),
            f"{found['cost_percent']} % ({min(rounds := found['cost_percent_of_rounds'])} to {max(rounds)})",
            f"{found['leader_cores_beside']} / {found['leader_cores_under']}",
            f"{found['leader_us_per_datagram']} + {found['kernel_us_per_datagram']} of the kernel",
        )
    output_console().print(table)
    found = figures[ONE_STREAM]
    print(
        f"one stream of operators' connects, {found['messages_per_s']:,}/s taken: "
        f"{found['echoes_per_s_under']:,} echoes/s, {found['echoes_per_s_beside']:,} without it"
    )
    print(f"without a flood: {figures['echoes_per_s']:,} echoes/s; leader stayed: {figures['leader_stayed']}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--flood", choices=[*KINDS, ONE_STREAM])
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
