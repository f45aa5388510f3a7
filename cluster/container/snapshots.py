"""The service's part of a snapshot: the state at one record, published over the duty cycles that follow.

A copy of the process writes it while the service goes on (`ordo.cluster.container.process_copy`), or, where there is no
copier or the service cannot be copied, `on_take_snapshot` runs between two records and the service stands still until
everything is recorded. What is written is the same, and so is what the consensus module is told at the end:

    copied     SnapshotBegun at the record, later the digest and the ack
    stands     the digest and the ack, while nothing is executed
    failed     an ack without a recording
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.container.process_copy import Append, Copier, SnapshotCopy
from ordo.cluster.container.state_keeper import StateKeeper
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import SNAPSHOT_MESSAGE_BYTES_MAX
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.cluster.wire.snapshots.snapshot_writer import SnapshotWriter
from ordo.cluster.wire.streams import SERVICE_SNAPSHOT_STREAM_ID, local_stream
from ordo.runtime.errors import SnapshotError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.reporting.failures import one_line
from ordo.runtime.reporting.logging import tell
from ordo.service_api import snapshot as service_snapshot
from ordo.service_api.snapshot_demand import demand_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ordo.cluster.container.execution import ServiceExecution
    from ordo.cluster.container.own_state import OwnState
    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.feeds import ContainerFeeds
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.runtime.native.clock import Clock
    from ordo.transport.client.client import TransportClient

HOLD_SNAPSHOT = 4
"""A snapshot is being recorded while the service stands still, or one is due before the last is recorded."""
SILENCE_NS_MAX = 600 * 1_000_000_000
"""A copy that has written nothing for so long is given up."""


class _Point(NamedTuple):
    """The record that a snapshot belongs to."""

    log_position: int
    time: int
    feeds: Mapping[int, int]
    """What the recordings of feeds must have before the snapshot counts."""
    is_hashed: bool
    """Members copy it, so it says which hash the state has."""


class ContainerSnapshots:
    """The snapshots of one container, one at a time. The record of a second one waits, and the service with it."""

    copier: Copier | None = None
    """What copies the service; None: it stands still."""

    def __init__(
        self,
        loop: ContainerLoop,
        control: ContainerControl,
        execution: ServiceExecution,
        own_state: OwnState,
        feeds: ContainerFeeds,
        client: TransportClient,
        clock: Clock,
        cluster_id: int,
    ) -> None:
        self._loop = loop
        self._control = control
        self._execution = execution
        self._own_state = own_state
        self._feeds = feeds
        self._client = client
        self._clock = clock
        self._stream_id = local_stream(SERVICE_SNAPSHOT_STREAM_ID, cluster_id)
        self.silence_ns_max = SILENCE_NS_MAX
        self._point: _Point | None = None
        self._writer: SnapshotWriter | None = None
        self._copy: SnapshotCopy | None = None
        self._is_recorded = False
        self._digest = b""
        self._heard_ns = 0
        self._waiting: Callable[[], None] | None = None
        """What the record after that of the snapshot under way asks for."""
        self._told_obstacle = ""
        self._keeper = StateKeeper(client, self._stream_id, self._on_kept)

    @property
    def is_under_way(self) -> bool:
        return self._point is not None or self._keeper.is_under_way

    @property
    def is_copy(self) -> bool:
        """Whether this is not the service's process but a copy of it."""
        return self.copier is not None and self.copier.is_copy

    def take(self, log_position: int, *, is_hashed: bool = False) -> None:
        """Take the state after the record that ends here; at once, or when the snapshot before is recorded.

        `is_hashed`: members copy it, and have to see that it is of their own state.
        """
        if self._point is not None:
            self._await_end(lambda: self.take(log_position, is_hashed=is_hashed))
            return
        self._point = _Point(log_position, self._loop.time, self._feeds.positions(), is_hashed)
        try:
            demand_snapshots(self._loop.service)
            if self._may_copy():
                self._begin_copy(self._point)
            else:
                self._stand_still(self._point)
        except Exception as error:
            self._fail(error)

    def describe(self, log_position: int) -> None:
        """Tell the module by what a standby's snapshot of this position is known to be of this state.

        It is told where there is nothing as well: the module waits for it. A snapshot that is being recorded has to be
        acknowledged first: the module takes reports in the order of the log, and leaves later ones in the stream.
        """
        if self._point is not None:
            self._await_end(lambda: self.describe(log_position))
            return
        heads: list[bytes] = []

        def hash_own() -> None:
            heads.append(container_snapshot.head_digest(self._own_state.describe_hashed(log_position)))

        if not self._execution.leaves_out(log_position):
            self._execution.attempt("state_hash", hash_own)
        self._control.send_snapshot_digest(log_position, heads[0] if heads else b"")
        self._control.send_snapshot_begun(log_position, NULL_VALUE)

    def keep_state(self) -> None:
        """Have the service stand still, since its state is not that of the other members, and record the state.

        It is kept as evidence, unless half a record was executed.
        """
        log_position, is_whole = self._loop.log_position, self._execution.state is ContainerState.RUNNING
        self._execution.stand_still()
        if not is_whole:
            self._on_kept(log_position, NULL_VALUE)
            return
        try:
            demand_snapshots(self._loop.service)
            messages: list[bytes] = []
            self._write(log_position, messages.append)
            self._keeper.begin(log_position, messages, self._clock.now())
        except Exception as error:
            self._execution.errors.record(
                error, f"on_take_snapshot of the state at position {log_position}, as evidence"
            )
            self._on_kept(log_position, NULL_VALUE)
        self._loop.ask_for_tick()

    def _on_kept(self, log_position: int, recording_id: int) -> None:
        self._control.send_state_kept(log_position, recording_id)

    def _await_end(self, following: Callable[[], None]) -> None:
        """Stand still until the snapshot under way is recorded or has failed, and do what follows then."""
        self._waiting = following
        self._hold()

    def _hold(self) -> None:
        self._loop.hold |= HOLD_SNAPSHOT
        self._loop.ask_for_tick()

    def _may_copy(self) -> bool:
        if self.copier is None or not getattr(self._loop.service, "can_fork", True):
            return False
        obstacle = self.copier.find_obstacle()
        if obstacle and obstacle != self._told_obstacle:
            tell("warning", "cluster.snapshot", text=f"the service stands still for its snapshots: {obstacle}")
        self._told_obstacle = obstacle
        return not obstacle

    def _begin_copy(self, point: _Point) -> None:
        assert self.copier is not None
        self._copy = self.copier.copy(lambda append: self._write(point.log_position, append, is_hashed=point.is_hashed))
        self._heard_ns = self._clock.now()
        self._writer = SnapshotWriter(self._client, self._stream_id, is_whole=False)
        self._control.send_snapshot_begun(point.log_position, self._writer.session_id)
        self._loop.ask_for_tick()

    def _stand_still(self, point: _Point) -> None:
        messages: list[bytes] = []
        self._write(point.log_position, messages.append, is_hashed=point.is_hashed)
        self._digest = digest_of(messages)
        self._writer = SnapshotWriter(self._client, self._stream_id, messages)
        self._hold()

    def _write(self, log_position: int, append: Append, *, is_hashed: bool = False) -> None:
        """Append everything that the snapshot consists of, in order."""
        own = self._own_state
        self._execution.begin_callback("state_hash")
        described = own.describe_hashed(log_position) if is_hashed else own.describe(log_position)
        for message in container_snapshot.encode(described):
            append(message)
        writer = service_snapshot.SnapshotWriter(append, SNAPSHOT_MESSAGE_BYTES_MAX)
        self._execution.begin_callback("on_take_snapshot")
        self._loop.service.on_take_snapshot(writer)
        writer.close()

    # Duty cycles

    def work(self, now_ns: int) -> int:
        """Advance the snapshot under way, and a state that is kept, by a bounded step.

        Return 0 when there was nothing to do.
        """
        return self._work_on_snapshot(now_ns) + self._work_on_state(now_ns)

    def _work_on_state(self, now_ns: int) -> int:
        try:
            return self._keeper.work(now_ns)
        except SnapshotError as error:
            self._execution.errors.record(error, "the state is kept as evidence")
            return 1

    def _work_on_snapshot(self, now_ns: int) -> int:
        if self._point is None or self._writer is None:
            return 0
        try:
            count = self._take_from_copy(now_ns)
        except SnapshotError as error:
            self._fail(error)
            return 1
        if not self._is_recorded:
            self._is_recorded = self._feeds.has_recorded(self._point.feeds) and self._writer.work()
            self._client.wake_driver()
        if not self._is_recorded or not (self._copy is None or self._copy.is_gone()):
            return count
        self._end(self._writer.recording_id)
        return 1

    def _take_from_copy(self, now_ns: int) -> int:
        """Take messages from the copy as there is room for them, and return their number."""
        assert self._writer is not None
        copy = self._copy
        if copy is None or self._writer.has_unsent:
            self._heard_ns = now_ns
            return 0
        if now_ns - self._heard_ns > self.silence_ns_max:
            raise SnapshotError(
                f"the copy of the service that writes its snapshot was silent for {self.silence_ns_max // 10**9} s; "
                "it is given up"
            )
        if self._digest:
            return 0
        messages = copy.take()
        self._writer.add(messages)
        if copy.digest is not None:
            self._digest = copy.digest
            self._writer.finish()
        if messages or self._digest:
            self._heard_ns = now_ns
        return len(messages)

    # Ends

    def _end(self, recording_id: int) -> None:
        assert self._point is not None
        self._control.send_snapshot_digest(self._point.log_position, self._digest)
        self._writer = None
        self._answer(recording_id)

    def _fail(self, error: Exception) -> None:
        """Fail the snapshot of this position; the service goes on."""
        assert self._point is not None
        # What a copy raised comes as text, its first line says it in short.
        reason = error.message.splitlines()[0] if isinstance(error, SnapshotError) else one_line(error)
        self._control.send_snapshot_failure(self._point.log_position, reason)
        self._execution.note_failure(error, f"on_take_snapshot at position {self._point.log_position}")
        self._answer(NULL_VALUE)

    def _answer(self, recording_id: int) -> None:
        assert self._point is not None
        point = self._point
        self._give_up()
        self._loop.hold &= ~HOLD_SNAPSHOT
        self._control.send_ack(point.log_position, point.time, recording_id)
        following, self._waiting = self._waiting, None
        if following is not None:
            following()

    def close(self) -> None:
        """Abandon a snapshot in progress. Idempotent."""
        self._keeper.close()
        self._give_up()

    def _give_up(self) -> None:
        if self._copy is not None:
            self._copy.close()
        if self._writer is not None:
            self._writer.close()
        self._point = self._copy = self._writer = None
        self._is_recorded = False
        self._digest = b""
