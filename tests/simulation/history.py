"""What the whole cluster did: the one order of executed records, and what clients know of their requests."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from tests.linearizability.checker import UNKNOWN, Operation
from tests.linearizability.history import History
from tests.simulation.operations import NONE_VALUE, Kind, Reply, Request

REQUEST, QUERY = range(2)
"""A query is answered after the record that ends at its position."""


class Violation(AssertionError):
    """An invariant does not hold."""


class Executed(NamedTuple):
    """One record as its first executor saw it."""

    position: int
    digest: str
    text: str


class ExecutedLog:
    """Records in order of position. Members append to it or go over what others have appended."""

    def __init__(self) -> None:
        self.records: list[Executed] = []
        self._positions: list[int] = []

    def append(self, record: Executed) -> None:
        self.records.append(record)
        self._positions.append(record.position)

    def index_after(self, position: int) -> int:
        """Index of the first record whose end is past `position`."""
        return bisect_right(self._positions, position)

    def cut(self, position: int) -> ExecutedLog:
        """A log of its own with the records up to a position."""
        found = ExecutedLog()
        for record in self.records[: self.index_after(position)]:
            found.append(record)
        return found

    @property
    def end_position(self) -> int:
        return self._positions[-1] if self._positions else 0


class ClientHistory:
    """Every request of every client from its offer on; `executed` has the position at which it was first executed."""

    def __init__(self) -> None:
        self.executed: dict[tuple[int, int], int] = {}
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.seen_position = 0
        """Where the newest record stands whose effect any client has seen."""
        self._operations = History()
        self._handles: dict[tuple[int, int], tuple[int, Request]] = {}

    def offered(self, request: Request, now_ns: int) -> None:
        """The client's ingress has taken it."""
        key = request.client, request.number
        if request.kind in (Kind.READ, Kind.WRITE, Kind.CAS):
            handle = self._operations.call(request.client, request.first, *_as_operation(request), float(now_ns))
            self._handles[key] = handle, request

    def answered(self, reply: Reply, now_ns: int) -> None:
        key = reply.client, reply.number
        if key in self.acknowledged:
            raise Violation(f"client {reply.client}: request {reply.number} was answered twice")
        if key not in self.executed:
            raise Violation(f"client {reply.client}: request {reply.number} was answered, and nobody executed it")
        self.acknowledged[key] = now_ns
        self.seen_position = max(self.seen_position, self.executed[key])
        handle, request = self._handles.pop(key, (0, None))
        if request is not None:
            self._operations.took_effect(handle, (self.executed[key], REQUEST))
            self._operations.ok(handle, _output(request, reply), float(now_ns))

    def asked(self, client: int, register: int, now_ns: int) -> int:
        """A linearizable query; a handle for `told` or `given_up`, where 0 stands for a query that is not kept."""
        return self._operations.call(client, register, "read", None, float(now_ns))

    def told(self, handle: int, value: object, position: int, now_ns: int) -> None:
        """The query was answered out of the state at `position`."""
        if handle:
            self._operations.took_effect(handle, (position, QUERY))
            self._operations.ok(handle, value, float(now_ns))

    def given_up(self, handle: int) -> None:
        if handle:
            self._operations.refused(handle)

    def operations(self) -> list[Operation]:
        """For the linearizability checker, when all is over: what nobody executed had no effect."""
        for key, (handle, _) in list(self._handles.items()):
            if key not in self.executed:
                self._operations.refused(handle)
                del self._handles[key]
            else:
                self._operations.took_effect(handle, (self.executed[key], REQUEST))
        return [op for op in self._operations.operations() if op.kind != "read" or op.output is not UNKNOWN]


def _as_operation(request: Request) -> tuple[str, object]:
    if request.kind is Kind.READ:
        return "read", None
    if request.kind is Kind.WRITE:
        return "write", request.second
    return "cas", (None if request.third == NONE_VALUE else request.third, request.second)


def _output(request: Request, reply: Reply) -> object:
    if request.kind is Kind.READ:
        return None if reply.value == NONE_VALUE else reply.value
    return reply.ok if request.kind is Kind.CAS else None
