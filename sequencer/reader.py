"""The committed log over the network, from whichever node can give it.

with LogReader(["10.0.0.1:9014", "10.0.0.2:9014", "10.0.0.3:9014"], from_position=0) as reader:
    for entry in reader:
        print(entry.position, entry.session_id, entry.payload)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from archive.client.settings import ArchiveClientSettings
from archive.control.codes import ErrorCode
from runtime.closing import Closing
from runtime.errors import ArchiveError, ConfigurationError
from sequencer.entries import EntryKind, LogEntry
from sequencer.follower import LogFollower
from transport.client_transport import ClientTransport

PARK_NS = 1_000_000
FRAGMENTS_PER_POLL = 256
POSITION_GONE = int(ErrorCode.INVALID_POSITION)
NOT_ALLOWED = int(ErrorCode.UNAUTHORISED_ACTION)
"""Codes of the ArchiveErrors that end a reader."""


class LogReader(Closing):
    """Reads the log in order, each entry once, and nothing that is not committed. Belongs to one thread.

    `addresses`: the archive endpoints of the members, the preferred one first; when a node dies, stands still behind
    the others or loses its log, the reader goes on with the next one at the same position. `from_position`: where an
    entry begins (0, or an entry's `position`), or "live" for what comes from now on. `kinds` and `session_ids` choose
    entries; all are read, those that are not wanted are not handed out.

    A reader that is slow holds up nobody but itself.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        from_position: int | Literal["live"] = 0,
        kinds: Collection[EntryKind] | None = None,
        session_ids: Collection[int] | None = None,
        credentials: bytes | Callable[[], bytes] = b"",
        aeron_dir: str | None = None,
        silence_s: float = 2.0,
        message_timeout_s: float = 5.0,
    ) -> None:
        """`credentials`: with the role log, where the cluster authenticates. `silence_s`: after so long without an
        entry the other nodes are asked whether they have more.

        Raises ConfigurationError, TransportError; nodes are looked for later, in `poll`.
        """
        if not addresses:
            raise ConfigurationError("addresses: give the archive endpoint of at least one member")
        settings = [
            ArchiveClientSettings.at(
                address, message_timeout_s=message_timeout_s, name="log-reader", credentials=credentials
            )
            for address in addresses
        ]
        self._transport = (
            ClientTransport.connect(aeron_dir, "log-reader") if aeron_dir else ClientTransport.embedded("log-reader")
        )
        self._follower = LogFollower(
            self._transport.client, settings, None if from_position == "live" else from_position, silence_s
        )
        self._kinds = None if kinds is None else frozenset(kinds)
        self._session_ids = None if session_ids is None else frozenset(session_ids)

    @property
    def position(self) -> int | None:
        """The position before which everything was handed out or passed over, in bytes. None until "live" is known."""
        return self._follower.position

    @property
    def source(self) -> str | None:
        """The channel of the node that is read from, None while one is looked for."""
        return self._follower.source_address

    @property
    def problem(self) -> str:
        """Why the reader left the last node."""
        return self._follower.problem

    def poll(self, handler: Callable[[LogEntry], object], limit: int = FRAGMENTS_PER_POLL) -> int:
        """Calls `handler(entry)` for what has come, at most `limit` fragments; returns how many. Does not wait.

        What the handler raises is raised here; the entry counts as handed out. Raises ArchiveError when no node has the
        position any more (the message names the oldest that there is), or when every node refuses the credentials.
        """

        def choose(entry: LogEntry) -> None:
            if self._kinds is not None and entry.kind not in self._kinds:
                return
            if self._session_ids is None or entry.session_id in self._session_ids:
                handler(entry)

        now_ns = self._transport.drive()
        self._follower.work(now_ns)
        self._follower.check_allowed()
        if self._follower.oldest_position is not None:
            raise ArchiveError(
                f"position={self._follower.position} of the log was deleted everywhere; the oldest that is left is "
                f"position={self._follower.oldest_position}: begin there, or with a snapshot",
                code=POSITION_GONE,
            )
        return self._follower.poll(choose, limit)

    def entries(self, *, until_position: int | None = None, timeout_s: float | None = None) -> Iterator[LogEntry]:
        """Entries as they come, for ever, up to a position, or until none has come for `timeout_s`."""
        found: list[LogEntry] = []
        silent_since_ns = self._transport.clock.now()
        while True:
            if self.poll(found.append):
                silent_since_ns = self._transport.clock.now()
            yield from found
            if not found:
                if until_position is not None and self.position is not None and self.position >= until_position:
                    return
                if timeout_s is not None and self._transport.clock.now() - silent_since_ns > timeout_s * 1e9:
                    return
                self._transport.park(PARK_NS)
            found.clear()

    def __iter__(self) -> Iterator[LogEntry]:
        return self.entries()

    def keep_alive(self) -> None:
        """Tells the node that this reader is still there, while `poll` is not called. Hands out nothing."""
        self._follower.work(self._transport.drive())

    def close(self) -> None:
        """Ends the connection to the cluster. Idempotent."""
        self._follower.close()
        self._transport.close()
