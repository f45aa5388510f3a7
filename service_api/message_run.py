"""Runs of messages, for services that take many messages in one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ordo.service_api.cluster import ClientSession, Payload
from ordo.service_api.native import Header


class MessageRun(Protocol):
    """Messages that follow on one another in the log, as `on_session_messages` gets them.

    Iterate over it once; each step gives the payload of the next message. The message taken last is the one that is
    being executed: `session`, `timestamp` and `header` are its own, and so are `cluster.time` and
    `cluster.log_position`.
    """

    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...

    @property
    def session(self) -> ClientSession | None:
        """The session that sent the messages; None for messages of a service."""
        ...

    @property
    def timestamp(self) -> int:
        """The timestamp of the message that was taken last, in cluster time."""
        ...

    @property
    def header(self) -> Header:
        """The header of the message that was taken last."""
        ...

    def reply(self, payload: Payload) -> None:
        """Answer the message that was taken last, once, as `session.reply` does. Raises ServiceCallError elsewhere."""
        ...
