"""The open things of a transport client: commands without a response yet, resources, and mapped logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ordo.runtime.errors import MemoryInUseError, OrdoError
from ordo.runtime.native.memory import MemoryProvider
from ordo.transport.client.client_core import ClientCounter
from ordo.transport.streams.logbuffer import LogBuffers, open_log
from ordo.transport.streams.publication import Publication
from ordo.transport.streams.subscription import Subscription


@dataclass
class Pending:
    """A pending command. `complete` makes the resource of its answer; `error` is the driver's refusal."""

    what: str
    deadline_ns: int
    complete: Callable[[Any], Any]
    resource: Any = None
    error: OrdoError | None = None

    @property
    def is_done(self) -> bool:
        return self.resource is not None or self.error is not None


@dataclass
class Resources:
    """The open publications, subscriptions and counters of a client, by registration id."""

    publications: dict[int, Publication] = field(default_factory=dict)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    counters: dict[int, ClientCounter] = field(default_factory=dict)


@dataclass
class _Mapped:
    log: LogBuffers
    users: int = 0


def _closed(log: LogBuffers) -> bool:
    try:
        log.close()
    except MemoryInUseError:
        return False
    return True


class LogCache:
    """Logs mapped once each, however many publications and images of this client use them.

    A log that lost its last user stays mapped until its linger is over, for threads that still read from it.
    """

    def __init__(self, memory: MemoryProvider) -> None:
        self._memory = memory
        self._mapped: dict[str, _Mapped] = {}
        self._lingering: list[tuple[int, LogBuffers]] = []

    def acquire(self, path: str) -> LogBuffers:
        """Return the log of a path. Raises StorageError or TransportError when it cannot be mapped."""
        entry = self._mapped.get(path)
        if entry is None:
            entry = self._mapped[path] = _Mapped(open_log(self._memory, path))
        entry.users += 1
        return entry.log

    def release(self, log: LogBuffers, unmap_at_ns: int) -> None:
        """Drop one user; when the last is gone the linger begins."""
        entry = self._mapped[log.path]
        entry.users -= 1
        if entry.users == 0:
            del self._mapped[log.path]
            self._lingering.append((unmap_at_ns, log))

    def unmap_due(self, now_ns: int) -> int:
        """Unmap logs that have lingered long enough and have no views; return their number."""
        kept = [(unmap_at_ns, log) for unmap_at_ns, log in self._lingering if unmap_at_ns > now_ns or not _closed(log)]
        count = len(self._lingering) - len(kept)
        self._lingering = kept
        return count

    def close(self) -> None:
        """Let go of everything: a log is unmapped with the last publication, claim or image that refers to it."""
        self._lingering.clear()
        self._mapped.clear()

    def __len__(self) -> int:
        return len(self._mapped) + len(self._lingering)
