"""Copies of a simulated service that write its snapshots: late, slowly, and some of them never."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.runtime.errors import SnapshotError

if TYPE_CHECKING:
    from ordo.cluster.container.process_copy import Write

MS = 1_000_000
DELAYS_NS = (0, MS, 20 * MS, 300 * MS)
SILENCE_NS_MAX = 1000 * MS
"""What a copy may be silent for in simulation."""
FATES = DIES, HANGS = "dies", "hangs"


class SimulatedCopy:
    """What is written is the state of the moment in which the copy was made, whenever it comes."""

    digest: bytes | None = None

    def __init__(self, messages: list[bytes], now_ns: Callable[[], int], rng: Random, fate: str) -> None:
        self._messages = messages
        self._whole_digest = digest_of(messages)
        self._now_ns = now_ns
        self._rng = rng
        self._fate = fate
        self._due_ns = now_ns() + rng.choice(DELAYS_NS)
        self._gone_ns = 0

    def take(self) -> list[bytes]:
        if self._now_ns() < self._due_ns:
            return []
        if self._fate and self._rng.random() < 0.5:
            if self._fate == HANGS:
                return []
            raise SnapshotError("the copy of the service is gone")
        messages, self._messages = self._messages[:2], self._messages[2:]
        if not self._messages and not self._fate:
            self.digest = self._whole_digest
            self._gone_ns = self._now_ns() + self._rng.choice(DELAYS_NS)
        return messages

    def is_gone(self) -> bool:
        return self.digest is not None and self._now_ns() >= self._gone_ns

    def close(self) -> None:
        self._messages = []


class SimulatedCopier:
    """Makes the copies of one member's service in one life."""

    is_copy = False

    def __init__(
        self,
        now_ns: Callable[[], int],
        rng: Random,
        failure_chance: Callable[[], float],
        count: Callable[[str], None],
    ) -> None:
        self._now_ns = now_ns
        self._rng = rng
        self._failure_chance = failure_chance
        self._count = count

    def find_obstacle(self) -> str:
        return ""

    def copy(self, write: Write) -> SimulatedCopy:
        messages: list[bytes] = []
        write(messages.append)
        fate = self._rng.choice(FATES) if self._rng.random() < self._failure_chance() else ""
        self._count(f"copy {fate}" if fate else "copy writes a snapshot")
        return SimulatedCopy(messages, self._now_ns, self._rng, fate)
