"""Queries: reads of the service that take no log entry (docs/ARCHITECTURE.md, "Queries"). The container's side.

A query waits until the service has executed the log up to its read position; it is answered between two records. One of
a session that is not open here, yet, waits as well: the session is how the container knows where the client listens.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from ordo.cluster.container.streams.loop import NO_QUERY
from ordo.cluster.container.streams.responses import Response, ResponsePublications
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import QueryStatus
from ordo.cluster.wire.sessions.query_call import ask_service
from ordo.cluster.wire.streams import QUERY_CHANNEL, QUERY_STREAM_ID, service_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.container.streams.loop import ContainerLoop, ContainerSession
    from ordo.transport.client.client import TransportClient

POLL_LIMIT = 64
ANSWER_LIMIT = 64
"""Queries a duty cycle: records are executed between them."""
HOLD_NS = 2_000_000_000
"""A client that still wants its answer has asked again by then."""
EXPIRY_INTERVAL_NS = 100_000_000
RETRY_NS = 1_000_000


@dataclass(slots=True)
class WaitingQuery:
    """A query that waits. At `deadline_ns` it is dropped, unless it was asked again."""

    session_id: int
    correlation_id: int
    read_position: int
    status: QueryStatus
    payload: bytes
    deadline_ns: int

    @property
    def key(self) -> tuple[int, int]:
        return self.session_id, self.correlation_id


class ContainerQueries:
    """The queries of one container: at most `queries_max` at a time, including answers that could not be sent yet."""

    def __init__(
        self,
        loop: ContainerLoop,
        client: TransportClient,
        queries_max: int,
        *,
        member_id: int,
        cluster_id: int,
        service_id: int,
        on_error: Callable[[Exception], None],
    ) -> None:
        """Listen to queries. Each service has a separate stream; clients query service 0.

        `on_error` gets what the service raised, and what the driver refused.
        """
        self._loop = loop
        self._member_id = member_id
        self._on_error = on_error
        stream_id = service_stream(QUERY_STREAM_ID, cluster_id, service_id)
        self._subscription = client.add_subscription(QUERY_CHANNEL, stream_id)
        self._responses = ResponsePublications(client, on_error)
        self._queries_max = queries_max
        self._queries: dict[tuple[int, int], WaitingQuery] = {}
        self._by_position: list[tuple[int, int, WaitingQuery]] = []
        self._without_session: list[WaitingQuery] = []
        self._order = count()
        self._expiry_ns = 0
        self._now_ns = 0
        loop.set_queries(self._subscription)

    def poll(self) -> int:
        """Take queries from the consensus module, and return their number."""
        taken = int(self._subscription.poll_messages(self._on_message, POLL_LIMIT))
        self._note_next()
        return taken

    def _on_message(self, message: bytes, _header: object) -> None:
        found = ordo_codecs.decode(message)
        if found is None or found[0] is not ordo_codecs.SERVICE_QUERY:
            return
        values = found[1]
        query = WaitingQuery(
            values.cluster_session_id,
            values.correlation_id,
            values.read_position,
            QueryStatus(values.status),
            values.payload,
            self._now_ns + HOLD_NS,
        )
        known = self._queries.get(query.key)
        if known is not None:
            known.deadline_ns = query.deadline_ns
            return
        if len(self._queries) + self._responses.waiting >= self._queries_max:
            text = f"member {self._member_id} has {self._queries_max} queries already: ask again later"
            query.status, query.payload, query.read_position = QueryStatus.BUSY, text.encode(), 0
        self._queries[query.key] = query
        self._push(query)

    def _push(self, query: WaitingQuery) -> None:
        heapq.heappush(self._by_position, (query.read_position, next(self._order), query))

    def _note_next(self) -> None:
        self._loop.next_query_position = self._by_position[0][0] if self._by_position else NO_QUERY

    def answer(self) -> int:
        """Ask the service what can be asked, ANSWER_LIMIT at most, and return the number of queries looked at."""
        looked_at = 0
        while self._by_position and looked_at < ANSWER_LIMIT:
            if self._by_position[0][0] > self._loop.executed_position:
                break
            looked_at += 1
            query = heapq.heappop(self._by_position)[2]
            self._answer(query)
        self._note_next()
        return looked_at

    def _answer(self, query: WaitingQuery) -> None:
        session = self._loop.sessions.get(query.session_id)
        if session is None:
            self._without_session.append(query)
            self._loop.tick_by(self._now_ns + RETRY_NS)
            return
        del self._queries[query.key]
        if query.status is QueryStatus.OK:
            query.status, query.payload = self._ask(query.payload)
        self._send(session, query)

    def _ask(self, payload: bytes) -> tuple[QueryStatus, bytes]:
        loop = self._loop
        loop.callback, loop.may_call = "on_query", False
        return ask_service(loop.service, payload, self._on_error)

    def _send(self, session: ContainerSession, query: WaitingQuery) -> None:
        encode = partial(
            ordo_codecs.QUERY_RESPONSE.encode,
            cluster_session_id=query.session_id,
            correlation_id=query.correlation_id,
            log_position=self._loop.executed_position,
            member_id=self._member_id,
        )
        length_bytes = len(query.payload)
        overhead_bytes = ordo_codecs.QUERY_RESPONSE.block_length + ordo_codecs.EMPTY_PAYLOAD_BYTES

        def too_long(length_bytes_max: int) -> bytes:
            text = f"answer of {length_bytes} bytes: at most {length_bytes_max - overhead_bytes} go to this client"
            return encode(status=QueryStatus.ERROR, payload=text.encode())

        response = Response(encode(status=query.status, payload=query.payload), too_long)
        self._responses.send(session.response_channel, session.response_stream_id, response, self._now_ns)
        self._loop.note_written()
        if self.has_unsent:
            self._loop.ask_for_tick()

    # -- the tick --------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> int:
        """Do the work that belongs to no record, and return the number of answers sent."""
        self._now_ns = now_ns
        sent = self._responses.work(now_ns)
        if sent:
            self._loop.note_written()
        if self._without_session:
            self._look_at_sessions_again()
        if now_ns >= self._expiry_ns:
            self._expiry_ns = now_ns + EXPIRY_INTERVAL_NS
            self._expire(now_ns)
        return sent

    def _look_at_sessions_again(self) -> None:
        for query in self._without_session:
            self._push(query)
        self._without_session.clear()
        self._note_next()

    def _expire(self, now_ns: int) -> None:
        expired = [key for key, query in self._queries.items() if query.deadline_ns < now_ns]
        if not expired:
            return
        for key in expired:
            del self._queries[key]
        self._by_position = [entry for entry in self._by_position if entry[2].key in self._queries]
        self._without_session = [query for query in self._without_session if query.key in self._queries]
        heapq.heapify(self._by_position)
        self._note_next()

    @property
    def awaits_session(self) -> bool:
        """Whether queries wait for their session's open record."""
        return bool(self._without_session)

    @property
    def has_unsent(self) -> bool:
        """Whether answers wait for a publication, or for room in one."""
        return self._responses.waiting > 0

    def close(self) -> None:
        self._responses.close()
        self._subscription.close()
