"""Which version of the service is in force, by the log, and how the next one comes into it (docs/UPGRADES.md).

    in force   what the first record of the first leadership term says, changed by each VersionEvent, from that on
    upgrade    an operator asks the leader; it asks all members what code they have, and appends a VersionEvent when
               every voter has answered that it has the code
    lack       this member's container has no code of the version in force: its service stands still, the member does
               not stay leader, and starts again from a snapshot of the others from behind the stretch

A VersionEvent that is left out (cluster.module.skips) changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cluster.module.host import AppendingHost, MemberHost
from cluster.module.sessions import NULL_VALUE
from cluster.module.version_survey import VersionSurvey
from cluster.wire import codecs, ordo_codecs
from cluster.wire.app_version import NO_VERSION, format_version, format_versions
from cluster.wire.version_rows import HANDS_OVER, HASHES, MemberCode, decode_codes, encode_levels, encode_members

if TYPE_CHECKING:
    from cluster.module.contacts import Contacts
    from cluster.module.counters import ModuleCounters
    from cluster.module.log_executor import LogRecord
    from cluster.module.protocol_level import ProtocolLevel
    from cluster.module.sequencer import Sequencer
    from cluster.module.skips import Skips
    from cluster.module.snapshot_fetch import FetchedSnapshot, SnapshotFetch
    from cluster.module.snapshot_reports import HeldSnapshot
    from cluster.module.state_store import StateStore
    from consensus.core import ConsensusCore
    from runtime.sbe import Message


class VersionHost(MemberHost, AppendingHost, Protocol):
    """The member whose service it is."""


class VersionChange(NamedTuple):
    """A record of the log that says what is in force behind it."""

    position: int
    app_version: int


class Lack(NamedTuple):
    """Where the own service stands still, and what it would need."""

    log_position: int
    app_version: int


class _Upgrade(NamedTuple):
    correlation_id: int
    app_version: int


class Versions:
    """Of one member."""

    def __init__(
        self,
        host: VersionHost,
        core: ConsensusCore,
        sequencer: Sequencer,
        contacts: Contacts,
        store: StateStore,
        skips: Skips,
        counters: ModuleCounters,
        levels: ProtocolLevel,
        own_id: int,
        first_version: int,
        *,
        answer_tool: Callable[[bytes], None],
        ask_snapshot: Callable[[], bool],
    ) -> None:
        """`first_version`: what a log begins with that this member is the first to lead. `answer_tool` takes the
        answers to tools and operators. `ask_snapshot` has the cluster take one; False: not now."""
        self._host = host
        self._core = core
        self._sequencer = sequencer
        self._store = store
        self._skips = skips
        self._counters = counters
        self._levels = levels
        self._own_id = own_id
        self._first_version = first_version
        self._answer_tool = answer_tool
        self._ask_snapshot = ask_snapshot
        self._of_snapshot = NO_VERSION
        self._changes: list[VersionChange] = []
        self._lack: Lack | None = None
        self._upgrade: _Upgrade | None = None
        self._committed: VersionChange | None = None
        self._snapshot_asked_in = NULL_VALUE
        self.survey = VersionSurvey(core, contacts, levels, own_id, lambda: self._lack or Lack(NULL_VALUE, NO_VERSION))
        self.handlers: dict[Message, Callable[[Any, int], None]] = self.survey.handlers

    def start(self, of_snapshot: int) -> None:
        """`of_snapshot`: what the snapshot says that the member starts from, NO_VERSION without one. The log's own
        records were given to `on_record` before."""
        self._of_snapshot = of_snapshot

    # -- the log -------------------------------------------------------------------------------------------------------

    def on_record(self, position: int, table: Message, values: Any) -> None:
        """A record of the own durable log; it counts for the service once it is committed."""
        is_first = table is codecs.NEW_LEADERSHIP_TERM_EVENT and values.term_base_log_position == 0
        if is_first or table is ordo_codecs.VERSION_EVENT:
            self._changes.append(VersionChange(position, values.app_version))

    def truncate(self, position: int) -> None:
        """The log was cut at `position`."""
        while self._changes and self._changes[-1].position > position:
            self._changes.pop()

    def _change_at(self, log_position: int) -> VersionChange:
        skipped = self._skips.known
        found = (one for one in reversed(self._changes) if one.position <= log_position and one.position not in skipped)
        return next(found, VersionChange(NULL_VALUE, self._of_snapshot))

    def at(self, log_position: int) -> int:
        """In force for the state at a position; NO_VERSION for that of an empty log."""
        return self._change_at(log_position).app_version

    @property
    def newest(self) -> int:
        """In force at the end of the own log: what the first record of a leadership term says."""
        return self.at(self._sequencer.append_position) or self._first_version

    @property
    def gives_hashes(self) -> bool:
        """Whether the own container's code of the version in force gives hashes of its state."""
        return any(code.app_version == self.newest and code.flags & HASHES for code in self.survey.own)

    def execute(self, record: LogRecord) -> None:
        """A VersionEvent is committed: it holds for ever, unless it is left out."""
        position, app_version = record.position, record.values.app_version
        if position in self._skips.known:
            return
        self._host.announce(
            "cluster.version", f"version {format_version(app_version)} of the service is in force from {position} on"
        )
        self._committed = VersionChange(position, app_version)

    # -- the own service -----------------------------------------------------------------------------------------------

    def on_service_versions(self, values: Any) -> None:
        """The container has started, with this code. Raises DecodeError."""
        self.survey.own = decode_codes(values.versions)

    def on_service_lack(self, service_id: int, values: Any) -> None:
        """The container of a service stands still."""
        self._lack = Lack(values.log_position, values.app_version)
        name, table = "the service", "[service]"
        has = f"code of {format_versions([code.app_version for code in self.survey.own])} only"
        if len(self._counters.service_positions) > 1:  # what the others have code of may not have been said yet
            name, table, has = f"service {service_id}", "[[services]]", "no code of that for this service"
        self._host.record_error(
            f"{name} stands still at log position {values.log_position}: from there on version "
            f"{format_version(values.app_version)} is in force, and this member has {has}; give it that code too "
            f"({table} versions), or have the cluster take a snapshot from behind that stretch (`ordo cluster "
            "snapshot`), which this member then takes"
        )

    def on_service_failure(self, values: Any) -> None:
        """The service stands still at a record, at the hand-over perhaps: who asked for it hears why."""
        upgrade, committed = self._upgrade, self._committed
        if upgrade is not None and committed is not None and committed.position == values.log_position:
            self._refuse(
                upgrade,
                f"version {format_version(upgrade.app_version)} did not take the state over at log position "
                f'{committed.position}: {values.text.decode("utf-8", "replace")}; where on_error is "restore", and a '
                "quorum failed alike, the cluster leaves this upgrade out and goes on with the version before it; else "
                f"all members stop, and `ordo cluster skip {committed.position}` leaves it out",
            )

    def work_on_lack(self, fetch: SnapshotFetch, newest: HeldSnapshot | None, now_ns: int, holders: list[int]) -> None:
        """One step towards a snapshot that has the stretch behind it. `newest`: what a quorum holds alike, by
        `holders`."""
        lack = self._lack
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
        """Puts the snapshot before the own ones; the log stays. False where it is not for that."""
        if self._lack is None or fetched.entry.log_position <= self._lack.log_position:
            return False
        position = fetched.entry.log_position
        self._store.replace_snapshots(fetched.entry, fetched.digest, position)
        self._host.start_again(f"goes on from the other members' state at log position {position}")
        return True

    # -- tools ---------------------------------------------------------------------------------------------------------

    def on_query(self, query: Any, now_ns: int) -> None:
        """`ordo cluster versions`: answered when the members have, or have had their time."""
        members = self._core.configuration.member_ids
        self.survey.begin(members, lambda found: self._tell(query.correlation_id, found), now_ns)

    def _tell(self, correlation_id: int, found: list[MemberCode]) -> None:
        change = self._change_at(self._sequencer.commit_position)
        level = self._levels.change_at(self._sequencer.commit_position)
        self._answer_tool(
            ordo_codecs.VERSIONS_RESPONSE.encode(
                correlation_id=correlation_id,
                leader_member_id=self._core.leader_member_id,
                app_version=change.app_version,
                since_position=change.position,
                level_since_position=level.position,
                protocol_level=level.level,
                members=encode_members(found),
                levels=encode_levels(self.survey.levels_of({row.member_id for row in found})),
            )
        )

    def on_upgrade_request(self, request: Any, now_ns: int) -> None:
        """`ordo cluster upgrade`: answered when it is committed, or with the reason for a refusal."""
        wanted = _Upgrade(request.correlation_id, request.app_version)
        refusal = self._find_refusal(wanted)
        if refusal:
            self._refuse(wanted, refusal)
            return
        self._upgrade, self._committed = wanted, None
        self.survey.begin(self._core.configuration.voter_ids, lambda found: self._decide(wanted, found), now_ns)

    def _find_refusal(self, wanted: _Upgrade) -> str:
        name = format_version(wanted.app_version)
        if not self._host.is_leader:
            return f"member {self._own_id} does not lead"
        if self._upgrade is not None:
            return f"an upgrade to version {format_version(self._upgrade.app_version)} is under way"
        end = self._sequencer.append_position
        if self.at(end) != self.at(self._sequencer.commit_position):
            return f"the upgrade to version {format_version(self.at(end))} is not committed yet"
        if self.at(end) == wanted.app_version:
            return f"version {name} is in force already"
        if not any(code.app_version == self.at(end) and code.flags & HANDS_OVER for code in self.survey.own):
            return (
                f"the service of version {format_version(self.at(end))} cannot hand its state over to another: it does "
                "not implement on_take_snapshot"
            )
        return ""

    def _decide(self, wanted: _Upgrade, found: list[MemberCode]) -> None:
        """The voters have said what code they have."""
        if self._upgrade != wanted:
            return
        having = {row.member_id for row in found if row.app_version == wanted.app_version}
        without = [one for one in self._core.configuration.voter_ids if one not in having]
        if without:
            code = {one: [row.app_version for row in found if row.member_id == one] for one in without}
            self._refuse(wanted, _describe_lacking(wanted.app_version, code))
        elif not self._append(wanted):
            self._refuse(wanted, "the cluster takes no records at the moment; try again")

    def _append(self, wanted: _Upgrade) -> bool:
        return self._host.append(
            ordo_codecs.VERSION_EVENT.encode(
                leadership_term_id=self._host.leadership_term_id,
                timestamp=self._host.cluster_time,
                app_version=wanted.app_version,
                member_id=self._own_id,
            )
        )

    def _refuse(self, wanted: _Upgrade, refusal: str) -> None:
        if self._upgrade == wanted:
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
        """Called with every slow tick. `snapshot_position`: of the newest snapshot that this member holds."""
        self.survey.work(now_ns)
        upgrade, committed = self._upgrade, self._committed
        if upgrade is not None and not self._host.is_leader:
            self._refuse(
                upgrade,
                f"member {self._own_id} stopped leading before the upgrade was known to be done; see whether it came "
                "about (`ordo cluster versions`), and ask the new leader if it did not",
            )
        elif upgrade is not None and committed is not None and self._is_executed(committed):
            self._answer(committed.position)
        if committed is not None:
            self._ask_for_snapshot(committed.position, snapshot_position)

    def _is_executed(self, change: VersionChange) -> bool:
        return int(self._counters.service_position.value) >= change.position

    def _ask_for_snapshot(self, position: int, snapshot_position: int) -> None:
        """Who has the new code only gets past the old stretch by a snapshot. A leader asks for it once."""
        if snapshot_position > position:
            self._committed = None
        elif self._host.is_leader and self._snapshot_asked_in != self._host.leadership_term_id and self._ask_snapshot():
            self._snapshot_asked_in = self._host.leadership_term_id


def _describe_lacking(app_version: int, code: dict[int, list[int]]) -> str:
    """Why no upgrade: `code` is what the voters have that do not have the version."""
    named = [
        f"member {one} has said nothing"
        if not [it for it in found if it]
        else f"member {one} has {format_versions(found)}"
        for one, found in code.items()
    ]
    return (
        f"not every voter has code of version {format_version(app_version)}: {'; '.join(named)}. Give it to them "
        "([service] versions), start them again one after the other, and ask again"
    )
