"""Requests of asyncio clients and the waits for them, one by one and many in order (docs/CLIENT.md)."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

from ordo.cluster.client.requests.request_window import Answer, PendingRequest
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError, OrdoError, RequestOutcome

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from ordo.service_api.messages.request import Request
    from ordo.service_api.service import Payload

    R = TypeVar("R", default=Answer, covariant=True)
else:
    from typing import TypeVar

    R = TypeVar("R", covariant=True)

Wait = Callable[[PendingRequest[object], float | None], Awaitable[None]]
Payloads: TypeAlias = "Iterable[Payload | Request[object]] | AsyncIterable[Payload | Request[object]]"


class AsyncPendingRequest(Generic[R]):
    """A request of an AsyncClusterClient that is under way.

    `await pending.result()` waits for it, any number of times. Equal to every other one of the same request.
    """

    def __init__(self, pending: PendingRequest[R], wait: Wait) -> None:
        self._pending = pending
        self._wait = wait

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncPendingRequest) and self._pending is other._pending

    def __hash__(self) -> int:
        return hash(self._pending)

    @property
    def number(self) -> int:
        """The number of the request, as PendingRequest.number."""
        return self._pending.number

    @property
    def payload(self) -> bytes:
        """The bytes that were sent."""
        return self._pending.payload

    @property
    def id(self) -> bytes | None:
        """The id that the caller chose; None without one."""
        return self._pending.id

    @property
    def is_done(self) -> bool:
        """Whether there is an answer or an error."""
        return self._pending.is_done

    @property
    def answer(self) -> Answer | None:
        """The answer, once there is one."""
        return self._pending.answer

    @property
    def value(self) -> R | None:
        """What `result` returns, once there is an answer, as PendingRequest.value."""
        return self._pending.value

    @property
    def error(self) -> OrdoError | None:
        """The reason why there is no answer, once that is known."""
        return self._pending.error

    async def result(self, timeout_s: float | None = None) -> R:
        """Wait for the answer and return it, or raise the refusal, like PendingRequest.result."""
        if not self._pending.is_done:
            await self._wait(self._pending, timeout_s)
        return self._pending.result()


class Asked(NamedTuple):
    """A request and the future of its answer."""

    future: asyncio.Future[Any]
    pending: PendingRequest[object]
    wait: Wait

    @property
    def request(self) -> AsyncPendingRequest[object]:
        """The request as the application has it."""
        return AsyncPendingRequest(self.pending, self.wait)


ANSWERED_KEPT = 1024  # requests kept at the least before those that are answered are looked for behind a slow one


class AnswerWaits:
    """Waits for answers, with a time at which each ends: one look a cycle, instead of a timer for each request."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, int, Asked]] = deque()  # by time, and then in order
        self._numbers = count()
        self._kept_max = ANSWERED_KEPT

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, asked: Asked, until_s: float) -> None:
        """Take a request; `until_s` is a time of its loop's clock."""
        wait = until_s, next(self._numbers), asked
        if not self._waits or until_s >= self._waits[-1][0]:
            self._waits.append(wait)
        else:
            insort(self._waits, wait)

    def end_late(self, now_s: float, trouble: str) -> None:
        """End the waits whose time has come with the error of `late`; what is answered is waited for no more."""
        waits = self._waits
        while waits and (waits[0][0] <= now_s or waits[0][2].future.done()):
            asked = waits.popleft()[2]
            if not asked.future.done():
                asked.future.set_exception(late(asked.request, trouble))
        if len(waits) > self._kept_max:
            self._waits = deque(wait for wait in waits if not wait[2].future.done())
            self._kept_max = max(ANSWERED_KEPT, 2 * len(self._waits))  # so a request is looked at once or twice


class Changes:
    """Tells everybody who waits at a time that something has changed."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def announce(self) -> None:
        """End every `wait` that has begun."""
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)

    async def wait(self) -> None:
        """Return at the next `announce`."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        await change


def refused(payload: Payload | Request[object], error: OrdoError, loop: asyncio.AbstractEventLoop, wait: Wait) -> Asked:
    """Return a request that could not be taken: it is done, with its error."""
    failure = error if error.outcome is not None else error.for_request(RequestOutcome.NOT_EXECUTED)
    future: asyncio.Future[Any] = loop.create_future()
    future.set_exception(failure)
    future.exception()  # nobody may ever ask for it
    pending = PendingRequest(payload if isinstance(payload, bytes) else b"", None, lambda *_: None)
    pending.finish(None, failure)
    return Asked(future, pending, wait)


