"""Recording histories as they happen, and reading the text formats of other checkers' test data."""

import re
from collections.abc import Hashable, Iterable
from math import inf
from typing import Any

from tests.linearizability.checker import UNKNOWN, Operation


class History:
    """Collects operations of clients; times come from the caller, from one clock."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Hashable, Hashable, str, Any, float]] = {}
        self._done: list[Operation] = []
        self._places: dict[int, Any] = {}
        self._count = 0

    def call(self, process: Hashable, key: Hashable, kind: str, argument: Any, now: float) -> int:
        """A client calls; returns a handle for `ok` or `refused`."""
        self._count += 1
        self._open[self._count] = (process, key, kind, argument, now)
        return self._count

    def ok(self, handle: int, output: Any, now: float) -> None:
        """The answer arrived."""
        process, key, kind, argument, called = self._open.pop(handle)
        self._done.append(Operation(process, key, kind, argument, output, called, now, self._places.get(handle)))

    def took_effect(self, handle: int, place: Any) -> None:
        """Where the operation stands in the order of effects, answered or not."""
        self._places[handle] = place

    def refused(self, handle: int) -> None:
        """The operation is known to have had no effect."""
        del self._open[handle]

    def operations(self) -> list[Operation]:
        """All operations; those without an answer may take effect at any later time."""
        pending = [
            Operation(process, key, kind, argument, UNKNOWN, called, inf, self._places.get(handle))
            for handle, (process, key, kind, argument, called) in self._open.items()
        ]
        return self._done + pending


JEPSEN_LINE = re.compile(r"INFO\s+jepsen\.util - (\d+)\s+:(invoke|ok|fail|info)\s+:(read|write|cas)\s+(.*)")
KV_LINE = re.compile(r'\{:process (\d+), :type :(invoke|ok), :f :(\w+), :key "(.*?)", :value (?:"(.*)"|nil)\}')


def parse_jepsen(lines: Iterable[str]) -> list[Operation]:
    """A register's log as Jepsen prints it. A failed cas did not match, another failed operation had no
    effect; `:info` means that the outcome is unknown."""
    history = History()
    handles: dict[str, int] = {}
    for now, line in enumerate(lines):
        found = JEPSEN_LINE.match(line)
        if found is None:
            raise ValueError(f"line {now + 1}: {line!r} is not of Jepsen's form")
        process, event, kind, value = found.groups()
        if event == "invoke":
            handles[process] = history.call(process, None, kind, jepsen_argument(kind, value), now)
        elif event == "fail" and kind != "cas":
            history.refused(handles.pop(process))
        elif event != "info":
            history.ok(handles.pop(process), jepsen_output(kind, event, value), now)
    return history.operations()


def jepsen_argument(kind: str, value: str) -> Any:
    """What an operation is called with."""
    if kind == "read":
        return None
    numbers = [int(number) for number in value.strip("[]").split()]
    return numbers[0] if kind == "write" else (numbers[0], numbers[1])


def jepsen_output(kind: str, event: str, value: str) -> Any:
    """What an operation answered."""
    if kind == "read":
        return None if value.strip() == "nil" else int(value)
    return event == "ok"


def parse_kv(lines: Iterable[str]) -> list[Operation]:
    """A map of strings as Porcupine's test data has it."""
    history = History()
    handles: dict[str, int] = {}
    for now, line in enumerate(lines):
        found = KV_LINE.match(line)
        if found is None:
            raise ValueError(f"line {now + 1}: {line!r} is not of the key-value form")
        process, event, kind, key, value = found.groups()
        if event == "invoke":
            handles[process] = history.call(process, key, kind, value, now)
        else:
            history.ok(handles.pop(process), value if kind == "get" else None, now)
    return history.operations()
