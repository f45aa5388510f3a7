"""Services of this member that are halted because it lacks the code of their version in force (docs/UPGRADES.md).

The member goes on following and voting with its log. It hands over where it leads, and takes the newest snapshot that a
quorum holds alike, once that lies behind the first place where one of its services stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.module.state.host import MemberHost
from ordo.cluster.wire.app_version import NO_VERSION, format_version, format_versions
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.snapshot_fetch import FetchedSnapshot, SnapshotFetch
    from ordo.cluster.module.snapshots.snapshot_reports import HeldSnapshot
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.cluster.wire import records
    from ordo.cluster.wire.version_rows import Code
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer


class Lack(NamedTuple):
    """The position at which a service is halted, and the version that it needs."""

    log_position: int
    app_version: int


NO_LACK = Lack(NULL_VALUE, NO_VERSION)


class VersionLacks:
    """The lacks of one member's services."""

    def __init__(
        self, host: MemberHost, core: ConsensusCore, sequencer: Sequencer, store: StateStore, service_count: int
    ) -> None:
        self._host = host
        self._core = core
        self._sequencer = sequencer
        self._store = store
        self._service_count = service_count
        self._lacks: dict[int, Lack] = {}

    def of(self, service_id: int) -> Lack:
        """Return the lack of a service; NO_LACK for one that runs."""
        return self._lacks.get(service_id, NO_LACK)

    @property
    def first(self) -> Lack | None:
        """The lack of the service that is halted at the lowest position."""
        return min(self._lacks.values(), default=None)

    def on_service_lack(self, service_id: int, values: records.ServiceLack, codes: list[Code]) -> None:
        """Note that a service is halted, and has code of these versions."""
        self._lacks[service_id] = Lack(values.log_position, values.app_version)
        name, table = "the service", "[service]"
        if self._service_count > 1:
            name, table = f"service {service_id}", "[[services]]"
        self._host.record_error(
            f"{name} stands still at log position {values.log_position}: from there on version "
            f"{format_version(values.app_version)} is in force, and this member has code of "
            f"{format_versions(code.app_version for code in codes)} only; give it that code too ({table} versions), or "
            "have the cluster take a snapshot from behind that stretch (`ordo cluster snapshot`), which this member "
            "then takes"
        )

    def work(self, fetch: SnapshotFetch, newest: HeldSnapshot | None, now_ns: int, holders: list[int]) -> None:
        """Take one step towards a snapshot from after the stretch.

        `newest`: what a quorum holds alike, by `holders`.
        """
        lack = self.first
        if lack is None:
            return
        if self._core.is_leading:
            self._host.transfer.begin(None, now_ns)
            return
        if newest is None or not lack.log_position < newest.log_position <= self._sequencer.append_position:
            return
        if fetch.begin_from(holders, newest, self._core.leader_member_id, now_ns):
            self._host.announce(
                "cluster.snapshot-fetch",
                f"takes the state at log position {newest.log_position} of the other members, for want of code of "
                f"version {format_version(lack.app_version)}",
            )

    def install(self, fetched: FetchedSnapshot) -> bool:
        """Put the snapshot before this member's own; the log stays. Return False where the snapshot is not for that."""
        lack, position = self.first, fetched.entry.log_position
        if lack is None or position <= lack.log_position:
            return False
        self._store.replace_snapshots(fetched.entry, fetched.digest, position)
        self._host.start_again(f"goes on from the other members' state at log position {position}")
        return True
