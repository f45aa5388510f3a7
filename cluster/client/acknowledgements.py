"""What became of the messages of `send` and `offer`: in the log, executed, or neither (docs/CLIENT.md).

Messages are numbered 1, 2, 3 over all sessions, and kept until their fate is known. A MessageMark goes before the first
message of every session, of every term and of every new publication to the leader, and from time to time behind
messages that nothing is known of. The answers say up to which number everything is in the log, and which numbers never
will be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ordo.cluster.client.connection.session_view import LeaderSession
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.ordo_codecs import AcknowledgementLevel, PreviousSession
from ordo.cluster.wire.sessions.number_gaps import decode_gaps
from ordo.runtime.errors import NotSequencedError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.transport.streams.publication import ExclusivePublication

RETRY_NS = 250_000_000
"""When a mark was not answered for so long, the next one is sent; then it doubles."""
RETRY_NS_MAX = 4_000_000_000
LEVELS = ("sequenced", "executed")


class HandedOver(int):
    """The position of a message in the client's own stream to the leader: it is on its way, and may still be lost.

    `number`: of the message, where the client is told what becomes of its messages; otherwise 0.
    """

    number: int

    def __new__(cls, position: int, number: int) -> HandedOver:
        made = super().__new__(cls, position)
        made.number = number
        return made


class Acknowledged(NamedTuple):
    """Every message up to `number` has come to this level, at `log_position` or below, except those given back."""

    level: str
    """"sequenced": in the log, on a quorum; "executed": by the leader's service."""
    number: int
    log_position: int


class Unsequenced(NamedTuple):
    """A message that is not in the log and never will be; if `is_certain` is False, its fate is unknown."""

    number: int
    payload: bytes
    is_certain: bool


class MarkedSession(LeaderSession, Protocol):
    """What acknowledgements need of their session."""

    def note_sent(self) -> None:
        """Note that something was sent."""


class KeptMessages(Protocol):
    """The native half of the client, which keeps messages."""

    def keep_messages(self, kept: deque[bytes] | None, bytes_max: int) -> None: ...
    def take_kept(self) -> bytes: ...


