"""An operator's connections to members of a cluster, from any machine (docs/ARCHITECTURE.md, Operators).

    CONNECTING  to a member's ingress
    ASKING      the member is to open a connection
    OPEN        requests are answered
    REFUSED     by the member, for good

A member that is lost is connected to again. Whatever was asked of it is then without an answer: nothing is sent twice.
So is one that leaves UNANSWERED_MAX questions in a row without an answer: one that was killed and is back before its
connection counts as lost hears the stream to the process before it, and knows nothing of the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.ordo_codecs import OperatorOrder, OperatorStatus
from ordo.cluster.wire.streams import INGRESS_STREAM_ID, OPERATOR_STREAM_ID
from ordo.runtime.closing import Closing
from ordo.runtime.errors import (
    ClusterError,
    ClusterTimeoutError,
    DecodeError,
    NotPermittedError,
    OrdoError,
    OutcomeUnknownError,
)
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.reporting.output import printable
from ordo.transport.client.client_transport import ClientTransport

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.transport.streams.publication import ExclusivePublication

MEMBERS_MAX = 64
"""So many members are talked to, whatever a cluster names."""
UNANSWERED_MAX = 2
ASK_AGAIN_NS = 1_500_000_000
PARK_NS = 1_000_000
SILENT = "it does not answer: it is down, does not reach this machine (see --egress), or is of an older release"
INGRESS = "aeron:udp?term-length=64k|endpoint="


class LinkState(Enum):
    """The stage of the connection to one member."""

    CONNECTING = auto()
    ASKING = auto()
    OPEN = auto()
    REFUSED = auto()


class Response(NamedTuple):
    """A member's answer."""

    status: OperatorStatus
    value: int
    payload: bytes


class MemberLook(NamedTuple):
    """A member's report of itself; a number that it did not tell is -1."""

    values: dict[str, int]
    counters: dict[int, int]
    """Keyed by type id (ordo.cluster.wire.counters.counter_types)."""
    version: str = ""

    def get(self, name: str) -> int:
        return self.values.get(name, NULL_VALUE)

    def counter(self, type_id: int) -> int:
        return self.counters.get(type_id, NULL_VALUE)


@dataclass(slots=True, eq=False)
class _Link:
    """The connection to one member."""

    endpoint: str
    registration_id: int
    publication: ExclusivePublication | None = None
    state: LinkState = LinkState.CONNECTING
    correlation_id: int = NULL_VALUE
    connection_id: int = NULL_VALUE
    asked_ns: int = 0
    trouble: str = "it does not accept a connection"
    kind: type[ClusterError] = ClusterTimeoutError
    """The class of the error that is raised."""
    waiting: dict[int, Response | None] = field(default_factory=dict)
    unanswered_count: int = 0
    """Questions in a row whose time was up before an answer came."""


