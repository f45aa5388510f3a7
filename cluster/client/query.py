"""Queries of a cluster client: reads that take no log entry (docs/ARCHITECTURE.md, "Queries").

A query changes nothing, so it is repeated automatically: when nothing was heard for a while, when the leader
has changed, when the member that was asked is busy or knows no leader. The first answer counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.client.connection.ingress import IngressPublications
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import Consistency, QueryStatus
from ordo.cluster.wire.sessions.instance_codec import GROUP_BYTES_MAX
from ordo.cluster.wire.sessions.message_limit import LENGTH_BYTES_MAX, describe_too_long
from ordo.runtime.errors import ClusterError, ClusterTimeoutError, OrdoError, QueryFailedError
from ordo.runtime.native.sentinels import NULL_POSITION

if TYPE_CHECKING:
    from ordo.cluster.client.current_session import CurrentSession
    from ordo.cluster.wire import records
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import ExclusivePublication

CONNECT_TIMEOUT_NS = 1_000_000_000
"""A member's ingress that is not connected is opened anew after this."""
PAUSES_NS = {QueryStatus.BUSY: 100_000_000, QueryStatus.UNAVAILABLE: 20_000_000}
"""Before a query is asked again, by why it was not answered."""


class QueryReply(NamedTuple):
    """The service's answer, out of its state at `log_position`, on `member_id`."""

    payload: bytes
    log_position: int
    member_id: int


class PendingQuery:
    """A query under way; `is_done` with a reply or an error, when `on_done(self)` is called."""

    def __init__(
        self,
        correlation_id: int,
        payload: bytes,
        consistency: Consistency,
        member_id: int | None,
        min_position: int,
        group: str | None,
        deadline_ns: int,
        on_done: Callable[[PendingQuery], object] | None,
    ) -> None:
        self.correlation_id = correlation_id
        self.payload = payload
        self.consistency = consistency
        self.member_id = member_id
        self.min_position = min_position
        self.group = group
        self.deadline_ns = deadline_ns
        self.reply: QueryReply | None = None
        self.error: OrdoError | None = None
        self.next_send_ns = 0
        self.sent_term_id = NULL_POSITION
        self.trouble = "no answer"
        self._on_done = on_done

    @property
    def is_done(self) -> bool:
        """Whether there is an answer or an error."""
        return self.reply is not None or self.error is not None

    def result(self) -> QueryReply:
        """Return the reply of a query that is done; raise its error."""
        if self.error is not None:
            raise self.error
        assert self.reply is not None, "the query is not done"
        return self.reply

    def finish(self, reply: QueryReply | None, error: OrdoError | None = None) -> None:
        """Set the outcome and run the callback; for the client that sent the query."""
        self.reply, self.error = reply, error
        if self._on_done is not None:
            self._on_done(self)

    def describe(self) -> str:
        """Return the queried members and the demands of the query, in one line for messages."""
        asked = f"member={'leader' if self.member_id is None else self.member_id}"
        if self.group is not None:
            asked = f"group={self.group}"
        position = f" min_position={self.min_position}" if self.min_position != NULL_POSITION else ""
        return f"{asked} consistency={self.consistency.name.lower()}{position}"


def _check_group(group: str, member_id: int | None) -> None:
    if member_id is not None:
        raise ClusterError(f"group={group!r}: the leader finds an instance; member_id={member_id} cannot be given, too")
    if not 1 <= len(group.encode()) <= GROUP_BYTES_MAX:
        raise ClusterError(f"group={group!r}: must be 1 to {GROUP_BYTES_MAX} bytes long")


def _encode(pending: PendingQuery, session_id: int) -> bytes:
    fields = {
        "cluster_session_id": session_id,
        "correlation_id": pending.correlation_id,
        "min_position": pending.min_position,
        "consistency": pending.consistency,
        "payload": pending.payload,
    }
    if pending.group is None:
        return ordo_codecs.QUERY.encode(**fields)
    return ordo_codecs.GROUP_QUERY.encode(**fields, group=pending.group.encode())


