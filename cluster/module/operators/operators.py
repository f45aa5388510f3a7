"""Operators: programs of any machine that look into this member and give it orders (docs/ARCHITECTURE.md, Operators).

    CONNECTING  until its response publication is connected and the authenticator has decided
    OPEN        takes requests, one each slow tick
    ENDING      it was refused: dropped once it has been told, or at its deadline

A connection is this member's own: no other member knows of it, nothing of it is in the log, and it needs no leader.
Any program that reaches the ingress can ask, so all of it is bounded: connections of a host and of all hosts, requests
that wait, answers that wait. Answers go to the host that a connection comes from, and to no other.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.cluster.module.sessions.response_channels import bounded
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.counter_types import ControlToggle, is_transfer, successor_of, transfer_target
from ordo.cluster.wire.members import host_of
from ordo.cluster.wire.ordo_codecs import MembershipChange, OperatorOrder, OperatorStatus
from ordo.cluster.wire.streams import OPERATOR_STREAM_ID
from ordo.runtime.errors import ClusterError, DecodeError, OrdoError
from ordo.runtime.security.authentication import PRINCIPAL_LENGTH_BYTES_MAX, Authenticator, Right, key_name_of
from ordo.runtime.security.host_rates import HostRates
from ordo.transport.client.pending_registrations import PendingRegistrations

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.runtime.native.counters import Counter
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.image import Image
    from ordo.transport.streams.publication import ExclusivePublication

CONNECTIONS_MAX = 64
CONNECTIONS_PER_HOST_MAX = 8
CONNECT_INTERVAL_MS = 20
CONNECT_BURST = 64
"""Each connection costs a publication, so a host gets a bounded number a second, however soon it drops them again."""
REQUESTS_WAITING_MAX = 4
CONNECT_TIMEOUT_MS = 5_000
ENDING_MS = 1_000
"""So long a refusal may be on its way."""
SILENCE_MAX_MS = 90_000
"""A connection that asked nothing for so long is dropped; longer than a command waits for a change to be committed."""
TERM_LENGTH_BYTES = 256 * 1024
PAYLOAD_BYTES_MAX = TERM_LENGTH_BYTES // 16
TOGGLES_EXPECTED = (ControlToggle.NEUTRAL, ControlToggle.SUSPEND, ControlToggle.SUCCEEDED)
TOGGLES_WANTED = (
    ControlToggle.SUSPEND,
    ControlToggle.RESUME,
    ControlToggle.SNAPSHOT,
    ControlToggle.SHUTDOWN,
    ControlToggle.ABORT,
    ControlToggle.STANDBY_SNAPSHOT,
)
LOOKS = (codecs.CLUSTER_MEMBERS_QUERY, ordo_codecs.VERSIONS_QUERY)
"""Questions that change nothing."""
QUESTIONS = (*LOOKS, ordo_codecs.MEMBERSHIP_REQUEST, ordo_codecs.SKIP_REQUEST, ordo_codecs.UPGRADE_REQUEST)
_NO_QUESTION: tuple[Any, Any] = (None, None)
UNAUTHENTICATED = (
    "this cluster authenticates nobody, so from elsewhere its members may be looked at and not be given orders: use"
    " --config on the leader's machine, or give the cluster [[tokens]] with the role operator (docs/SECURITY.md)"
)
NO_ROLE = "these credentials do not have the role operator (see --token-file, and roles of [[tokens]])"
NO_ROLE_TO_LOOK = "these credentials have neither the role operator nor log (see roles of [[tokens]])"
REJECTED = "the member rejected the credentials"
CHALLENGED = "the authenticator challenges, which no operator can answer; have it decide by the credentials"


class OperatorsHost(Protocol):
    """The member that is asked."""

    @property
    def member_id(self) -> int: ...
    def on_invalid_request(self, detail: str) -> None:
        """Count a refused request, and log one line."""

    def announce(self, event: str, text: str) -> None:
        """Write one line to the log of the process."""


class MemberAnswers(NamedTuple):
    """What a member answers its operators with."""

    look: Callable[[], dict[str, Any]]
    """Returns what the member knows of itself."""
    list_skipped: Callable[[], dict[str, Any]]
    """Returns which records of the log it leaves out."""
    describe: Callable[[], dict[str, object]]
    """Returns its newest terms, snapshots, sessions and errors."""
    answer_question: Callable[[Any, Any], bytes | None]
    """Returns the answer to one of QUESTIONS; None when it comes later, through `take_answer`."""


class ConnectionState(Enum):
    """The stage of an operator's connection."""

    CONNECTING = auto()
    OPEN = auto()
    ENDING = auto()


