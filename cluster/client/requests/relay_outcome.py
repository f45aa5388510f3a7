"""The outcomes that a gateway can report of a request that it relays."""

from __future__ import annotations

from enum import Enum, auto


class Outcome(Enum):
    """The outcome of a relayed request, or of opening an identity."""

    EXECUTED = auto()
    """The payload is the service's answer."""
    REJECTED = auto()
    """Executed: the service refused it and changed nothing. The payload says why, as it does for all that follow."""
    ANSWER_TOO_LONG = auto()
    """Executed; its answer is longer than may be kept, or than the egress takes."""
    CONFIRMED_BEFORE = auto()
    """Executed before, and its answer is no longer kept, for the caller has said that it has it."""
    OUT_OF_ORDER = auto()
    """Not executed: one before it is missing."""
    PAYLOAD_TOO_LONG = auto()
    """Not executed."""
    KEPT_TOO_MUCH = auto()
    """Not executed: the cluster keeps as many answers as it may, until callers confirm some."""
    IDENTITIES_FULL = auto()
    """Not executed: the cluster keeps as many identities as it may."""
    IDENTITY_EXPIRED = auto()
    """The cluster knows the identity no more: nobody can tell whether the request was executed."""
    IDENTITY_SUPERSEDED = auto()
    """A client that is no gateway has opened the identity since: nobody can tell."""
    IDENTITY_FORBIDDEN = auto()
    """Not executed: the identity belongs to another principal."""
    ID_CONFLICT = auto()
    """Not executed: the id of the request was used for another payload. The number is used."""
    FORGOTTEN = auto()
    """Executed before; the answer is not kept any more."""
    IDS_NOT_TAKEN = auto()
    """Not executed: the cluster's log has no ids of requests yet."""
    UNKNOWN = auto()
    """Sent, and not answered yet: it is executed once, or not at all."""
    NOT_SENT = auto()
    """There is no leader to send it to."""
