"""Queries: reads of the service that take no log entry (docs/ARCHITECTURE.md, "Queries"). The consensus module's side.

    client --Query--> any member: stale ones go to its service at once, linearizable ones when their position is known
    (consensus.read_index) --ServiceQuery--> the member's service (cluster.container.streams.queries)
    --QueryResponse--> client

Those of an application go to an instance of its group instead (ordo.cluster.module.sessions.group_queries).

Nothing of this is kept: a client without an answer asks again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.module.sessions.group_queries import GroupQueries, GroupQuery
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import Consistency, QueryStatus
from ordo.cluster.wire.streams import QUERY_CHANNEL, QUERY_STREAM_ID, local_stream
from ordo.cluster.wire.succession import DISMISSED
from ordo.consensus.read_index import ReadIndex
from ordo.consensus.state.messages import NULL_MEMBER, Message, ReadIndexRequest, ReadMessage
from ordo.runtime.agents.wake import Waker
from ordo.transport.streams.image import Image

if TYPE_CHECKING:
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.agents.wake import ParkFlag
    from ordo.transport.client.client import TransportClient

"""From a member to its service. Not the control stream: Aeron's tools, which read that one, take their schema only."""
FIRST_ROUND_ID_BITS = 48


class Query(NamedTuple):
    """A client's linearizable query. The ids of session and question make it one query, however often it is sent."""

    session_id: int
    correlation_id: int
    min_position: int
    payload: bytes

    @property
    def key(self) -> tuple[int, int]:
        return self.session_id, self.correlation_id


class QueryLink:
    """The stream to the service. What it cannot take at once waits in order."""

    def __init__(self, client: TransportClient, park_flag: ParkFlag, cluster_id: int = 0) -> None:
        self._publication = client.add_exclusive_publication(QUERY_CHANNEL, local_stream(QUERY_STREAM_ID, cluster_id))
        self._waker = Waker(park_flag)
        self._waiting: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def payload_bytes_max(self) -> int:
        """The longest payload of a query, in bytes."""
        overhead = ordo_codecs.SERVICE_QUERY.block_length + ordo_codecs.EMPTY_PAYLOAD_BYTES
        return int(self._publication.max_message_length) - overhead

    def send(self, message: bytes) -> None:
        self._waiting.append(message)

    def flush(self) -> None:
        """Hand over as much as there is room for, and wake the service."""
        if not self._waiting:
            return
        while self._waiting and self._publication.offer(self._waiting[0]) > 0:
            self._waiting.popleft()
        self._waker.wake_parked()


class ReadRounds(NamedTuple):
    """How the rounds of a read index are numbered, and how long after one it is repeated."""

    first_id: int
    interval_ns: int


