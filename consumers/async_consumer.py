"""Durable consumers for asyncio: what Consumer and SharedConsumer do, awaited (docs/CONSUMERS.md).

async with AsyncConsumer(endpoints, "risk") as consumer:
    async for entry in consumer:
        await handle(entry.payload)
        await consumer.commit()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Self, Unpack

from ordo.consumers.client_face import CLOSE_TIMEOUT_NS, MemberFace
from ordo.consumers.consumer import Consumer, ConsumerChoices
from ordo.consumers.consumer_member import Item
from ordo.consumers.shared_consumer import SharedConsumer, SharedConsumerChoices
from ordo.consumers.shared_member import Delivered, Delivery
from ordo.follow.entries import LogEntry
from ordo.runtime.agents.use import Origin
from ordo.runtime.errors import ClusterTimeoutError, SessionClosedError
from ordo.runtime.event_loops import demand_own_loop

IDLE_INTERVAL_S = 0.010
BUSY_INTERVAL_S = 0.001
CYCLES_MAX = 16


class AsyncFace(Generic[Item]):
    """A consumer that runs on one event loop, also while no task awaits a message."""

    def __init__(self, face: MemberFace[Item]) -> None:
        self._face = face
        self._origin = Origin(type(self).__name__)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def is_paused(self) -> bool:
        """See Consumer.is_paused."""
        return self._face.is_paused

    @property
    def position(self) -> int:
        """See Consumer.position."""
        return self._face.position

    @property
    def lag(self) -> int:
        """See Consumer.lag."""
        return self._face.lag

    @property
    def trouble(self) -> str:
        """See Consumer.trouble."""
        return self._face.trouble

    async def __aenter__(self) -> Self:
        self._origin.check()
        self._loop = asyncio.get_running_loop()
        if self._face.descriptor is not None:
            self._loop.add_reader(self._face.descriptor, self._cycle)
        self._cycle()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """Return the next message. Ends once this consumer was closed; raises as Consumer.poll."""
        self._origin.check()
        found: list[Item] = []
        while self._loop is not None:
            if self._failure is not None:
                raise self._failure
            if self._face.take(found.append, 1):
                return found.pop()
            await self._changed.wait()
        raise StopAsyncIteration

    def take(self, limit: int) -> list[Item]:
        """Return messages that have come, at most `limit`; none if none has. Raises as Consumer.poll."""
        self._demand_open()
        found: list[Item] = []
        self._face.take(found.append, limit)
        return found

    async def await_change(self) -> None:
        """Return after the next duty cycle, in which messages or answers may have come."""
        self._demand_open()
        await self._changed.wait()

    async def _await(self, is_true: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(self._face.timeout_s):
                while not is_true():
                    self._demand_open()
                    await self._changed.wait()
        except TimeoutError:
            raise ClusterTimeoutError(f"{what} in time: {self.trouble or 'no answer'}") from None

    def _demand_open(self) -> None:
        self._origin.check()
        if self._failure is not None:
            raise self._failure
        if self._loop is None:
            raise SessionClosedError("the consumer is not open: use `async with`")

    async def close(self) -> None:
        """Leave the consumer, so that other members take over at once.

        Idempotent. In a process that was forked from the consumer's it does nothing.
        """
        if self._loop is None or self._origin.is_forked:
            return
        demand_own_loop(self._loop, self._origin.what)
        self._face.begin_close()
        deadline_s = self._loop.time() + CLOSE_TIMEOUT_NS / 1e9
        try:
            while self._failure is None and not self._face.has_left and self._loop.time() < deadline_s:
                await asyncio.sleep(BUSY_INTERVAL_S)
                self._cycle()
        finally:
            self._stop()

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._face.descriptor is not None:
            loop.remove_reader(self._face.descriptor)
        if self._timer is not None:
            self._timer.cancel()
        self._face.abandon()
        self._announce()

    # Duty cycle

    def _cycle(self) -> None:
        if self._loop is None or self._failure is not None:
            return
        count = 0
        try:
            for _ in range(CYCLES_MAX):
                count = self._face.keep_alive()
                if count == 0:
                    break
        except Exception as error:  # raised into the event loop it would only be written down
            self._failure = error
            if self._face.descriptor is not None:
                self._loop.remove_reader(self._face.descriptor)
        self._announce()
        if self._timer is not None:
            self._timer.cancel()
        if self._failure is None:
            self._timer = self._loop.call_later(BUSY_INTERVAL_S if count else IDLE_INTERVAL_S, self._cycle)

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class AsyncConsumer(AsyncFace[LogEntry]):
    """A Consumer for asyncio, which takes the same arguments.

    Use `async with AsyncConsumer(endpoints, name) as consumer`, then `async for entry in consumer`, and
    `await consumer.commit()`.
    """

    def __init__(self, endpoints: Sequence[str], name: str, **choices: Unpack[ConsumerChoices]) -> None:
        self._hold(Consumer(endpoints, name, **choices))

    def _hold(self, consumer: Consumer) -> None:
        self._consumer = consumer
        super().__init__(consumer)

    @classmethod
    def over(cls, consumer: Consumer) -> Self:
        """Return one that runs this consumer."""
        held = cls.__new__(cls)
        held._hold(consumer)
        return held

    @property
    def is_active(self) -> bool:
        """See Consumer.is_active."""
        return self._consumer.is_active

    @property
    def epoch(self) -> int:
        """See Consumer.epoch."""
        return self._consumer.epoch

    def begin_commit(self, position: int | None = None) -> Callable[[], bool]:
        """See Consumer.begin_commit; the event loop sends the position."""
        self._demand_open()
        is_committed = self._consumer.begin_commit(position)
        self._cycle()
        return is_committed

    async def commit(self, position: int | None = None, *, wait: bool = True) -> None:
        """See Consumer.commit."""
        is_committed = self.begin_commit(position)
        if wait:
            await self._await(is_committed, "a position was not committed")


class AsyncSharedConsumer(AsyncFace[Delivery]):
    """A SharedConsumer for asyncio, which takes the same arguments.

    Use `async with AsyncSharedConsumer(endpoints, name) as consumer`, then `async for delivery in consumer`, and
    `consumer.ack(delivery)`.
    """

    def __init__(self, endpoints: Sequence[str], name: str, **choices: Unpack[SharedConsumerChoices]) -> None:
        self._hold(SharedConsumer(endpoints, name, **choices))

    def _hold(self, consumer: SharedConsumer) -> None:
        self._consumer = consumer
        super().__init__(consumer)

    @classmethod
    def over(cls, consumer: SharedConsumer) -> Self:
        """Return one that runs this consumer."""
        held = cls.__new__(cls)
        held._hold(consumer)
        return held

    @property
    def in_flight(self) -> int:
        """See SharedConsumer.in_flight."""
        return self._consumer.in_flight

    @property
    def unsent(self) -> int:
        """See SharedConsumer.unsent."""
        return self._consumer.unsent

    @property
    def late(self) -> int:
        """See SharedConsumer.late."""
        return self._consumer.late

    def holds(self, delivery: Delivered) -> bool:
        """See SharedConsumer.holds."""
        self._demand_open()
        return self._consumer.holds(delivery)

    def ack(self, delivery: Delivered) -> bool:
        """See SharedConsumer.ack; the event loop sends the acknowledgement."""
        self._demand_open()
        return self._consumer.ack(delivery)

    def nack(self, delivery: Delivered, *, delay_s: float = 0.0) -> bool:
        """See SharedConsumer.nack; the event loop sends it."""
        self._demand_open()
        return self._consumer.nack(delivery, delay_s=delay_s)

    async def flush(self) -> None:
        """See SharedConsumer.flush."""
        await self._await(lambda: self._consumer.unsent == 0, "acknowledgements were not taken")
