"""Where a container answers queries: one publication for each (channel, stream), made when it is first needed.

Separate from `ordo.cluster.container.streams.egress`, which only a leader uses: every member answers queries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ordo.runtime.errors import OrdoError
from ordo.transport.client.pending_registrations import PendingRegistrations

if TYPE_CHECKING:
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import Publication

CONNECT_TIMEOUT_NS = 1_000_000_000
"""A publication without anybody at the other end is given up after this; the next answer makes a new one."""
IDLE_TIMEOUT_NS = 10_000_000_000
WAITING_MAX = 256
"""Answers that wait for one client; beyond them the oldest is dropped, and asked for again."""


class Response(NamedTuple):
    """An encoded answer, and a function that returns what to send instead if it is longer than allowed."""

    message: bytes
    too_long: Callable[[int], bytes]


@dataclass(slots=True)
class _Egress:
    connected_ns: int
    used_ns: int
    publication: Publication | None = None
    waiting: deque[Response] = field(default_factory=deque)


class ResponsePublications:
    """The publications of answers. What cannot be sent at once is sent by `work`, or with its publication."""

    def __init__(self, client: TransportClient, on_error: Callable[[Exception], None]) -> None:
        """Take `on_error`, which is called for a channel that the driver refused."""
        self._client = client
        self._on_error = on_error
        self._egresses: dict[tuple[str, int], _Egress] = {}
        self._asked: PendingRegistrations[tuple[str, int]] = PendingRegistrations(client)
        self.waiting = 0
        """Answers that could not be sent yet."""

    def send(self, channel: str, stream_id: int, response: Response, now_ns: int) -> None:
        key = channel, stream_id
        egress = self._egresses.get(key)
        if egress is None:
            try:
                self._asked.add(self._client.async_add_publication(channel, stream_id), key)
            except OrdoError as error:
                self._on_error(error)
                return
            egress = self._egresses[key] = _Egress(now_ns, now_ns)
        egress.used_ns = now_ns
        egress.waiting.append(response)
        self.waiting += 1
        self._flush(egress)
        if len(egress.waiting) > WAITING_MAX:
            egress.waiting.popleft()
            self.waiting -= 1

    def work(self, now_ns: int) -> int:
        """Take the driver's answers, send what waits, and close idle publications.

        Return the number of answers sent.
        """
        before = self.waiting
        for key, publication, error in self._asked.take():
            if error is not None:
                self._on_error(error)
                self._forget(key)
            else:
                self._egresses[key].publication = publication
                self._egresses[key].connected_ns = now_ns
        for key, egress in list(self._egresses.items()):
            if egress.publication is not None and egress.publication.is_connected:
                egress.connected_ns = now_ns
            self._flush(egress)
            is_lost = egress.publication is not None and now_ns - egress.connected_ns > CONNECT_TIMEOUT_NS
            if is_lost or (not egress.waiting and now_ns - egress.used_ns > IDLE_TIMEOUT_NS):
                self._forget(key)
        return before - self.waiting

    def _flush(self, egress: _Egress) -> None:
        publication = egress.publication
        while egress.waiting and publication is not None:
            response = egress.waiting[0]
            length_bytes_max = int(publication.max_message_length)
            is_too_long = len(response.message) > length_bytes_max
            if publication.offer(response.too_long(length_bytes_max) if is_too_long else response.message) <= 0:
                return
            egress.waiting.popleft()
            self.waiting -= 1

    def _forget(self, key: tuple[str, int]) -> None:
        egress = self._egresses.pop(key)
        self.waiting -= len(egress.waiting)
        if egress.publication is not None:
            egress.publication.close()

    def close(self) -> None:
        for key in list(self._egresses):
            self._forget(key)
