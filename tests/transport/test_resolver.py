"""Names are looked up without one holding up another."""

from __future__ import annotations

import queue
import socket
import threading
from typing import Any

import pytest

from ordo.runtime.errors import TransportError
from ordo.runtime.native.clock import SystemClock, VirtualClock
from ordo.transport import resolver as resolvers
from ordo.transport.driver.channels.names import Names
from ordo.transport.resolver import FRESH_NS, NameResolver
from tests.transport.driver_world import S, World


def test_a_name_that_has_no_answer_for_long_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a member that was killed: its name server may be silent for ten seconds."""
    released = threading.Event()

    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        if host == "dead":
            released.wait(60)
            raise socket.gaierror("no answer")
        return [(socket.AF_INET, None, None, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    answered: queue.Queue[None] = queue.Queue()
    resolver = NameResolver(SystemClock(), lambda: answered.put(None))
    try:
        assert resolver.lookup("dead") is None
        assert resolver.lookup("alive") is None
        answered.get(timeout=30)
        assert resolver.lookup("alive") == "10.0.0.7"
        assert resolver.lookup("dead") is None
    finally:
        resolver.close()
        released.set()


def test_names_that_strangers_have_made_up_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were kept for as long as the driver ran."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, None, None, "", ("10.0.0.7", 0))])
    monkeypatch.setattr(resolvers, "_ANSWERS_MAX", 64)
    answered: queue.Queue[None] = queue.Queue()
    clock = VirtualClock()
    resolver = NameResolver(clock, lambda: answered.put(None))
    try:
        for number in range(500):
            assert resolver.lookup(f"made-up-{number}") is None
            answered.get(timeout=30)
            clock.advance(FRESH_NS // 100)
        assert len(resolver._answers) <= 64 + 100, "those of two seconds more"
        assert resolver.lookup("made-up-499") == "10.0.0.7", "what is fresh is kept"
    finally:
        resolver.close()


def test_how_long_names_took_is_counted() -> None:
    """Counters 32 and 33 of a driver: the longest wait for a name, found or not, and those of more than 5 s."""
    world = World()
    node = world.node("10.0.0.1")
    answers: dict[str, str | TransportError | None] = {"there": None, "gone": None}

    class Network:
        def lookup(self, host: str) -> str | None:
            answer = answers[host]
            if isinstance(answer, TransportError):
                raise answer
            return answer

        def interface_address(self, text: str) -> str:
            return text

    names = Names(Network(), {"table": "10.0.0.8"}, world.clock, node.driver.context.system.note_resolution)

    def counted() -> tuple[int, int]:
        return node.driver.system_counter(32), node.driver.system_counter(33)

    assert names.lookup("table") == "10.0.0.8"
    assert names.lookup("there") is None and names.lookup("gone") is None
    world.clock.advance(2 * S)
    assert names.lookup("there") is None
    answers["there"] = "10.0.0.7"
    assert names.lookup("there") == names.lookup("there") == "10.0.0.7"
    assert counted() == (2 * S, 0)
    world.clock.advance(4 * S)
    answers["gone"] = TransportError("Unable to resolve host='gone'")
    for _ in range(2):
        with pytest.raises(TransportError):
            names.lookup("gone")
    assert counted() == (6 * S, 1)
    world.close()
