"""The committed log over the network, from whichever node can give it.

with LogReader(["10.0.0.1:9014", "10.0.0.2:9014", "10.0.0.3:9014"], from_position=0) as reader:
    for entry in reader:
        print(entry.position, entry.session_id, entry.payload)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.client.connection.endpoints import check_list
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import identity_text, parse_identity
from ordo.follow.beginnings import AtSequence, Beginning, check_beginning
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.executed_follower import filter_of, follow_executed, has_all_numbered
from ordo.follow.follower import LogFollower
from ordo.follow.recordings.recording_reader import FRAGMENTS_PER_POLL, RecordingReader
from ordo.runtime.errors import ArchiveError, ConfigurationError
from ordo.runtime.polled_items import PolledMessages
from ordo.transport.client.client_transport import ClientTransport

POSITION_GONE = int(ErrorCode.INVALID_POSITION)
NOT_ALLOWED = int(ErrorCode.UNAUTHORISED_ACTION)
"""Codes of the ArchiveErrors that end a reader."""


class LogReader(RecordingReader[LogEntry]):
    """Reads the log in order, each entry once, and nothing that is not committed. Belongs to one thread.

    `addresses`: the archive endpoints of the members, the preferred one first; when a node dies, stands still behind
    the others or loses its log, the reader goes on with the next one at the same position. `from_position`: where an
    entry begins (0, or an entry's `position`), "live" for what comes from now on, a time (`AtTime`), or the number of a
    message (`AtSequence`). `kinds` and `session_ids` choose entries; the others are not sent, but by nodes of earlier
    releases, and not handed out in any case.

    A reader of all messages, requests and outputs tells their numbers (`LogEntry.sequence`), where they are known. So
    does one that begins with the number of a message, whatever it chooses: nodes send it all messages then, and it
    begins to read at the newest snapshot before.

    A request that was sent again stands in the log twice and is executed once: the copies that are not executed are
    left out. `repeats` hands them out as well, with `LogEntry.is_repeat` True; a reader that begins in the middle of
    the log does not know which they are then, and says None of all requests.

    A position means something in one cluster only. `cluster` is what an earlier reader's `cluster` said, to be kept
    with its position: nodes of another cluster are refused then. They are refused in any case among `addresses`.

    A reader that is slow holds up nobody but itself.
    """

    _follower: LogFollower

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        from_position: Beginning = 0,
        kinds: Collection[EntryKind] | None = None,
        session_ids: Collection[int] | None = None,
        repeats: bool = False,
        credentials: bytes | Callable[[], bytes] = b"",
        aeron_dir: str | None = None,
        silence_s: float = 2.0,
        message_timeout_s: float = 5.0,
        cluster: str | None = None,
    ) -> None:
        """`credentials`: with the role log, where the cluster authenticates.

        `silence_s`: after so long without an entry the other nodes are asked whether they have more.

        Raises ConfigurationError, TransportError; nodes are looked for later, in `poll`.
        """
        check_list("addresses", addresses)
        check_beginning(from_position)
        known = None if cluster is None else KnownCluster(parse_identity(cluster), "the kept position")
        if not addresses:
            raise ConfigurationError("addresses: give the archive endpoint of at least one member")
        settings = [
            ArchiveClientSettings.at(
                address, message_timeout_s=message_timeout_s, name="log-reader", credentials=credentials
            )
            for address in addresses
        ]
        transport = (
            ClientTransport.connect(aeron_dir, "log-reader") if aeron_dir else ClientTransport.embedded("log-reader")
        )
        begin = None if from_position == "live" else from_position
        position = begin if isinstance(begin, int) else None
        self._awaited = begin.sequence if isinstance(begin, AtSequence) else 0
        decides = not repeats or position == 0
        numbers = self._awaited > 0 or (decides and has_all_numbered(kinds, session_ids))
        chosen = filter_of(kinds, session_ids, decides=decides, numbers=numbers)
        follower = follow_executed(
            transport.client,
            settings,
            begin,
            silence_s,
            kinds=kinds,
            record_filter=chosen,
            repeats=repeats,
            numbers=numbers,
            cluster=known,
        )
        super().__init__(transport, follower)
        self._polled: PolledMessages[LogEntry] = PolledMessages(position)
        self._kinds = None if kinds is None else frozenset(kinds)
        self._session_ids = None if session_ids is None else frozenset(session_ids)

    @property
    def position(self) -> int | None:
        """The position before which everything was handed out or passed over, in bytes. None until "live" is known."""
        return self._polled.position(self._follower.position)

    @property
    def cluster(self) -> str | None:
        """The identity of the cluster whose log is read, to be kept with `position`; None while no node has told it."""
        origin = self._follower.cluster.origin
        return None if origin is None else identity_text(origin)

    def poll(self, handler: Callable[[LogEntry], object], limit: int = FRAGMENTS_PER_POLL) -> int:
        """Call `handler(entry)` for entries that have arrived, at most `limit` fragments; return how many.

        Does not wait.

        What the handler raises is raised here; the entry counts as handed out. Raises ArchiveError when no node has the
        position any more (the message names the oldest that there is), when every node refuses the credentials, and at
        a request of which nobody knows any more whether it is a repeat; OtherClusterError when a node is of another
        cluster than what was read, or than `cluster`.
        """
        if self._polled:
            self._check_open()
            return self._polled.hand_out(handler, limit)

        def choose(entry: LogEntry) -> None:
            if self._awaited:
                if entry.sequence < self._awaited:
                    return
                self._awaited = 0
            if self._kinds is not None and entry.kind not in self._kinds:
                return
            if self._session_ids is None or entry.session_id in self._session_ids:
                handler(entry)

        self._follower.check_allowed()
        if self._follower.oldest_position is not None:
            raise ArchiveError(
                f"position={self._follower.position} of the log was deleted everywhere; the oldest that is left is "
                f"position={self._follower.oldest_position}: begin there, or with a snapshot",
                code=POSITION_GONE,
            )
        return self._drive(lambda: self._follower.poll(choose, limit))

    def entries(self, *, until_position: int | None = None, timeout_s: float | None = None) -> Iterator[LogEntry]:
        """Entries as they come, for ever, up to a position, or until none has come for `timeout_s`.

        What is behind `until_position` stays: another loop, or `poll`, begins with it.
        """

        def has_all() -> bool:
            if until_position is None:
                return False
            entry = self._polled.first
            if entry is not None:
                return entry.position > until_position
            return self.position is not None and self.position >= until_position

        return self._items(timeout_s, has_all)

    def __iter__(self) -> Iterator[LogEntry]:
        return self.entries()
