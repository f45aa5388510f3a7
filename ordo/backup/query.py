"""Asks one member after the other what there is to copy: BackupQuery (cluster-consensus.md §22), over the ingress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.wire import codecs
from ordo.cluster.wire.members import Member, parse_members
from ordo.cluster.wire.streams import CONSENSUS_STREAM_ID, INGRESS_STREAM_ID, SERVICES_MAX
from ordo.runtime.errors import ConfigurationError, DecodeError, NotPermittedError, OrdoError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.client.pending_registrations import PendingRegistrations
from ordo.transport.uri import ChannelUri, udp

if TYPE_CHECKING:
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.image import Header
    from ordo.transport.streams.publication import ExclusivePublication
    from ordo.transport.streams.subscription import Subscription

ANSWER_TIMEOUT_NS = 2_000_000_000
RESEND_INTERVAL_NS = 250_000_000


class OfferedSnapshot(NamedTuple):
    """A snapshot that a member has, by the ids of its recordings there."""

    log_position: int
    leadership_term_id: int
    term_base_log_position: int
    timestamp: int
    service_recording_ids: tuple[int, ...]
    """Keyed by service id."""
    module_recording_id: int


class Description(NamedTuple):
    """What one member has said."""

    member_id: int
    leader_member_id: int
    members: tuple[Member, ...]
    snapshot: OfferedSnapshot | None

    @property
    def archive(self) -> str | None:
        """host:port of the archive of the member that said this."""
        return next((one.archive for one in self.members if one.id == self.member_id), None)


class MemberQuery:
    """One question at a time, to one member. `work` every duty cycle, until `answer` or `problem` is there."""

    def __init__(
        self,
        client: TransportClient,
        address: str,
        credentials: bytes,
        now_ns: int,
        log_position: int = NULL_VALUE,
    ) -> None:
        """`address`: the member's ingress, host:port. Raises ConfigurationError, TransportError.

        `log_position`: ask for the newest snapshot at or below it, or the oldest; -1: for the newest of all.
        """
        self.address = address
        self.answer: Description | None = None
        self.problem: OrdoError | None = None
        self._client = client
        self._credentials = credentials
        self._log_position = log_position
        self._correlation_id = client.next_correlation_id()
        self._deadline_ns = now_ns + ANSWER_TIMEOUT_NS
        self._resend_ns = now_ns
        self._subscription: Subscription | None = None
        self._publication: ExclusivePublication | None = None
        self._asked: PendingRegistrations[str] = PendingRegistrations(client)
        response = ChannelUri.parse(ArchiveClientSettings.at(address).response_channel).endpoint
        assert response is not None, "an address of a member is one of UDP"
        self._response = response
        answers = udp(endpoint=response._replace(port=0))
        self._asked.add(client.async_add_subscription(answers, CONSENSUS_STREAM_ID), "")
        channel = f"aeron:udp?endpoint={address}|term-length=64k|alias=backup-query"
        self._asked.add(client.async_add_exclusive_publication(channel, INGRESS_STREAM_ID), "ingress")

    @property
    def is_done(self) -> bool:
        return self.answer is not None or self.problem is not None

    def work(self, now_ns: int) -> int:
        """One duty cycle; returns the number of things done."""
        if self.is_done:
            return 0
        for purpose, resource, error in self._asked.take():
            if error is not None:
                self.problem = error
            elif purpose:
                self._publication = resource
            else:
                self._subscription = resource
        if now_ns >= self._resend_ns and self._send():
            self._resend_ns = now_ns + RESEND_INTERVAL_NS
        count = 0 if self._subscription is None else self._subscription.poll_messages(self._on_message, 10)
        if not self.is_done and now_ns >= self._deadline_ns:
            self.problem = ConfigurationError(
                f"{self.address} does not answer: is it the ingress (the first port) of a member that runs?"
            )
        return count

    def _send(self) -> bool:
        publication, subscription = self._publication, self._subscription
        if publication is None or subscription is None or not publication.is_connected:
            return False
        if subscription.resolved_endpoint is None:
            return False
        port = int(subscription.resolved_endpoint.rpartition(":")[2])
        query = codecs.BACKUP_QUERY.encode(
            correlation_id=self._correlation_id,
            response_stream_id=CONSENSUS_STREAM_ID,
            version=codecs.CLIENT_PROTOCOL_VERSION,
            log_position=self._log_position,
            response_channel=udp(endpoint=self._response._replace(port=port)),
            encoded_credentials=self._credentials,
        )
        return publication.offer(query) > 0

    def _on_message(self, payload: bytes, header: Header) -> None:
        try:
            found = codecs.decode(payload)
            if found is not None and found[1].correlation_id == self._correlation_id:
                self._on_answer(*found)
        except (DecodeError, ConfigurationError, AttributeError) as error:
            self.problem = DecodeError(f"{self.address} answered something else than a BackupResponse: {error}")

    def _on_answer(self, table: Any, values: Any) -> None:
        if table is codecs.BACKUP_RESPONSE:
            self.answer = Description(
                values.member_id,
                values.leader_member_id,
                parse_members(values.cluster_members),
                _snapshot_of(values.snapshots),
            )
        elif table is codecs.SESSION_EVENT:
            self.problem = NotPermittedError(f"{self.address}: {values.detail}; see --token-file")
        elif table is codecs.CHALLENGE:
            self.problem = NotPermittedError(
                f"{self.address}: its authenticator challenges, which a backup cannot answer; have it decide by the "
                "credentials"
            )

    def close(self) -> None:
        """Give the streams up. Idempotent."""
        for _, resource, _ in self._asked.take():
            if resource is not None:
                resource.close()
        for stream in (self._subscription, self._publication):
            if stream is not None:
                stream.close()
        self._subscription = self._publication = None


def _snapshot_of(rows: list[Any]) -> OfferedSnapshot | None:
    """Return the set of all services and the module. Raises DecodeError where the rows are something else."""
    if not rows:
        return None
    by_service = {row.service_id: row for row in rows}
    services = range(len(by_service) - 1)
    is_set = len(by_service) == len(rows) and 1 <= len(services) <= SERVICES_MAX
    if not is_set or set(by_service) != {*services, NULL_VALUE} or len({row.log_position for row in rows}) != 1:
        raise DecodeError(f"snapshots of services {sorted(by_service)}, expected 0, 1, ... and the module")
    module = by_service[NULL_VALUE]
    return OfferedSnapshot(
        module.log_position,
        module.leadership_term_id,
        module.term_base_log_position,
        module.timestamp,
        tuple(by_service[one].recording_id for one in services),
        module.recording_id,
    )
