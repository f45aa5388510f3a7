"""Gateways as processes of their own, in front of clusters of real processes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from benchmarks.go_peers import GoMissingError, build_programs
from ordo.deploy.launcher import LocalCluster
from ordo.service_api import ordo_pb2_grpc
from tests.cluster.integration.conftest import BANK, StartCluster, clusters_of, lend_cluster
from tests.forks import start_ordo
from tests.patience import patient
from tests.peers.peer_process import cache_folder, only_one

__all__ = ["lend_cluster"]
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
GRPCURL_VERSION = "v1.8.9"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl"


class GatewayProcess:
    """`ordo gateway` on a free port; `prefix` are words before the command, which end in executing it."""

    command = "gateway"

    def __init__(
        self,
        cluster: LocalCluster,
        log_path: Path,
        *options: str,
        listen: str = "127.0.0.1:0",
        prefix: Sequence[str] = (),
    ) -> None:
        self.log_path = log_path
        words = [self.command, "--endpoints", ",".join(cluster.ingress_endpoints.values()), "--listen", listen]
        with log_path.open("wb") as log:
            self.process = start_ordo([*words, *options], log, prefix)
        self.address = str(self.await_event(f"{self.command}.started")["address"])

    def events(self, event: str) -> list[dict[str, Any]]:
        """The lines of its log with this event."""
        lines = [line for line in self.log_path.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [found for found in map(json.loads, lines) if found["event"] == event]

    def await_event(self, event: str) -> dict[str, Any]:
        """The first line of its log with this event, as soon as it is there."""
        deadline_s = time.monotonic() + patient(START_TIMEOUT_S)
        may_come = True
        while may_come:
            may_come = self.process.poll() is None and time.monotonic() < deadline_s
            found = self.events(event)  # after the look at the process, which may have said it as its last word
            if found:
                return found[0]
            time.sleep(0.05)
        raise AssertionError(f"no {event} in its log: {self.log_path.read_text()}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ends it in good order; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patient(STOP_TIMEOUT_S))


def sequencer_of(channel: Any) -> Any:
    """The calls of `ordo.v1.Sequencer`."""
    return ordo_pb2_grpc.SequencerStub(channel)  # type: ignore[no-untyped-call]


STILL_WINDOWS = [("grpc.http2.bdp_probe", 0)]
"""gRPC's windows do not grow with what the machine can carry: what may be under way is the same on all machines."""
StartGateway = Callable[..., GatewayProcess]


def refusal_of(call: Any, request: Any, **options: Any) -> tuple[grpc.StatusCode, str]:
    """How a call ends that is refused, of whichever kind it is."""
    with pytest.raises(grpc.RpcError) as refused:
        answer = call(request, **options)
        for _ in answer if hasattr(answer, "cancel") else ():
            pass
    assert "\n" not in refused.value.details()
    return refused.value.code(), refused.value.details()


@pytest.fixture(scope="module")
def channel(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    """To a gateway in front of the module's cluster."""
    gateway = GatewayProcess(cluster, tmp_path_factory.mktemp("gateway") / "gateway.log")
    with grpc.insecure_channel(gateway.address, options=STILL_WINDOWS) as opened:
        yield opened
    gateway.kill()


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Starts a cluster of the bank and waits for its leader; it is stopped after the test."""
    with clusters_of(BANK, tmp_path / "cluster") as start:
        yield start


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[StartGateway]:
    """Starts a gateway in front of a cluster; it is ended after the test."""
    started: list[GatewayProcess] = []

    def start(cluster: LocalCluster, *options: str, **more: Any) -> GatewayProcess:
        started.append(GatewayProcess(cluster, tmp_path / f"gateway-{len(started)}.log", *options, **more))
        return started[-1]

    yield start
    for gateway in started:
        if gateway.process.poll() is None:
            gateway.kill()


@pytest.fixture(scope="session")
def grpcurl() -> str:
    """A client in Go that knows nothing of Ordo; built the first time, which takes a minute."""
    folder = cache_folder().parent / "go-peers" / f"grpcurl-{GRPCURL_VERSION}"
    try:
        with only_one():
            build_programs(folder, {"grpcurl": (f"{GRPCURL}@{GRPCURL_VERSION}", GRPCURL)})
    except GoMissingError as missing:
        pytest.skip(str(missing))
    return str(folder / "grpcurl")
