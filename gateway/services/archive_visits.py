"""How the gateway looks into members' archives.

Each call has a thread and a connection of its own, and fetches no more before its caller has taken what there is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, TypeVar

import grpc

from ordo.archive.client.client import ArchiveClient
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.admin.orders import Deadline as TimeLeft
from ordo.cluster.admin.orders import MemberStatus, list_members
from ordo.gateway.callers.bounds import Bounds
from ordo.gateway.callers.call_context import CallContext, Deadline, Keep, credentials_of, refuse, refuse_with, write
from ordo.gateway.callers.members import remote_cluster
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.services.operations import CLIENT_NAME
from ordo.runtime.errors import ConfigurationError, OrdoError

FIND_TIMEOUT_S = 5.0
REACH_TIMEOUT_S = 5.0
T = TypeVar("T")


class VisitEndedError(Exception):
    """The caller no longer waits for the results of a visit."""


class Visit(Generic[T]):
    """What one call asks of archives, with the token of the caller. All but `end` is called on the visit's thread."""

    def __init__(self, look: Look[T], settings: GatewaySettings, credentials: bytes, timeout_s: float) -> None:
        """`timeout_s`: how long the cluster and the archives may take to answer at first."""
        self._settings = settings
        self._credentials = credentials
        self._left = TimeLeft(timeout_s)
        self._has_ended = threading.Event()
        self._archive: ArchiveClient | None = None
        self._found = look(self)

    def find_members(self) -> list[MemberStatus]:
        """Who is in the cluster, with the endpoints of their archives. Raises what RemoteCluster raises."""
        with remote_cluster(self._settings, self._credentials) as cluster:
            return list_members(cluster.any_member(min(FIND_TIMEOUT_S, self._left.left_s)))

    def find_member(self, member_id: int) -> MemberStatus:
        """Return one of the members. Raises ConfigurationError, also if none has this id."""
        members = {one.member_id: one for one in self.find_members()}
        if member_id not in members:
            raise ConfigurationError(f"member {member_id}: the members are {', '.join(map(str, sorted(members)))}")
        return members[member_id]

    @contextmanager
    def open_archive(self, member: MemberStatus, archives_left: int = 1) -> Iterator[ArchiveClient]:
        """Open a session with a member's archive.

        It, and then each request, may take so much of the time that is left that the other archives of `archives_left`
        can be asked, and the caller be told what is wrong.

        Raises ArchiveError, ArchiveTimeoutError, TransportError.
        """
        client = self._settings.client
        settings = ArchiveClientSettings.at(
            member.archive,
            credentials=self._credentials,
            message_timeout_s=max(min(REACH_TIMEOUT_S, self._left.left_s / (archives_left + 1)), 0.001),
            name=CLIENT_NAME,
            key_file=client.key_file,
            trusted_file=client.trusted_file,
        )
        with ArchiveClient(settings) as archive:
            self._archive = archive
            try:
                yield archive
            finally:
                self._archive = None

    def check(self) -> None:
        """Raise VisitEndedError once the caller no longer waits."""
        if self._has_ended.is_set():
            raise VisitEndedError

    def fetch(self) -> T | None:
        """Return the next result, or None after the last one."""
        self.check()
        return next(self._found, None)

    def keep(self) -> None:
        """Tell the archive that this visit goes on, although it takes nothing at the moment."""
        if self._archive is not None:
            self._archive.work()

    def close(self) -> None:
        self._found.close()

    def end(self) -> None:
        """Has `check` raise. May be called on any thread."""
        self._has_ended.set()


CLOSE_TIMEOUT_S = 1.0
"""The end of a call is told by then, whether or not the archive has answered that its session is closed."""

Look = Callable[[Visit[T]], Generator[T]]
"""Yields what it finds, on the thread of a visit."""


class ArchiveVisits:
    """Makes visits to archives, a bounded number at a time, and passes the results to callers."""

    def __init__(self, settings: GatewaySettings, stopping: asyncio.Event) -> None:
        self._settings = settings
        self._stopping = stopping
        self._lists = Bounds(1, 0)
        self._streams = Bounds(settings.archive_calls_max, 0)

    async def collect(self, context: CallContext, look: Look[T]) -> list[T]:
        """Return all that is found. That is quick, so callers wait for each other."""
        found: list[T] = []

        async def enter() -> Bounds:
            await self._lists.await_room(1, 0)
            return self._lists

        async def add(one: T, keep: Keep) -> None:
            found.append(one)

        await self._visit(context, look, enter, add)
        return found

    async def stream(self, context: CallContext, look: Look[T]) -> None:
        """Send the results, each before searching for the next."""

        async def enter() -> Bounds:
            if not self._streams.take(1, 0):
                count = self._streams.requests
                text = f"{count} calls read or verify recordings, as many as may: see --archive-calls-max"
                await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
            return self._streams

        async def send(one: T, keep: Keep) -> None:
            await write(context, one, keep)

        await self._visit(context, look, enter, send)

    async def _visit(
        self,
        context: CallContext,
        look: Look[T],
        enter: Callable[[], Awaitable[Bounds]],
        give: Callable[[T, Keep], Awaitable[None]],
    ) -> None:
        deadline = Deadline(context, self._settings.timeout_s)
        try:
            credentials = self._settings.credentials_for(credentials_of(context))
            visit = Visit(look, self._settings, credentials, deadline.seconds)
            async with asyncio.timeout(deadline.seconds if deadline.is_callers else None):
                bounds = await enter()
                is_whole = await self._carry_out(visit, give, bounds)
        except TimeoutError:
            text = "the call's deadline came before all was found: give it more time, or ask for less"
            await refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, text)
        except OrdoError as error:
            await refuse_with(context, error)
        if not is_whole:
            await refuse(context, grpc.StatusCode.UNAVAILABLE, "the gateway stops: ask another one for the rest")

    async def _carry_out(self, visit: Visit[T], give: Callable[[T, Keep], Awaitable[None]], bounds: Bounds) -> bool:
        """Return whether all was found.

        False where the gateway stops before. The room is free again when the visit's thread has ended; who is not gone
        before that hears the end of the call after it, and may call again.
        """
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, "ordo-archive")
        stopping = asyncio.ensure_future(self._stopping.wait())

        def keep() -> Awaitable[object]:
            return loop.run_in_executor(thread, visit.keep)

        def leave(closed: asyncio.Future[None]) -> None:
            closed.exception()  # the caller of the visit is gone
            bounds.give(1, 0)

        fetching: asyncio.Future[T | None] | None = None
        is_gone = False
        try:
            while not self._stopping.is_set():
                fetching = loop.run_in_executor(thread, visit.fetch)
                await asyncio.wait((fetching, stopping), return_when=asyncio.FIRST_COMPLETED)
                if not fetching.done():
                    break
                one = fetching.result()
                if one is None:
                    return True
                await give(one, keep)
            return False
        except asyncio.CancelledError:
            is_gone = True
            raise
        finally:
            visit.end()
            stopping.cancel()
            if fetching is not None:
                fetching.cancel()
            closing = loop.run_in_executor(thread, visit.close)
            closing.add_done_callback(leave)
            thread.shutdown(wait=False)
            if not is_gone:
                await asyncio.wait((closing,), timeout=CLOSE_TIMEOUT_S)
