"""A client that keeps many entries on the way, sends again what a failover may have lost, and keeps the score."""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.runtime.errors import ClusterError, ClusterTimeoutError, SessionClosedError
from tests.cluster.integration.protocol import ANSWER, EMPTY_HASH, REQUEST, Kind, Status, chain
from tests.patience import patient

WINDOW = 128
RESEND_AFTER_S = 1.0
PARK_S = 0.001
STEP_POLL_LIMIT = 256
_report_ids = itertools.count(1)


class Writer:
    """Writes entries 1, 2, 3, ... of one writer id and demands their answers: in order, each taken once.

    `longest_gap_s` is the longest time without a new answer while entries were on the way. A session that ended is
    opened anew unless `reopens` is False; `sessions` counts them.
    """

    def __init__(
        self,
        endpoints: Mapping[int, str],
        *,
        writer_id: int = 1,
        window: int = WINDOW,
        padding: int = 20,
        reopens: bool = False,
        **settings: Any,
    ) -> None:
        self.writer_id = writer_id
        self.acked = 0
        self.repeated = 0
        self.resent = 0
        self.sessions = 0
        self.new_leaders: list[int] = []
        self.longest_gap_s = 0.0
        self.hash = EMPTY_HASH
        self._endpoints = dict(endpoints)
        self._window = window
        self._padding = padding
        self._reopens = reopens
        self._settings = settings
        self._pending: OrderedDict[int, bytes] = OrderedDict()
        self._counts: dict[int, int] = {}
        self._to_send: deque[int] = deque()
        self._last_ack_s = time.monotonic()
        self._resent_s = 0.0
        self._gap_seen = False
        self._reported = 0
        self.client = self._open(wait=True)

    def _open(self, wait: bool) -> ClusterClient:
        self.sessions += 1
        self._to_send = deque(self._pending)
        return ClusterClient(
            self._endpoints,
            on_message=self._on_message,
            on_new_leader=self._on_new_leader,
            wait=wait,
            settings=ClientSettings(**self._settings),
        )

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.client.close()

    @property
    def sent(self) -> int:
        """The last sequence number that was given to the cluster at least once."""
        return self.acked + len(self._pending)

    @property
    def counts(self) -> dict[int, int]:
        """By sequence number of each entry that was answered: how many entries the ledger held after it."""
        return self._counts

    def write(self, count: int, timeout_s: float = 60.0) -> None:
        """Writes `count` more entries and returns when each has its answer."""
        self.run(lambda: True, self.sent + count, timeout_s)

    def run(self, until: Callable[[], bool], last: int | None = None, timeout_s: float = 60.0) -> None:
        """Keeps writing, up to sequence number `last`, until `until()` is true and that number is answered.

        Raises ClusterTimeoutError when that takes longer than `timeout_s`.
        """
        deadline_s = time.monotonic() + patient(timeout_s)
        self._last_ack_s = time.monotonic()
        while not (until() and (last is None or self.acked >= last)):
            if time.monotonic() > deadline_s:
                raise ClusterTimeoutError(f"writer {self.writer_id}: {self.describe()} after {timeout_s} s")
            self._step(last)

    def drain(self, timeout_s: float = 60.0) -> None:
        """Returns when everything that was sent is answered."""
        self.run(lambda: True, self.sent, timeout_s)

    def report(self, timeout_s: float = 60.0) -> int:
        """Has every replica log its state, after everything that was sent; the id of the report.

        Each attempt has an id of its own, so that all members report the same position under one id.
        """
        self.drain(timeout_s)
        deadline_s = time.monotonic() + patient(timeout_s)
        while time.monotonic() < deadline_s:
            report_id = next(_report_ids)
            attempt_s = time.monotonic() + RESEND_AFTER_S
            request = REQUEST.pack(Kind.REPORT, self.writer_id, report_id)
            is_sent = False
            while self._reported != report_id and time.monotonic() < attempt_s:
                is_sent = is_sent or (not self.client.is_closed and self.client.offer(request) > 0)
                self._step(self.sent)
            if self._reported == report_id:
                return report_id
        raise ClusterTimeoutError(f"writer {self.writer_id}: no report within {timeout_s} s: {self.describe()}")

    def describe(self) -> str:
        return (
            f"acked={self.acked} on the way={len(self._pending)} resent={self.resent} repeated={self.repeated}"
            f" sessions={self.sessions} state={self.client.state.name} reason={self.client.close_reason!r}"
        )

    def _step(self, last: int | None) -> None:
        try:
            worked = self.client.poll(STEP_POLL_LIMIT)
            worked += self._send(last)
        except (SessionClosedError, ClusterTimeoutError):
            if not self._reopens:
                raise
            self.client.close()
            self.client = self._open(wait=False)
            return
        now_s = time.monotonic()
        if not self._pending:
            self._last_ack_s = now_s
        quiet_s = now_s - max(self._last_ack_s, self._resent_s)
        if self._pending and not self._to_send and quiet_s > (0.001 if self._gap_seen else RESEND_AFTER_S):
            self._begin_resend()
        if not worked:
            self.client.park(PARK_S)

    def _send(self, last: int | None) -> int:
        count = 0
        while self._to_send:
            request = self._pending.get(self._to_send[0])
            if request is not None:
                if self.client.offer(request) <= 0:
                    return count
                self.resent += 1
            self._to_send.popleft()
            count += 1
        while len(self._pending) < self._window and (last is None or self.sent < last):
            sequence = self.sent + 1
            request = self.request(sequence)
            if self.client.offer(request) <= 0:
                break
            self._pending[sequence] = request
            count += 1
        return count

    def request(self, sequence: int) -> bytes:
        """The entry with a sequence number."""
        return REQUEST.pack(Kind.APPEND, self.writer_id, sequence) + bytes(sequence % (self._padding + 1))

    def _begin_resend(self) -> None:
        self._to_send = deque(self._pending)
        self._resent_s = time.monotonic()
        self._gap_seen = False

    def _on_new_leader(self, leadership_term_id: int, member_id: int, endpoints: dict[int, str]) -> None:
        self.new_leaders.append(member_id)
        self._begin_resend()

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        status, writer_id, sequence, count = ANSWER.unpack(payload)
        if writer_id != self.writer_id:
            raise ClusterError(f"an answer for writer {writer_id} came to writer {self.writer_id}")
        if status == Status.REPORTED:
            self._reported = sequence
        elif status == Status.GAP:
            if sequence <= self.acked:
                raise ClusterError(f"entry {sequence} was answered, and is missing now: {self.describe()}")
            self._gap_seen = True
        elif sequence in self._counts:
            self.repeated += 1
            if self._counts[sequence] != count:
                raise ClusterError(f"entry {sequence} was number {self._counts[sequence]}, and is number {count} now")
        else:
            self._take_new(sequence, count)

    def _take_new(self, sequence: int, count: int) -> None:
        if sequence != self.acked + 1:
            raise ClusterError(f"entry {sequence} was answered before entry {self.acked + 1}: {self.describe()}")
        self._counts[sequence] = count
        self.hash = chain(self.hash, self._pending.pop(sequence))
        self.acked = sequence
        now_s = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_ack_s)
        self._last_ack_s = now_s
