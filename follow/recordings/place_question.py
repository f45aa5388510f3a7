"""Asks a node once where its log has a number or a time, if the node has an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ordo.archive.client.session import Reply
    from ordo.archive.protocol.own_codecs import LogPlaceFields, PlaceKind
    from ordo.follow.recordings.log_source import LogSource


class PlaceQuestion:
    """The question, put to one node after the other. What a node does not tell is looked for without an index."""

    def __init__(self, kind: PlaceKind, value: int) -> None:
        self.place: LogPlaceFields | None = None
        """The node's LogPlace, once it has answered; None: it cannot tell."""
        self.value = value
        self._kind = kind
        self._source: LogSource | None = None
        self._reply: Reply | None = None

    def is_answered(self, source: LogSource) -> bool:
        """Return whether a node that is READY has answered, or will not; asks it the first time."""
        if source is not self._source:
            self._source, self.place = source, None
            self._reply = source.ask_place(self._kind, self.value)
        reply = self._reply
        if reply is None or not reply.is_done:
            return reply is None
        self.place = reply.items[0] if reply.error is None and reply.items else None
        if self.place is not None and not source.start_position <= self.place.position <= source.end_position:
            self.place = None
        return True
