"""Sessions on their way in: connect requests, redirects, challenges and rejections (cluster-client.md §4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.archive.protocol.own_codecs import LOG_IDENTITY, ToldIdentity, is_of_ordo
from ordo.cluster.module.sessions.identity_bounds import IdentityBounds
from ordo.cluster.module.sessions.response_channels import (
    SHARED_MEMORY,
    bounded,
    check_stream,
    opened_by,
    response_channel,
)
from ordo.cluster.module.sessions.sessions import ClusterSession, Leadership, OpenSessions, session_event
from ordo.cluster.wire import codecs
from ordo.cluster.wire.codecs import EventCode
from ordo.cluster.wire.members import host_of
from ordo.cluster.wire.sessions.ingress_notice import UNCHECKED_NOTICE
from ordo.cluster.wire.sessions.message_limit import encode_message_limit
from ordo.cluster.wire.sessions.principal_mark import encode_mark, is_wanted
from ordo.runtime.errors import ChannelError, ClusterError, OrdoError
from ordo.runtime.native.cluster_time import time_ms, time_ns
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.security.authentication import (
    PRINCIPAL_LENGTH_BYTES_MAX,
    AcceptAll,
    Authenticator,
    Right,
    key_name_of,
)
from ordo.transport.client.pending_registrations import PendingRegistrations
from ordo.transport.control.commands import IPC_IDENTITY

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.image import Image
    from ordo.transport.streams.publication import Publication


WAITING_MIN = 64
"""So many requests of one host may wait at least, or else half as many as sessions are allowed; of all, twice that."""
OPERATORS_SHARE = 256
CONNECT_LENGTH_MIN = 36
"""The length of a connect request without its texts."""


class BoundsSettings(Protocol):
    """The limits that the configuration sets."""

    sessions_max: int
    sessions_per_host_max: int
    sessions_per_principal_max: int
    operator_sessions: int
    identities_per_principal_max: int


@dataclass(frozen=True)
class LogFacts:
    """Facts about the log that a client is told when its session is open."""

    message_bytes_max: Callable[[], int]
    """How long a message the leader's log takes."""
    cluster_id: int = 0
    told_identity: Callable[[], ToldIdentity | None] = lambda: None
    """Which cluster's log the member has."""
    told_beginning: Callable[[], ToldIdentity | None] = lambda: None
    """The same, of a log that has not said it yet, by its first record."""


