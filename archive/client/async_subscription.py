"""A persistent subscription for asyncio: the same one, run by the event loop.

live = "aeron:udp?endpoint=224.20.30.39:9000"
async with AsyncPersistentSubscription.connect("10.0.0.1:8010", 0, live, 7) as messages:
    async for message in messages:
        handle(message.payload)
"""

from __future__ import annotations

from typing import Self, Unpack

from ordo.archive.client.persistent_subscription import PersistentSubscription, SubscriptionOptions
from ordo.archive.client.replay import RecordedMessage
from ordo.runtime.agents.async_reader import AsyncReader


class AsyncPersistentSubscription(AsyncReader[RecordedMessage]):
    """Every message of a recorded stream from a position on, as PersistentSubscription hands them out, and for ever.

    `async for message in subscription`, or `async with subscription` to close it at once afterwards. Between messages
    it is run by the event loop, which it belongs to. Raises what PersistentSubscription raises.
    """

    def __init__(self, subscription: PersistentSubscription) -> None:
        """Take over a subscription that has no other user."""
        super().__init__(subscription, subscription.work)
        self._subscription = subscription

    @classmethod
    def connect(
        cls, address: str, recording_id: int, channel: str, stream_id: int, **options: Unpack[SubscriptionOptions]
    ) -> Self:
        """Return a subscription without waiting. Options and errors are those of PersistentSubscription.connect."""
        return cls(PersistentSubscription.connect(address, recording_id, channel, stream_id, **options))

    @property
    def position(self) -> int | None:
        """The position after the delivered messages, as PersistentSubscription.position."""
        return self._subscription.position

    @property
    def identity(self) -> str | None:
        """Which recording is read, as PersistentSubscription.identity."""
        return self._subscription.identity

    @property
    def is_live(self) -> bool:
        """Whether messages come from the live stream, as PersistentSubscription.is_live."""
        return self._subscription.is_live

    @property
    def problem(self) -> str:
        """The latest problem, as PersistentSubscription.problem."""
        return self._subscription.problem
