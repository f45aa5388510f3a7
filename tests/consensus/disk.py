"""The disk of one simulated member: entries, of which only the durable ones survive a crash, and small state."""

from random import Random
from typing import NamedTuple

from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import Lead


class Entry(NamedTuple):
    """One record of a log; `identity` is unique over the whole run."""

    leadership_term_id: int
    start: int
    end: int
    identity: int
    opens_term: bool
    configuration: Configuration | None = None
    lead: Lead | None = None
    """Who leads the term that it opens."""


class Disk:
    """Log entries back to back from position 0, the durable end, the term rows and the vote."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.durable_position = 0
        self.rows: list[tuple[int, int]] = []
        self.candidate_term_id = -1
        self.distrust = Distrust.NONE

    @property
    def end_position(self) -> int:
        return self.entries[-1].end if self.entries else 0

    def append(self, entry: Entry) -> None:
        assert entry.start == self.end_position, (entry, self.end_position)
        self.entries.append(entry)

    def index_at(self, position: int) -> int:
        """Index of the entry that starts at a position; the number of entries at the end of the log."""
        low, high = 0, len(self.entries)
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].start < position:
                low = middle + 1
            else:
                high = middle
        return low

    def leads(self) -> dict[int, Lead]:
        """Return who led the terms that the log has, by term, as their first records say it."""
        return {entry.leadership_term_id: entry.lead for entry in self.entries if entry.lead is not None}

    def put_row(self, leadership_term_id: int, base_position: int) -> None:
        self.rows = [row for row in self.rows if row[0] < leadership_term_id and row[1] < base_position]
        self.rows.append((leadership_term_id, base_position))

    def truncate(self, position: int) -> None:
        del self.entries[self.index_at(position) :]
        assert self.end_position == position, "truncation inside an entry"
        self.durable_position = min(self.durable_position, position)
        self.rows = [row for row in self.rows if row[1] < position]

    def damage(self, rng: Random) -> None:
        """Acknowledged entries from a random one on are found damaged, and with them the rows of their terms."""
        index = rng.randrange(len(self.entries) + 1)
        self.truncate(self.entries[index].start if index < len(self.entries) else self.end_position)
        self.distrust |= Distrust.LOG

    def wipe(self) -> None:
        """An empty disk, and nothing is remembered but that."""
        self.__init__()  # type: ignore[misc]
        self.distrust = Distrust.LOG | Distrust.VOTE

    def crash(self, rng: Random) -> None:
        """Lose what was not durable, but for a random part of it; what is left is durable from now on."""
        first_unsafe = self.index_at(self.durable_position)
        del self.entries[rng.randint(first_unsafe, len(self.entries)) :]
        self.durable_position = self.end_position
        known = {row[0] for row in self.rows}
        for entry in self.entries:
            if entry.opens_term and entry.leadership_term_id not in known:
                self.put_row(entry.leadership_term_id, entry.start)
