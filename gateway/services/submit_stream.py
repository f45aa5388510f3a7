"""Streams of requests: many under way for one identity, answered in the order of their numbers.

A stream reads no further while as much is under way as may be, for it or for the gateway, or while its caller does not
take the answers; gRPC then holds the caller up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable
from typing import NamedTuple

import grpc

from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.cluster.client.requests.relay_window import AnswerRun, RelayedStream
from ordo.gateway.callers.bounds import Bounds
from ordo.gateway.callers.call_context import (
    CallContext,
    Deadline,
    check_identity,
    check_ids,
    check_numbers,
    digest_of,
    refuse,
    session_of,
)
from ordo.gateway.callers.round_trips import RoundTrips
from ordo.gateway.callers.sessions import CallerSession, GatewaySessions
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.callers.statuses import NOT_EXECUTED, OUTCOMES, SAID
from ordo.runtime.errors import RequestOutcome
from ordo.service_api import ordo_pb2 as pb

ANSWERS = {
    Outcome.EXECUTED: pb.AnswerBatch.EXECUTED,
    Outcome.REJECTED: pb.AnswerBatch.REJECTED,
    Outcome.ANSWER_TOO_LONG: pb.AnswerBatch.ANSWER_TOO_LONG,
    Outcome.ID_CONFLICT: pb.AnswerBatch.ID_CONFLICT,
    Outcome.FORGOTTEN: pb.AnswerBatch.ANSWER_FORGOTTEN,
}
"""What does not end a stream: the cluster has decided on the request."""
BATCH_BYTES_MAX = 1 << 20
BATCH_ANSWERS_MAX = 512


class _End(NamedTuple):
    """How a stream ends. `outcome`: what became of the first request without an answer."""

    code: grpc.StatusCode
    text: str = ""
    outcome: RequestOutcome | None = None


class SubmitStreams:
    """Serves `SubmitStream`."""

    def __init__(
        self,
        settings: GatewaySettings,
        sessions: GatewaySessions,
        bounds: Bounds,
        round_trips: RoundTrips,
        stopping: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._bounds = bounds
        self._round_trips = round_trips
        self._stopping = stopping

    async def serve(self, batches: AsyncIterable[pb.SubmitBatch], context: CallContext) -> None:
        """Carry out one stream, to its end or its deadline."""
        deadline = Deadline(context, self._settings.timeout_s)
        session = await session_of(context, self._sessions, self._settings, deadline)
        stream = _Stream(self._settings, self._sessions, self._bounds, self._round_trips, session)
        session.calls += 1
        reader = asyncio.create_task(stream.read(batches))
        stopper = asyncio.create_task(self._end_reading(stream, reader))
        try:
            if deadline.is_callers:
                async with asyncio.timeout(deadline.seconds):
                    end = await stream.write(context)
            else:
                end = await stream.write(context)
        except TimeoutError:
            end = stream.describe_rest()
        finally:
            stopper.cancel()
            reader.cancel()
            stream.give_up()
            session.calls -= 1
        if end.code is not grpc.StatusCode.OK:
            await refuse(context, end.code, end.text, outcome=end.outcome)

    async def _end_reading(self, stream: _Stream, reader: asyncio.Task[None]) -> None:
        await self._stopping.wait()
        stream.is_stopped = True
        reader.cancel()
        stream.changed.set()


class _Stream:
    def __init__(
        self,
        settings: GatewaySettings,
        sessions: GatewaySessions,
        bounds: Bounds,
        round_trips: RoundTrips,
        session: CallerSession,
    ) -> None:
        self._requests_max = settings.stream_requests_max
        self._timeout_s = settings.timeout_s
        self._sessions = sessions
        self._bounds = bounds
        self._round_trips = round_trips
        self._session = session
        self.changed = asyncio.Event()
        self._pending = RelayedStream(self.changed.set)
        self._timed: deque[tuple[int, float]] = deque()  # requests under way, and when they were sent
        self._room = asyncio.Event()
        self._identity = b""
        self._problem: _End | None = None
        self._is_read = False
        self.is_stopped = False

    # Requests

    async def read(self, batches: AsyncIterable[pb.SubmitBatch]) -> None:
        """Take requests for as long as there is room for them."""
        try:
            async for batch in batches:
                problem = self._check(batch)
                if problem:
                    self._problem = _End(grpc.StatusCode.INVALID_ARGUMENT, problem, NOT_EXECUTED)
                    return
                count, length_bytes = len(batch.payloads), sum(map(len, batch.payloads))
                while self._pending and len(self._pending) + count > self._requests_max:
                    self._room.clear()
                    await self._room.wait()
                await self._bounds.await_room(count, length_bytes)
                self._submit(batch)
        finally:
            self._is_read = True
            self.changed.set()

    def _check(self, batch: pb.SubmitBatch) -> str:
        self._identity = self._identity or batch.identity
        problem = check_identity(self._identity)
        if batch.identity not in (b"", self._identity):
            return "a stream has one identity: open another stream for another one"
        if len(batch.payloads) > self._requests_max:
            return f"batch of {len(batch.payloads)} payloads: at most {self._requests_max}"
        if batch.ids and len(batch.ids) != len(batch.payloads):
            return f"{len(batch.ids)} ids for {len(batch.payloads)} payloads: give one for each, or none"
        problem = problem or check_ids(batch.ids)
        return problem or check_numbers(batch.number, len(batch.payloads), batch.confirmed, batch.identity_position)

    def _submit(self, batch: pb.SubmitBatch) -> None:
        if batch.payloads:
            self._timed.append((len(batch.payloads), self._round_trips.start()))
        self._session.relay.submit_many(
            self._pending,
            self._identity,
            batch.number,
            batch.payloads,
            confirmed=batch.confirmed,
            open_position=batch.identity_position,
            digests=[digest_of(one) for one in batch.ids] if batch.ids else None,
        )
        self._sessions.flush()

    # Answers

    async def write(self, context: CallContext) -> _End:
        """Send answers as they come, until there are no more; return how the stream ends."""
        while True:
            run = self._pending.take(BATCH_ANSWERS_MAX, BATCH_BYTES_MAX)
            if run is not None:
                self._note_answered(run)
                await context.write(_encode(run))
                continue
            first = self._pending.first
            if first is not None and first.outcome is not None:
                text = f"number {first.number}: {first.payload.decode(errors='replace')}"
                return _End(OUTCOMES[first.outcome], text, SAID[first.outcome])
            if first is None and self._is_read:
                return self._end()
            problem = await self._wait()
            if problem is not None:
                return problem

    def _note_answered(self, run: AnswerRun) -> None:
        count = len(run.payloads)
        self._bounds.give(count, run.request_bytes)
        self._room.set()
        while count:
            waiting, sent_s = self._timed.popleft()
            answered = min(waiting, count)
            self._round_trips.end(answered, sent_s)
            count -= answered
            if answered < waiting:
                self._timed.appendleft((waiting - answered, sent_s))

    def _end(self) -> _End:
        if self.is_stopped:
            return _End(grpc.StatusCode.UNAVAILABLE, "the gateway stops: everything that it took was answered")
        return self._problem or _End(grpc.StatusCode.OK)

    async def _wait(self) -> _End | None:
        """Wait for something to do; return how the stream ends if the cluster is silent for too long."""
        self.changed.clear()
        first = self._pending.first
        try:
            async with asyncio.timeout(None if first is None else self._timeout_s):
                await self.changed.wait()
        except TimeoutError:
            assert first is not None
            outcome, text = self._session.relay.abandon(first)
            code = grpc.StatusCode.UNAVAILABLE if outcome is Outcome.UNKNOWN else OUTCOMES[outcome]
            return _End(code, f"number {first.number}: {text}", SAID[outcome])
        return None

    def describe_rest(self) -> _End:
        """Return the outcome of the requests without an answer, for a caller whose deadline passes."""
        first, last = self._pending.first, self._pending.last
        if first is None or last is None:
            return _End(grpc.StatusCode.DEADLINE_EXCEEDED, "everything that was sent is answered")
        outcome, text = self._session.relay.abandon(first)
        text = f"numbers {first.number} to {last.number} have no answer: {text}"
        return _End(grpc.StatusCode.DEADLINE_EXCEEDED, text, SAID[outcome])

    def give_up(self) -> None:
        """Forget the requests without an answer."""
        for request in self._pending.take_all():
            if request.outcome is None:
                self._session.relay.abandon(request)
            self._bounds.give(1, request.length_bytes)


def _encode(run: AnswerRun) -> pb.AnswerBatch:
    return pb.AnswerBatch(
        number=run.number,
        payloads=run.payloads,
        log_positions=run.log_positions,
        sequences=run.sequences,
        outcomes=[ANSWERS[one] for one in run.outcomes],
        identity_position=run.identity_position,
    )
