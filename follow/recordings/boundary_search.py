"""Where the records around a position of a recording begin, asked of one node.

For the error that refuses a position, and for orders that are to move somebody to one.
"""

from __future__ import annotations

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.transport.client.client import TransportClient

PATIENCE_NS = 5_000_000_000
FRAGMENTS_PER_CYCLE = 1024
HINT = "allowed is where an entry ends (`ordo log` shows these positions)"


class BoundarySearch:
    """Reads the term that has the position from its beginning. `work` once a duty cycle, until `is_done`. Never waits.

    `before` is the last boundary at or below the position, `after` the first one above it; None for what is not known.
    Records do not reach over the end of a term, so one begins where a term does.
    """

    def __init__(
        self,
        client: TransportClient,
        settings: ArchiveClientSettings,
        position: int,
        now_ns: int,
        *,
        topic: str | None = None,
        cluster: KnownCluster | None = None,
    ) -> None:
        """`topic`: in the recording of a topic instead of the log's; `cluster` as LogSource has it.

        Raises TransportError, ChannelError.
        """
        self.position = position
        self.before: int | None = None
        self.after: int | None = None
        self.is_known = False
        """Whether the node has said all that there is to say; where it has not, `source.reason` says why."""
        self.is_done = False
        self.source = LogSource(client, settings, now_ns, topic=topic, cluster=cluster)
        self._deadline_ns = now_ns + PATIENCE_NS

    @property
    def allowed(self) -> str:
        """The positions that are allowed instead, as far as they are known: a part of an error's text."""
        known = [f"position={one}" for one in (self.before, self.after) if one is not None]
        return f"the nearest records begin at {' and '.join(known)}" if self.is_known and known else HINT

    @property
    def is_at_boundary(self) -> bool:
        """Whether a record begins at the position, or will: it may be the end."""
        return self.before == self.position

    @property
    def is_pending(self) -> bool:
        """Whether the driver still owes an answer, so that `work` must be called."""
        return self.source.is_pending

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        source = self.source
        count = source.work(now_ns)
        if self.is_done:
            return count
        if source.state is SourceState.READY:
            self._begin(source)
        if source.state is SourceState.REPLAYING:
            count += source.poll(self._note, FRAGMENTS_PER_CYCLE)
            if self.is_at_boundary or self.after is not None or source.position >= source.end_position:
                self._finish()
        if source.is_ended or now_ns >= self._deadline_ns:
            self.close()
        return count

    def _begin(self, source: LogSource) -> None:
        """Replay from the start of the term, or finish with the node's start and end if there is nothing to read."""
        assert source.descriptor is not None
        start, end = source.start_position, source.end_position
        if not start <= self.position < end:
            self.before, self.after = (end, None) if self.position >= end else (None, start)
            self._finish()
            return
        self.before = max(start, self.position - self.position % source.descriptor.term_length)
        if self.is_at_boundary:
            self._finish()
        else:
            source.begin(self.before)

    def _note(self, position: int, _record: bytes) -> None:
        if self.after is not None or self.is_at_boundary:
            return
        if position <= self.position:
            self.before = position
        else:
            self.after = position

    def _finish(self) -> None:
        self.is_known = True
        self.close()

    def close(self) -> None:
        """Stop the search and close its source. Idempotent."""
        self.is_done = True
        self.source.close()
