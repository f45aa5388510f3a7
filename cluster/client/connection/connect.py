"""The connect handshake of a cluster client, step by step (cluster-client.md §4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from ordo.cluster.client.connection.ingress import NULL_MEMBER_ID, IngressPublications, parse_endpoints
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import EventCode
from ordo.runtime.errors import ClusterTimeoutError, SessionRejectedError
from ordo.transport.streams.image import Image

if TYPE_CHECKING:
    from random import Random

    from ordo.cluster.wire import records
    from ordo.transport.streams.subscription import Subscription

TELL_AFTER_NS = 2_000_000_000
"""So long a session may take to open, before a line says what is waited for."""


class ConnectState(Enum):
    AWAIT_EGRESS = auto()
    """Until the egress socket is bound, so that the response channel is known."""
    AWAIT_INGRESS = auto()
    """Until a member's ingress is connected."""
    SEND_REQUEST = auto()
    AWAIT_RESPONSE = auto()
    SEND_CHALLENGE_RESPONSE = auto()
    DONE = auto()


@dataclass(frozen=True)
class ClientIntroduction:
    """A client's data in a handshake: its credentials, its answer to a challenge, its name and release."""

    credentials: bytes
    on_challenge: Callable[[bytes], bytes]
    client_info: str


@dataclass(frozen=True)
class ConnectPatience:
    """How long a client waits for one member at first, and until when for any; `on_waiting(why)` is called once."""

    attempt_timeout_ns: int
    deadline_ns: int
    on_waiting: Callable[[str], object] = lambda why: None


