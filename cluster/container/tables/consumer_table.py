"""Durable consumers: who reads, and how far each has done. A function of the log (docs/CONSUMERS.md).

A consumer has a name, a mode and members. A member is a client's session that has joined; it is gone when the session
is closed, by the client, or by the cluster after `session_timeout`. Every change is a record of the log (a command, the
end of a session, or a protocol level that comes into force), and what is due is judged by the records' own times, so
that all members of the cluster hold the same state.

Exclusive: the member that joined first is the active one. It alone moves the position, under an `epoch` that is another
one after each change of the active member, each seek and each new beginning.
Shared: `ordo.cluster.container.tables.consumer_work`. The first member reads ahead for all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ordo.cluster.container.tables.consumer_work import SharedWork
from ordo.cluster.wire.sessions.consumer_codec import (
    AnswerFlag,
    CommandFlag,
    CommandKind,
    ConsumerAnswer,
    ConsumerCommand,
    ConsumerMode,
    ConsumerStatus,
    RowKind,
)
from ordo.runtime.errors import SnapshotError
from ordo.runtime.native.sentinels import NULL_VALUE

CONSUMERS_MAX = 256
MEMBERS_MAX = 64
IN_FLIGHT_MAX = 256
TRIES_MAX = 1000
ACK_TIMEOUT_MAX = 24 * 3600 * 1000
LIST_BYTES_MAX = 4096
DEAD_LISTED_MAX = 64
NO_MEMBER_KEY = 0
COUNTS_REFUSALS_STATE = b'{"counts_refusals":true}'
"""In a snapshot, from the protocol level on that has it."""
OK = ConsumerStatus.OK


@dataclass(slots=True)
class ConsumerMember:
    """A client's session that has joined. `key` is the client's own random number."""

    key: int
    session_id: int
    number: int
    status: ConsumerStatus = OK
    text: str = ""
    accepted: int = 0
    """The number of the last command's acknowledgements that were accepted."""


@dataclass(slots=True)
class DurableConsumer:
    """The state of one consumer."""

    name: str
    mode: ConsumerMode
    position: int
    """Everything before it is done."""
    filter_hash: int
    created_position: int
    epoch: int
    is_paused: bool = False
    members: dict[int, ConsumerMember] = field(default_factory=dict)
    """In the order in which they joined: the first is the active one."""
    work: SharedWork | None = None

    @property
    def active(self) -> ConsumerMember | None:
        return next(iter(self.members.values()), None)

    @property
    def done_position(self) -> int:
        return self.position if self.work is None else self.work.floor


class Notice(NamedTuple):
    """An answer, and the session that it is for."""

    session_id: int
    answer: ConsumerAnswer


