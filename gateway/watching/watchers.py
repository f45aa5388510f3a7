"""Who watches, within bounds; and one watcher, from its beginning to its end.

A watcher that takes nothing holds one poll's worth of messages and what its connection buffers, is told once it takes
again, and is given up after SLOW_TIMEOUT_S. It slows down nobody else: its reader reads from the disk of a node.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

from ordo.archive.protocol.codes import ErrorCode
from ordo.gateway.callers.bounds import CallPlaces, NoPlaceError
from ordo.gateway.callers.sessions import CallerSession, GatewaySessions
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.doors.settings import SessionsFullError
from ordo.gateway.watching.log_messages import LogMessages
from ordo.gateway.watching.watch_requests import WatchRequest
from ordo.gateway.watching.watched_items import Polled, WatchedItem, WatchedItems, open_items
from ordo.runtime.errors import (
    ArchiveError,
    ClusterTimeoutError,
    ConfigurationError,
    NoQuorumError,
    NotPermittedError,
    OrdoError,
    SessionRejectedError,
)

BEGIN_TIMEOUT_S = 10.0
"""So long the beginning is looked for before a watcher hears that it is let in; then it waits on, and is let in."""
POLL_PAUSE_S = 0.005
POLL_PAUSE_S_MAX = 0.05
KEEP_INTERVAL_S = 0.25
HEARTBEAT_S = 15.0
"""A watcher for which there is nothing hears so often that it is still watched."""
SLOW_TOLD_S = 2.0
SLOW_TIMEOUT_S = 15.0


class Reason(Enum):
    """Why a watch has ended."""

    SLOW = "slow"
    """The watcher took nothing for SLOW_TIMEOUT_S."""
    GONE = "gone"
    """What it wants was deleted with the log, or was never there."""
    REFUSED = "refused"
    """The cluster does not let it see this, or no longer."""
    LOGGED_OUT = "logged_out"
    STOPPING = "stopping"
    """The gateway stops: another one goes on from the last number."""
    FAILED = "failed"


class Ending(NamedTuple):
    """The end of a watch, as a watcher is told."""

    reason: Reason
    text: str

    @property
    def can_resume(self) -> bool:
        """Whether it may ask again from its last number, and be served."""
        return self.reason not in (Reason.GONE, Reason.REFUSED, Reason.LOGGED_OUT)


class Channel(Protocol):
    """How a watcher is told: server-sent events, or a WebSocket. Both wait until the watcher takes what it is sent."""

    async def begin(self, next_sequence: int) -> None: ...

    async def send_items(self, items: list[WatchedItem]) -> None: ...

    async def send_slow(self, waited_s: float) -> None: ...

    async def send_heartbeat(self) -> None: ...

    async def end(self, ending: Ending) -> None: ...


@dataclass(frozen=True)
class Who:
    """A watcher, as it showed itself."""

    credentials: bytes
    host: str
    is_over: Callable[[], bool]
    """Whether its login has ended."""


class Watchers:
    """Lets watchers in. `places` are those of all subscriptions of the gateway."""

    def __init__(
        self, settings: GatewaySettings, sessions: GatewaySessions, places: CallPlaces, stopping: asyncio.Event
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._places = places
        self._addresses = settings.archive_endpoints()
        self._share = max(settings.subscriptions_max - settings.subscriptions_max // 4, 1)
        self._taken: Counter[tuple[str, str]] = Counter()
        self.stopping = stopping
        self.log_messages = LogMessages(self._addresses)

    async def watch(self, wanted: WatchRequest, who: Who, channel: Channel) -> Ending:
        """Serve a watcher until the end. Raises OrdoError where it is not let in, before `channel` has begun."""
        session = await self._sessions.get(who.credentials, self._settings.timeout_s, who.host)
        with self._places.one(), self._share_of(who.host, session.client.principal):
            session.calls += 1
            try:
                items = await self._open(wanted, who, session.client.principal)
                try:
                    return await Watcher(items, channel, lambda: self._why_over(who, session)).run()
                finally:
                    items.close()
            finally:
                session.calls -= 1

    async def _open(self, wanted: WatchRequest, who: Who, principal: str) -> WatchedItems:
        """Return a reader of what is wanted. Without principals whatever a watcher shows is worth the same."""
        if not wanted.decodes:
            return open_items(wanted, self._addresses, who.credentials)
        find = partial(self.log_messages.find, who.credentials if principal else b"")
        return open_items(wanted, self._addresses, who.credentials, await find(), find)

    def _why_over(self, who: Who, session: CallerSession) -> Ending | None:
        if self.stopping.is_set():
            return Ending(Reason.STOPPING, "the gateway stops: go on from the last number")
        if who.is_over():
            return Ending(Reason.LOGGED_OUT, "the login has ended: log in again")
        if session.failure is not None:
            return ending_of(session.failure)
        return None

    @contextmanager
    def _share_of(self, host: str, principal: str) -> Iterator[None]:
        """Take a place of a host and of a principal. Raises NoPlaceError."""
        keys = [] if host in self._settings.operator_hosts else [("host", host)]
        keys += [("principal", principal)] if principal else []
        for what, name in keys:
            if self._taken[what, name] >= self._share:
                named = f"host {name}" if what == "host" else "this token's principal"
                raise NoPlaceError(
                    f"{self._share} watches of {named} are open, as many as one may have: three quarters of "
                    "--subscriptions-max"
                )
        self._taken.update(keys)
        try:
            yield
        finally:
            self._taken.subtract(keys)
            self._taken += Counter()  # without those that have none left


class Watcher:
    """One watch under way."""

    def __init__(self, items: WatchedItems, channel: Channel, why_over: Callable[[], Ending | None]) -> None:
        self._items = items
        self._channel = channel
        self._why_over = why_over
        self._heard_s = time.monotonic()
        self._sending: asyncio.Future[None] | None = None

    async def run(self) -> Ending:
        """Return how it ended, of which the watcher was told. Raises OrdoError before it has begun."""
        waiting = await self._find_beginning()
        await self._channel.begin(waiting.items[0].sequence if waiting.items else self._items.place or 0)
        try:
            try:
                ending = await self._go_on(waiting)
            except OrdoError as error:
                ending = ending_of(error)
            await self._channel.end(ending)
        finally:
            if self._sending is not None:
                self._sending.cancel()
        return ending

    async def _find_beginning(self) -> Polled:
        """Poll until it is known that there is something to watch; return what has come with it."""
        deadline_s = time.monotonic() + BEGIN_TIMEOUT_S
        while time.monotonic() < deadline_s:
            polled = self._items.poll()
            if polled.items or self._items.place is not None:
                return polled
            await asyncio.sleep(0 if polled.fragments else POLL_PAUSE_S)
            await self._items.catch_up()
        return Polled([], 0)

    async def _go_on(self, polled: Polled) -> Ending:
        """Return why it ended. It pauses only where nothing was read: much may be read before the first message."""
        pause_s = POLL_PAUSE_S
        while True:
            if (over := self._why_over()) is not None:
                return over
            found = polled.items
            if found or time.monotonic() - self._heard_s > HEARTBEAT_S:
                sent = self._channel.send_items(found) if found else self._channel.send_heartbeat()
                if not await self._deliver(sent):
                    return Ending(
                        Reason.SLOW, f"nothing was taken for {SLOW_TIMEOUT_S:g} s: go on from the last number"
                    )
            pause_s = POLL_PAUSE_S if polled.fragments else min(pause_s * 2, POLL_PAUSE_S_MAX)
            await asyncio.sleep(0 if polled.fragments else pause_s)
            await self._items.catch_up()
            polled = self._items.poll()

    async def _deliver(self, sent: Awaitable[None]) -> bool:
        """Wait until the watcher has taken it; return False when it did not in time.

        What it does not take stays under way until the end is told: ended before, it would end that, too.
        """
        began_s = time.monotonic()
        self._sending = sending = asyncio.ensure_future(sent)
        while not sending.done():
            done, _ = await asyncio.wait((sending,), timeout=KEEP_INTERVAL_S)
            if not done:
                self._items.keep_alive()
                if time.monotonic() - began_s > SLOW_TIMEOUT_S or self._why_over() is not None:
                    return self._why_over() is not None
        await sending
        self._heard_s = time.monotonic()
        if self._heard_s - began_s > SLOW_TOLD_S:
            await self._channel.send_slow(self._heard_s - began_s)
        return True


def ending_of(error: OrdoError) -> Ending:
    """Return the end that an error is for a watcher."""
    status = status_of(error)
    reason = Reason.GONE if status == 410 else Reason.REFUSED if status == 403 else Reason.FAILED
    return Ending(reason, error.message)


_STATUSES: dict[type[OrdoError], int] = {
    ConfigurationError: 400,
    NotPermittedError: 403,
    SessionRejectedError: 403,
    NoPlaceError: 429,
    SessionsFullError: 429,
    ClusterTimeoutError: 503,
    NoQuorumError: 503,
}


def status_of(error: OrdoError) -> int:
    """Return the status of HTTP for why a watcher was not let in."""
    if isinstance(error, ArchiveError):
        return {int(ErrorCode.INVALID_POSITION): 410, int(ErrorCode.UNAUTHORISED_ACTION): 403}.get(error.code, 503)
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 503)
