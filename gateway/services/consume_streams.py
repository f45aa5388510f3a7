"""`Consumers.Consume`: a call is a member of a durable consumer, and what is acknowledged comes in the same call.

A lease belongs to its member, so it cannot be acknowledged through another gateway; a call that ends gives its messages
to the others at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable

import grpc

from ordo.gateway.callers.batches import BATCH_BYTES_MAX, item_length
from ordo.gateway.callers.bounds import CallPlaces
from ordo.gateway.callers.call_context import (
    CallContext,
    Deadline,
    credentials_of,
    refuse,
    refuse_with,
    session_of,
)
from ordo.gateway.callers.sessions import GatewaySessions
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.services.consume_members import Member, Standing, open_member
from ordo.runtime.errors import OrdoError
from ordo.service_api import ordo_pb2 as pb

ENTRIES_MAX = 1_024
OpenMember = Callable[[pb.BeginConsuming, GatewaySettings, bytes], Member]


class ConsumeStreams:
    """Serves `Consume`."""

    def __init__(
        self,
        settings: GatewaySettings,
        sessions: GatewaySessions,
        places: CallPlaces,
        stopping: asyncio.Event,
        open_one: OpenMember = open_member,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._places = places
        self._stopping = stopping
        self._open_one = open_one

    async def serve(self, requests: AsyncIterable[pb.ConsumeRequest], context: CallContext) -> None:
        """Be a member until the caller ends the call, or the gateway stops."""
        steps = aiter(requests)
        deadline = Deadline(context, self._settings.timeout_s)
        begin = await self._first(steps, context, deadline)
        await session_of(context, self._sessions, self._settings, deadline)
        credentials = self._settings.credentials_for(credentials_of(context))
        try:
            with self._places.one():
                async with self._open_one(begin, self._settings, credentials) as member:
                    await self._run(member, steps, context)
        except OrdoError as error:
            await refuse_with(context, error)
        if self._stopping.is_set():
            await refuse(context, grpc.StatusCode.UNAVAILABLE, "the gateway stops: begin again with another one")

    async def _first(
        self, steps: AsyncIterator[pb.ConsumeRequest], context: CallContext, deadline: Deadline
    ) -> pb.BeginConsuming:
        try:
            async with asyncio.timeout(deadline.seconds):
                first = await anext(steps, None)
        except TimeoutError:
            await refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, "the first request, with `begin`, did not come")
        if first is None or first.WhichOneof("step") != "begin":
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "the first request must have `begin`")
        return first.begin

    async def _run(self, member: Member, steps: AsyncIterator[pb.ConsumeRequest], context: CallContext) -> None:
        """Send what comes, no faster than the caller takes it, and carry its steps out. Raises OrdoError."""
        taking = asyncio.create_task(_take_steps(member, steps))
        told: Standing | None = None
        waiting: deque[pb.ConsumedEntry] = deque()
        try:
            while not self._stopping.is_set():
                is_over = taking.done()
                if is_over:
                    taking.result()
                standing = member.standing()
                if told is not None and standing.epoch != told.epoch:
                    waiting.clear()  # in another time it is handed out anew
                entries = [] if is_over else _fill(member, waiting)
                if entries or standing != told:
                    told = standing
                    await context.write(_response(entries, standing))
                elif is_over and not standing.unsent_count:
                    return
                else:
                    await member.await_change()
        finally:
            taking.cancel()


async def _take_steps(member: Member, steps: AsyncIterator[pb.ConsumeRequest]) -> None:
    async for request in steps:
        member.carry_out(request)


def _fill(member: Member, waiting: deque[pb.ConsumedEntry]) -> list[pb.ConsumedEntry]:
    """Return messages that have come, no longer together than BATCH_BYTES_MAX, unless one alone is.

    A caller with gRPC's defaults can take that. A message for which there is no room is left in `waiting` for the next
    time.
    """
    entries: list[pb.ConsumedEntry] = []
    room_bytes = BATCH_BYTES_MAX
    while room_bytes > 0 and len(entries) < ENTRIES_MAX:
        found = waiting.popleft() if waiting else member.take()
        if found is None:
            break
        length_bytes = item_length(found.entry)
        if length_bytes > room_bytes and entries:
            waiting.append(found)
            break
        entries.append(found)
        room_bytes -= length_bytes
    return entries


def _response(entries: list[pb.ConsumedEntry], standing: Standing) -> pb.ConsumeResponse:
    return pb.ConsumeResponse(entries=entries, **standing._asdict())
