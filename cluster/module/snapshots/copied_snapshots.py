"""Makes a standby's snapshot one of this member's own, once it is seen to be of this member's state.

    order      the log has an order that standbys take a snapshot, and that members copy it (codecs.FOR_MEMBERS)
    capture    at that record this member keeps the module's part of its own state, and of each service the digest of
               the part's head: the container's tables, and the hash that the service gives of its state
    copy       the services' parts come from a standby (ordo.standby.copying)
    check      they are read: each head must have the digest that this member's own service has told
    install    the module's part is written from what was captured, and all parts are stored as one snapshot

So whatever is stored was compared with the state of this member, not with that of another one that copied as well. What
differs is refused and told, and the leader has the members take their own (ordo.cluster.module.snapshots.copy_orders).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.module.state.state_store import SnapshotEntry
from ordo.cluster.wire.snapshots.container_snapshot import ends_head
from ordo.cluster.wire.snapshots.snapshot_digest import MessagesDigest, combine, digest_of
from ordo.cluster.wire.snapshots.snapshot_writer import SnapshotWriter
from ordo.cluster.wire.streams import MODULE_SNAPSHOT_STREAM_ID, local_stream
from ordo.runtime.errors import OrdoError, SnapshotError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import ArchiveAccess, SpeakingHost
    from ordo.cluster.module.state.module_snapshot import SnapshotPoint
    from ordo.consensus.core import ConsensusCore

CAPTURED_MAX = 4
"""States that wait for a copy: a standby that is behind has the snapshot of an earlier order."""
CHECK_BYTES = 1024 * 1024
"""Read in one go; elections and heartbeats wait so long at most."""
MESSAGE_BYTES_MIN = 512
"""What a message counts at least: many short ones, such as timers, take longer than their bytes."""


class CapturedState(NamedTuple):
    """What this member had at the record of a snapshot that a standby takes."""

    point: SnapshotPoint
    timestamp: int
    messages: tuple[bytes, ...]
    """The module's part."""
    heads: tuple[bytes, ...]
    """The digests of the heads of the services' parts, by id; empty where a service gives no hash of its state."""


class PartDigests(NamedTuple):
    """The digests of one service's part that was copied."""

    head: bytes
    whole: bytes


