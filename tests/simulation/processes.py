"""A simulated process outside the cluster: a host, a clock, and a transport with a driver of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.memory import HeapMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from tests.simulation.nodes import CLOCK_START_NS

if TYPE_CHECKING:
    from ordo.runtime.random import RandomSource
    from tests.simulation.network import SimulatedHost, SimulatedNetwork
    from tests.simulation.options import Options

S = 1_000_000_000
KIB = 1024


class ProcessWorld(Protocol):
    """What a process needs of the world that it lives in."""

    options: Options
    random: RandomSource
    network: SimulatedNetwork

    @property
    def now_ns(self) -> int: ...


class Process(NamedTuple):
    """What one life of a process has."""

    clock: VirtualClock
    host: SimulatedHost
    driver: MediaDriver
    transport: ClientTransport


def start_process(world: ProcessWorld, name: str, address: str, life: int, image_liveness_ns: int) -> Process:
    """Starts a driver on a new host, and the transport client of it."""
    clock, memory = VirtualClock(CLOCK_START_NS + world.now_ns), HeapMemoryProvider()
    host = world.network.host(address)
    config = MediaDriverSettings(
        directory=f"/simulated/{name}",
        term_length=64 * KIB,
        ipc_term_length=64 * KIB,
        image_liveness_timeout_ns=image_liveness_ns,
        client_liveness_timeout_ns=3600 * S,
        publication_unblock_timeout_ns=3601 * S,
        mtu=world.options.mtu,
        receiver_window=max(32 * KIB, 2 * world.options.mtu),
    )
    random = world.random.child(f"{name} life {life}")
    driver = MediaDriver(config, clock=clock, network=host, memory=memory, random=random)
    driver.on_start()
    client = TransportClient(
        config.directory, clock=clock, memory=memory, invoker=lambda: driver.do_work(clock.now()), name=name
    )
    return Process(clock, host, driver, ClientTransport(client, clock, driver, random=random))
