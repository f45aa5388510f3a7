"""What a flood of datagrams from one source costs a cluster: echoes a second while it lasts, beside those without it.

    python -m benchmarks.attacks [--rate 50000] [--seconds 3] [--rounds 5] [--json out.json]

Three nodes and their client on this machine. A process of its own sends `rate` datagrams a second, by turns to the five
ports of the leader: set-ups of ever new streams, streams that it keeps up, NAKs, status messages, connect requests,
queries and first fragments of messages in ever new streams, or a mix. It takes processor time from the cluster, which
no attacker elsewhere would; so the leader has the first core to itself, as far as this machine lets it (and goes first
there, for root), all others share the rest, and the same flood also goes to a socket that nobody reads. The three ways
go in turns, and the medians count. A round in which the leader changed is counted, and repeated.

What the flood takes of the leader's core is the processor time that the leader spent beyond what the echoes of that
round cost it while the flood went elsewhere: a leader that is busy loses so much of what it can do. What a datagram
costs a leader that has nothing else to do is split into its own time, and that of the kernel that hands it over.

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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from ordo.bench.loads.native_load import NativeLoad
from ordo.bench.machine import describe_machine
from ordo.bench.node_cost import running_ns
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.streams import INGRESS_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ClusterTimeoutError
from ordo.runtime.reporting.terminal import output_console
from ordo.transport.client.client_transport import ClientTransport
from tools.arguments import writable_file

SERVICE = "ordo.bench.loads.echo:Echo"
PORTS = 5
BATCH = 50
WINDOW = 512
CHUNK = 5_000
SIZE_BYTES = 32
BEHIND_MAX_S = 0.02
"""What a flood that was not let run makes up for; what is beyond is not sent at all, for no burst is what was asked."""
TERM_LENGTH = 65536
KEPT_UP = 6000
MESSAGES = 1000
"""That differ, of a kind: to make each anew would take the attacker too long."""
PORT_RUN = 12
"""Datagrams for one port before the next one: what belongs to a stream, of each kind of a mix, goes to one port."""
CORES = sorted(os.sched_getaffinity(0))
FIRST_CORE, OTHER_CORES = set(CORES[:1]), set(CORES[1:] or CORES)
FIRST_PRIORITY = -10
UNFRAGMENTED, FIRST_FRAGMENT = 0xC0, 0x80
ATTACKER = "127.0.0.2"
"""Another address than those of members and client: what is bounded for each source must be the attacker's own."""


def set_up(number: int) -> bytes:
    stream_id = (INGRESS_STREAM_ID, 108, 100)[number % 3]
    return struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, 0, number, stream_id, 0, 0, TERM_LENGTH, 1408, 0)


def kept_up(number: int) -> bytes:
    """Streams that are set up and then kept alive, as many as a host may have."""
    session_id, is_heartbeat = divmod(number % (2 * KEPT_UP), 2)
    if not is_heartbeat:
        return struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, 0, session_id, INGRESS_STREAM_ID, 0, 0, TERM_LENGTH, 1408, 0)
    return struct.pack("<iBBHiiiiq", 0, 0, UNFRAGMENTED, 1, 0, session_id, INGRESS_STREAM_ID, 0, 0)


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
    return in_own_stream(number, query_message(number % MESSAGES))


@cache
def query_message(number: int) -> bytes:
    return ordo_codecs.QUERY.encode(
        cluster_session_id=number, correlation_id=number, min_position=-1, consistency=0, payload=b"query"
    )


def fragment(number: int) -> bytes:
    """Of a message that never ends."""
    return in_own_stream(number, bytes(1376 - 32), FIRST_FRAGMENT)


def connect_request(number: int) -> bytes:
    return in_own_stream(number, connect_message(number % MESSAGES))


@cache
def connect_message(number: int) -> bytes:
    return codecs.SESSION_CONNECT_REQUEST.encode(
        correlation_id=number,
        response_stream_id=102,
        version=codecs.CLIENT_PROTOCOL_VERSION,
        response_channel="aeron:udp?endpoint=127.0.0.1:9",
        encoded_credentials=b"",
        client_info="",
    )


def mixed(number: int) -> bytes:
    turn, kind = divmod(number, 6)
    numbers_of_its_own = kind << 24
    return (set_up, nak, status_message, connect_request, query, fragment)[kind](numbers_of_its_own + turn)


