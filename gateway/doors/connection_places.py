"""Places for connections, bounded in all and for each address, so that no client alone keeps the others out."""

from __future__ import annotations

from collections import Counter


class ConnectionPlaces:
    """The places of one door, which gives one back when it has closed the connection."""

    def __init__(self, places_max: int, of_address_max: int) -> None:
        self._places_max = places_max
        self._of_address_max = of_address_max
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return the number of connections that have one."""
        return self._taken.total()

    def take(self, address: str) -> bool:
        """Take a place for a connection from an address; False if there is none for it."""
        if len(self) >= self._places_max or self._taken[address] >= self._of_address_max:
            return False
        self._taken[address] += 1
        return True

    def give_back(self, address: str) -> None:
        """Give a place back."""
        self._taken[address] -= 1
        if not self._taken[address]:
            del self._taken[address]  # or each address that ever came would be kept
