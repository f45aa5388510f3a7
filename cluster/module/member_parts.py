"""Builds the parts that handle a member's snapshots and the rules of its log, each with what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.module.log.feed_recorder import FeedRecorder
from ordo.cluster.module.log_rules import LogRules
from ordo.cluster.module.members.cluster_identity import ClusterIdentity
from ordo.cluster.module.members.standings import OwnFolder, Standings
from ordo.cluster.module.snapshots.catchup_refusals import CatchupRefusals, RefusedCatchup
from ordo.cluster.module.snapshots.copied_snapshots import CopiedSnapshots
from ordo.cluster.module.snapshots.copy_orders import CopyOrders
from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
from ordo.cluster.module.snapshots.log_repair import LogRepair
from ordo.cluster.module.snapshots.retention import Retention, RetentionPolicy
from ordo.cluster.module.snapshots.snapshot_agreement import SnapshotAgreement
from ordo.cluster.module.snapshots.snapshot_fetch import SnapshotFetch
from ordo.cluster.module.snapshots.snapshot_repair import SnapshotRepair
from ordo.cluster.module.snapshots.snapshot_reports import SnapshotReports
from ordo.cluster.module.snapshots.snapshot_schedule import SnapshotOrders, SnapshotSchedule
from ordo.cluster.module.snapshots.snapshot_source import SnapshotSource
from ordo.cluster.module.state.host import ArchiveAccess, Orders, Replication
from ordo.cluster.module.state.module_snapshot import SnapshotLayout
from ordo.cluster.module.versions.clock_reports import ClockReports
from ordo.cluster.module.versions.fetched_state import FetchedState
from ordo.cluster.module.versions.log_time import LogTime
from ordo.cluster.module.versions.protocol_level import ProtocolLevel
from ordo.cluster.module.versions.schemas import Schemas
from ordo.cluster.module.versions.skips import Skips
from ordo.cluster.module.versions.state_doubt import StateDoubt
from ordo.cluster.module.versions.state_hashes import StateHashes
from ordo.cluster.module.versions.version_lacks import VersionLacks
from ordo.cluster.module.versions.versions import Versions
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.codecs import find_time_unit
from ordo.cluster.wire.levels import COPY_LEVEL
from ordo.cluster.wire.sessions.ingress_notice import encode_failure
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.sbe import bind

if TYPE_CHECKING:
    from random import Random

    from ordo.archive.archive import Archive
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.services.service_reports import ReportHandler
    from ordo.cluster.module.services.services import Services
    from ordo.cluster.module.sessions.session_notices import SessionNotices
    from ordo.cluster.module.state.commit_note import CommitNote
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.folder_rows import Claim
    from ordo.cluster.module.state.own_member import OwnMember
    from ordo.cluster.module.state.peer_notes import PeerNotes
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.settings import ModuleSettings
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.cluster.wire import records
    from ordo.cluster.wire.counters.component_errors import ComponentErrors
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.random import RandomSource
    from ordo.runtime.sbe import Message
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient


NO_HASHES = "a service gives no hash of its state (state_hash), so a copy could not be compared with it"


@dataclass(frozen=True)
class ModuleSeams:
    """The parts that a consensus module is built on; a simulation simulates all of them."""

    clock: Clock
    client: TransportClient
    archive: Archive
    store: StateStore
    random: RandomSource
    errors: ComponentErrors
    claim: Claim
    committed: CommitNote
    notes: PeerNotes
    folder: str
    """Where the data is, for messages."""
    events: Callable[..., object]
    """Takes one canonical event: its name, and its context by keyword."""
    lost_state: str | None = None
    """How an earlier store was lost; `store` is empty then."""
    look: Callable[[], dict[str, Any]] = dict
    """What the node knows of itself beyond its module, for operators."""


@dataclass(frozen=True)
class Foundation:
    """What every part of a member is built with: settings, seams to the system, the core, the log, the peers."""

    config: ModuleSettings
    seams: ModuleSeams
    member: OwnMember
    core: ConsensusCore
    sequencer: Sequencer
    counters: ModuleCounters
    contacts: Contacts
    log: LogKeeper

    @property
    def replication(self) -> Replication:
        """What decides and carries the log."""
        return Replication(self.core, self.sequencer, self.contacts)

    @property
    def access(self) -> ArchiveAccess:
        """Return the archive, and the client whose streams it records."""
        return ArchiveAccess(self.seams.archive, self.seams.client)


class HeldStates(NamedTuple):
    """The snapshots that this member and the others hold, and the doubt in its own."""

    shelf: SnapshotShelf
    reports: SnapshotReports
    doubt: StateDoubt


def make_held_states(base: Foundation, orders: Orders) -> HeldStates:
    """Build the member's knowledge of snapshots."""
    config, seams = base.config, base.seams
    shelf = SnapshotShelf(seams.archive, seams.store, config.cluster_id, config.snapshot.evidence_bytes)
    reports = SnapshotReports(config.member_id, config.retention.patience_seconds * SECOND_NS)
    doubt = StateDoubt(base.member, base.core, seams.store, shelf, reports, base.counters, orders.order_record)
    return HeldStates(shelf, reports, doubt)


