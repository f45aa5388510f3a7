"""A bank whose log is debugged, as docs/DEBUGGING.md has it, and what is wrong with it."""

from __future__ import annotations

import json

from ordo import ClientSession, Cluster, ClusteredService, Header, MessageRun, Reject, SnapshotReader, SnapshotWriter


class Bank(ClusteredService):
    """Moves money between accounts; a transfer to oneself makes some."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        self.accounts: dict[str, int] = json.loads(snapshot.read()) if snapshot else {"ann": 100, "bob": 100}

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        source, target, text = payload.decode().split()
        amount = int(text)
        if self.accounts.get(source, 0) < amount:
            raise Reject(f"{source} has {self.accounts.get(source, 0)}")
        self.move(source, target, amount)
        self.cluster.schedule_timer(1, timestamp + 1000)
        return b"%d" % self.accounts[source]

    def move(self, source: str, target: str, amount: int) -> None:
        before = self.accounts.get(target, 0)
        self.accounts[source] -= amount
        self.accounts[target] = before + amount

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.cluster.publish("totals", b"%d" % sum(self.accounts.values()))

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.accounts).encode())


class MendedBank(Bank):
    """Of whom nobody gets rich."""

    def move(self, source: str, target: str, amount: int) -> None:
        self.accounts[source] -= amount
        self.accounts[target] = self.accounts.get(target, 0) + amount


class BankOfRuns(Bank):
    """Takes messages many at a time."""

    def on_session_messages(self, messages: MessageRun) -> None:
        for payload in messages:
            answer = self.on_session_message(messages.session, messages.timestamp, payload, messages.header)
            if answer is not None:
                messages.reply(answer)


class QuietlyOtherBank(Bank):
    """Keeps another balance after one record, and says nothing of it."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        answer = super().on_session_message(session, timestamp, payload, header)
        if payload == b"ann bob 3":
            self.accounts["bob"] += 1
        return answer


class FailingBank(Bank):
    """Raises when somebody has nothing left, after somebody had over 150."""

    was_rich = False

    def move(self, source: str, target: str, amount: int) -> None:
        super().move(source, target, amount)
        self.was_rich = self.was_rich or max(self.accounts.values()) > 150
        if self.was_rich and self.accounts[source] == 0:
            raise ZeroDivisionError("nothing left")


def is_balanced(bank: Bank) -> bool:
    """Whether all money is that of the beginning."""
    return sum(bank.accounts.values()) == 200


def hide_names(payload: bytes) -> bytes:
    """Other names of the same length."""
    return payload.replace(b"ann", b"aaa").replace(b"bob", b"bbb")


def drop(payload: bytes) -> bytes:
    """What no function that anonymises may return."""
    return payload[1:]
