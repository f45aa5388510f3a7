"""A service that notes what it was sent, once."""

from __future__ import annotations

from ordo.pipeline.decoding.envelope import SequenceFilter
from ordo.runtime.errors import Reject
from ordo.service_api.service import ClusteredService

REFUSED = b"refuse this"


class Collector(ClusteredService):
    def __init__(self) -> None:
        self.filter = SequenceFilter()
        self.applied: list[bytes] = []

    def on_start(self, cluster, snapshot):  # type: ignore[no-untyped-def]
        self.cluster = cluster
        if snapshot is not None:
            self.filter = SequenceFilter(snapshot.read())

    def on_session_message(self, session, timestamp, payload, header):  # type: ignore[no-untyped-def]
        if session is None:
            return None
        accepted = self.filter.accept(payload)
        if accepted.payload is None:
            return accepted.answer
        if accepted.payload == REFUSED:
            raise Reject("refused on purpose")
        self.applied.append(accepted.payload)
        self.cluster.offer(accepted.payload)  # comes back into the log, where the test finds what was applied
        return None

    def on_take_snapshot(self, writer):  # type: ignore[no-untyped-def]
        writer.write(self.filter.dump())