class AnswersInOrder:
    """Requests that are answered in the order of their payloads, with as many under way at a time as allowed."""

    def __init__(
        self,
        ask: Callable[[Payload | Request[object], bytes | None], Awaitable[Asked]],
        wait: Callable[[Asked], Awaitable[None]],
        outstanding_max: int,
    ) -> None:
        """Take `ask`, which waits for room, and `wait`, which waits for an answer; both raise ClusterTimeoutError."""
        self._ask = ask
        self._wait = wait
        self._outstanding_max = outstanding_max
        self._waiting: deque[Asked] = deque()

    async def run(self, payloads: Payloads, ids: Iterable[bytes] | None) -> AsyncIterator[object]:
        """Yield each answer, or the error in its place."""
        waiting = self._waiting
        async for payload, request_id in with_ids(payloads, ids):
            while waiting and (len(waiting) >= self._outstanding_max or waiting[0].future.done()):
                yield await self._take()
            try:
                waiting.append(await self._ask(payload, request_id))
            except OrdoError as error:
                while waiting:
                    yield await self._take()
                yield error
        while waiting:
            yield await self._take()

    async def _take(self) -> object:
        asked = self._waiting.popleft()
        try:
            await self._wait(asked)
            return asked.future.result()
        except OrdoError as error:
            return error

    def describe(self, error: OrdoError) -> OrdoError:
        """Return the error with the later requests that are under way."""
        error.requests = [one.request for one in self._waiting]
        return error


def late(pending: AsyncPendingRequest[object], trouble: str) -> ClusterTimeoutError:
    """Return the error of a wait that was too short; the request continues."""
    error = ClusterTimeoutError(
        "request not answered in time, unknown whether it was executed: it is still under way; wait for it with "
        f"`await error.pending.result()`: {trouble}",
        outcome=RequestOutcome.UNKNOWN,
    )
    error.pending = pending
    return error


class AnswersTogether:
    """Requests whose answers are wanted in one list; `found` has the results so far."""

    def __init__(self) -> None:
        self._taken: list[Asked] = []
        self._late: OrdoError | None = None

    def add(self, asked: Asked) -> None:
        """Take the next request, in the order of the payloads."""
        self._taken.append(asked)

    async def wait(self, wait: Callable[[Asked], Awaitable[None]]) -> None:
        """Wait for each, until one is late: no answer came for too long, and none is waited for any longer."""
        for asked in self._taken:
            try:
                await wait(asked)
            except ClusterTimeoutError as error:
                self._late = error
                return

    def found(self) -> list[object]:
        """Return each answer, or the error in its place."""
        return [self._outcome_of(one) for one in self._taken]

    def _outcome_of(self, asked: Asked) -> object:
        pending = asked.pending
        if pending.value is not None:
            return pending.value
        if pending.error is not None:
            return pending.error
        text = "unknown whether it was executed: it is still under way" if self._late is None else self._late.message
        error = ClusterTimeoutError(text, outcome=RequestOutcome.UNKNOWN)
        error.pending = asked.request
        return error

    def describe(self, error: OrdoError) -> OrdoError:
        """Return the error with the answers that have arrived, and with the requests."""
        error.requests = [one.request for one in self._taken]
        error.answers = [one.pending.value for one in self._taken]
        return error


async def with_ids(
    payloads: Payloads, ids: Iterable[bytes] | None
) -> AsyncIterator[tuple[Payload | Request[object], bytes | None]]:
    """Yield each payload with its id, if ids are given. Raises ConfigurationError when there are fewer ids."""
    chosen = None if ids is None else iter(ids)
    async for payload in as_async(payloads):
        request_id = None if chosen is None else next(chosen, None)
        if chosen is not None and request_id is None:
            text = "ids: fewer than payloads: this one and those after it were not sent"
            raise ConfigurationError(text, outcome=RequestOutcome.NOT_EXECUTED)
        yield payload, request_id


async def as_async(payloads: Payloads) -> AsyncIterator[Payload | Request[object]]:
    """Yield the payloads of any iterable."""
    if isinstance(payloads, AsyncIterable):
        async for payload in payloads:
            yield payload
    else:
        for payload in payloads:
            yield payload
