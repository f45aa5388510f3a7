"""The committed log and topics for callers: a reader for each subscription, read no faster than its caller takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import grpc

from ordo.gateway.callers.batches import KINDS, Batches, LogBatches, TopicBatches
from ordo.gateway.callers.bounds import CallPlaces
from ordo.gateway.callers.call_context import (
    CallContext,
    Deadline,
    credentials_of,
    refuse,
    refuse_with,
    session_of,
    write,
)
from ordo.gateway.callers.sessions import GatewaySessions
from ordo.gateway.callers.settings import GatewaySettings
from ordo.runtime.errors import OrdoError
from ordo.service_api import ordo_pb2 as pb

R = TypeVar("R")
POLL_PAUSE_S = 0.002
POLL_PAUSE_S_MAX = 0.02


class Subscriptions:
    """Serves `Subscribe` and `SubscribeTopic`."""

    def __init__(
        self, settings: GatewaySettings, sessions: GatewaySessions, places: CallPlaces, stopping: asyncio.Event
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._stopping = stopping
        self._addresses = settings.archive_endpoints()
        self._places = places

    async def serve_log(self, request: pb.SubscribeRequest, context: CallContext) -> None:
        """Carry out one subscription to the log, for callers that the cluster admits."""
        problem = problem_of(request)
        if problem:
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, problem)
        await self._serve(request, context, LogBatches)

    async def serve_topic(self, request: pb.SubscribeTopicRequest, context: CallContext) -> None:
        """Serve a topic, as `serve_log` serves the log."""
        await self._serve(request, context, TopicBatches)

    async def _serve(
        self, request: R, context: CallContext, make_batches: Callable[[R, Sequence[str], bytes], Batches]
    ) -> None:
        deadline = Deadline(context, self._settings.timeout_s)
        await session_of(context, self._sessions, self._settings, deadline)
        credentials = self._settings.credentials_for(credentials_of(context))
        try:
            with self._places.one():
                await self._send(make_batches(request, self._addresses, credentials), context)
        except OrdoError as error:
            await refuse_with(context, error)
        if self._stopping.is_set():
            await refuse(context, grpc.StatusCode.UNAVAILABLE, "the gateway stops: go on from the last position")

    async def _send(self, batches: Batches, context: CallContext) -> None:
        """Send entries as they come, at first the beginning at once; at the end, the last position."""

        async def keep() -> None:
            batches.reader.keep_alive()

        with batches.reader:
            pause_s = POLL_PAUSE_S
            told: int | None = None
            while not self._stopping.is_set():
                polled = batches.poll()
                if polled.item_count or (told is None and batches.place is not None):
                    told = batches.place
                    await write(context, polled.batch, keep)
                if batches.has_ended:
                    if told != batches.place:
                        await write(context, polled.batch, keep)
                    return
                pause_s = POLL_PAUSE_S if polled.fragment_count else min(pause_s * 2, POLL_PAUSE_S_MAX)
                await asyncio.sleep(0 if polled.fragment_count else pause_s)


def problem_of(request: pb.SubscribeRequest) -> str:
    """Return what is wrong with a subscription, or ''."""
    unknown = [kind for kind in request.kinds if kind not in KINDS]
    if unknown:
        return f"kind {unknown[0]!r}: must be one of {', '.join(KINDS)}"
    if request.from_position < 0 or request.until_position < 0:
        return "from_position and until_position must be 0 or the position of an entry"
    if request.from_sequence and (request.from_position or request.live):
        return "give from_sequence, from_position or live, and not two of them"
    return ""
