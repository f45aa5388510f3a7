"""Requests a second through a gateway, beside bare grpcio with the same messages: `python -m benchmarks.gateway`.

The cluster's one node with an echo, the servers (a grpc.aio server that answers by itself, a gateway, and a gateway
with workers), and this process, the caller, which has CONNECTIONS with each. The servers take turns, kind by kind.
Processor time of a server, with all its workers, tells more than the rate where others load the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, NamedTuple

import grpc

from benchmarks.processor import processor_s, with_children
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc

SECONDS = 2.0
ROUNDS = 5
UNARY_CALLERS = 64
STREAMS = 8
CONNECTIONS = 8
WORKERS = 2
WINDOW = 2_048
PAYLOAD = bytes(32)
POSITION = 1 << 40


class BareEcho(ordo_pb2_grpc.SequencerServicer):
    """Answers with the payload, and does nothing else."""

    async def Submit(self, request: Any, context: Any) -> Any:
        return pb.SubmitResponse(payload=request.payload, log_position=POSITION, identity_position=POSITION)

    async def SubmitStream(self, batches: Any, context: Any) -> None:
        async for batch in batches:
            positions = [POSITION] * len(batch.payloads)
            await context.write(
                pb.AnswerBatch(
                    number=batch.number, payloads=batch.payloads, log_positions=positions, identity_position=POSITION
                )
            )


async def serve_bare() -> None:
    """Prints its address, and serves until it is killed."""
    server = grpc.aio.server()
    ordo_pb2_grpc.add_SequencerServicer_to_server(BareEcho(), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"event": "gateway.started", "address": f"127.0.0.1:{port}"}), flush=True)
    await server.wait_for_termination()


async def measure_unary(stubs: Sequence[Any]) -> int:
    """Requests of UNARY_CALLERS identities, each with one request under way."""
    end_s = time.perf_counter() + SECONDS
    counts = [0] * UNARY_CALLERS

    async def call(index: int) -> None:
        identity, stub = os.urandom(16), stubs[index % len(stubs)]
        while time.perf_counter() < end_s:
            number = counts[index] + 1
            await stub.Submit(
                pb.SubmitRequest(identity=identity, number=number, payload=PAYLOAD, confirmed=number - 1), timeout=20
            )
            counts[index] = number

    await asyncio.gather(*(call(index) for index in range(UNARY_CALLERS)))
    return sum(counts)


async def measure_stream(stub: Any, batch_length: int) -> int:
    """Requests of one stream, with `batch_length` payloads in a message and up to WINDOW under way."""
    end_s = time.perf_counter() + SECONDS
    answered = 0
    moved = asyncio.Event()

    async def batches() -> AsyncIterator[Any]:
        identity, number = os.urandom(16), 1
        payloads = [PAYLOAD] * batch_length
        while time.perf_counter() < end_s:
            while number - answered > WINDOW - batch_length:
                moved.clear()
                await moved.wait()
            yield pb.SubmitBatch(
                identity=identity, number=number, payloads=payloads, confirmed=min(answered, number - 1)
            )
            number += batch_length

    async for batch in stub.SubmitStream(batches(), timeout=60):
        answered = batch.number + len(batch.payloads) - 1
        moved.set()
    return answered


async def measure_streams(stubs: Sequence[Any], batch_length: int) -> int:
    """Requests of STREAMS streams at a time, each of an identity of its own."""
    ways = [stubs[index % len(stubs)] for index in range(STREAMS)]
    return sum(await asyncio.gather(*(measure_stream(one, batch_length) for one in ways)))


KINDS: dict[str, Callable[[Sequence[Any]], Awaitable[int]]] = {
    f"unary, {UNARY_CALLERS} callers": measure_unary,
    "a stream, 1 payload in a message": lambda stubs: measure_stream(stubs[0], 1),
    f"{STREAMS} streams, 1 payload in a message": lambda stubs: measure_streams(stubs, 1),
    "a stream, 100 payloads in a message": lambda stubs: measure_stream(stubs[0], 100),
    f"{STREAMS} streams, 100 payloads in a message": lambda stubs: measure_streams(stubs, 100),
}
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
"""Else all channels of a process to one address are one connection, which one worker serves."""


class Server(NamedTuple):
    """A process that serves gRPC."""

    address: str
    pid: int

    def cpu_s(self) -> float:
        """Processor time that it has taken, with its workers."""
        return sum(map(processor_s, with_children(self.pid)))


class Figure(NamedTuple):
    """Of one kind of call, in one round."""

    rate: float
    server_us: float
    """Processor time of the server, for each request."""


def start(stack: ExitStack, *words: str) -> Server:
    """Starts a server, which ends with the stack."""
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    )
    stack.callback(process.kill)
    assert process.stdout is not None
    for line in process.stdout:
        if '"gateway.started"' in line:
            return Server(str(json.loads(line)["address"]), process.pid)
    raise SystemExit(f"{' '.join(words)} did not start")


async def measure(server: Server, kind: str) -> Figure:
    """One round of one kind of call."""
    async with AsyncExitStack() as stack:
        stubs = []
        for _ in range(CONNECTIONS):
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(server.address, OWN_CONNECTION))
            stubs.append(ordo_pb2_grpc.SequencerStub(channel))  # type: ignore[no-untyped-call]
        cpu_s, began_s = server.cpu_s(), time.perf_counter()
        count = await KINDS[kind](stubs)
        return Figure(count / (time.perf_counter() - began_s), (server.cpu_s() - cpu_s) / count * 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway")
    parser.add_argument("--bare", action="store_true", help="serve the echo of bare grpcio")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--members", type=int, default=1, help="nodes of the cluster")
    chosen = parser.parse_args()
    if chosen.bare:
        asyncio.run(serve_bare())
        return
    found: dict[tuple[str, str], list[Figure]] = {}
    with (
        LocalCluster("ordo.bench.loads.answering:Answering", member_count=chosen.members, sync="none") as cluster,
        ExitStack() as stack,
    ):
        cluster.await_leader(60)
        endpoints = ",".join(cluster.ingress_endpoints.values())
        words = ("-m", "ordo.cli", "gateway", "--endpoints", endpoints, "--listen", "127.0.0.1:0")
        servers = {
            "bare grpcio": start(stack, "-m", "benchmarks.gateway", "--bare"),
            "gateway": start(stack, *words),
            f"{WORKERS} workers": start(stack, *words, "--workers", str(WORKERS)),
        }
        for _ in range(chosen.rounds):
            for kind in KINDS:
                for name, server in servers.items():
                    found.setdefault((kind, name), []).append(asyncio.run(measure(server, kind)))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, medians of {chosen.rounds}, {len(PAYLOAD)} bytes")
    print(f"{'':38}" + "".join(f"  {name:>22}" for name in servers))
    for kind in KINDS:
        print(f"{kind:38}" + "".join(f"  {describe(found[kind, name])}" for name in servers))


def describe(figures: list[Figure]) -> str:
    """The medians."""
    rate, server_us = (statistics.median(column) for column in zip(*figures, strict=True))
    return f"{rate:10,.0f}/s {server_us:7.1f} us"


if __name__ == "__main__":
    main()
