"""A typed service gets each message in the method that takes it; what it does not know is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ordo import ClientSession, Header, Reject, SnapshotReader, SnapshotWriter, TypedService, encode, handles, message
from ordo.messages import UInt32, UInt64, decode, field
from ordo.runtime.errors import MessageError
from ordo.service_api.callbacks import find_fault
from ordo.testing import Input, Message, OpenSession, ServiceHarness, check_service


@message(id=1)
class Deposit:
    account: UInt32
    amount: UInt64


@message(id=1, version=1)
class LaterDeposit:
    account: UInt32
    amount: UInt64
    currency: UInt32 = field(since=1, default=978)


@message(id=2)
class Withdraw:
    account: UInt32
    amount: UInt64


@message(id=3)
class Balance:
    account: UInt32
    amount: UInt64


@message(id=4)
class Unknown:
    account: UInt32


class Numbered(TypedService):
    @handles
    def on_deposit(self, session: ClientSession | None, deposit: Deposit, header: Header) -> Balance:
        return Balance(deposit.account, header.sequence)

    @handles
    def withdraw(self, session: ClientSession | None, order: Withdraw) -> Balance:
        return Balance(order.account, 0)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...


class Bank(TypedService):
    def on_start(self, cluster: object, snapshot: SnapshotReader | None) -> None:
        self.accounts: dict[int, int] = {}
        for payload in snapshot.messages() if snapshot is not None else ():
            balance = decode(Balance, payload)
            self.accounts[balance.account] = balance.amount

    @handles
    def on_deposit(self, session: ClientSession | None, deposit: Deposit) -> Balance:
        return self._set(deposit.account, self.accounts.get(deposit.account, 0) + deposit.amount)

    @handles
    def withdraw(self, session: ClientSession | None, order: Withdraw) -> Balance | None:
        left = self.accounts.get(order.account, 0) - order.amount
        if left < 0:
            raise Reject(f"account {order.account} has too little")
        self._set(order.account, left)
        return None

    def _set(self, account: int, amount: int) -> Balance:
        self.accounts[account] = amount
        return Balance(account, amount)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        for account, amount in sorted(self.accounts.items()):
            writer.write_message(encode(Balance(account, amount)))


class OpenBank(Bank):
    """A bank that takes other bytes, too, and the later deposits."""

    @handles
    def close(self, session: ClientSession | None, request: Unknown) -> bytes:
        return b"closed %d" % self.accounts.pop(request.account)

    def untyped_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header, error: MessageError
    ) -> bytes | None:
        return payload.upper()


def answers(service: type[TypedService], *payloads: bytes) -> list[tuple[str, Any]]:
    harness = ServiceHarness(service)
    harness.execute(OpenSession(1, 1), *(Message(1, 2 + place, payload) for place, payload in enumerate(payloads)))
    return [(one.kind, one.value) for one in harness.effects]


def test_each_message_goes_to_its_method() -> None:
    found = answers(Bank, encode(Deposit(7, 100)), encode(Withdraw(7, 30)), encode(Withdraw(7, 71)))
    assert found == [
        ("egress", encode(Balance(7, 100))),
        ("reject", b"account 7 has too little"),
    ]
    assert Bank.schema.messages == (Deposit, Withdraw, Balance)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"deposit", b"7 bytes are no message: its header alone has 8"),
        (encode(Unknown(1)), b"message 4 of schema 1, version 0, is unknown: known are those of schema 1: Deposit (1)"),
        (encode(Deposit(1, 2))[:-1], b"Deposit of 12 bytes reaches beyond the message"),
        (encode(Balance(1, 2)), b"Bank does not take Balance, which is an answer"),
    ],
)
def test_what_it_does_not_know_is_refused_in_one_line(payload: bytes, text: bytes) -> None:
    ((kind, value),) = answers(Bank, payload)
    assert kind == "reject" and value.startswith(text) and b"\n" not in value


def test_an_answer_that_cannot_be_written_is_a_mistake_of_the_service() -> None:
    """Its state has changed by then, so the client is not told that nothing has."""
    most = encode(Deposit(7, 2**64 - 2))
    with pytest.raises(MessageError, match=r"Balance\.amount"):
        answers(Bank, most, most)


def test_a_newer_client_is_understood() -> None:
    assert answers(Bank, encode(LaterDeposit(7, 100, 840))) == [("egress", encode(Balance(7, 100)))]


def test_a_subclass_takes_more() -> None:
    found = answers(OpenBank, encode(Deposit(7, 5)), encode(Unknown(7)), b"hello")
    assert [value for _, value in found] == [encode(Balance(7, 5)), b"closed 5", b"HELLO"]
    assert OpenBank.schema.messages == (Deposit, Withdraw, Balance, Unknown)


def test_it_is_a_service_as_any_other() -> None:
    assert find_fault(Bank) == ""
    payloads = [encode(one) for one in (Deposit(7, 100), Withdraw(7, 30), Withdraw(7, 71), Unknown(1))]
    check_service(Bank, [OpenSession(1, 1), *(Message(1, 2 + place, one) for place, one in enumerate(payloads))])


def test_mistakes_in_the_class() -> None:
    class Deaf(TypedService):
        pass

    assert find_fault(Deaf) == "Deaf has no method that takes a message: mark one with @ordo.handles"
    with pytest.raises(MessageError, match="Twice.one and two both take Deposit".replace(".", r"\.")):

        class Twice(TypedService):
            @handles
            def one(self, session: ClientSession | None, deposit: Deposit) -> None: ...
            @handles
            def two(self, session: ClientSession | None, deposit: Deposit) -> None: ...

    with pytest.raises(MessageError, match=r"Bare\.one: annotate deposit with the class that it takes"):

        class Bare(TypedService):
            @handles
            def one(self, session, deposit): ...  # type: ignore[no-untyped-def]

    with pytest.raises(MessageError, match=r"Few\.one takes \['self', 'deposit'\]: allowed are self, session"):

        class Few(TypedService):
            @handles
            def one(self, deposit: Deposit) -> None: ...

    with pytest.raises(MessageError, match="int is no message"):

        class Plain(TypedService):
            @handles
            def one(self, session: ClientSession | None, deposit: int) -> None: ...


def test_an_override_takes_the_messages_only_if_it_is_marked() -> None:
    """One that is not would be called by the service's own calls alone, and messages would go to what it overrides."""

    class Dearer(Bank):
        @handles
        def on_deposit(self, session: ClientSession | None, deposit: Deposit) -> Balance:
            return self._set(deposit.account, deposit.amount - 1)

    assert answers(Dearer, encode(Deposit(7, 100))) == [("egress", encode(Balance(7, 99)))]
    with pytest.raises(
        MessageError, match=r"Later\.on_deposit is not marked, and overrides .* mark it with @ordo\.handles"
    ):

        class Later(Dearer):
            def on_deposit(self, session: ClientSession | None, deposit: Deposit) -> Balance:
                raise NotImplementedError


