"""Streams of requests: many under way for one identity, answered in the order of their numbers.

A stream reads no further while as much is under way as may be, for it or for the gateway, or while its caller does not
take the answers; gRPC then holds the caller up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import grpc

from cluster.client.relay import Outcome, RelayedRequest
from gateway.bounds import Bounds
from gateway.calls import Deadline, check_identity, check_numbers, refuse, session_of
from gateway.round_trips import RoundTrips
from gateway.sessions import CallerSession, GatewaySessions
from gateway.settings import GatewaySettings
from gateway.statuses import OUTCOMES
from service_api import ordo_pb2 as pb

ANSWERS = {
    Outcome.EXECUTED: pb.Answer.EXECUTED,
    Outcome.REJECTED: pb.Answer.REJECTED,
    Outcome.ANSWER_TOO_LONG: pb.Answer.ANSWER_TOO_LONG,
}
"""What does not end a stream: the request was executed."""
BATCH_BYTES_MAX = 1 << 20
BATCH_ANSWERS_MAX = 512


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

    async def serve(self, batches: Any, context: Any) -> None:
        """Carries out one stream, to its end or its deadline."""
        deadline = Deadline(context, self._settings.timeout_s)
        session = await session_of(context, self._sessions, self._settings, deadline)
        stream = _Stream(self._settings, self._sessions, self._bounds, self._round_trips, session)
        session.calls += 1
        reader = asyncio.create_task(stream.read(batches))
        stopper = asyncio.create_task(self._end_reading(stream, reader))
        try:
            if deadline.is_callers:
                async with asyncio.timeout(deadline.seconds):
                    code, text = await stream.write(context)
            else:
                code, text = await stream.write(context)
        except TimeoutError:
            code, text = grpc.StatusCode.DEADLINE_EXCEEDED, stream.describe_rest()
        finally:
            stopper.cancel()
            reader.cancel()
            stream.give_up()
            session.calls -= 1
        if code is not grpc.StatusCode.OK:
            await refuse(context, code, text)

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
        self._pending: deque[tuple[RelayedRequest, int]] = deque()
        self._room = asyncio.Event()
        self._identity = b""
        self._problem: tuple[grpc.StatusCode, str] | None = None
        self._is_read = False
        self.changed = asyncio.Event()
        self.is_stopped = False

    # Requests

    async def read(self, batches: Any) -> None:
        """Takes requests for as long as there is room for them."""
        try:
            async for batch in batches:
                problem = self._check(batch)
                if problem:
                    self._problem = grpc.StatusCode.INVALID_ARGUMENT, problem
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

    def _check(self, batch: Any) -> str:
        self._identity = self._identity or batch.identity
        problem = check_identity(self._identity)
        if batch.identity not in (b"", self._identity):
            return "a stream has one identity: open another stream for another one"
        if len(batch.payloads) > self._requests_max:
            return f"batch of {len(batch.payloads)} payloads: at most {self._requests_max}"
        return problem or check_numbers(batch.number, len(batch.payloads), batch.confirmed, batch.identity_position)

    def _submit(self, batch: Any) -> None:
        relay, identity, pending = self._session.relay, self._identity, self._pending
        confirmed, open_position = batch.confirmed, batch.identity_position
        count, sent_s = len(batch.payloads), self._round_trips.start()

        def on_last(relayed: RelayedRequest) -> None:
            """The batch counts when its last request is answered."""
            if relayed.outcome in ANSWERS:
                self._round_trips.end(count, sent_s)
            self._on_done(relayed)

        for number, payload in enumerate(batch.payloads, batch.number):
            on_done = on_last if number == batch.number + count - 1 else self._on_done
            relayed = relay.submit(identity, number, payload, on_done, confirmed=confirmed, open_position=open_position)
            pending.append((relayed, len(payload)))
        self._sessions.flush()

    def _on_done(self, relayed: RelayedRequest) -> None:
        self.changed.set()

    # Answers

    async def write(self, context: Any) -> tuple[grpc.StatusCode, str]:
        """Sends answers as they come, until there are no more: how the stream ends."""
        while True:
            answers, problem = self._take_answers()
            if answers:
                position = answers[1]
                await context.write(pb.AnswerBatch(answers=answers[0], identity_position=position))
            if problem is not None:
                return problem
            if not answers and self._is_read and not self._pending:
                return self._end()
            if not answers:
                problem = await self._wait()
                if problem is not None:
                    return problem

    def _end(self) -> tuple[grpc.StatusCode, str]:
        if self.is_stopped:
            return grpc.StatusCode.UNAVAILABLE, "the gateway stops: everything that it took was answered"
        return self._problem or (grpc.StatusCode.OK, "")

    async def _wait(self) -> tuple[grpc.StatusCode, str] | None:
        """Waits for something to do; says how the stream ends when the cluster is silent for too long."""
        self.changed.clear()
        if self._pending and self._pending[0][0].outcome is not None:
            return None
        try:
            async with asyncio.timeout(self._timeout_s if self._pending else None):
                await self.changed.wait()
        except TimeoutError:
            outcome, text = self._session.relay.abandon(self._pending[0][0])
            code = grpc.StatusCode.UNAVAILABLE if outcome is Outcome.UNKNOWN else OUTCOMES[outcome]
            return code, f"number {self._pending[0][0].number}: {text}"
        return None

    def _take_answers(self) -> tuple[tuple[list[Any], int] | None, tuple[grpc.StatusCode, str] | None]:
        """What is answered at the head of the stream, and how the stream ends if its next request cannot be."""
        pending, answers, length_bytes, requests, given = self._pending, [], 0, 0, 0
        position, problem = 0, None
        while pending and requests < BATCH_ANSWERS_MAX and length_bytes < BATCH_BYTES_MAX:
            relayed, payload_bytes = pending[0]
            outcome = relayed.outcome
            if outcome is None:
                break
            if outcome not in ANSWERS:
                problem = OUTCOMES[outcome], f"number {relayed.number}: {relayed.payload.decode(errors='replace')}"
                break
            pending.popleft()
            position = relayed.line.open_position
            requests += 1
            given += payload_bytes
            length_bytes += len(relayed.payload)
            answers.append(
                pb.Answer(
                    number=relayed.number,
                    outcome=ANSWERS[outcome],
                    payload=relayed.payload,
                    log_position=relayed.log_position,
                )
            )
        if requests:
            self._bounds.give(requests, given)
            self._room.set()
        return ((answers, position) if answers else None), problem

    def describe_rest(self) -> str:
        """What became of the requests without an answer, for the caller whose deadline passes."""
        if not self._pending:
            return "everything that was sent is answered"
        first = self._pending[0][0]
        _, text = self._session.relay.abandon(first)
        return f"numbers {first.number} to {self._pending[-1][0].number} have no answer: {text}"

    def give_up(self) -> None:
        """Forgets what has no answer."""
        for relayed, length_bytes in self._pending:
            if relayed.outcome is None:
                self._session.relay.abandon(relayed)
            self._bounds.give(1, length_bytes)
        self._pending.clear()
