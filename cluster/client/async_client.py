"""The cluster client for asyncio: the same session, run by the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, overload

from ordo.cluster.client.acknowledgements import Acknowledged, HandedOver, Unsequenced
from ordo.cluster.client.async_requests import (
    AnswersInOrder,
    AnswersTogether,
    AnswerWaits,
    Asked,
    AsyncPendingRequest,
    Changes,
    Payloads,
    late,
    refused,
    with_ids,
)
from ordo.cluster.client.connection.endpoints import Endpoints, EndpointSource
from ordo.cluster.client.query import QueryReply
from ordo.cluster.client.requests.request_window import Answer, PendingRequest
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.session_states import ClientEvent, ClientState
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.codecs import EventCode
from ordo.follow.topics.async_feeds import AsyncFeedReader
from ordo.follow.topics.feeds import FeedStart
from ordo.runtime.agents.use import Origin
from ordo.runtime.errors import ClusterError, ClusterTimeoutError, OrdoError, RequestOutcome, SessionClosedError
from ordo.runtime.event_loops import demand_own_loop
from ordo.service_api.service import OfferResult

if TYPE_CHECKING:
    from ordo.service_api.messages.request import Request
    from ordo.service_api.service import Payload
    from ordo.transport.client.client_transport import ClientTransport

A = TypeVar("A")
CYCLE_INTERVAL_S = 0.010
BUSY_INTERVAL_S = 0.001
POLL_LIMIT = 256
POLLS_MAX = 16
WAITING_MESSAGES_MAX = 65_536


class ServiceMessage(NamedTuple):
    """A message that the service sent. `timestamp` is in cluster time."""

    timestamp: int
    payload: bytes


class AsyncClusterClient:
    """`async with AsyncClusterClient(endpoints) as client`, then `await client.send()`, `async for message in client`.

    Arguments are those of ClusterClient, without `on_message`. Messages that nobody iterates over wait in memory; at
    `waiting_messages_max` the client reads no further, so that the service sees back-pressure. Belongs to one event
    loop. Raises what ClusterClient raises.
    """

    def __init__(
        self,
        ingress_endpoints: Endpoints | EndpointSource = (),
        egress_channel: str | None = None,
        *,
        settings: ClientSettings | None = None,
        on_challenge: Callable[[bytes], bytes] | None = None,
        aeron_dir: str | None = None,
        transport: ClientTransport | None = None,
        on_session_event: Callable[[EventCode, str], object] | None = None,
        on_new_leader: Callable[[int, int, dict[int, str]], object] | None = None,
        on_event: Callable[[ClientEvent], object] | None = None,
        on_acknowledged: Callable[[Acknowledged], object] | None = None,
        on_unsequenced: Callable[[Unsequenced], object] | None = None,
        waiting_messages_max: int = WAITING_MESSAGES_MAX,
    ) -> None:
        self._origin = Origin("AsyncClusterClient")
        self._messages: deque[ServiceMessage] = deque()
        self._waiting_messages_max = waiting_messages_max
        self._changes = Changes()
        self._failure: OrdoError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waits = AnswerWaits()
        self._senders = 0
        self._answered = 0
        self._will_flush = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client = ClusterClient(
            ingress_endpoints,
            egress_channel,
            on_message=self._on_message,
            on_session_event=on_session_event,
            on_new_leader=on_new_leader,
            on_event=on_event,
            on_acknowledged=on_acknowledged,
            on_unsequenced=on_unsequenced,
            settings=settings,
            on_challenge=on_challenge,
            aeron_dir=aeron_dir,
            transport=transport,
            wait=False,
        )

    @property
    def session_id(self) -> int:
        """The id of the session with the cluster; -1 while there is none."""
        return self._client.session_id

    @property
    def leader_member_id(self) -> int:
        """The id of the member that leads; -1 while none is known."""
        return self._client.leader_member_id

    @property
    def state(self) -> ClientState:
        """The stage of the session."""
        return self._client.state

    async def open(self) -> None:
        """Open the session; `async with` does it."""
        self._origin.check()
        self._loop = asyncio.get_running_loop()
        if self._client.descriptor is not None:
            self._loop.add_reader(self._client.descriptor, self._cycle)
        self._cycle()
        while self._client.state is ClientState.CONNECTING and self._failure is None:
            await self._changes.wait()
        if self._failure is not None:
            self.close()
            raise self._failure

    async def send(self, payload: Payload, *, timeout_s: float | None = None, until: str = "") -> HandedOver:
        """Wait until the message is taken, or for more with `until`. As ClusterClient.send."""
        if not until:
            return await self._hand_over(payload, timeout_s)
        tracked = self._client.demand_acknowledgements(until)
        seconds = self._client.settings.seconds(timeout_s, RequestOutcome.NOT_EXECUTED)
        handed_over = await self._hand_over(payload, timeout_s)
        tracked.watch(handed_over.number)
        try:
            await self._await(lambda: tracked.has_reached(handed_over.number, until), seconds)
        except TimeoutError:
            text = f"message handed over, and not known to be {until} in time: unknown whether it will be"
            raise ClusterTimeoutError(text, outcome=RequestOutcome.UNKNOWN) from None
        finally:
            tracked.forget(handed_over.number)
        return handed_over

    async def _await(self, is_true: Callable[[], bool], seconds: float) -> None:
        """Wait until `is_true`. Raises TimeoutError, and the error that has ended the client."""
        self._senders += 1
        try:
            async with asyncio.timeout(seconds):
                while not is_true():
                    self._demand_open()
                    self._schedule()
                    await self._changes.wait()
        finally:
            self._senders -= 1

    async def await_sequenced(self, *, timeout_s: float | None = None) -> None:
        """Wait as ClusterClient.await_sequenced does."""
        try:
            await self._await(lambda: self._client.is_all_known, self._client.settings.seconds(timeout_s))
        except TimeoutError:
            text = "messages handed over, and not known to be sequenced in time: unknown whether they will be"
            raise ClusterTimeoutError(text, outcome=RequestOutcome.UNKNOWN) from None

    @property
    def sequenced(self) -> Acknowledged | None:
        """How far messages are in the log, as ClusterClient.sequenced."""
        return self._client.sequenced

    @property
    def executed(self) -> Acknowledged | None:
        """How far messages are executed, as ClusterClient.executed."""
        return self._client.executed

    @property
    def sequenced_position(self) -> int:
        """The log position, as ClusterClient.sequenced_position."""
        return self._client.sequenced_position

    async def _hand_over(self, payload: Payload, timeout_s: float | None) -> HandedOver:
        result = self._offer(payload)
        if result < 0:
            try:
                async with asyncio.timeout(self._client.settings.seconds(timeout_s)):
                    result = await self._send_slowly(payload)
            except TimeoutError:
                why = f"state={self.state.name} {self._client.ingress_trouble}".rstrip()
                text = f"message not taken in time, so not sent: {why}"
                raise ClusterTimeoutError(text, outcome=RequestOutcome.NOT_EXECUTED) from None
        number = self._client.last_number
        if self._client.unsent:
            self._client.flush()
        return HandedOver(result, number)

    async def _send_slowly(self, payload: Payload) -> int:
        self._senders += 1
        try:
            while (result := self._offer(payload)) < 0:
                if result == OfferResult.MESSAGE_TOO_LONG:
                    raise ClusterError(
                        f"not sent: {self._client._describe_too_long(payload)}", outcome=RequestOutcome.NOT_EXECUTED
                    )
                self._schedule()
                await self._changes.wait()
            return result
        finally:
            self._senders -= 1

    async def query(
        self,
        payload: Payload,
        *,
        consistency: str = "linearizable",
        member_id: int | None = None,
        min_position: int | None = None,
        group: str | None = None,
        timeout_s: float | None = None,
    ) -> QueryReply:
        """Ask the service something that changes nothing. As ClusterClient.query."""
        if self._failure is not None:
            raise self._failure
        pending = self._client.start_query(
            payload,
            consistency=consistency,
            member_id=member_id,
            min_position=min_position,
            group=group,
            timeout_s=timeout_s,
        )
        self._client.flush()
        self._senders += 1
        try:
            while not pending.is_done:
                self._demand_open()
                self._schedule()
                await self._changes.wait()
            return pending.result()
        finally:
            self._senders -= 1

    @overload
    async def request(self, payload: Payload, *, timeout_s: float | None = ..., id: bytes | None = ...) -> Answer: ...
    @overload
    async def request(self, payload: Request[A], *, timeout_s: float | None = ..., id: bytes | None = ...) -> A: ...

    async def request(
        self, payload: Payload | Request[object], *, timeout_s: float | None = None, id: bytes | None = None
    ) -> object:
        """Have the service execute a message once, and return its answer. As ClusterClient.request.

        After a timeout, `await error.pending.result()` goes on waiting; after a cancellation the request is among
        `pending_requests`.
        """
        seconds = self._client.settings.seconds(timeout_s, RequestOutcome.NOT_EXECUTED)
        if not self._client._has_request_room:
            await self._await_room(seconds)
        self._check_open()
        assert self._loop is not None
        asked = self._submit(payload, id)
        self._waits.add(asked, self._loop.time() + seconds)
        return await asked.future

    @overload
    def submit(self, payload: Payload, *, id: bytes | None = ...) -> asyncio.Future[Answer]: ...
    @overload
    def submit(self, payload: Request[A], *, id: bytes | None = ...) -> asyncio.Future[A]: ...

    def submit(self, payload: Payload | Request[object], *, id: bytes | None = None) -> asyncio.Future[Any]:
        """Send a request without waiting for its answer.

        Raises ClusterError with `outstanding_requests_max` under way.
        """
        self._check_open()
        if not self._client._has_request_room:
            raise ClusterError(
                "not executed: no room for a request: see outstanding_requests_max, or await `request`",
                outcome=RequestOutcome.NOT_EXECUTED,
            )
        return self._submit(payload, id).future

    def _check_open(self) -> None:
        """Raise what keeps this client from taking a request."""
        self._origin.check()
        if self._failure is not None:
            raise self._failure.for_request(RequestOutcome.NOT_EXECUTED)
        if self._loop is None:
            raise SessionClosedError(
                "not executed: the client is not open: use `async with`, or `await client.open()`",
                outcome=RequestOutcome.NOT_EXECUTED,
            )

    def _submit(self, payload: Payload | Request[object], request_id: bytes | None) -> Asked:
        assert self._loop is not None
        future: asyncio.Future[object] = self._loop.create_future()

        def on_done(pending: PendingRequest[object]) -> None:
            self._answered += 1
            if future.done():
                return
            if pending.error is None:
                future.set_result(pending.value)
                return
            if pending.answer is not None:  # of another class than the request names
                pending.error.pending = AsyncPendingRequest(pending, self._await_request)
            future.set_exception(pending.error)
            future.exception()  # nobody may ever ask for it: that is no reason to complain

        pending = self._client._take_request(payload, on_done, request_id)
        if not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self._flush)
        return Asked(future, pending, self._await_request)

    async def _await_request(self, pending: PendingRequest[object], timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(self._client.settings.seconds(timeout_s)):
                while not pending.is_done:
                    await self._changes.wait()
        except TimeoutError:
            raise late(AsyncPendingRequest(pending, self._await_request), self._client.request_trouble) from None

    @overload
    def request_stream(
        self,
        payloads: Iterable[Payload] | AsyncIterable[Payload],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
    ) -> AsyncIterator[Answer]: ...
    @overload
    def request_stream(
        self,
        payloads: Iterable[Payload] | AsyncIterable[Payload],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
        return_exceptions: Literal[True],
    ) -> AsyncIterator[Answer | OrdoError]: ...
    @overload
    def request_stream(
        self,
        payloads: Iterable[Request[A]] | AsyncIterable[Request[A]],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
    ) -> AsyncIterator[A]: ...
    @overload
    def request_stream(
        self,
        payloads: Iterable[Request[A]] | AsyncIterable[Request[A]],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
        return_exceptions: Literal[True],
    ) -> AsyncIterator[A | OrdoError]: ...

    async def request_stream(
        self,
        payloads: Payloads,
        *,
        ids: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
        return_exceptions: bool = False,
    ) -> AsyncIterator[object]:
        """Yield the answers in the order of the payloads, with as many requests under way at a time as may be.

        Waits for as long as answers come: ClusterTimeoutError says that none came for `timeout_s` (default:
        message_timeout_s). An error ends the iteration, and has `requests`, those under way behind it; with
        `return_exceptions` it stands in its answer's place, and the iteration goes on. `ids`: one for each payload.
        """
        seconds = self._client.settings.seconds(timeout_s, RequestOutcome.NOT_EXECUTED)
        window = AnswersInOrder(
            lambda payload, request_id: self._ask(payload, request_id, seconds),
            lambda asked: self._take(asked, seconds),
            self._client.settings.outstanding_requests_max,
        )
        async for found in window.run(payloads, ids):
            if isinstance(found, OrdoError) and not return_exceptions:
                raise window.describe(found)
            yield found

    @overload
    async def request_many(
        self,
        payloads: Iterable[Payload] | AsyncIterable[Payload],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
    ) -> list[Answer]: ...
    @overload
    async def request_many(
        self,
        payloads: Iterable[Payload] | AsyncIterable[Payload],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
        return_exceptions: Literal[True],
    ) -> list[Answer | OrdoError]: ...
    @overload
    async def request_many(
        self,
        payloads: Iterable[Request[A]] | AsyncIterable[Request[A]],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
    ) -> list[A]: ...
    @overload
    async def request_many(
        self,
        payloads: Iterable[Request[A]] | AsyncIterable[Request[A]],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
        return_exceptions: Literal[True],
    ) -> list[A | OrdoError]: ...

    async def request_many(
        self,
        payloads: Payloads,
        *,
        ids: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
        return_exceptions: bool = False,
    ) -> object:
        """Return the answers of all, in order. As ClusterClient.request_many.

        Raises the first error when all are done, with `answers` and `requests`; with `return_exceptions` errors are
        returned in the places of their answers, and none is raised for a request.
        """
        seconds = self._client.settings.seconds(timeout_s, RequestOutcome.NOT_EXECUTED)
        together = AnswersTogether()
        try:
            async for payload, request_id in with_ids(payloads, ids):
                await self._await_room(seconds)
                self._check_open()
                together.add(self._submit_or_refuse(payload, request_id))
            await together.wait(lambda asked: self._take(asked, seconds))
        except OrdoError as error:
            raise together.describe(error) from None
        found = together.found()
        failure = next((one for one in found if isinstance(one, OrdoError)), None)
        has_ended = self._failure is not None or self._loop is None
        if failure is not None and (has_ended or not return_exceptions):
            raise together.describe(failure)
        return found

    def _submit_or_refuse(self, payload: Payload | Request[object], request_id: bytes | None) -> Asked:
        """Send a request; one that cannot be taken is done at once, with its error."""
        assert self._loop is not None
        try:
            return self._submit(payload, request_id)
        except OrdoError as error:
            return refused(payload, error, self._loop, self._await_request)

    async def _take(self, asked: Asked, seconds: float) -> None:
        """Return once it is done. Raises ClusterTimeoutError when no answer at all has come for so long."""
        while not asked.future.done():
            before = self._answered
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.wait((asked.future,))
            except TimeoutError:
                if self._answered == before:
                    raise late(asked.request, self._client.request_trouble) from None

    async def _ask(self, payload: Payload | Request[object], request_id: bytes | None, seconds: float) -> Asked:
        """Wait for room, for as long as answers come, and submit."""
        await self._await_room(seconds)
        self._check_open()
        return self._submit(payload, request_id)

    async def _await_room(self, seconds: float) -> None:
        """Return once a request may be sent, or the client has ended. Raises ClusterTimeoutError."""
        while not self._client._has_request_room:
            before = self._answered
            try:
                async with asyncio.timeout(seconds):
                    while self._answered == before and self._failure is None and self._loop is not None:
                        await self._changes.wait()
            except TimeoutError:
                text = f"not executed: no room for a request: {self._client.request_trouble}"
                raise ClusterTimeoutError(text, outcome=RequestOutcome.NOT_EXECUTED) from None
            if self._failure is not None or self._loop is None:
                return

    def subscribe(
        self,
        topic: str,
        *,
        from_position: FeedStart = "live",
        from_sequence: int | None = None,
        archives: Sequence[str] = (),
    ) -> AsyncFeedReader:
        """Read what the service publishes to a topic: `async for message in client.subscribe(...)`.

        As ClusterClient.subscribe.
        """
        return AsyncFeedReader(
            self._client.subscribe(topic, from_position=from_position, from_sequence=from_sequence, archives=archives)
        )

    @property
    def identity(self) -> bytes:
        """The client's identity, as ClusterClient.identity."""
        return self._client.identity

    @property
    def recovered_requests(self) -> list[AsyncPendingRequest]:
        """The requests of an earlier process, as ClusterClient.recovered_requests."""
        return [AsyncPendingRequest(one, self._await_request) for one in self._client.recovered_requests]

    @property
    def pending_requests(self) -> list[AsyncPendingRequest[Any]]:
        """The unanswered requests in their order, even those whose `await` was cancelled or timed out.

        Each can still be waited for with its `result`.
        """
        return [AsyncPendingRequest(one, self._await_request) for one in self._client.pending_requests]

    def _flush(self) -> None:
        self._will_flush = False
        if self._loop is not None and self._failure is None:
            self._cycle()

    def _demand_open(self) -> None:
        self._origin.check()
        if self._failure is not None:
            raise self._failure
        if self._loop is None:
            raise SessionClosedError("the client is not open: use `async with`, or `await client.open()`")

    def _offer(self, payload: Payload) -> int:
        if self._failure is not None:
            raise self._failure
        return self._client.offer(payload)

    def __aiter__(self) -> AsyncIterator[ServiceMessage]:
        return self

    async def __anext__(self) -> ServiceMessage:
        """Return the next message.

        Ends once this client was closed; raises SessionClosedError when the cluster closed it.
        """
        self._origin.check()
        while not self._messages:
            if self._loop is None:
                raise StopAsyncIteration
            if self._failure is not None:
                raise self._failure
            await self._changes.wait()
        message = self._messages.popleft()
        if len(self._messages) == self._waiting_messages_max - 1 and self._loop is not None:
            self._loop.call_soon(self._cycle)
        return message

    def close(self) -> None:
        """Close the session.

        Idempotent. Belongs to the event loop's thread: elsewhere it raises TransportError while the loop runs. In a
        process that was forked from the client's it does nothing.
        """
        if self._origin.is_forked:  # whose selector is the parent's, too
            return
        demand_own_loop(self._loop, self._origin.what)
        if self._loop is not None and self._client.descriptor is not None:
            self._loop.remove_reader(self._client.descriptor)
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._client.close()
        self._changes.announce()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # Duty cycle

    def _cycle(self) -> None:
        if self._loop is None or self._failure is not None:
            return
        room = self._waiting_messages_max - len(self._messages)
        try:
            for _ in range(POLLS_MAX):
                if not self._client.poll(min(POLL_LIMIT, room)) or len(self._messages) >= self._waiting_messages_max:
                    break
                room = self._waiting_messages_max - len(self._messages)
        except OrdoError as error:
            self._failure = error
            self._client._fail_requests(error)
            if self._client.descriptor is not None:
                self._loop.remove_reader(self._client.descriptor)
        finally:  # also when a callback of the program raises: nobody else ends what waits
            self._changes.announce()
            if self._failure is None:
                self._waits.end_late(self._loop.time(), self._client.request_trouble)
                self._schedule()

    def _schedule(self) -> None:
        """Have a cycle run soon. A timer that runs no later is left as it is."""
        assert self._loop is not None
        is_waiting = self._senders or self._client.has_unsent_requests or self._client.descriptor is None
        is_busy = is_waiting or self._client.state is not ClientState.CONNECTED
        due_s = self._loop.time() + (BUSY_INTERVAL_S if is_busy else CYCLE_INTERVAL_S)
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._cycle()

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        self._messages.append(ServiceMessage(timestamp, payload))
