"""One node as the source of a topic's reader; it also reports how far the node's log is committed."""

from __future__ import annotations

from ordo.archive.client import control_requests
from ordo.archive.client.session import Reply
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.follow.recordings.live_stream import LivePatience
from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.transport.client.client import TransportClient

MEASURE_INTERVAL_NS = 500_000_000


class TopicSource(LogSource):
    """Replays a topic. Measures the log first, where `measures_log` and the node shows it to this client."""

    log_end_position = -1
    """How far the log was committed when the node was asked last; -1 where it hides the log."""

    def __init__(
        self,
        client: TransportClient,
        settings: ArchiveClientSettings,
        now_ns: int,
        topic: str,
        stream_id: int | None,
        patience: LivePatience | None,
        *,
        measures_log: bool,
        cluster: KnownCluster,
    ) -> None:
        """Open a session with the node, which must be of a cluster. Raises TransportError, ChannelError."""
        super().__init__(client, settings, now_ns, stream_id=stream_id, topic=topic, patience=patience, cluster=cluster)
        self.measures_log = measures_log
        """Whether the log is measured again and again; switched off once nobody needs it any more."""
        self._found: Reply | None = None
        self._log_id = -1
        self._measure_ns = 0

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        count = super().work(now_ns)
        is_due = self.state is SourceState.REPLAYING and self._reply is None and now_ns >= self._measure_ns
        if is_due and self.measures_log and self._log_id != -1:
            self._measure_ns = now_ns + MEASURE_INTERVAL_NS
            self._ask(control_requests.max_recorded_position(self._log_id), self._on_log_measured)
        return count

    def _on_recordings(self, reply: Reply) -> None:
        """Measure the log before the topic is looked at: there may be no such topic yet."""
        self._found = reply
        found = [] if reply.error is not None else [control_requests.descriptor_of(one) for one in reply.items]
        logs = [one.recording_id for one in found if one.stream_id == LOG_STREAM_ID]
        if not self.measures_log or not logs:
            super()._on_recordings(reply)
            return
        self._log_id = logs[-1]
        self._ask(control_requests.max_recorded_position(self._log_id), self._on_log_measured)

    def _on_log_measured(self, reply: Reply) -> None:
        if reply.error is None:
            self.log_end_position = reply.relevant_id
        if self.state is SourceState.FINDING and self._found is not None:
            super()._on_recordings(self._found)
