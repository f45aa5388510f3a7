"""Clients of the registers: each asks one thing at a time, at random, and its history is kept for the checker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.runtime.errors import ClusterTimeoutError, SessionClosedError
from tests.faults.registers import OPERATION, OUTCOME, Operation
from tests.linearizability import porcupine
from tests.linearizability.checker import UNKNOWN, Verdict, check
from tests.linearizability.checker import Operation as Event
from tests.linearizability.history import History
from tests.linearizability.models import ZeroRegister

ANSWER_TIMEOUT_S = 2.0
PAUSE_S = 0.004
KEYS = 3
OPERATIONS_PER_KEY = 60
POLL_LIMIT = 16


class Keys:
    """A few keys that all clients use at the same time. A key retires after some operations: searches stay short.

    `seen` is what anybody last learnt of a key, so that swaps have a chance.
    """

    def __init__(self, generator: Random) -> None:
        self.seen: dict[int, int] = {}
        self._generator = generator
        self._uses = dict.fromkeys(range(KEYS), 0)
        self._next = KEYS

    def draw(self) -> int:
        key = self._generator.choice(sorted(self._uses))
        self._uses[key] += 1
        if self._uses[key] == OPERATIONS_PER_KEY:
            del self._uses[key]
            self._uses[self._next] = 0
            self._next += 1
        return key


class RegisterClient:
    """Never sends anything twice. What has no answer in time may take effect later or never, and its answer still
    counts when it comes."""

    def __init__(
        self,
        client_id: int,
        endpoints: Mapping[int, str],
        history: History,
        keys: Keys,
        generator: Random,
        **settings: Any,
    ) -> None:
        self.client_id = client_id
        self.answered = 0
        self.asked = 0
        self.sessions = 0
        self.last_answer_s = 0.0
        self._endpoints = dict(endpoints)
        self._history = history
        self._keys = keys
        self._generator = generator
        self._settings = ClientSettings(**settings)
        self.answers: dict[int, bytes] = {}
        """By number of the operation, all that were acknowledged to this client, whether it still waited or not."""
        self._open: dict[int, tuple[int, int]] = {}
        self._waits_for = 0
        self._next_s = 0.0
        self._give_up_s = 0.0
        self.client = self._connect()

    def _connect(self) -> ClusterClient:
        self.sessions += 1
        return ClusterClient(self._endpoints, on_message=self._on_message, wait=False, settings=self._settings)

    def close(self) -> None:
        self.client.close()

    def step(self) -> None:
        """Takes what came and asks the next thing when it is time; opens a new session when the old one is over."""
        try:
            self.client.poll(POLL_LIMIT)
            self._ask(time.monotonic())
        except (SessionClosedError, ClusterTimeoutError):
            self.client.close()
            self.client = self._connect()

    def _ask(self, now_s: float) -> None:
        if now_s < (self._give_up_s if self._waits_for else self._next_s) or not self.client.is_connected:
            return
        self._waits_for = 0
        self.asked += 1
        kind, key = self._generator.choice(list(Operation)), self._keys.draw()
        value = self.client_id * 1_000_000 + self.asked
        expected = self._keys.seen.get(key, 0) if kind is Operation.CAS else 0
        argument = {Operation.READ: None, Operation.CAS: (expected, value)}.get(kind, value)
        handle = self._history.call(self.client_id, key, kind.name.lower(), argument, now_s)
        if self.client.offer(OPERATION.pack(kind, self.client_id, self.asked, key, value, expected)) <= 0:
            self._history.refused(handle)
            return
        self._open[self.asked] = handle, key
        self._waits_for = self.asked
        self._give_up_s = now_s + ANSWER_TIMEOUT_S

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        now_s = time.monotonic()
        kind, client, number, took_effect, value = OUTCOME.unpack(payload)
        assert client == self.client_id, f"an answer for client {client} came to client {self.client_id}"
        assert number in self._open, f"client {client}: answer {number} came twice, or to no question"
        output = {Operation.WRITE: None, Operation.CAS: bool(took_effect)}.get(Operation(kind), value)
        handle, key = self._open.pop(number)
        self.answers[number] = payload
        self._history.ok(handle, output, now_s)
        if took_effect:
            self._keys.seen[key] = value
        self.answered += 1
        self.last_answer_s = now_s
        if number == self._waits_for:
            self._waits_for = 0
            self._next_s = now_s + PAUSE_S * self._generator.random()


class Looked(NamedTuple):
    """How many operations were found to be linearizable, and by whom."""

    operations: int
    asked: str


def demand_linearizable(history: History, kept: Path | None = None) -> Looked:
    """Every register behaved as one register. With a file to keep it in, porcupine is asked about the history, too."""
    events = [event for event in history.operations() if not is_without_effect(event)]
    if kept is not None:
        return Looked(len(events), porcupine.demand_linearizable(events, ZeroRegister(), kept))
    result = check(events, ZeroRegister(), porcupine.CHECK_TIME_LIMIT_S)
    assert result.verdict is Verdict.LINEARIZABLE, result.describe()
    return Looked(len(events), "the checker here")


def is_without_effect(event: Event) -> bool:
    """A read that nobody learnt the outcome of says nothing."""
    return event.kind == "read" and event.output is UNKNOWN
