"""Sends requests to a matching engine exactly once, through lost answers, redirects and failovers.

The engine applies each sequence number once and in order, and answers repetitions as it did the first time. So all a
client has to do is to keep what was not answered, and send it again, oldest first, when it may have been lost: after a
new leader, after a GAP, and when nothing was answered for a while. What a crashed leader took but did not commit is
thus entered again by its client, and what it did commit is not entered twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from ordo.matching.engine import ANSWERS_KEPT
from ordo.matching.protocol import ANSWER, REQUEST, Kind, Status
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError

RESEND_AFTER_NS = 500_000_000
GIVE_UP_AFTER_NS = 30_000_000_000
PARK_NS = 1_000_000
POLL_LIMIT = 256
_ANSWER_KIND = int(Kind.ANSWER)
_GAP = int(Status.GAP)


class Connection(Protocol):
    """What is needed of a `ClusterClient`."""

    def offer(self, payload: bytes) -> int:
        """Offer an order; return a position > 0, or a negative result code when it was not taken."""

    def poll(self, limit: int) -> int:
        """Call back for up to `limit` messages; their number."""

    def park(self, timeout_s: float) -> None:
        """Wait until something may have come, or the timeout."""


class OrderClient:
    """Keeps up to `window` requests on the way. `on_message` is to be called with every message of the session.

    `on_answer(answer, round_trip_ns)` is called once for each request, with the answer as it came (`decode_answer`);
    round trips are counted from the first attempt.
    `resent_count` counts requests sent again, `repeated_count` answers that came again.
    """

    def __init__(
        self,
        connection: Connection,
        clock_ns: Callable[[], int],
        on_answer: Callable[[bytes, int], None],
        *,
        window: int = 256,
        resend_after_ns: int = RESEND_AFTER_NS,
        give_up_after_ns: int = GIVE_UP_AFTER_NS,
    ) -> None:
        if not 0 < window <= ANSWERS_KEPT:
            raise ConfigurationError(f"window={window}: 1 to {ANSWERS_KEPT} requests, whose answers the engine keeps")
        self.resent_count = 0
        self.repeated_count = 0
        self._connection = connection
        self._clock_ns = clock_ns
        self._on_answer = on_answer
        self._window = window
        self._resend_after_ns = resend_after_ns
        self._give_up_after_ns = give_up_after_ns
        self._pending: dict[int, tuple[bytes, int]] = {}  # by sequence: request, time of the first attempt
        self._to_resend: Iterator[bytes] | None = None
        self._stuck: bytes | None = None  # could not be sent again yet
        self._progress_ns = 0  # when an answer came last
        self._resend_ns = 0  # when sending again began last
        self._gap_seen = False

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    def run(self, requests: Iterable[bytes], on_cycle: Callable[[], None] | None = None) -> None:
        """Send all requests and return when each has its answer; `on_cycle` is called now and then meanwhile.

        Sequence numbers must follow each other. Raises ClusterTimeoutError when nothing is answered for too long.
        """
        source = iter(requests)
        request = next(source, None)
        self._progress_ns = self._resend_ns = self._clock_ns()
        while request is not None or self._pending:
            worked = self._connection.poll(POLL_LIMIT)
            now_ns = self._clock_ns()
            if self._to_resend is None:
                while request is not None and len(self._pending) < self._window and self._send(request, now_ns):
                    request = next(source, None)
                    worked += 1
            else:
                worked += self._send_again()
            self._check_time(now_ns)
            if on_cycle is not None:
                on_cycle()
            if not worked:
                self._connection.park(PARK_NS / 1e9)

    def on_new_leader(self) -> None:
        """Send everything again that was not answered: what the old leader did not commit is lost."""
        self._begin_resend(self._clock_ns())

    def on_message(self, payload: bytes) -> None:
        """Take one message of the session; those that are no answers to this client's requests are ignored."""
        if len(payload) < ANSWER.size or payload[0] != _ANSWER_KIND:
            return
        sequence = ANSWER.unpack_from(payload)[4]
        if payload[1] == _GAP:
            self._gap_seen = True
            return
        entry = self._pending.pop(sequence, None)
        if entry is None:
            self.repeated_count += 1
            return
        self._progress_ns = self._clock_ns()
        self._on_answer(payload, self._progress_ns - entry[1])

    def _send(self, request: bytes, now_ns: int) -> bool:
        if self._connection.offer(request) <= 0:
            return False
        self._pending[REQUEST.unpack_from(request)[4]] = (request, now_ns)
        return True

    def _begin_resend(self, now_ns: int) -> None:
        self._to_resend = iter([request for request, _ in self._pending.values()])
        self._stuck = None
        self._resend_ns = now_ns
        self._gap_seen = False

    def _send_again(self) -> int:
        """Send again as many requests as the connection takes now. Returns their number."""
        sent = 0
        assert self._to_resend is not None
        while True:
            request = self._stuck if self._stuck is not None else next(self._to_resend, None)
            if request is None:
                self._to_resend = None
                return sent
            self._stuck = request
            if REQUEST.unpack_from(request)[4] in self._pending:
                if self._connection.offer(request) <= 0:
                    return sent
                self.resent_count += 1
                sent += 1
            self._stuck = None

    def _check_time(self, now_ns: int) -> None:
        if not self._pending:
            self._progress_ns = now_ns
            return
        if now_ns - self._progress_ns > self._give_up_after_ns:
            raise ClusterTimeoutError(
                f"no answer for {self._give_up_after_ns // 1_000_000_000} s to {len(self._pending)} requests; "
                "is a majority of the cluster's nodes running?"
            )
        quiet_ns = now_ns - max(self._progress_ns, self._resend_ns)
        if self._to_resend is None and (self._oldest_overdue(now_ns) or (self._gap_seen and quiet_ns > PARK_NS)):
            self._begin_resend(now_ns)

    def _oldest_overdue(self, now_ns: int) -> bool:
        """Return whether the oldest request has waited too long since it was last sent."""
        _, sent_ns = next(iter(self._pending.values()))
        return now_ns - max(sent_ns, self._resend_ns) > self._resend_after_ns
