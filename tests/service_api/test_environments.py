"""Services that depend on what differs between processes are found out, each by what it depends on."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest

from examples.counter import Counter
from ordo.runtime.errors import ServiceError
from ordo.service_api.service import ClusteredService
from ordo.service_api.testing.environments import check_environments
from ordo.service_api.testing.harness import Input, Message, OpenSession

HERE = "tests.service_api.test_environments"
INPUTS: list[Input] = [OpenSession(1, 1), *(Message(1, 2 + n, b"%d" % n) for n in range(40))]


class Stateless(ClusteredService):
    def on_take_snapshot(self, writer: Any) -> None:
        """There is nothing to keep."""


class HashOrder(Stateless):
    def __init__(self) -> None:
        self.words: set[bytes] = set()

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        self.words.add(payload)
        return b",".join(self.words)


class Zone(Stateless):
    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        return time.strftime("%H", time.localtime(timestamp)).encode()


class Node:
    def __init__(self) -> None:
        self.me = self


class Collected(Stateless):
    """Sees which of its circles the garbage collector has come to."""

    def __init__(self) -> None:
        self.nodes: weakref.WeakSet[Node] = weakref.WeakSet()

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        self.nodes.add(Node())
        return b"%d" % len(self.nodes)


class Failing(Stateless):
    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        raise KeyError("no such order")


def test_a_deterministic_service_passes() -> None:
    assert gc.isenabled(), "this process is left as it was"
    check_environments(f"{Counter.__module__}:Counter", INPUTS)


@pytest.mark.parametrize(
    ("service", "what"),
    [
        (HashOrder, "PYTHONHASHSEED=1"),
        (Collected, "gc_threshold=[01] effect"),
        (Zone, "TZ=XST-13:45"),
        (Failing, "failed with PYTHONHASHSEED=0 .*no such order"),
    ],
)
def test_what_a_service_depends_on_is_named(service: type, what: str) -> None:
    with pytest.raises(ServiceError, match=what):
        check_environments(f"{HERE}:{service.__name__}", INPUTS)
