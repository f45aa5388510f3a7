"""Drivers and clients on simulated hosts, in one thread and virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.memory import HeapMemoryProvider, MemoryProvider
from ordo.runtime.random import RandomSource
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from tests.simulation.network import Faults, SimulatedNetwork

MS = 1_000_000
S = 1_000_000_000
SMALL_TERM = 64 << 10
DEFAULTS: dict[str, Any] = {
    "term_length": SMALL_TERM * 4,
    "ipc_term_length": SMALL_TERM * 4,
    "counters_values_length": 1 << 16,
    "error_log_length": 1 << 20,
    "loss_report_length": 1 << 16,
}


class Node:
    """One host with a driver and one client of it."""

    def __init__(
        self, world: World, address: str, memory: MemoryProvider, directory: str, settings: dict[str, Any]
    ) -> None:
        self.world = world
        self.address = address
        self.memory = memory
        self.errors: list[BaseException | str] = []
        self.client_errors: list[BaseException] = []
        self.host = world.network.host(address)
        self.driver = MediaDriver(
            MediaDriverSettings(directory=directory, **{**DEFAULTS, **settings}),
            clock=world.clock,
            network=self.host,
            memory=self.memory,
            random=world.random.child(address),
            error_handler=self.errors.append,
        )
        self.driver.on_start()
        self.client = self.new_client()

    def new_client(self) -> TransportClient:
        return TransportClient(
            self.driver.directory,
            clock=self.world.clock,
            memory=self.memory,
            invoker=self.world.turn,
            error_handler=self.client_errors.append,
        )

    def counter(self, type_id: int, registration_id: int | None = None) -> int:
        """Value of the first counter of a type."""
        counter_id = self.driver.counters.find(type_id, registration_id=registration_id)
        assert counter_id >= 0, f"no counter of type {type_id}"
        return int(self.driver.counters.get_value(counter_id))

    def crash(self) -> None:
        """The process is gone: nothing is said to anybody."""
        self.host.close()
        self.world.nodes.remove(self)


class World:
    """A clock, a network and nodes. Every turn works each driver and client once; `step_ns` passes after it."""

    def __init__(self, seed: int = 1, faults: Faults | None = None, step_ns: int = 50_000, **settings: Any) -> None:
        self.clock = VirtualClock()
        self.random = RandomSource(seed)
        self.packets: list[tuple[int, tuple[str, int], tuple[str, int], bytes]] = []
        self.network = SimulatedNetwork(
            self.clock, self.random.stream("network"), faults, capture=lambda *packet: self.packets.append(packet)
        )
        self.step_ns = step_ns
        self.settings = settings
        self.nodes: list[Node] = []
        self.clock.advance(S)

    def node(
        self, address: str, memory: MemoryProvider | None = None, directory: str | None = None, **settings: Any
    ) -> Node:
        settings = {**self.settings, **settings}
        node = Node(self, address, memory or HeapMemoryProvider(), directory or f"/sim/{address}", settings)
        self.nodes.append(node)
        return node

    def turn(self) -> None:
        """One duty cycle of every driver; the step of time passes."""
        for node in self.nodes:
            node.driver.do_work(self.clock.now())
        self.clock.advance(self.step_ns)

    def cycle(self) -> None:
        """One duty cycle of every driver and client."""
        self.turn()
        for node in self.nodes:
            node.client.do_work(self.clock.now())

    def run(self, duration_ns: int, step_ns: int | None = None) -> None:
        before, self.step_ns = self.step_ns, step_ns or self.step_ns
        until = self.clock.now() + duration_ns
        while self.clock.now() < until:
            self.cycle()
        self.step_ns = before

    def run_coarsely(self, duration_ns: int, steps_max: int = 100) -> None:
        """As `run`, with longer steps where it would take more than so many."""
        self.run(duration_ns, step_ns=max(self.step_ns, duration_ns // steps_max))

    def until(self, condition: Callable[[], object], timeout_ns: int = 10 * S, step_ns: int | None = None) -> None:
        """Runs until the condition holds; fails when it does not within the (virtual) timeout."""
        before, self.step_ns = self.step_ns, step_ns or self.step_ns
        deadline = self.clock.now() + timeout_ns
        while not condition():
            assert self.clock.now() < deadline, f"not within {timeout_ns / S} s of virtual time"
            self.cycle()
        self.step_ns = before

    def frames(self, frame_type: int) -> list[bytes]:
        """The datagrams sent so far of one type."""
        return [p[3] for p in self.packets if int.from_bytes(p[3][6:8], "little") == frame_type]

    def close(self) -> None:
        for node in self.nodes:
            node.client.close()
            node.driver.on_close()


class Collector:
    """Polls a subscription and keeps what it got, by session."""

    def __init__(self, subscription: Any) -> None:
        self.subscription = subscription
        self.messages: list[bytes] = []
        self.by_session: dict[int, list[bytes]] = {}

    def poll(self, limit: int = 100) -> int:
        return int(self.subscription.poll(self._on_fragment, limit))

    def _on_fragment(self, payload: Any, header: Any) -> None:
        data = bytes(payload)
        self.messages.append(data)
        self.by_session.setdefault(header.session_id, []).append(data)


class Feeder:
    """Offers numbered messages of a given length as fast as they are taken."""

    def __init__(self, publication: Any, count: int, length: int = 100, first: int = 0) -> None:
        self.publication = publication
        self.messages = [f"{i:08d}".encode().ljust(length, b".") for i in range(first, first + count)]
        self.sent = 0

    def feed(self, limit: int = 1000) -> bool:
        """Offers up to `limit` messages. Always False, so that a condition can begin with it."""
        for _ in range(limit):
            if self.sent == len(self.messages) or self.publication.offer(self.messages[self.sent]) < 0:
                break
            self.sent += 1
        return False

    @property
    def done(self) -> bool:
        return self.sent == len(self.messages)


def transfer(world: World, feeder: Feeder, collectors: list[Collector], timeout_ns: int = 60 * S) -> None:
    """Runs until every collector has as many messages as the feeder offers."""

    def step() -> bool:
        feeder.feed()
        for collector in collectors:
            collector.poll()
        return feeder.done and all(len(c.messages) >= len(feeder.messages) for c in collectors)

    world.until(step, timeout_ns)
