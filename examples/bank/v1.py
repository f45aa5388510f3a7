"""Version 1 of the bank: accounts in whole cents, deposits and transfers."""

from __future__ import annotations

import json
from typing import Any

from ordo import ClientSession, Cluster, ClusteredService, Header, Reject, SnapshotReader, SnapshotWriter


class Bank(ClusteredService):
    """A message is "deposit NAME CENTS" or "transfer FROM TO CENTS". The answer is what NAME, or FROM, has then.

    An order that cannot be executed is refused before anything has changed: `Reject` must leave the state alone.
    """

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

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        match _words(payload):
            case ["deposit", name, amount]:
                self.balances[name] = self.balances.get(name, 0) + _cents(amount)
            case ["transfer", name, receiver, amount]:
                self.transfer(name, receiver, _cents(amount))
            case _:
                raise Reject("must be deposit NAME CENTS or transfer FROM TO CENTS")
        return str(self.balances[name]).encode()

    def transfer(self, sender: str, receiver: str, cents: int) -> None:
        """Moves money from one account to another."""
        self.take(sender, cents)
        self.balances[receiver] = self.balances.get(receiver, 0) + cents

    def take(self, name: str, cents: int) -> None:
        """Takes money off an account. Raises Reject where there is too little."""
        balance = self.balances.get(name, 0)
        if balance < cents:
            raise Reject(f"{name} has {balance} cents, and {cents} are needed")
        self.balances[name] = balance - cents

    def on_query(self, payload: bytes) -> bytes:
        """The question is a name, the answer what its account has."""
        return str(self.balances.get(payload.decode(errors="replace"), 0)).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.state(), sort_keys=True).encode())

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return {"format": self.snapshot_format, "balances": self.balances}


def _words(payload: bytes) -> list[str]:
    """ASCII only: what else is a space to `split` may change with the version of Python."""
    try:
        return payload.decode("ascii").split()
    except UnicodeDecodeError:
        raise Reject("an order must be ASCII") from None


def _cents(text: str) -> int:
    """Digits 0 to 9 alone: `int` takes more, such as signs and underscores."""
    if not text.isdigit() or len(text) > 15 or int(text) == 0:
        raise Reject("an amount must be a whole number of cents, from 1 and of 15 digits at most")
    return int(text)
