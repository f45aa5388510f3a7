"""Keeps a cluster running for years: takes snapshots, sends them to members that need them, deletes old log.

One step each second, and quicker while a snapshot is being fetched. docs/ARCHITECTURE.md, A log that forgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.cluster.module.log.feed_recorder import FeedRecorder
from ordo.cluster.module.members.cluster_identity import ClusterIdentity
from ordo.cluster.module.members.standings import Standings, StandingsHost
from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
from ordo.cluster.module.snapshots.log_repair import LogRepair
from ordo.cluster.module.snapshots.retention import Retention, RetentionPolicy
from ordo.cluster.module.snapshots.snapshot_fetch import FetchedSnapshot, SnapshotFetch
from ordo.cluster.module.snapshots.snapshot_repair import SnapshotRepair
from ordo.cluster.module.snapshots.snapshot_reports import Agreement, HeldSnapshot, SnapshotReports
from ordo.cluster.module.snapshots.snapshot_schedule import SnapshotSchedule
from ordo.cluster.module.snapshots.snapshot_source import SnapshotSource
from ordo.cluster.module.versions.protocol_level import LevelHost, ProtocolLevel
from ordo.cluster.module.versions.skips import SkipHost, Skips
from ordo.cluster.module.versions.state_doubt import StateDoubt
from ordo.cluster.module.versions.state_hashes import StateHashes
from ordo.cluster.module.versions.versions import VersionHost, Versions
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.members import parse_member
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import DecodeError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.sbe import bind

if TYPE_CHECKING:
    from random import Random

    from ordo.archive.archive import Archive
    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.state.config import ModuleConfig
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.folder_rows import Claim
    from ordo.cluster.module.state.module_snapshot import ModuleSnapshot
    from ordo.cluster.module.state.peer_notes import PeerNotes
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore
    from ordo.cluster.wire import records
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.sbe import Message
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient

INTERVAL_NS = SECOND_NS
REFUSAL_INTERVAL_NS = 100_000_000


class UpkeepHost(SkipHost, VersionHost, LevelHost, StandingsHost, Protocol):
    """What upkeep needs of its member."""


class OwnData(NamedTuple):
    """The data folder of a member, as it has taken it for this start."""

    claim: Claim
    notes: PeerNotes
    folder: str
    random: Random
    """Draws the identity of a cluster."""


class Upkeep:
    """The upkeep of one member; `shelf` holds its snapshots."""

    def __init__(
        self,
        host: UpkeepHost,
        config: ModuleConfig,
        core: ConsensusCore,
        sequencer: Sequencer,
        log: LogKeeper,
        contacts: Contacts,
        archive: Archive,
        store: StateStore,
        client: TransportClient,
        random: Random,
        own_data: OwnData,
        *,
        order_snapshot: Callable[[], bool],
        counters: ModuleCounters,
        order_record: Callable[[bytes], bool],
        answer_tool: Callable[[bytes], None],
    ) -> None:
        """Take the member's parts.

        `order_record` sends a RecordOrder to the service, and returns False when it cannot.
        """
        self._host = host
        self._core = core
        self._sequencer = sequencer
        self._log = log
        self._archive = archive
        self._store = store
        self._contacts = contacts
        self._own_id = own_id = config.member_id
        self.shelf = SnapshotShelf(archive, store, config.cluster_id, config.snapshot.evidence_bytes)
        self.schedule = _make_schedule(config, order_snapshot)
        self.reports = SnapshotReports(own_id, config.retention.patience_seconds * SECOND_NS)
        self.retention = Retention(RetentionPolicy.of(config.snapshot.keep, config.retention), archive, self.shelf)
        self.feeds = FeedRecorder(archive, client, config.cluster_id, self._note_error)
        self.source = SnapshotSource(archive, self.shelf, own_id, contacts.send, host.record_error)
        self.fetch = self._make_fetch(config, client, random)
        self.snapshot_repair = SnapshotRepair(host, self.shelf, self.reports, own_id)
        self.repair = self._make_repair(config, client, random, counters)
        self.skips = self._make_skips(config, counters, order_record)
        self.levels = ProtocolLevel(host, core, contacts, own_id, sequencer.set_level)
        self.identity = ClusterIdentity(host, self.levels, store.folder, own_data.random, own_id)
        self.standings = Standings(host, core, contacts, store, self.identity, own_id, *own_data[:3])
        self.versions = self._make_versions(config, counters, answer_tool, order_snapshot)
        self._agreement = Agreement(HeldSnapshot(*store.load().agreed))
        self._due_ns = 0
        self._reported: dict[int, bytes] = {}
        self._refused_ns: dict[int, int] = {}
        self._cleared_log_id = NULL_VALUE
        self._quorum_snapshot: HeldSnapshot | None = None
        self.doubt = StateDoubt(host, core, store, self.shelf, self.reports, counters, order_record)
        self.hashes = self._make_hashes(config, order_snapshot)
        self._handlers = self._message_handlers()

    def _message_handlers(self) -> dict[Message, Callable[[Any, int], None]]:
        return {
            **dict(
                [
                    bind(ordo_codecs.SNAPSHOT_REPORT, self.reports.on_report),
                    bind(ordo_codecs.CATCHUP_REFUSAL, self._on_refusal),
                    bind(ordo_codecs.SNAPSHOT_REQUEST, self._on_request),
                    bind(ordo_codecs.SNAPSHOT_OFFER, self._on_offer),
                    bind(ordo_codecs.LOG_REQUEST, self._on_log_request),
                ]
            ),
            **self.skips.handlers,
            **self.versions.handlers,
            **self.levels.handlers,
            **self.hashes.handlers,
            **self.standings.handlers,
        }

    def _make_versions(
        self,
        config: ModuleConfig,
        counters: ModuleCounters,
        answer_tool: Callable[[bytes], None],
        ask_snapshot: Callable[[], bool],
    ) -> Versions:
        return Versions(
            self._host,
            config,
            self._core,
            self._sequencer,
            self._contacts,
            self._store,
            self.skips,
            counters,
            self.levels,
            answer_tool=answer_tool,
            ask_snapshot=ask_snapshot,
        )

    def _make_skips(self, config: ModuleConfig, counters: ModuleCounters, order: Callable[[bytes], bool]) -> Skips:
        return Skips(
            self._host,
            self._core,
            self._sequencer,
            self._contacts,
            self._store,
            counters,
            self._own_id,
            restores=config.on_error == "restore",
            order=order,
        )

    def _make_hashes(self, config: ModuleConfig, ask_snapshot: Callable[[], bool]) -> StateHashes:
        return StateHashes(
            self._host,
            self._core,
            self._sequencer,
            self._contacts,
            self.levels,
            self.versions,
            self.doubt,
            self._own_id,
            config.state_hash_every_bytes,
            ask_snapshot=ask_snapshot,
        )

    def _make_fetch(self, config: ModuleConfig, client: TransportClient, random: Random) -> SnapshotFetch:
        return SnapshotFetch(
            self._archive,
            client,
            config.member_id,
            config.cluster_id,
            self._contacts.bound.catchup,
            random,
            self._contacts.send,
            self._install,
            self._host.record_error,
            config.service_count,
        )

    def _make_repair(
        self, config: ModuleConfig, client: TransportClient, random: Random, counters: ModuleCounters
    ) -> LogRepair:
        return LogRepair(
            self._host,
            config.archive,
            self._archive,
            client,
            self._contacts,
            lambda: [one for one in self._core.configuration.member_ids if one != self._own_id],
            random,
            lambda: self._log.recording_id,
            lambda: self._sequencer.commit_position,
            counters,
            self.snapshot_repair.on_damage,
        )

    def start(self, snapshot: SnapshotEntry | None, contents: ModuleSnapshot | None) -> None:
        """Begin with the snapshot that the member starts from, or none."""
        self.shelf.clear_snapshots()
        self.repair.start()
        self.skips.start(contents.skips if contents else [], snapshot.log_position if snapshot else 0)
        if contents is not None:
            self.versions.log.start([contents.version_of(one) for one in range(len(contents.trackers))])
        self.hashes.start(snapshot.log_position if snapshot else 0)
        if snapshot is not None:
            self.schedule.note(snapshot.log_position, snapshot.timestamp)

    # -- the log and this member's service -----------------------------------------------------------------------------

    def on_record(self, record: LogRecord) -> None:
        """Note a record of this member's durable log; it need not be committed."""
        self.levels.on_record(record)
        self.identity.on_record(record)
        self.versions.log.on_record(*record)
        self.hashes.on_record(record)
        if record.table is ordo_codecs.SKIP_EVENT:
            self.skips.on_record(record.position, record.values)

    def truncate(self, position: int) -> None:
        """Forget what was read beyond `position`, where the log was cut."""
        self.levels.truncate(position)
        self.identity.truncate(position)
        self.versions.log.truncate(position)
        self.hashes.truncate(position)
        self.skips.truncate(position)

    def on_service_report(self, service_id: int, table: Message, values: Any, now_ns: int) -> None:
        """Take what a service's container reports of itself. Raises DecodeError."""
        if table is ordo_codecs.SERVICE_FAILURE:
            self.versions.on_service_failure(values)
            self.skips.on_service_failure(service_id, values, now_ns)
        elif table is ordo_codecs.SERVICE_VERSIONS:
            self.versions.on_service_versions(service_id, values)
        elif table is ordo_codecs.SERVICE_LACK:
            self.versions.on_service_lack(service_id, values)
        elif table is ordo_codecs.CONSUMERS_HOLD:
            self.retention.held_position = values.log_position
        elif table is ordo_codecs.FEED_OPEN:
            self.feeds.open(values)
        elif table is ordo_codecs.STATE_HASH:
            self.hashes.on_service_hash(values)

    def _note_error(self, error: Exception) -> None:
        self._host.record_error(str(error))

    # -- what members say ----------------------------------------------------------------------------------------------

    def sender_of(self, table: Message, values: Any) -> int:
        """Return the member that a consensus message claims to come from; -1 where it is not for upkeep."""
        if table not in self._handlers:
            return NULL_VALUE
        return int(values.leader_member_id if table is ordo_codecs.CATCHUP_REFUSAL else values.member_id)

    def on_message(self, table: Message, values: Any, now_ns: int) -> None:
        """Handle a message of the member that `sender_of` names. Raises DecodeError, ConfigurationError."""
        names = ("member_id", "leader_member_id", "follower_member_id")
        if all(getattr(values, name) in self._contacts for name in names if hasattr(values, name)):
            self._handlers[table](values, now_ns)

    def _on_request(self, request: records.SnapshotRequest, now_ns: int) -> None:
        (member,) = self._contacts.find([request.member_id])
        self.reports.note_need(member.id, request.snapshot_position, now_ns)
        if request.from_position < 0:
            raise DecodeError(f"SnapshotRequest: from_position={request.from_position}")
        self.source.on_request(request, member)

    def _on_log_request(self, request: records.LogRequest, now_ns: int) -> None:
        (member,) = self._contacts.find([request.member_id])
        self.repair.on_request(request, member)

    def _on_offer(self, offer: records.SnapshotOffer, now_ns: int) -> None:
        if offer.follower_member_id == self._own_id:
            self.fetch.on_offer(offer, now_ns)

    def _on_refusal(self, refusal: records.CatchupRefusal, now_ns: int) -> None:
        """Handle a refusal: the leader no longer has the log that this member needs next."""
        is_for_this = refusal.follower_member_id == self._own_id and not self._is_in_step
        if not is_for_this or refusal.snapshot_position <= self._sequencer.append_position:
            return
        if refusal.source_member_id not in self._contacts:
            self._contacts.learn(parse_member(refusal.source_member_id, refusal.source))
            self._contacts.connect(now_ns)
        wanted = HeldSnapshot(refusal.snapshot_position, refusal.digest)
        if self.fetch.begin(wanted, refusal.source_member_id, now_ns):
            self._due_ns = now_ns
            self._host.announce(
                "cluster.snapshot-fetch",
                f"the log from position {self._sequencer.append_position} on is kept no longer by leader member "
                f"{refusal.leader_member_id}: fetches the snapshot at {wanted.log_position} from member "
                f"{refusal.source_member_id}",
            )

    # -- the leader ----------------------------------------------------------------------------------------------------

    def refuse(self, member_id: int, position: int, start_position: int, leadership_term_id: int, now_ns: int) -> None:
        """Tell a member, as its leader, that the log it asks for is gone, which snapshot to take, and from whom."""
        agreed = self._agreement.agreed
        if agreed.log_position <= position or now_ns < self._refused_ns.get(member_id, 0):
            return
        source_id = self._choose_source(agreed, member_id, now_ns)
        if source_id == NULL_VALUE:
            return
        (source,) = self._contacts.find([source_id])
        self._refused_ns[member_id] = now_ns + REFUSAL_INTERVAL_NS
        refusal = ordo_codecs.CATCHUP_REFUSAL.encode(
            leadership_term_id=leadership_term_id,
            start_position=start_position,
            snapshot_position=agreed.log_position,
            leader_member_id=self._own_id,
            follower_member_id=member_id,
            source_member_id=source_id,
            digest=agreed.digest,
            source=source.encode(),
        )
        self.reports.note_need(member_id, agreed.log_position, now_ns)
        self._contacts.send(member_id, refusal)

    def _choose_source(self, snapshot: HeldSnapshot, member_id: int, now_ns: int) -> int:
        """Return the follower to fetch a snapshot from, else the leader, which is busier; -1 if no holder is active."""
        holders = [one for one in self.reports.holders(snapshot) if one not in (member_id, self._own_id)]
        active = [one for one in holders if self._core.progress.is_active(one, now_ns)]
        if active:
            return active[member_id % len(active)]
        return self._own_id if self.shelf.find(*snapshot) is not None else NULL_VALUE

    def _agree(self) -> None:
        """Note permanently the newest snapshot that a quorum of voters and this member hold alike."""
        configuration, agreement = self._core.configuration, self._agreement
        found = self.reports.find_quorums(configuration.voter_ids, configuration.quorum_threshold)
        former = agreement.agreed
        for missed, alike_position in agreement.settle(found, self.shelf.digests()):
            self.doubt.compare(missed, alike_position)
        if agreement.agreed != former:
            self._store.put_agreed(*agreement.agreed)
        self._quorum_snapshot = found[-1] if found else None
        self.doubt.tell_dissent(self.reports.find_dissent(configuration.voter_ids, configuration.quorum_threshold))

    # -- time ----------------------------------------------------------------------------------------------------------

    @property
    def agreed_position(self) -> int:
        """The position of the newest snapshot that this member holds and a quorum was seen to hold alike, or -1."""
        return self._agreement.agreed.log_position

    def work(self, now_ns: int) -> None:
        """Run the upkeep that is due; called with every slow tick."""
        self.fetch.work(now_ns)
        self.feeds.work()
        self.skips.work(now_ns)
        self.repair.work(now_ns, is_free=self._is_in_step and not self.fetch.is_under_way)
        host = self._host
        if host.is_leader:
            self.schedule.work(self._sequencer.commit_position, host.cluster_time)
        digests = self.shelf.digests()
        self.versions.work(now_ns, self._quorum_snapshot.log_position if self._quorum_snapshot else NULL_VALUE)
        is_free = self._is_in_step and self.doubt.position == NULL_VALUE and not self.repair.is_under_way
        self.snapshot_repair.work(self.fetch, self._core.leader_member_id, now_ns, is_free=is_free)
        if now_ns < self._due_ns and digests.keys() == self._reported.keys():
            return
        self._due_ns = now_ns + INTERVAL_NS
        self._reported = digests
        self._contacts.broadcast(self.reports.encode_own(digests, self._needed_position, now_ns))
        self._remove_old(now_ns)
        self.levels.work(now_ns)
        self.identity.work()
        self.standings.work()
        self.hashes.work(now_ns, self._quorum_snapshot)
        if self._is_in_step:
            newest = self._quorum_snapshot
            self.doubt.work(self.fetch, newest, self._sequencer.append_position, now_ns)
            self.versions.lacks.work(self.fetch, newest, now_ns, self.reports.holders(newest) if newest else [])

    @property
    def _is_in_step(self) -> bool:
        """Whether this member leads, or follows the live log."""
        return self._core.state is ElectionState.CLOSED

    @property
    def _needed_position(self) -> int:
        """The position where the log begins that this member still lacks.

        Following the live log it may need it again.
        """
        return self.fetch.position if self.fetch.is_under_way else int(self._sequencer.append_position)

    def _remove_old(self, now_ns: int) -> None:
        host = self._host
        recording_id = self._log.recording_id
        if recording_id == NULL_VALUE or self.fetch.is_under_way:
            return
        if self._cleared_log_id != recording_id:
            self._cleared_log_id = recording_id
            self.shelf.clear_logs(recording_id)
        self.shelf.purge_left_over()
        self._agree()
        if not self.reports.is_complete(self._core.configuration.member_ids, now_ns):
            return
        agreed_position = self._agreement.agreed.log_position
        needed = self.reports.needed_position(self._log.start_position, now_ns)
        commit_position = self._sequencer.commit_position
        self.retention.remove_snapshots(agreed_position, needed, commit_position)
        bound = self.retention.find_log_bound(agreed_position, needed, commit_position, host.cluster_time)
        if self.retention.purge_log(recording_id, bound):
            self.feeds.purge(self._log.start_position)

    def order_early_snapshot(self, room_bytes: int) -> None:
        """Order a snapshot, as a leader short of room, so that retention can delete log."""
        if self.retention.purges_log and 2 * self.shelf.newest_length_bytes < room_bytes:
            self.schedule.ask_early(self._sequencer.commit_position)

    # -- a snapshot of another member ----------------------------------------------------------------------------------

    def _install(self, fetched: FetchedSnapshot) -> None:
        """Install a fetched snapshot. Where it reaches further than the log, it replaces everything this member had."""
        position = fetched.entry.log_position
        if replaced := self.snapshot_repair.install(fetched):
            self.repair.scrubber.note_replaced(replaced)
        elif position <= self._sequencer.append_position:
            if self.doubt.position != NULL_VALUE:
                self.doubt.install(fetched)
            else:
                self.versions.lacks.install(fetched)
        else:
            self._start_from(fetched)

    def _start_from(self, fetched: FetchedSnapshot) -> None:
        position = fetched.entry.log_position
        self._store.install(fetched.entry, fetched.digest, fetched.terms)
        self._host.start_again(f"starts again from the snapshot at log position {position} of another member")

    def close(self) -> None:
        self.feeds.close()
        self.fetch.close()
        self.repair.close()


def _make_schedule(config: ModuleConfig, order_snapshot: Callable[[], bool]) -> SnapshotSchedule:
    return SnapshotSchedule(config.snapshot.every_bytes, config.snapshot.every_seconds * SECOND_NS, order_snapshot)
