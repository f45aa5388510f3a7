"""Greedy neighbours: a program that takes all it can get of something and keeps it, and visitors that must get in.

`python -m tests.faults.hogs KIND WHERE OTHER`, where KIND is sessions or identities (with the members' endpoints and
the address for answers), or console (host and port); each prints FULL when it is refused more, and why. Visitors are
cluster (with the same), and gateway (its address and that of its console), which print IN and how long it took.
"""

from __future__ import annotations

import http.client
import os
import socket
import sys
import time
from contextlib import closing, suppress
from typing import Any, NoReturn

import grpc

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.runtime.errors import ClusterTimeoutError, OrdoError, SessionRejectedError
from ordo.runtime.open_files import raise_open_files
from ordo.runtime.security.tokens import hash_token
from ordo.service_api import ordo_pb2, ordo_pb2_grpc
from ordo.transport.client.client_transport import ClientTransport
from tests.faults.registers import VISIT
from tests.patience import patient

HOG_TOKEN, CLIENT_TOKEN = "h" * 40, "c" * 40
TOKENS: list[dict[str, Any]] = [
    {"principal": "clients", "hash": hash_token(CLIENT_TOKEN), "roles": ["ingress", "queries", "log"]},
    {"principal": "hog", "hash": hash_token(HOG_TOKEN), "roles": ["ingress", "queries"]},
]
SESSIONS_MAX, SESSIONS_PER_HOST, IDENTITIES_PER_PRINCIPAL = 48, 24, 16
BOUNDS: dict[str, Any] = {
    "max_sessions": SESSIONS_MAX,
    "max_sessions_per_host": SESSIONS_PER_HOST,
    "max_identities_per_principal": IDENTITIES_PER_PRINCIPAL,
}
HEADER = b"GET / HTTP/1.1\r\nHost: localhost\r\nX"
"""34 bytes of a header that never ends."""
CONNECTIONS = 300
"""More than the 256 that a console takes in all, and than the 64 of one address."""
PAUSE_S = 0.002
RETRY_S = 0.5
IDENTITY_TIMEOUT_S = 3.0
VISIT_TIMEOUT_S = 20.0
"""Of a visitor that connects and is answered, with an election on the way."""


def settings_of(address: str, token: str) -> ClientSettings:
    return ClientSettings(
        egress_channel=f"aeron:udp?endpoint={address}:0",
        egress_term_length_bytes=64 * 1024,
        ingress_channel="aeron:udp?term-length=64k",
        credentials=token.encode(),
        connect_timeout_s=30,
    )


def tell_full(why: object) -> None:
    print(f"FULL {why}", flush=True)


def hog_sessions(endpoints: dict[int, str], address: str) -> NoReturn:
    """Opens sessions until one is refused, keeps all, and takes each that becomes free."""
    clients: list[ClusterClient] = []
    next_s = 0.0
    with closing(ClientTransport.embedded(clients_max=2 * SESSIONS_MAX)) as transport:
        while True:
            transport.drive()
            clients = [one for one in clients if not poll(one)]
            waiting = sum(not one.is_connected for one in clients)
            if waiting == 0 and len(clients) <= SESSIONS_MAX and time.monotonic() >= next_s:
                next_s = time.monotonic() + (RETRY_S if len(clients) >= SESSIONS_PER_HOST else 0)
                clients.append(
                    ClusterClient(endpoints, transport=transport, wait=False, settings=settings_of(address, HOG_TOKEN))
                )
            time.sleep(PAUSE_S)


def poll(client: ClusterClient) -> bool:
    """Steps a client of a hog; whether its session is over."""
    try:
        client.poll()
        return client.is_closed
    except OrdoError as error:
        if isinstance(error, SessionRejectedError):
            tell_full(error)
        client.close()
        return True


def hog_identities(endpoints: dict[int, str], address: str) -> NoReturn:
    """Each of its sessions makes one request, of an identity of its own, and ends."""
    settings = settings_of(address, HOG_TOKEN)
    with closing(ClientTransport.embedded()) as transport:
        while True:
            try:
                with ClusterClient(endpoints, transport=transport, settings=settings) as client:
                    client.request(bytes([VISIT]), timeout_s=IDENTITY_TIMEOUT_S)
            except ClusterTimeoutError as error:
                tell_full(error)
            except OrdoError:
                time.sleep(RETRY_S)


def hog_console(host: str, port: int) -> NoReturn:
    """Keeps many connections, with an unfinished header on each."""
    raise_open_files()
    held: list[socket.socket] = []
    closed = 0
    while True:
        while len(held) < CONNECTIONS:
            connection = socket.create_connection((host, port), timeout=10)
            with suppress(OSError):
                connection.sendall(HEADER)
            connection.setblocking(False)
            held.append(connection)
        kept = [one for one in held if not is_closed(one)]
        closed += len(held) - len(kept)
        held = kept
        if closed:
            tell_full(f"{closed} of its connections were closed")
        time.sleep(RETRY_S)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed; then it is closed here, too."""
    try:
        over = connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        over = True
    if over:
        connection.close()
    return over


def visit_cluster(endpoints: dict[int, str], address: str) -> None:
    """Gets in and is answered, in time."""
    begun_s = time.monotonic()
    with ClusterClient(endpoints, settings=settings_of(address, CLIENT_TOKEN)) as client:
        answer = client.request(bytes([VISIT]), timeout_s=patient(VISIT_TIMEOUT_S))
    assert answer.payload == bytes([VISIT]), answer
    tell_in(begun_s)


def visit_gateway(listens: str, console: str) -> None:
    """A caller gets an answer by gRPC, and a browser the console's page, in time."""
    begun_s = time.monotonic()
    request = ordo_pb2.SubmitRequest(identity=os.urandom(16), number=1, payload=bytes([VISIT]))
    metadata = [("authorization", f"Bearer {CLIENT_TOKEN}")]
    with grpc.insecure_channel(listens) as channel:
        answer = ordo_pb2_grpc.SequencerStub(channel).Submit(  # type: ignore[no-untyped-call]
            request, metadata=metadata, timeout=patient(VISIT_TIMEOUT_S)
        )
    assert answer.payload == bytes([VISIT]), answer
    page = http.client.HTTPConnection(console, timeout=patient(VISIT_TIMEOUT_S))
    page.request("GET", "/")
    assert page.getresponse().status == 200
    page.close()
    tell_in(begun_s)


def tell_in(begun_s: float) -> None:
    took_s = time.monotonic() - begun_s
    assert took_s < patient(VISIT_TIMEOUT_S), f"a visitor was in after {took_s:.1f} s"
    print(f"IN {took_s:.1f}", flush=True)


def main() -> None:
    kind, where, other = sys.argv[1:]
    if kind.endswith("gateway"):
        visit_gateway(where, other)
    elif kind == "console":
        hog_console(where, int(other))
    else:
        members = dict(enumerate(where.split(",")))
        {"sessions": hog_sessions, "identities": hog_identities, "cluster": visit_cluster}[kind](members, other)


if __name__ == "__main__":
    main()
