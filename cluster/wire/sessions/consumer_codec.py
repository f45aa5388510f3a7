"""Commands of durable consumers and their answers, with the name and the rows that follow the fixed fields.

    ConsumerCommand | name (name_length bytes, UTF-8) | rows of 24 bytes: i32 kind | i32 delay | i64 position | i64 key
    ConsumerAnswer  | rows of 16 bytes: i64 position | i32 tries | i32 counted; or, where the status is not OK, a text;
                      or the JSON that was asked for

Whatever bytes a client sends, `decode_command` returns a command or None: what the members execute must not depend on
anything but the bytes.
"""

from __future__ import annotations

import re
import struct
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.tails import tail_of
from ordo.runtime.errors import DecodeError
from ordo.runtime.native.sentinels import NULL_VALUE

NAME_BYTES_MAX = 64
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What consumers may be called."""
ROWS_MAX = 1024
"""In a command; more is no command."""
_ROW = struct.Struct("<iiqq")
_WORK = struct.Struct("<qii")


class CommandKind(IntEnum):
    """What a command asks for; travels as i32."""

    JOIN = 0
    """To be a member; of a new consumer, which begins at `position`, or of one that is there. Again: to be told."""
    LEAVE = 1
    COMMIT = 2
    """Exclusive: everything before `position` is done."""
    WORK = 3
    """Shared: what was read up to `position`, acknowledgements, and messages that are given back."""
    PAUSE = 4
    RESUME = 5
    SEEK = 6
    REMOVE = 7
    LIST = 8
    DESCRIBE = 9
    INSTANCES = 10
    """To be told of the instances of applications whose sessions come after `position`."""
    DIFFERENCES = 11
    """To be told of the differences that canaries of the group `name` told of behind `position` of the log."""
    APP_UPGRADE = 12
    """Instances of the group `name` that execute version `from_position` of their code go on with version `position`.
    It changes nothing in the cluster."""


NAMELESS = frozenset({CommandKind.LIST, CommandKind.INSTANCES, CommandKind.DIFFERENCES, CommandKind.APP_UPGRADE})
"""What needs no name of a consumer."""
ADMINISTRATION = frozenset(
    {CommandKind.PAUSE, CommandKind.RESUME, CommandKind.SEEK, CommandKind.REMOVE, CommandKind.APP_UPGRADE}
)


class ConsumerMode(IntEnum):
    """How the members of a consumer divide it; travels as i32."""

    EXCLUSIVE = 0
    SHARED = 1


class CommandFlag(IntFlag):
    """What a JOIN may ask for besides, and a WORK where that is said."""

    NONE = 0
    BY_KEY = 1
    """Shared: messages of one key go to one member at a time, in order."""
    EXISTING = 2
    """The member was told of this consumer before: where it is gone it was removed, and is not begun anew."""
    COUNTS_REFUSALS = 4
    """Shared: only what members give back counts as tried, from protocol level 8 on (levels.REFUSALS_LEVEL).
    With each WORK too: the level may come into force after the JOIN."""


class RowKind(IntEnum):
    """What a row of a WORK command is; travels as i32."""

    FOUND = 0
    ACKNOWLEDGED = 1
    GIVEN_BACK = 2


class ConsumerStatus(IntEnum):
    """What became of a command; travels as i32. The rest of any but OK is a line of text."""

    OK = 0
    REFUSED = 1
    """Not as things are, or as it was asked."""
    UNKNOWN = 2
    """There is no such consumer."""
    NO_MEMBER = 3
    """The member's session was closed, or it never joined: it is to join again."""
    NOT_ACTIVE = 4
    """Another member is the active one, or has been meanwhile: the position was not taken."""
    NOT_ALLOWED = 5
    """The session's rights do not suffice."""


class AnswerFlag(IntFlag):
    """Flags in an answer to a member, about itself and its consumer."""

    NONE = 0
    ACTIVE = 1
    """Exclusive: this member reads and commits. Shared: it reads ahead for all."""
    PAUSED = 2


class Row(NamedTuple):
    """One message of the log in a WORK command."""

    kind: int
    position: int
    key: int = 0
    """The number of the try, of what is given back."""
    delay: int = 0
    """ms until a message that is given back may be handed out again."""


class Work(NamedTuple):
    """A message that is handed out to a member."""

    position: int
    tries: int
    """How often it was handed out, this time included."""
    counted: int = 0
    """The tries that count, this one included, where only refusals do; else 0."""


