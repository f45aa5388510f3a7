"""Consensus messages between their values (consensus.messages) and their bytes (cluster.codecs)."""

from __future__ import annotations

from typing import Any

from cluster import codecs
from consensus import messages

_TABLES: dict[type[Any], Any] = {
    messages.CanvassPosition: codecs.CANVASS_POSITION,
    messages.RequestVote: codecs.REQUEST_VOTE,
    messages.Vote: codecs.VOTE,
    messages.NewLeadershipTerm: codecs.NEW_LEADERSHIP_TERM,
    messages.AppendPosition: codecs.APPEND_POSITION,
    messages.CommitPosition: codecs.COMMIT_POSITION,
    messages.CatchupPosition: codecs.CATCHUP_POSITION,
    messages.StopCatchup: codecs.STOP_CATCHUP,
    messages.TerminationPosition: codecs.TERMINATION_POSITION,
    messages.TerminationAck: codecs.TERMINATION_ACK,
}
_TYPES = {table.template_id: kind for kind, table in _TABLES.items()}
_BOOLEAN_FIELDS = {messages.Vote: "vote", messages.NewLeadershipTerm: "is_startup"}


def encode(message: messages.Message) -> bytes:
    encoded: bytes = _TABLES[type(message)].encode(**message._asdict())
    return encoded


def decode(buffer: bytes) -> messages.Message | None:
    """The message, or None when it is none of the consensus messages; raises DecodeError when it is cut short."""
    found = codecs.decode(buffer)
    if found is None or found[0].template_id not in _TYPES:
        return None
    table, values = found
    kind = _TYPES[table.template_id]
    fields = {name: getattr(values, name) for name in kind._fields}
    boolean = _BOOLEAN_FIELDS.get(kind)
    if boolean is not None:
        fields[boolean] = bool(fields[boolean])
    message: messages.Message = kind(**fields)
    return message
