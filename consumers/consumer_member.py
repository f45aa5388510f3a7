"""One member of a durable consumer: reads the log from the consumer's position, and reports what is done.

What is decided is decided by the log (cluster.container.tables.consumer_table); a member only asks, and follows what
it is told. It never waits, and reads no clock but that of its transport.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import Generic, Literal, TypeVar

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.client.connection.endpoints import archive_endpoint, check_list
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.sessions.consumer_codec import (
    AnswerFlag,
    CommandFlag,
    CommandKind,
    ConsumerAnswer,
    ConsumerCommand,
    ConsumerMode,
    ConsumerStatus,
)
from ordo.consumers.consumer_link import ConsumerClient
from ordo.consumers.names import check_name
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.executed_follower import filter_of, follow_executed, has_all_numbered
from ordo.follow.executions import REQUESTS
from ordo.follow.follower import LogFollower
from ordo.follow.position_check import PositionCheck
from ordo.follow.start_search import StartSearch
from ordo.runtime.errors import (
    ArchiveError,
    ClusterError,
    ClusterTimeoutError,
    ConfigurationError,
    NotPermittedError,
    OrdoError,
    SessionClosedError,
    SessionRejectedError,
)
from ordo.runtime.native.cluster_time import timestamp_of_date
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.settings.kinds import check_kinds, check_seconds
from ordo.transport.client.client_transport import ClientTransport

LOOK_AGAIN_NS = 5 * SECOND_NS
SESSION_PAUSE_NS = SECOND_NS // 2
FRAGMENTS_PER_CYCLE = 256
INVALID_POSITION = int(ErrorCode.INVALID_POSITION)
READ_AHEAD_MAX = 1024
"""Entries that are read and not handed out yet."""
READ_AHEAD_BYTES_MAX = 16 << 20
"""A member reads no further while the payloads among them are longer together."""
DEFAULT_KINDS = (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT)
_TRANSIENT = (ClusterTimeoutError, SessionClosedError, SessionRejectedError)
Item = TypeVar("Item")
Start = int | datetime | Literal["first", "live"]
"""Where a new consumer begins: at a position, at the first entry that is not older than a time, or as the words say."""


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings:
    """The name of the consumer, its cluster, and how to read. Raises ConfigurationError."""

    name: str
    endpoints: Sequence[str]
    """Every member's `host:port`, its first port."""
    start: Start = "first"
    """Where a new consumer begins; one that is there already goes on where it stands."""
    kinds: Collection[EntryKind] = DEFAULT_KINDS
    session_ids: Collection[int] = ()
    """Read only entries of these sessions; empty: of all."""
    repeats: bool = False
    """Also the copies of requests that the cluster does not execute."""
    archives: Sequence[ArchiveClientSettings] = ()
    """Where the log is read; by default the members' last ports, at this host's addresses, with the client's
    credentials."""
    client: ClientSettings = field(default_factory=ClientSettings)
    silence_s: float = 2.0

    def __post_init__(self) -> None:
        check_list("endpoints", self.endpoints)
        check_kinds(self)
        check_name(self.name)
        if not self.endpoints:
            raise ConfigurationError("endpoints: name the members of the cluster as host:port")
        if not self.kinds:
            raise ConfigurationError("kinds: name at least one kind of entries")
        if isinstance(self.start, bool) or (
            not isinstance(self.start, int | datetime) and self.start not in ("first", "live")
        ):
            raise ConfigurationError(f"start={self.start!r}: allowed is first, live, a position, or a datetime")
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            raise ConfigurationError(f"start={self.start!r}: give it a time zone, such as tzinfo=timezone.utc")
        if isinstance(self.start, int) and self.start < 0:
            raise ConfigurationError(f"start={self.start}: a position is 0 or more")
        check_seconds(self, "silence_s")

    def archive_settings(self) -> list[ArchiveClientSettings]:
        """Where the log is read: from the last member first, for the first is often the leader."""
        defaults = [archive_endpoint(one) for one in reversed([*self.endpoints])]
        return list(self.archives) or archives_at(defaults, self.client)

    @property
    def decides(self) -> bool:
        """Whether the member must know which requests are executed."""
        return not self.repeats and bool(REQUESTS & set(self.kinds))

    def record_filter(self) -> dict[str, str]:
        """Return what nodes are to send.

        All, where most of it is wanted, because all readers of that share one stream.
        """
        if not self.session_ids and {EntryKind.MESSAGE, EntryKind.REQUEST} <= set(self.kinds):
            return {}
        return filter_of(self.kinds, self.session_ids or None, decides=True)

    @property
    def filter_hash(self) -> int:
        """The same for all members that read the same entries."""
        text = f"{sorted(kind.value for kind in self.kinds)} {sorted(self.session_ids)}{' repeats' * self.repeats}"
        return hash_i64(text.encode())

    @property
    def start_position(self) -> int:
        """Where a new consumer begins; -1 if at the log's end, or where a search finds it."""
        return self.start if isinstance(self.start, int) else NULL_VALUE


