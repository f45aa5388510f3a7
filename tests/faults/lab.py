"""A cluster of real processes with clients that write all the time, and what must hold when the faults are over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import Report, demand_agreement, describe
from tests.cluster.integration.services import PID_EVENT
from tests.cluster.integration.writer import Writer
from tests.faults.clients import Keys, RegisterClient, demand_linearizable
from tests.faults.disks import Disk
from tests.faults.logs import demand_equal_logs
from tests.faults.networks import Network
from tests.linearizability.history import History
from tests.patience import patient

SERVICE = "tests.faults.registers:Registers"
CLIENTS = 4
RECOVERY_TIMEOUT_S = 30.0
SMALL_LOG = {"log_term_length": "256k", "segment_length": "1m"}


class Lab:
    """Use `laboratory`. All that runs is stepped in `run`: the writer, the clients, and whoever brings faults."""

    def __init__(
        self, cluster: LocalCluster, network: Network | None, disks: Mapping[int, Disk], seed: int, client_address: str
    ) -> None:
        self.cluster = cluster
        self.disks = dict(disks)
        self.history = History()
        self.may_end: set[int] = set()
        self._network = network
        settings: dict[str, Any] = {"egress_channel": f"aeron:udp?endpoint={client_address}:0"}
        endpoints, keys = cluster.ingress_endpoints, Keys(Random(f"keys {seed}"))
        self.writer = Writer(endpoints, window=16, padding=200, reopens=True, **settings)
        self.clients = [
            RegisterClient(number, endpoints, self.history, keys, Random(f"client {seed} {number}"), **settings)
            for number in range(1, CLIENTS + 1)
        ]

    @property
    def network(self) -> Network:
        assert self._network is not None, "this cluster lives on loopback"
        return self._network

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.writer.client.close()

    # Running

    def run(self, duration_s: float, also: Callable[[], object] = lambda: None) -> None:
        """Everybody works for a while."""
        self.run_until(ends_at(time.monotonic() + duration_s), "", duration_s + RECOVERY_TIMEOUT_S, also)

    def run_until(
        self,
        condition: Callable[[], bool],
        what: str,
        timeout_s: float = RECOVERY_TIMEOUT_S,
        also: Callable[[], object] = lambda: None,
    ) -> None:
        """Everybody works until a condition holds, which it must in time."""

        def step() -> bool:
            assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}\n{self.explain()}"
            for client in self.clients:
                client.step()
            also()
            self._check_processes()
            return condition()

        deadline_s = time.monotonic() + patient(timeout_s)
        self.writer.run(step, timeout_s=2 * timeout_s)

    def answers(self) -> int:
        """How much was answered so far, to writer and clients."""
        return self.writer.acked + sum(client.answered for client in self.clients)

    def run_answered(self, count: int, what: str, timeout_s: float = RECOVERY_TIMEOUT_S) -> float:
        """Everybody works until the writer and each client have got so many new answers; how long it took, in s."""
        began_s = time.monotonic()
        targets = [client.answered + count for client in self.clients]
        written = self.writer.acked + count
        self.run_until(
            lambda: (
                self.writer.acked >= written
                and all(client.answered >= target for client, target in zip(self.clients, targets, strict=True))
            ),
            what,
            timeout_s,
        )
        return time.monotonic() - began_s

    def _check_processes(self) -> None:
        for member_id in self.cluster.member_ids:
            if member_id in self.may_end or self.cluster.is_running(member_id):
                continue
            raise AssertionError(f"member {member_id} ended by itself\n{self.explain()}")

    def explain(self) -> str:
        said = [
            f"client {one.client_id}: asked={one.asked} answered={one.answered} {one.client.state.name}"
            for one in self.clients
        ]
        return "\n".join([*said, self.writer.describe(), describe(self.cluster)])

    # Members

    def fill_disk(self, member_id: int) -> None:
        """No member ends for want of room."""
        self.disks[member_id].fill()

    def make_room(self, member_id: int) -> None:
        self.disks[member_id].make_room()

    def leader(self) -> int:
        return self.cluster.await_leader()

    def follower(self) -> int:
        leader = self.leader()
        return next(member_id for member_id in self.cluster.member_ids if member_id != leader)

    def kill(self, member_id: int) -> None:
        self.may_end.add(member_id)
        self.cluster.kill(member_id)

    def start(self, member_id: int) -> None:
        if not self.cluster.is_running(member_id):
            self.cluster.start_member(member_id)
        self.may_end.discard(member_id)

    def pause(self, member_id: int) -> None:
        """Node and container stand still until `go_on`."""
        os.killpg(self.cluster.pid(member_id), signal.SIGSTOP)

    def go_on(self, member_id: int) -> None:
        if self.cluster.is_running(member_id):
            os.killpg(self.cluster.pid(member_id), signal.SIGCONT)

    def container_pid(self, member_id: int) -> int | None:
        """The process id of the container that a member started last; None before the first."""
        started = list(self.cluster.log_events(member_id, PID_EVENT))
        return int(str(started[-1]["pid"])) if started else None

    # The end

    def settle(self) -> float:
        """The faults stop and everybody is started: how long it took until all were answered, in s."""
        if self._network is not None:
            self._network.heal()
        for member_id, disk in self.disks.items():
            disk.thaw()
            self.make_room(member_id)
        for member_id in self.cluster.member_ids:
            self.go_on(member_id)
            self.start(member_id)
        return self.run_answered(20, "everybody is answered after the faults")

    def demand_everything(self) -> Report:
        """Nothing acknowledged is lost, doubled or reordered, all members agree, and histories are linearizable."""
        report = demand_agreement(self.cluster, [self.writer], timeout_s=RECOVERY_TIMEOUT_S)
        self._check_processes()
        demand_equal_logs(self.cluster, report.position)
        looked_at = demand_linearizable(self.history)
        for client in self.clients:
            assert client.answered > 0, f"client {client.client_id} was never answered"
        print(
            f"\nentries={report.entries} operations={looked_at} log bytes={report.position} resent={self.writer.resent}"
            f" sessions={self.writer.sessions}+{[client.sessions for client in self.clients]}"
        )
        return report


def ends_at(deadline_s: float) -> Callable[[], bool]:
    return lambda: time.monotonic() >= deadline_s


@contextmanager
def laboratory(
    root: Path,
    *,
    seed: int = 1,
    member_count: int = 3,
    with_network: bool = False,
    disks_of: Sequence[int] = (),
    prefixes: Mapping[int, Sequence[str]] | None = None,
    **options: Any,
) -> Iterator[Lab]:
    """A cluster that leads, with clients connected to it; all of it is gone afterwards. Clients have the last host."""
    with ExitStack() as stack:
        words = {member_id: list((prefixes or {}).get(member_id, ())) for member_id in range(member_count)}
        network = None
        if with_network:
            network = Network(member_count + 1)
            stack.callback(network.close)
            words = {member_id: [*network.prefix(member_id), *word] for member_id, word in words.items()}
            options["hosts"] = {member_id: network.address(member_id) for member_id in range(member_count)}
        disks = {}
        for member_id in disks_of:
            disks[member_id] = Disk(root / str(member_id), root.with_name(f"{root.name}-{member_id}.image"))
            stack.callback(disks[member_id].close)
        cluster = stack.enter_context(
            LocalCluster(SERVICE, root=root, member_count=member_count, prefixes=words, cluster=SMALL_LOG, **options)
        )
        for disk in disks.values():
            stack.callback(disk.thaw)
        cluster.await_leader(60)
        if network is not None:
            stack.enter_context(network.enter(member_count))
        lab = Lab(cluster, network, disks, seed, network.address(member_count) if network else "127.0.0.1")
        stack.callback(lab.close)
        yield lab


__all__ = ["Lab", "laboratory"]
