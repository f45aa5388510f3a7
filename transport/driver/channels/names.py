"""Names of channels as a driver knows them: its table, other drivers, then the network; ports of wildcards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from ordo.runtime.errors import TransportError
from ordo.runtime.native.clock import Clock
from ordo.transport.driver.channels.gossip import Gossip

Channel = TypeVar("Channel")
ASKED_MAX: Final = 256
"""The most names that are remembered while their lookups are pending; one that nobody asks for again is not waited
for."""


class Lookup(Protocol):
    """How names of hosts and interfaces are looked up."""

    def lookup(self, host: str) -> str | None: ...

    def interface_address(self, text: str) -> str: ...


class Names:
    """Resolves names. `table` may change while the driver runs: channels with a silent peer are then resolved again."""

    def __init__(
        self, network: Lookup, table: dict[str, str], clock: Clock, note_time: Callable[[int], object]
    ) -> None:
        """Take the resolver's inputs.

        `note_time` is given how long (ns) each lookup took that had no answer at once.
        """
        self._network = network
        self._clock = clock
        self._note_time = note_time
        self._asked_ns: dict[str, int] = {}
        self.table = table
        self.gossip: Gossip | None = None
        """The names that other drivers have told of, if this driver takes part in gossip."""

    def lookup(self, host: str) -> str | None:
        """Return the numeric address of a name without waiting, or None while it is looked up.

        Raises TransportError.
        """
        found = self.table.get(host)
        if found is None and self.gossip is not None:
            found = self.gossip.lookup(host)
        return found if found is not None else self._ask_network(host)

    def _ask_network(self, host: str) -> str | None:
        found = None
        try:
            found = self._network.lookup(host)
        except TransportError:
            self._answered(host)
            raise
        if found is not None:
            self._answered(host)
        elif host in self._asked_ns or len(self._asked_ns) < ASKED_MAX:
            self._asked_ns.setdefault(host, self._clock.now())
        return found

    def _answered(self, host: str) -> None:
        asked_ns = self._asked_ns.pop(host, None)
        if asked_ns is not None:
            self._note_time(self._clock.now() - asked_ns)

    def interface_address(self, text: str) -> str:
        return self._network.interface_address(text)


class WildcardPorts:
    """Hands out the ports of a range in turn, passing over those that are taken."""

    def __init__(self, ports: range) -> None:
        self._ports = ports
        self._next = 0

    def open(self, port: int, bind: Callable[[int], Channel]) -> Channel:
        """Return what `bind` makes of the port, or of a free port for 0. Raises TransportError when all are taken."""
        if port != 0:
            return bind(port)
        failure: TransportError | None = None
        for _ in range(len(self._ports)):
            candidate = self._ports[self._next]
            self._next = (self._next + 1) % len(self._ports)
            try:
                return bind(candidate)
            except TransportError as error:
                failure = error
        assert failure is not None
        raise TransportError(f"no available ports in range {self._ports[0]} {self._ports[-1]}: {failure.message}")
