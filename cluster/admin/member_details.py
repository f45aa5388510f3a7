"""A member's detailed reply to operators (cluster.module.operators.member_report), checked.

It comes over the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ordo.cluster.admin.checked_numbers import parse_int64
from ordo.cluster.wire.log_identity import Origin, parse_identity
from ordo.runtime.errors import ConfigurationError, DecodeError
from ordo.runtime.native.sentinels import NULL_VALUE


class HeldSnapshot(NamedTuple):
    """A whole snapshot; `timestamp` is cluster time in milliseconds since 1970."""

    log_position: int
    leadership_term_id: int
    timestamp: int


class HeldTerm(NamedTuple):
    """A term, and where its log begins."""

    leadership_term_id: int
    base_position: int


class HeldSession(NamedTuple):
    """A client's session; `active_ms` is the cluster time of its newest message, -1 where the member does not lead.

    `is_held`: its messages wait for a quota at this leader.
    """

    session_id: int
    opened_log_position: int
    principal: str
    address: str
    active_ms: int
    is_held: bool = False


class HeldError(NamedTuple):
    """An error, how often the member met it, and when last, in milliseconds since 1970."""

    observation_count: int
    last_ms: int
    text: str


class MemberDetails(NamedTuple):
    """A member's newest terms, snapshots, sessions and errors, the newest last."""

    log_start_position: int
    state_hash_position: int
    """A quorum was last known to have one state here; -1: nowhere since the start."""
    terms: list[HeldTerm]
    snapshots: list[HeldSnapshot]
    sessions: list[HeldSession]
    errors: list[HeldError]


def parse_told_identity(found: Mapping[str, object]) -> Origin | None:
    """Return which cluster a member is of; None where it knows none, or is of a release that does not say it.

    Raises DecodeError if it sent anything else.
    """
    text = found.get("identity", "")
    try:
        return parse_identity(str(text)) if text else None
    except ConfigurationError as error:
        raise DecodeError(f"a member told no identity: {error.message}") from None


def parse_details(found: Mapping[str, Any]) -> MemberDetails:
    """Return the details. Raises DecodeError if a member sent anything else."""
    try:
        return MemberDetails(
            log_start_position=parse_int64(found["log_start"]),
            state_hash_position=parse_int64(found.get("state_hash_position", NULL_VALUE)),
            terms=[HeldTerm(*map(parse_int64, row)) for row in found["terms"]],
            snapshots=[HeldSnapshot(*map(parse_int64, row)) for row in found["snapshots"]],
            sessions=[
                HeldSession(
                    session_id=parse_int64(row["id"]),
                    opened_log_position=parse_int64(row["opened"]),
                    principal=str(row["principal"]),
                    address=str(row["address"]),
                    active_ms=parse_int64(row["active_ms"]),
                    is_held=row.get("held") is True,
                )
                for row in found["sessions"]
            ],
            errors=[
                HeldError(parse_int64(row["count"]), parse_int64(row["last_ms"]), str(row["text"]))
                for row in found["errors"]
            ],
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DecodeError(f"a member told nothing that describes it: {error}") from None
