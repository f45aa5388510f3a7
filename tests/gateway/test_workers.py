"""Several processes of a gateway at one address: who serves, one that is killed, and how all end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from ordo.deploy.launcher import find_ports, release_ports
from ordo.runtime.children import ChildProcess
from ordo.service_api import ordo_pb2 as pb
from tests.cluster.integration.agreement import await_that, await_value, hold
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import BANK, LendCluster
from tests.forks import start_ordo
from tests.gateway.conftest import GatewayProcess, StartGateway, sequencer_of
from tests.gateway.test_life import ADD, ENDPOINTS, await_status
from tests.patience import patient
from tests.snippets import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
CALLERS = 24
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def gateway(lend_cluster: LendCluster, start_gateway: StartGateway) -> GatewayProcess:
    words = Page("GATEWAY.md").take("sh", "--workers").split()
    options = words[words.index("--workers") :]
    assert options == ["--workers", "2"]
    found = start_gateway(lend_cluster(BANK, member_count=1), *options)
    await_status(found.address, SERVING)
    return found


def workers_of(gateway: GatewayProcess) -> Sequence[int]:
    return [int(one) for one in gateway.await_event("gateway.workers")["processes"]]


def connections_of(pid: int, address: str) -> int:
    """How many connections of callers a process has."""
    port = int(address.rpartition(":")[2])
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    theirs = {row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"}
    found = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += os.readlink(one).removeprefix("socket:[").removesuffix("]") in theirs
    return found


class Caller:
    """One with a connection and an identity of its own, which sends a request again until it is answered."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._identity = os.urandom(16)
        self._number = 0
        self.positions: list[int] = []

    def add(self) -> None:
        self._number += 1
        request = pb.SubmitRequest(identity=self._identity, number=self._number, payload=ADD)

        def is_answered() -> bool:
            try:
                answer: Any = sequencer_of(self._channel).Submit(request, timeout=patient(20))
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE, error.details()
                return False
            self.positions.append(answer.log_position)
            return True

        await_that(is_answered, "an answer")


@contextmanager
def callers_of(address: str) -> Iterator[Sequence[Caller]]:
    with ExitStack() as stack:
        alone = [("grpc.use_local_subchannel_pool", 1)]  # a connection for each
        channels = [stack.enter_context(grpc.insecure_channel(address, options=alone)) for _ in range(CALLERS)]
        yield [Caller(one) for one in channels]


def test_workers_share_the_callers_and_one_that_is_killed_is_replaced(gateway: GatewayProcess) -> None:
    first, second = workers_of(gateway)
    with callers_of(gateway.address) as callers:
        for one in callers:
            one.add()
        shares = [connections_of(pid, gateway.address) for pid in (first, second)]
        assert sum(shares) >= CALLERS and min(shares) > 0
        os.kill(first, signal.SIGKILL)
        for one in callers:
            one.add()
        died = gateway.await_event("gateway.worker-died")
        assert (died["process"], died["ended_by"]) == (first, "signal 9")
        await_that(lambda: len(gateway.events("gateway.started")) == 3, "another worker")
        for one in callers:
            one.add()
        positions = [place for one in callers for place in one.positions]
        assert len(set(positions)) == len(positions) == 3 * CALLERS, "each request was executed for itself"
    assert len(gateway.events("gateway.worker-died")) == 1
    assert gateway.stop() == 0
    assert len(gateway.events("gateway.ended")) == 2


def is_gone(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def test_workers_end_with_the_process_that_started_them(gateway: GatewayProcess) -> None:
    workers_of(gateway)
    gateway.kill()
    await_that(lambda: is_gone(gateway.address), "the workers to end")


def test_an_address_of_another_gateway_with_workers_is_refused_in_one_line(gateway: GatewayProcess) -> None:
    words = ("--listen", gateway.address, "--workers", "2")
    demand_one_line(ordo("gateway", *ENDPOINTS, *words, timeout_s=60), 2, f"--listen {gateway.address}")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--workers", "0"), "workers=0: must be 1 to 64"),
        (("--workers", "65"), "workers=65: must be 1 to 64"),
        (("--workers", "2", "--egress", "127.0.0.1:7000"), "its port must be 0"),
        (("--workers", "2", "--listen", "127.0.0.1:0", "--certificate", "/no", "--key", "/no"), "cannot be read"),
        (("--workers", "2", "--listen", "192.0.2.1:0"), "--listen 192.0.2.1:0"),
    ],
)
def test_mistakes_are_one_line(options: tuple[str, ...], word: str) -> None:
    demand_one_line(ordo("gateway", *ENDPOINTS, *options, timeout_s=60), 2, word)


def children_of(pid: int) -> Sequence[int]:
    """The child processes, in the order of their starts."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


StartAlone = Callable[..., tuple[ChildProcess, Path]]


@pytest.fixture
def start_alone(tmp_path: Path) -> Iterator[StartAlone]:
    """Starts a gateway with two workers, without a cluster, and waits for nothing."""
    started: list[ChildProcess] = []

    def start(listen: str = "127.0.0.1:0") -> tuple[ChildProcess, Path]:
        path = tmp_path / f"alone-{len(started)}.log"
        with path.open("wb") as log:
            started.append(start_ordo(["gateway", *ENDPOINTS, "--listen", listen, "--workers", "2"], log))
        return started[-1], path

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
            one.wait()


def first_worker(process: ChildProcess | subprocess.Popen[str]) -> int:
    """The process of the first worker, as soon as it is there, usually long before it serves."""
    return await_value(lambda: next(iter(children_of(process.pid)), None), "a worker")


HANGING = """
import time
from ordo.cluster.client.settings import ClientSettings
from ordo.gateway import workers
from ordo.gateway.callers.settings import GatewaySettings

