"""Tells backups which log and snapshots this member has, and who is in the cluster (cluster-consensus.md §22).

A BackupQuery comes over the consensus stream, from a program that is no member and whose stream is not proven to be
anybody's. What it is told lets it copy the log from the member's archive, so it is authenticated as clients are, and
needs the right LOG. The response goes to the host that the query came from, and to no other. A HeartbeatRequest is
taken in the same way; it asks whether the member answers, and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.sessions.response_channels import bounded
from ordo.cluster.wire import codecs
from ordo.cluster.wire.members import host_of
from ordo.runtime.errors import DecodeError, OrdoError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import NULL_VALUES
from ordo.runtime.security.authentication import Authenticator, Right, key_name_of
from ordo.runtime.security.host_rates import HostRates
from ordo.transport.client.pending_registrations import PendingRegistrations
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import ExclusivePublication

ABSENT = NULL_VALUES["i64"]
"""What a field of 64 bits holds that its sender did not fill in, or did not know."""
QUERIES_MAX = 8
QUERIES_PER_HOST_MAX = 4
QUERY_INTERVAL_MS = 20
QUERY_BURST = 64
"""Each query costs a publication, so a host gets a bounded number a second."""
QUERY_TIMEOUT_MS = 5_000
TERM_LENGTH_BYTES = 64 * 1024
NO_ROLE = "these credentials do not have the role log (see roles of [[tokens]])"
REJECTED = "the member rejected the credentials"


class BackupHost(Protocol):
    """The member that is asked."""

    @property
    def member_id(self) -> int: ...
    def on_invalid_request(self, detail: str) -> None:
        """Count a refused request, and log one line."""


class QueryState(Enum):
    """The stage of a backup's query."""

    WAITING = auto()
    """For its response publication, and then for the authenticator."""
    CHALLENGED = auto()
    ACCEPTED = auto()
    REFUSED = auto()


@dataclass(slots=True, eq=False)
class BackupQuery:
    """One query; it is also the proxy that an authenticator gets."""

    session_id: int
    correlation_id: int
    log_position: int
    host: str
    key_name: str
    deadline_ms: int
    state: QueryState = QueryState.WAITING
    text: str = ""
    principal: bytes = b""
    publication: ExclusivePublication | None = None
    encoded_challenge: bytes = b""
    is_heartbeat: bool = False

    @property
    def is_accepted(self) -> bool:
        return self.state is QueryState.ACCEPTED

    def challenge(self, encoded_challenge: bytes) -> None:
        self.state, self.encoded_challenge = QueryState.CHALLENGED, encoded_challenge

    def authenticate(self, encoded_principal: bytes) -> None:
        self.state, self.principal = QueryState.ACCEPTED, encoded_principal

    def reject(self) -> None:
        self.refuse(REJECTED)

    def refuse(self, text: str) -> None:
        self.state, self.text = QueryState.REFUSED, text


