"""The door of the gateway: whatever callers send, the call is refused, or something well-formed goes to the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any

import grpc
from google.protobuf.message import DecodeError as ProtobufDecodeError

from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.cluster.wire import ordo_codecs
from ordo.gateway.callers.bounds import Bounds, CallPlaces
from ordo.gateway.callers.call_context import IDENTITY_BYTES
from ordo.gateway.callers.round_trips import RoundTrips
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.services.sequencer_calls import SequencerCalls
from ordo.runtime.errors import OrdoError
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api.request_ids import DIGEST_BYTES
from tests.fuzz.driver_doors import Finding
from tests.fuzz.engine import pack, unpack

STEPS_MAX = 8
REQUESTS: tuple[type[Any], ...] = (pb.SubmitRequest, pb.OpenIdentityRequest, pb.QueryRequest)
IDS = {"leadership_term_id": 0, "cluster_session_id": 1, "timestamp": 0}


class Refused(Exception):
    """A call that was ended by the gateway."""


class Call:
    """What gRPC knows of a call; `token` is whatever its metadata say."""

    def __init__(self, token: bytes) -> None:
        self._token = token

    def peer(self) -> str:
        return "ipv4:10.0.0.9:40000"

    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> list[tuple[str, bytes]]:
        return [("authorization", self._token)]

    async def abort(self, code: grpc.StatusCode, text: str, metadata: Any) -> None:
        str(text).encode()  # gRPC sends it as UTF-8
        raise Refused(code.name)


class Session:
    """A caller's session: encodes what goes to the cluster, and answers."""

    def __init__(self) -> None:
        self.calls = 0
        self.relay = self.client = self
        self._line = SimpleNamespace(open_position=96, executed=0, confirmed=0)

    def open(self, identity: bytes, on_done: Callable[[Any], None]) -> Any:
        return self._send(identity, 1, b"", 0, 0, on_done)

    def payload_bytes_max(self, asked: Any) -> int:
        return 1 << 20

    def submit(
        self,
        identity: bytes,
        number: int,
        payload: bytes,
        on_done: Callable[[Any], None],
        *,
        confirmed: int,
        open_position: int,
        digest: bytes | None,
    ) -> Any:
        if digest is not None and len(digest) != DIGEST_BYTES:
            raise Finding(f"{len(digest)=} went to the cluster")
        return self._send(identity, number, payload, confirmed, open_position, on_done)

    def _send(
        self,
        identity: bytes,
        number: int,
        payload: bytes,
        confirmed: int,
        position: int,
        on_done: Callable[[Any], None],
    ) -> Any:
        if len(identity) != IDENTITY_BYTES or not 0 < number < 1 << 62 or confirmed >= number or position < 0:
            raise Finding(f"{len(identity)=} {number=} {confirmed=} {position=} went to the cluster")
        ordo_codecs.REQUEST.encode(open_position=position, number=number, confirmed=confirmed, **IDS)
        done = SimpleNamespace(outcome=Outcome.EXECUTED, payload=payload, log_position=128, sequence=1, line=self._line)
        on_done(done)
        return done

    def start_query(
        self, payload: bytes, *, min_position: int | None, on_done: Callable[[Any], None], **more: Any
    ) -> None:
        fields = {"cluster_session_id": 1, "correlation_id": 1, "consistency": 0, "payload": payload}
        ordo_codecs.QUERY.encode(min_position=-1 if min_position is None else min_position, **fields)
        reply = SimpleNamespace(payload=payload, log_position=128, member_id=0)
        on_done(SimpleNamespace(result=lambda: reply))


class GatewayDoor:
    """Steps are calls: the kind says which, the first byte how much of the step is the token, the rest is the request
    as it came over the network."""

    name = "gateway"

    def __init__(self) -> None:
        settings = GatewaySettings(endpoints=["127.0.0.1:9"])
        sessions: Any = SimpleNamespace(get=self._session, flush=lambda: None)
        self._bounds = Bounds(1 << 10, 1 << 20)
        places = CallPlaces(1, "subscriptions", "--subscriptions-max")
        self._calls = SequencerCalls(settings, sessions, self._bounds, RoundTrips(), places, asyncio.Event())

    async def _session(self, credentials: bytes | None, timeout_s: float, host: str) -> Any:
        return Session()

    def seeds(self) -> list[bytes]:
        identity = bytes(range(16))
        valid: list[tuple[int, Any]] = [
            (0, pb.SubmitRequest(identity=identity, number=1, payload=b"payload")),
            (0, pb.SubmitRequest(identity=identity, number=2**62 - 1, confirmed=2**62, identity_position=2**63 - 1)),
            (0, pb.SubmitRequest(identity=identity, number=0, confirmed=2**63)),
            (0, pb.SubmitRequest(identity=identity, number=1, payload=b"payload", id=b"payment 1")),
            (0, pb.SubmitRequest(identity=identity, number=1, id=bytes(65))),
            (1, pb.OpenIdentityRequest(identity=identity)),
            (2, pb.QueryRequest(payload=b"ask", member_id=2**31 - 1, min_position=-(2**63), group="group")),
            (2, pb.QueryRequest(payload=b"ask", min_position=2**63 - 1)),
        ]
        steps = [(kind, bytes([6]) + b"Bearer" + request.SerializeToString()) for kind, request in valid]
        return [pack(steps), *(pack([step]) for step in steps)]

    def run(self, data: bytes) -> Hashable:
        found = tuple(asyncio.run(self._call(kind % 3, step)) for kind, step in unpack(data, most=STEPS_MAX))
        if not self._bounds.take(1 << 10, 1 << 20):
            raise Finding("calls are over, and their room is not given back")
        self._bounds.give(1 << 10, 1 << 20)
        return found

    async def _call(self, kind: int, step: bytes) -> Hashable:
        length = step[0] if step else 0
        context: Any = Call(step[1 : 1 + length])
        try:
            request = REQUESTS[kind].FromString(step[1 + length :])
        except ProtobufDecodeError:
            return "cut"
        serve = (self._calls.Submit, self._calls.OpenIdentity, self._calls.Query)[kind]
        try:
            return type(await serve(request, context)).__name__
        except (Refused, OrdoError) as error:
            return str(error)[:20]
