"""One instance writes: what stands in the log of a group's elections and outputs, against a plain model of the rule."""

from __future__ import annotations

from ordo.applications.outputs import NULL_SESSION_ID
from ordo.follow.entries import EntryKind, LogEntry
from ordo.service_api.requests import NO_IDENTITY
from tests.simulation.app_service import GROUP_IDENTITY, AppOutput

NOBODY = ""


class WriterWatch:
    """Hears of every entry of the log once, in order, from whichever instance has it first."""

    def __init__(self) -> None:
        self.position = 0
        self.executed: list[str] = []
        """The outputs that count, in order."""
        self.generations: dict[int, str] = {}
        """Which instance wrote in each generation, by the position at which it began."""
        self._hosts: dict[int, str] = {}
        self._generation = NO_IDENTITY
        self._incarnation = 0

    def hear(self, entry: LogEntry) -> str:
        """Returns what is wrong with an entry; '' when nothing is."""
        if entry.position <= self.position:
            return ""
        self.position = entry.position
        if entry.kind is EntryKind.SESSION_OPEN:
            self._hosts[entry.session_id] = entry.values.response_channel
        elif entry.kind is EntryKind.SESSION_CLOSE:
            self._hosts.pop(entry.session_id, None)
        elif entry.kind is EntryKind.IDENTITY and entry.session_id in self._hosts:
            self._hear_election(entry)
        elif entry.kind is EntryKind.OUTPUT and entry.session_id != NULL_SESSION_ID:
            return self._hear_output(entry)
        return ""

    def _hear_election(self, entry: LogEntry) -> None:
        values = entry.values
        high, low = (half.to_bytes(8, "big", signed=True) for half in (values.identity_high, values.identity_low))
        is_first = self._generation == NO_IDENTITY
        is_named = values.known_position in (0, self._generation)
        if high + low == GROUP_IDENTITY and values.incarnation != self._incarnation and (is_first or is_named):
            self._generation, self._incarnation = entry.position, values.incarnation
            self.generations[entry.position] = self._hosts[entry.session_id]

    def _hear_output(self, entry: LogEntry) -> str:
        host = self._hosts.get(entry.session_id)
        writer = self.generations.get(entry.values.open_position, NOBODY)
        if host is not None and host != writer:
            return (
                f"two active ones: {host} wrote in generation {entry.values.open_position}, which is that of {writer}"
            )
        is_next = entry.values.number == len(self.executed) + 1
        if host is not None and entry.values.open_position == self._generation and is_next:
            self.executed.append(AppOutput.decode(entry.payload).describe())
        return ""

    def find_difference(self, texts: list[str]) -> str:
        """What members executed otherwise; '' when they executed the same. `texts`: of all records, in order."""
        outputs = [text for text in texts if text.startswith("output ")]
        if outputs == self.executed:
            return ""
        return f"members executed {len(outputs)} outputs, by the log {len(self.executed)} count"
