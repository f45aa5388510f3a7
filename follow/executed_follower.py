"""Follows the log and delivers each executed request once, without repeated copies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.beginnings import AtSequence, AtTime
from ordo.follow.entries import EntryKind, LogEntry, decode_entry, record_filter
from ordo.follow.execution_search import ExecutionSearch, NumberedSearch
from ordo.follow.executions import DECIDING_KINDS, NUMBERED, NUMBERING_KINDS, REQUESTS, Executions
from ordo.follow.follower import LogFollower
from ordo.follow.sequence_search import SequenceSearch
from ordo.follow.start_search import StartSearch
from ordo.runtime.errors import ArchiveError
from ordo.transport.client.client import TransportClient


class ExecutedFollower(LogFollower):
    """A follower of the log whose entries say whether they are repeats (`LogEntry.is_repeat`).

    Where it begins in the middle of the log, it first finds out what was executed before (`ExecutionSearch`); with
    `repeats` it does not: everything is handed out, and what is not known is said to be unknown.
    """

    tells_numbers = False
    """Whether entries have the numbers of their messages, where they are known."""

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        begin: int | AtSequence | AtTime | None,
        silence_s: float,
        *,
        repeats: bool = False,
        record_filter: Mapping[str, str] | None = None,
        goes_live: bool = False,
        cluster: KnownCluster | None = None,
    ) -> None:
        """Follow the log like LogFollower.

        `begin`: a position; None: with what is committed when the first node is reached. From a number on, entries have
        the numbers of their messages; those before it come, too, from the newest snapshot on. `record_filter` must
        admit the records that decide what is executed (`filter_of`).
        """
        position = begin if isinstance(begin, int) else None
        super().__init__(
            client, nodes, position, silence_s, record_filter=record_filter, goes_live=goes_live, cluster=cluster
        )
        self._repeats = repeats
        self._begin_position = position
        self._log_begin = -1
        self._later_snapshot: int | None = None
        self._demands_numbers = isinstance(begin, AtSequence)
        self._numbers = self._demands_numbers or self.tells_numbers
        self._executions = Executions(is_known=position == 0, numbers=self._numbers)
        self._start: StartSearch | None = None
        self._search: ExecutionSearch | None = None
        self._search_count = 0
        self._finished: ExecutionSearch | None = None
        search = NumberedSearch if self._numbers else ExecutionSearch
        self._make_search = partial(search, client, nodes, silence_s=silence_s, cluster=self.cluster)
        if isinstance(begin, AtSequence):
            self._search = SequenceSearch(client, nodes, begin.sequence, silence_s, self.cluster)
        elif isinstance(begin, AtTime):
            self._start = StartSearch(client, nodes, begin.timestamp, silence_s, self.cluster, decides=not repeats)
        elif not repeats and position != 0:
            self._search = self._make_search(position)

    @property
    def last_sequence(self) -> int | None:
        """The number of the last message up to `position`; None where that is not found yet, or messages have none."""
        if not self.is_found or not self._executions.numbers:
            return None
        last, _ = self._executions.sequence.snapshot()
        return last if last >= 0 else None

    @property
    def is_found(self) -> bool:
        """Whether it is known where to begin, and what was executed before."""
        return self._start is None and self._search is None and self.position is not None

    def principal_of(self, session_id: int) -> bytes:
        """Return the principal of a session that is open at `position`, as the log has it; empty for others."""
        return self._executions.principal_of(session_id)

    def check_allowed(self) -> None:
        """Raise ArchiveError when every node refuses these credentials."""
        if self._start is not None:
            self._start.check_allowed()
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
        if self._start is not None:
            self._search_count = self._find_start(self._start, now_ns)
            return count + self._search_count
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

    def _find_start(self, start: StartSearch, now_ns: int) -> int:
        """Advance the search for the time where the follower begins."""
        count = start.work(now_ns)
        self.problem = start.problem
        if start.position is not None and not start.is_pending:
            self._start = None
            self.position = self._begin_position = start.position
            if start.position != 0 and not self._repeats:
                self._search = self._make_search(start.position)
            else:
                self._executions = Executions(is_known=start.position == 0, numbers=self._numbers)
        return count

    def poll(self, handler: Callable[[LogEntry], object], limit: int) -> int:
        """Call `handler(entry)` for what has come, at most `limit` fragments; return how many.

        While it finds out what was executed before, the number of things done for that.

        Raises ArchiveError at a request of which nobody knows any more whether it is a repeat.
        """
        if self._start is not None or self._search is not None:
            return self._search_count
        mark, repeats, numbers = self._executions.mark, self._repeats, self._numbers

        def on_record(position: int, record: bytes) -> None:
            entry = decode_entry(position, record)
            if entry is None:
                return
            if self._demands_numbers and not self._executions.is_known:
                self._refuse(f"the number of messages at position={position}", "at a position")
            if numbers or entry.kind is not EntryKind.MESSAGE:
                entry = mark(entry)
                if entry.is_repeat is not False and not repeats:
                    if entry.is_repeat is None:
                        self._refuse(
                            f"whether the request at position={position} was executed before",
                            "take repeats as well (repeats=True)",
                        )
                    return
            handler(entry)

        return self.poll_records(on_record, limit)

    def _refuse(self, what: str, instead: str) -> None:
        later = self._later_snapshot
        where = (
            "the oldest snapshot (`ordo cluster snapshots`)" if later is None else f"position={later}, a snapshot's,"
        )
        raise ArchiveError(
            f"{what} is not known: the log begins at position={self._log_begin}, and there is no snapshot up to "
            f"position={self._begin_position}: begin at {where} or later, or {instead}",
            code=ErrorCode.INVALID_POSITION,
        )

    def close(self) -> None:
        """Give up all sources. Idempotent."""
        if self._start is not None:
            self._start.close()
        if self._search is not None:
            self._search.close()
        super().close()


class NumberedFollower(ExecutedFollower):
    """The same; entries have the numbers of their messages wherever it begins, where the log can tell them.

    `record_filter` must admit what it takes to number messages (`filter_of`).
    """

    tells_numbers = True


def has_all_numbered(kinds: Collection[EntryKind] | None, session_ids: Collection[int] | None) -> bool:
    """Return whether a reader is sent everything that has a number, so that counting costs it little."""
    return session_ids is None and (kinds is None or set(kinds) >= NUMBERED)


def filter_of(
    kinds: Collection[EntryKind] | None,
    session_ids: Collection[int] | None,
    *,
    decides: bool,
    numbers: bool = False,
) -> dict[str, str]:
    """Return what nodes are to send (`record_filter`).

    What is wanted and, where it is to be decided which requests are repeats, or messages are numbered, what that takes.
    """
    if numbers:
        return {} if kinds is None else record_filter(list(dict.fromkeys((*kinds, *NUMBERING_KINDS))), None)
    if not decides or (kinds is not None and not REQUESTS & set(kinds)):
        return record_filter(kinds, session_ids)
    return {} if kinds is None else record_filter(list(dict.fromkeys((*kinds, *DECIDING_KINDS))), None)


def follow_executed(
    client: TransportClient,
    nodes: Sequence[ArchiveClientSettings],
    begin: int | AtSequence | AtTime | None,
    silence_s: float,
    *,
    kinds: Collection[EntryKind] | None,
    record_filter: Mapping[str, str],
    repeats: bool,
    numbers: bool,
    cluster: KnownCluster | None = None,
) -> LogFollower:
    """Follow entries of these kinds. Without requests among them nothing needs to be decided.

    `numbers`: entries have the numbers of their messages, where they are known.
    """
    has_requests = kinds is None or bool(REQUESTS & set(kinds))
    if not has_requests and not isinstance(begin, AtSequence | AtTime):
        return LogFollower(
            client, nodes, begin, silence_s, record_filter=record_filter, goes_live=True, cluster=cluster
        )
    make = NumberedFollower if numbers else ExecutedFollower
    return make(
        client,
        nodes,
        begin,
        silence_s,
        repeats=repeats or not has_requests,
        record_filter=record_filter,
        goes_live=True,
        cluster=cluster,
    )
