"""Hooks: one that sends messages in the order of the log, and one that has many posts under way."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable, Sequence
from typing import Protocol

from ordo.consumers.async_consumer import AsyncConsumer, AsyncSharedConsumer
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.consumers.shared_consumer import SharedConsumer
from ordo.consumers.shared_member import Delivery, SharedSettings
from ordo.follow.entries import LogEntry
from ordo.gateway.webhooks.posts import Outcome, Post, Receiver, pause_s
from ordo.gateway.webhooks.settings import WebhookSettings
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.garbage import settle_collector
from ordo.runtime.reporting.logging import get_logger

TAKEN_MAX = 64
ACK_TIMEOUT_S = 86_400.0
"""A message stays with a hook for as long as that lives: it is the hook that decides when to give it back."""


class Sender(Protocol):
    """What tries to send a post: a Receiver."""

    async def send(self, post: Post) -> Outcome:
        """Try once."""


class Source(Protocol):
    """What hands out messages in the order of the log: an AsyncConsumer."""

    @property
    def epoch(self) -> int: ...

    @property
    def is_paused(self) -> bool: ...

    def take(self, limit: int) -> list[LogEntry]: ...

    async def await_change(self) -> None: ...

    def begin_commit(self, position: int | None = None) -> object: ...


class OrderedHook:
    """Sends one message after the other; the next one only when the last was taken."""

    def __init__(self, settings: WebhookSettings, source: Source, receiver: Sender, stopped: asyncio.Event) -> None:
        self._settings = settings
        self._source = source
        self._receiver = receiver
        self._stopped = stopped
        self._log = get_logger(hook=settings.name)

    async def run(self) -> None:
        """Send until `stopped`. Raises ReceiverGoneError, and OrdoError when the consumer cannot go on."""
        while not self._stopped.is_set():
            epoch = self._source.epoch
            entries = self._source.take(TAKEN_MAX)
            for entry in entries:
                if not await self._deliver(entry, epoch):
                    break  # what is left of them is handed out again, here or to another member
            if not entries:
                await self._source.await_change()

    async def _deliver(self, entry: LogEntry, epoch: int) -> bool:
        """Send a message until it is taken. Return False when it is not this member's any more, or the hook ends."""
        post = Post.of(entry, self._settings.body, self._settings.content_type)
        failures = 0
        while await self._may_send(epoch):
            outcome = await self._receiver.send(post)
            if self._source.epoch != epoch:
                return False
            if outcome.is_taken:
                self._source.begin_commit(entry.position)
                if failures:
                    self._log.info("webhook.recovered", id=post.id, position=post.position, tries=failures + 1)
                return True
            failures += 1
            await self._rest(post, failures, outcome, epoch)
        return False

    async def _may_send(self, epoch: int) -> bool:
        """Wait while an operator has paused the consumer; return whether the message is still to be sent from here."""
        while not self._stopped.is_set() and self._source.epoch == epoch:
            if not self._source.is_paused:
                return True
            await self._source.await_change()
        return False

    async def _rest(self, post: Post, failures: int, outcome: Outcome, epoch: int) -> None:
        """Wait before the next try, as long as the message is to be sent from here."""
        settings = self._settings
        rest_s = pause_s(failures, outcome, settings.retry_min_s, settings.retry_max_s, random.random())
        told = {"id": post.id, "position": post.position, "tries": failures, "again_in_s": round(rest_s, 1)}
        self._log.warning("webhook.retry", reason=outcome.reason, **told)
        await rest(self._source, rest_s, lambda: not self._stopped.is_set() and self._source.epoch == epoch)


class Changing(Protocol):
    """What has duty cycles: a consumer."""

    async def await_change(self) -> None: ...


