"""A bank with types, and messages that fit it or do not."""

from __future__ import annotations

from ordo import ClientSession, Reject, Request, SnapshotWriter, TypedService, handles, message
from ordo.messages import UInt32, UInt64, field


@message(id=1)
class Balance:
    account: UInt32
    cents: UInt64


@message(id=2)
class Shortage:
    missing: UInt64


@message(id=3)
class Deposit(Request[Balance]):
    account: UInt32
    cents: UInt64


@message(id=4)
class Withdraw(Request[Balance | Shortage]):
    account: UInt32
    cents: UInt64


@message(id=3)
class Misled(Request[Shortage]):
    """A Deposit of a program that is mistaken about its answer."""

    account: UInt32
    cents: UInt64


@message(id=3, version=1)
class LaterDeposit(Request[Balance]):
    """A Deposit of a program that was upgraded."""

    account: UInt32
    cents: UInt64
    currency: UInt32 | None = field(since=1, default=None)


@message(id=4)
class EarlierWithdraw(Request[Balance]):
    """A Withdraw of a program from before there were Shortages."""

    account: UInt32
    cents: UInt64


@message(id=5)
class Unknown(Request[Balance]):
    account: UInt32


@message(id=6)
class Plain:
    account: UInt32


class Bank(TypedService):
    def on_start(self, cluster: object, snapshot: object) -> None:
        self.accounts: dict[int, int] = {}

    @handles
    def deposit(self, session: ClientSession | None, order: Deposit) -> Balance:
        if order.cents == 0:
            raise Reject("nothing to deposit")
        self.accounts[order.account] = self.accounts.get(order.account, 0) + order.cents
        return Balance(order.account, self.accounts[order.account])

    @handles
    def withdraw(self, session: ClientSession | None, order: Withdraw) -> Balance | Shortage:
        left = self.accounts.get(order.account, 0) - order.cents
        if left < 0:
            return Shortage(-left)
        self.accounts[order.account] = left
        return Balance(order.account, left)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...
