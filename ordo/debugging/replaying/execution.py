"""One service of a recorded log, executed up to any of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.wire.counters.counter_types import CounterType, service_key
from ordo.debugging.replaying.debug_container import DebugContainer
from ordo.debugging.replaying.effects import Effect
from ordo.debugging.replaying.quiet_client import QuietClient, recovery_key
from ordo.debugging.replaying.recorded_log import Checkpoint
from ordo.runtime.errors import ConfigurationError, ServiceError
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.reporting.failures import place_of
from ordo.service_api.snapshot_demand import implements_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ordo.archive.segments.reader import RecordingReader
    from ordo.debugging.replaying.code import MakeVersions
    from ordo.debugging.replaying.recorded_log import RecordedLog
    from ordo.service_api.service import Service

RECORDS_AT_ONCE = 256
"""So many records take a moment, even where one takes a millisecond."""
SNAPSHOT_ID = 0


class ServiceFailure(NamedTuple):
    """What a service raised, and at which record."""

    position: int
    text: str
    error: BaseException


class ServiceFailedError(ServiceError):
    """Raised where the service raised at a record: `failure` has what it was."""

    def __init__(self, failure: ServiceFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class _Message(NamedTuple):
    payload: bytes


class _Snapshot:
    """A checkpoint, as a container reads the recording of one."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def messages(self) -> list[_Message]:
        return [_Message(one) for one in self._checkpoint.messages]


class Execution:
    """A service that has executed a log up to `position`."""

    def __init__(
        self,
        log: RecordedLog,
        code: MakeVersions,
        start: Checkpoint | None = None,
        *,
        service_id: int = 0,
        skips: Mapping[int, str] | None = None,
    ) -> None:
        """Start from a checkpoint, or from the beginning of the log. Raises ConfigurationError, ServiceFailedError.

        `skips`: the records that are left out; None: those that the log says.
        """
        self._log = log
        self._start = start
        position = log.start if start is None else start.position
        if start is None and position > 0:
            raise ConfigurationError(f"the log begins at {position}: only a snapshot can be executed from")
        clock = VirtualClock()
        client = QuietClient(clock)
        self._commit = client.allocate(CounterType.COMMIT_POSITION, position)
        self._executed = client.allocate(CounterType.SERVICE_POSITION, position, service_key(0, service_id))
        client.allocate(CounterType.LEADER_TERM, -1)
        client.allocate(CounterType.LOG_RECORDING, SNAPSHOT_ID + 1)
        time, term_id = (0, -1) if start is None else (start.time, start.term_id)
        snapshot_id = None if start is None else SNAPSHOT_ID
        client.allocate(CounterType.RECOVERY_STATE, 0, recovery_key(position, time, term_id, service_id, snapshot_id))
        self.container = DebugContainer(code(), client, clock, self._open, service_id)
        self.container.marks = dict(log.skips if skips is None else skips) or None
        self.container.on_start()
        self._work()
        assert self.container.state is ContainerState.RUNNING, "the container did not start"

    def _open(self, recording_id: int, position: int | None) -> RecordingReader:
        if recording_id == SNAPSHOT_ID:
            assert self._start is not None
            return cast("RecordingReader", _Snapshot(self._start))  # a container asks it for its messages alone
        assert position is not None
        return self._log.reader(position)

    @property
    def position(self) -> int:
        """The position up to which everything was executed."""
        return self._executed.value

    @property
    def service(self) -> Service:
        return self.container.service

    @property
    def app_version(self) -> int:
        """The version of the code that is in force."""
        return self.container.versions.in_force

    @property
    def can_save(self) -> bool:
        """Whether the service says how to save its state."""
        return implements_snapshots(type(self.service))

    def run(self, limit: int, records_max: int = RECORDS_AT_ONCE) -> bool:
        """Execute records that end at the limit or before, at most this many; return False where there was none.

        Raises ServiceFailedError.
        """
        self._commit.set(limit)
        self.container.record_limit = records_max
        before = self._executed.value
        self._work()
        return self._executed.value != before

    def run_to(self, limit: int) -> None:
        """Execute all records that end at the limit or before."""
        while self.run(limit):
            pass

    def begin_steps(self, limit: int) -> Callable[[], bool]:
        """Return what executes the next record that ends at the limit or before; False: there is none.

        Raises ServiceFailedError. For loops over millions of records.
        """
        self._commit.set(limit)
        self.container.record_limit = 1
        executed, do_work = self._executed, self.container.do_work

        def run() -> bool:
            before = executed.value
            try:
                do_work(0)
            except ServiceError as error:
                raise self._failed(error) from error
            return executed.value != before or self._check()

        return run

    def step(self, limit: int) -> list[Effect]:
        """Execute the record that ends at the limit, and return what the service did."""
        container = self.container
        noted = container.effects
        effects: list[Effect] = []
        container.effects = effects
        rejected = container.messages_rejected
        try:
            self.run(limit, 1)
        finally:
            container.effects = noted
        if container.messages_rejected > rejected and not any(one.kind == "reject" for one in effects):
            effects.append(Effect(limit, "reject", container.answered_session_id))
        return effects

    def _work(self) -> None:
        try:
            self.container.do_work(0)
        except ServiceError as error:
            raise self._failed(error) from error
        self._check()

    def _failed(self, error: ServiceError) -> ServiceFailedError:
        cause = error.__cause__ or error
        place = place_of(cause)
        text = f"{error.message} ({place})" if place else error.message
        return ServiceFailedError(ServiceFailure(self.container.log_position, text, cause))

    def _check(self) -> bool:
        """Raise ConfigurationError where there is no code for what follows."""
        if self.container.state is ContainerState.FAILED:
            raise ConfigurationError(
                f"after position {self.container.log_position} the log needs the service's code of another version"
                " than was given: give --service VERSION=module:Class for each"
            )
        return False

    def save(self) -> Checkpoint:
        """Return the state, as a snapshot at this position has it. Raises ServiceError."""
        container, messages = self.container, list[bytes]()
        container.save(self.position, messages.append)
        return Checkpoint(self.position, container.time, container.leadership_term_id, tuple(messages))

    def own_state(self) -> bytes:
        """Return what the service itself writes of its state, however it is cut into messages. Raises ServiceError."""
        parts: list[bytes] = []
        self.container.save_service(parts.append)
        return b"".join(parts)
