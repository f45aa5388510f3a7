"""The calls of `ordo.v1.Sequencer`, but for the streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import TypeVar

import grpc

from ordo.cluster.client.query import PendingQuery
from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.cluster.client.requests.relay_window import RelayedRequest
from ordo.gateway.callers.bounds import Bounds, CallPlaces
from ordo.gateway.callers.call_context import (
    CallContext,
    Deadline,
    check_identity,
    check_ids,
    check_numbers,
    digest_of,
    refuse,
    refuse_with,
    session_of,
)
from ordo.gateway.callers.round_trips import RoundTrips
from ordo.gateway.callers.sessions import CallerSession, GatewaySessions
from ordo.gateway.callers.settings import MESSAGE_BYTES_BESIDE, GatewaySettings
from ordo.gateway.callers.statuses import NOT_EXECUTED, OUTCOMES, SAID
from ordo.gateway.services.submit_stream import SubmitStreams
from ordo.gateway.services.subscriptions import Subscriptions
from ordo.runtime.errors import ClusterTimeoutError, OrdoError
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc

T = TypeVar("T")
OVER_THE_BOUND = "the gateway has as much under way as it may: nothing was sent; try again later, or elsewhere"


def settle(future: asyncio.Future[T]) -> Callable[[T], None]:
    """Return a callback that sets the result of a future, unless its caller has cancelled it."""

    def set_result(result: T) -> None:
        if not future.done():
            future.set_result(result)

    return set_result


class SequencerCalls(ordo_pb2_grpc.SequencerServicer):
    """Carries calls out in the sessions of their callers."""

    def __init__(
        self,
        settings: GatewaySettings,
        sessions: GatewaySessions,
        bounds: Bounds,
        round_trips: RoundTrips,
        places: CallPlaces,
        stopping: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._bounds = bounds
        self._round_trips = round_trips
        self._streams = SubmitStreams(settings, sessions, bounds, round_trips, stopping)
        self._subscriptions = Subscriptions(settings, sessions, places, stopping)

    async def OpenIdentity(self, request: pb.OpenIdentityRequest, context: CallContext) -> pb.OpenIdentityResponse:
        problem = check_identity(request.identity)
        if problem:
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, problem, outcome=NOT_EXECUTED)
        deadline = Deadline(context, self._settings.timeout_s)
        session = await session_of(context, self._sessions, self._settings, deadline)
        await self._take_room(context, 0)
        done: asyncio.Future[RelayedRequest] = asyncio.get_running_loop().create_future()
        asked = session.relay.open(request.identity, settle(done))
        await self._await_outcome(context, session, asked, done, deadline, 0)
        line = asked.line
        return pb.OpenIdentityResponse(
            identity_position=line.open_position,
            number=line.executed,
            confirmed=line.confirmed,
            payload_bytes_max=min(
                session.relay.payload_bytes_max(asked), self._settings.message_bytes_max - MESSAGE_BYTES_BESIDE
            ),
        )

    async def Submit(self, request: pb.SubmitRequest, context: CallContext) -> pb.SubmitResponse:
        number, payload = request.number, request.payload
        problem = (
            check_identity(request.identity)
            or check_numbers(number, 1, request.confirmed, request.identity_position)
            or check_ids((request.id,))
        )
        if problem:
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, problem, outcome=NOT_EXECUTED)
        deadline = Deadline(context, self._settings.timeout_s)
        session = await session_of(context, self._sessions, self._settings, deadline)
        await self._take_room(context, len(payload))
        done: asyncio.Future[RelayedRequest] = asyncio.get_running_loop().create_future()
        sent_s = self._round_trips.start()
        relayed = session.relay.submit(
            request.identity,
            number,
            payload,
            settle(done),
            confirmed=request.confirmed,
            open_position=request.identity_position,
            digest=digest_of(request.id),
        )
        await self._await_outcome(context, session, relayed, done, deadline, len(payload))
        self._round_trips.end(1, sent_s)
        return pb.SubmitResponse(
            payload=relayed.payload,
            log_position=relayed.log_position,
            identity_position=relayed.line.open_position,
            sequence=relayed.sequence or None,
        )

    async def SubmitStream(self, request_iterator: AsyncIterable[pb.SubmitBatch], context: CallContext) -> None:
        await self._streams.serve(request_iterator, context)

    async def Subscribe(self, request: pb.SubscribeRequest, context: CallContext) -> None:
        await self._subscriptions.serve_log(request, context)

    async def SubscribeTopic(self, request: pb.SubscribeTopicRequest, context: CallContext) -> None:
        await self._subscriptions.serve_topic(request, context)

    async def _take_room(self, context: CallContext, length_bytes: int) -> None:
        if not self._bounds.take(1, length_bytes):
            await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, OVER_THE_BOUND, outcome=NOT_EXECUTED)

    async def _await_outcome(
        self,
        context: CallContext,
        session: CallerSession,
        relayed: RelayedRequest,
        done: asyncio.Future[RelayedRequest],
        deadline: Deadline,
        length_bytes: int,
    ) -> None:
        """Return when the request was executed; refuse the call when it was not, or that is not known in time."""
        session.calls += 1
        try:
            self._sessions.flush()
            if not done.done():
                async with asyncio.timeout(deadline.seconds):
                    await done
            outcome, text = relayed.outcome, ""
        except TimeoutError:
            outcome, text = session.relay.abandon(relayed)
            if outcome is Outcome.NOT_SENT and deadline.is_callers:
                await refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, text, outcome=SAID[outcome])
        except asyncio.CancelledError:
            session.relay.abandon(relayed)
            raise
        finally:
            session.calls -= 1
            self._bounds.give(1, length_bytes)
        if outcome is not Outcome.EXECUTED:
            assert outcome is not None
            text = text or relayed.payload.decode(errors="replace")
            await refuse(context, OUTCOMES[outcome], text, relayed.log_position, SAID[outcome], relayed.sequence)

    async def Query(self, request: pb.QueryRequest, context: CallContext) -> pb.QueryResponse:
        deadline = Deadline(context, self._settings.timeout_s)
        session = await session_of(context, self._sessions, self._settings, deadline)
        await self._take_room(context, len(request.payload))
        session.calls += 1
        try:
            reply = (await self._ask(session, request, deadline)).result()
        except ClusterTimeoutError as error:
            code = grpc.StatusCode.DEADLINE_EXCEEDED if deadline.is_callers else grpc.StatusCode.UNAVAILABLE
            await refuse(context, code, error.message)
        except OrdoError as error:
            await refuse_with(context, error)
        finally:
            session.calls -= 1
            self._bounds.give(1, len(request.payload))
        return pb.QueryResponse(payload=reply.payload, log_position=reply.log_position, member_id=reply.member_id)

    async def _ask(self, session: CallerSession, request: pb.QueryRequest, deadline: Deadline) -> PendingQuery:
        done: asyncio.Future[PendingQuery] = asyncio.get_running_loop().create_future()
        session.client.start_query(
            request.payload,
            consistency="stale" if request.consistency == pb.QueryRequest.STALE else "linearizable",
            member_id=request.member_id if request.HasField("member_id") else None,
            min_position=request.min_position if request.HasField("min_position") else None,
            group=request.group if request.HasField("group") else None,
            timeout_s=deadline.seconds,
            on_done=settle(done),
        )
        self._sessions.flush()
        return await done
