"""A client of the door, as its requests see it."""

from __future__ import annotations

from dataclasses import dataclass

from ordo.gateway.kafka.service.orders import KafkaError
from ordo.gateway.kafka.sessions import ClusterSession
from ordo.runtime.errors import ClusterTimeoutError, DecodeError, OrdoError, RejectedError

BROKER_ID = 0
PARTITION = 0
"""A topic has one partition."""


@dataclass
class Caller:
    """Who calls. A connection has one."""

    session: ClusterSession
    host: str
    """Where it calls from."""
    door: tuple[str, int]
    """Host and port of the door, as this client is told them."""
    client_id: str = ""


def error_of_order(error: OrdoError) -> int:
    """Return the code of Kafka's protocol for why the cluster did not answer."""
    if isinstance(error, ClusterTimeoutError):
        return KafkaError.REQUEST_TIMED_OUT
    if isinstance(error, DecodeError | RejectedError):
        return KafkaError.INVALID_REQUEST
    return KafkaError.LEADER_NOT_AVAILABLE
