"""The calls of a cluster client that make many requests at a time (docs/CLIENT.md, Many requests)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, overload

from ordo.cluster.client.requests.request_window import Answer, PendingRequest
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError, OrdoError, RequestOutcome

if TYPE_CHECKING:
    from ordo.cluster.client.requests.requests import ClientRequests
    from ordo.runtime.native.clock import Clock
    from ordo.service_api.messages.request import Request
    from ordo.service_api.service import Payload

A = TypeVar("A")
SUBMITTED_MAX = 512
"""So many requests are handed to the ingress together, before what was answered meanwhile is looked at."""
TAKING_NS = 1_000_000
PARK_NS = 100_000


class PollingClient(Protocol):
    """The client of a run: it sends, receives, and waits."""

    def poll(self, limit: int = ...) -> int: ...
    def _park(self, timeout_ns: int) -> None: ...
    def _drive(self) -> int: ...


class RequestRun:
    """Payloads on their way, in their order. It waits for as long as answers come, to whichever requests."""

    def __init__(
        self,
        requests: ClientRequests,
        client: PollingClient,
        clock: Clock,
        payloads: Iterable[Payload | Request[object]],
        ids: Iterable[bytes] | None,
        timeout_ns: int,
    ) -> None:
        """`timeout_ns`: how long there may be no answer."""
        self._requests = requests
        self._client = client
        self._clock = clock
        self._payloads = iter(payloads)
        self._ids = None if ids is None else iter(ids)
        self._timeout_ns = timeout_ns
        self._due_ns = 0
        self._left = -1
        self.late: OrdoError | None = None
        """Why `wait_for_all` has ended before all were done."""

    def submit_some(self) -> list[PendingRequest[object]]:
        """Send as many requests together as there is room for; return none when there are no more.

        Raises ClusterTimeoutError when no answer makes room in time.
        """
        requests = self._requests
        self._begin()
        while not requests.has_room:
            if self._is_late():
                raise ClusterTimeoutError(
                    f"not executed: no room for a request: {requests.trouble}", outcome=RequestOutcome.NOT_EXECUTED
                )
        payloads = self._take(min(requests.outstanding_max - len(requests), SUBMITTED_MAX))
        ids = None if self._ids is None else list(islice(self._ids, len(payloads)))
        if ids is not None and len(ids) < len(payloads):
            raise ConfigurationError(
                f"ids: fewer than payloads: {len(payloads) - len(ids)} of the last were not sent",
                outcome=RequestOutcome.NOT_EXECUTED,
            )
        return requests.submit_many(payloads, ids)

    def _take(self, count_max: int) -> list[Payload | Request[object]]:
        """Return the next payloads; of a slow iterable, those of a millisecond, at least one."""
        clock = self._clock
        found: list[Payload | Request[object]] = []
        until_ns = clock.now() + TAKING_NS
        for payload in islice(self._payloads, count_max):
            found.append(payload)
            if clock.now() > until_ns:
                break
        return found

    def wait(self, pending: PendingRequest[object]) -> OrdoError | None:
        """Wait until a request is done: its error, or None. ClusterTimeoutError: no answer came for too long."""
        self._begin()
        while not pending.is_done:
            if self._is_late():
                return self._requests.timeout(pending)
        return pending.error

    def wait_for_all(self, pending: Sequence[PendingRequest[object]]) -> None:
        """Wait for each, until one is late."""
        for one in pending:
            if not one.is_done:
                error = self.wait(one)
                if not one.is_done:
                    self.late = error
                    return

    def _begin(self) -> None:
        """Start the time that may pass without an answer."""
        self._client._drive()
        self._left = len(self._requests)
        self._due_ns = self._clock.now() + self._timeout_ns

    def _is_late(self) -> bool:
        """Poll once; True when no answer has come for as long as may be."""
        client = self._client
        try:
            count = client.poll()
        except OrdoError as error:
            error.outcome = RequestOutcome.UNKNOWN  # of what is under way
            raise
        if (left := len(self._requests)) != self._left:
            self._left = left
            self._due_ns = self._clock.now() + self._timeout_ns
            return False
        if count == 0:
            if self._clock.now() > self._due_ns:
                return True
            client._park(PARK_NS)
        return False


class RequestCalls:
    """The calls for many requests."""

    def _run_of(
        self, payloads: Iterable[Payload | Request[object]], ids: Iterable[bytes] | None, timeout_s: float | None
    ) -> RequestRun:
        """Begin to send payloads. Raises ClusterError in a callback, and where no request can be made."""
        raise NotImplementedError

    @overload
    def request_many(
        self, payloads: Iterable[Payload], *, ids: Iterable[bytes] | None = ..., timeout_s: float | None = ...
    ) -> list[Answer]: ...
    @overload
    def request_many(
        self,
        payloads: Iterable[Payload],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
        return_exceptions: Literal[True],
    ) -> list[Answer | OrdoError]: ...
    @overload
    def request_many(
        self, payloads: Iterable[Request[A]], *, ids: Iterable[bytes] | None = ..., timeout_s: float | None = ...
    ) -> list[A]: ...
    @overload
    def request_many(
        self,
        payloads: Iterable[Request[A]],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
        return_exceptions: Literal[True],
    ) -> list[A | OrdoError]: ...

    def request_many(
        self,
        payloads: Iterable[Payload | Request[object]],
        *,
        ids: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
        return_exceptions: bool = False,
    ) -> object:
        """Make a request for each payload, in order, with as many under way at a time as allowed; return their answers.

        Waits for as long as answers come: ClusterTimeoutError says that none came for `timeout_s` (default:
        message_timeout_s). Raises the first error when all are done. The error has `answers`, the answer of each
        payload or None, and `requests`, each PendingRequest that was taken, with its own error or still under way. With
        `return_exceptions` errors are returned in the places of their answers, and none is raised for a request.
        `ids`: one for each payload, as `id` of `request`.
        """
        run = self._run_of(payloads, ids, timeout_s)
        pending: list[PendingRequest[object]] = []
        stopped: OrdoError | None = None
        try:
            while taken := run.submit_some():
                pending += taken
            run.wait_for_all(pending)
        except OrdoError as error:
            stopped = error
        found = [_outcome_of(one, run.late) for one in pending]
        if stopped is None and return_exceptions:
            return found
        failure = stopped or next((one for one in found if isinstance(one, OrdoError)), None)
        if failure is None:
            return found
        raise _with_answers(failure, pending)

    @overload
    def request_stream(
        self, payloads: Iterable[Payload], *, ids: Iterable[bytes] | None = ..., timeout_s: float | None = ...
    ) -> Iterator[Answer]: ...
    @overload
    def request_stream(
        self,
        payloads: Iterable[Payload],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
        return_exceptions: Literal[True],
    ) -> Iterator[Answer | OrdoError]: ...
    @overload
    def request_stream(
        self, payloads: Iterable[Request[A]], *, ids: Iterable[bytes] | None = ..., timeout_s: float | None = ...
    ) -> Iterator[A]: ...
    @overload
    def request_stream(
        self,
        payloads: Iterable[Request[A]],
        *,
        ids: Iterable[bytes] | None = ...,
        timeout_s: float | None = ...,
        return_exceptions: Literal[True],
    ) -> Iterator[A | OrdoError]: ...

    def request_stream(
        self,
        payloads: Iterable[Payload | Request[object]],
        *,
        ids: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
        return_exceptions: bool = False,
    ) -> Iterator[object]:
        """Make a request for each payload, and yield each answer in the order of the payloads as soon as it is there.

        Payloads are taken from their iterable as there is room. An error ends the iteration, and has `requests`, those
        under way behind it; with `return_exceptions` it stands in its answer's place, and the iteration goes on.
        """
        run = self._run_of(payloads, ids, timeout_s)
        waiting: deque[PendingRequest[object]] = deque()
        has_more = True
        while has_more or waiting:
            if has_more:
                has_more = _top_up(run, waiting)
            while waiting and (waiting[0].is_done or not has_more):
                one = waiting.popleft()
                error = run.wait(one)
                if error is None:
                    yield one.value
                elif return_exceptions:
                    yield error
                else:
                    raise _with_answers(error, [one, *waiting])


def _top_up(run: RequestRun, waiting: deque[PendingRequest[object]]) -> bool:
    """Take further payloads; False when there are no more."""
    try:
        taken = run.submit_some()
    except OrdoError as error:
        raise _with_answers(error, list(waiting)) from None
    waiting.extend(taken)
    return bool(taken)


def _outcome_of(pending: PendingRequest[object], late: OrdoError | None) -> object:
    if pending.value is not None:
        return pending.value
    if pending.error is not None:
        return pending.error
    text = "unknown whether it was executed: it is still under way" if late is None else late.message
    error = ClusterTimeoutError(text, outcome=RequestOutcome.UNKNOWN)
    error.pending = pending
    return error


def _with_answers(error: OrdoError, pending: Sequence[PendingRequest[object]]) -> OrdoError:
    error.requests = pending
    error.answers = [one.value for one in pending]
    return error
