"""The log of a backup: what the members' archives replay, recorded as a follower's node records it.

A member's archive replays no further than the commit position, so nothing is recorded that the cluster may still lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.backup.folder import Report
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.follower import LogFollower
from ordo.runtime.errors import ArchiveError, OrdoError, StorageError
from ordo.transport.frame_layout import FRAME_ALIGNMENT

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.archive.client.session import Reply
    from ordo.archive.recorder import Recording
    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.follow.recordings.log_source import LogSource
    from ordo.transport.client.client import TransportClient

SILENCE_S = 2.0
POSITION_MAX = (1 << 63) - 1
RECORD_BYTES_MIN = 2 * FRAME_ALIGNMENT
"""No record of the log is shorter."""
RECORDED_CHANNEL = "aeron:udp?alias=log"
SAME = ("initial_term_id", "term_length", "mtu")
"""What must be the same of a member's log, or it cannot continue a stretch."""


class LogCopy:
    """Follows the log from whichever node has it, from where the backup ends. `work` every duty cycle."""

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        stretch: RecordingDescriptor | None,
        report: Report,
        cluster: KnownCluster,
    ) -> None:
        """`stretch`: the newest of the backup; None begins with the oldest log that the first node has.

        `cluster`: the one that the backup is of.
        """
        self._archive = archive
        self._client = client
        self._nodes = list(nodes)
        self._report = report
        self._cluster = cluster
        self._recording: Recording | None = None
        self._source: LogSource | None = None
        self._failure: Exception | None = None
        self._told = ""
        self.has_left_gap = False
        """A new stretch was begun, which does not continue the one before."""
        self.recording_id = None if stretch is None else stretch.recording_id
        self._follower = self._follow(None if stretch is None else stretch.stop_position)

    def _follow(self, position: int | None) -> LogFollower:
        return LogFollower(
            self._client,
            self._nodes,
            position,
            SILENCE_S,
            is_from_start=True,
            stream_id=None,
            cluster=self._cluster,
        )

    @property
    def position(self) -> int:
        """Up to here the log is on this machine's disk, -1: there is none yet."""
        if self._recording is not None:
            return int(self._recording.durable_position)
        return -1 if self.recording_id is None else self._archive.descriptor(self.recording_id).stop_position

    @property
    def recording(self) -> Recording | None:
        """What records the log at the moment; None while no node is read."""
        return self._recording

    def measure(self) -> Reply | None:
        """Ask the node that is read how far its log is committed now; see LogSource."""
        return None if self._follower.source is None else self._follower.source.measure()

    @property
    def source_address(self) -> str | None:
        """The channel of the node that is recorded, None while one is looked for."""
        return self._follower.source_address if self._recording is not None else None

    @property
    def end_position(self) -> int:
        """How much the node that is read had of the committed log when it was asked; -1: none was asked yet."""
        source = self._follower.source
        return -1 if source is None else source.end_position

    @property
    def problem(self) -> str:
        return self._follower.problem

    def work(self, now_ns: int) -> int:
        """One duty cycle; returns the number of things done. Raises StorageError where this machine's disk fails."""
        work_count = self._follower.work(now_ns)
        if self._failure is not None:
            raise self._failure
        source = self._follower.source
        if self._recording is not None and (source is not self._source or source is None or source.is_ended):
            self._stop()
        elif self._recording is not None:
            self._advance(self._recording)
        elif source is not None and source is not self._source and source.image is not None:
            self._begin(source)
        if self._follower.problem != self._told:
            self._told = self._follower.problem
            self._report(self._told)
        if self._follower.oldest_position is not None:
            self._leave_gap(self._follower.oldest_position)
        return work_count

    def _begin(self, source: LogSource) -> None:
        """Record the replay that has come."""
        self._source = source
        found = source.descriptor
        assert source.image is not None and found is not None
        if self.recording_id is not None:
            own = self._archive.descriptor(self.recording_id)
            if any(getattr(own, name) != getattr(found, name) for name in SAME):
                self._report("the cluster's log goes on with another term length or MTU: a new stretch begins")
                self._renew()
                return
        try:
            self._recording = self._archive.record(
                source.image, recording_id=self.recording_id, channel=RECORDED_CHANNEL, on_stop=self._on_stop
            )
            self.recording_id = self._recording.recording_id
            self._bound(self._recording, source)
        except StorageError:
            raise
        except OrdoError as error:
            source.end(f"its replay cannot be recorded: {error.message}")

    def _bound(self, recording: Recording, source: LogSource) -> int | None:
        """Record nothing that may be of another cluster than the one that the copy is of; return the limit."""
        limit_position = source.limit_position
        recording.source_limit_position = POSITION_MAX if limit_position is None else limit_position
        return limit_position

    def _advance(self, recording: Recording) -> None:
        assert self._source is not None
        limit_position = self._bound(recording, self._source)
        if recording.written_position != self._follower.position:
            self._follower.advance(recording.written_position)
        image = recording.image
        if image.is_closed or (image.is_end_of_stream and recording.written_position >= image.end_of_stream_position):
            self._source.end("its replay ended")
            self._stop()
        elif limit_position is not None and recording.written_position > limit_position - RECORD_BYTES_MIN:
            self._source.end("is to say once more which cluster's log it has")
            self._stop()

    def _stop(self) -> None:
        if self._recording is not None:
            self._archive.stop(self._recording)

    def _on_stop(self, recording: Recording, error: Exception | None) -> None:
        """Note that a recording ended.

        One that ends in padding stops before it: the next node is asked from there on.
        """
        self._recording = None
        self._follower.position = self._archive.descriptor(recording.recording_id).stop_position
        if isinstance(error, StorageError):
            self._failure = error
        elif error is not None:
            self._report(f"the recording of the log stopped: {error}")

    def _leave_gap(self, oldest_position: int) -> None:
        """No node has the log any more that comes next; what follows the gap needs a snapshot from behind it."""
        self._report(
            f"the cluster has deleted its log from position={self._follower.position} to {oldest_position}, which was "
            "not here yet: a new stretch begins behind the gap, with the cluster's snapshot"
        )
        self._renew()

    def _renew(self) -> None:
        """Begin a new stretch with the oldest log that a node has."""
        self._stop()
        self._follower.close()
        self.recording_id = self._source = None
        self.has_left_gap = True
        self._follower = self._follow(None)

    def change_nodes(self, nodes: Sequence[ArchiveClientSettings]) -> None:
        """Follow the log from these nodes: the members have changed."""
        if list(nodes) == self._nodes:
            return
        self._nodes = list(nodes)
        self._stop()
        self._follower.close()
        self._source = None
        self._follower = self._follow(self._follower.position)

    def close(self) -> None:
        """End the recording properly. Raises ArchiveError, StorageError."""
        self._stop()
        self._follower.close()
        if self._failure is not None:
            raise ArchiveError(f"the log could not be stored: {self._failure}")
