"""One member of a shared consumer: reads the log, and processes the messages that the cluster assigns to it.

Every member follows the log, since that is where the messages are; the first of them tells the cluster what it has read
(positions and keys only). Which message is with whom, until when, and for the how many-th time, is in the replicated
state (ordo.cluster.container.tables.consumer_work).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from ordo.cluster.wire.sessions.consumer_codec import (
    CommandFlag,
    CommandKind,
    ConsumerAnswer,
    ConsumerCommand,
    ConsumerMode,
    ConsumerStatus,
    Row,
    RowKind,
    Work,
)
from ordo.consumers.consumer_member import READ_AHEAD_BYTES_MAX, ConsumerMember, ConsumerSettings, hash_i64
from ordo.follow.entries import LogEntry
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS
from ordo.transport.client.client_transport import ClientTransport

READ_AHEAD_MAX = 2048
"""Entries that are kept: those of the consumer's window, and as many again."""
ACKNOWLEDGED_MAX = 4096
"""So many acknowledgements are remembered, so that one that comes again is known: four times the window."""
ROWS_AT_A_TIME = 128
"""Rows of one kind in a command, which must fit a message of the shortest terms, 8 KiB."""
DELAY_MS_MAX = 24 * 3600 * 1000
SKIPPED_BYTES = 256 * 1024
"""So much log without any entry that is wanted is told as read."""
PATIENCE_NS = SECOND_NS
"""A member that is not the first one steps in for it after so long."""


@dataclass(frozen=True, kw_only=True)
class SharedSettings(ConsumerSettings):
    """The settings of a shared consumer. Those of its first member hold until the consumer is removed."""

    ack_timeout_s: float = 30.0
    """A message that is not acknowledged for so long is handed out again."""
    in_flight_max: int = 64
    """Messages that one member has at a time."""
    tries_max: int = 5
    """A message that was handed out so often, and never acknowledged, is a dead letter."""
    key: Callable[[LogEntry], bytes] | None = None
    """Messages with the same key go to one member at a time, in order."""
    counts_refusals: bool = False
    """Whether only what is given back counts as tried: not what a member has when it ends, dies or is too slow.
    Where one member asks for it, it holds for all, from protocol level 8 of the cluster's log on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.001 <= self.ack_timeout_s <= 86400:
            raise ConfigurationError(f"ack_timeout_s={self.ack_timeout_s}: allowed is 0.001 to 86400")
        if not 1 <= self.in_flight_max <= 256:
            raise ConfigurationError(f"in_flight_max={self.in_flight_max}: allowed is 1 to 256")
        if not 1 <= self.tries_max <= 1000:
            raise ConfigurationError(f"tries_max={self.tries_max}: allowed is 1 to 1000")

    def hash_key(self, entry: LogEntry) -> int:
        return 0 if self.key is None else hash_i64(self.key(entry))


class Delivered(Protocol):
    """What names a delivery: its message, and how often that was handed out."""

    @property
    def position(self) -> int:
        """The position of the log after the message's entry."""

    @property
    def tries(self) -> int:
        """1 for the first time."""


class _Delivery(NamedTuple):
    """The two values of a delivery."""

    entry: LogEntry
    tries: int
    """1 for the first time. It may have been done before, by this member or another one, where it is more."""


class Delivery(_Delivery):
    """A message that this member is to do, and to acknowledge: `entry, tries = delivery`."""

    counted: int = 0
    """The tries that count towards `tries_max`, this one included: fewer than `tries` with `counts_refusals`."""

    def __new__(cls, entry: LogEntry, tries: int, counted: int = 0) -> Self:
        made = super().__new__(cls, entry, tries)
        made.counted = counted or tries
        return made

    @property
    def position(self) -> int:
        """The message's name: the position of the log after its entry."""
        return self.entry.position

    @property
    def payload(self) -> bytes:
        """What the client sent with the message."""
        return self.entry.payload


