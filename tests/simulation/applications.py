"""Instances of an application: what ships, on simulated hosts and disks, killed and stopped while they all write."""

from __future__ import annotations

from cluster.container.consumers import ContainerConsumers
from runtime.errors import OrdoError
from sequencer.application import Application, ApplicationSettings, AppMode
from sequencer.entries import LogEntry
from tests.simulation.app_service import GROUP, CountingService
from tests.simulation.log_followers import FollowerWorld, LogFollowerProcess
from tests.simulation.storage import SimulatedDisk, SimulatedStorage
from tests.simulation.writers import WriterWatch


class SimulatedApplication(LogFollowerProcess):
    """One instance through all its lives. `application` is None while its process is dead; the disk outlives it."""

    SERVICE: type[CountingService] = CountingService

    def __init__(self, world: FollowerWorld, index: int, watch: WriterWatch) -> None:
        super().__init__(world, f"app{index}", f"10.0.2.{index + 1}")
        self.world = world
        self.index = index
        self.mode = AppMode(world.options.application_mode)
        self._watch = watch
        self.disk = SimulatedDisk(world.random.stream(f"disk {self.name}"))
        self.application: Application | None = None

    def boot(self) -> None:
        """A new process on the disk as it is."""
        transport = self.start_life()
        try:
            self.application = Application(
                self.SERVICE,
                self._settings(),
                transport=transport,
                storage=SimulatedStorage(self.disk, self.clock),
                on_entry=self._check,
            )
        except OrdoError as error:
            self.world.fail(f"{self.name} does not start: {error}")

    def _check(self, entry: LogEntry) -> None:
        self.check_committed(entry)
        if self.mode is AppMode.ACTIVE_PASSIVE and (wrong := self._watch.hear(entry)):
            self.world.fail(wrong)

    def _settings(self) -> ApplicationSettings:
        return ApplicationSettings(
            group=GROUP,
            mode=self.mode,
            endpoints=self.endpoints(),
            folder=f"/simulated/{self.name}/state",
            archives=self.archives(self.index),
            client=self.client_settings(),
            silence_s=0.3,
            instance=self.name,
            report_interval_s=0.2,
            checkpoint_interval_s=self.random.choice((0.05, 0.3, 2.0)),
        )

    def kill(self, *, wipes: bool = False, loses_power: bool = False) -> None:
        """The process is gone at once; nobody is told."""
        self.end_life(f"killed{', its disk is gone' if wipes else ''}")
        if wipes:
            self.disk.wipe()
        elif loses_power:
            self.disk.crash()
        else:
            self.disk.kill()

    def release(self) -> None:
        """Forgets the process without a word to anybody."""
        super().release()
        self.application = None

    @property
    def is_alive(self) -> bool:
        return self.application is not None

    def step(self, now_ns: int) -> None:
        """One duty cycle, and sleep until something is due."""
        assert self.application is not None
        self.begin_step(now_ns)
        try:
            self.application.work()
        except OrdoError as error:
            self.world.fail(f"{self.name} ended: {type(error).__name__}: {error}")
        self.end_step(now_ns)

    def find_untold(self, members: list[ContainerConsumers]) -> str:
        """What members do not know of what this instance has told the cluster; '' when they know it."""
        application = self.application
        told = None if application is None else application.reported
        if application is None or told is None:
            return f"{self.name} has reported nothing"
        for member in members:
            found = member.instances.get(application.session_id)
            shown = None if found is None else (found.instance, found.outputs_made, found.outputs_executed)
            if shown != (self.name, told.outputs_made, told.outputs_executed):
                return f"{self.name} has reported {told}, a member knows {found}"
        return ""

    @property
    def is_idle(self) -> bool:
        """It knows that all it has made was executed, and no timer is left."""
        application = self.application
        return application is not None and not application.outputs_waiting and application.executor.next_timer() is None