ONE_STREAM = "one stream"
WAYS = ("without", "beside", "under")
"""No flood; one to a socket that nobody reads; one to the leader."""
KINDS: dict[str, Callable[[int], bytes]] = {
    "set-ups": set_up,
    "streams kept up": kept_up,
    "NAKs": nak,
    "status messages": status_message,
    "connect requests": connect_request,
    "queries": query,
    "fragments": fragment,
    "all of them": mixed,
}


def port_of(number: int, ports: list[int]) -> int:
    """Where a datagram of a flood goes, by its number."""
    return ports[number // PORT_RUN % len(ports)]


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
                own.sendto(make(number), ("127.0.0.1", port_of(number, ports)))
            sent += BATCH
            now_s = time.monotonic()
            if now_s - told_s >= 1.0:
                print(round((sent - told) / (now_s - told_s)), flush=True)
                told, told_s = sent, now_s
            if (ahead_s := begin_s + sent / rate - now_s) > 0:
                time.sleep(ahead_s)
            else:
                begin_s += max(-ahead_s - BEHIND_MAX_S, 0.0)


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


def place(pid: int, cores: set[int], priority: int) -> None:
    """Lets all threads of a process run on these cores only; with a priority, where that is allowed."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)
        if os.geteuid() == 0:
            os.setpriority(os.PRIO_PROCESS, int(thread.name), priority)


class Load(Closing):
    """Echoes of a client that opens a new session when its leader was replaced, and of the leader's processor time."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._first_pid = 0
        self._native = NativeLoad(cluster.ingress_endpoints, SIZE_BYTES)

    def close(self) -> None:
        self._native.close()

    @property
    def pid(self) -> int:
        """Of the leader, which has the first core from now on."""
        pid = self._cluster.pid(self._cluster.await_leader())
        if pid != self._first_pid:
            if self._first_pid:
                place(self._first_pid, OTHER_CORES, 0)
            place(pid, FIRST_CORE, FIRST_PRIORITY)
            self._first_pid = pid
        return pid

    @property
    def ports(self) -> list[int]:
        """Of the leader."""
        first = int(self._cluster.ingress_endpoints[self._cluster.await_leader()].rpartition(":")[2])
        return list(range(first, first + PORTS))

    def sustained(self, seconds: float) -> tuple[float, float] | None:
        """Echoes a second, and how much of a core the leader took meanwhile; None when it did not lead to the end."""
        pid = self.pid
        before_ns, began_ns = running_ns(pid), time.monotonic_ns()
        try:
            echoes_per_s = self._native.sustained(seconds, CHUNK, WINDOW)
        except ClusterTimeoutError as error:
            print(error, file=sys.stderr)
            self._native.close()
            self._native = NativeLoad(self._cluster.ingress_endpoints, SIZE_BYTES)
            return None
        return echoes_per_s, (running_ns(pid) - before_ns) / (time.monotonic_ns() - began_ns)

    def rest(self, seconds: float) -> None:
        """Sends nothing for a while; sessions are kept alive."""
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            self._native.keep()
            time.sleep(0.05)


def split_times_s(pid: int) -> tuple[float, float]:
    """Processor time of a process, in seconds: its own, and the kernel's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(fields[11]) / ticks, int(fields[12]) / ticks


def spent_on_each(load: Load, kind: str, rate: int, seconds: float) -> tuple[float, float]:
    """What a datagram of a flood costs a leader that has nothing else to do, in us: its own time, and the kernel's."""
    pid = load.pid
    before = split_times_s(pid)
    load.rest(seconds)
    idle = [(now - then) / seconds for now, then in zip(split_times_s(pid), before, strict=True)]
    with flooded(kind, load.ports, rate) as rates:
        before, began_s = split_times_s(pid), time.monotonic()
        load.rest(seconds)
        after, passed_s = split_times_s(pid), time.monotonic() - began_s
    count = max(median(rates or [rate]), 1)
    own_us, kernel_us = (
        1e6 * ((now - then) / passed_s - quiet) / count for now, then, quiet in zip(after, before, idle, strict=True)
    )
    return round(own_us, 2), round(kernel_us, 2)


def measure(rate: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Runs all kinds, each in turns with the same flood beside the cluster, and with none."""
    figures: dict[str, Any] = {"machine": describe_machine(), "datagrams_per_s_wanted": rate}
    os.sched_setaffinity(0, OTHER_CORES)  # and so of all that is started from here
    with LocalCluster(SERVICE) as cluster, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        cluster.await_leader()
        with Load(cluster) as load:
            load.sustained(1.0)
            for kind in (ONE_STREAM, *KINDS):
                elsewhere = [] if kind == ONE_STREAM else [sink.getsockname()[1]]
                figures[kind] = measure_kind(load, kind, elsewhere, rate, seconds, rounds)
        figures["load_average"] = os.getloadavg()
    return figures


def measure_kind(load: Load, kind: str, sink: list[int], rate: int, seconds: float, rounds: int) -> dict[str, Any]:
    """One flood; `sink`: where else it may go, nowhere for a stream, which nobody would take there."""
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    changes, reached = Counter[str](), list[int]()
    while len(found["under"]) < rounds and sum(changes.values()) < rounds:
        results: dict[str, tuple[float, float] | None] = {}
        for way, ports in zip(WAYS, ([], sink, load.ports), strict=True):
            if not ports and way != "without":
                continue
            with flooded(kind, ports, rate) if ports else nullcontext(reached[:0]) as rates:
                results[way] = load.sustained(seconds)
            reached += rates if way == "under" else []
            changes[way] += results[way] is None
        for way, result in results.items():
            if result is not None and None not in results.values():
                found[way].append(result)
    row = _row(found) | {"leader_changes": {way: count for way, count in changes.items() if count}}
    row["datagrams_per_s"] = round(median(reached or [0]))
    if sink:
        row["leader_us_per_datagram"], row["kernel_us_per_datagram"] = spent_on_each(load, kind, rate, seconds)
    return row


def _row(found: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """Medians of the rounds; a cost is the median of what each round cost."""
    row: dict[str, Any] = {}
    for way, results in found.items():
        if results:
            row[f"echoes_per_s_{way}"] = round(median(rate for rate, _ in results))
            row[f"leader_cores_{way}"] = round(median(cores for _, cores in results), 2)
    compared = found["beside"] or found["without"]
    costs = [100 * (1 - less / rate) for (rate, _), (less, _) in zip(compared, found["under"], strict=True)]
    row["cost_percent"] = round(median(costs), 1) if costs else None
    row["cost_percent_of_rounds"] = [round(cost, 1) for cost in costs]
    taken = [
        100 * (cores - rate * (cores_before / rate_before))
        for (rate_before, cores_before), (rate, cores) in zip(compared, found["under"], strict=True)
    ]
    row["core_percent"] = round(median(taken), 1) if taken else None
    row["core_percent_of_rounds"] = [round(one, 1) for one in taken]
    return row


def show(figures: dict[str, Any]) -> None:
    """Prints a table, a line for each kind."""
    columns = (
        "flood",
        "datagrams/s",
        "echoes/s without",
        "beside",
        "under",
        "cost",
        "leader's cores",
        "us: leader + kernel",
    )
    table = Table(*columns, box=None)
    for kind in (ONE_STREAM, *KINDS):
        found = figures[kind]
        table.add_row(
            kind,
            f"{found['datagrams_per_s']:,}",
            *(_shown(found.get(f"echoes_per_s_{way}")) for way in WAYS),
            *(_spread(found, name) for name in ("cost_percent", "core_percent")),
            " + ".join(_shown(found.get(f"{whose}_us_per_datagram")) for whose in ("leader", "kernel")),
        )
    output_console().print(table)
    changes = {kind: found for kind in (ONE_STREAM, *KINDS) if (found := figures[kind]["leader_changes"])}
    print(f"leaders that changed: {changes or 'none'}; load average {figures['load_average'][0]:.1f}")


def _spread(found: dict[str, Any], name: str) -> str:
    rounds = found[f"{name}_of_rounds"]
    return f"{found[name]} % ({min(rounds, default=0)} to {max(rounds, default=0)})"


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:,}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=writable_file)
    parser.add_argument("--flood", choices=[*KINDS, ONE_STREAM])
    parser.add_argument("--ports")
    options = parser.parse_args()
    if bool(options.flood) != bool(options.ports):
        parser.error("--flood and --ports: give both, to only attack, or none")
    if options.flood:
        flood(options.flood, [int(port) for port in options.ports.split(",")], options.rate)
    figures = measure(options.rate, options.seconds, options.rounds)
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
