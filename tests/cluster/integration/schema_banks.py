"""A bank whose messages change: compatibly in its second version, and not in its third."""

from __future__ import annotations

from ordo import ClientSession, Request, SnapshotReader, SnapshotWriter, TypedService, handles, message
from ordo.messages import UInt32, UInt64, field
from ordo.service_api.service import Cluster


@message(id=1)
class Balance:
    account: UInt32
    cents: UInt64


@message(id=2)
class Deposit(Request[Balance]):
    account: UInt32
    cents: UInt64


@message(id=2, version=1)
class DepositWithFee(Request[Balance]):
    account: UInt32
    cents: UInt64
    fee: UInt64 = field(since=1, default=0)


@message(id=2, version=2)
class LongDeposit(Request[Balance]):
    account: UInt64
    cents: UInt64


class _Bank(TypedService):
    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cents = 0 if snapshot is None else int(snapshot.read())

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"%d" % self.cents)


class BankV1(_Bank):
    @handles
    def deposit(self, session: ClientSession | None, deposit: Deposit) -> Balance:
        self.cents += deposit.cents
        return Balance(deposit.account, self.cents)


class BankV2(_Bank):
    @handles
    def deposit(self, session: ClientSession | None, deposit: DepositWithFee) -> Balance:
        self.cents += deposit.cents - deposit.fee
        return Balance(deposit.account, self.cents)


class BankV3(_Bank):
    @handles
    def deposit(self, session: ClientSession | None, deposit: LongDeposit) -> Balance:
        self.cents += deposit.cents
        return Balance(1, self.cents)
