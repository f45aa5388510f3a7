"""Instances of an application: what ships, on simulated hosts and disks, killed and stopped while they all write."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from archive.client.settings import ArchiveClientSettings
from cluster.client.settings import ClientSettings
from runtime.errors import OrdoError
from sequencer.application import Application, ApplicationSettings
from sequencer.entries import LogEntry
from tests.simulation.app_service import GROUP, CountingService
from tests.simulation.nodes import CLOCK_START_NS, PORT, node_address
from tests.simulation.processes import ProcessWorld, start_process
from tests.simulation.storage import SimulatedDisk, SimulatedStorage
from tests.simulation.timeline import NEVER_NS, Actor
from transport.driver.media_driver import MediaDriver

if TYPE_CHECKING:
    pass

MS = 1_000_000
S = 1_000_000_000
KIB = 1024
TICK_NS = 5 * MS


class ApplicationWorld(ProcessWorld, Protocol):
    """What an instance needs of the world that it lives in."""

    @property
    def committed_position(self) -> int: ...
    def note(self, text: str) -> None: ...
    def fail(self, text: str) -> None: ...


class SimulatedApplication(Actor):
    """One instance through all its lives. `application` is None while its process is dead; the disk outlives it."""

    def __init__(self, world: ApplicationWorld, index: int) -> None:
        self.world = world
        self.index = index
        self.name = f"app{index}"
        self.address = f"10.0.2.{index + 1}"
        self.random: Random = world.random.stream(self.name)
        self.disk = SimulatedDisk(world.random.stream(f"disk {self.name}"))
        self.cycle_ns = world.options.cycle_ns
        self.lives = 0
        self.application: Application | None = None
        self._driver: MediaDriver | None = None

    def boot(self) -> None:
        """A new process on the disk as it is."""
        world = self.world
        self.lives += 1
        world.note(f"{self.name} boot {self.lives}")
        process = start_process(world, self.name, self.address, self.lives, 2 * S)
        self.clock, self.host, self._driver = process.clock, process.host, process.driver
        try:
            self.application = Application(
                CountingService,
                self._settings(),
                transport=process.transport,
                storage=SimulatedStorage(self.disk, self.clock),
                on_entry=self._on_entry,
            )
        except OrdoError as error:
            world.fail(f"{self.name} does not start: {error}")
        self.due_ns = world.now_ns

    def _settings(self) -> ApplicationSettings:
        options = self.world.options
        members = [(self.index + i) % options.nodes for i in range(options.nodes)]
        return ApplicationSettings(
            group=GROUP,
            endpoints=[f"{node_address(i)}:{PORT}" for i in range(options.nodes)],
            folder=f"/simulated/{self.name}/state",
            archives=[
                ArchiveClientSettings(
                    control_channel=f"aeron:udp?endpoint={node_address(i)}:{PORT + 4}",
                    response_channel=f"aeron:udp?endpoint={self.address}:0",
                    message_timeout_s=1.0,
                )
                for i in members
            ],
            client=ClientSettings(
                ingress_channel="aeron:udp?term-length=64k",
                egress_channel=f"aeron:udp?endpoint={self.address}:0",
                egress_term_length_bytes=64 * KIB,
                keep_alive_interval_s=options.session_timeout_ns // 5 / S,
                connect_attempt_timeout_s=0.5,
                new_leader_timeout_s=4,
            ),
            silence_s=0.3,
            checkpoint_interval_s=self.random.choice((0.05, 0.3, 2.0)),
        )

    def _on_entry(self, entry: LogEntry) -> None:
        if entry.position > self.world.committed_position:
            self.world.fail(f"{self.name} was handed position {entry.position}, which nobody has committed")

    def kill(self, *, wipes: bool = False, loses_power: bool = False) -> None:
        """The process is gone at once; nobody is told."""
        self.world.note(f"{self.name} killed{', its disk is gone' if wipes else ''}")
        if self.host is not None:
            self.host.close()
        self.release()
        if wipes:
            self.disk.wipe()
        elif loses_power:
            self.disk.crash()
        else:
            self.disk.kill()

    def release(self) -> None:
        """Forgets the process without a word to anybody."""
        self.application = self._driver = self.host = None
        self.due_ns = NEVER_NS
        self.paused_until_ns = 0

    @property
    def is_alive(self) -> bool:
        return self.application is not None

    def step(self, now_ns: int) -> None:
        """One duty cycle, and sleep until something is due."""
        self.clock.advance(now_ns + CLOCK_START_NS - self.clock.now())
        host, driver, application = self.host, self._driver, self.application
        assert host is not None and driver is not None and application is not None
        try:
            application.work()
        except OrdoError as error:
            self.world.fail(f"{self.name} ended: {type(error).__name__}: {error}")
        driver.park(self.clock.now(), TICK_NS)
        self.sleep_for(now_ns, min(TICK_NS, host.parked_ns))

    @property
    def is_idle(self) -> bool:
        """It knows that all it has made was executed, and no timer is left."""
        application = self.application
        return application is not None and not application.outputs_waiting and application.executor.next_timer() is None
