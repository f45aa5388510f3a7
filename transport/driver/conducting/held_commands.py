"""Commands that wait for the log of a publication, and those of the same client behind them."""

from __future__ import annotations

from collections import deque

from ordo.transport.control.commands import (
    AddExclusivePublication,
    AddPublication,
    ClientKeepalive,
    Command,
    TerminateDriver,
)

HELD_MAX = 256
"""Beyond this many commands no more are read from the ring, where they wait as well."""
AddsPublication = AddPublication | AddExclusivePublication
_OVERTAKES = ClientKeepalive | TerminateDriver
"""The end of a client does not: what it asked for before, such as to revoke or to reject a stream, is done first."""


class HeldCommands:
    """The commands that are held, in the order of each client, so that it gets its answers in the order it asked."""

    def __init__(self) -> None:
        self._by_client: dict[int, deque[Command]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        return self._count >= HELD_MAX

    def must_hold(self, command: Command) -> bool:
        """Return whether a command must wait for earlier ones of its client."""
        return command.client_id in self._by_client and not isinstance(command, _OVERTAKES)

    def append(self, command: Command) -> None:
        self._by_client.setdefault(command.client_id, deque()).append(command)
        self._count += 1

    def clients(self) -> list[int]:
        """Return the clients that have commands here, the one that has waited longest first."""
        return list(self._by_client)

    def first(self, client_id: int) -> Command | None:
        """Return the earliest command of a client, or None."""
        held = self._by_client.get(client_id)
        return held[0] if held else None

    def remove_first(self, client_id: int) -> None:
        self._by_client[client_id].popleft()
        self._count -= 1
        if not self._by_client[client_id]:
            del self._by_client[client_id]

    def remove_client(self, client_id: int) -> list[Command]:
        """Forget the commands of a client, and return them."""
        removed = self._by_client.pop(client_id, deque())
        self._count -= len(removed)
        return list(removed)
