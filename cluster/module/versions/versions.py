"""The versions of the services in force, and how the next ones come into force (docs/UPGRADES.md).

    in force   by the log (ordo.cluster.module.versions.version_log)
    upgrade    an operator asks the leader, for all services or for one; it asks all members what code they have, and
               appends a VersionEvent when every voter has answered that it has the code
    lack       a container of this member has no code of its version in force (cluster.module.versions.version_lacks)

The first record of a leadership term has room for one version, and so has the module's part of a snapshot: they say
that of service 0, the one that clients know. Nothing is decided by it but what a new log begins with, for all services.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.cluster.module.snapshots.snapshot_schedule import NeededSnapshot
from ordo.cluster.module.state.host import AppendingHost
from ordo.cluster.module.versions.version_lacks import VersionLacks
from ordo.cluster.module.versions.version_log import VersionChange, VersionLog, find_change
from ordo.cluster.module.versions.version_survey import VersionSurvey
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import ALL_SERVICES, NO_VERSION, format_version, format_versions, is_of_one_service
from ordo.cluster.wire.levels import describe_want_of_service_versions
from ordo.cluster.wire.streams import MAIN_SERVICE_ID
from ordo.cluster.wire.version_rows import (
    CONVERTS_TIME,
    HANDS_OVER,
    HASHES,
    InForce,
    MemberCode,
    decode_codes,
    encode_in_force,
    encode_levels,
    encode_members,
    encode_services,
    shared_rows,
)
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import Orders, Replication
    from ordo.cluster.module.state.settings import ModuleSettings
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel
    from ordo.cluster.module.versions.skips import Skips
    from ordo.cluster.wire import records
    from ordo.runtime.sbe import Message


class VersionHost(AppendingHost, Protocol):
    """The member whose services they are."""

    def announce(self, event: str, text: str) -> None: ...


class _Upgrade(NamedTuple):
    correlation_id: int
    app_version: int
    service_id: int
    """ALL_SERVICES, or the one that goes over."""
    from_position: int
    """The record that carries it out lies behind this position."""


class Versions:
    """The versions of one member's services."""

    def __init__(
        self,
        host: VersionHost,
        config: ModuleSettings,
        replication: Replication,
        lacks: VersionLacks,
        skips: Skips,
        counters: ModuleCounters,
        levels: ProtocolLevel,
        orders: Orders,
    ) -> None:
        core, contacts = replication.core, replication.contacts
        self._host = host
        self._core = core
        self._sequencer = replication.sequencer
        self._skips = skips
        self._counters = counters
        self._levels = levels
        self._own_id = config.member_id
        self._first_version = config.first_version
        self._answer_tool = orders.answer_tool
        self._needed_snapshot = NeededSnapshot(orders.ask_snapshot)
        self._upgrade: _Upgrade | None = None
        self._committed: VersionChange | None = None
        self.find_conflict: Callable[[int, int], str] = lambda service_id, app_version: ""
        """Returns why the schema of a service's own code of a version does not go with the log's; empty: it does."""
        self.log = VersionLog(config.service_count, skips.known)
        self.lacks = lacks
        self.survey = VersionSurvey(core, contacts, levels, config.member_id, config.service_count, self.lacks.of)
        self.handlers: dict[Message, Callable[[Any, int], None]] = self.survey.handlers

    # -- the log -------------------------------------------------------------------------------------------------------

    def of_first_record(self) -> int:
        """Return the version for a leadership term that begins at the end of this log.

        Raises ClusterError where the log is empty and there is nothing that it could begin with.
        """
        app_version = self.log.at(self._sequencer.append_position)[MAIN_SERVICE_ID] or self._first_version
        if app_version == NO_VERSION:
            raise ClusterError(
                "a new log begins with one version for all services, and there is none that all services of this "
                "member have code of; give it one ([[services]] versions)"
            )
        return app_version

    @property
    def gives_hashes(self) -> bool:
        """Whether the code of all own services that is in force gives hashes of its state."""
        return all(self._can(one, HASHES) for one in self.log.service_ids)

    @property
    def converts_time(self) -> bool:
        """Whether the code of all own services that is in force converts the times of its state."""
        return all(self._can(one, CONVERTS_TIME) for one in self.log.service_ids)

    def _can(self, service_id: int, flag: int) -> bool:
        """Return whether the own code of a service that is in force at the end of the log has a flag."""
        app_version = self.log.change_at(self._sequencer.append_position, service_id).app_version
        codes = self.survey.own.get(service_id, [])
        return any(code.app_version == app_version and code.flags & flag for code in codes)

    def execute(self, record: LogRecord) -> None:
        """Execute a committed VersionEvent, which is never undone, unless it is left out."""
        change = find_change(*record)
        if change is None or change.position in self._skips.known:
            return
        self._host.announce(
            "cluster.version",
            f"version {format_version(change.app_version)} of {self._name(change.service_id)} is in force from "
            f"{change.position} on",
        )
        self._committed = change

    def _name(self, service_id: int) -> str:
        if service_id != ALL_SERVICES:
            return f"service {service_id}"
        return "the service" if len(self.log.service_ids) == 1 else "all services"

    # -- this member's services ----------------------------------------------------------------------------------------

    def on_service_versions(self, service_id: int, values: records.ServiceVersions) -> None:
        """Note that a service's container has started, with this code. Raises DecodeError."""
        self.survey.own[service_id] = decode_codes(values.versions)

    def on_service_lack(self, service_id: int, values: records.ServiceLack) -> None:
        """Note that the container of a service is halted."""
        self.lacks.on_service_lack(service_id, values, self.survey.own.get(service_id, []))

    def on_service_failure(self, values: records.ServiceFailure) -> None:
        """Note that a service is halted at a record, perhaps at the hand-over, and tell the operator."""
        upgrade, committed = self._upgrade, self._committed_of(self._upgrade)
        if upgrade is not None and committed is not None and committed.position == values.log_position:
            self._refuse(
                upgrade,
                f"version {format_version(upgrade.app_version)} did not take the state over at log position "
                f'{committed.position}: {values.text.decode("utf-8", "replace")}; where on_error is "restore", and a '
                "quorum failed alike, the cluster leaves this upgrade out and goes on with the version before it; else "
                f"all members stop, and `ordo cluster skip {committed.position}` leaves it out",
            )

    def _committed_of(self, upgrade: _Upgrade | None) -> VersionChange | None:
        """Return the record that carries an upgrade out, once it is committed."""
        committed = self._committed
        is_its = upgrade is not None and committed is not None and committed.position > upgrade.from_position
        return committed if is_its else None

    # -- tools ---------------------------------------------------------------------------------------------------------

    def on_query(self, query: records.VersionsQuery, now_ns: int) -> None:
        """Take `ordo cluster versions`: it is answered when the members have answered, or had their time."""
        members = self._core.configuration.member_ids
        self.survey.begin(members, lambda found: self._tell(query.correlation_id, found), now_ns)

    def _tell(self, correlation_id: int, found: list[MemberCode]) -> None:
        position = self._sequencer.commit_position
        in_force = [InForce(one.app_version, one.position) for one in self._changes_at(position)]
        level = self._levels.change_at(position)
        self._answer_tool(
            ordo_codecs.VERSIONS_RESPONSE.encode(
                correlation_id=correlation_id,
                leader_member_id=self._core.leader_member_id,
                app_version=in_force[MAIN_SERVICE_ID].app_version,
                since_position=in_force[MAIN_SERVICE_ID].since_position,
                level_since_position=level.position,
                protocol_level=level.level,
                members=encode_members(shared_rows(found)),
                levels=encode_levels(self.survey.levels_of({row.member_id for row in found})),
                in_force=encode_in_force(in_force),
                services=encode_services(found),
            )
        )

    def _changes_at(self, log_position: int) -> list[VersionChange]:
        return [self.log.change_at(log_position, one) for one in self.log.service_ids]

    def on_upgrade_request(self, request: records.UpgradeRequest, now_ns: int) -> None:
        """Take `ordo cluster upgrade`: it is answered when it is committed, or with the reason for a refusal."""
        service_id = request.service_id if is_of_one_service(request) else ALL_SERVICES
        end = self._sequencer.append_position
        wanted = _Upgrade(request.correlation_id, request.app_version, service_id, end)
        refusal = self._find_refusal(wanted)
        if self._upgrade is not None:
            refusal = f"an upgrade to version {format_version(self._upgrade.app_version)} is under way"
        if refusal:
            self._refuse(wanted, refusal)
            return
        self._upgrade = wanted
        self.survey.begin(self._core.configuration.voter_ids, lambda found: self._decide(wanted, found), now_ns)

    def _find_refusal(self, wanted: _Upgrade) -> str:
        if not self._host.is_leader:
            return f"member {self._own_id} does not lead"
        targets = self._targets(wanted)
        if not targets:
            return f"there is no service {wanted.service_id}: the last one is {self.log.service_ids[-1]}"
        if wanted.service_id != ALL_SERVICES and not self._levels.takes_service_versions:
            return describe_want_of_service_versions(self._levels.newest)
        end = self.log.at(self._sequencer.append_position)
        committed = self.log.at(self._sequencer.commit_position)
        if open_ones := [end[one] for one in targets if end[one] != committed[one]]:
            return f"the upgrade to version {format_version(open_ones[0])} is not committed yet"
        going = [one for one in targets if end[one] != wanted.app_version]
        if not going:
            of_one = f" of service {wanted.service_id}" if wanted.service_id != ALL_SERVICES else ""
            return f"version {format_version(wanted.app_version)}{of_one} is in force already"
        if unable := [one for one in going if not self._can(one, HANDS_OVER)]:
            name = "the service" if len(end) == 1 else f"service {unable[0]}"
            return (
                f"{name} of version {format_version(end[unable[0]])} cannot hand its state over to another: it does "
                "not implement on_take_snapshot"
            )
        return next(filter(None, (self.find_conflict(one, wanted.app_version) for one in going)), "")

    def _targets(self, wanted: _Upgrade) -> Sequence[int]:
        """Return the services that are to be upgraded."""
        return [one for one in self.log.service_ids if wanted.service_id in (ALL_SERVICES, one)]

    def _decide(self, wanted: _Upgrade, found: list[MemberCode]) -> None:
        """Decide on an upgrade, now that the voters have reported their code.

        The leader may have changed meanwhile.
        """
        if self._upgrade is not wanted:
            return
        rows = [row for row in found if row.service_id in self._targets(wanted)]
        refusal = self._find_refusal(wanted) or describe_lacking(wanted.app_version, rows, len(self.log.service_ids))
        if refusal:
            self._refuse(wanted, refusal)
        elif not self._append(wanted):
            self._refuse(wanted, "the cluster takes no records at the moment; try again")

    def _append(self, wanted: _Upgrade) -> bool:
        return self._host.append(
            ordo_codecs.VERSION_EVENT.encode(
                leadership_term_id=self._host.leadership_term_id,
                timestamp=self._host.cluster_time,
                app_version=wanted.app_version,
                member_id=self._own_id,
                service_id=wanted.service_id,
            )
        )

    def _refuse(self, wanted: _Upgrade, refusal: str) -> None:
        if self._upgrade is wanted:
            self._upgrade = None
        self._respond(wanted, NULL_VALUE, refusal)

    def _answer(self, position: int) -> None:
        assert self._upgrade is not None
        self._respond(self._upgrade, position, "")
        self._upgrade = None

    def _respond(self, wanted: _Upgrade, position: int, refusal: str) -> None:
        self._answer_tool(
            ordo_codecs.UPGRADE_RESPONSE.encode(
                correlation_id=wanted.correlation_id,
                leader_member_id=self._core.leader_member_id,
                log_position=position,
                refusal=refusal.encode("ascii", "replace").decode(),
            )
        )

    # -- time ----------------------------------------------------------------------------------------------------------

    def work(self, now_ns: int, snapshot_position: int) -> None:
        """Advance the upgrade; called with every slow tick.

        `snapshot_position`: of the newest snapshot that a quorum holds alike.
        """
        self.survey.work(now_ns)
        upgrade, committed = self._upgrade, self._committed
        if upgrade is not None and not self._host.is_leader:
            self._refuse(
                upgrade,
                f"member {self._own_id} stopped leading before the upgrade was known to be done; see whether it came "
                "about (`ordo cluster versions`), and ask the new leader if it did not",
            )
        elif (done := self._committed_of(upgrade)) is not None and self._is_executed(done):
            self._answer(done.position)
        if committed is not None:
            self._order_snapshot(committed.position, snapshot_position, now_ns)

    def _is_executed(self, change: VersionChange) -> bool:
        positions = enumerate(self._counters.service_positions)
        return all(one.value >= change.position for service_id, one in positions if change.concerns(service_id))

    def _order_snapshot(self, position: int, snapshot_position: int, now_ns: int) -> None:
        """Order a snapshot: a member that has only the new code gets past the old stretch only by one."""
        if snapshot_position > position:
            self._committed = None
        elif self._host.is_leader:
            self._needed_snapshot.order(position, now_ns)


def describe_lacking(app_version: int, rows: list[MemberCode], service_count: int) -> str:
    """Return why there is no upgrade; empty where all have the code.

    `rows` is what voters have for each service that is to change.
    """
    code: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        code.setdefault((row.member_id, row.service_id), []).append(row.app_version)
    named = [
        f"member {member_id} has said nothing"
        if found == [NO_VERSION]
        else f"member {member_id} has {format_versions(found)}{f' for service {service_id}' * (service_count > 1)}"
        for (member_id, service_id), found in code.items()
        if app_version not in found
    ]
    if not named:
        return ""
    table = "[service]" if service_count == 1 else "[[services]]"
    return (
        f"not every voter has code of version {format_version(app_version)}: {'; '.join(dict.fromkeys(named))}. Give "
        f"it to them ({table} versions), start them again one after the other, and ask again"
    )
