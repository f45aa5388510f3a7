"""Version 2 of the bank: a transfer costs its sender one percent, at least a cent.

Here the new version shares what did not change with the old one. That holds only as long as nobody changes what version
1 does: members execute the old part of the log with it.
"""

from __future__ import annotations

from typing import Any

from examples.bank import v1
from ordo import ClientSession, handles


class Bank(v1.Bank):
    """As version 1; the empty query, which is no account's name, asks for all fees so far."""

    snapshot_format = 2

    def __init__(self) -> None:
        super().__init__()
        self.fees = 0

    def load(self, state: dict[str, Any]) -> None:
        """Takes over what version 1 wrote, and reads what this version writes."""
        if state["format"] == v1.Bank.snapshot_format:
            self.balances = state["balances"]
            return
        super().load(state)
        self.fees = state["fees"]

    @handles
    def transfer(self, session: ClientSession | None, order: v1.Transfer) -> v1.Balance:
        """Moves money from one account to another, for a fee."""
        fee = max(1, order.cents // 100)
        balance = self.move(order, fee)
        self.fees += fee
        return balance

    def on_query(self, payload: bytes) -> bytes:
        return super().on_query(payload) if payload else str(self.fees).encode()

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return {**super().state(), "fees": self.fees}
