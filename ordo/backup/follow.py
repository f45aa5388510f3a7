"""Keeps a backup of a cluster: asks members what there is, copies snapshots, and follows the log.

Once an interval one member is asked (query.py): a follower, the leader only where no other answers. A newer snapshot
than those that are here is copied from its archive (snapshot_copy.py). The log is followed from whichever node has it
(log_copy.py), the leader last. Whatever fails is tried again with the next member; only this machine's disk, and
credentials that all members refuse, end it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.backup.folder import Contents, Report
from ordo.backup.log_copy import LogCopy
from ordo.backup.query import Description, MemberQuery
from ordo.backup.snapshot_copy import SnapshotCopy
from ordo.runtime.errors import ConfigurationError, NotPermittedError, OrdoError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import SECOND_NS

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.cluster.wire.known_cluster import KnownCluster
    from ordo.cluster.wire.log_identity import Origin
    from ordo.transport.client.client import TransportClient

RETRY_INTERVAL_NS = SECOND_NS
STATUS_INTERVAL_NS = SECOND_NS


class Folder(Protocol):
    """Where the copies go: the folder of a backup, or of a standby."""

    @property
    def archive(self) -> Archive: ...
    @property
    def store(self) -> StateStore: ...
    def contents(self) -> Contents: ...
    def known_cluster(self) -> KnownCluster: ...
    def write_cluster(self, endpoints: list[str], origin: Origin | None) -> None: ...
    def write_status(self, values: dict[str, object]) -> None: ...


class Admission:
    """Whether the members may be followed with this copy's credentials and id."""

    def __init__(self, standby_id: int | None) -> None:
        """Take the id of the standby that follows; None: a backup, which has none."""
        self._standby_id = standby_id
        self._refusals: set[str] = set()

    def refuse(self, address: str, problem: NotPermittedError, addresses: Sequence[str]) -> None:
        """Note that a member refused the credentials.

        Raises the problem once all have; a standby outlives that, since credentials may be granted again.
        """
        self._refusals.add(address)
        if self._standby_id is None and self._refusals >= set(addresses):
            raise problem

    def forget(self) -> None:
        """Take back all refusals: a member has answered."""
        self._refusals.clear()

    def check(self, member_ids: Iterable[int]) -> None:
        """Raise ConfigurationError if a member has the standby's id."""
        if self._standby_id is not None and self._standby_id in member_ids:
            raise ConfigurationError(
                f"member_id={self._standby_id}: the cluster that is followed has a member with this id, and clients "
                "keep members by id: give the standby another one in its node.toml, and an empty data_dir"
            )


