"""Version 1 of the bank: accounts in whole cents, deposits and transfers."""

from __future__ import annotations

import json
from typing import Any

from ordo import ClientSession, Cluster, Reject, Request, SnapshotReader, SnapshotWriter, TypedService, handles, message
from ordo.messages import UInt64

BALANCE_MAX = 10**18


@message(id=1)
class Balance:
    cents: UInt64


@message(id=2)
class Deposit(Request[Balance]):
    """Is answered with what `name` has then."""

    name: str
    cents: UInt64


@message(id=3)
class Transfer(Request[Balance]):
    """Is answered with what `sender` has then."""

    sender: str
    receiver: str
    cents: UInt64


class Bank(TypedService):
    """An order that cannot be executed is refused before anything has changed: `Reject` must leave the state alone."""

    snapshot_format = 1

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.load(json.loads(snapshot.read()))

    def load(self, state: dict[str, Any]) -> None:
        """Raises ValueError for a snapshot that this version cannot read: better than to go on with a wrong state."""
        if state["format"] != self.snapshot_format:
            raise ValueError(f"snapshot of format {state['format']}: this version reads format {self.snapshot_format}")
        self.balances = state["balances"]

    @handles
    def deposit(self, session: ClientSession | None, order: Deposit) -> Balance:
        """Puts money into an account, which need not exist yet."""
        if order.cents == 0:
            raise Reject("an amount must be at least one cent")
        balance = self.balances.get(order.name, 0) + order.cents
        if balance > BALANCE_MAX:
            raise Reject(f"{order.name} would have more than {BALANCE_MAX} cents")
        self.balances[order.name] = balance
        return Balance(balance)

    @handles
    def transfer(self, session: ClientSession | None, order: Transfer) -> Balance:
        """Moves money from one account to another."""
        return self.move(order, fee=0)

    def move(self, order: Transfer, fee: int) -> Balance:
        """Carries out a transfer that costs its sender a fee."""
        balance, needed = self.balances.get(order.sender, 0), order.cents + fee
        if balance < needed:
            raise Reject(f"{order.sender} has {balance} cents, and {needed} are needed")
        self.deposit(None, Deposit(order.receiver, order.cents))
        self.balances[order.sender] -= needed
        return Balance(self.balances[order.sender])

    def on_query(self, payload: bytes) -> bytes:
        """The question is a name, the answer what its account has."""
        return str(self.balances.get(payload.decode(errors="replace"), 0)).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.state(), sort_keys=True).encode())

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return {"format": self.snapshot_format, "balances": self.balances}
