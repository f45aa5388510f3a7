"""What the clients of examples/clients/ send, and what ends them, by a gateway without a cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc
from tests.gateway.built_clients import PROGRAMS, TIMEOUT_S, Client, built
from tests.snippets import Page

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]
POSITION = 4711
PAYLOAD_BYTES_MAX = 100_000
LONG_ANSWER = b"y" * 5_000_000
LINES = (b"a\rb\r", b"\xff\xfe", b"", b"x" * 70_000, b"give me more than 4 MiB", b"the last one")
REFUSALS = {b"full": grpc.StatusCode.RESOURCE_EXHAUSTED, b"strange": grpc.StatusCode.UNKNOWN}
FAILURES_MAX = 8
DIGITS = "0" * 32
NO_IDENTITIES = ["", "1 1\n", "+1 1\n", f"{DIGITS[1:]} 1\n", f"{DIGITS[2:]}zz 1\n", f"{DIGITS} 17", "\xff"]
"""The last but one may be the beginning of a longer position."""


class LoneGateway(ordo_pb2_grpc.SequencerServicer):
    """Answers and refuses as payloads say, and keeps what it was sent."""

    def __init__(self) -> None:
        self.opened = pb.OpenIdentityResponse(identity_position=POSITION, payload_bytes_max=PAYLOAD_BYTES_MAX)
        self.identities: list[bytes] = []
        self.requests: list[pb.SubmitRequest] = []
        self.tokens: list[Any] = []

    def OpenIdentity(self, request: pb.OpenIdentityRequest, context: grpc.ServicerContext) -> pb.OpenIdentityResponse:
        self.identities.append(request.identity)
        return self.opened

    def Submit(self, request: pb.SubmitRequest, context: grpc.ServicerContext) -> pb.SubmitResponse:
        self.requests.append(request)
        self.tokens += [value for key, value in context.invocation_metadata() if key == "authorization"]
        if request.payload in REFUSALS:
            context.abort(REFUSALS[request.payload], request.payload.decode())
        return pb.SubmitResponse(payload=LONG_ANSWER if b"MiB" in request.payload else b"done", log_position=1)


class Caller(NamedTuple):
    """A client in front of a gateway, and its identity file."""

    client: Client
    gateway: LoneGateway
    environment: dict[str, str]
    file: Path

    def submit(self, given: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.client.words, "submit", str(self.file)],
            cwd=self.client.folder,
            env=self.environment,
            input=given,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def ends(self, given: bytes, *words: str, failures: int = 0) -> None:
        """It ends with one line that has the words, after one for each failure of a call that it made again."""
        done = self.submit(given)
        lines = done.stderr.decode().splitlines()
        assert done.returncode != 0
        assert all(word in lines[-1] for word in words), lines
        assert len(lines) == failures + 1, lines


@pytest.fixture(params=PROGRAMS)
def caller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Caller]:
    client = built(Page("GATEWAY.md"), request.param)
    gateway = LoneGateway()
    server = grpc.server(ThreadPoolExecutor(2))
    ordo_pb2_grpc.add_SequencerServicer_to_server(gateway, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    environment = {**os.environ, "ORDO_GATEWAYS": f"127.0.0.1:{port}", "ORDO_TOKEN": "", "ORDO_CA": ""}
    yield Caller(client, gateway, environment, tmp_path / "requests.identity")
    server.stop(None).wait()


def test_lines_are_sent_as_they_are_and_skipped_when_they_are_done(caller: Caller) -> None:
    given = b"\n".join(LINES)
    done = caller.submit(given)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [(one.number, one.payload) for one in caller.gateway.requests] == list(enumerate(LINES, 1))
    assert {one.identity_position for one in caller.gateway.requests} == {POSITION}
    assert caller.gateway.tokens == []
    assert [len(row.split(b"\t")[2]) for row in done.stdout.splitlines()] == [4, 4, 4, 4, len(LONG_ANSWER), 4]
    assert caller.file.read_text() == f"{caller.gateway.identities[0].hex()} {POSITION}\n"

    caller.gateway.opened.confirmed = len(LINES) - 1
    again = caller.submit(given + b"\n")
    assert (again.returncode, again.stderr.count(b"\n")) == (0, 1)
    assert f"skips the first {len(LINES) - 1} lines".encode() in again.stderr
    assert len(caller.gateway.requests) == len(LINES) + 1
    assert caller.gateway.requests[-1] == caller.gateway.requests[-2]
    assert len(set(caller.gateway.identities)) == 1


@pytest.mark.parametrize("text", NO_IDENTITIES)
def test_what_is_not_an_identity_file_is_refused(caller: Caller, text: str) -> None:
    caller.file.write_text(text, "latin-1")
    caller.ends(b"a\n", str(caller.file), "is not an identity file", "32 hexadecimal digits", "another file")
    assert caller.gateway.identities == []
    assert caller.file.read_text("latin-1") == text


def test_nothing_is_sent_under_an_identity_that_was_forgotten(caller: Caller) -> None:
    assert caller.submit(b"a\n").returncode == 0
    sent = len(caller.gateway.requests)
    caller.gateway.opened.identity_position += 32
    caller.ends(b"a\n", "has forgotten the identity", str(caller.file), "new file")
    assert len(caller.gateway.requests) == sent


def test_a_line_that_is_too_long_ends_it_before_it_is_sent(caller: Caller) -> None:
    long = b"z" * (PAYLOAD_BYTES_MAX + 1)
    caller.ends(b"a\n" + long + b"\n", "line 2 has 100001 bytes", f"takes {PAYLOAD_BYTES_MAX}")
    assert [one.payload for one in caller.gateway.requests] == [b"a"]


@pytest.mark.parametrize(("given", "count"), [(b"strange", 1), (b"full", FAILURES_MAX + 1)])
def test_a_refusal_that_lasts_ends_it(caller: Caller, given: bytes, count: int) -> None:
    caller.ends(given + b"\n", given.decode(), failures=count - 1)
    assert len(caller.gateway.requests) == count