class BackupQueries:
    """The queries of one member that wait for their response.

    Without an authenticator every query is accepted, as every reader of the archive is.
    """

    def __init__(
        self,
        host: BackupHost,
        describe: Callable[[int, int], bytes | None],
        client: TransportClient,
        authenticator: Authenticator | None,
        draw_id: Callable[[], int],
    ) -> None:
        """Take the member's parts.

        `describe(correlation id, log position)` returns a BackupResponse, None while there is no log to copy. `draw_id`
        gives random numbers from 1 to 2^62.
        """
        self._host = host
        self._describe = describe
        self._client = client
        self._authenticator = authenticator
        self._draw_id = draw_id
        self._rates = HostRates(QUERY_INTERVAL_MS, QUERY_BURST)
        self._queries: list[BackupQuery] = []
        self._asked: PendingRegistrations[BackupQuery] = PendingRegistrations(client)

    @property
    def has_work(self) -> bool:
        """Whether a backup waits for the next slow tick."""
        return bool(self._queries)

    def on_message(self, message: bytes, source_identity: str, now_ms: int) -> None:
        """Take a BackupQuery, HeartbeatRequest or ChallengeResponse; anything else is ignored. Raises DecodeError."""
        found = codecs.decode(message)
        if found is None:
            return
        table, values = found
        if table is codecs.BACKUP_QUERY:
            log_position = values.log_position if values.log_position != ABSENT else NULL_VALUE
            self._on_query(values, log_position, source_identity, now_ms, len(message))
        elif table is codecs.HEARTBEAT_REQUEST:
            self._on_query(values, None, source_identity, now_ms, len(message))
        elif table is codecs.CHALLENGE_RESPONSE and self._authenticator is not None:
            self._on_challenge_response(values, self._authenticator, now_ms)

    def _on_challenge_response(
        self, values: records.ChallengeResponse, authenticator: Authenticator, now_ms: int
    ) -> None:
        """Take the answer to a challenge; from here on the query is answered by this message's correlation id."""
        for query in self._queries:
            if query.session_id == values.cluster_session_id:
                query.correlation_id = values.correlation_id
                authenticator.on_challenge_response(query.session_id, values.encoded_credentials, now_ms)

    def _on_query(
        self,
        values: records.BackupQuery | records.HeartbeatRequest,
        log_position: int | None,
        source_identity: str,
        now_ms: int,
        length_bytes: int,
    ) -> None:
        """Take a query for the snapshot at a position, or a heartbeat without one."""
        host = host_of(source_identity)
        if any((one.host, one.correlation_id) == (host, values.correlation_id) for one in self._queries):
            return  # asked again: the response is on its way
        port = _port_of(values.response_channel)
        if not host or port is None:
            raise DecodeError(f"{type(values).__name__}: no response can be sent to {values.response_channel[:200]!r}")
        if not self._rates.take(host, now_ms):
            self._host.on_invalid_request(f"backup: {host} asks too often")
            return
        self._make_room(host)
        query = BackupQuery(
            self._draw_id(),
            values.correlation_id,
            NULL_VALUE if log_position is None else log_position,
            host,
            key_name_of(source_identity),
            now_ms + QUERY_TIMEOUT_MS,
            is_heartbeat=log_position is None,
        )
        channel = f"aeron:udp?endpoint={host}:{port}|term-length={TERM_LENGTH_BYTES}|alias=backup"
        try:
            registration_id = self._client.async_add_exclusive_publication(
                bounded(channel, length_bytes), values.response_stream_id
            )
        except OrdoError:
            return
        self._queries.append(query)
        self._asked.add(registration_id, query)
        self._client.invoke_driver()
        if self._authenticator is None:
            query.state = QueryState.ACCEPTED
        else:
            self._authenticator.on_connect_request(query.session_id, values.encoded_credentials, now_ms)

    def _make_room(self, host: str) -> None:
        """Make room for a query.

        A host at its share loses its own oldest query, else the host with the most loses one.
        """
        own = [one for one in self._queries if one.host == host]
        if len(own) >= QUERIES_PER_HOST_MAX:
            self._drop(own[0])
        elif len(self._queries) >= QUERIES_MAX:
            self._drop(self._queries[0])

    def work(self, now_ms: int) -> None:
        """Advance all queries by one slow tick."""
        for query, publication, error in self._asked.take():
            if error is None and query in self._queries:
                query.publication = publication
            elif error is None:
                publication.close()
            else:
                self._drop(query)
        for query in list(self._queries):
            if now_ms > query.deadline_ms:
                self._drop(query)
            elif query.publication is not None and query.publication.is_connected:
                self._advance(query, query.publication, now_ms)

    def _advance(self, query: BackupQuery, publication: ExclusivePublication, now_ms: int) -> None:
        before = query.state
        self._decide(query, now_ms)
        if query.encoded_challenge and publication.offer(self._challenge(query)) > 0:
            query.encoded_challenge = b""
        if query.state is QueryState.ACCEPTED:
            response = self._response(query)
            if response is not None and publication.offer(response) > 0:
                self._drop(query)
        elif query.state is QueryState.REFUSED:
            if before is not QueryState.REFUSED:
                self._host.on_invalid_request(f"backup: {query.host} was refused: {query.text}")
            if publication.offer(self._refusal(query)) > 0:
                self._drop(query)

    def _decide(self, query: BackupQuery, now_ms: int) -> None:
        if self._authenticator is None or query.state in (QueryState.ACCEPTED, QueryState.REFUSED):
            return
        if query.state is QueryState.WAITING:
            self._authenticator.on_connected_session(query, now_ms)
        else:
            self._authenticator.on_challenged_session(query, now_ms)
        if query.is_accepted and Right.LOG not in self._authenticator.rights_of(query.principal):
            query.refuse(NO_ROLE)

    def _response(self, query: BackupQuery) -> bytes | None:
        if not query.is_heartbeat:
            return self._describe(query.correlation_id, query.log_position)
        encoded: bytes = codecs.HEARTBEAT_RESPONSE.encode(correlation_id=query.correlation_id)
        return encoded

    @staticmethod
    def _challenge(query: BackupQuery) -> bytes:
        encoded: bytes = codecs.CHALLENGE.encode(
            correlation_id=query.correlation_id,
            cluster_session_id=query.session_id,
            encoded_challenge=query.encoded_challenge,
        )
        return encoded

    def _refusal(self, query: BackupQuery) -> bytes:
        encoded: bytes = codecs.SESSION_EVENT.encode(
            cluster_session_id=query.session_id,
            correlation_id=query.correlation_id,
            leadership_term_id=NULL_VALUE,
            leader_member_id=self._host.member_id,
            code=codecs.EventCode.AUTHENTICATION_REJECTED,
            version=codecs.CLIENT_PROTOCOL_VERSION,
            leader_heartbeat_timeout_ns=ABSENT,
            detail=query.text,
        )
        return encoded

    def _drop(self, query: BackupQuery) -> None:
        self._queries.remove(query)
        if query.publication is not None:
            query.publication.close()


def _port_of(channel: str) -> int | None:
    """Return the port of a response channel, or None; the host in it is not trusted."""
    try:
        endpoint = ChannelUri.parse(channel).endpoint
    except OrdoError:
        return None
    return endpoint.port if endpoint is not None and 0 < endpoint.port < 65_536 else None
