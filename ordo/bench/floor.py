"""The raw floor: client, leader and two followers as bare processes with one UDP socket each, on loopback.

A request crosses four hops: client to leader, leader to both followers, the first follower's answer to the leader,
leader to client. Nothing is ordered, stored or checked, so no sequencer on this machine and this network can be faster
with one request outstanding. Every process spins for `spin_ns`, yielding, and then blocks.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ordo.bench.loads.floor_native import drive, follow, lead
from ordo.bench.loads.latency import new_histogram, percentiles_us, record

ROOT = Path(__file__).parents[2]
SPIN_NS = 20_000
WARM_UP_COUNT = 500


def measure_floor(size_bytes: int, count: int, *, spin_ns: int = SPIN_NS) -> dict[str, float]:
    """Percentiles in microseconds of `count` round trips with datagrams of `size_bytes` (9 to 65507).

    Datagrams that were lost are left out and counted in `lost`.
    """
    with _peers(spin_ns) as (client, leader_port):
        warm_up, out_ns = array("q", bytes(8 * WARM_UP_COUNT)), array("q", bytes(8 * count))
        drive(client.fileno(), leader_port, size_bytes, spin_ns, 0, warm_up)
        drive(client.fileno(), leader_port, size_bytes, spin_ns, WARM_UP_COUNT, out_ns)
    histogram = new_histogram()
    record(histogram, (value_ns for value_ns in out_ns if value_ns))
    return percentiles_us(histogram) | {"lost": out_ns.count(0)}


@contextmanager
def _peers(spin_ns: int) -> Iterator[tuple[socket.socket, int]]:
    """Open the client's socket and the leader's port, with leader and followers running meanwhile."""
    with ExitStack() as stack:
        client, leader, first, second = (stack.enter_context(_bound_socket()) for _ in range(4))
        client_port, leader_port, first_port, second_port = (
            one.getsockname()[1] for one in (client, leader, first, second)
        )
        stack.enter_context(_process(leader, "lead", spin_ns, client_port, first_port, second_port))
        for follower in (first, second):
            stack.enter_context(_process(follower, "follow", spin_ns, leader_port))
        yield client, leader_port


def _bound_socket() -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("127.0.0.1", 0))
    return bound


@contextmanager
def _process(bound: socket.socket, role: str, spin_ns: int, *ports: int) -> Iterator[None]:
    descriptor = bound.fileno()
    command = [sys.executable, "-m", "ordo.bench.floor", role, str(descriptor), str(spin_ns), *map(str, ports)]
    with subprocess.Popen(command, cwd=ROOT, pass_fds=[descriptor]) as process:
        try:
            yield
        finally:
            process.kill()


def main(arguments: list[str]) -> None:
    """Run one peer: `lead FD SPIN_NS CLIENT FIRST SECOND` or `follow FD SPIN_NS LEADER`."""
    role, descriptor, spin_ns, *ports = arguments
    if role == "lead":
        client_port, first_port, second_port = map(int, ports)
        lead(int(descriptor), client_port, first_port, second_port, int(spin_ns))
    else:
        follow(int(descriptor), int(ports[0]), int(spin_ns))


if __name__ == "__main__":
    main(sys.argv[1:])
