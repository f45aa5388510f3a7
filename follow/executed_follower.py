"""Follows the log and delivers each executed request once, without repeated copies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.entries import EntryKind, LogEntry, decode_entry, record_filter
from ordo.follow.execution_search import ExecutionSearch
from ordo.follow.executions import DECIDING_KINDS, REQUESTS, Executions
from ordo.follow.follower import LogFollower
from ordo.runtime.errors import ArchiveError
from ordo.transport.client.client import TransportClient


class ExecutedFollower(LogFollower):
    """A follower of the log whose entries say whether they are repeats (`LogEntry.is_repeat`).

    Where it begins in the middle of the log, it first finds out what was executed before (`ExecutionSearch`); with
    `repeats` it does not: everything is handed out, and what is not known is said to be unknown.
    """

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        position: int | None,
        silence_s: float,
        *,
        repeats: bool = False,
        record_filter: Mapping[str, str] | None = None,
        goes_live: bool = False,
        cluster: KnownCluster | None = None,
    ) -> None:
        """Follow the log like LogFollower.

        `record_filter` must admit the records that decide what is executed (`filter_of`).
        """
        super().__init__(
            client, nodes, position, silence_s, record_filter=record_filter, goes_live=goes_live, cluster=cluster
        )
        self._repeats = repeats
        self._begin_position = position
        self._log_begin = -1
        self._later_snapshot: int | None = None
        self._executions = Executions(is_known=position == 0)
        self._search: ExecutionSearch | None = None
        self._search_count = 0
        self._finished: ExecutionSearch | None = None
        if not repeats and position != 0:
            self._search = ExecutionSearch(client, nodes, position, silence_s, self.cluster)

    def check_allowed(self) -> None:
        """Raise ArchiveError when every node refuses these credentials."""
        if self._search is not None:
            self._search.check_allowed()
        super().check_allowed()

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        count = 0
        if self._finished is not None:
            count += self._finished.work(now_ns)
            if not self._finished.is_pending:
                self._finished = None
        search = self._search
        if search is None:
            return count + super().work(now_ns)
        self._search_count = search.work(now_ns)
        count += self._search_count
        self.problem = search.problem
        if search.executions is not None:
            self._executions, self._log_begin = search.executions, search.begin_position
            self._later_snapshot = search.later_position
            self.position = self._begin_position = search.position
            self._search, self._finished = None, search
        return count

    def poll(self, handler: Callable[[LogEntry], object], limit: int) -> int:
        """Call `handler(entry)` for what has come, at most `limit` fragments; return how many.

        While it finds out what was executed before, the number of things done for that.

        Raises ArchiveError at a request of which nobody knows any more whether it is a repeat.
        """
        if self._search is not None:
            return self._search_count
        mark, repeats = self._executions.mark, self._repeats

        def on_record(position: int, record: bytes) -> None:
            entry = decode_entry(position, record)
            if entry is None:
                return
            if entry.kind is not EntryKind.MESSAGE:
                entry = mark(entry)
                if entry.is_repeat is not False and not repeats:
                    if entry.is_repeat is None:
                        self._refuse(entry)
                    return
            handler(entry)

        return self.poll_records(on_record, limit)

    def _refuse(self, entry: LogEntry) -> None:
        later = self._later_snapshot
        where = (
            "the oldest snapshot (`ordo cluster snapshots`)" if later is None else f"position={later}, a snapshot's,"
        )
        raise ArchiveError(
            f"whether the request at position={entry.position} was executed before is not known: the log begins at "
            f"position={self._log_begin}, and there is no snapshot up to position={self._begin_position}: begin at "
            f"{where} or later, or take repeats as well (repeats=True)",
            code=ErrorCode.INVALID_POSITION,
        )

    def close(self) -> None:
        """Give up all sources. Idempotent."""
        if self._search is not None:
            self._search.close()
        super().close()


def filter_of(
    kinds: Collection[EntryKind] | None, session_ids: Collection[int] | None, *, decides: bool
) -> dict[str, str]:
    """Return what nodes are to send (`record_filter`).

    What is wanted and, where it is to be decided which requests are repeats, what that takes.
    """
    if not decides or (kinds is not None and not REQUESTS & set(kinds)):
        return record_filter(kinds, session_ids)
    return {} if kinds is None else record_filter(list(dict.fromkeys((*kinds, *DECIDING_KINDS))), None)


def follow_executed(
    client: TransportClient,
    nodes: Sequence[ArchiveClientSettings],
    position: int | None,
    silence_s: float,
    *,
    kinds: Collection[EntryKind] | None,
    record_filter: Mapping[str, str],
    repeats: bool,
    cluster: KnownCluster | None = None,
) -> LogFollower:
    """Follow entries of these kinds. Without requests among them nothing needs to be decided.

    Where no requests are among them nothing is to be decided.
    """
    if kinds is not None and not REQUESTS & set(kinds):
        return LogFollower(
            client, nodes, position, silence_s, record_filter=record_filter, goes_live=True, cluster=cluster
        )
    return ExecutedFollower(
        client,
        nodes,
        position,
        silence_s,
        repeats=repeats,
        record_filter=record_filter,
        goes_live=True,
        cluster=cluster,
    )
