"""Decides, from what the nodes answer, whether a reader's first place in a topic has ever existed.

A message number that is not yet the next one, and a position at which the log has not arrived, would be waited for
silently and for ever. As with positions of the log, one node alone decides nothing (`EndVotes`): it may lag.
"""

from __future__ import annotations

from collections.abc import Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.follow.recordings.log_source import LogSource
from ordo.follow.recordings.position_verdict import EndVotes
from ordo.follow.topics.topic_source import TopicSource
from ordo.runtime.errors import ArchiveError


class BeginningVerdict:
    """A verdict on a first place.

    `note` takes a node's answer, `note_before` an earlier message, `check` raises what is final.
    """

    def __init__(
        self, nodes: Sequence[ArchiveClientSettings], topic: str, position: int | None, sequence: int | None
    ) -> None:
        """Begin after a log `position`, or with message `sequence`; None: not by that."""
        self._topic = topic
        self._position = position or None
        self._sequence = sequence if sequence is not None and sequence > 1 else None
        self._votes = EndVotes(nodes)
        self._last = 0
        """The number of the newest message that was read: it comes before what is wanted."""
        self._error: ArchiveError | None = None
        self.problem = ""
        """What the last node has said that ends too early."""

    @property
    def is_open(self) -> bool:
        """Whether it is still unknown that the place exists."""
        return self._error is None and (self._position is not None or self._sequence is not None)

    @property
    def needs_log(self) -> bool:
        """Whether nodes are to be asked how far the log is committed."""
        return self.is_open and self._position is not None

    def check(self) -> None:
        """Raise ArchiveError when nothing of the topic was ever published there."""
        if self._error is not None:
            raise self._error

    def note_begun(self) -> None:
        """Note that the first wanted message came; later answers no longer count."""
        self._position = self._sequence = None
        self._votes.clear()

    def note_before(self, sequence: int) -> None:
        """Note a message before the wanted one.

        This clears the votes, because nodes that voted may have more by now.
        """
        if sequence > self._last:
            self._last = sequence
            self._votes.clear()

    def note(self, source: LogSource, position: int | None, now_ns: int) -> None:
        """Note what a node has; `position` is how far the topic's recording was read."""
        if not self.is_open:
            return
        if self._sequence is not None:
            self._note_sequence(source, position, self._sequence, now_ns)
        elif self._position is not None and isinstance(source, TopicSource) and source.log_end_position >= 0:
            self._note_log(source, self._position, now_ns)

    def _note_sequence(self, source: LogSource, position: int | None, sequence: int, now_ns: int) -> None:
        """Note whether a node has more than what was read.

        All nodes record the same, so the recording's length tells.
        """
        has_read_all = position is not None and source.has_answered and 0 <= source.end_position <= position
        if self._last + 1 >= sequence or not (source.has_nothing or (has_read_all and self._last)):
            return
        self.problem = f"{source.address}: has sequence {self._last} as its last so far"
        if self._votes.note(source.address, self._last, source.is_leader, now_ns):
            has = f"its last message has sequence {self._last}" if self._last else "nothing was published to it"
            self._refuse(f"sequence {sequence} was never published: {has}", f"begin at {self._last + 1} or below")

    def _note_log(self, source: TopicSource, position: int, now_ns: int) -> None:
        end = source.log_end_position
        if end >= position:
            self.note_begun()
            return
        self.problem = f"{source.address}: its log ends at position={end} so far"
        if self._votes.note(source.address, end, source.is_leader, now_ns):
            ends = f"is beyond the end of the log, which is position={self._votes.end}"
            self._refuse(f"position={position} {ends}", "begin there or below")

    def _refuse(self, what: str, allowed: str) -> None:
        self._error = ArchiveError(
            f'feed {self._topic}: {what}: {allowed}, or "live" for what is published from now on',
            code=ErrorCode.INVALID_POSITION,
        )
