"""What simulated programs have in common that follow the log from outside: applications, members of consumers."""

from __future__ import annotations

from random import Random
from typing import Protocol

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.client.settings import ClientSettings
from ordo.follow.entries import LogEntry
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.driver.media_driver import MediaDriver
from tests.simulation.nodes import CLOCK_START_NS, PORT, SimulatedNode, node_address
from tests.simulation.processes import ProcessWorld, start_process
from tests.simulation.timeline import NEVER_NS, Actor

MS = 1_000_000
S = 1_000_000_000
KIB = 1024
TICK_NS = 5 * MS


class FollowerWorld(ProcessWorld, Protocol):
    """What such a program needs of the world that it lives in."""

    nodes: list[SimulatedNode]

    @property
    def committed_position(self) -> int: ...
    def note(self, text: str) -> None: ...
    def fail(self, text: str) -> None: ...


class LogFollowerProcess(Actor):
    """One program through all its lives."""

    def __init__(self, world: FollowerWorld, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.random: Random = world.random.stream(name)
        self.cycle_ns = world.options.cycle_ns
        self.lives = 0
        self.known_ids = list(range(world.options.nodes))
        """The members that it is given when it starts."""
        self._followed = world
        self._driver: MediaDriver | None = None

    def start_life(self) -> ClientTransport:
        """A new process, which is due now."""
        world = self._followed
        self.lives += 1
        world.note(f"{self.name} boot {self.lives}")
        process = start_process(world, self.name, self.address, self.lives, 2 * S)
        self.clock, self.host, self._driver = process.clock, process.host, process.driver
        self.due_ns = world.now_ns
        return process.transport

    def end_life(self, text: str) -> None:
        """The process is gone at once; nobody is told."""
        self._followed.note(f"{self.name} {text}")
        if self.host is not None:
            self.host.close()
        self.release()

    def release(self) -> None:
        """Forgets the process without a word to anybody."""
        self._driver = self.host = None
        self.due_ns = NEVER_NS
        self.paused_until_ns = 0

    def boot(self) -> None:
        """A new process."""
        raise NotImplementedError

    def kill(self) -> None:
        """The process is gone at once; nobody is told."""
        self.end_life("killed")

    def forget_the_dead(self) -> None:
        """An operator starts it with the members that run, if one that it was given does not."""
        running_ids = [node.member_id for node in self._followed.nodes if node.node is not None]
        if any(one not in running_ids for one in self.known_ids):
            self.known_ids = running_ids
            self.kill()
            self.boot()

    def begin_step(self, now_ns: int) -> None:
        self.clock.advance(now_ns + CLOCK_START_NS - self.clock.now())

    def end_step(self, now_ns: int) -> None:
        """Sleeps until something is due."""
        host, driver = self.host, self._driver
        assert host is not None and driver is not None
        driver.park(self.clock.now(), TICK_NS)
        self.sleep_for(now_ns, min(TICK_NS, host.parked_ns))

    def check_committed(self, entry: LogEntry) -> None:
        """Nobody may be handed what the cluster can still lose."""
        if entry.position > self._followed.committed_position:
            self._followed.fail(f"{self.name} was handed position {entry.position}, which nobody has committed")

    def endpoints(self) -> list[str]:
        """The members' ingress."""
        return [f"{node_address(one)}:{PORT}" for one in self.known_ids]

    def archives(self, first: int) -> list[ArchiveClientSettings]:
        """The members' archives, from one of them on."""
        ids = self.known_ids
        return [
            ArchiveClientSettings(
                control_channel=f"aeron:udp?endpoint={node_address(ids[(first + i) % len(ids)])}:{PORT + 4}",
                response_channel=f"aeron:udp?endpoint={self.address}:0",
                message_timeout_s=1.0,
            )
            for i in range(len(ids))
        ]

    def client_settings(self) -> ClientSettings:
        return ClientSettings(
            ingress_channel="aeron:udp?term-length=64k",
            egress_channel=f"aeron:udp?endpoint={self.address}:0",
            egress_term_length_bytes=64 * KIB,
            keep_alive_interval_s=self._followed.options.session_timeout_ns // 5 / S,
            connect_attempt_timeout_s=0.5,
            new_leader_timeout_s=4,
        )
