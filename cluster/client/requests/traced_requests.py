"""Requests of which some are traced: each of these gets a span from when the client takes it until it is answered."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, Full, Queue
from threading import Thread
from typing import Any

from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.cluster.client.requests.requests import ClientRequests
from ordo.cluster.client.requests.tracing import Tracing
from ordo.cluster.wire.counters.traces import is_traced, threshold_of
from ordo.runtime.errors import OrdoError
from ordo.runtime.reporting.spans import REQUEST, Span, SpanExporter, make_trace_id

QUEUED_MAX = 4096
"""So many spans wait for the collector; further ones are left out."""
BATCH_MAX = 512


class SpanSender:
    """Sends spans from a thread of its own, so that no call waits for the collector."""

    def __init__(self, tracing: Tracing) -> None:
        self._exporter = SpanExporter(tracing.endpoint, tracing.service_name, {})
        self._queue: Queue[Span | None] = Queue(QUEUED_MAX)
        self._thread = Thread(target=self._run, name="ordo-spans", daemon=True)
        self._thread.start()

    def send(self, span: Span) -> None:
        try:
            self._queue.put_nowait(span)
        except Full:
            return

    def _run(self) -> None:
        has_ended = False
        while not has_ended:
            batch = [self._queue.get()]
            try:
                while len(batch) < BATCH_MAX:
                    batch.append(self._queue.get_nowait())
            except Empty:
                pass
            has_ended = None in batch
            if spans := [span for span in batch if span is not None]:
                self._exporter.export(spans)

    def close(self) -> None:
        """Send the remaining spans, for at most ten seconds if the collector does not take them. Idempotent."""
        if not self._thread.is_alive():
            return
        self._queue.put(None)
        self._thread.join()
        self._exporter.close()


class TracedRequests(ClientRequests):
    """Chooses the traced requests by the identity's position and the request's number, as the members do."""

    def __init__(self, *arguments: Any, tracing: Tracing, epoch_ns: Callable[[], int], **options: Any) -> None:
        self._threshold = threshold_of(tracing.rate)
        self._epoch_ns = epoch_ns
        self._sender = SpanSender(tracing)
        self._started: dict[int, tuple[int, int]] = {}  # by number: where the identity is open, and when
        super().__init__(*arguments, **options)

    def _take_number(self, pending: PendingRequest[object]) -> int:
        super()._take_number(pending)
        if is_traced(self._open_position, pending.number, self._threshold):
            self._started[pending.number] = self._open_position, self._epoch_ns()
        return 0

    def on_answer(
        self, open_position: int, number: int, log_position: int, status: int, payload: bytes, sequence: int = 0
    ) -> None:
        super().on_answer(open_position, number, log_position, status, payload, sequence)
        if number not in self._started or number in self._pending or open_position != self._open_position:
            return
        opened_at, started_ns = self._started.pop(number)
        if opened_at != open_position:
            return  # of an identity that has expired: the members have decided by another position
        attributes: dict[str, int | str] = {
            "ordo.request": number,
            "ordo.log_position": log_position,
            "ordo.status": status,
        }
        trace_id = make_trace_id(self.identity, open_position, number)
        self._sender.send(Span(trace_id, REQUEST, started_ns, self._epoch_ns(), attributes))

    def close(self, error: OrdoError) -> None:
        super().close(error)
        self._sender.close()
