"""A service that raises at certain messages, in the middle of its work, as the one of a newcomer did."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ordo.service_api.service import Cluster, ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

ALONE_VARIABLE = "POISON_ALONE_FILE"
ALONE_MEMBER = 1


class Item:
    """Hashed by its address, as any object that does not say otherwise."""

    def __init__(self, name: bytes) -> None:
        self.name = name

    def __hash__(self) -> int:
        """By all of its address: places within a page, by which a small set goes, may be alike on several members."""
        return hash((id(self),))


class HashOrder(ClusteredService):
    """Writes names in the order of a set. Of strings the order is the same on all members; of objects it is not."""

    def __init__(self) -> None:
        self.words: set[str] = set()
        self.items: set[Item] = set()

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        self.words.add(payload.decode())
        self.items.add(Item(payload))
        return ",".join(self.words).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b",".join(item.name for item in self.items))


class Totals(ClusteredService):
    """Adds numbers up; what is no number has been counted when it is found out. A query says what it has.

    `alone`: one member raises, once, as nobody else does, as long as the file is there that a variable names. `drift`:
    it adds one too many instead."""

    def __init__(self) -> None:
        self.messages = 0
        self.total = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self._cluster = cluster
        if snapshot is not None:
            self.messages, self.total = json.loads(snapshot.read())

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        self.messages += 1
        if payload == b"alone" and self._cluster.member_id == ALONE_MEMBER:
            file = Path(os.environ.get(ALONE_VARIABLE, "/nonexistent"))
            if file.exists():
                file.unlink()
                raise MemoryError("of this member")
        if payload == b"drift" and self._cluster.member_id == ALONE_MEMBER:
            file = Path(os.environ.get(ALONE_VARIABLE, "/nonexistent"))
            if file.exists():
                file.unlink()
                self.total += 1
        self.total += 0 if payload in (b"alone", b"drift") else int(payload)
        return self._state()

    def _state(self) -> bytes:
        return b"%d %d" % (self.messages, self.total)

    def on_query(self, payload: bytes) -> bytes:
        return self._state()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps([self.messages, self.total]).encode())


class HashedTotals(Totals):
    """Members compare it between snapshots, too."""

    def state_hash(self) -> bytes:
        return self._state()