class Withdrawals:
    """Not a service itself: the methods of one."""

    @handles
    def withdraw(self, session: ClientSession | None, order: Withdraw) -> Balance:
        return Balance(order.account, 1)


def test_methods_of_every_class_that_a_service_inherits_from_take_messages() -> None:
    class Deposits(TypedService):
        @handles
        def deposit(self, session: ClientSession | None, deposit: Deposit) -> Balance:
            return Balance(deposit.account, 2)

        def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...

    class Both(Withdrawals, Deposits):
        pass

    class Asks(TypedService):
        @handles
        def ask(self, session: ClientSession | None, ask: Unknown) -> None: ...

    class All(Both, Asks):
        pass

    for service in (Both, All):
        assert answers(service, encode(Withdraw(7, 1))) == [("egress", encode(Balance(7, 1)))]
        assert answers(service, encode(Deposit(7, 1))) == [("egress", encode(Balance(7, 2)))]
    assert {*All.schema.messages} == {Deposit, Withdraw, Balance, Unknown}


def test_an_override_of_a_class_beside_the_service_has_to_be_marked() -> None:
    class Unmarked:
        def on_deposit(self, session: ClientSession | None, deposit: Deposit) -> Balance:
            raise NotImplementedError

    with pytest.raises(MessageError, match=r"Unmarked\.on_deposit is not marked, and overrides a method of Bank"):

        class Mixed(Unmarked, Bank):
            pass


def test_a_method_may_take_the_header_too() -> None:
    inputs: list[Input] = [
        OpenSession(1, 1),
        *(Message(1, 2, encode(one)) for one in (Deposit(7, 5), Withdraw(7, 1), Deposit(7, 5))),
    ]
    harness = check_service(Numbered, inputs)
    assert [decode(Balance, one).amount for one in harness.egress(1)] == [1, 0, 3]
