"""How long a program with a transport of its own waits between its duty cycles."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ordo.runtime.native.clock import VirtualClock
from ordo.transport.client.client_transport import ClientTransport

MS = 1_000_000


class Driver:
    """Notes for how long it is parked; nothing comes in."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.parked_ns: list[int] = []

    def park(self, now_ns: int, timeout_ns: int) -> int:
        self.parked_ns.append(timeout_ns)
        self._clock.advance(timeout_ns)
        return 0


def test_rests_are_short_until_nothing_was_done_for_a_while() -> None:
    clock = VirtualClock()
    driver: Any = Driver(clock)
    client: Any = SimpleNamespace(name="")
    transport = ClientTransport(client, clock, driver)
    since_ns = clock.now()
    for _ in range(110):
        transport.rest(since_ns)
    assert driver.parked_ns == [MS] * 100 + [10 * MS] * 10
    transport.rest(clock.now())
    assert driver.parked_ns[-1] == MS
