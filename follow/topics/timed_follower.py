"""Follows a topic from the first message on that is of a given time or later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.follow.topics.feeds import FeedFollower, FeedMessage, decode_message
from ordo.runtime.native.cluster_time import time_ms
from ordo.transport.client.client import TransportClient


class TimedFollower(FeedFollower):
    """Finds the place by bisection, as other followers find a number; times of a topic never fall."""

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        topic: str,
        from_time_ms: int,
        silence_s: float,
    ) -> None:
        """`from_time_ms` is cluster time, rounded down to milliseconds."""
        super().__init__(client, nodes, topic, "oldest", None, silence_s)
        self._from_time_ms = from_time_ms

    @property
    def _has_target(self) -> bool:
        return True

    def _is_before_target(self, record: bytes) -> bool:
        return time_ms(decode_message(self.topic, record)[0].timestamp) < self._from_time_ms

    def poll_messages(self, handler: Callable[[FeedMessage], object], limit: int) -> int:
        """Call `handler` for messages of that time and later."""

        def on_message(message: FeedMessage) -> None:
            if time_ms(message.timestamp) >= self._from_time_ms:
                handler(message)

        return super().poll_messages(on_message, limit)
