"""Bugs of feeds that the simulator must find; see tests.simulation.planted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ordo.cluster.container.streams.feeds import ContainerFeeds
from ordo.follow.recordings.log_source import LogSource
from tests.simulation.planted import readers_join_the_shared_stream_with_a_gap

Patch = Callable[[Any, str, Any], None]


def snapshots_forget_the_sequences_of_feeds(patch: Patch) -> None:
    """A member that was restored numbers a topic from 1 on again."""
    original = ContainerFeeds.restore

    def restore(self: ContainerFeeds, states: Iterable[Any]) -> None:
        original(self, states)
        for topic in self._topics.values():
            topic.sequence = 0

    patch(ContainerFeeds, "restore", restore)


def a_change_of_nodes_leaves_a_gap_in_feeds(patch: Patch) -> None:
    """A reader goes on, at the next node, at the end of what that node has."""
    original = LogSource.begin

    def begin(self: LogSource, position: int, length_bytes: int | None = None) -> None:
        original(self, max(position, self.end_position) if position > 0 else position, length_bytes)

    patch(LogSource, "begin", begin)


def what_a_failed_record_published_goes_out(patch: Patch) -> None:
    """Publications go out although the callback raised after them."""
    patch(ContainerFeeds, "drop", lambda *_: None)


def subscribers_join_the_shared_stream_with_a_gap(patch: Patch) -> None:
    """A subscriber gives up its replay when it asks for the stream of all, not when it has reached that."""
    readers_join_the_shared_stream_with_a_gap(patch)
