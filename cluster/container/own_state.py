"""The container's own state, which precedes the service's in a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.runtime.errors import SnapshotError
from ordo.service_api.service import TimeUnit
from ordo.service_api.state_hash import hash_state, implements_state_hash
from ordo.service_api.timers import ServiceTimers

if TYPE_CHECKING:
    from ordo.cluster.container.cluster import ContainerCluster
    from ordo.cluster.container.streams.feeds import ContainerFeeds
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.cluster.container.tables.consumers import ContainerConsumers
    from ordo.cluster.container.tables.message_numbers import MessageNumbers
    from ordo.cluster.container.versions import VersionSwitch


class OwnState:
    """Describes and loads what a container keeps for its service: sessions, timers, requests, consumers, feeds."""

    def __init__(
        self,
        loop: ContainerLoop,
        cluster: ContainerCluster,
        versions: VersionSwitch,
        numbers: MessageNumbers,
        consumers: ContainerConsumers,
        feeds: ContainerFeeds,
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._versions = versions
        self._numbers = numbers
        self._consumers = consumers
        self._feeds = feeds

    def describe(self, log_position: int) -> ServiceSnapshot:
        """Return the state after the record that ends here."""
        loop, consumers, requests = self._loop, self._consumers, self._loop.requests
        return ServiceSnapshot(
            log_position,
            loop.leadership_term_id,
            self._cluster.time_unit or TimeUnit.MILLIS,
            self._versions.in_force,
            tuple(self._cluster.client_sessions),
            tuple(self._cluster.timers.snapshot()),
            tuple(requests.snapshot()),
            tuple(self._numbers.snapshot(loop.sessions)),
            tuple(consumers.table.snapshot()),
            tuple(self._feeds.snapshot()),
            tuple(consumers.instances.snapshot()),
            tuple(consumers.differences.snapshot()),
            tuple(requests.ids.snapshot()),
            requests.ids.is_in_force,
            requests.ids.takes_outputs,
            *loop.sequence.snapshot(),
        )

    def describe_hashed(self, log_position: int) -> ServiceSnapshot:
        """Return the state with the service's own hash of it; without one where the service gives none."""
        service, described = self._loop.service, self.describe(log_position)
        if not implements_state_hash(type(service)):
            return described
        return described._replace(state_hash=digest_of([hash_state(service)]))

    def check_hash(self, told: bytes) -> None:
        """Check that the state which was loaded has the hash that its snapshot told, if it told one.

        Raises SnapshotError: a member copied it from a standby, and has compared that hash alone.
        """
        service = self._loop.service
        if not told or not implements_state_hash(type(service)):
            return
        found = digest_of([hash_state(service)])
        if found != told:
            raise SnapshotError(
                f"the state loaded from the snapshot at position {self._loop.log_position} has hash {found.hex()}, and "
                f"the snapshot, which a standby took, tells {told.hex()}: the service does not write or restore all of "
                "its state; have this member start from an older one with `ordo cluster invalidate-snapshot`"
            )

    def load(self, snapshot: ServiceSnapshot) -> None:
        """Continue from a snapshot. Raises SnapshotError for one of another position than the node's."""
        loop, consumers, requests = self._loop, self._consumers, self._loop.requests
        if snapshot.log_position != loop.log_position:
            raise SnapshotError(
                f"snapshot at position {snapshot.log_position}, the node recovers from {loop.log_position}"
            )
        self._cluster.time_unit = snapshot.time_unit
        self._cluster.timers = ServiceTimers(snapshot.timers)
        requests.restore(snapshot.requests)
        requests.ids.restore(snapshot.request_ids, snapshot.takes_ids, snapshot.takes_output_ids)
        loop.sequence.restore(snapshot.sequence, snapshot.keeps_sequence)
        for session in snapshot.sessions:
            loop.add_session(
                session.cluster_session_id,
                session.response_stream_id,
                session.response_channel,
                session.encoded_principal,
            )
        self._numbers.restore(snapshot.numbers, loop.sessions)
        consumers.table.restore(snapshot.consumers)
        consumers.instances.restore(snapshot.instances)
        consumers.differences.restore(snapshot.differences)
        self._feeds.restore(snapshot.feeds)
