"""Finds the newest snapshot at one node whose position is not above a reader's first position.

Or the oldest one that is not of an earlier position: where a reader may begin whose log has lost its beginning.

Only the beginning of a snapshot is read: what the container keeps, among it sessions and requests. The state of the
service, which follows, stays where it is.
"""

from __future__ import annotations

from ordo.archive.client import control_requests
from ordo.archive.client.session import ArchiveSession, Reply
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import SnapshotMark
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.cluster.wire.streams import LOCAL_STREAMS_STEP, SERVICE_SNAPSHOT_STREAM_ID
from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.runtime.errors import DecodeError, OrdoError, SnapshotError
from ordo.transport.client.client import TransportClient

STANDSTILL_NS = 10_000_000_000
FRAGMENTS_PER_CYCLE = 1024
MESSAGES_MAX = 4_000_000
"""The most messages that a container's part may have: more than its own limits allow."""


class SnapshotSearch:
    """Asks one node.

    `work` once a duty cycle, until `is_done`; then `snapshot` is there, or None: there is none, or `problem` says why
    the node did not tell. Never waits.
    """

    def __init__(
        self,
        client: TransportClient,
        settings: ArchiveClientSettings,
        position: int,
        now_ns: int,
        cluster: KnownCluster | None = None,
        *,
        is_oldest: bool = False,
    ) -> None:
        """`position`: the snapshot is of this one or an earlier one, the newest of these.

        With `is_oldest` it is of this one or a later one, the oldest of these. `cluster` as LogSource has it. Raises
        TransportError, ChannelError.
        """
        self.is_done = False
        self.snapshot: ServiceSnapshot | None = None
        self._is_oldest = is_oldest
        self.problem = ""
        self._client = client
        self._settings = settings
        self._position = position
        self._cluster = cluster
        self._now_ns = self._heard_ns = now_ns
        self._session: ArchiveSession | None = ArchiveSession(client, settings, now_ns)
        self._reply: Reply | None = None
        self._found: list[int] | None = None
        """Recordings of snapshots that were not looked at yet, the newest last."""
        self._source: LogSource | None = None
        self._messages: list[bytes] = []
        self._is_whole = self._is_other = False
        self._closing: list[LogSource | ArchiveSession] = []

    @property
    def is_pending(self) -> bool:
        """Whether the driver still owes an answer, so that `work` must be called."""
        return any(one.is_pending for one in self._closing)

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        self._now_ns = now_ns
        count = sum(one.work(now_ns) for one in self._closing)
        self._closing = [one for one in self._closing if one.is_pending]
        if self.is_done:
            return count
        count += self._list() if self._found is None else self._read()
        if count:
            self._heard_ns = now_ns
        elif now_ns - self._heard_ns > STANDSTILL_NS:
            self._end(f"{self._settings.control_channel}: does not go on with its snapshots")
        return count

    def _list(self) -> int:
        session = self._session
        assert session is not None
        count = session.work(self._now_ns)
        if session.error is not None:
            self._end(str(session.error))
        elif self._reply is None:
            if session.is_connected:
                call = control_requests.list_recordings()
                try:
                    self._reply = session.request(call.message, item_count_max=call.item_count_max, **call.fields)
                except OrdoError as error:
                    self._end(str(error))
        elif self._reply.is_done:
            if self._reply.error is not None:
                self._end(str(self._reply.error))
            else:
                found = [control_requests.descriptor_of(item) for item in self._reply.items]
                self._found = [one.recording_id for one in found if _is_snapshot(one)]
                self._close_session()
        return count

    def _read(self) -> int:
        """Look at one recording after the other, the newest first, or the oldest."""
        assert self._found is not None
        source = self._source
        if source is None:
            if not self._found:
                self._end("")
                return 1
            self._messages, self._is_whole, self._is_other = [], False, False
            recording_id = self._found.pop(0 if self._is_oldest else -1)
            try:
                self._source = LogSource(
                    self._client, self._settings, self._now_ns, recording_id=recording_id, cluster=self._cluster
                )
            except OrdoError as error:
                self._end(str(error))
            return 1
        count = source.work(self._now_ns)
        if source.state is SourceState.READY:
            if source.end_position <= source.start_position:
                source.end("the recording is empty")
            else:
                source.begin(source.start_position)
        if source.state is SourceState.REPLAYING and not self._is_whole and not self._is_other:
            count += source.poll(self._take, FRAGMENTS_PER_CYCLE)
        if self._is_whole or self._is_other or source.is_ended:
            self._judge(source)
        return count

    def _take(self, _: int, message: bytes) -> None:
        if self._is_whole or self._is_other:
            return
        try:
            found = ordo_codecs.decode_any(message)
        except DecodeError:
            found = None
        if found is None or len(self._messages) >= MESSAGES_MAX:
            self._is_other = True
            return
        table, values = found
        if table is codecs.SNAPSHOT_MARKER:
            self._is_whole = values.mark == SnapshotMark.END
            self._is_other = values.type_id != codecs.SNAPSHOT_TYPE_SERVICE or not self._is_wanted(values.log_position)
        elif not self._messages:
            self._is_other = True
        if table is ordo_codecs.KEPT_ANSWER:
            fields = {**values._asdict(), "payload": b""}
            message = table.encode(**fields)
        self._messages.append(message)

    def _is_wanted(self, log_position: int) -> bool:
        return log_position >= self._position if self._is_oldest else log_position <= self._position

    def _judge(self, source: LogSource) -> None:
        """One recording was read, as far as it goes."""
        self._source = None
        source.close()
        self._closing.append(source)
        if source.is_refused:
            self._end(source.reason)
        if not self._is_whole or self._is_other:
            return
        try:
            snapshot = container_snapshot.decode(iter(self._messages))
        except (SnapshotError, DecodeError):
            return
        finally:
            self._messages = []
        self.snapshot = snapshot
        self._end("")

    def _end(self, problem: str) -> None:
        self.problem = problem
        self.is_done = True
        self.close()

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
            self._closing.append(session)

    def close(self) -> None:
        """Stop the search and close its source. Idempotent."""
        self._close_session()
        source, self._source = self._source, None
        if source is not None:
            source.close()
            self._closing.append(source)


def _is_snapshot(recording: RecordingDescriptor) -> bool:
    """Return whether a recording is a service's snapshot, of any cluster of the driver."""
    return (recording.stream_id - SERVICE_SNAPSHOT_STREAM_ID) % LOCAL_STREAMS_STEP == 0
