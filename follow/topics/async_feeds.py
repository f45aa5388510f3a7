"""A reader of a feed for asyncio: the same reader, run by the event loop."""

from __future__ import annotations

from ordo.follow.topics.feeds import FeedMessage, FeedReader
from ordo.runtime.agents.async_reader import AsyncReader


class AsyncFeedReader(AsyncReader[FeedMessage]):
    """`async for message in reader`, or `async with reader` to close it at once afterwards. Belongs to one event loop.

    Raises what FeedReader raises.
    """

    def __init__(self, reader: FeedReader) -> None:
        super().__init__(reader, reader.keep_alive)
        self._reader = reader

    @property
    def next_sequence(self) -> int | None:
        """See FeedReader.next_sequence."""
        return self._reader.next_sequence

    @property
    def is_reading(self) -> bool:
        """See FeedReader.is_reading."""
        return self._reader.is_reading

    @property
    def problem(self) -> str:
        """See FeedReader.problem."""
        return self._reader.problem
