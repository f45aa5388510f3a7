"""The service of the tests of requests: a bank that counts what it executes, and refuses what it cannot pay."""

from __future__ import annotations

import json

from ordo import ClientSession, Cluster, ClusteredService, Header, Reject, SnapshotReader, SnapshotWriter


class Bank(ClusteredService):
    """Requests are JSON: {"add": amount} to the sender's account, which is never below 0; {"reset": 1} empties all."""

    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}
        self.executed = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.accounts, self.executed = json.loads(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        assert session is not None
        name = session.identity.hex() if session.identity else "raw"
        if payload == b'{"reset": 1}':
            self.accounts, self.executed = {}, 0
            return b""
        try:
            amount = int(json.loads(payload)["add"])
        except (ValueError, KeyError, TypeError):
            raise Reject("not an amount") from None
        balance = self.accounts.get(name, 0) + amount
        if balance < 0:
            raise Reject(f"the account has {balance - amount}")
        self.accounts[name] = balance
        self.executed += 1
        return json.dumps({"balance": balance, "position": header.position}).encode()

    def on_query(self, payload: bytes) -> bytes:
        return json.dumps([self.accounts, self.executed]).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps([self.accounts, self.executed]).encode())
