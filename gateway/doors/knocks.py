"""Whether other doors still listen, as their machines' kernels tell."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

KNOCK_S = 1.0
"""So long a connection may take."""


class Knocks:
    """Tells which others have ended: those whose machine refuses a connection that it took before.

    One that was never reached from here says nothing by a refusal, for clients may reach it by another way. Nor does
    one that does not answer at all: it may be suspended, or cut off.
    """

    def __init__(self) -> None:
        self._answered: set[str] = set()
        self._gone: set[str] = set()

    def is_gone(self, name: str) -> bool:
        """Return whether nobody listens any more where this one did."""
        return name in self._gone

    async def ask(self, others: Mapping[str, str]) -> tuple[set[str], set[str]]:
        """Connect to each address (host:port), by name, and send nothing.

        Return the names that are reached for the first time, and those that are gone since. A name is to be that of a
        process, so that another one at its address is another one here.
        """
        self._answered &= set(others)
        self._gone &= set(others)
        answered, gone = set(self._answered), set(self._gone)
        await asyncio.gather(*(self._ask(name, address) for name, address in others.items()))
        return self._answered - answered, self._gone - gone

    async def _ask(self, name: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(KNOCK_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except ConnectionRefusedError:
            if name in self._answered:
                self._gone.add(name)
        except (OSError, TimeoutError, UnicodeError):
            pass  # that it does not answer is no proof
        else:
            self._answered.add(name)
            self._gone.discard(name)
            writer.close()
