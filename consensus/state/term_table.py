"""The term table: which leadership term wrote which part of the log.

One row (term id, base position) for each term that has a record in the log; a term ends where the next row begins.
Rows rise strictly in both numbers. A row is written when its term's first record is found, shortly before that record
is durable, so the last row may begin at the durable end of the log; it counts from the moment the log goes beyond it.
Positions are bytes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ordo.consensus.state.messages import NULL_TERM, Lead
from ordo.runtime.native.sentinels import NULL_POSITION


class Bracket(NamedTuple):
    """Two neighbouring rows around a term: the greatest row not above it, and the one after that.

    Null where there is no such row; `end_position` is where the second row's term ends, null while it is open.
    """

    leadership_term_id: int
    next_term_id: int
    next_base_position: int
    end_position: int


class TermTable:
    """The leadership terms of a log and where each begins, in rising order.

    `leads` are those who led terms of `rows`, by term, as far as they are known.
    """

    def __init__(self, rows: Iterable[tuple[int, int]] = (), leads: Mapping[int, Lead] | None = None) -> None:
        self._terms: list[int] = []
        self._bases: list[int] = []
        self._leads: dict[int, Lead] = {}
        for leadership_term_id, base_position in rows:
            self.append(leadership_term_id, base_position, (leads or {}).get(leadership_term_id))

    @property
    def rows(self) -> list[tuple[int, int]]:
        """All rows (term id, base position), oldest first."""
        return list(zip(self._terms, self._bases, strict=True))

    @property
    def last_term_id(self) -> int:
        """Term of the last row, or NULL_TERM."""
        return self._terms[-1] if self._terms else NULL_TERM

    @property
    def last_base_position(self) -> int:
        """Where the last term begins, or NULL_POSITION."""
        return self._bases[-1] if self._bases else NULL_POSITION

    @property
    def last_lead(self) -> Lead | None:
        """Who led the last term; None if unknown."""
        return self._leads.get(self.last_term_id)

    def lead_of(self, leadership_term_id: int) -> Lead | None:
        """Return who led a term of the table; None if unknown."""
        return self._leads.get(leadership_term_id)

    def name_last_lead(self, lead: Lead) -> None:
        """Note the lead of the last term, which was not known."""
        assert self._terms
        assert self.last_lead is None, f"{self.last_lead} led {self.last_term_id}, not {lead}"
        self._leads[self.last_term_id] = lead

    def append(self, leadership_term_id: int, base_position: int, lead: Lead | None = None) -> None:
        """Add a row for a new last term, and who led it, if that is known."""
        assert leadership_term_id >= 0, f"leadership_term_id={leadership_term_id}"
        assert leadership_term_id > self.last_term_id, f"leadership_term_id={leadership_term_id} after {self.rows}"
        assert base_position > self.last_base_position, f"base_position={base_position} after {self.rows}"
        self._terms.append(leadership_term_id)
        self._bases.append(base_position)
        if lead is not None:
            self._leads[leadership_term_id] = lead

    def truncate(self, position: int) -> None:
        """Forget the terms that begin at `position` or later."""
        assert position >= 0, f"position={position}"
        while self._bases and self._bases[-1] >= position:
            self._bases.pop()
            self._leads.pop(self._terms.pop(), None)
        assert self.last_base_position < position or not self._bases

    def term_before(self, position: int) -> int:
        """Return the term of the entry that ends at `position`, or NULL_TERM at the beginning of the log."""
        index = bisect_left(self._bases, position)
        return self._terms[index - 1] if index > 0 else NULL_TERM

    def bracket(self, leadership_term_id: int) -> Bracket:
        """Return the last row up to a term, and the rows after it, as far as there are any."""
        index = bisect_right(self._terms, leadership_term_id)
        return Bracket(
            leadership_term_id=self._terms[index - 1] if index > 0 else NULL_TERM,
            next_term_id=self._terms[index] if index < len(self._terms) else NULL_TERM,
            next_base_position=self._bases[index] if index < len(self._bases) else NULL_POSITION,
            end_position=self._bases[index + 1] if index + 1 < len(self._bases) else NULL_POSITION,
        )
