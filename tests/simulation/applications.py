"""Instances of an application: what ships, on simulated hosts and disks, killed and stopped while they all write."""

from __future__ import annotations

from collections.abc import Callable

from ordo.applications.application import Application, ApplicationSettings, AppMode
from ordo.applications.canary import Difference
from ordo.cluster.container.tables.consumers import ContainerConsumers
from ordo.cluster.wire.sessions.consumer_codec import CommandKind, ConsumerCommand, encode_command
from ordo.follow.entries import LogEntry
from ordo.runtime.errors import OrdoError
from ordo.service_api.service import Service
from tests.simulation.app_service import GROUP, CountingService, NextCountingService, RepeatingService
from tests.simulation.log_followers import FollowerWorld, LogFollowerProcess
from tests.simulation.storage import SimulatedDisk, SimulatedStorage
from tests.simulation.writers import WriterWatch

UPGRADE_OUTPUTS = 40
"""After so many the instances are told to go on with other code."""
ORDER_INTERVAL_NS = 100_000_000


class SimulatedApplication(LogFollowerProcess):
    """One instance through all its lives. `application` is None while its process is dead; the disk outlives it."""

    def __init__(self, world: FollowerWorld, index: int, watch: WriterWatch) -> None:
        super().__init__(world, f"app{index}", f"10.0.2.{index + 1}")
        self.world = world
        self.index = index
        self.mode = AppMode(world.options.application_mode)
        self._watch = watch
        self.disk = SimulatedDisk(world.random.stream(f"disk {self.name}"))
        self.application: Application | None = None
        self._order_due_ns = 0

    def boot(self) -> None:
        """A new process on the disk as it is."""
        transport = self.start_life()
        try:
            self.application = Application(
                self._code(),
                self._settings(),
                transport=transport,
                storage=SimulatedStorage(self.disk, self.clock),
                on_entry=self._check,
                on_difference=self._note_difference,
            )
        except OrdoError as error:
            self.world.fail(f"{self.name} does not start: {error}")

    def _code(self) -> dict[int, Callable[[], Service]]:
        has_ids = self.world.options.application_ids
        code: dict[int, Callable[[], Service]] = {1: RepeatingService if has_ids else CountingService}
        return {**code, 2: NextCountingService} if self.world.options.application_upgrade else code

    def _note_difference(self, one: Difference) -> None:
        """What a canary finds."""

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
        self._order_upgrade(now_ns)
        self.end_step(now_ns)

    def _order_upgrade(self, now_ns: int) -> None:
        """As an operator does, who sends the order again until it is answered."""
        application, options = self.application, self.world.options
        if not options.application_upgrade or application is None or now_ns < self._order_due_ns:
            return
        self._order_due_ns = now_ns + ORDER_INTERVAL_NS
        session, executor = application._session, application.executor
        if session is not None and executor.outputs_accepted >= UPGRADE_OUTPUTS:
            order = ConsumerCommand(CommandKind.APP_UPGRADE, GROUP, position=2, from_position=1)
            session.offer_report(encode_command(order, session.leadership_term_id, session.session_id))

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
        if application is None or application.outputs_waiting or application.executor.next_timer() is not None:
            return False
        return application.executor.app_version == max(self._code())
