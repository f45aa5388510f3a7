"""Services that run as applications in tests, and one for the inside of their cluster."""

from __future__ import annotations

import json

from ordo.applications.outputs import group_identity
from ordo.ordering import Ordering
from ordo.runtime.errors import Reject
from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, Cluster, ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter


class Numbered(ClusteredService):
    """Each message of a client gives two outputs with the sum of the lengths so far; its own come back and count."""

    PREFIX = b""

    def __init__(self) -> None:
        self.length_bytes = 0
        self.messages = 0
        self.came_back = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.length_bytes, self.messages, self.came_back = json.loads(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if session is None:
            self.came_back += 1
            return None
        if payload == b"how many?":
            return b"%s%d" % (self.PREFIX, self.messages)
        self.messages += 1
        self.length_bytes += len(payload)
        for part in range(2):
            self.cluster.offer(b"%s%d.%d %d" % (self.PREFIX, self.messages, part, self.length_bytes))
        return None

    def on_query(self, payload: bytes) -> bytes:
        return b"%s%d" % (self.PREFIX, self.messages)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps([self.length_bytes, self.messages, self.came_back]).encode())


class Settling(Ordering):
    """Settles each order of a client once, whoever asks for it, and however often."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        word, _, name = payload.partition(b" ")
        if session is not None and word == b"order":
            self.cluster.offer(b"settle " + name, id=b"settlement " + name)
        return None

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster


class Renumbered(Numbered):
    """The next version: its outputs say so."""

    PREFIX = b"v2 "


class Changed(Numbered):
    """Other code: a message of 13 bytes gives one output, which is another one, and one of 14 bytes gives one more."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if session is not None and len(payload) == 13:
            self.messages += 1
            self.length_bytes += len(payload)
            self.cluster.offer(b"changed")
            return None
        super().on_session_message(session, timestamp, payload, header)
        if session is not None and len(payload) == 14:
            self.cluster.offer(b"more")
        return None


class Ledger(Ordering):
    """Keeps what it executed of the outputs of the group `tested`; any query gets all of it."""

    def __init__(self) -> None:
        self.outputs: list[str] = []

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.outputs = json.loads(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if session is not None and session.identity == group_identity("tested"):
            self.outputs.append(payload.hex())
        return None

    def on_query(self, payload: bytes) -> bytes:
        return json.dumps(self.outputs[int(payload) :][:200]).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.outputs).encode())


class Strict(Ordering):
    """Refuses every second output of an application: those whose first word ends with `.1`."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if payload.split(b" ")[0].endswith(b".1"):
            raise Reject("no second ones")
        return super().on_session_message(session, timestamp, payload, header)
