"""Determines which requests of the log the cluster executes, with the same table as the members.

A request that was sent again stands in the log twice and is executed once. What decides is nothing but earlier records
(ordo.service_api.requests), so a reader that has them decides as the members do.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import OUTPUT_ID_LEVEL, SEQUENCE_LEVEL
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.follow.entries import EntryKind, LogEntry, decode_entry, is_snapshot
from ordo.runtime.sbe import Message
from ordo.service_api.native import MessageSequence
from ordo.service_api.requests import RequestTable

if TYPE_CHECKING:
    from ordo.service_api.requests import Identity, IdentityState

REQUESTS = frozenset((EntryKind.REQUEST, EntryKind.OUTPUT))
DECIDING_KINDS = (
    EntryKind.REQUEST,
    EntryKind.IDENTITY,
    EntryKind.SESSION_OPEN,
    EntryKind.SESSION_CLOSE,
    EntryKind.LEVEL,
)
"""All that it takes to decide."""
NUMBERING_KINDS = (*DECIDING_KINDS, EntryKind.MESSAGE, EntryKind.CLUSTER_ACTION)
"""All that it takes to number messages."""
NUMBERED = frozenset((EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT))
"""What may have a number."""
_TEMPLATE = slice(2, 6)
_REQUEST_FIELDS = struct.Struct("<qqqqq")
_REQUEST_AT = ordo_codecs.REQUEST.offset_of("cluster_session_id") or 0
_HEAD, _HEAD_PARTS, _ARRIVAL_BYTES = slice(0, 6), struct.Struct("<HHH"), 8


def _template(message: Message) -> bytes:
    return struct.pack("<HH", message.template_id, message.schema_id)


def _plain_request(message: Message, more_bytes: int) -> tuple[bytes, int]:
    """Return how a record begins that is a Request without an id, and how long it is at least."""
    length = ordo_codecs.REQUEST.block_length + more_bytes
    head = _HEAD_PARTS.pack(length, message.template_id, message.schema_id)
    return head, codecs.HEADER_LENGTH_BYTES + length


_PLAIN_REQUESTS = dict(
    (_plain_request(ordo_codecs.REQUEST, 0), _plain_request(ordo_codecs.ARRIVED_REQUEST, _ARRIVAL_BYTES))
)
_REQUESTS = frozenset(map(_template, (ordo_codecs.REQUEST, ordo_codecs.ARRIVED_REQUEST)))
_MESSAGE = _template(codecs.SESSION_MESSAGE_HEADER)
_MESSAGE_LENGTH = codecs.HEADER_LENGTH_BYTES + codecs.SESSION_MESSAGE_HEADER.block_length
_SESSION_ID = struct.Struct("<q")
_MESSAGE_AT = codecs.SESSION_MESSAGE_HEADER.offset_of("cluster_session_id") or 0
_CLUSTER_ACTION = _template(codecs.CLUSTER_ACTION_REQUEST)
_DECIDING = frozenset(
    map(
        _template,
        (
            ordo_codecs.OPEN_IDENTITY,
            ordo_codecs.LEVEL_EVENT,
            codecs.SESSION_OPEN_EVENT,
            codecs.SESSION_CLOSE_EVENT,
        ),
    )
)


class Executions:
    """The table of requests at one position of the log; `mark` and `note` take it on, record by record.

    Bounded as the members' table is: by sessions that are open, and by `RequestLimits`. Answers are not in the log, so
    it keeps none. In a log below protocol level 3 it does not know when a member told a client to wait because too many
    bytes of them were kept: it takes the first copy of such a request for the executed one.
    """

    def __init__(
        self, snapshot: ServiceSnapshot | None = None, *, is_known: bool = True, numbers: bool = False
    ) -> None:
        """`snapshot`: of a service, at whose position the table begins; None: at the beginning of the log.

        `is_known`: False where there is no table, so that nothing can be said of any request. `numbers`: messages are
        numbered, too: `mark` is to be given all entries of NUMBERING_KINDS then.
        """
        self.is_known = is_known
        self.numbers = numbers and is_known
        self.sequence = MessageSequence()
        self._table = RequestTable()
        self._sessions: dict[int, bytes] = {}
        if snapshot is not None:
            self._sessions = {one.cluster_session_id: one.encoded_principal for one in snapshot.sessions}
            self._table.restore([_without_payloads(state) for state in snapshot.requests])
            self._table.ids.restore(snapshot.request_ids, snapshot.takes_ids, snapshot.takes_output_ids)
            if numbers:
                self.sequence.restore(snapshot.sequence, snapshot.keeps_sequence)

    def mark(self, entry: LogEntry) -> LogEntry:
        """Return the next entry of the log, a request with its identity and whether it is a repeat."""
        kind = entry.kind
        if kind is EntryKind.MESSAGE:
            return entry._replace(sequence=self.number_message(entry.session_id)) if self.numbers else entry
        if kind in REQUESTS:
            values = entry.values
            if not self.is_known:
                return entry._replace(is_repeat=None)
            found = self._execute(
                entry.session_id,
                entry.timestamp,
                values.open_position,
                values.number,
                values.confirmed,
                entry.position,
                entry.request_id if kind is EntryKind.REQUEST or self._table.ids.takes_outputs else b"",
                entry.payload,
            )
            if found is not None:
                number = self.sequence.last if self.numbers else 0
                return LogEntry(*entry[:7], False, found.identity, number, entry.arrival_ns)
            known = self._table.get(values.open_position)
            name = known.identity if known is not None else b""
            return LogEntry(*entry[:7], True, name, 0, entry.arrival_ns)
        if kind is EntryKind.IDENTITY:
            name = ordo_codecs.join_identity(entry.values)
            self._open(entry, name)
            return LogEntry(*entry[:7], False, name)
        if kind is EntryKind.SESSION_OPEN:
            self._sessions[entry.session_id] = entry.values.encoded_principal
        elif kind is EntryKind.SESSION_CLOSE:
            self._sessions.pop(entry.session_id, None)
        elif kind is EntryKind.LEVEL:
            self._raise_level(entry)
        elif kind is EntryKind.CLUSTER_ACTION and is_snapshot(entry):
            self.sequence.pass_snapshot()
        return entry

    def count_from(self, sequence: int, *, is_kept: bool) -> None:
        """Go on numbering messages after this one, which is known otherwise."""
        self.numbers = self.is_known
        self.sequence.restore(sequence, is_kept)

    def _raise_level(self, entry: LogEntry) -> None:
        if entry.values.level >= OUTPUT_ID_LEVEL:
            self._table.ids.takes_outputs = True
        if entry.values.level >= SEQUENCE_LEVEL:
            self.sequence.keep(entry.position)

    def number_message(self, session_id: int) -> int:
        """Return the number of the next record, a message of a session; 0 if it has none, or no service sees it.

        It is noted with that, and not to be given to `mark` or `note` as well.
        """
        return self.sequence.next() if session_id < 0 or session_id in self._sessions else 0

    def note(self, position: int, record: bytes) -> bool:
        """Note the next record without building its entry, which is faster than `mark`. Return True for a repeat."""
        plain_length = _PLAIN_REQUESTS.get(record[_HEAD])
        if plain_length is not None and len(record) >= plain_length:
            session_id, timestamp, open_position, number, confirmed = _REQUEST_FIELDS.unpack_from(record, _REQUEST_AT)
            return self._execute(session_id, timestamp, open_position, number, confirmed, position) is None
        template = record[_TEMPLATE]
        if template == _MESSAGE:
            if self.numbers and len(record) >= _MESSAGE_LENGTH:
                self.number_message(_SESSION_ID.unpack_from(record, _MESSAGE_AT)[0])
            return False
        if template in _REQUESTS or template in _DECIDING or (self.numbers and template == _CLUSTER_ACTION):
            entry = decode_entry(position, record)
            return entry is not None and bool(self.mark(entry).is_repeat)
        return False

    def get(self, open_position: int) -> Identity | None:
        """Return the identity whose requests name this open position, or None if there is none."""
        return self._table.get(open_position)

    def principal_of(self, session_id: int) -> bytes:
        """Return the principal of an open session, as the log has it; empty for others."""
        return self._sessions.get(session_id, b"")

    def _execute(
        self,
        session_id: int,
        timestamp: int,
        open_position: int,
        number: int,
        confirmed: int,
        position: int,
        request_id: bytes = b"",
        payload: bytes = b"",
    ) -> Identity | None:
        """Execute a request. Return its identity, or None if it is not executed."""
        principal = self._sessions.get(session_id)
        if principal is None:
            return None
        identity = self._table.judge(open_position, principal, number, confirmed, timestamp, request_id, payload)
        if identity is not None:
            self._table.note(identity, position, ordo_codecs.AnswerStatus.OK, b"")
            self.sequence.next()
        return identity

    def _open(self, entry: LogEntry, name: bytes) -> None:
        principal, values = self._sessions.get(entry.session_id), entry.values
        if principal is not None:
            self._table.open(
                name, principal, values.incarnation, values.known_position, entry.position, entry.timestamp
            )


def _without_payloads(state: IdentityState) -> IdentityState:
    return state._replace(answers=[(number, position, 0, b"") for number, position, _, _ in state.answers])
