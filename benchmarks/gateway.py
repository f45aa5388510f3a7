"""Requests a second through a gateway, beside bare grpcio with the same messages: `python -m benchmarks.gateway`.

Three processes: the cluster's one node with an echo, the server (the gateway, or a grpc.aio server that answers by
itself), and this one, the caller. The two servers take turns.
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
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import grpc

from deploy.launcher import ROOT, LocalCluster
from service_api import ordo_pb2 as pb
from service_api import ordo_pb2_grpc

SECONDS = 3.0
ROUNDS = 3
UNARY_CALLERS = 64
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


async def measure_unary(stub: Any) -> float:
    """Requests a second of UNARY_CALLERS identities, each with one request under way."""
    end_s = time.perf_counter() + SECONDS
    counts = [0] * UNARY_CALLERS

    async def call(index: int) -> None:
        identity = os.urandom(16)
        while time.perf_counter() < end_s:
            number = counts[index] + 1
            await stub.Submit(
                pb.SubmitRequest(identity=identity, number=number, payload=PAYLOAD, confirmed=number - 1), timeout=20
            )
            counts[index] = number

    began_s = time.perf_counter()
    await asyncio.gather(*(call(index) for index in range(UNARY_CALLERS)))
    return sum(counts) / (time.perf_counter() - began_s)


async def measure_stream(stub: Any, batch_length: int) -> float:
    """Requests a second of one stream, with `batch_length` payloads in a message and up to WINDOW under way."""
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

    began_s = time.perf_counter()
    async for batch in stub.SubmitStream(batches(), timeout=60):
        answered = batch.number + len(batch.payloads) - 1
        moved.set()
    return answered / (time.perf_counter() - began_s)


def start(stack: ExitStack, *words: str) -> str:
    """Starts a server; its address."""
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    )
    stack.callback(process.kill)
    assert process.stdout is not None
    for line in process.stdout:
        if '"gateway.started"' in line:
            return str(json.loads(line)["address"])
    raise SystemExit(f"{' '.join(words)} did not start")


async def measure(address: str) -> dict[str, float]:
    """Requests a second, by kind of call."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = ordo_pb2_grpc.SequencerStub(channel)  # type: ignore[no-untyped-call]
        return {
            "unary": await measure_unary(stub),
            "stream, 1 in a message": await measure_stream(stub, 1),
            "stream, 100 in a message": await measure_stream(stub, 100),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway")
    parser.add_argument("--bare", action="store_true", help="serve the echo of bare grpcio")
    parser.add_argument("--members", type=int, default=1, help="nodes of the cluster")
    chosen = parser.parse_args()
    if chosen.bare:
        asyncio.run(serve_bare())
        return
    found: dict[str, list[dict[str, float]]] = {"bare": [], "gateway": []}
    with (
        LocalCluster("ordo.bench.answering:Answering", member_count=chosen.members, sync="none") as cluster,
        ExitStack() as stack,
    ):
        cluster.await_leader(60)
        endpoints = ",".join(cluster.ingress_endpoints.values())
        gateway = start(stack, "-m", "ordo.cli", "gateway", "--endpoints", endpoints, "--listen", "127.0.0.1:0")
        bare = start(stack, "-m", "benchmarks.gateway", "--bare")
        for _ in range(ROUNDS):
            for name, address in (("bare", bare), ("gateway", gateway)):
                found[name].append(asyncio.run(measure(address)))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, medians of {ROUNDS}, {len(PAYLOAD)} bytes")
    for kind in found["bare"][0]:
        rates = {name: statistics.median(one[kind] for one in rounds) for name, rounds in found.items()}
        print(f"{kind:26} bare grpcio {rates['bare']:9,.0f}/s   gateway {rates['gateway']:9,.0f}/s")


if __name__ == "__main__":
    main()
