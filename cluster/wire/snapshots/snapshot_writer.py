"""Publishes a snapshot, of the consensus module or of a service, to the archive of the same node."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordo.cluster.wire.counters.recording_counters import recording_counters
from ordo.cluster.wire.streams import SNAPSHOT_CHANNEL
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.runtime.native.counters import CountersReader
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import ExclusivePublication


class SnapshotWriter:
    """Publishes a snapshot over several duty cycles, until the archive has recorded it completely."""

    def __init__(
        self, client: TransportClient, stream_id: int, messages: Iterable[bytes] = (), *, is_whole: bool = True
    ) -> None:
        """`is_whole`: `messages` are all there are. Otherwise `add` brings more, until `finish`."""
        self._counters: CountersReader = client.counters
        self._messages = deque(messages)
        self._is_whole = is_whole
        self._publication: ExclusivePublication = client.add_exclusive_publication(SNAPSHOT_CHANNEL, stream_id)
        self._counter_id = NULL_VALUE
        self.recording_id = NULL_VALUE

    @property
    def session_id(self) -> int:
        """The session id of the stream, by which the archive names its recording."""
        return int(self._publication.session_id)

    def add(self, messages: Iterable[bytes]) -> None:
        assert not self._is_whole, "more messages of a snapshot that was whole"
        self._messages.extend(messages)

    def finish(self) -> None:
        """No more messages come."""
        self._is_whole = True

    @property
    def has_unsent(self) -> bool:
        """Whether messages wait for room in the stream."""
        return bool(self._messages)

    @property
    def progress(self) -> int:
        """A number that grows with everything that is sent and recorded."""
        recorded = 0 if self._counter_id == NULL_VALUE else self._counters.get_value(self._counter_id)
        return int(self._publication.position + recorded)

    def work(self) -> bool:
        """Return True once every message is durable in the recording `recording_id`; the publication is closed then."""
        publication = self._publication
        while self._messages and publication.offer(self._messages[0]) > 0:
            self._messages.popleft()
        if self._messages or not self._is_whole:
            return False
        if self._counter_id == NULL_VALUE and not self._find_recording():
            return False
        if self._counters.get_value(self._counter_id) < publication.position:
            return False
        publication.close()
        return True

    def _find_recording(self) -> bool:
        for one in recording_counters(self._counters):
            if one.session_id == self._publication.session_id:
                self._counter_id, self.recording_id = one.counter_id, one.recording_id
                return True
        return False

    def close(self) -> None:
        self._publication.close()