def make_rules(base: Foundation, held: HeldStates, orders: Orders) -> LogRules:
    """Build the rules of the member's log."""
    member = base.member
    config, store, core, sequencer, contacts = base.config, base.seams.store, base.core, base.sequencer, base.contacts
    replication = base.replication
    own_id, restores = config.member_id, config.on_error == "restore"
    skips = Skips(
        member,
        replication,
        store,
        base.counters,
        own_id,
        restores=restores,
        order=orders.order_record,
    )
    levels = ProtocolLevel(member, core, contacts, own_id, sequencer.set_level)
    identity = ClusterIdentity(member, levels, store.folder, base.seams.random.secret("cluster identity"), own_id)
    lacks = VersionLacks(member, core, sequencer, store, config.service_count)
    versions = Versions(
        member,
        config,
        replication,
        lacks,
        skips,
        base.counters,
        levels,
        orders,
    )
    hashes = StateHashes(
        member,
        replication,
        levels,
        versions,
        held.doubt,
        own_id,
        config.state_hash_every_bytes,
        ask_snapshot=orders.ask_snapshot,
    )
    schemas = Schemas(member, sequencer, levels, versions.log, own_id, base.counters.service_positions)
    versions.find_conflict = schemas.find_conflict
    clock = ClockReports(member, sequencer, levels, base.seams.clock, own_id, config.clock_report_interval_ns)
    time = LogTime(
        member,
        levels,
        config.cluster_time_unit,
        config.former_time_unit,
        lambda: versions.converts_time,
        member.clock_watch.set_unit,
    )
    return LogRules(levels, identity, versions, hashes, skips, time, schemas, clock)


@dataclass(frozen=True)
class SnapshotExchange:
    """The parts that serve, fetch, repair, order and delete a member's snapshots and old log."""

    orders: SnapshotOrders
    retention: Retention
    feeds: FeedRecorder
    source: SnapshotSource
    snapshot_repair: SnapshotRepair
    repair: LogRepair
    fetch: SnapshotFetch
    agreement: SnapshotAgreement
    refusals: CatchupRefusals
    copies: CopiedSnapshots
    copy_orders: CopyOrders

    def close(self) -> None:
        """End the exchanges that are in progress."""
        self.feeds.close()
        self.fetch.close()
        self.repair.close()
        self.copies.close()


def make_exchange(base: Foundation, held: HeldStates, rules: LogRules, orders: Orders) -> SnapshotExchange:
    """Build what sees to a member's snapshots."""
    member = base.member
    config, seams, core, sequencer = base.config, base.seams, base.core, base.sequencer
    own_id, archive, contacts = config.member_id, seams.archive, base.contacts
    shelf, reports, doubt = held
    random = seams.random.stream("snapshots")
    retention = Retention(RetentionPolicy.of(config.snapshot.keep, config.retention), archive, shelf)
    snapshot_repair = SnapshotRepair(member, shelf, reports, own_id)
    repair = _make_log_repair(base, random, snapshot_repair)
    installed = FetchedState(
        member, sequencer, seams.store, repair.scrubber, snapshot_repair, doubt, rules.versions.lacks
    )
    agreement = SnapshotAgreement(core, seams.store, shelf, reports, doubt)
    copy_orders = _make_copy_orders(base, rules, orders, agreement)
    schedule = SnapshotSchedule(
        config.snapshot.every_bytes, config.snapshot.every_seconds * SECOND_NS, copy_orders.order
    )
    return SnapshotExchange(
        SnapshotOrders(member, sequencer, schedule, retention, rules.clock, copy_orders),
        retention,
        FeedRecorder(archive, seams.client, config.cluster_id, lambda error: member.record_error(str(error))),
        SnapshotSource(archive, shelf, reports, contacts, own_id, member.record_error),
        snapshot_repair,
        repair,
        SnapshotFetch(
            base.access,
            own_id,
            SnapshotLayout(config.cluster_id, config.service_count),
            contacts.bound.catchup,
            random,
            contacts.send,
            installed.install,
            member.record_error,
        ),
        agreement,
        CatchupRefusals(own_id, core, contacts, shelf, reports, agreement),
        CopiedSnapshots(member, base.access, shelf, core, base.counters, config.cluster_id, is_on=copy_orders.is_on),
        copy_orders,
    )