class OperatorClient(Closing):
    """A client of operators, which reaches members by their ingress `host:port`.

    It has no thread: everything happens in its calls.

    `egress` is the address of this machine that members answer to; port 0 takes a free one. They answer only the host
    that they hear. Errors of its calls: NotPermittedError where credentials do not suffice, ClusterTimeoutError where a
    member does not answer, OutcomeUnknownError where that leaves open whether an order was carried out, ClusterError
    with the member's reason where it refuses.
    """

    def __init__(
        self,
        endpoints: Iterable[str],
        *,
        egress: str,
        credentials: bytes = b"",
        transport: ClientTransport | None = None,
    ) -> None:
        self._credentials = credentials
        self._transport = transport or ClientTransport.embedded(name="operator")
        self._client = self._transport.client
        self._secret = self._transport.random.secret("operator")
        self._links: dict[str, _Link] = {}
        try:
            self._subscription = self._client.add_subscription(
                f"aeron:udp?endpoint={egress}|rejoin=false", OPERATOR_STREAM_ID
            )
            for endpoint in endpoints:
                self.add(endpoint)
        except BaseException:
            self.close()
            raise

    @property
    def endpoints(self) -> list[str]:
        """The members that are talked to."""
        return list(self._links)

    def add(self, endpoint: str) -> None:
        """Talk to one more member."""
        if endpoint not in self._links and len(self._links) < MEMBERS_MAX:
            self._links[endpoint] = _Link(endpoint, self._begin(endpoint))

    def _begin(self, endpoint: str) -> int:
        return self._client.async_add_exclusive_publication(f"{INGRESS}{endpoint}", INGRESS_STREAM_ID)

    # -- requests ----------------------------------------------------------------------------------------------------

    def request(
        self,
        endpoint: str,
        order: OperatorOrder,
        *,
        value: int = 0,
        expected: int = 0,
        question: bytes = b"",
        timeout_s: float,
    ) -> Response:
        """Ask one member, and return its answer. It is sent once at most."""
        link = self._links[endpoint]
        deadline_ns = self._deadline(timeout_s)
        self._drive_until(lambda: link.state in (LinkState.OPEN, LinkState.REFUSED), deadline_ns)
        correlation_id = self._send(link, order, value, expected, question)
        if correlation_id is None:
            raise self._unreached(link)
        self._drive_until(lambda: link.waiting.get(correlation_id, _LOST) is not None, deadline_ns)
        response = self._take_response(link, correlation_id)
        if response is None:
            raise OutcomeUnknownError(f"{endpoint} was asked, and did not answer within {timeout_s:g} s")
        return _checked(response, endpoint)

    def look(
        self, timeout_s: float, is_enough: Callable[[dict[str, MemberLook | OrdoError]], bool] | None = None
    ) -> dict[str, MemberLook | OrdoError]:
        """Return each member's report of itself by endpoint, or why it could not be asked.

        Waits for the slowest, unless `is_enough` is content with those that have answered.
        """
        deadline_ns = self._deadline(timeout_s)
        asked: dict[str, int] = {}
        found: dict[str, MemberLook | OrdoError] = {}

        def is_done() -> bool:
            before = len(found)
            for link in self._links.values():
                if link.endpoint not in asked and link.state is LinkState.OPEN:
                    correlation_id = self._send(link, OperatorOrder.LOOK, 0, 0, b"")
                    if correlation_id is not None:
                        asked[link.endpoint] = correlation_id
                if link.endpoint not in found and self._has_answered(link, asked):
                    found[link.endpoint] = self._take_look(link, asked.get(link.endpoint))
            is_new = len(found) > before
            return len(found) == len(self._links) or (is_new and is_enough is not None and is_enough(found))

        self._drive_until(is_done, deadline_ns)
        return {
            one.endpoint: found.get(one.endpoint) or self._take_look(one, asked.get(one.endpoint))
            for one in self._links.values()
        }

    @staticmethod
    def _has_answered(link: _Link, asked: dict[str, int]) -> bool:
        if link.endpoint not in asked:
            return link.state is LinkState.REFUSED
        return link.waiting.get(asked[link.endpoint], _LOST) is not None

    def _take_look(self, link: _Link, correlation_id: int | None) -> MemberLook | OrdoError:
        response = None if correlation_id is None else self._take_response(link, correlation_id)
        if response is None:
            return self._unreached(link)
        try:
            return parse_look(_checked(response, link.endpoint).payload)
        except OrdoError as error:
            return error

    def _take_response(self, link: _Link, correlation_id: int) -> Response | None:
        """Take the answer to a question; None if its time is up, for a member that may be another process by now."""
        response = link.waiting.pop(correlation_id, None)
        link.unanswered_count = 0 if response is not None else link.unanswered_count + 1
        if link.unanswered_count >= UNANSWERED_MAX and link.state is LinkState.OPEN:
            self._connect_again(link)
            link.trouble = SILENT
        return response

    @staticmethod
    def _unreached(link: _Link) -> OrdoError:
        return link.kind(f"{link.endpoint}: {link.trouble}")

    def _send(self, link: _Link, order: OperatorOrder, value: int, expected: int, question: bytes) -> int | None:
        """Return the correlation id, or None when it cannot be sent now."""
        if link.state is not LinkState.OPEN or link.publication is None:
            return None
        correlation_id = self._secret.getrandbits(codecs.SECRET_ID_BITS)
        message = ordo_codecs.OPERATOR_REQUEST.encode(
            connection_id=link.connection_id,
            correlation_id=correlation_id,
            order=order,
            value=value,
            expected=expected,
            question=question,
        )
        if link.publication.offer(message) <= 0:
            return None
        link.waiting[correlation_id] = None
        return correlation_id

    # -- the connections ---------------------------------------------------------------------------------------------

    def _deadline(self, timeout_s: float) -> int:
        return int(self._transport.clock.now() + timeout_s * SECOND_NS)

    def _drive_until(self, is_done: Callable[[], bool], deadline_ns: int) -> None:
        while not is_done():
            now_ns = self._transport.drive()
            if now_ns >= deadline_ns:
                return
            received = self._subscription.poll_messages(self._on_message)
            for link in self._links.values():
                self._work(link, now_ns)
            if not received:
                self._transport.park(PARK_NS)

    def _work(self, link: _Link, now_ns: int) -> None:
        publication = link.publication
        if publication is None:
            try:
                link.publication = self._client.get(link.registration_id)
            except OrdoError as error:
                link.state, link.trouble = LinkState.REFUSED, error.message
        elif publication.is_closed or (link.state is not LinkState.CONNECTING and not publication.is_connected):
            if link.state is not LinkState.REFUSED:
                self._connect_again(link)
        elif publication.is_connected and (
            link.state is LinkState.CONNECTING
            or (link.state is LinkState.ASKING and now_ns - link.asked_ns > ASK_AGAIN_NS)
        ):
            self._ask_to_open(link, publication, now_ns)

    def _connect_again(self, link: _Link) -> None:
        if link.publication is not None:
            link.publication.close()
        link.publication, link.state, link.trouble = None, LinkState.CONNECTING, "the connection was lost"
        link.waiting.clear()
        link.unanswered_count = 0
        link.registration_id = self._begin(link.endpoint)

    def _ask_to_open(self, link: _Link, publication: ExclusivePublication, now_ns: int) -> None:
        endpoint = self._subscription.resolved_endpoint
        if endpoint is None:
            return
        link.correlation_id = self._secret.getrandbits(codecs.SECRET_ID_BITS)
        message = ordo_codecs.OPERATOR_CONNECT.encode(
            correlation_id=link.correlation_id,
            response_port=int(endpoint.rpartition(":")[2]),
            credentials=self._credentials,
        )
        if publication.offer(message) > 0:
            link.state, link.asked_ns = LinkState.ASKING, now_ns
            link.trouble = SILENT

    def _on_message(self, message: bytes, _header: object) -> None:
        try:
            found = ordo_codecs.decode(message)
        except DecodeError:
            return
        if found is None:
            return
        table, values = found
        for link in self._links.values():
            if table is ordo_codecs.OPERATOR_CONNECTED and link.correlation_id == values.correlation_id:
                self._on_connected(link, values)
            elif table is ordo_codecs.OPERATOR_RESPONSE and values.correlation_id in link.waiting:
                link.waiting[values.correlation_id] = Response(_status(values.status), values.value, values.payload)

    @staticmethod
    def _on_connected(link: _Link, values: records.OperatorConnected) -> None:
        if link.state is not LinkState.ASKING:
            return
        link.connection_id = values.connection_id
        if values.status == OperatorStatus.OK:
            link.state = LinkState.OPEN
        else:
            link.state, link.trouble, link.kind = LinkState.REFUSED, _text(values.text), NotPermittedError

    def close(self) -> None:
        """End the connections. Idempotent; in a process that was forked from the client's it does nothing."""
        self._transport.close()