class ConsumerTable:
    """All consumers, by name.

    `execute` and `close_session` return what is to be told, the answer to a command first.
    """

    def __init__(self) -> None:
        self._consumers: dict[str, DurableConsumer] = {}
        self._position = 0
        self._time = 0
        self.counts_refusals = False
        """Whether the log has the protocol level at which consumers may count only refusals, and silence is noted."""

    def __len__(self) -> int:
        return len(self._consumers)

    def get(self, name: str) -> DurableConsumer | None:
        return self._consumers.get(name)

    @property
    def hold_position(self) -> int:
        """The lowest position from which on some consumer needs the log; -1 if there is no consumer."""
        return min((one.done_position for one in self._consumers.values()), default=NULL_VALUE)

    # The log

    def execute(self, command: ConsumerCommand, session_id: int, position: int, time: int) -> list[Notice]:
        """Execute a command whose record ends at `position` and has this cluster time, in ms."""
        self._position, self._time = position, time
        consumer = self._consumers.get(command.name)
        if command.kind in (CommandKind.LIST, CommandKind.DESCRIBE):
            return [Notice(session_id, self._look(command, consumer))]
        if consumer is not None and self._is_repeated(consumer, command):
            return self._repeat(consumer, command, session_id)
        if consumer is not None:
            return self._change(consumer, command, session_id)
        if command.kind is not CommandKind.JOIN or command.flags & CommandFlag.EXISTING:
            return [Notice(session_id, self._unknown(command))]
        created = self._create(command)
        if isinstance(created, str):
            return [Notice(session_id, self._refusal(command, ConsumerStatus.REFUSED, created))]
        return self._change(created, command, session_id)

    def close_session(self, session_id: int, position: int, time: int) -> list[Notice]:
        """Close a session, and with it its memberships."""
        self._position, self._time = position, time
        notices: list[Notice] = []
        for consumer in self._consumers.values():
            gone = [member.key for member in consumer.members.values() if member.session_id == session_id]
            if not gone:
                continue
            before = self._parts(consumer)
            for key in gone:
                self._remove_member(consumer, key)
            notices += self._settle(consumer, before, NO_MEMBER_KEY)
        return notices

    def _change(self, consumer: DurableConsumer, command: ConsumerCommand, session_id: int) -> list[Notice]:
        before = self._parts(consumer)
        status, text = self._apply(consumer, command, session_id)
        if consumer.work is not None:
            consumer.work.take_back(self._time, notes_silence=self.counts_refusals)
            consumer.work.hear(command.member_key)
        member = consumer.members.get(command.member_key)
        if member is not None:
            member.number, member.status, member.text = command.number, status, text
        others = self._settle(consumer, before, command.member_key)
        answer = self._answer(consumer, command.member_key, command.number, status, text)
        return [Notice(session_id, answer), *others]

    def _is_repeated(self, consumer: DurableConsumer, command: ConsumerCommand) -> bool:
        member = consumer.members.get(command.member_key)
        return member is not None and command.number <= member.number

    def _repeat(self, consumer: DurableConsumer, command: ConsumerCommand, session_id: int) -> list[Notice]:
        """Answer a command that was executed before: its answer was lost, or is on its way."""
        member = consumer.members[command.member_key]
        if command.number < member.number or command.number <= 0:
            return []
        member.session_id = session_id
        return [Notice(session_id, self._answer(consumer, member.key, member.number, member.status, member.text))]

    # Commands

    def _create(self, command: ConsumerCommand) -> DurableConsumer | str:
        """Return a new consumer, or why there is none."""
        if len(self._consumers) >= CONSUMERS_MAX:
            return f"there are {CONSUMERS_MAX} consumers, which is the limit: remove one (ordo consumers remove)"
        start = self._position if command.position == NULL_VALUE else command.position
        if not 0 <= start <= self._position:
            return f"start={start}: the log ends at {self._position}"
        work: SharedWork | None = None
        if command.mode is ConsumerMode.SHARED:
            wrong = _find_wrong(command)
            if wrong:
                return wrong
            work = SharedWork(
                start,
                ack_timeout=command.ack_timeout,
                in_flight_max=command.in_flight_max,
                tries_max=command.tries_max,
                by_key=bool(command.flags & CommandFlag.BY_KEY),
            )
        consumer = DurableConsumer(
            command.name, command.mode, start, command.filter_hash, self._position, self._position, work=work
        )
        self._consumers[command.name] = consumer
        return consumer

    def _apply(
        self, consumer: DurableConsumer, command: ConsumerCommand, session_id: int
    ) -> tuple[ConsumerStatus, str]:
        kind = command.kind
        if kind is CommandKind.JOIN:
            return self._join(consumer, command, session_id)
        if kind in (CommandKind.PAUSE, CommandKind.RESUME):
            consumer.is_paused = kind is CommandKind.PAUSE
            return OK, ""
        if kind is CommandKind.SEEK:
            return self._seek(consumer, command)
        if kind is CommandKind.REMOVE:
            del self._consumers[consumer.name]
            return OK, ""
        member = consumer.members.get(command.member_key)
        if member is None:
            return ConsumerStatus.NO_MEMBER, f"this client is no member of consumer {consumer.name!r} any more"
        member.session_id, member.accepted = session_id, 0
        self._heed_flags(consumer, command)
        if kind is CommandKind.LEAVE:
            self._remove_member(consumer, member.key)
            return OK, ""
        return (
            self._commit(consumer, member, command)
            if kind is CommandKind.COMMIT
            else self._work(consumer, member, command)
        )

    def _join(self, consumer: DurableConsumer, command: ConsumerCommand, session_id: int) -> tuple[ConsumerStatus, str]:
        if command.mode is not consumer.mode:
            return ConsumerStatus.REFUSED, f"consumer {consumer.name!r} is {consumer.mode.name.lower()}"
        if command.filter_hash != consumer.filter_hash:
            return ConsumerStatus.REFUSED, f"consumer {consumer.name!r} was begun with another choice of entries"
        if command.member_key == NO_MEMBER_KEY or command.number <= 0:
            return ConsumerStatus.REFUSED, "a member needs a key and numbers its commands from 1"
        member = consumer.members.get(command.member_key)
        if member is None and len(consumer.members) >= MEMBERS_MAX:
            return ConsumerStatus.REFUSED, f"consumer {consumer.name!r} has {MEMBERS_MAX} members, which is the limit"
        if member is None:
            member = consumer.members[command.member_key] = ConsumerMember(command.member_key, session_id, 0)
        member.session_id = session_id
        self._heed_flags(consumer, command)
        return OK, ""

    def _heed_flags(self, consumer: DurableConsumer, command: ConsumerCommand) -> None:
        """Count only refusals where a member asks for it. A busy one may have joined before the level that has it."""
        if consumer.work is not None and self.counts_refusals and command.flags & CommandFlag.COUNTS_REFUSALS:
            consumer.work.counts_refusals = True

    def _commit(
        self, consumer: DurableConsumer, member: ConsumerMember, command: ConsumerCommand
    ) -> tuple[ConsumerStatus, str]:
        if consumer.mode is not ConsumerMode.EXCLUSIVE:
            return ConsumerStatus.REFUSED, f"consumer {consumer.name!r} is shared: its messages are acknowledged"
        if consumer.active is not member or command.epoch != consumer.epoch:
            return ConsumerStatus.NOT_ACTIVE, f"another member of consumer {consumer.name!r} is the active one, or was"
        if not consumer.position <= command.position <= self._position:
            why = f"position={command.position}: allowed is {consumer.position} to {self._position}"
            return ConsumerStatus.REFUSED, why
        consumer.position = command.position
        return OK, ""

    def _work(
        self, consumer: DurableConsumer, member: ConsumerMember, command: ConsumerCommand
    ) -> tuple[ConsumerStatus, str]:
        work = consumer.work
        if work is None:
            return ConsumerStatus.REFUSED, f"consumer {consumer.name!r} is exclusive: its position is committed"
        if command.epoch != consumer.epoch:
            return OK, ""  # of before a seek: the answer says where it stands now
        acknowledged = [row.position for row in command.rows if row.kind == RowKind.ACKNOWLEDGED]
        member.accepted = work.acknowledge(member.key, acknowledged)
        given_back = [row for row in command.rows if row.kind == RowKind.GIVEN_BACK]
        work.give_back(member.key, given_back, self._time)
        if command.position != NULL_VALUE and command.position <= self._position:
            found = [row for row in command.rows if row.kind == RowKind.FOUND]
            work.extend(command.from_position, command.position, found)
        return OK, ""

    def _seek(self, consumer: DurableConsumer, command: ConsumerCommand) -> tuple[ConsumerStatus, str]:
        if command.epoch not in (NULL_VALUE, consumer.epoch):
            return ConsumerStatus.NOT_ACTIVE, f"consumer {consumer.name!r} has changed meanwhile: look again"
        position = self._position if command.position == NULL_VALUE else command.position
        if not 0 <= position <= self._position:
            return ConsumerStatus.REFUSED, f"position={position}: allowed is 0 to {self._position}"
        consumer.position, consumer.epoch = position, self._position
        if consumer.work is not None:
            consumer.work.seek(position)
        return OK, ""

    def _remove_member(self, consumer: DurableConsumer, key: int) -> None:
        was_active = consumer.active is consumer.members[key]
        del consumer.members[key]
        if consumer.work is not None:
            consumer.work.leave(key)
        elif was_active:
            consumer.epoch = self._position

    # What members are told

    def _parts(self, consumer: DurableConsumer) -> dict[int, tuple[Any, ...]]:
        """Return what concerns each member, to be compared after a change."""
        active = consumer.active
        work = {} if consumer.work is None else consumer.work.by_owner()
        return {
            key: (member is active, member is active and consumer.epoch, consumer.is_paused, work.get(key))
            for key, member in consumer.members.items()
        }

    def _settle(self, consumer: DurableConsumer, before: dict[int, tuple[Any, ...]], asking: int) -> list[Notice]:
        """Assign work, and inform the members whose share has changed, except the one that asked."""
        if self._consumers.get(consumer.name) is not consumer:
            text = f"consumer {consumer.name!r} was removed"
            return [
                Notice(member.session_id, self._gone(member.key, text))
                for member in consumer.members.values()
                if member.key != asking
            ]
        if consumer.work is not None and not consumer.is_paused:
            consumer.work.hand_out(list(consumer.members), self._time)
        return [
            Notice(consumer.members[key].session_id, self._answer(consumer, key, 0, OK, ""))
            for key, part in self._parts(consumer).items()
            if key != asking and part != before.get(key)
        ]

    def _answer(
        self, consumer: DurableConsumer, key: int, number: int, status: ConsumerStatus, text: str
    ) -> ConsumerAnswer:
        active, work, member = consumer.active, consumer.work, consumer.members.get(key)
        flags = AnswerFlag.ACTIVE if active is not None and active.key == key else AnswerFlag.NONE
        if consumer.is_paused:
            flags |= AnswerFlag.PAUSED
        return ConsumerAnswer(
            number,
            key,
            status,
            flags,
            consumer.epoch,
            consumer.done_position,
            consumer.position if work is None else work.frontier,
            NULL_VALUE if work is None else work.next_due(self._time),
            0 if work is None else work.room,
            member.accepted if member is not None and number else 0,
            self._position,
            self._time,
            () if work is None or text else work.work_of(key),
            text,
        )

    def _refusal(self, command: ConsumerCommand, status: ConsumerStatus, text: str) -> ConsumerAnswer:
        return self._gone(command.member_key, text)._replace(number=command.number, status=status)

    def _unknown(self, command: ConsumerCommand) -> ConsumerAnswer:
        return self._refusal(command, ConsumerStatus.UNKNOWN, f"there is no consumer {command.name!r}")

    def _gone(self, key: int, text: str) -> ConsumerAnswer:
        nothing = NULL_VALUE, NULL_VALUE, NULL_VALUE, NULL_VALUE, 0, 0, self._position, self._time
        return ConsumerAnswer(0, key, ConsumerStatus.UNKNOWN, AnswerFlag.NONE, *nothing, (), text)

    def _look(self, command: ConsumerCommand, consumer: DurableConsumer | None) -> ConsumerAnswer:
        """Return the JSON of LIST or DESCRIBE. A list continues after the name that is given."""
        if command.kind is CommandKind.DESCRIBE:
            if consumer is None:
                return self._unknown(command)
            return self._refusal(command, OK, json.dumps(self._describe(consumer, with_members=True)))
        rows: list[str] = []
        for name in sorted(self._consumers):
            if name > command.name:
                rows.append(json.dumps(self._describe(self._consumers[name], with_members=False)))
            if sum(map(len, rows)) > LIST_BYTES_MAX:
                break
        return self._refusal(command, OK, f"[{', '.join(rows)}]")

    def _describe(self, consumer: DurableConsumer, *, with_members: bool) -> dict[str, Any]:
        work = consumer.work
        found = {
            "name": consumer.name,
            "mode": consumer.mode.name.lower(),
            "position": consumer.done_position,
            "log_position": self._position,
            "lag": self._position - consumer.done_position,
            "paused": consumer.is_paused,
            "epoch": consumer.epoch,
            "members": len(consumer.members),
        }
        if work is not None:
            found |= {
                "waiting": work.waiting,
                "in_flight": sum(work.count_in_flight(key) for key in consumer.members),
                "dead": work.dead_count,
                "frontier": work.frontier,
            }
        if not with_members:
            return found
        found["sessions"] = [
            {
                "session": member.session_id,
                "active": member is consumer.active,
                "in_flight": 0 if work is None else work.count_in_flight(key),
            }
            for key, member in consumer.members.items()
        ]
        if work is not None:
            found |= {
                "ack_timeout_ms": work.ack_timeout,
                "in_flight_max": work.in_flight_max,
                "tries_max": work.tries_max,
                "by_key": work.by_key,
                "counts_refusals": work.counts_refusals,
                "dead_letters": [
                    {"position": position, "tries": tries} for position, tries in work.dead[-DEAD_LISTED_MAX:]
                ],
            }
        return found

    # Snapshots

    def snapshot(self) -> Iterator[bytes]:
        """Yield one JSON text for each consumer, in the order of their names; before them that of the table, if any."""
        if self.counts_refusals:
            yield COUNTS_REFUSALS_STATE
        for name in sorted(self._consumers):
            yield json.dumps(_state(self._consumers[name]), separators=(",", ":")).encode()

    def restore(self, states: Iterable[bytes]) -> None:
        """Restore the state that `snapshot` returned. Raises SnapshotError if it is not valid."""
        for text in states:
            if text == COUNTS_REFUSALS_STATE:
                self.counts_refusals = True
                continue
            try:
                consumer = _restored(json.loads(text))
            except (ValueError, KeyError, TypeError) as error:
                raise SnapshotError(f"snapshot: a durable consumer cannot be read: {error!r}") from None
            self._consumers[consumer.name] = consumer