class Queries:
    """A member's queries from their arrival until its service has them; at most `queries_max` at a time."""

    def __init__(
        self,
        core: ConsensusCore,
        link: QueryLink,
        groups: GroupQueries,
        *,
        send: Callable[[int, Message], None],
        broadcast: Callable[[Message], None],
        find_refusal: Callable[[int, Any], str | None],
        rounds: ReadRounds,
        queries_max: int,
    ) -> None:
        """`send` and `broadcast` reach other members.

        `find_refusal(session_id, image)` says why a session may not ask; None: it may; empty: it is told nothing.
        """
        self._find_refusal = find_refusal
        self._link = link
        self._groups = groups
        self._send = send
        self._broadcast = broadcast
        self._queries_max = queries_max
        self._reads: ReadIndex[Query | GroupQuery] = ReadIndex(core, rounds.interval_ns, rounds.first_id)
        self._unconfirmed: set[tuple[int, int]] = set()
        self._has_ended = False

    def on_query(self, message: bytes, image: Image, now_ns: int) -> None:
        """Take a client's query, or an application instance's answer. Raises DecodeError for a truncated message."""
        found = ordo_codecs.decode(message)
        if found is None:
            return
        table, values = found
        if table is ordo_codecs.GROUP_SERVES:
            self._groups.on_serves(values, image, now_ns)
        elif table is ordo_codecs.GROUP_ANSWER:
            self._groups.on_answer(values, image)
        else:
            ids = values.cluster_session_id, values.correlation_id
            question = values.min_position, values.payload
            is_of_group = table is ordo_codecs.GROUP_QUERY
            query = GroupQuery(*ids, *question, values.group) if is_of_group else Query(*ids, *question)
            self._on_query(query, values.consistency, image, now_ns)
            self._pump(now_ns)

    def _on_query(self, query: Query | GroupQuery, consistency: int, image: Image, now_ns: int) -> None:
        if (refusal := self._find_refusal(query.session_id, image)) is not None:
            if refusal:
                self._refuse(query, QueryStatus.ERROR, refusal)
        elif consistency not in set(Consistency):
            self._refuse(query, QueryStatus.ERROR, f"consistency={consistency}: allowed {allowed_consistency()}")
        elif len(query.payload) > self._link.payload_bytes_max:
            text = f"query of {len(query.payload)} bytes: at most {self._link.payload_bytes_max} are allowed"
            self._refuse(query, QueryStatus.ERROR, text)
        elif query.key not in self._unconfirmed:
            self._take(query, consistency == Consistency.STALE, now_ns)

    def end(self) -> None:
        """Refuse linearizable queries from now on: a standby goes on with the log, and knows what comes next."""
        self._has_ended = True

    def on_message(self, message: ReadMessage, now_ns: int) -> None:
        """Handle a read-index message of another member."""
        if self._has_ended and isinstance(message, ReadIndexRequest):
            return  # the member that asks may not have come to the end of the log
        self._reads.on_message(message, now_ns)
        self._pump(now_ns)

    def work(self, now_ns: int) -> None:
        """Repeat rounds, and forget queries whose time is over; called with every slow tick."""
        self._reads.tick(now_ns)
        self._groups.work(now_ns)
        if self._reads.has_outputs or len(self._link):
            self._pump(now_ns)

    def _take(self, query: Query | GroupQuery, is_stale: bool, now_ns: int) -> None:
        if len(self._unconfirmed) + len(self._link) + len(self._groups) >= self._queries_max:
            self._refuse(query, QueryStatus.BUSY, f"member has {self._queries_max} queries already: ask again later")
        elif is_stale:
            self._hand_over(query, query.min_position, now_ns)
        elif self._reads.add(query, now_ns):
            self._unconfirmed.add(query.key)
        else:
            self._refuse(query, QueryStatus.UNAVAILABLE, "no leader is known: ask again")

    def _pump(self, now_ns: int) -> None:
        for member_id, message in self._reads.take_messages():
            if member_id == NULL_MEMBER:
                self._broadcast(message)
            else:
                self._send(member_id, message)
        for query, position in self._reads.take_confirmed():
            self._unconfirmed.discard(query.key)
            if self._has_ended:
                self._refuse(query, QueryStatus.UNAVAILABLE, DISMISSED)
            else:
                self._hand_over(query, max(position, query.min_position), now_ns)
        for query in self._reads.take_failed():
            self._unconfirmed.discard(query.key)
            self._refuse(query, QueryStatus.UNAVAILABLE, "the leader is gone: ask again")
        self._link.flush()

    def _hand_over(self, query: Query | GroupQuery, read_position: int, now_ns: int) -> None:
        if isinstance(query, Query):
            self._forward(query, read_position, QueryStatus.OK, query.payload)
        elif (refusal := self._groups.ask(query, read_position, now_ns)) is not None:
            self._refuse(query, *refusal)

    def _refuse(self, query: Query | GroupQuery, status: QueryStatus, text: str) -> None:
        """Refuse a query through the service's container, which knows where the client listens.

        The refusal is dropped where there is no room: the client asks again.
        """
        if len(self._link) < self._queries_max:
            self._forward(query, 0, status, text.encode())

    def _forward(self, query: Query | GroupQuery, read_position: int, status: QueryStatus, payload: bytes) -> None:
        self._link.send(
            ordo_codecs.SERVICE_QUERY.encode(
                cluster_session_id=query.session_id,
                correlation_id=query.correlation_id,
                read_position=read_position,
                status=status,
                payload=payload,
            )
        )


def allowed_consistency() -> str:
    """Return every allowed consistency value with its name, for messages."""
    return ", ".join(f"{one.value} ({one.name.lower()})" for one in Consistency)
