"""A client of the door, as its requests see it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ordo.gateway.kafka.service.orders import KafkaError
from ordo.gateway.kafka.sessions import ClusterSession
from ordo.gateway.kafka.wire.records import Stored
from ordo.runtime.errors import (
    ClusterTimeoutError,
    DecodeError,
    OrdoError,
    QueryFailedError,
    RejectedError,
    RequestOutcome,
)
from ordo.runtime.reporting.logging import get_logger

RECORD_BYTES = 64
"""So much each record counts in a response besides its payload."""
PARTITION = 0
"""A topic has one partition."""


class ResponseRoom:
    """Bytes of records that responses may have which clients have not taken yet, over all connections."""

    def __init__(self, bytes_max: int) -> None:
        self.left = bytes_max
        self.cut = 0
        """So many responses were shorter than they might have been, for want of room."""

    def fit(self, messages: Sequence[Stored], length: int) -> Sequence[Stored]:
        """Return as many messages as there is room for, and at least one; `length`: what the client takes at most."""
        if length <= self.left:
            return messages
        sizes = accumulate(len(one.payload) + RECORD_BYTES for one in messages)
        count = sum(1 for size in sizes if size <= self.left)
        if count >= len(messages):
            return messages
        self.cut += 1
        if self.cut & (self.cut - 1) == 0:  # each time there are twice as many
            get_logger().warning("kafka.responses-full", why="clients take too slowly what they fetch", cut=self.cut)
        return messages[: max(count, 1)]


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
    _holds: list[tuple[ResponseRoom, int]] = field(default_factory=list)

    def hold(self, room: ResponseRoom, length: int) -> None:
        """Take bytes of a room for a response, until the client has taken that."""
        room.left -= length
        self._holds.append((room, length))

    def let_go(self) -> None:
        """Give back what responses took that the client has taken, or never will."""
        for room, length in self._holds:
            room.left += length
        self._holds.clear()


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