def _make_copy_orders(base: Foundation, rules: LogRules, orders: Orders, agreement: SnapshotAgreement) -> CopyOrders:
    settings = base.config.snapshot

    def find_obstacle() -> str:
        if rules.levels.newest < COPY_LEVEL:
            return f"the log needs protocol level {COPY_LEVEL} for those of standbys (`ordo cluster versions`)"
        return "" if rules.versions.gives_hashes else NO_HASHES

    return CopyOrders(
        base.member,
        orders,
        base.counters,
        lambda: agreement.agreed_position,
        find_obstacle,
        patience_ns=settings.standby_patience_seconds * SECOND_NS,
        is_on=settings.by == "standby" and not base.config.is_standby,
    )


def _make_log_repair(base: Foundation, random: Random, snapshot_repair: SnapshotRepair) -> LogRepair:
    log = base.log
    return LogRepair(
        base.member,
        base.config.archive,
        base.access,
        base.replication,
        random,
        lambda: log.recording_id,
        base.counters,
        snapshot_repair.on_damage,
    )


def list_member_handlers(
    base: Foundation,
    held: HeldStates,
    rules: LogRules,
    exchange: SnapshotExchange,
    standings: Standings,
    hasten: Callable[[int], None],
) -> dict[Message, Callable[[Any, int], None]]:
    """Return what takes Ordo's own messages of other members.

    `hasten` has the work of every second done at once, where a fetch has begun.
    """
    refused = RefusedCatchup(
        base.config.member_id,
        base.core,
        base.sequencer,
        base.contacts,
        exchange.fetch,
        announce=base.member.announce,
        on_begun=hasten,
    )
    return {
        **dict(
            [
                bind(ordo_codecs.SNAPSHOT_REPORT, held.reports.on_report),
                bind(ordo_codecs.CATCHUP_REFUSAL, refused.on_refusal),
                bind(ordo_codecs.SNAPSHOT_REQUEST, exchange.source.on_request),
                bind(ordo_codecs.SNAPSHOT_OFFER, exchange.fetch.on_offer),
                bind(ordo_codecs.LOG_REQUEST, exchange.repair.on_request),
            ]
        ),
        **rules.skips.handlers,
        **rules.versions.handlers,
        **rules.levels.handlers,
        **rules.hashes.handlers,
        **standings.handlers,
    }


def make_standings(base: Foundation, rules: LogRules, executed_position: Callable[[], int]) -> Standings:
    """Build the member's knowledge of the other members' data."""
    seams, member = base.seams, base.member
    folder = OwnFolder(seams.claim, seams.notes, seams.folder)
    return Standings(
        member, base.core, base.contacts, seams.store, rules.identity, member.member_id, folder, executed_position
    )


def _failure_handler(member: OwnMember, clients: SessionNotices, rules: LogRules) -> ReportHandler:
    def on_failure(service_id: int, failure: records.ServiceFailure, now_ns: int) -> None:
        """Tell clients, as their leader, why they get no more answers; then pass the failure to versions and skips."""
        if member.is_leader and not failure.is_held:  # first: the member may end with its service
            clients.notify_all_now(encode_failure(failure.log_position, failure.error.decode("ascii", "replace")))
        rules.versions.on_service_failure(failure)
        rules.skips.on_service_failure(service_id, failure, now_ns)

    return on_failure


def _on_service_time(service_id: int, values: records.ServiceTime, services: Services) -> None:
    unit = find_time_unit(values.time_unit)
    if unit is None:
        raise ClusterError(f"ServiceTime: time_unit={values.time_unit} is none")
    services.on_unit(service_id, unit)


def list_report_handlers(
    member: OwnMember, clients: SessionNotices, services: Services, rules: LogRules, exchange: SnapshotExchange
) -> dict[Message, ReportHandler]:
    """Return the handlers of service reports that concern the log's rules."""
    versions, hashes = rules.versions, rules.hashes
    return {
        ordo_codecs.SERVICE_FAILURE: _failure_handler(member, clients, rules),
        ordo_codecs.SERVICE_VERSIONS: lambda one, values, now_ns: versions.on_service_versions(one, values),
        ordo_codecs.SERVICE_SCHEMA: lambda one, values, now_ns: rules.schemas.on_service_schema(one, values),
        ordo_codecs.SERVICE_TIME: lambda one, values, now_ns: _on_service_time(one, values, services),
        ordo_codecs.SERVICE_LACK: lambda one, values, now_ns: versions.on_service_lack(one, values),
        ordo_codecs.CONSUMERS_HOLD: lambda one, values, now_ns: exchange.retention.hold(values.log_position),
        ordo_codecs.FEED_OPEN: lambda one, values, now_ns: exchange.feeds.open(values),
        ordo_codecs.STATE_HASH: lambda one, values, now_ns: hashes.on_service_hash(values),
    }
