"""How much may be under way in a gateway, over all calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ordo.runtime.errors import OrdoError


class NoPlaceError(OrdoError):
    """As many calls of a kind are open as there may be."""


class CallPlaces:
    """Counts calls that last, such as subscriptions, which have a reader each."""

    def __init__(self, places_max: int, what: str, option: str) -> None:
        self._places_max = places_max
        self._what, self._option = what, option
        self.taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a place for as long as the context lasts. Raises NoPlaceError."""
        if self.taken >= self._places_max:
            raise NoPlaceError(f"{self.taken} {self._what} are open, as many as there may be: see {self._option}")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Bounds:
    """Counts requests and their bytes."""

    def __init__(self, requests_max: int, bytes_max: int) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self.requests = 0
        self.bytes = 0
        self._freed = asyncio.Event()

    def take(self, requests: int, length_bytes: int) -> bool:
        """Take room.

        Return False when there is none; what is longer than all room is taken when nothing else is under way.
        """
        is_over = self.requests + requests > self._requests_max or self.bytes + length_bytes > self._bytes_max
        if is_over and self.requests:
            return False
        self.requests += requests
        self.bytes += length_bytes
        return True

    async def await_room(self, requests: int, length_bytes: int) -> None:
        """`take`, as soon as there is room."""
        while not self.take(requests, length_bytes):
            self._freed.clear()
            await self._freed.wait()

    def give(self, requests: int, length_bytes: int) -> None:
        """Give room back."""
        self.requests -= requests
        self.bytes -= length_bytes
        self._freed.set()