def archives_at(addresses: Sequence[str], client: ClientSettings | None) -> list[ArchiveClientSettings]:
    """Return the settings of readers of these archives, with the client's credentials."""
    credentials = (client or ClientSettings()).credentials
    return [ArchiveClientSettings.at(one, name="consumer", credentials=credentials) for one in addresses]


def hash_i64(text: bytes) -> int:
    """Return a number for the cluster to compare; it is the same in every process."""
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


class ConsumerMember(Generic[Item]):
    """What all members have: a session that is opened again when it is lost, and one command at a time.

    `work` once a duty cycle. The transport stays the caller's.
    """

    mode: ConsumerMode

    def __init__(self, settings: ConsumerSettings, transport: ClientTransport, member_key: int) -> None:
        """`member_key`: a random number of this process alone, above 0."""
        self.settings = settings
        self.member_key = member_key
        self.answer: ConsumerAnswer | None = None
        """How things stand, as far as this member was told."""
        self.trouble = ""
        """Why the last session was lost."""
        self._transport = transport
        self._session: ConsumerClient | None = None
        self._session_due_ns = 0
        self._number = 0
        self._joined_in = NULL_VALUE
        self._term = (NULL_VALUE, NULL_VALUE)
        self._look_ns = 0
        self._told_at = NULL_VALUE
        self._failure: OrdoError | None = None
        self._follower: LogFollower | None = None
        self._entries: deque[LogEntry] = deque()
        self._is_closing = self._has_said_goodbye = False
        self._start_position = settings.start_position
        self._search: StartSearch | None = None
        self._check: PositionCheck | None = None
        self._cluster = KnownCluster()
        """The cluster of the session and of the log: a position in one means nothing in another."""
        self._start_error: ArchiveError | None = None
        """Why no consumer is to be begun there; one that is there already goes on where it stands."""
        if self._start_position > 0:
            self._check = PositionCheck(
                transport.client, settings.archive_settings(), self._start_position, self._cluster
            )
        if settings.start == "first" or isinstance(settings.start, datetime):
            time = timestamp_of_date(settings.start) if isinstance(settings.start, datetime) else None
            self._search = StartSearch(
                transport.client,
                settings.archive_settings(),
                time,
                settings.silence_s,
                self._cluster,
                decides=settings.decides,
            )

    # State

    @property
    def is_active(self) -> bool:
        """Whether this member knows that it is the active one."""
        return self.answer is not None and AnswerFlag.ACTIVE in self.answer.flags

    @property
    def is_paused(self) -> bool:
        return self.answer is not None and AnswerFlag.PAUSED in self.answer.flags

    @property
    def committed(self) -> int:
        """The position before which everything is done, as far as this member knows; -1 while it knows none."""
        return self.answer.position if self.answer is not None else NULL_VALUE

    @property
    def source_problem(self) -> str:
        """Why the reader left the last node."""
        reader = self._follower or self._search
        return "" if reader is None else reader.problem

    def take(self, handler: Callable[[Item], object], limit: int) -> int:
        """Call `handler` for messages of this member that were read, at most `limit` times; return how often."""
        raise NotImplementedError

    # Duty cycle

    def work(self) -> int:
        """Run one duty cycle and return the number of things done.

        Raises OrdoError when this consumer cannot go on: it was removed, or the cluster refused it, or the log that it
        needs was deleted everywhere.
        """
        now_ns = self._transport.drive()
        count = self._work_session(now_ns)
        if self._failure is not None:
            raise self._failure
        if self._search is not None and not self._is_closing:
            return count + self._find_start(self._search, now_ns)
        if self._check is not None and not self._is_closing:
            return count + self._check_start(self._check, now_ns)
        session = self._session
        if session is not None and session.is_connected and not session.is_asking:
            command = self._next_command(now_ns)
            if command is not None:
                self._number += 1
                self._look_ns = now_ns + LOOK_AGAIN_NS
                session.ask(command._replace(name=self.settings.name, member_key=self.member_key, number=self._number))
        return count if self._is_closing else count + self._read(now_ns)

    def _find_start(self, search: StartSearch, now_ns: int) -> int:
        """Search for the position at which a new consumer begins; the member joins when it is found.

        The log may have been begun above 0 by retention; then its oldest snapshot is what makes it readable.
        """
        count = search.work(now_ns)
        search.check_allowed()
        if search.position is not None:
            self._start_position, self._search = search.position, None
        return count

    def _check_start(self, check: PositionCheck, now_ns: int) -> int:
        """Check that the log can be read from the position at which a new consumer begins."""
        count = check.work(now_ns)
        check.check_allowed()
        if check.is_done:
            self._start_error, self._check = check.error, None
        return count

    def _next_command(self, now_ns: int) -> ConsumerCommand | None:
        """Return the next command to send. A member joins again in every session, and asks in every term."""
        session = self._session
        assert session is not None
        if self._is_closing:
            return self._farewell() if self._joined_in == session.session_id else None
        if self._joined_in != session.session_id or self._term != session.term:
            self._term = session.term
            return self._join()
        command = self._next_of_mode(now_ns)
        if command is None and now_ns >= self._look_ns:
            command = self._join()  # what the cluster had to say may have been lost
        return command

    def _join(self) -> ConsumerCommand:
        return ConsumerCommand(
            CommandKind.JOIN,
            position=self._start_position,
            mode=self.mode,
            filter_hash=self.settings.filter_hash,
            flags=CommandFlag.NONE if self.answer is None and self._start_error is None else CommandFlag.EXISTING,
        )

    def _next_of_mode(self, now_ns: int) -> ConsumerCommand | None:
        raise NotImplementedError

    def _farewell(self) -> ConsumerCommand:
        """Return the last commands: a report of what is done, then LEAVE."""
        unsaid = self._unsaid()
        self._has_said_goodbye = unsaid is None
        return unsaid or ConsumerCommand(CommandKind.LEAVE)

    def _unsaid(self) -> ConsumerCommand | None:
        """Return a command that reports what this member has done and not reported yet, or None."""
        raise NotImplementedError

    def _work_session(self, now_ns: int) -> int:
        if self._session is None:
            if now_ns < self._session_due_ns or self._is_closing:
                return 0
            self._session = self._open_session()
        try:
            return int(self._session.poll())
        except _TRANSIENT as error:
            self.trouble = error.message
            self._drop_session()
            self._session_due_ns = now_ns + SESSION_PAUSE_NS
            return 1

    def _open_session(self) -> ConsumerClient:
        settings = self.settings
        name = settings.client.client_name or f"consumer {settings.name}"[:64]
        session = ConsumerClient(
            list(settings.endpoints),
            settings=replace(settings.client, client_name=name, reconnect=False),
            transport=self._transport,
        )
        session.on_answer, session.known_cluster = self._on_answer, self._cluster
        return session

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # Answers

    def _on_answer(self, answer: ConsumerAnswer) -> None:
        if answer.member_key != self.member_key or answer.log_position < self._told_at:
            return
        assert self._session is not None
        self._told_at = answer.log_position
        name = self.settings.name
        if answer.status is ConsumerStatus.NO_MEMBER:
            self._joined_in = NULL_VALUE
        elif answer.status is ConsumerStatus.NOT_ALLOWED:
            self._failure = NotPermittedError(answer.text)
        elif answer.status is ConsumerStatus.UNKNOWN and self._start_error is not None and self.answer is None:
            self._failure = ArchiveError(f"consumer {name}: start: {self._start_error.message}", code=INVALID_POSITION)
        elif answer.status is ConsumerStatus.UNKNOWN:
            self._failure = ClusterError(f"{answer.text}: nothing is left of its position")
        elif answer.status is ConsumerStatus.REFUSED and self._joined_in != self._session.session_id:
            self._failure = ConfigurationError(f"consumer {name}: {answer.text}")
        else:
            if answer.number:
                self._joined_in = NULL_VALUE if self._has_said_goodbye else self._session.session_id
            self._take(answer)
            self.answer = answer

    def _take(self, answer: ConsumerAnswer) -> None:
        """Handle a new answer; `self.answer` is still the previous one."""
        raise NotImplementedError

    # Reading

    def _follow(self, position: int) -> None:
        """Read from a position on."""
        self._stop_reading()
        settings = self.settings
        self._follower = follow_executed(
            self._transport.client,
            settings.archive_settings(),
            position,
            settings.silence_s,
            kinds=settings.kinds,
            record_filter=settings.record_filter(),
            repeats=settings.repeats,
            numbers=not settings.repeats and has_all_numbered(settings.kinds, settings.session_ids or None),
            cluster=self._cluster,
        )

    def _stop_reading(self) -> None:
        self._entries.clear()
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()

    def _read(self, now_ns: int) -> int:
        follower = self._follower
        if follower is None:
            return 0
        count = follower.work(now_ns)
        self._check_readable(follower)
        if self._has_room:
            count += follower.poll(self._choose, FRAGMENTS_PER_CYCLE)
        return count

    def _check_readable(self, follower: LogFollower) -> None:
        """Raise ArchiveError if the log can never be read from this consumer's position."""
        name = self.settings.name
        try:
            follower.check_allowed()
        except ArchiveError as error:
            if error.code != INVALID_POSITION:
                raise
            why = f"consumer {name}: {error.message}: move it there (ordo consumers seek)"
            raise ArchiveError(why, code=INVALID_POSITION) from None
        if follower.oldest_position is not None:
            raise ArchiveError(
                f"consumer {name}: position={follower.position} of the log was deleted everywhere; the oldest that is "
                f"left is position={follower.oldest_position}: ordo consumers seek",
                code=INVALID_POSITION,
            )

    @property
    def _has_room(self) -> bool:
        return len(self._entries) < READ_AHEAD_MAX

    def _choose(self, entry: LogEntry) -> None:
        settings = self.settings
        if entry.kind in settings.kinds and (not settings.session_ids or entry.session_id in settings.session_ids):
            self._entries.append(entry)

    # The end

    def begin_close(self) -> None:
        """Begin to leave, so that another member takes over at once; `is_closed` is True when it is done."""
        self._is_closing = True

    @property
    def is_closed(self) -> bool:
        """Whether the cluster has confirmed that the member left, or cannot be reached."""
        session = self._session
        if self._failure is not None or session is None or not session.is_connected:
            return True
        return self._is_closing and self._joined_in != session.session_id and not session.is_asking

    def close(self) -> None:
        """Give up session and reader. Idempotent."""
        self._is_closing = True
        self._stop_reading()
        for search in (self._search, self._check):
            if search is not None:
                search.close()
        self._drop_session()


