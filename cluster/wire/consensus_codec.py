"""Translates consensus messages between values (consensus.state.messages) and bytes (cluster.wire.codecs)."""

from __future__ import annotations

from typing import Any

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.tails import tail_of
from ordo.consensus.state import messages
from ordo.runtime.errors import DecodeError

NUMBER_MAX = 2**62

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
    messages.TimeoutNow: ordo_codecs.TIMEOUT_NOW,
    messages.TrustRequest: ordo_codecs.TRUST_REQUEST,
    messages.TrustAnswer: ordo_codecs.TRUST_ANSWER,
    messages.StandsBack: ordo_codecs.STANDS_BACK,
    messages.Introduction: ordo_codecs.INTRODUCTION,
    messages.ReadHeartbeat: ordo_codecs.READ_HEARTBEAT,
    messages.ReadHeartbeatAck: ordo_codecs.READ_HEARTBEAT_ACK,
    messages.ReadIndexRequest: ordo_codecs.READ_INDEX_REQUEST,
    messages.ReadIndexResponse: ordo_codecs.READ_INDEX_RESPONSE,
}
_TYPES = {table: kind for kind, table in _TABLES.items()} | {ordo_codecs.TRANSFER_REQUEST_VOTE: messages.RequestVote}
_BOOLEAN_FIELDS = {messages.Vote: "vote", messages.NewLeadershipTerm: "is_startup"}

_NO_FIELDS = ("is_transfer", "log_lead")
"""Values of messages that stand elsewhere than among their fields."""


def encode(message: messages.Message) -> bytes:
    """Return the bytes of a message. The flag of a RequestVote is its schema: Aeron's has no room for it."""
    fields = message._asdict()
    table = _TABLES[type(message)]
    if isinstance(message, messages.RequestVote) and fields.pop("is_transfer"):
        table = ordo_codecs.TRANSFER_REQUEST_VOTE
    lead = fields.pop("log_lead", None)
    encoded: bytes = table.encode(**fields)
    if lead is not None:
        encoded += ordo_codecs.TERM_LEAD.encode(leadership_term_id=fields["log_leadership_term_id"], **lead._asdict())
    return encoded


def decode(buffer: bytes) -> messages.Message | None:
    """Return the message, or None when it is none of the consensus messages.

    Raises DecodeError when it is cut short, or has a number that cannot be.
    """
    found = ordo_codecs.decode_any(buffer)
    if found is None or found[0] not in _TYPES:
        return None
    table, values = found
    kind = _TYPES[table]
    fields = {name: getattr(values, name) for name in kind._fields if name not in _NO_FIELDS}
    boolean = _BOOLEAN_FIELDS.get(kind)
    if boolean is not None:
        fields[boolean] = bool(fields[boolean])
    if kind is messages.RequestVote:
        fields["is_transfer"] = table is ordo_codecs.TRANSFER_REQUEST_VOTE
    if kind is messages.NewLeadershipTerm:
        fields["log_lead"] = _find_lead(buffer, fields["log_leadership_term_id"])
    _demand_range(kind.__name__, fields)
    message: messages.Message = kind(**fields)
    return message


def _find_lead(buffer: bytes, leadership_term_id: int) -> messages.Lead | None:
    """Return the lead of an earlier term that a NewLeadershipTerm names after its fields; None if it names none.

    Raises DecodeError.
    """
    found = ordo_codecs.decode(tail_of(buffer))
    if found is None or found[0] is not ordo_codecs.TERM_LEAD or leadership_term_id < 0:
        return None
    told = found[1]
    if told.leadership_term_id != leadership_term_id:
        raise DecodeError(f"TermLead: of term {told.leadership_term_id}, behind what is said of {leadership_term_id}")
    return messages.Lead(told.member_id, told.log_session_id)


def _demand_range(name: str, fields: dict[str, Any]) -> None:
    """Raise DecodeError for a term or position near the end of its type, where adding one overflows."""
    for field, value in fields.items():
        if field.endswith(("term_id", "position")) and value > NUMBER_MAX:
            raise DecodeError(f"{name}: {field}={value} is out of range")