def _find_wrong(command: ConsumerCommand) -> str:
    """Return what is wrong with the settings of a new shared consumer, or ''."""
    for name, value, limit in (
        ("ack_timeout", command.ack_timeout, ACK_TIMEOUT_MAX),
        ("in_flight_max", command.in_flight_max, IN_FLIGHT_MAX),
        ("tries_max", command.tries_max, TRIES_MAX),
    ):
        if not 1 <= value <= limit:
            return f"{name}={value}: allowed is 1 to {limit}"
    return ""


def _state(consumer: DurableConsumer) -> dict[str, Any]:
    return {
        "name": consumer.name,
        "mode": int(consumer.mode),
        "position": consumer.position,
        "filter": consumer.filter_hash,
        "created": consumer.created_position,
        "epoch": consumer.epoch,
        "paused": consumer.is_paused,
        "members": [
            [one.key, one.session_id, one.number, int(one.status), one.text, one.accepted]
            for one in consumer.members.values()
        ],
        "work": None if consumer.work is None else consumer.work.state(),
    }


def _restored(state: dict[str, Any]) -> DurableConsumer:
    members = {
        key: ConsumerMember(key, session_id, number, ConsumerStatus(status), text, accepted)
        for key, session_id, number, status, text, accepted in state["members"]
    }
    return DurableConsumer(
        state["name"],
        ConsumerMode(state["mode"]),
        state["position"],
        state["filter"],
        state["created"],
        state["epoch"],
        bool(state["paused"]),
        members,
        None if state["work"] is None else SharedWork.restored(state["work"]),
    )