class ConsumerCommand(NamedTuple):
    """What a client asks of a consumer."""

    kind: CommandKind
    name: str = ""
    member_key: int = 0
    number: int = 0
    epoch: int = NULL_VALUE
    position: int = NULL_VALUE
    from_position: int = NULL_VALUE
    mode: ConsumerMode = ConsumerMode.EXCLUSIVE
    filter_hash: int = 0
    ack_timeout: int = 0
    in_flight_max: int = 0
    tries_max: int = 0
    flags: int = 0
    rows: tuple[Row, ...] = ()


class ConsumerAnswer(NamedTuple):
    """The outcome of a command, and the consumer's present state."""

    number: int
    member_key: int
    status: ConsumerStatus
    flags: AnswerFlag
    epoch: int
    position: int
    frontier: int
    due: int
    room: int
    accepted: int
    log_position: int
    timestamp: int
    work: tuple[Work, ...]
    text: str


def encode_command(command: ConsumerCommand, leadership_term_id: int, session_id: int) -> bytes:
    """Return the record, as a client sends it."""
    name = command.name.encode()
    fields = command._asdict()
    rows = b"".join(_ROW.pack(row.kind, row.delay, row.position, row.key) for row in command.rows)
    del fields["name"], fields["rows"]
    head = ordo_codecs.CONSUMER_COMMAND.encode(
        leadership_term_id=leadership_term_id,
        cluster_session_id=session_id,
        timestamp=0,
        name_length=len(name),
        **fields,
    )
    return head + name + rows


def decode_command(record: bytes) -> ConsumerCommand | None:
    """Return the command in a record whose fixed fields are present, or None if it is invalid."""
    try:
        values = ordo_codecs.CONSUMER_COMMAND.decode(record)
        kind, mode = CommandKind(values.kind), ConsumerMode(values.mode)
    except (DecodeError, ValueError):
        return None
    tail = tail_of(record)
    if not 0 <= values.name_length <= min(len(tail), NAME_BYTES_MAX):
        return None
    name, rows = tail[: values.name_length].decode("utf-8", "replace"), tail[values.name_length :]
    if len(rows) % _ROW.size or len(rows) > ROWS_MAX * _ROW.size:
        return None
    if kind not in NAMELESS and NAME.fullmatch(name) is None:
        return None
    return ConsumerCommand(
        kind,
        name,
        values.member_key,
        values.number,
        values.epoch,
        values.position,
        values.from_position,
        mode,
        values.filter_hash,
        values.ack_timeout,
        values.in_flight_max,
        values.tries_max,
        values.flags,
        tuple(Row(row, position, key, delay) for row, delay, position, key in _ROW.iter_unpack(rows)),
    )


def encode_answer(answer: ConsumerAnswer, leadership_term_id: int, session_id: int) -> bytes:
    """Return the message for a member, or for the session that asked."""
    tail = answer.text.encode() or b"".join(_WORK.pack(*work) for work in answer.work)
    fields = answer._asdict()
    del fields["work"], fields["text"]
    head = ordo_codecs.CONSUMER_ANSWER.encode(
        leadership_term_id=leadership_term_id,
        cluster_session_id=session_id,
        count=len(answer.work) if not answer.text else 0,
        **fields,
    )
    return head + tail


def text_answer(values: Any, status: ConsumerStatus, text: str) -> ConsumerAnswer:
    """Return the answer to a command that concerns no consumer: a text. `values`: the command's fields."""
    nothing = NULL_VALUE, NULL_VALUE, NULL_VALUE, NULL_VALUE, 0, 0, 0, 0
    return ConsumerAnswer(values.number, values.member_key, status, AnswerFlag.NONE, *nothing, (), text)


def decode_answer(message: bytes) -> ConsumerAnswer:
    """Raise DecodeError."""
    values = ordo_codecs.CONSUMER_ANSWER.decode(message)
    tail = tail_of(message)
    if not 0 <= values.count * _WORK.size <= len(tail):
        raise DecodeError(f"ConsumerAnswer: count={values.count} in {len(tail)} bytes")
    work = tuple(Work(*row) for row in _WORK.iter_unpack(tail[: values.count * _WORK.size]))
    try:
        status = ConsumerStatus(values.status)
    except ValueError:
        raise DecodeError(f"ConsumerAnswer: status={values.status}") from None
    return ConsumerAnswer(
        values.number,
        values.member_key,
        status,
        AnswerFlag(values.flags),
        values.epoch,
        values.position,
        values.frontier,
        values.due,
        values.room,
        values.accepted,
        values.log_position,
        values.timestamp,
        work,
        "" if values.count else tail.decode("utf-8", "replace"),
    )