class Acknowledgements:
    """The messages of one client.

    Call `begin` before the first message of a session, term or publication; `work` sends marks once a duty cycle.
    """

    def __init__(
        self,
        session: MarkedSession,
        loop: KeptMessages,
        *,
        interval_ns: int,
        patience_ns: int,
        kept_bytes_max: int,
        on_acknowledged: Callable[[Acknowledged], object] | None,
        on_unsequenced: Callable[[Unsequenced], object] | None,
    ) -> None:
        """Send marks every `interval_ns` while there is something to know.

        What became of a session that was lost is asked for `patience_ns`.
        """
        self._session = session
        self._loop = loop
        self._interval_ns = interval_ns
        self._patience_ns = patience_ns
        self._on_acknowledged = on_acknowledged or (lambda acknowledged: None)
        self._on_unsequenced = on_unsequenced or (lambda message: None)
        self.sequenced = Acknowledged("sequenced", 0, NULL_VALUE)
        self.executed = Acknowledged("executed", 0, NULL_VALUE)
        self._kept: deque[bytes] = deque()
        self._first = 1
        """Number of the oldest that is kept."""
        self._confirmed = 0
        self._session_id = NULL_VALUE
        self._session_first = self._epoch_first = 1
        """Numbers of the first message of this session, and of this term and publication."""
        self._previous_id = NULL_VALUE
        self._previous_deadline_ns = 0
        self._closes_previous = False
        self._marked = 0
        """Number of the mark that is not answered, or 0."""
        self._retry_ns = self._due_ns = 0
        self._retry_interval_ns = RETRY_NS
        self._watched: dict[int, Unsequenced | None] = {}
        loop.keep_messages(self._kept, kept_bytes_max)

    @property
    def next_number(self) -> int:
        return self._first + len(self._kept)

    # Marks

    def begin(self, publication: ExclusivePublication | None, now_ns: int) -> bool:
        """Say where the messages of this session, term and publication begin.

        Return False while nothing may be sent yet.
        """
        if publication is None:
            return False
        if self._session.session_id != self._session_id:
            self._change_session(now_ns)
        self._retry_interval_ns = RETRY_NS
        if self._closes_previous:
            self._close_previous(publication)
        if self._send_mark(publication, now_ns):
            self._epoch_first = self._marked
            return True
        return False

    def _change_session(self, now_ns: int) -> None:
        """Adopt a new session: the cluster may still know what became of the messages that went with the old one."""
        if self._kept and self._session_first < self.next_number:
            self._give_back_before(self._session_first)
            self._previous_id = self._session_id
            self._previous_deadline_ns = now_ns + self._patience_ns
            self._closes_previous = True
        self._session_id = self._session.session_id
        self._session_first = self.next_number

    def _close_previous(self, publication: ExclusivePublication) -> None:
        """Close the previous session, which the cluster may not know to be over."""
        message = codecs.SESSION_CLOSE_REQUEST.encode(
            leadership_term_id=self._session.leadership_term_id, cluster_session_id=self._previous_id
        )
        self._closes_previous = publication.offer(message) <= 0

    def _send_mark(self, publication: ExclusivePublication, now_ns: int) -> bool:
        session, number = self._session, self.next_number
        message = ordo_codecs.MESSAGE_MARK.encode(
            leadership_term_id=session.leadership_term_id,
            cluster_session_id=session.session_id,
            timestamp=0,
            number=number,
            confirmed=self._confirmed,
            previous_session_id=self._previous_id,
        )
        if publication.offer(message) <= 0:
            return False
        session.note_sent()
        self._marked = number
        self._retry_ns = now_ns + self._retry_interval_ns
        self._retry_interval_ns = min(2 * self._retry_interval_ns, RETRY_NS_MAX)
        return True

    @property
    def is_complete(self) -> bool:
        """True when the fate of every message is known."""
        return not self._kept

    def _wants_mark(self) -> bool:
        return bool(self._kept) or any(number > self.executed.number for number in self._watched)

    def work(self, now_ns: int) -> None:
        publication = self._session.leader_ingress
        if publication is None:
            return
        if self._marked:
            if now_ns >= self._retry_ns:
                self._send_mark(publication, now_ns)
        elif now_ns >= self._due_ns and self._wants_mark():
            self._send_mark(publication, now_ns)

    # Answers

    def on_marked(self, values: records.MessagesMarked, now_ns: int) -> None:
        """Take a MessagesMarked of this session."""
        if values.level == AcknowledgementLevel.SEQUENCED:
            self._on_sequenced(values)
        elif self._takes_previous(values, now_ns):
            if values.number >= self._marked:
                self._marked = 0
                self._due_ns = 0 if self._watched else now_ns + self._interval_ns
                self._retry_interval_ns = RETRY_NS
            self._previous_id = NULL_VALUE
            self._confirmed = max(self._confirmed, values.number - 1)
            self._resolve(values.number, values.known_number, decode_gaps(bytes(values.gaps)))
            self._advance(values.number - 1, values.log_position, is_executed=True)

    def _on_sequenced(self, values: records.MessagesMarked) -> None:
        """Note which messages are sequenced.

        Only those sent the same way as the mark count; of earlier ones the service must tell.
        """
        if self._first >= self._epoch_first and self._previous_id == NULL_VALUE:
            self._resolve(values.number, 0, [])
            self._advance(values.number - 1, values.log_position, is_executed=False)

    def _takes_previous(self, values: records.MessagesMarked, now_ns: int) -> bool:
        """Return whether the answer can be used: not while the session before may still get messages into the log."""
        if self._previous_id == NULL_VALUE or values.previous == PreviousSession.RESOLVED:
            return True
        if values.previous == PreviousSession.OPEN and now_ns < self._previous_deadline_ns:
            self._retry_interval_ns = RETRY_NS
            self._retry_ns = min(self._retry_ns, now_ns + RETRY_NS)
            return False
        self._give_back_before(self._session_first)
        return True

    def _resolve(self, number: int, known_number: int, gaps: list[tuple[int, int]]) -> None:
        """Settle the fate of every message below `number`."""
        lost: list[Unsequenced] = []
        while self._kept and self._first < number:
            payload, one = self._loop.take_kept(), self._first
            self._first += 1
            if one < known_number:
                lost.append(Unsequenced(one, payload, False))
            elif gaps and any(begin <= one < end for begin, end in gaps):
                lost.append(Unsequenced(one, payload, True))
        self._give_back(lost)

    def _advance(self, number: int, log_position: int, *, is_executed: bool) -> None:
        changed = []
        if number > self.sequenced.number:
            self.sequenced = Acknowledged("sequenced", number, log_position)
            changed.append(self.sequenced)
        if is_executed and number > self.executed.number:
            self.executed = Acknowledged("executed", number, log_position)
            changed.append(self.executed)
        for acknowledged in changed:
            self._on_acknowledged(acknowledged)

    def _give_back_before(self, number: int) -> None:
        """Give back the messages below `number`, whose fate can no longer be learned."""
        lost = []
        while self._kept and self._first < number:
            lost.append(Unsequenced(self._first, self._loop.take_kept(), False))
            self._first += 1
        self._give_back(lost)

    def _give_back(self, lost: list[Unsequenced]) -> None:
        for message in lost:
            if message.number in self._watched:
                self._watched[message.number] = message
            else:
                self._on_unsequenced(message)

    def give_up(self) -> None:
        """Give back everything: the client is closed."""
        self._give_back_before(self.next_number)

    # One message

    def watch(self, number: int) -> None:
        """Watch a message, which `has_reached` will be asked for."""
        self._watched[number] = None
        self._due_ns = 0

    def has_reached(self, number: int, level: str) -> bool:
        """Return whether a watched message has reached the level. Raises NotSequencedError if it never will."""
        lost = self._watched[number]
        if lost is not None and lost.is_certain:
            raise NotSequencedError("the message is not in the log, and never will be: it can be sent again")
        if lost is not None:
            raise NotSequencedError("nobody can tell whether the message is in the log", is_certain=False)
        return number <= (self.sequenced if level == LEVELS[0] else self.executed).number

    def forget(self, number: int) -> None:
        """Stop watching a message."""
        del self._watched[number]
