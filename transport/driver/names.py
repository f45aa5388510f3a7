"""Names of channels as a driver knows them: its table, other drivers, then the network; ports of wildcards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from runtime.errors import TransportError
from transport.driver.gossip import Gossip

Channel = TypeVar("Channel")


class Lookup(Protocol):
    """How names of hosts and interfaces are looked up."""

    def lookup(self, host: str) -> str | None: ...

    def interface_address(self, text: str) -> str: ...


class Names:
    """`table` may be changed while the driver runs: channels whose other side is silent are then resolved anew."""

    def __init__(self, network: Lookup, table: dict[str, str]) -> None:
        self._network = network
        self.table = table
        self.gossip: Gossip | None = None
        """The names that other drivers have told of, if this driver takes part in gossip."""

    def lookup(self, host: str) -> str | None:
        """The numeric address of a name without waiting, None while it is looked up; raises TransportError."""
        found = self.table.get(host)
        if found is None and self.gossip is not None:
            found = self.gossip.lookup(host)
        return found if found is not None else self._network.lookup(host)

    def interface_address(self, text: str) -> str:
        return self._network.interface_address(text)


class WildcardPorts:
    """Hands out the ports of a range in turn, passing over those that are taken."""

    def __init__(self, ports: range) -> None:
        self._ports = ports
        self._next = 0

    def open(self, port: int, bind: Callable[[int], Channel]) -> Channel:
        """Returns what `bind` makes of the port, or for 0 of a free one. Raises TransportError when all are taken."""
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
        raise TransportError(f"no free port from {self._ports[0]} to {self._ports[-1]}: {failure.message}")