@dataclass(slots=True, eq=False)
class Connection:
    """One operator's connection; it is also the proxy that an authenticator gets."""

    id: int
    correlation_id: int
    image: Image
    deadline_ms: int
    state: ConnectionState = ConnectionState.CONNECTING
    status: OperatorStatus = OperatorStatus.OK
    text: str = ""
    principal: bytes = b""
    is_operator: bool = True
    """False: it is a reader of the log, who may ask where the members are, and how they are."""
    publication: ExclusivePublication | None = None
    is_told: bool = False
    """Whether the operator was told what became of its connection."""
    requests: deque[records.OperatorRequest] = field(default_factory=deque)
    answers: deque[bytes] = field(default_factory=deque)

    @property
    def session_id(self) -> int:
        return self.id

    @property
    def host(self) -> str:
        return host_of(self.image.source_identity)

    @property
    def key_name(self) -> str:
        return key_name_of(self.image.source_identity)

    def challenge(self, encoded_challenge: bytes) -> None:
        self.refuse(CHALLENGED)

    def authenticate(self, encoded_principal: bytes) -> None:
        if len(encoded_principal) > PRINCIPAL_LENGTH_BYTES_MAX:
            raise ClusterError(
                f"authenticator: principal of {len(encoded_principal)} bytes, at most {PRINCIPAL_LENGTH_BYTES_MAX}"
            )
        self.principal, self.state = encoded_principal, ConnectionState.OPEN

    def reject(self) -> None:
        self.refuse(REJECTED)

    def refuse(self, text: str) -> None:
        self.state, self.status, self.text = ConnectionState.ENDING, OperatorStatus.NOT_ALLOWED, text