class SharedMember(ConsumerMember[Delivery]):
    """A member of a shared consumer: `take` delivers messages; `acknowledge` and `give_back` report their outcome."""

    mode = ConsumerMode.SHARED
    settings: SharedSettings

    def __init__(self, settings: SharedSettings, transport: ClientTransport, member_key: int) -> None:
        super().__init__(settings, transport, member_key)
        self._kept: dict[int, LogEntry] = {}
        self._kept_bytes = 0
        """The payloads of `_kept`, together."""
        self._work: dict[int, int] = {}
        """Tries of what is with this member, by position."""
        self._counted: dict[int, int] = {}
        """The tries among them that count."""
        self._given: dict[int, int] = {}
        """The messages among them that were delivered."""
        self._done: dict[int, Row] = {}
        """Rows that the cluster has not heard."""
        self._sent: dict[int, Row] = {}
        self._unsure: set[int] = set()
        """Positions of rows that were sent in a session that was lost: the cluster may have heard them already."""
        self._acknowledged: dict[int, int] = {}
        """Tries of what this member has acknowledged last, by position."""
        self.late = 0
        """Acknowledgements that came too late: the messages had been taken back, and are, or were, done again."""
        self._frontier_ns = self._told_ns = 0

    # What the application does

    @property
    def in_flight(self) -> int:
        """Messages that are with this member."""
        return len(self._work)

    @property
    def unsent(self) -> int:
        """Acknowledgements and messages given back that are not in the log yet, as far as this member knows."""
        return len(self._done) + len(self._sent)

    def take(self, handler: Callable[[Delivery], object], limit: int) -> int:
        """Call `handler(delivery)` for messages of this member that were read, at most `limit` times."""
        ready = [] if self.is_paused else [one for one in self._work if self._work[one] != self._given.get(one)]
        count = 0
        for position in ready:
            entry = self._kept.get(position)
            if count >= limit or entry is None:
                break
            self._given[position] = self._work[position]
            count += 1
            handler(Delivery(entry, self._work[position], self._counted[position]))
        return count

    def holds(self, delivery: Delivered) -> bool:
        """Return whether a message that was delivered is still with this member."""
        return self._given.get(delivery.position) == self._work.get(delivery.position) == delivery.tries

    def acknowledge(self, delivery: Delivered) -> bool:
        """Acknowledge a message. Return False if this member no longer has it, so that it will be delivered again.

        Idempotent: one that is acknowledged again is not late.
        """
        position, tries = delivery.position, delivery.tries
        if self._acknowledged.get(position) == tries:
            return True
        if not self._finish(delivery, Row(RowKind.ACKNOWLEDGED, position)):
            return False
        self._acknowledged[position] = tries
        if len(self._acknowledged) > ACKNOWLEDGED_MAX:
            del self._acknowledged[next(iter(self._acknowledged))]
        return True

    def give_back(self, delivery: Delivered, delay_ms: int = 0) -> bool:
        """Give a message back: it is handed out again to any member after a delay. Return False as `acknowledge`."""
        if not 0 <= delay_ms <= DELAY_MS_MAX:
            raise ConfigurationError(f"delay_ms={delay_ms}: allowed is 0 to {DELAY_MS_MAX}, a day")
        return self._finish(delivery, Row(RowKind.GIVEN_BACK, delivery.position, delivery.tries, delay_ms))

    def _finish(self, delivery: Delivered, row: Row) -> bool:
        """Finish a message. Return False if it was taken back, even if it was delivered to this member again."""
        if not self.holds(delivery):
            return False
        del self._given[row.position]
        del self._work[row.position]
        self._done[row.position] = row
        return True

    # Commands

    def _join(self) -> ConsumerCommand:
        settings, command = self.settings, super()._join()
        by_key = CommandFlag.BY_KEY if settings.key is not None else CommandFlag.NONE
        return command._replace(
            ack_timeout=round(settings.ack_timeout_s * 1000),
            in_flight_max=settings.in_flight_max,
            tries_max=settings.tries_max,
            flags=command.flags | by_key | self._refusals,
        )

    @property
    def _refusals(self) -> CommandFlag:
        return CommandFlag.COUNTS_REFUSALS if self.settings.counts_refusals else CommandFlag.NONE

    def _next_of_mode(self, now_ns: int) -> ConsumerCommand | None:
        answer = self.answer
        if answer is None:
            return None
        found, position = self._find_more(answer, now_ns)
        if not self._done and position == NULL_VALUE and not self._is_due(answer, now_ns):
            return None
        return self._tell(answer)._replace(position=position, rows=(*self._sent.values(), *found))

    def _unsaid(self) -> ConsumerCommand | None:
        return self._tell(self.answer) if self.answer is not None and self._done else None

    def _tell(self, answer: ConsumerAnswer) -> ConsumerCommand:
        """Say what became of messages."""
        self._sent = {position: self._done.pop(position) for position in list(self._done)[:ROWS_AT_A_TIME]}
        return ConsumerCommand(
            CommandKind.WORK,
            epoch=answer.epoch,
            from_position=answer.frontier,
            flags=self._refusals,
            rows=tuple(self._sent.values()),
        )

    def _find_more(self, answer: ConsumerAnswer, now_ns: int) -> tuple[list[Row], int]:
        """Return the messages read after the frontier, and up to which position; -1 if there is nothing to report."""
        follower, frontier = self._follower, answer.frontier
        if follower is None or follower.position is None or follower.position <= frontier:
            return [], NULL_VALUE
        if not self.is_active and now_ns - self._frontier_ns < PATIENCE_NS:
            return [], NULL_VALUE
        new = [entry for position, entry in self._kept.items() if position > frontier]
        told = new[: min(answer.room, ROWS_AT_A_TIME)]
        if not told and (new or follower.position - frontier < SKIPPED_BYTES):
            return [], NULL_VALUE
        position = follower.position if len(told) == len(new) else told[-1].position
        return [Row(RowKind.FOUND, one.position, self.settings.hash_key(one)) for one in told], position

    def _is_due(self, answer: ConsumerAnswer, now_ns: int) -> bool:
        """Return whether something is to be handed out again by now: any command has the cluster look."""
        if answer.due == NULL_VALUE:
            return False
        patience_ns = 0 if self.is_active else PATIENCE_NS
        return now_ns - self._told_ns > (answer.due - answer.timestamp) * MILLISECOND_NS + patience_ns

    # Answers

    def _take(self, answer: ConsumerAnswer) -> None:
        now_ns = self._transport.clock.now()
        if answer.number and self._sent:
            self._count_late(answer.accepted)
            self._sent.clear()
        if answer.status is ConsumerStatus.REFUSED:
            return
        if self.answer is None or answer.epoch != self.answer.epoch or self._follower is None:
            self._begin(answer)
        if self.answer is None or answer.frontier != self.answer.frontier:
            self._frontier_ns = now_ns
        self._told_ns = now_ns
        for position in [one for one in self._kept if one <= answer.position]:
            self._kept_bytes -= len(self._kept.pop(position).payload)
        self._work = _by_position(answer.work, self._done, self._sent)
        self._counted = {one.position: one.counted or one.tries for one in answer.work}
        self._given = {one: tries for one, tries in self._given.items() if self._work.get(one) == tries}

    def _count_late(self, accepted: int) -> None:
        """Count the acknowledgements of the last report that came too late.

        One that an earlier session may have told is not accepted a second time, which says nothing: those count least.
        """
        positions = [row.position for row in self._sent.values() if row.kind == RowKind.ACKNOWLEDGED]
        unsure = self._unsure.intersection(positions)
        self._unsure -= unsure
        self.late += max(len(positions) - accepted - len(unsure), 0)

    def _begin(self, answer: ConsumerAnswer) -> None:
        """Read from the oldest unfinished message on, which may be assigned to this member."""
        for held in (self._kept, self._work, self._given, self._done, self._sent, self._unsure, self._acknowledged):
            held.clear()
        self._kept_bytes = 0
        self._follow(answer.position)

    def _choose(self, entry: LogEntry) -> None:
        super()._choose(entry)
        while self._entries:
            chosen = self._entries.popleft()
            self._kept[chosen.position] = chosen
            self._kept_bytes += len(chosen.payload)

    def _drop_session(self) -> None:
        super()._drop_session()
        self._unsure.update(self._sent)  # whether they were heard is not known
        self._done = {**self._sent, **self._done}
        self._sent.clear()

    @property
    def _has_room(self) -> bool:
        # Other members stop no earlier: what is with this one begins before, or is read once the position moves on.
        return len(self._kept) < READ_AHEAD_MAX and self._kept_bytes < READ_AHEAD_BYTES_MAX

    def close(self) -> None:
        super().close()
        self._kept.clear()
        self._kept_bytes = 0


def _by_position(work: tuple[Work, ...], done: dict[int, Row], sent: dict[int, Row]) -> dict[int, int]:
    """Return this member's messages without those that it has finished and the cluster does not know of yet."""
    return {one.position: one.tries for one in work if one.position not in done and one.position not in sent}