class SessionConnect:
    """One handshake. Call `work` until `opened` is the OK event; raises SessionRejectedError or ClusterTimeoutError.

    A member that does not answer within `attempt_timeout_ns` is skipped for the next one, with a new request. Each time
    the timeout doubles, so that a cluster which needs longer to answer is waited for in the end.

    The session of a request that was given up may open all the same, later. It is taken then: otherwise it would stay
    beside the next one until it times out, and count among those that are allowed.
    """

    def __init__(
        self,
        ingress: IngressPublications,
        egress: Subscription,
        endpoints: Mapping[int, str],
        *,
        secret: Random,
        response_channel: Callable[[str], str],
        introduction: ClientIntroduction,
        patience: ConnectPatience,
        renew: Callable[[], Mapping[int, str] | None] = lambda: None,
    ) -> None:
        """Begin a handshake.

        `response_channel(endpoint)` is the channel a member answers on, given the bound egress endpoint; `renew()`
        returns the endpoints where they have changed. `secret` draws correlation ids that nobody else can guess: an
        answer with one comes from a member that was asked.
        """
        self.state = ConnectState.AWAIT_EGRESS
        self.opened: Any = None
        self.image: Image | None = None
        self.member_id = -1
        self.endpoints = dict(endpoints)
        self._are_ids_known = False  # by the cluster's own word
        self._secret = secret
        self._ingress = ingress
        self._egress = egress
        self._response_channel = response_channel
        self._introduction = introduction
        self._attempt_timeout_ns = patience.attempt_timeout_ns
        self._deadline_ns = patience.deadline_ns
        self._on_waiting = patience.on_waiting
        self._renew = renew
        self._tell_ns = 0
        self._attempt_deadline_ns = 0
        self._correlation_id = -1
        self.attempts: dict[int, int] = {}
        """Keyed by correlation id: the member that was asked."""
        self.told: Any = None
        """Which cluster's log the member has that opened the session; None where it does not say."""
        self._told: dict[int, Any] = {}
        self._tried: set[int] = set()
        self._redirected = False
        self._message = b""
        self._last = "no member's ingress is connected"
        if NULL_MEMBER_ID in self.endpoints:
            self._last = "no leader takes messages there: it is elsewhere, or ipc_ingress or ingress_channel is not set"

    def work(self, now_ns: int) -> None:
        if now_ns > self._deadline_ns:
            raise ClusterTimeoutError(f"no session was opened in time: {self._trouble()}")
        self._tell_ns = self._tell_ns or now_ns + TELL_AFTER_NS
        if now_ns > self._tell_ns:
            self._tell_ns = self._deadline_ns + 1
            self._on_waiting(f"{self._trouble()}; for {(self._deadline_ns - now_ns) / 1e9:.0f} s at most")
        self._ingress.poll()
        if self.state is ConnectState.AWAIT_EGRESS:
            self._await_egress(now_ns)
        elif self.state is ConnectState.AWAIT_INGRESS:
            self._await_ingress(now_ns)
        elif self.state in (ConnectState.SEND_REQUEST, ConnectState.SEND_CHALLENGE_RESPONSE):
            self._send(now_ns)
        elif self.state is ConnectState.AWAIT_RESPONSE and now_ns > self._attempt_deadline_ns:
            self._last = f"member {self.member_id} did not answer the connect request"
            self._attempt_timeout_ns *= 2
            self._try_all(now_ns)

    def _trouble(self) -> str:
        members = ",".join(f"{member_id}={endpoint}" for member_id, endpoint in sorted(self.endpoints.items()))
        if NULL_MEMBER_ID in self.endpoints:
            members = self._ingress.channel
        why = self._last if self._ingress.connected else self._ingress.trouble or self._last
        return f"endpoints={members}: {why}"

    def _await_egress(self, now_ns: int) -> None:
        if self._egress.channel.startswith("aeron:ipc") or self._egress.resolved_endpoint is not None:
            self._try_all(now_ns)

    def _try_all(self, now_ns: int) -> None:
        self._redirected = False
        renewed = self._renew()
        if renewed is not None:
            self.endpoints = dict(renewed)
            self._are_ids_known = False
            self._tried.clear()
        self._ingress.open(self.endpoints)
        self._become_awaiting_ingress(now_ns)

    def _become_awaiting_ingress(self, now_ns: int) -> None:
        self.state = ConnectState.AWAIT_INGRESS
        self._attempt_deadline_ns = now_ns + self._attempt_timeout_ns

    def _await_ingress(self, now_ns: int) -> None:
        connected = sorted(self._ingress.connected)
        fresh = [member_id for member_id in connected if member_id not in self._tried]
        if not fresh and connected:
            self._tried.clear()
            fresh = connected
        if not fresh:
            if now_ns > self._attempt_deadline_ns:
                if self._redirected:
                    self._last = f"leader {self.member_id} does not accept a connection"
                self._try_all(now_ns)
            return
        self.member_id = fresh[0]
        self._tried.add(self.member_id)
        self._take_correlation_id()
        endpoint = self._egress.resolved_endpoint or ""
        self._message = codecs.SESSION_CONNECT_REQUEST.encode(
            correlation_id=self._correlation_id,
            response_stream_id=self._egress.stream_id,
            version=codecs.CLIENT_PROTOCOL_VERSION,
            response_channel=self._response_channel(endpoint),
            encoded_credentials=self._introduction.credentials,
            client_info=self._introduction.client_info,
        )
        self.state = ConnectState.SEND_REQUEST
        self._send(now_ns)

    def _take_correlation_id(self) -> None:
        self._correlation_id = self._secret.getrandbits(codecs.SECRET_ID_BITS)
        self.attempts[self._correlation_id] = self.member_id

    def _send(self, now_ns: int) -> None:
        publication = self._ingress.get(self.member_id)
        if publication is None or not publication.is_connected:
            self._last = f"the connection to member {self.member_id} was lost"
            self._try_all(now_ns)
        elif publication.offer(self._message) > 0:
            self.state = ConnectState.AWAIT_RESPONSE
            self._attempt_deadline_ns = now_ns + self._attempt_timeout_ns

    def on_event(self, table: Any, values: Any, image: Image, now_ns: int) -> None:
        """Take an egress message. Of requests that were given up, only the session counts."""
        correlation_id = getattr(values, "correlation_id", None)
        if table is ordo_codecs.LOG_IDENTITY:
            if correlation_id in self.attempts:
                self._told[correlation_id] = values
            return
        is_awaited = self.state is ConnectState.AWAIT_RESPONSE and correlation_id == self._correlation_id
        if not is_awaited:
            is_open = table is codecs.SESSION_EVENT and values.code == EventCode.OK
            member_id = self.attempts.get(values.correlation_id) if is_open else None
            if member_id is None or self._ingress.get(member_id) is None:
                return  # of somebody else, or its way to the member is closed, and with it the session
            self.member_id = member_id
        if table is codecs.CHALLENGE:
            self._answer_challenge(values, now_ns)
        elif table is codecs.SESSION_EVENT:
            self._on_session_event(values, image, now_ns)

    def _answer_challenge(self, challenge: records.Challenge, now_ns: int) -> None:
        self._take_correlation_id()
        self._message = codecs.CHALLENGE_RESPONSE.encode(
            correlation_id=self._correlation_id,
            cluster_session_id=challenge.cluster_session_id,
            encoded_credentials=self._introduction.on_challenge(challenge.encoded_challenge),
        )
        self.state = ConnectState.SEND_CHALLENGE_RESPONSE
        self._send(now_ns)

    def _on_session_event(self, event: records.SessionEvent, image: Image, now_ns: int) -> None:
        if event.code == EventCode.OK:
            self.state, self.opened, self.image = ConnectState.DONE, event, image
            self.told = self._told.get(event.correlation_id)
            self._ingress.close_others(self.member_id)
            if not self._are_ids_known:
                self._learn_member_id(event.leader_member_id)
        elif event.code == EventCode.REDIRECT:
            self._redirect(event, now_ns)
        elif event.code == EventCode.AUTHENTICATION_REJECTED:
            raise SessionRejectedError(f"the cluster rejected the credentials: {event.detail}")
        elif event.code == EventCode.ERROR:
            raise SessionRejectedError(f"the cluster refused the session: {event.detail}")
        else:
            self._last = f"member {self.member_id} closed the session: {event.detail}"
            self._try_all(now_ns)

    def _learn_member_id(self, member_id: int) -> None:
        """Learn the member's id from the leader's answer, since endpoints given as a list may be in any order."""
        self._ingress.rename(self.member_id, member_id)
        if self.member_id in self.endpoints and NULL_MEMBER_ID not in self.endpoints:
            self.endpoints[self.member_id], self.endpoints[member_id] = (
                self.endpoints.get(member_id, ""),
                self.endpoints[self.member_id],
            )
            self.member_id = member_id

    def _redirect(self, event: records.SessionEvent, now_ns: int) -> None:
        endpoints = parse_endpoints(event.detail)
        self._last = f"redirected to leader {event.leader_member_id}"
        if event.leader_member_id not in endpoints or NULL_MEMBER_ID in self.endpoints:
            self._try_all(now_ns)
            return
        self.endpoints = endpoints
        self._are_ids_known = True
        self.member_id = event.leader_member_id
        self._tried.clear()
        self._redirected = True
        self._ingress.open({self.member_id: endpoints[self.member_id]})
        self._become_awaiting_ingress(now_ns)