class CopiedSnapshots:
    """The snapshots that one member copies from standbys, one at a time."""

    def __init__(
        self,
        host: SpeakingHost,
        access: ArchiveAccess,
        shelf: SnapshotShelf,
        core: ConsensusCore,
        counters: ModuleCounters,
        cluster_id: int,
        *,
        is_on: bool,
    ) -> None:
        """`is_on`: this member copies; one that does not has no use for a state that waits."""
        self._host = host
        self._is_on = is_on
        self._archive = access.archive
        self._client = access.client
        self._shelf = shelf
        self._core = core
        self._counters = counters
        self._stream_id = local_stream(MODULE_SNAPSHOT_STREAM_ID, cluster_id)
        self._captured: dict[int, CapturedState] = {}
        """Keyed by log position."""
        self._taken: CapturedState | None = None
        self._recording_ids: tuple[int, ...] = ()
        self._check: Iterator[list[PartDigests] | None] | None = None
        self._digests: list[bytes] = []
        self._writer: SnapshotWriter | None = None

    def await_copy(self, captured: CapturedState) -> None:
        """Keep the state that a standby's snapshot has to be of."""
        if self._is_on and all(captured.heads):
            self._captured[captured.point.log_position] = captured
            for position in sorted(self._captured)[:-CAPTURED_MAX]:
                del self._captured[position]

    @property
    def is_under_way(self) -> bool:
        """Whether a copy is being checked or stored."""
        return self._taken is not None

    @property
    def wanted_position(self) -> int:
        """The newest position of which a standby's snapshot is awaited, or -1."""
        return max((one for one in self._captured if self.awaits(one)), default=NULL_VALUE)

    def awaits(self, log_position: int) -> bool:
        """Return whether a snapshot of this position is awaited; one that is older than another is not."""
        return log_position in self._captured and log_position > self._shelf.newest_position

    def take(self, log_position: int, recording_ids: tuple[int, ...]) -> None:
        """Take a snapshot that is awaited: the recordings here of the services' parts, by service id."""
        assert self._taken is None, "one copy at a time"
        self._taken = self._captured[log_position]
        self._recording_ids = recording_ids
        self._check = self._read()

    def _read(self) -> Iterator[list[PartDigests] | None]:
        """Yield the digests of all parts; yield None each time enough was read for now."""
        digests, read_bytes = [], 0
        for recording_id in self._recording_ids:
            head, whole = b"", MessagesDigest()
            for message in self._archive.reader(recording_id, None).messages():
                whole.add(message.payload)
                if not head and ends_head(message.payload):
                    head = whole.digest()
                read_bytes += max(len(message.payload), MESSAGE_BYTES_MIN)
                if read_bytes >= CHECK_BYTES:
                    read_bytes = 0
                    yield None
            digests.append(PartDigests(head, whole.digest()))
        yield digests

    def work(self, now_ns: int) -> None:
        """Advance what is under way by a bounded step."""
        if self._taken is None:
            self._captured = {one: state for one, state in self._captured.items() if self.awaits(one)}
            return
        try:
            if self._writer is not None:
                self._store(self._taken, self._writer)
            elif self._check is not None and (digests := next(self._check)) is not None:
                demand_alike(self._taken, digests)
                self._digests = [one.whole for one in digests]
                self._writer = SnapshotWriter(self._client, self._stream_id, self._taken.messages)
        except OrdoError as error:
            self._refuse(self._taken, error)

    def _store(self, taken: CapturedState, writer: SnapshotWriter) -> None:
        if not writer.work():
            return
        point, (service_recording_id, *more) = taken.point, self._recording_ids
        entry = SnapshotEntry(
            point.log_position,
            point.leadership_term_id,
            dict(self._core.terms)[point.leadership_term_id],
            taken.timestamp,
            service_recording_id,
            writer.recording_id,
            True,
            tuple(more),
        )
        self._shelf.add(entry, combine(*self._digests, digest_of(taken.messages)))
        self._counters.snapshots.copied.increment()
        self._host.announce(
            "cluster.snapshot-copy",
            f"the snapshot of a standby at log position {point.log_position} is of this member's state: stored as "
            f"recordings {', '.join(map(str, entry.recording_ids))}",
        )
        self._forget(point.log_position)

    def _refuse(self, taken: CapturedState, error: OrdoError) -> None:
        """Refuse a copy, for good: the next order is another one."""
        position = taken.point.log_position
        self._host.record_error(
            f"the copy of a standby's snapshot at log position {position} is refused: {error.message}"
        )
        for recording_id in self._recording_ids:
            self._shelf.drop_part(recording_id)
        if self._writer is not None:
            self._writer.close()
            self._shelf.drop_recording(self._writer.session_id)
        self._forget(position)

    def _forget(self, log_position: int) -> None:
        for position in [one for one in self._captured if one <= log_position]:
            del self._captured[position]
        self._taken = self._check = self._writer = None
        self._recording_ids, self._digests = (), []

    def close(self) -> None:
        """Give up what is under way; the next start removes what was recorded."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._taken = self._check = None


def demand_alike(captured: CapturedState, copied: list[PartDigests]) -> None:
    """Raise SnapshotError unless a copy is of the state that this member has at the same record."""
    if len(copied) != len(captured.heads):
        raise SnapshotError(f"it is of {len(copied)} services, and this member runs {len(captured.heads)}")
    for service_id, (own, part) in enumerate(zip(captured.heads, copied, strict=True)):
        if part.head != own:
            raise SnapshotError(
                f"its part of service {service_id} is of another state than this member's: the service is not "
                "deterministic, or the standby runs other code (`ordo standby status`)"
            )
