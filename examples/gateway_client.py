"""A caller of a gateway: it needs grpcio and the contract, nothing else of Ordo (docs/GATEWAY.md).

    python -m grpc_tools.protoc -I. --python_out=OUT --grpc_python_out=OUT service_api/ordo.proto
    PYTHONPATH=OUT python examples/gateway_client.py 10.0.0.8:50051,10.0.0.9:50051 '{"add": 1}' '{"add": 2}'

Each request has a number. When no answer comes, it goes with the same number to the next gateway.
"""

import os
import sys
import time
from typing import Any

import grpc

from service_api import ordo_pb2 as pb
from service_api import ordo_pb2_grpc

UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)
ATTEMPTS_MAX = 100


def submit(stubs: list[Any], request: pb.SubmitRequest) -> Any:
    """The answer, from whichever gateway has it."""
    for attempt in range(ATTEMPTS_MAX):
        try:
            return stubs[attempt % len(stubs)].Submit(request, timeout=5)
        except grpc.RpcError as error:
            if error.code() not in UNANSWERED:
                raise
            time.sleep(0.1)
    raise SystemExit(f"request {request.number} has no answer, and may be executed: keep identity and number")


def main(addresses: str, *payloads: str) -> None:
    """Submits the payloads one after the other, and prints the answers."""
    channels = [grpc.insecure_channel(address) for address in addresses.split(",")]
    stubs = [ordo_pb2_grpc.SequencerStub(channel) for channel in channels]  # type: ignore[no-untyped-call]
    identity = os.urandom(16)
    for number, payload in enumerate(payloads, 1):
        request = pb.SubmitRequest(identity=identity, number=number, confirmed=number - 1, payload=payload.encode())
        answer = submit(stubs, request)
        print(answer.log_position, answer.payload.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