class ClientQueries:
    """The queries of one session. `work` once a millisecond sends, sends again, and gives up."""

    def __init__(
        self, session: CurrentSession, client: TransportClient, channel: str, stream_id: int, retry_interval_ns: int
    ) -> None:
        self._session = session
        self._client = client
        self._retry_interval_ns = retry_interval_ns
        self._pending: dict[int, PendingQuery] = {}
        self._publications = IngressPublications(client, channel, stream_id)
        self._endpoints: dict[int, str] = {}
        self._connected_ns: dict[int, int] = {}

    def start(
        self,
        payload: bytes,
        *,
        consistency: str,
        member_id: int | None,
        min_position: int | None,
        group: str | None,
        deadline_ns: int,
        now_ns: int,
        on_done: Callable[[PendingQuery], object] | None,
    ) -> PendingQuery:
        """Send a query. Raises ClusterError for an unknown consistency or member, or a group that cannot be."""
        session = self._session
        allowed = {one.name.lower(): one for one in Consistency}
        if consistency not in allowed:
            raise ClusterError(f"consistency={consistency!r}: allowed are {', '.join(allowed)}")
        if group is not None:
            _check_group(group, member_id)
        if member_id is not None and member_id != session.leader_member_id and not session.endpoint_of(member_id):
            known = ", ".join(map(str, session.member_ids))
            raise ClusterError(
                f"member_id={member_id}: members with an ingress endpoint are {known}; name a learner's by its id when "
                "the client is made"
            )
        pending = PendingQuery(
            self._client.next_correlation_id(),
            payload,
            allowed[consistency],
            member_id,
            NULL_POSITION if min_position is None else min_position,
            group,
            deadline_ns,
            on_done,
        )
        self._pending[pending.correlation_id] = pending
        self._send(pending, now_ns)
        return pending

    def on_response(self, values: records.QueryResponse, now_ns: int) -> None:
        """Take a QueryResponse of this session."""
        pending = self._pending.get(values.correlation_id)
        if pending is None:
            return
        if values.status == QueryStatus.OK:
            self._finish(pending, QueryReply(values.payload, values.log_position, values.member_id))
            return
        text = f"member {values.member_id}: {values.payload.decode(errors='replace')}"
        if values.status in PAUSES_NS:
            pending.trouble = text
            pending.next_send_ns = now_ns + PAUSES_NS[QueryStatus(values.status)]
        else:
            self._finish(pending, None, QueryFailedError(f"query failed: {text}"))

    def work(self, now_ns: int) -> None:
        for pending in list(self._pending.values()):
            if now_ns >= pending.deadline_ns:
                text = f"query not answered in time: {pending.describe()}: {pending.trouble}"
                self._finish(pending, None, ClusterTimeoutError(text))
            elif now_ns >= pending.next_send_ns or self._has_new_leader(pending):
                self._send(pending, now_ns)

    def _has_new_leader(self, pending: PendingQuery) -> bool:
        return pending.member_id is None and pending.sent_term_id != self._session.leadership_term_id

    def _send(self, pending: PendingQuery, now_ns: int) -> None:
        """Send the query if there is a member to send to; otherwise the next tick tries again."""
        session = self._session
        goes_to_leader = pending.member_id in (None, session.leader_member_id)
        publication = session.leader_ingress if goes_to_leader else self._member_ingress(pending, now_ns)
        if publication is None or session.session_id == NULL_POSITION:
            return
        message = _encode(pending, session.session_id)
        if len(message) > publication.max_message_length:
            length_bytes, ingress_max = len(pending.payload), publication.max_message_length
            overhead_bytes = len(message) - length_bytes
            text = describe_too_long("query", length_bytes, overhead_bytes, LENGTH_BYTES_MAX, ingress_max)
            self._finish(pending, None, ClusterError(text))
        elif publication.offer(message) > 0:
            pending.next_send_ns = now_ns + self._retry_interval_ns
            pending.sent_term_id = session.leadership_term_id
        elif goes_to_leader and not publication.is_connected:
            session.note_ingress_lost()

    def _member_ingress(self, pending: PendingQuery, now_ns: int) -> ExclusivePublication | None:
        """Return the publication to a member that does not lead, opened at first need, or None while it connects."""
        member_id = pending.member_id
        assert member_id is not None
        endpoint = self._session.endpoint_of(member_id)
        if self._endpoints.get(member_id) != endpoint:
            self._endpoints[member_id] = endpoint
            self._connected_ns[member_id] = now_ns
            self._publications.open(self._endpoints)
        self._publications.poll()
        publication = self._publications.connected.get(member_id)
        if publication is not None:
            self._connected_ns[member_id] = now_ns
        elif now_ns - self._connected_ns[member_id] > CONNECT_TIMEOUT_NS:
            pending.trouble = f"member {member_id} does not accept a connection"
            del self._endpoints[member_id]
            self._publications.open(self._endpoints)
        return publication

    def _finish(self, pending: PendingQuery, reply: QueryReply | None, error: OrdoError | None = None) -> None:
        del self._pending[pending.correlation_id]
        pending.finish(reply, error)

    def fail_all(self, make_error: Callable[[], OrdoError]) -> None:
        """Fail every query, because the session has ended."""
        for pending in list(self._pending.values()):
            self._finish(pending, None, make_error())

    def close(self) -> None:
        self._publications.close()