class SessionBounds(NamedTuple):
    """How many sessions may be open: in all, of one host, of one principal, and how many are reserved for operators."""

    sessions_max: int
    of_host: int
    of_principal: int
    of_operators: int
    identities: int = 0
    """How many identities a principal may open within an hour; 0: three quarters of what a service keeps."""

    @classmethod
    def of(cls, sessions_max: int, of_host: int = 0, of_principal: int = 0, of_operators: int = -1) -> SessionBounds:
        """Return bounds with defaults: three quarters of all, at least 64, for a host and a principal.

        A 256th for operators.
        """
        share = max(sessions_max - sessions_max // 4, WAITING_MIN)
        reserve = sessions_max // OPERATORS_SHARE if of_operators < 0 else min(of_operators, sessions_max)
        return cls(sessions_max, of_host or share, of_principal or share, reserve)

    @classmethod
    def configured(cls, config: BoundsSettings) -> SessionBounds:
        """Return the limits of a node's configuration."""
        of_host, of_principal = config.sessions_per_host_max, config.sessions_per_principal_max
        bounds = cls.of(config.sessions_max, of_host, of_principal, config.operator_sessions)
        return bounds._replace(identities=config.identities_per_principal_max)


class RequestState(Enum):
    CONNECTING = auto()
    """Waiting for the response publication to be connected."""
    CHALLENGED = auto()
    """A challenge was sent."""
    AUTHENTICATED = auto()
    """The open event is to be appended."""
    IN_FLIGHT = auto()
    """The open event is appended and not committed."""
    REFUSED = auto()
    """An event (redirect, error, rejection) is to be sent, then it is over."""


@dataclass(slots=True)
class SessionRequest:
    """One connect request; it is also the proxy that an authenticator gets."""

    session_id: int
    correlation_id: int
    response_stream_id: int
    response_channel: str
    image: Image
    publication: Publication
    deadline_ns: int
    """A time of the cluster, whichever unit the log has then."""
    state: RequestState = RequestState.CONNECTING
    refusal: EventCode = EventCode.ERROR
    detail: str = ""
    challenge_bytes: bytes | None = None
    encoded_principal: bytes = b""
    is_unchecked: bool = False
    """It came with credentials, at which nobody looks."""
    wants_principal: bool = False
    """The client asks for a mark of its principal."""
    is_of_ordo: bool = False
    """Its client understands messages of Ordo's own schema."""

    @property
    def key_name(self) -> str:
        return key_name_of(self.image.source_identity)

    def challenge(self, encoded_challenge: bytes) -> None:
        self.challenge_bytes = encoded_challenge
        self.state = RequestState.CHALLENGED

    def authenticate(self, encoded_principal: bytes) -> None:
        if len(encoded_principal) > PRINCIPAL_LENGTH_BYTES_MAX:
            raise ClusterError(
                f"authenticator: principal of {len(encoded_principal)} bytes, at most {PRINCIPAL_LENGTH_BYTES_MAX}"
            )
        self.encoded_principal = encoded_principal
        self.state = RequestState.AUTHENTICATED

    def reject(self) -> None:
        self.refuse(EventCode.AUTHENTICATION_REJECTED, "session failed authentication")

    def refuse(self, code: EventCode, detail: str) -> None:
        self.state, self.refusal, self.detail = RequestState.REFUSED, code, detail


class SessionRequests:
    """Answers connect requests, on every member: the serving leader opens the session, the others redirect."""

    def __init__(
        self,
        client: TransportClient,
        open_sessions: OpenSessions,
        authenticator: Authenticator,
        *,
        session_timeout_ns: int,
        bounds: SessionBounds,
        log_facts: LogFacts,
        on_rejected: Callable[[str], object],
        draw_session_id: Callable[[], int],
    ) -> None:
        """Take the member's parts.

        `bounds` count open and pending sessions.

        `draw_session_id` gives random numbers, from 1 to 2^62: a session's id is what its client shows with each
        message, and must not be guessed by another. `on_rejected` takes a line for each that failed authentication.
        """
        self._client = client
        self._open = open_sessions
        self._authenticator = authenticator
        self._log_facts = log_facts
        self._checks_credentials = getattr(authenticator, "checks_credentials", True)
        self._session_timeout_ns = session_timeout_ns
        self._bounds = bounds
        self._has_operators = not isinstance(authenticator, AcceptAll)
        self._requests: dict[int, SessionRequest] = {}
        """Keyed by the registration id of their response publication."""
        self._by_session: dict[int, SessionRequest] = {}
        """Requests that may become sessions, by the session's id."""
        self._asked: PendingRegistrations[tuple[Any, str, Image]] = PendingRegistrations(client)
        self._untold: set[int] = set()
        """Sessions of Ordo's clients that this leader could not tell yet whose log it is."""
        self._on_rejected = on_rejected
        self._draw_session_id = draw_session_id
        self._waiting_of_host: Counter[str] = Counter()
        self._in_flight: Counter[bytes] = Counter()
        """Keyed by principal: sessions whose open event is not committed yet."""
        self.identities = IdentityBounds(open_sessions, bounds.identities, on_rejected)

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_any_under_way(self) -> bool:
        """Whether a request waits for its response publication, or for what becomes of it."""
        return bool(self._requests) or len(self._asked) > 0

    def on_connect_request(
        self, request: Any, image: Image, leadership: Leadership, leader_id: int, cluster_time: int
    ) -> None:
        """Take a connect request. `leader_id` is the leader, perhaps another member, perhaps not serving yet.

        Nobody waits for the response publication: a client's name that takes its time must not hold up the member.
        """
        if not self._may_wait(image):
            return
        weight = CONNECT_LENGTH_MIN + len(request.response_channel) + len(request.encoded_credentials)
        try:
            channel = response_channel(request.response_channel, is_local=image.source_identity == IPC_IDENTITY)
            check_stream(channel, request.response_stream_id, self._log_facts.cluster_id)
            kept_channel = opened_by(channel, image.source_identity)
            registration_id = self._client.async_add_publication(bounded(channel, weight), request.response_stream_id)
        except ChannelError as error:
            self._on_rejected(f"ingress: {error.message}")
            return
        except OrdoError:
            return
        self._asked.add(registration_id, (request, kept_channel, image))
        self._waiting_of_host[host_of(image.source_identity)] += 1
        if len(self._asked) == 1:  # alone it need not wait for the next tick; many must not drive the driver for each
            self._client.invoke_driver()
            self._take_asked(leadership, leader_id, cluster_time)

    def _take_asked(self, leadership: Leadership, leader_id: int, cluster_time: int) -> None:
        for (request, channel, image), publication, error in self._asked.take():
            if error is not None:
                self._waits_no_more(image)
            elif image.is_closed:
                self._waits_no_more(image)
                publication.close()
            else:
                self._begin(request, channel, image, publication, leadership, leader_id, cluster_time)

    def _begin(
        self,
        request: Any,
        channel: str,
        image: Image,
        publication: Publication,
        leadership: Leadership,
        leader_id: int,
        cluster_time: int,
    ) -> None:
        leading = leader_id == leadership.member_id
        session = SessionRequest(
            self._take_session_id() if leading else NULL_VALUE,
            request.correlation_id,
            request.response_stream_id,
            channel,
            image,
            publication,
            time_ns(cluster_time) + self._session_timeout_ns,
        )
        session.wants_principal = is_wanted(request.client_info)
        session.is_of_ordo = is_of_ordo(request.client_info or "")
        session.is_unchecked = bool(request.encoded_credentials) and not self._checks_credentials
        self._requests[publication.registration_id] = session
        if leading:
            self._by_session[session.session_id] = session
        major = request.version >> 16 & 0xFF
        if not leading:
            session.refuse(EventCode.REDIRECT, leadership.ingress_endpoints)
        elif major != codecs.CLIENT_PROTOCOL_VERSION >> 16:
            session.refuse(EventCode.ERROR, f"invalid client version {_version(request.version)}, cluster is 0.3.0")
        elif len(self._open) + len(self._requests) > self._bounds.sessions_max:
            session.refuse(EventCode.ERROR, "concurrent session limit")
        elif (refusal := self._why_not_host(image)) is not None:
            session.refuse(EventCode.ERROR, refusal)
        else:
            self._authenticator.on_connect_request(
                session.session_id, request.encoded_credentials, time_ms(cluster_time)
            )

    def _why_not_host(self, image: Image) -> str | None:
        """Return why a host may have no more sessions, or ''. Its waiting requests count, this one included."""
        host, bound = host_of(image.source_identity), self._bounds.of_host
        found = self._open.count_of_host(host or SHARED_MEMORY) + self._waiting_of_host[host]
        if found <= bound:
            return None
        return f"concurrent session limit: {bound} sessions of host {host or SHARED_MEMORY}; see max_sessions_per_host"

    def _why_not_principal(self, principal: bytes) -> str | None:
        """Return why a principal may have no more sessions, or ''.

        The empty name is no principal, so it has no limit.
        """
        bounds = self._bounds
        found = self._open.count_of_principal(principal) + self._in_flight[principal]
        if principal and found >= bounds.of_principal:
            return f"concurrent session limit: {found} sessions of this principal; see max_sessions_per_principal"
        is_kept_out = self._has_operators and Right.OPERATOR not in self._authenticator.rights_of(principal)
        if is_kept_out and len(self._open) + self._in_flight.total() >= bounds.sessions_max - bounds.of_operators:
            return f"concurrent session limit: the last {bounds.of_operators} are for operators; see operator_sessions"
        return None

    @property
    def message_bytes_max(self) -> int:
        """The longest message that the log takes, with its header."""
        return self._log_facts.message_bytes_max()

    def _take_session_id(self) -> int:
        while (session_id := self._draw_session_id()) in self._by_session or self._open.get(session_id) is not None:
            pass
        return session_id

    def on_challenge_response(self, response: records.ChallengeResponse, image: Image, cluster_time: int) -> None:
        """Take the answer to a challenge; only the stream that asked for the session may give it."""
        request = self._by_session.get(response.cluster_session_id)
        if request is not None and request.state is RequestState.CHALLENGED and request.image is image:
            request.correlation_id = response.correlation_id
            request.deadline_ns = time_ns(cluster_time) + self._session_timeout_ns
            self._authenticator.on_challenge_response(
                request.session_id, response.encoded_credentials, time_ms(cluster_time)
            )

    def on_opened(self, session: ClusterSession, leadership: Leadership, cluster_time: int) -> None:
        """Admit a session whose open event was committed, and tell its client."""
        request = self._by_session.get(session.id)
        if request is None or request.state is not RequestState.IN_FLIGHT:
            return
        self._forget(request)
        self._open.admit(session, request.publication, request.image, cluster_time)
        if request.is_of_ordo:
            self._untold.add(session.id)
            self._tell_identity()
            beginning = self._log_facts.told_beginning() if session.id in self._untold else None
            if beginning is not None:
                self._tell(session, beginning)
        detail, member_id = encode_message_limit(self.message_bytes_max), leadership.member_id
        if request.wants_principal:
            detail = f"{detail} {encode_mark(session.encoded_principal)}".rstrip()
        event = session_event(leadership, session.id, session.correlation_id, EventCode.OK, detail, member_id)
        self._open.tell(session, event)
        if request.is_unchecked:
            self._open.notify(leadership, session, UNCHECKED_NOTICE)

    def _tell_identity(self) -> None:
        """Tell clients whose log it is, as soon as an event has said it: of a new cluster, in its first second."""
        told = self._log_facts.told_identity() if self._untold else None
        if told is None:
            return
        for session_id in sorted(self._untold):
            session = self._open.get(session_id)
            if session is not None:
                self._tell(session, told)
        self._untold.clear()

    def _tell(self, session: ClusterSession, told: ToldIdentity) -> None:
        ids = {"session_id": session.id, "correlation_id": session.correlation_id}
        self._open.tell(session, LOG_IDENTITY.encode(**ids, **told._asdict()))

    def image_gone(self, image: Image) -> None:
        for request in [request for request in self._requests.values() if request.image is image]:
            if request.state is not RequestState.IN_FLIGHT:
                self._drop(request)

    def lose_leadership(self, leadership: Leadership) -> None:
        self.identities.clear()
        self._untold.clear()
        for request in list(self._requests.values()):
            request.publication.offer(
                session_event(
                    leadership, request.session_id, request.correlation_id, EventCode.CLOSED, "election", NULL_VALUE
                )
            )
            self._drop(request)

    def work(self, leadership: Leadership, leader_id: int, cluster_time: int) -> int:
        """Run one slow tick; return the number of requests that timed out."""
        self._take_asked(leadership, leader_id, cluster_time)
        self._tell_identity()
        timed_out = 0
        for request in list(self._requests.values()):
            if request.state is not RequestState.IN_FLIGHT and time_ns(cluster_time) > request.deadline_ns:
                timed_out += 1
                self._drop(request)
            elif request.publication.is_connected:
                self._advance(request, leadership, leader_id, cluster_time)
        return timed_out

    def _advance(self, request: SessionRequest, leadership: Leadership, leader_id: int, cluster_time: int) -> None:
        if request.state is RequestState.CONNECTING:
            self._authenticator.on_connected_session(request, time_ms(cluster_time))
        elif request.state is RequestState.CHALLENGED:
            self._send_challenge(request)
            self._authenticator.on_challenged_session(request, time_ms(cluster_time))
        if request.state is RequestState.AUTHENTICATED:
            self._append_open(request, leadership, cluster_time)
        elif request.state is RequestState.REFUSED:
            if request.refusal is EventCode.REDIRECT and leader_id == NULL_VALUE and not request.is_of_ordo:
                return  # Aeron's client closes its ways to all members, and waits in vain for one to member -1
            event = session_event(
                leadership, request.session_id, request.correlation_id, request.refusal, request.detail, leader_id
            )
            if request.publication.offer(event) > 0:
                if request.refusal is EventCode.AUTHENTICATION_REJECTED:
                    self._on_rejected(f"ingress: a session was refused: {request.detail}")
                self._drop(request)

    @staticmethod
    def _send_challenge(request: SessionRequest) -> None:
        if request.challenge_bytes is None:
            return
        message = codecs.CHALLENGE.encode(
            correlation_id=request.correlation_id,
            cluster_session_id=request.session_id,
            encoded_challenge=request.challenge_bytes,
        )
        if request.publication.offer(message) > 0:
            request.challenge_bytes = None

    def _append_open(self, request: SessionRequest, leadership: Leadership, cluster_time: int) -> None:
        refusal = self._why_not_principal(request.encoded_principal)
        if refusal is not None:
            request.refuse(EventCode.ERROR, refusal)
            return
        if self._open.get(request.session_id) is not None:
            # Drawn before this leader had executed what its log has of earlier terms, where it is taken already.
            del self._by_session[request.session_id]
            request.session_id = self._take_session_id()
            self._by_session[request.session_id] = request
        record = codecs.SESSION_OPEN_EVENT.encode(
            leadership_term_id=leadership.leadership_term_id,
            correlation_id=request.correlation_id,
            cluster_session_id=request.session_id,
            timestamp=cluster_time,
            response_stream_id=request.response_stream_id,
            response_channel=request.response_channel,
            encoded_principal=request.encoded_principal,
        )
        if leadership.append(record):
            request.state = RequestState.IN_FLIGHT
            self._in_flight[request.encoded_principal] += 1

    def _drop(self, request: SessionRequest) -> None:
        self._forget(request)
        request.publication.close()

    def _forget(self, request: SessionRequest) -> None:
        del self._requests[request.publication.registration_id]
        self._by_session.pop(request.session_id, None)
        if request.state is RequestState.IN_FLIGHT:
            self._in_flight[request.encoded_principal] -= 1
        self._waits_no_more(request.image)

    def _waits_no_more(self, image: Image) -> None:
        host = host_of(image.source_identity)
        self._waiting_of_host[host] -= 1
        if not self._waiting_of_host[host]:
            del self._waiting_of_host[host]

    def _may_wait(self, image: Image) -> bool:
        """Return whether one more request of this host may wait for its response publication to be answered."""
        host_max = max(self._bounds.sessions_max // 2, WAITING_MIN)
        of_host = self._waiting_of_host[host_of(image.source_identity)]
        if of_host < host_max and len(self._requests) + len(self._asked) < 2 * host_max:
            return True
        self._on_rejected(f"ingress: too many connect requests wait for their addresses to answer: {of_host} of a host")
        return False


def _version(value: int) -> str:
    return f"{value >> 16 & 0xFF}.{value >> 8 & 0xFF}.{value & 0xFF}"
