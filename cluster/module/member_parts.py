"""Puts together what sees to a member's snapshots and to the rules of its log, each part with what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.module.log.feed_recorder import FeedRecorder
from ordo.cluster.module.log_rules import LogRules
from ordo.cluster.module.members.cluster_identity import ClusterIdentity
from ordo.cluster.module.snapshots.catchup_refusals import CatchupRefusals, RefusedCatchup
from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
from ordo.cluster.module.snapshots.log_repair import LogRepair
from ordo.cluster.module.snapshots.retention import Retention, RetentionPolicy
from ordo.cluster.module.snapshots.snapshot_agreement import SnapshotAgreement
from ordo.cluster.module.snapshots.snapshot_fetch import SnapshotFetch
from ordo.cluster.module.snapshots.snapshot_repair import SnapshotRepair
from ordo.cluster.module.snapshots.snapshot_reports import SnapshotReports
from ordo.cluster.module.snapshots.snapshot_schedule import SnapshotOrders, SnapshotSchedule
from ordo.cluster.module.snapshots.snapshot_source import SnapshotSource
from ordo.cluster.module.state.host import MemberHost, TermHost
from ordo.cluster.module.versions.fetched_state import FetchedState
from ordo.cluster.module.versions.protocol_level import LevelHost, ProtocolLevel
from ordo.cluster.module.versions.skips import SkipHost, Skips
from ordo.cluster.module.versions.state_doubt import StateDoubt
from ordo.cluster.module.versions.state_hashes import StateHashes
from ordo.cluster.module.versions.version_lacks import VersionLacks
from ordo.cluster.module.versions.versions import Versions
from ordo.cluster.wire import ordo_codecs
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.sbe import bind

if TYPE_CHECKING:
    from random import Random

    from ordo.archive.archive import Archive
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.members.standings import Standings
    from ordo.cluster.module.services.service_reports import ReportHandler
    from ordo.cluster.module.state.commit_note import CommitNote
    from ordo.cluster.module.state.config import ModuleConfig
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.folder_rows import Claim
    from ordo.cluster.module.state.peer_notes import PeerNotes
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.cluster.wire.counters.component_errors import ComponentErrors
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.random import RandomSource
    from ordo.runtime.sbe import Message
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient


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
    """What the parts of a member stand on."""

    config: ModuleConfig
    seams: ModuleSeams
    core: ConsensusCore
    sequencer: Sequencer
    counters: ModuleCounters
    contacts: Contacts
    log: LogKeeper


class Orders(NamedTuple):
    """What parts have others do."""

    ask_snapshot: Callable[[], bool]
    """Has the cluster take a snapshot; False where it cannot now."""
    order_record: Callable[[bytes], bool]
    """Sends a RecordOrder to the services; False where it cannot now."""
    answer_tool: Callable[[bytes], None]


class HeldStates(NamedTuple):
    """The snapshots that this member and the others hold, and the doubt in its own."""

    shelf: SnapshotShelf
    reports: SnapshotReports
    doubt: StateDoubt


def make_held_states(host: MemberHost, base: Foundation, orders: Orders) -> HeldStates:
    """Build what a member knows of snapshots."""
    config, seams = base.config, base.seams
    shelf = SnapshotShelf(seams.archive, seams.store, config.cluster_id, config.snapshot.evidence_bytes)
    reports = SnapshotReports(config.member_id, config.retention.patience_seconds * SECOND_NS)
    doubt = StateDoubt(host, base.core, seams.store, shelf, reports, base.counters, orders.order_record)
    return HeldStates(shelf, reports, doubt)


def make_rules(host: SkipHost, appender: LevelHost, base: Foundation, held: HeldStates, orders: Orders) -> LogRules:
    """Build what a member knows of the rules of its log. `host` and `appender` are calls of the same member."""
    config, store, core, sequencer, contacts = base.config, base.seams.store, base.core, base.sequencer, base.contacts
    own_id, restores = config.member_id, config.on_error == "restore"
    skips = Skips(
        host,
        core,
        sequencer,
        contacts,
        store,
        base.counters,
        own_id,
        restores=restores,
        order=orders.order_record,
    )
    levels = ProtocolLevel(appender, core, contacts, own_id, sequencer.set_level)
    identity = ClusterIdentity(appender, levels, store.folder, base.seams.random.secret("cluster identity"), own_id)
    lacks = VersionLacks(host, core, sequencer, store, config.service_count)
    versions = Versions(
        appender,
        config,
        core,
        sequencer,
        contacts,
        lacks,
        skips,
        base.counters,
        levels,
        answer_tool=orders.answer_tool,
        ask_snapshot=orders.ask_snapshot,
    )
    hashes = StateHashes(
        appender,
        core,
        sequencer,
        contacts,
        levels,
        versions,
        held.doubt,
        own_id,
        config.state_hash_every_bytes,
        ask_snapshot=orders.ask_snapshot,
    )
    return LogRules(levels, identity, versions, hashes, skips)


@dataclass(frozen=True)
class SnapshotExchange:
    """What gives, gets, mends, orders and lets go of a member's snapshots and old log."""

    orders: SnapshotOrders
    retention: Retention
    feeds: FeedRecorder
    source: SnapshotSource
    snapshot_repair: SnapshotRepair
    repair: LogRepair
    fetch: SnapshotFetch
    agreement: SnapshotAgreement
    refusals: CatchupRefusals

    def close(self) -> None:
        """End what is under way."""
        self.feeds.close()
        self.fetch.close()
        self.repair.close()


