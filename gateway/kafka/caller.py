"""A client of the door, as its requests see it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ordo.gateway.kafka.service.orders import KafkaError
from ordo.gateway.kafka.sessions import ClusterSession
from ordo.runtime.errors import (
    ClusterTimeoutError,
    DecodeError,
    OrdoError,
    QueryFailedError,
    RejectedError,
    RequestOutcome,
)

PARTITION = 0
"""A topic has one partition."""


@dataclass(eq=False)
class Caller:
    """Who calls. A connection has one, which is no other's equal: what it appends has a line of its own."""

    session: ClusterSession
    host: str
    """Where it calls from."""
    door: tuple[str, int]
    """Host and port of the door, as this client is told them."""
    client_id: str = ""
    producing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a request's batches are decoded: they go into the log in the order in which they came."""


def error_of_order(error: OrdoError) -> int:
    """Return the code of Kafka's protocol for why the cluster did not answer.

    REQUEST_TIMED_OUT is all that tells clients that records may be there all the same.
    """
    if is_final(error):
        return KafkaError.INVALID_REQUEST
    is_unknown = error.outcome in (RequestOutcome.UNKNOWN, RequestOutcome.EXECUTED)
    if isinstance(error, ClusterTimeoutError) or is_unknown:
        return KafkaError.REQUEST_TIMED_OUT
    return KafkaError.LEADER_NOT_AVAILABLE


def error_of_group(error: OrdoError) -> int:
    """As `error_of_order`, for offsets of groups: clients look for their coordinator again, and ask it again.

    Clients take other codes for final where offsets are fetched.
    """
    return KafkaError.INVALID_REQUEST if is_final(error) else KafkaError.NOT_COORDINATOR


def is_final(error: OrdoError) -> bool:
    """Return whether asking again does not help."""
    return isinstance(error, DecodeError | RejectedError | QueryFailedError)