class Backup:
    """One backup that is kept up to date. `work` every duty cycle."""

    def __init__(
        self,
        folder: Folder,
        client: TransportClient,
        addresses: Sequence[str],
        *,
        credentials: bytes = b"",
        interval_s: float,
        report: Report,
        standby_id: int | None = None,
    ) -> None:
        """`addresses`: ingress of some members, host:port; those that the cluster names are used as well.

        `standby_id`: what follows is a standby with this id, which no member may have; it outlives credentials that
        all members refuse, since they may be granted again.
        """
        self._folder = folder
        self._client = client
        self._given = list(addresses)
        self._addresses = list(addresses)
        self._remembered: list[str] = []
        self._credentials = credentials
        self._interval_ns = round(interval_s * SECOND_NS)
        self._report = report
        self._query: MemberQuery | None = None
        self._next_address = 0
        self._skips_leader = True
        self._due_ns = 0
        self._admission = Admission(standby_id)
        self._log: LogCopy | None = None
        self._snapshot: SnapshotCopy | None = None
        self._answer: Description | None = None
        self._asked_count = 0
        self._status_ns = 0
        self.problem = ""
        """What failed last, in a line."""
        self._cluster = folder.known_cluster()
        self._written: tuple[list[str], Origin | None] | None = None

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Everything is here that the cluster had when it was asked: its newest snapshot, and the log behind it."""
        if self._answer is None or self._log is None or self._snapshot is not None or self._log.end_position < 0:
            return False
        offered = self._answer.snapshot
        has_snapshot = offered is None or self._newest_position >= offered.log_position
        return (
            has_snapshot and self.can_start and self._log.position >= max(self._log.end_position, self._newest_position)
        )

    @property
    def can_start(self) -> bool:
        """A cluster could start from the newest stretch: it is the beginning of the log, or has a snapshot within."""
        if self._log is None or self._log.recording_id is None:
            return False
        start = self._folder.archive.descriptor(self._log.recording_id).start_position
        return start == 0 or start <= self._newest_position <= self._log.position

    @property
    def _newest_position(self) -> int:
        return max((one.log_position for one in self._folder.contents().snapshots), default=-1)

    # -- the duty cycle --------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> int:
        """One duty cycle; returns the number of things done.

        Raises StorageError, NotPermittedError; OtherClusterError when a member is of another cluster than the backup,
        ConfigurationError when one has the id of the standby that follows.
        """
        work_count = self._work_query(now_ns)
        if self._log is not None:
            work_count += self._log.work(now_ns)
        if self._snapshot is not None:
            work_count += self._snapshot.work(now_ns)
            if self._snapshot.is_done:
                self._take_snapshot(self._snapshot, now_ns)
        self._cluster.check()
        self._write_cluster()
        if now_ns >= self._status_ns:
            self._status_ns = now_ns + STATUS_INTERVAL_NS
            self._folder.write_status(self.status())
            if self._answer is not None and not self.can_start:
                self._due_ns = min(self._due_ns, now_ns)  # the member's log has begun anew since it was asked
        return work_count

    def _work_query(self, now_ns: int) -> int:
        if self._query is None and now_ns >= self._due_ns and self._snapshot is None:
            address = self._addresses[self._next_address % len(self._addresses)]
            self._next_address += 1
            self._asked_count += 1
            try:
                self._query = MemberQuery(self._client, address, self._credentials, now_ns)
            except OrdoError as error:
                self._fail(error.message, now_ns)
        query = self._query
        if query is None:
            return 0
        work_count = query.work(now_ns)
        if query.is_done:
            self._query = None
            query.close()
            if query.problem is not None:
                self._on_problem(query.address, query.problem, now_ns)
            else:
                assert query.answer is not None
                self._admission.forget()
                self._on_answer(query.answer, now_ns)
        return work_count

    def _on_problem(self, address: str, problem: OrdoError, now_ns: int) -> None:
        if isinstance(problem, NotPermittedError):
            self._admission.refuse(address, problem, self._addresses)
        self._fail(problem.message, now_ns)

    def _fail(self, problem: str, now_ns: int) -> None:
        """Ask the next member, at once unless all of them have been asked."""
        self._tell(problem)
        self._skips_leader = False
        if self._asked_count >= len(self._addresses):
            self._asked_count = 0
            self._due_ns = now_ns + RETRY_INTERVAL_NS

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._report(problem)

    # -- what members say ------------------------------------------------------------------------------------------

    def _on_answer(self, answer: Description, now_ns: int) -> None:
        self._take_members(answer)
        is_leader = answer.member_id == answer.leader_member_id
        if is_leader and self._skips_leader and self._asked_count < len(self._addresses):
            return  # the leader has enough to do: the next one is asked
        self._asked_count, self._skips_leader = 0, True
        self._due_ns = now_ns + self._interval_ns
        self._answer = answer
        archives = [one.archive for one in answer.members]
        leader = next((one.archive for one in answer.members if one.id == answer.leader_member_id), None)
        archives.sort(key=lambda address: (address == leader, address))
        nodes = [self._archive_settings(address) for address in archives]
        if self._log is None:
            stretches = self._folder.contents().stretches
            newest = stretches[-1] if stretches else None
            self._log = LogCopy(self._folder.archive, self._client, nodes, newest, self._report, self._cluster)
        else:
            self._log.change_nodes(nodes)
        self._look_at_snapshot(answer)

    def _look_at_snapshot(self, answer: Description) -> None:
        """Copy the member's snapshot where it is newer than those that are here."""
        offered, address = answer.snapshot, answer.archive
        if offered is not None and address is not None and offered.log_position > self._newest_position:
            settings = self._archive_settings(address)
            self._snapshot = SnapshotCopy(self._folder.archive, self._client, settings, offered, self._cluster)

    def _archive_settings(self, address: str) -> ArchiveClientSettings:
        return ArchiveClientSettings.at(address, message_timeout_s=5.0, credentials=self._credentials, name="backup")

    @property
    def log(self) -> LogCopy | None:
        """The copy of the log; None until a member has answered."""
        return self._log

    @property
    def source_member_id(self) -> int:
        """The member whose archive sends the log; NULL_VALUE where none does, or it is not known which one it is."""
        channel = None if self._log is None else self._log.source_address
        members = () if channel is None or self._answer is None else self._answer.members
        found = (one.id for one in members if self._archive_settings(one.archive).control_channel == channel)
        return next(found, NULL_VALUE)

    def _write_cluster(self) -> None:
        """Write down whose backup this is, before anything is recorded, and once a member's archive has shown it."""
        now = (self._remembered, self._cluster.origin)
        if self._remembered and now != self._written and self._log is not None and self._log.end_position >= 0:
            self._folder.write_cluster(*now)
            self._written = now

    def _take_members(self, answer: Description) -> None:
        """Take the members' addresses; those given first that are no members follow."""
        self._admission.check(one.id for one in answer.members)
        found = [one.ingress for one in answer.members]
        addresses = [*found, *(one for one in self._given if one not in found)]
        if addresses != self._remembered:
            self._remembered = self._addresses = addresses

    def _take_snapshot(self, copy: SnapshotCopy, now_ns: int) -> None:
        self._snapshot = None
        copy.close()
        if copy.checked is None or copy.entry is None:
            self._fail(copy.problem, now_ns)
            self._due_ns = now_ns + RETRY_INTERVAL_NS
            return
        self._folder.store.put_snapshot(copy.entry, copy.checked.digest)
        self._report(f"the snapshot at log position {copy.entry.log_position} is here, whole")

    # -- telling ---------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return what the running backup does, as JSON has it."""
        log = self._log
        return {
            "state": self._state(),
            "source": None if log is None else log.source_address,
            "position": -1 if log is None else log.position,
            "cluster_position": -1 if log is None else log.end_position,
            "snapshot_position": self._newest_position,
            "endpoints": self._addresses,
            "problem": self.problem or ("" if log is None else log.problem),
        }

    def _state(self) -> str:
        if self._snapshot is not None:
            return "copying a snapshot"
        if self._log is None:
            return "looking for a member"
        return "following" if self._log.source_address is not None else "looking for a node that has the log"

    def close(self) -> None:
        """End properly; everything that was copied stays."""
        if self._query is not None:
            self._query.close()
        if self._snapshot is not None:
            self._snapshot.close()
        if self._log is not None:
            self._log.close()


class LogBackup(Backup):
    """Follows the log alone, for a program that executes it and takes its snapshots itself."""

    def _look_at_snapshot(self, answer: Description) -> None:
        """Leave the member's snapshots to it."""


def demand_addresses(addresses: Sequence[str]) -> None:
    """Raise ConfigurationError where there is none."""
    if not addresses:
        raise ConfigurationError("--endpoints: give HOST:PORT,... of some members' ingress")