def make_exchange(
    host: MemberHost, leading: TermHost, base: Foundation, held: HeldStates, lacks: VersionLacks, orders: Orders
) -> SnapshotExchange:
    """Build what sees to a member's snapshots."""
    config, seams, core, sequencer = base.config, base.seams, base.core, base.sequencer
    own_id, archive, contacts = config.member_id, seams.archive, base.contacts
    shelf, reports, doubt = held
    random = seams.random.stream("snapshots")
    retention = Retention(RetentionPolicy.of(config.snapshot.keep, config.retention), archive, shelf)
    schedule = SnapshotSchedule(
        config.snapshot.every_bytes, config.snapshot.every_seconds * SECOND_NS, orders.ask_snapshot
    )
    snapshot_repair = SnapshotRepair(host, shelf, reports, own_id)
    repair = _make_log_repair(host, base, random, snapshot_repair)
    installed = FetchedState(host, sequencer, seams.store, repair.scrubber, snapshot_repair, doubt, lacks)
    agreement = SnapshotAgreement(core, seams.store, shelf, reports, doubt)
    return SnapshotExchange(
        SnapshotOrders(leading, sequencer, schedule, retention),
        retention,
        FeedRecorder(archive, seams.client, config.cluster_id, lambda error: host.record_error(str(error))),
        SnapshotSource(archive, shelf, reports, contacts, own_id, host.record_error),
        snapshot_repair,
        repair,
        SnapshotFetch(
            archive,
            seams.client,
            own_id,
            config.cluster_id,
            contacts.bound.catchup,
            random,
            contacts.send,
            installed.install,
            host.record_error,
            config.service_count,
        ),
        agreement,
        CatchupRefusals(own_id, core, contacts, shelf, reports, agreement),
    )


def _make_log_repair(host: MemberHost, base: Foundation, random: Random, snapshot_repair: SnapshotRepair) -> LogRepair:
    own_id, core, log, sequencer = base.config.member_id, base.core, base.log, base.sequencer
    return LogRepair(
        host,
        base.config.archive,
        base.seams.archive,
        base.seams.client,
        base.contacts,
        lambda: [one for one in core.configuration.member_ids if one != own_id],
        random,
        lambda: log.recording_id,
        lambda: sequencer.commit_position,
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
    announce: Callable[[str, str], None],
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
        announce=announce,
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


def list_report_handlers(
    rules: LogRules, exchange: SnapshotExchange, on_failure: ReportHandler
) -> dict[Message, ReportHandler]:
    """Return what takes the reports of services that concern the log's rules, and what is kept of it."""
    versions, hashes = rules.versions, rules.hashes
    return {
        ordo_codecs.SERVICE_FAILURE: on_failure,
        ordo_codecs.SERVICE_VERSIONS: lambda one, values, now_ns: versions.on_service_versions(one, values),
        ordo_codecs.SERVICE_LACK: lambda one, values, now_ns: versions.on_service_lack(one, values),
        ordo_codecs.CONSUMERS_HOLD: lambda one, values, now_ns: exchange.retention.hold(values.log_position),
        ordo_codecs.FEED_OPEN: lambda one, values, now_ns: exchange.feeds.open(values),
        ordo_codecs.STATE_HASH: lambda one, values, now_ns: hashes.on_service_hash(values),
    }
