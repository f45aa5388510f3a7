"""Asks the other standbys of one primary how they are, from within a running one, and for an operator's command."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.admin.local_member import LocalMember
from ordo.cluster.admin.remote import RemoteCluster
from ordo.cluster.client.operator import INGRESS, parse_look
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.ordo_codecs import OperatorOrder, OperatorStatus
from ordo.cluster.wire.streams import INGRESS_STREAM_ID, OPERATOR_STREAM_ID
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ClusterError, ClusterTimeoutError, NotPermittedError, OrdoError, StorageMissingError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.reporting.output import printable
from ordo.standby.folder import read_hold, read_last_term
from ordo.standby.holds import Seen, parse_seen
from ordo.transport.client.pending_registrations import PendingRegistrations
from ordo.transport.secure.settings import Encryption
from ordo.transport.uri import ChannelUri, udp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ordo.cluster.settings.config import NodeSettings
    from ordo.cluster.wire import records
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import ExclusivePublication
    from ordo.transport.streams.subscription import Subscription

ASK_INTERVAL_NS = SECOND_NS // 2
PATIENCE_NS = 3 * SECOND_NS
"""One that does not answer for so long is connected to anew, and counts as silent."""


class Other(NamedTuple):
    """Another standby of the same primary, as node.toml has it."""

    member_id: int
    ingress: str


def others_of(config: NodeSettings) -> tuple[Other, ...]:
    """Return the standbys beside this one."""
    return tuple(Other(one.id, one.ingress) for one in config.standbys if one.id != config.node.member_id)


def group_of(config: NodeSettings) -> int:
    """Return a number for the ids in [[standbys]]: majorities of different ones need have nobody in common."""
    return zlib.crc32(" ".join(str(one) for one in sorted(one.id for one in config.standbys)).encode())


class Link:
    """The connection to one other standby. `work` with each tick."""

    def __init__(self, client: TransportClient, address: str, credentials: bytes, draw_id: Callable[[], int]) -> None:
        self.address = address
        self.seen: Seen | None = None
        """What it said last; None while it does not answer."""
        self.problem = ""
        self._client = client
        self._credentials = credentials
        self._draw_id = draw_id
        self._subscription: Subscription | None = None
        self._publication: ExclusivePublication | None = None
        self._asked: PendingRegistrations[bool] = PendingRegistrations(client)
        self._connection_id: int | None = None
        self._correlation_id = 0
        self._is_asked = False
        self._failure: OrdoError | None = None
        self._due_ns = 0
        self._deadline_ns = 0

    def work(self, now_ns: int) -> None:
        """Run one duty cycle."""
        try:
            if self._deadline_ns == 0:
                if now_ns < self._due_ns:
                    return
                self._begin(now_ns)
            self._take_streams()
            if now_ns >= self._due_ns and not self._is_asked:
                self._ask()
            if self._subscription is not None:
                self._subscription.poll_messages(lambda message, _: self._on_message(message, now_ns), 10)
            if self._failure is not None:
                raise self._failure
            if now_ns >= self._deadline_ns:
                raise ClusterTimeoutError(f"{self.address} does not answer")
        except OrdoError as error:
            self.problem, self.seen, self._failure = error.message, None, None
            self.close()
            self._due_ns, self._deadline_ns = now_ns + ASK_INTERVAL_NS, 0

    def _begin(self, now_ns: int) -> None:
        self._deadline_ns = now_ns + PATIENCE_NS
        response = ChannelUri.parse(ArchiveClientSettings.at(self.address).response_channel).endpoint
        assert response is not None, "an address of a standby is one of UDP"
        channel = f"{udp(endpoint=response._replace(port=0))}|rejoin=false"
        self._asked.add(self._client.async_add_subscription(channel, OPERATOR_STREAM_ID), False)
        self._asked.add(
            self._client.async_add_exclusive_publication(f"{INGRESS}{self.address}", INGRESS_STREAM_ID), True
        )

    def _take_streams(self) -> None:
        for is_publication, resource, error in self._asked.take():
            if error is not None:
                raise error
            if is_publication:
                self._publication = resource
            else:
                self._subscription = resource

    def _ask(self) -> None:
        """Ask for a connection, or how it is; the stream is reliable, so nothing is asked twice."""
        publication, subscription = self._publication, self._subscription
        endpoint = None if subscription is None else subscription.resolved_endpoint
        if publication is None or endpoint is None or not publication.is_connected:
            return
        self._correlation_id = self._draw_id()
        if self._connection_id is None:
            message = ordo_codecs.OPERATOR_CONNECT.encode(
                correlation_id=self._correlation_id,
                response_port=int(endpoint.rpartition(":")[2]),
                credentials=self._credentials,
            )
        else:
            message = ordo_codecs.OPERATOR_REQUEST.encode(
                connection_id=self._connection_id,
                correlation_id=self._correlation_id,
                order=OperatorOrder.LOOK,
                value=0,
                expected=0,
                question=b"",
            )
        self._is_asked = publication.offer(message) > 0

    def _on_message(self, message: bytes, now_ns: int) -> None:
        try:
            found = ordo_codecs.decode(message)
            if found is None:
                return
            table, values = found
            if table is ordo_codecs.OPERATOR_CONNECTED:
                self._on_connected(values, now_ns)
            elif table is ordo_codecs.OPERATOR_RESPONSE:
                self._on_response(values, now_ns)
        except OrdoError as error:
            self._failure = error

    def _on_connected(self, values: records.OperatorConnected, now_ns: int) -> None:
        if self._is_answer(values.correlation_id, values.status, values.text, now_ns):
            self._connection_id = values.connection_id

    def _on_response(self, values: records.OperatorResponse, now_ns: int) -> None:
        if self._is_answer(values.correlation_id, values.status, values.payload, now_ns):
            self._due_ns = now_ns + ASK_INTERVAL_NS
            self.seen = parse_seen(parse_look(values.payload))
            self.problem = "" if self.seen is not None else f"{self.address} is no standby of several"

    def _is_answer(self, correlation_id: int, status: int, text: bytes, now_ns: int) -> bool:
        """Return whether this answers what was asked last. Raises NotPermittedError where that is refused."""
        if correlation_id != self._correlation_id:
            return False
        if status != OperatorStatus.OK:
            raise NotPermittedError(f"{self.address}: {printable(text[:400].decode('utf-8', 'replace'))}")
        self._deadline_ns, self._is_asked = now_ns + PATIENCE_NS, False
        return True

    def close(self) -> None:
        """Give the streams up. Idempotent."""
        for _, resource, _ in self._asked.take():
            if resource is not None:
                resource.close()
        self._asked = PendingRegistrations(self._client)
        for stream in (self._subscription, self._publication):
            if stream is not None:
                stream.close()
        self._subscription = self._publication = self._connection_id = None
        self._is_asked = False


class Others:
    """Asks each other standby, twice a second. `work` with each tick."""

    def __init__(
        self,
        client: TransportClient,
        others: Iterable[Other],
        credentials: bytes,
        draw_id: Callable[[], int],
        report: Callable[[str], None],
    ) -> None:
        self._links = {one.member_id: Link(client, one.ingress, credentials, draw_id) for one in others}
        self._report = report
        self._told: dict[int, str] = {}

    def work(self, now_ns: int) -> dict[int, Seen]:
        """Run one duty cycle; return what those that answer have said last."""
        seen: dict[int, Seen] = {}
        for member_id, link in self._links.items():
            link.work(now_ns)
            problem = link.problem
            if link.seen is not None and link.seen.member_id == member_id:
                seen[member_id] = link.seen
            elif link.seen is not None:
                problem = (
                    f"{link.address} is the ingress of {link.seen.member_id}, and [[standbys]] has it as {member_id}"
                )
            if problem and problem != self._told.get(member_id):
                self._report(f"standby {member_id}: {problem}")
            self._told[member_id] = problem
        return seen

    def close(self) -> None:
        """Give up what is asked. Idempotent."""
        for link in self._links.values():
            link.close()


class Siblings(Closing):
    """The other standbys, as an operator's command asks them. A context; leaving it closes the connections."""

    def __init__(self, config: NodeSettings, credentials: bytes) -> None:
        self._others = others_of(config)
        self._credentials = credentials
        encryption = config.encryption
        self._keys = Encryption(str(encryption.key_file), str(encryption.trusted_file)) if encryption.is_on else None
        self._open: dict[int, RemoteCluster] = {}

    def ask(self, timeout_s: float) -> dict[int, Seen | OrdoError]:
        """Return what each says of itself, or why it cannot be asked; a name that is not known concerns it alone."""
        return {one.member_id: self._ask(one, timeout_s) for one in self._others}

    def _ask(self, other: Other, timeout_s: float) -> Seen | OrdoError:
        try:
            if other.member_id not in self._open:
                self._open[other.member_id] = RemoteCluster(
                    other.ingress, credentials=self._credentials, encryption=self._keys
                )
            look = self._open[other.member_id].look_at(other.ingress, timeout_s)
            seen = None if isinstance(look, OrdoError) else parse_seen(look)
        except OrdoError as error:
            return error
        if isinstance(look, OrdoError):
            return look
        if seen is None or seen.member_id != other.member_id:
            return ClusterError(f"{other.ingress} is not standby {other.member_id} of several, as [[standbys]] has it")
        return seen

    def close(self) -> None:
        """Close the connections. Idempotent."""
        for one in self._open.values():
            one.close()
        self._open.clear()


def find_own(config: NodeSettings) -> Seen:
    """Return what this machine's standby has written down. Raises ClusterError where its process does not run."""
    counters = LocalMember(config).counters
    try:
        position = counters.value(CounterType.COMMIT_POSITION)
    except StorageMissingError:
        raise ClusterError(
            f"no process follows with {config.node.data_dir}, or it copies a snapshot: of several standbys one is "
            "promoted that runs; start it (`ordo standby run`), or see its log"
        ) from None
    hold, term_id = read_hold(config), read_last_term(config)
    own = Seen(config.node.member_id, True, term_id=term_id, position=position, group=group_of(config))
    return own if hold is None else own._replace(promotion=hold.promotion, candidate_id=hold.candidate_id)
