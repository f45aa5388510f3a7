"""The messages of a client's `send` that the log has: a function of the log, the same on every member (docs/CLIENT.md).

A client numbers its messages over all its sessions. In one term, through one publication, the leader takes them in
order and without a gap, so what is missing is always the end. The client sends a MessageMark before the first message
that goes another way (to a new leader, through a new publication, in a new session), with the number of that message.
When the mark is executed, the messages of the session were counted: numbers between the count and the mark are a gap,
which no message will fill any more, for the leader takes nothing of the old term or from the old publication.

Sessions whose client sends no marks are not counted, and leave no trace in snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import AcknowledgementLevel, PreviousSession
from ordo.cluster.wire.sessions.number_gaps import decode_gaps, encode_gaps
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.wire import records

GAPS_MAX = 32
"""Gaps of one session that its client has not confirmed; beyond it the oldest is forgotten."""
CLOSED_MAX = 4096
"""Closed sessions that are remembered."""


class CountedSession(Protocol):
    """A container's session. `next_number`: of its next message, counted by the container; -1: no mark was executed."""

    next_number: int

    @property
    def id(self) -> int: ...


@dataclass(slots=True)
class _Numbers:
    first: int
    known: int
    previous_session_id: int = NULL_VALUE
    next: int = NULL_VALUE
    """The next number of a closed session; an open session counts by itself."""
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def note_next(self, next_number: int, number: int) -> None:
        """Note that the next message was expected to have one number, and will have another."""
        if number > next_number:
            self.gaps.append((next_number, number))
        elif number < next_number:  # no client of ours: nothing can be said of what it sent before
            self.gaps.clear()
            self.known = number
        self._forget_oldest()

    def take_over(self, closed: _Numbers) -> None:
        """Continue from a closed session of the same client."""
        self.gaps[:0] = [*closed.gaps, (closed.next, self.first)] if closed.next < self.first else closed.gaps
        self.first, self.known = closed.first, closed.known
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self.gaps) > GAPS_MAX:
            self.known = self.gaps.pop(0)[1]


class MessageNumbers:
    """The numbers of every session that has sent a mark, and of those that were closed last."""

    def __init__(self) -> None:
        self._open: dict[int, _Numbers] = {}
        self._closed: dict[int, _Numbers] = {}

    def mark(self, session: CountedSession, mark: records.MessageMark) -> dict[str, Any]:
        """Execute a MessageMark; return the values of its MessagesMarked answer."""
        numbers = self._open.get(session.id)
        if numbers is None:
            numbers = self._open[session.id] = _Numbers(mark.number, mark.number)
        else:
            numbers.note_next(session.next_number, mark.number)
        session.next_number = mark.number
        previous = self._resolve(session.id, numbers, mark.previous_session_id)
        numbers.gaps = [gap for gap in numbers.gaps if gap[1] - 1 > mark.confirmed]
        return {
            "number": mark.number,
            "known_number": numbers.known,
            "level": AcknowledgementLevel.EXECUTED,
            "previous": previous,
            "gaps": encode_gaps(numbers.gaps),
        }

    def _resolve(self, session_id: int, numbers: _Numbers, previous_id: int) -> PreviousSession:
        if previous_id == NULL_VALUE:
            return PreviousSession.NONE
        if numbers.previous_session_id == previous_id:
            return PreviousSession.RESOLVED
        if previous_id in self._open and previous_id != session_id:
            return PreviousSession.OPEN
        closed = self._closed.get(previous_id)
        if closed is None or closed.next > numbers.first:
            return PreviousSession.UNKNOWN
        del self._closed[previous_id]
        numbers.take_over(closed)
        numbers.previous_session_id = previous_id
        return PreviousSession.RESOLVED

    def close(self, session: CountedSession) -> None:
        """Close a session: nothing more of it comes into the log."""
        numbers = self._open.pop(session.id, None)
        if numbers is None:
            return
        numbers.next = session.next_number
        self._closed[session.id] = numbers
        if len(self._closed) > CLOSED_MAX:
            del self._closed[next(iter(self._closed))]

    # Snapshots

    def snapshot(self, sessions: Mapping[int, CountedSession]) -> Iterator[bytes]:
        """Yield the messages of a service's snapshot, in an order that the log determines."""
        for session_id, numbers in self._closed.items():
            yield _encode(session_id, numbers, numbers.next, False)
        for session_id, numbers in self._open.items():
            yield _encode(session_id, numbers, sessions[session_id].next_number, True)

    def restore(self, rows: Iterable[Any], sessions: Mapping[int, CountedSession]) -> None:
        """Restore the SessionNumbers of a snapshot."""
        for row in rows:
            numbers = _Numbers(
                row.first_number, row.known_number, row.previous_session_id, row.next_number, decode_gaps(row.gaps)
            )
            if not row.is_open:
                self._closed[row.cluster_session_id] = numbers
            elif row.cluster_session_id in sessions:
                self._open[row.cluster_session_id] = numbers
                sessions[row.cluster_session_id].next_number = row.next_number


def _encode(session_id: int, numbers: _Numbers, next_number: int, is_open: bool) -> bytes:
    return ordo_codecs.SESSION_NUMBERS.encode(
        cluster_session_id=session_id,
        previous_session_id=numbers.previous_session_id,
        first_number=numbers.first,
        next_number=next_number,
        known_number=numbers.known,
        is_open=is_open,
        gaps=encode_gaps(numbers.gaps),
    )