_LOST = Response(OperatorStatus.REFUSED, 0, b"the connection was lost")


def _status(value: int) -> OperatorStatus:
    try:
        return OperatorStatus(value)
    except ValueError:
        return OperatorStatus.REFUSED


def _text(payload: bytes) -> str:
    """Return a line of another machine, fit to be printed."""
    return printable(payload[:400].decode("utf-8", "replace"))


def _checked(response: Response, endpoint: str) -> Response:
    if response.status is OperatorStatus.OK:
        return response
    kind = NotPermittedError if response.status is OperatorStatus.NOT_ALLOWED else ClusterError
    raise kind(f"{endpoint}: {_text(response.payload)}")


def parse_object(payload: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises DecodeError."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"a member's answer is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise DecodeError("a member's answer is no JSON object")
    return found


def parse_look(payload: bytes) -> MemberLook:
    """Return the values. Raises DecodeError if a member sent anything but numbers for them."""
    found = parse_object(payload)
    counters, version = found.pop("counters", {}), str(found.pop("version", ""))
    try:
        by_type = {int(kind): int(value) for kind, value in counters.items()}
        return MemberLook({name: int(value) for name, value in found.items()}, by_type, _text(version.encode()))
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise DecodeError(f"a member's answer has no numbers where they belong: {error}") from None