async def hang(settings, on_started):
    time.sleep(3600)

workers.START_S = {start_s}
client = ClientSettings(egress_channel="aeron:udp?endpoint=127.0.0.1:0")
settings = GatewaySettings(endpoints=["127.0.0.1:9"], listen="127.0.0.1:0", workers=2, client=client)
workers.run_workers(hang, settings)
"""


def test_a_first_worker_that_is_killed_while_it_starts_ends_the_gateway_with_a_line() -> None:
    """It hangs as it starts, so that it does not serve before it is killed, however busy the machine."""
    words = [sys.executable, "-c", HANGING.format(start_s=3600)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        os.kill(first_worker(process), signal.SIGKILL)
        told, _ = process.communicate(timeout=patient(20))
    assert process.returncode == 1, told
    assert "signal 9, while it started" in told


def test_a_first_worker_that_hangs_while_it_starts_ends_the_gateway_with_a_line() -> None:
    """It waited for it without end, and said nothing."""
    words = [sys.executable, "-c", HANGING.format(start_s=0.1)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=patient(20))
    assert done.returncode == 1, done
    told = done.stdout + done.stderr
    assert "gateway.worker-killed" in told and "signal 9, while it started" in told, done


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a signal was sent to a process, which has not taken it yet."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(rows["ShdPnd"], 16) >> (number - 1) & 1)


def test_a_gateway_that_is_told_to_end_while_it_starts_ends_well(start_alone: StartAlone) -> None:
    process, log = start_alone()
    worker = first_worker(process)
    hold(worker)
    process.terminate()
    await_that(lambda: is_pending(worker, signal.SIGTERM), "the worker to be told")
    process.terminate()
    os.kill(worker, signal.SIGCONT)
    assert process.wait(patient(20)) == 0, log.read_text()


def test_of_two_gateways_that_begin_at_the_same_time_one_has_the_address(start_alone: StartAlone) -> None:
    ports = find_ports(1)
    gateways = [start_alone(f"127.0.0.1:{ports[0]}") for _ in range(2)]
    await_that(lambda: any(one.poll() is not None for one, _ in gateways), "one of them to end")
    process, log = next(one for one in gateways if one[0].poll() is not None)
    assert process.wait() == 2 and "Address already in use" in log.read_text()
    release_ports(ports)


def has_started(gateway: GatewayProcess, count: int) -> bool:
    return len(gateway.events("gateway.started")) == count


def test_one_that_dies_again_and_again_is_replaced_later_each_time(gateway: GatewayProcess) -> None:
    _, victim = workers_of(gateway)
    for count in range(1, 4):
        os.kill(victim, signal.SIGKILL)
        await_that(partial(has_started, gateway, 2 + count), "another worker")
        victim = children_of(gateway.process.pid)[-1]
    pauses = [one["again_after_s"] for one in gateway.events("gateway.worker-died")]
    assert pauses == [pauses[0], 2 * pauses[0], 4 * pauses[0]] and pauses[0] > 0
    assert gateway.stop() == 0


def test_a_replacement_that_is_killed_while_it_starts_is_replaced(gateway: GatewayProcess) -> None:
    kept, *killed = workers_of(gateway)
    os.kill(killed[0], signal.SIGKILL)

    def starting() -> int | None:
        return next((one for one in children_of(gateway.process.pid) if one not in (kept, *killed)), None)

    def ends() -> list[str]:
        return [one["ended_by"] for one in gateway.events("gateway.worker-died")]

    while "signal 9, while it started" not in ends():  # on a busy machine one may serve before it is killed
        killed.append(await_value(starting, "another worker"))
        os.kill(killed[-1], signal.SIGKILL)
        await_that(lambda: len(ends()) == len(killed), "its end to be told")
    assert set(ends()[:-1]) == {"signal 9"}
    await_that(partial(has_started, gateway, len(killed) + 1), "one more")
    assert gateway.stop() == 0


def test_a_replacement_that_hangs_while_it_starts_holds_up_nobody(gateway: GatewayProcess) -> None:
    first, second = workers_of(gateway)
    os.kill(second, signal.SIGKILL)

    def new_one(*known: int) -> int | None:
        return next((one for one in children_of(gateway.process.pid) if one not in known), None)

    hanging = await_value(lambda: new_one(first, second), "another worker")
    hold(hanging)
    if has_started(gateway, 3):
        pytest.skip("the machine was so busy that it served before it could be held")
    os.kill(first, signal.SIGKILL)
    await_that(partial(has_started, gateway, 3), "one in the place of the first, beside the one that hangs")
    serving = await_value(lambda: new_one(first, second, hanging), "its process")
    os.kill(hanging, signal.SIGKILL)
    await_that(partial(has_started, gateway, 4), "one in the place of the one that hung")
    assert {one["process"] for one in gateway.events("gateway.worker-died")} == {first, second, hanging}
    assert serving in children_of(gateway.process.pid)
    assert gateway.stop() == 0


@pytest.mark.parametrize("ends_itself", [True, False])
def test_a_worker_that_hangs_does_not_outlive_the_gateway(
    ends_itself: bool, lend_cluster: LendCluster, start_gateway: StartGateway
) -> None:
    gateway = start_gateway(lend_cluster(BANK, member_count=1), "--workers", "2", "--grace", "0.1")
    workers = workers_of(gateway)
    hold(workers[0])
    if ends_itself:
        assert gateway.stop() == 1
        assert gateway.events("gateway.worker-killed")[0]["process"] == workers[0]
    else:
        gateway.kill()
    await_that(lambda: not any(Path(f"/proc/{one}/fd/0").exists() for one in workers), "the workers to end")