class ExclusiveMember(ConsumerMember[LogEntry]):
    """A member of an exclusive consumer: while active, `take` delivers entries, and `commit` reports what is done."""

    mode = ConsumerMode.EXCLUSIVE

    def __init__(self, settings: ConsumerSettings, transport: ClientTransport, member_key: int) -> None:
        super().__init__(settings, transport, member_key)
        self.handed_out = NULL_VALUE
        """The position up to which entries were handed out, in this epoch."""
        self._wanted = NULL_VALUE
        self._held_bytes = 0
        """The payloads of `_entries`, together."""

    @property
    def epoch(self) -> int:
        """The time in which this member is the active one; -1 while it is not."""
        return self.answer.epoch if self.answer is not None and self.is_active else NULL_VALUE

    def take(self, handler: Callable[[LogEntry], object], limit: int) -> int:
        """Call `handler(entry)` for entries that were read, at most `limit` times, unless paused; return how often."""
        count = 0
        while count < limit and self._entries and self.is_active and not self.is_paused:
            entry = self._entries.popleft()
            self._held_bytes -= len(entry.payload)
            self.handed_out = entry.position
            count += 1
            handler(entry)
        return count

    def commit(self, position: int) -> None:
        """Everything before a position that was handed out is done. It is sent with the next duty cycle."""
        if not self.is_active or not self.committed <= position <= self.handed_out:
            raise ClusterError(
                f"consumer {self.settings.name}: position={position} was not handed out in this epoch: another member"
                " has become the active one, or the consumer was moved; what is not committed is handed out again"
            )
        self._wanted = max(self._wanted, position)

    def _next_of_mode(self, now_ns: int) -> ConsumerCommand | None:
        return self._unsaid()

    def _unsaid(self) -> ConsumerCommand | None:
        if not self.is_active or self._wanted <= self.committed:
            return None
        return ConsumerCommand(CommandKind.COMMIT, epoch=self.epoch, position=self._wanted)

    def _take(self, answer: ConsumerAnswer) -> None:
        becomes_active = AnswerFlag.ACTIVE in answer.flags
        if becomes_active and answer.epoch != self.epoch:
            self.handed_out = self._wanted = answer.position
            self._follow(answer.position)
        elif not becomes_active and self._follower is not None:
            self._stop_reading()
            self.handed_out = self._wanted = NULL_VALUE

    # Reading

    @property
    def _has_room(self) -> bool:
        return super()._has_room and self._held_bytes < READ_AHEAD_BYTES_MAX

    def _choose(self, entry: LogEntry) -> None:
        count = len(self._entries)
        super()._choose(entry)
        if len(self._entries) > count:
            self._held_bytes += len(entry.payload)

    def _stop_reading(self) -> None:
        super()._stop_reading()
        self._held_bytes = 0