async def rest(source: Changing, rest_s: float, goes_on: Callable[[], bool]) -> None:
    """Return after a time, or as soon as there is nothing more to wait for."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + rest_s
    while goes_on() and loop.time() < deadline_s:
        await source.await_change()


class SharedSource(Protocol):
    """What hands out messages to be acknowledged one by one: an AsyncSharedConsumer."""

    @property
    def is_paused(self) -> bool: ...

    def holds(self, delivery: Delivery) -> bool: ...

    def take(self, limit: int) -> Sequence[Delivery]: ...

    async def await_change(self) -> None: ...

    def ack(self, delivery: Delivery) -> bool: ...

    def nack(self, delivery: Delivery, *, delay_s: float = 0.0) -> bool: ...


class ParallelHook:
    """Has many posts under way, in no order.

    A refusal counts as one of a message's tries only if the receiver took another message meanwhile: what is down
    refuses everything, and gives nothing up. What the receiver cannot have seen is no refusal; nor is a restart, which
    `counts_refusals` of the consumer is for.
    """

    def __init__(
        self, settings: WebhookSettings, source: SharedSource, receiver: Sender, stopped: asyncio.Event
    ) -> None:
        self._settings = settings
        self._source = source
        self._receiver = receiver
        self._stopped = stopped
        self._taken = 0
        """Messages that the receiver took."""
        self._resting = 0
        """Messages that are held until their next try."""
        self._log = get_logger(hook=settings.name)

    async def run(self) -> None:
        """Send until `stopped`. Raises ReceiverGoneError, and OrdoError when the consumer cannot go on."""
        try:
            async with asyncio.TaskGroup() as group:
                while not self._stopped.is_set():
                    deliveries = self._source.take(TAKEN_MAX)
                    for delivery in deliveries:
                        group.create_task(self._deliver(delivery))
                    if not deliveries:
                        await self._source.await_change()
        except ExceptionGroup as failures:  # one line for each way to fail is enough
            raise failures.exceptions[0] from None

    async def _deliver(self, delivery: Delivery) -> None:
        """Send a message until it is taken, given back, or not this member's any more."""
        settings = self._settings
        post = Post.of(delivery.entry, settings.body, settings.content_type)
        failures, taken = 0, self._taken
        while await self._may_send(delivery):
            outcome = await self._receiver.send(post)
            if outcome.is_taken:
                self._taken += 1
                if not self._source.ack(delivery):
                    self._log.warning("webhook.late", id=post.id, position=post.position, reason="it is posted again")
                return
            failures += 1
            rest_s = pause_s(
                failures + delivery.counted - 1, outcome, settings.retry_min_s, settings.retry_max_s, random.random()
            )
            counts = outcome.was_sent and (self._taken > taken or self._makes_room(delivery, outcome))
            is_back = counts and self._source.nack(delivery, delay_s=rest_s)
            self._tell(post, delivery.counted, outcome, rest_s, counts=is_back)
            if is_back:
                return
            self._resting += 1
            await rest(self._source, rest_s, lambda: not self._stopped.is_set() and self._source.holds(delivery))
            self._resting -= 1

    def _makes_room(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Return whether a refused message gives its place to another one, because all places hold such messages.

        Not with its last try: only what is refused while others are taken is given up.
        """
        is_full = self._resting + 1 >= self._settings.in_flight_max
        return is_full and outcome.is_refusal and delivery.counted < self._settings.tries_max

    async def _may_send(self, delivery: Delivery) -> bool:
        """Wait while an operator has paused the consumer; return whether the message is still to be sent from here."""
        while not self._stopped.is_set() and self._source.holds(delivery):
            if not self._source.is_paused:
                return True
            await self._source.await_change()
        return False

    def _tell(self, post: Post, tries: int, outcome: Outcome, rest_s: float, *, counts: bool) -> None:
        told = {"id": post.id, "position": post.position, "tries": tries, "reason": outcome.reason}
        if counts and tries >= self._settings.tries_max:
            self._log.error("webhook.given_up", **told)
        else:
            self._log.warning("webhook.retry", again_in_s=round(rest_s, 1), **told)


async def serve(settings: WebhookSettings, stopped: asyncio.Event) -> None:
    """Send messages until `stopped`. Raises OrdoError."""
    async with Receiver(settings) as receiver:
        if settings.in_flight_max == 1:
            async with AsyncConsumer(
                settings.endpoints, settings.name, start=settings.start, settings=settings.client
            ) as consumer:
                await OrderedHook(settings, consumer, receiver, stopped).run()
            return
        await asyncio.to_thread(check_stored, settings)  # who joins is given messages
        if stopped.is_set():
            return
        shared = SharedSettings(
            name=settings.name,
            endpoints=settings.endpoints,
            start=settings.start,
            ack_timeout_s=ACK_TIMEOUT_S,
            tries_max=settings.tries_max,
            in_flight_max=settings.in_flight_max,
            counts_refusals=True,
            client=settings.client,
        )
        async with AsyncSharedConsumer.over(SharedConsumer.of(shared)) as consumer:
            while consumer.position < 0 and not stopped.is_set():
                await consumer.await_change()
            if not stopped.is_set():
                await asyncio.to_thread(check_stored, settings)  # another one may have begun it meanwhile
            await ParallelHook(settings, consumer, receiver, stopped).run()


def check_stored(settings: WebhookSettings) -> None:
    """Raise ConfigurationError where the hook that first ran with this name has other settings: those are in force."""
    with ConsumerOrders(list(settings.endpoints), settings=settings.client) as orders:
        if all(one["name"] != settings.name for one in orders.list_all()):
            return
        stored = orders.describe(settings.name)
        if "tries_max" not in stored:
            return  # it is in order, which joining is told
    has = {"--in-flight": stored["in_flight_max"], "--tries": stored["tries_max"]}
    if (settings.in_flight_max, settings.tries_max) != tuple(has.values()):
        told = " ".join(f"{option} {value}" for option, value in has.items())
        raise ConfigurationError(
            f"hook {settings.name} was begun with {told}: give the same, or remove it first: ordo consumers remove"
        )


async def run(settings: WebhookSettings) -> None:
    """Send messages until SIGTERM or SIGINT; a post that is under way then is waited for. Raises OrdoError."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    log = get_logger(hook=settings.name)
    settle_collector()
    log.info("webhook.started", receiver=settings.receiver, endpoints=list(settings.endpoints))
    if settings.leaves_machine_readable:
        log.warning("webhook.plain", reason="http: anybody on the way can read and change what is sent")
    await serve(settings, stopped)
    log.info("webhook.ended")