class Operators:
    """The connections of all operators to one member."""

    def __init__(
        self,
        host: OperatorsHost,
        answers: MemberAnswers,
        client: TransportClient,
        toggle: Counter,
        authenticator: Authenticator | None,
        draw_id: Callable[[], int],
    ) -> None:
        """Take the member's parts.

        `draw_id` gives random numbers, from 1 to 2^62. Without an authenticator operators may only read.
        """
        self._host = host
        self._answers = answers
        self._client = client
        self._toggle = toggle
        self._authenticator = authenticator
        self._draw_id = draw_id
        self._rates = HostRates(CONNECT_INTERVAL_MS, CONNECT_BURST)
        self._connections: dict[int, Connection] = {}
        self._asked: PendingRegistrations[Connection] = PendingRegistrations(client)
        self._questions: dict[int, tuple[Connection, int]] = {}
        """Questions that wait for their answer: by their correlation id, the connection and its request's."""

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def has_work(self) -> bool:
        """Whether an operator waits for the next slow tick."""
        return any(one.state is not ConnectionState.OPEN or one.requests for one in self._connections.values())

    # -- what comes in ---------------------------------------------------------------------------------------------

    def on_message(self, message: bytes, image: Image, now_ms: int) -> None:
        """Take an OperatorConnect or OperatorRequest. Raises DecodeError for a truncated one."""
        found = ordo_codecs.decode(message)
        if found is None:
            return
        table, values = found
        if table is ordo_codecs.OPERATOR_CONNECT:
            self._on_connect(values, image, now_ms, len(message))
        elif table is ordo_codecs.OPERATOR_REQUEST:
            self._on_request(values, image, now_ms)

    def _on_connect(self, values: records.OperatorConnect, image: Image, now_ms: int, length_bytes: int) -> None:
        host = host_of(image.source_identity)
        if not host or not 0 < values.response_port < 65_536:
            self._host.on_invalid_request(f"operators: a connection to port {values.response_port} of {host or '?'}")
            return
        if not self._rates.take(host, now_ms):
            self._host.on_invalid_request(f"operators: {host} connects too often")
            return
        self._make_room(host)
        connection = Connection(self._draw_id(), values.correlation_id, image, now_ms + CONNECT_TIMEOUT_MS)
        channel = f"aeron:udp?endpoint={host}:{values.response_port}|term-length={TERM_LENGTH_BYTES}|alias=operator"
        try:
            registration_id = self._client.async_add_exclusive_publication(
                bounded(channel, length_bytes), OPERATOR_STREAM_ID
            )
        except OrdoError:
            return
        self._connections[connection.id] = connection
        self._asked.add(registration_id, connection)
        self._client.invoke_driver()
        if self._authenticator is None:
            connection.state = ConnectionState.OPEN
        else:
            self._authenticator.on_connect_request(connection.id, values.credentials, now_ms)

    def _make_room(self, host: str) -> None:
        """Make room for a connection.

        A host at its share loses its own oldest one, else the host with the most loses one.
        """
        own = [one for one in self._connections.values() if one.host == host]
        if len(own) >= CONNECTIONS_PER_HOST_MAX:
            self._drop(own[0])
        elif len(self._connections) >= CONNECTIONS_MAX:
            self._drop(next(iter(self._connections.values())))

    def _on_request(self, values: records.OperatorRequest, image: Image, now_ms: int) -> None:
        connection = self._connections.get(values.connection_id)
        if connection is None:
            return
        if connection.image is not image:
            self._host.on_invalid_request("operators: a request on the connection of another")
        elif connection.state is not ConnectionState.OPEN or len(connection.requests) >= REQUESTS_WAITING_MAX:
            self._host.on_invalid_request("operators: a request before the connection is open, or too many at once")
        else:
            connection.requests.append(values)
            connection.deadline_ms = now_ms + SILENCE_MAX_MS

    def image_gone(self, image: Image) -> None:
        for connection in [one for one in self._connections.values() if one.image is image]:
            self._drop(connection)

    def take_answer(self, answer: bytes) -> bool:
        """Take the answer to an earlier question. Return False when another tool has asked it."""
        found = ordo_codecs.decode_any(answer)
        asked = None if found is None else self._questions.pop(found[1].correlation_id, None)
        if asked is None:
            return False
        connection, correlation_id = asked
        self._answer(connection, correlation_id, OperatorStatus.OK, answer)
        return True

    # -- the slow tick ---------------------------------------------------------------------------------------------

    def work(self, now_ms: int) -> None:
        """Run one slow tick: take at most one request of each connection."""
        for connection, publication, error in self._asked.take():
            if error is None and self._connections.get(connection.id) is connection:
                connection.publication = publication
            elif error is None:
                publication.close()
            else:
                self._drop(connection)
        for connection in list(self._connections.values()):
            if connection.image.is_closed or now_ms > connection.deadline_ms:
                self._drop(connection)
            elif connection.publication is not None and connection.publication.is_connected:
                self._advance(connection, connection.publication, now_ms)

    def _advance(self, connection: Connection, publication: ExclusivePublication, now_ms: int) -> None:
        if connection.state is ConnectionState.CONNECTING:
            self._decide(connection, now_ms)
        if not connection.is_told and connection.state is not ConnectionState.CONNECTING:
            is_open = connection.state is ConnectionState.OPEN
            connection.deadline_ms = now_ms + (SILENCE_MAX_MS if is_open else ENDING_MS)
            connection.answers.append(self._connected(connection))
            connection.is_told = True
        if connection.requests and not connection.answers:
            self._carry_out(connection, connection.requests.popleft())
        while connection.answers and publication.offer(connection.answers[0]) > 0:
            connection.answers.popleft()

    def _decide(self, connection: Connection, now_ms: int) -> None:
        assert self._authenticator is not None
        self._authenticator.on_connected_session(connection, now_ms)
        if connection.state is ConnectionState.OPEN:
            rights = self._authenticator.rights_of(connection.principal)
            connection.is_operator = Right.OPERATOR in rights
            if not connection.is_operator and Right.LOG not in rights:
                connection.refuse(NO_ROLE_TO_LOOK)
        if connection.state is ConnectionState.ENDING:
            self._host.on_invalid_request(f"operators: {connection.host} was refused: {connection.text}")

    def _connected(self, connection: Connection) -> bytes:
        return ordo_codecs.OPERATOR_CONNECTED.encode(
            correlation_id=connection.correlation_id,
            connection_id=connection.id,
            member_id=self._host.member_id,
            status=connection.status,
            text=connection.text.encode(),
        )

    def _drop(self, connection: Connection) -> None:
        self._connections.pop(connection.id, None)
        if connection.publication is not None:
            connection.publication.close()
        for question_id in [key for key, asked in self._questions.items() if asked[0] is connection]:
            del self._questions[question_id]

    # -- orders ----------------------------------------------------------------------------------------------------

    def _carry_out(self, connection: Connection, request: records.OperatorRequest) -> None:
        answer = self._answer
        if request.order == OperatorOrder.LOOK:
            answer(connection, request.correlation_id, OperatorStatus.OK, _json(self._answers.look()))
        elif not connection.is_operator and not _asks_for_members(request):
            answer(connection, request.correlation_id, OperatorStatus.NOT_ALLOWED, NO_ROLE.encode())
        elif request.order == OperatorOrder.SKIPPED:
            answer(connection, request.correlation_id, OperatorStatus.OK, _json(self._answers.list_skipped()))
        elif request.order == OperatorOrder.DETAILS:
            answer(connection, request.correlation_id, OperatorStatus.OK, _json(self._answers.describe()))
        elif request.order == OperatorOrder.TOGGLE:
            self._set_toggle(connection, request)
        elif request.order == OperatorOrder.ASK:
            self._ask(connection, request)
        else:
            text = f"order={request.order}: this member knows no such order; is it of an older version?"
            answer(connection, request.correlation_id, OperatorStatus.REFUSED, text.encode())

    def _set_toggle(self, connection: Connection, request: records.OperatorRequest) -> None:
        wanted, expected = request.value, request.expected
        names_member = is_transfer(wanted) and (transfer_target(wanted) or 0) < 1 << 31
        is_known = wanted in TOGGLES_WANTED or names_member or successor_of(wanted) > 0
        if self._authenticator is None:
            self._answer(connection, request.correlation_id, OperatorStatus.NOT_ALLOWED, UNAUTHENTICATED.encode())
        elif not is_known or expected not in TOGGLES_EXPECTED:
            text = f"toggle={wanted} expected={expected}: there is no such order"
            self._answer(connection, request.correlation_id, OperatorStatus.REFUSED, text.encode())
        else:
            found = self._toggle.value
            if self._toggle.compare_and_set(expected, wanted):
                found = expected
                self._announce(connection, _toggle_name(wanted))
            self._answer(connection, request.correlation_id, OperatorStatus.OK, b"", found)

    def _ask(self, connection: Connection, request: records.OperatorRequest) -> None:
        refusal, status = "", OperatorStatus.REFUSED
        try:
            found = ordo_codecs.decode_any(request.question)
        except DecodeError as error:
            found, refusal = None, error.message
        table, values = found or _NO_QUESTION
        if table not in QUESTIONS:
            refusal = refusal or "there is no such question"
        elif self._authenticator is None and table not in LOOKS:
            refusal, status = UNAUTHENTICATED, OperatorStatus.NOT_ALLOWED
        elif table is ordo_codecs.MEMBERSHIP_REQUEST and values.change not in set(MembershipChange):
            refusal = f"change={values.change}: there is no such change"
        if refusal:
            self._answer(connection, request.correlation_id, status, refusal.encode())
            return
        if table not in LOOKS:
            self._announce(connection, table.name)
        question_id = self._client.next_correlation_id()
        self._questions[question_id] = connection, request.correlation_id
        answer = self._answers.answer_question(table, values._replace(correlation_id=question_id))
        if answer is not None:
            self.take_answer(answer)

    def _announce(self, connection: Connection, order: str) -> None:
        name = connection.principal.decode(errors="replace")
        self._host.announce("cluster.order", f"operator {name!r} at {connection.host}: {order}")

    def _answer(
        self, connection: Connection, correlation_id: int, status: OperatorStatus, payload: bytes, value: int = 0
    ) -> None:
        if len(payload) > PAYLOAD_BYTES_MAX:
            status, payload = OperatorStatus.REFUSED, b"the answer is too long; use --config on the member's machine"
        connection.answers.append(
            ordo_codecs.OPERATOR_RESPONSE.encode(
                correlation_id=correlation_id,
                value=value,
                member_id=self._host.member_id,
                status=status,
                payload=payload,
            )
        )


def _toggle_name(wanted: int) -> str:
    if successor_of(wanted):
        return "SUCCESSION"
    return "TRANSFER" if is_transfer(wanted) else ControlToggle(wanted).name


def _asks_for_members(request: records.OperatorRequest) -> bool:
    try:
        found = ordo_codecs.decode_any(request.question) if request.order == OperatorOrder.ASK else None
    except DecodeError:
        return False
    return found is not None and found[0] is codecs.CLUSTER_MEMBERS_QUERY


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
