"""A service in two versions: the second takes a fee, so whoever executes old deposits with it ends in another state."""

from __future__ import annotations

import json
from typing import Any

from ordo.service_api.service import Cluster, ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter


class BankV1(ClusteredService):
    """Adds deposits up."""

    def __init__(self) -> None:
        self.total = 0
        self.deposits = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.load(json.loads(snapshot.read()))

    def load(self, state: Any) -> None:
        self.deposits, self.total = state

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        self.deposits += 1
        self.total += self.credit(int(payload))
        return self.on_query(b"")

    def credit(self, amount: int) -> int:
        return amount

    def on_query(self, payload: bytes) -> bytes:
        return f"{type(self).__name__} {self.deposits} {self.total}".encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps([self.deposits, self.total]).encode())


class BankV2(BankV1):
    """Takes a fee of a tenth, and keeps what it took."""

    def __init__(self) -> None:
        super().__init__()
        self.fees = 0

    def load(self, state: Any) -> None:
        """A list is what version 1 wrote."""
        if isinstance(state, list):
            super().load(state)
        else:
            self.deposits, self.total, self.fees = state["deposits"], state["total"], state["fees"]

    def credit(self, amount: int) -> int:
        self.fees += amount // 10
        return amount - amount // 10

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        state = {"deposits": self.deposits, "fees": self.fees, "total": self.total}
        writer.write(json.dumps(state, sort_keys=True).encode())


class BankV3(BankV2):
    """Cannot read what version 2 wrote."""

    def load(self, state: Any) -> None:
        self.deposits = state["number_of_deposits"]
