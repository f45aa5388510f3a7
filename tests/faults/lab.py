"""A cluster of real processes with clients that write all the time, and what must hold when the faults are over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import Report, demand_agreement, describe
from tests.cluster.integration.protocol import REQUEST, Kind
from tests.cluster.integration.services import PID_EVENT
from tests.cluster.integration.writer import Writer
from tests.faults.accounts import Account, demand_accounts, execute, read_messages
from tests.faults.clients import Keys, RegisterClient, demand_linearizable
from tests.faults.disks import LOG_SIZE_BYTES, SIZE_BYTES, Disk, MemoryDisk
from tests.faults.logs import demand_equal_logs
from tests.faults.networks import Network
from tests.linearizability.history import History
from tests.patience import patient

SERVICE = "tests.faults.registers:Registers"
CLIENTS = 4
RECOVERY_TIMEOUT_S = 30.0
REPORT_OF_NOBODY = 1 << 62
LINES = 24
SMALL_LOG = {"log_term_length": "256k", "segment_length": "1m"}


class Judgement(NamedTuple):
    """How much was judged, and found to be right."""

    entries: int
    operations: int
    answers: int
    asked: str
    """Who found the operations to be linearizable."""


class Lab:
    """Use `laboratory`. All that runs is stepped in `run`: the writer, the clients, and whoever brings faults."""

    def __init__(
        self,
        cluster: LocalCluster,
        network: Network | None,
        disks: Mapping[int, Disk],
        log_disks: Mapping[int, Disk],
        seed: int,
        credentials: bytes = b"",
    ) -> None:
        self.cluster = cluster
        self.disks = dict(disks)
        self.log_disks = dict(log_disks)
        self.credentials = credentials
        self.history = History()
        self.may_end: set[int] = set()
        self.kept: Path | None = None
        """A file for a history that is not linearizable: porcupine is asked, too, where it is named."""
        self._network = network
        address = network.address(len(cluster.member_ids)) if network else "127.0.0.1"
        self.settings: dict[str, Any] = {
            "egress_channel": f"aeron:udp?endpoint={address}:0",
            "credentials": credentials,
        }
        settings = self.settings
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

    def ask_for_lines(self) -> None:
        """Has each replica write lines to its log, more than fit on one page of a disk, if somebody leads."""
        for _ in range(LINES):
            if not self.writer.client.is_closed:
                self.writer.client.offer(REQUEST.pack(Kind.REPORT, self.writer.writer_id, REPORT_OF_NOBODY))

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
        for disk in (*self.disks.values(), *self.log_disks.values()):
            disk.thaw()
            disk.make_room()
        for member_id in self.cluster.member_ids:
            self.go_on(member_id)
            self.start(member_id)
        return self.run_answered(20, "everybody is answered after the faults")

    def demand_everything(self) -> Judgement:
        """Nothing acknowledged is lost, doubled or reordered, all members agree, histories are linearizable, and what
        each client was told is what the log makes of what it asked."""
        report = demand_agreement(self.cluster, [self.writer], timeout_s=RECOVERY_TIMEOUT_S)
        self._check_processes()
        demand_equal_logs(self.cluster, report.position)
        looked = demand_linearizable(self.history, self.kept)
        for client in self.clients:
            assert client.answered > 0, f"client {client.client_id} was never answered"
        judged = Judgement(report.entries, looked.operations, self._demand_accounts(report), looked.asked)
        print(
            f"\nentries={judged.entries} operations={judged.operations} answers in accounts={judged.answers}"
            f" log bytes={report.position} resent={self.writer.resent}"
            f" sessions={self.writer.sessions}+{[client.sessions for client in self.clients]}"
        )
        return judged

    def _demand_accounts(self, report: Report) -> int:
        accounts = [Account(one.client_id, one.asked, one.answers) for one in self.clients]
        executed = execute(read_messages(self.cluster, report.position, self.credentials))
        return demand_accounts(executed, accounts, self.writer.counts, report)


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
    memory_disks_of: Sequence[int] = (),
    log_disks_of: Sequence[int] = (),
    disk_bytes: int = SIZE_BYTES,
    strangers: int = 0,
    credentials: bytes = b"",
    prefixes: Mapping[int, Sequence[str]] | None = None,
    cluster: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Lab]:
    """A cluster that leads, with clients connected to it; all of it is gone afterwards. Clients have the host behind
    those of the members, and `strangers` those behind it."""
    with ExitStack() as stack:
        words = {member_id: list((prefixes or {}).get(member_id, ())) for member_id in range(member_count)}
        network = None
        if with_network:
            network = Network(member_count + 1 + strangers)
            stack.callback(network.close)
            words = {member_id: [*network.prefix(member_id), *word] for member_id, word in words.items()}
            options["hosts"] = {member_id: network.address(member_id) for member_id in range(member_count)}
        disks = make_disks(stack, root, disks_of, memory_disks_of, disk_bytes)
        log_disks = make_log_disks(stack, root, log_disks_of)
        running = stack.enter_context(
            LocalCluster(
                SERVICE,
                root=root,
                member_count=member_count,
                prefixes=words,
                cluster={**SMALL_LOG, **(cluster or {})},
                **options,
            )
        )
        for disk in disks.values():
            stack.callback(disk.thaw)
        running.await_leader(60)
        if network is not None:
            stack.enter_context(network.enter(member_count))
        lab = Lab(running, network, disks, log_disks, seed, credentials)
        stack.callback(lab.close)
        yield lab


def make_disks(
    stack: ExitStack, root: Path, disks_of: Sequence[int], memory_disks_of: Sequence[int], size_bytes: int
) -> dict[int, Disk]:
    """A file system for each of these members; its data folder is a link there, so that two can be exchanged."""
    disks: dict[int, Disk] = {}
    root.mkdir(parents=True, exist_ok=True)
    for member_id in sorted({*disks_of, *memory_disks_of}):
        folder = root.with_name(f"{root.name}-volumes") / str(member_id)
        kind = MemoryDisk if member_id in memory_disks_of else Disk
        disks[member_id] = kind(folder, root.with_name(f"{root.name}-{member_id}.image"), size_bytes)
        stack.callback(disks[member_id].close)
        (root / str(member_id)).symlink_to(folder)
    return disks


def make_log_disks(stack: ExitStack, root: Path, members: Sequence[int]) -> dict[int, Disk]:
    """A small file system for the log of each of these members."""
    disks: dict[int, Disk] = {}
    for member_id in members:
        folder = root.with_name(f"{root.name}-logs") / str(member_id)
        disks[member_id] = MemoryDisk(folder, folder.with_suffix(".image"), LOG_SIZE_BYTES)
        stack.callback(disks[member_id].close)
        (root / f"{member_id}.log").symlink_to(folder / "log")
    return disks


__all__ = ["Judgement", "Lab", "laboratory"]
