"""A resolver of names that never blocks its caller: a slow name server must not delay a heartbeat."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ordo.runtime.errors import TransportError
from ordo.runtime.native.clock import Clock

FRESH_NS: Final = 2_000_000_000
UNRESOLVED: Final = "Unable to resolve host"
"""Errors for a name that has no address begin so, as Aeron's do."""
_WAITING_MAX: Final = 256
_ANSWERS_MAX: Final = 1024
"""The most names that are remembered, since strangers may name hosts, too; beyond that, old answers are forgotten."""
_THREADS_MAX: Final = 8
"""The most names that are looked up at a time; one whose server is silent takes ten seconds."""


@dataclass
class _Answer:
    """The last answer for a name; without an `address`, `reason` says why."""

    address: str | None
    reason: str
    answered_ns: int


class NameResolver:
    """Looks names up on threads of its own, started as they are needed; `on_answer` is called there.

    Several, since the name of a member that is down may have no answer for long, just when the others' are needed.

    An answer is good for two seconds; a question after that asks again.
    """

    def __init__(self, clock: Clock, on_answer: Callable[[], object]) -> None:
        self._clock = clock
        self._on_answer = on_answer
        self._answers: dict[str, _Answer] = {}
        self._asked: set[str] = set()
        self._questions: queue.Queue[str | None] = queue.Queue(_WAITING_MAX)
        self._threads: list[threading.Thread] = []

    def lookup(self, host: str) -> str | None:
        """Return the numeric address of a name, or None while it is being looked up.

        Raises TransportError when it has none.
        """
        answer = self._answers.get(host)
        if answer is not None and self._clock.now() - answer.answered_ns <= FRESH_NS:
            if answer.address is None:
                raise TransportError(f"{UNRESOLVED}={host!r}: {answer.reason}; check the name in the channel")
            return answer.address
        if host not in self._asked and not self._questions.full():
            self._forget_old_answers()
            self._asked.add(host)
            self._start()
            self._questions.put_nowait(host)
        return None

    def _forget_old_answers(self) -> None:
        if len(self._answers) < _ANSWERS_MAX:
            return
        limit_ns = self._clock.now() - FRESH_NS
        for host, answer in list(self._answers.items()):
            if answer.answered_ns < limit_ns:
                self._answers.pop(host, None)

    def close(self) -> None:
        """End the thread; a question that is being asked is not waited for."""
        self._on_answer = lambda: None
        for _ in self._threads:
            try:
                self._questions.put_nowait(None)
            except queue.Full:
                return

    def _start(self) -> None:
        """Start a thread for each pending question, up to the allowed number."""
        if len(self._threads) < min(len(self._asked), _THREADS_MAX):
            self._threads.append(threading.Thread(target=self._run, name="name resolver", daemon=True))
            self._threads[-1].start()

    def _run(self) -> None:
        while (host := self._questions.get()) is not None:
            self._answers[host] = self._ask(host)
            self._asked.discard(host)
            self._on_answer()

    def _ask(self, host: str) -> _Answer:
        try:
            return _Answer(resolve(host), "", self._clock.now())
        except TransportError as error:
            return _Answer(None, error.message, self._clock.now())


def resolve(host: str) -> str:
    """Return the numeric address of a name, IPv4 before IPv6; waits for it. Raises TransportError with the reason."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise TransportError(getattr(error, "strerror", None) or str(error)) from None
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return str(found[0][4][0])
