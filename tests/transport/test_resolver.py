"""Names are looked up without one holding up another."""

from __future__ import annotations

import queue
import socket
import threading
from typing import Any

import pytest

from runtime.clock import SystemClock
from transport.resolver import NameResolver


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
