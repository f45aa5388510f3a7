"""Whether other doors still listen, as their machines' kernels tell."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from ipaddress import ip_address

KNOCK_S = 1.0
"""So long a connection may take."""
LOOKUP_S = 0.5
"""So long a connection waits for a lookup of a name whose addresses are known from the last one."""
LOOKUPS_MAX = 2
"""So many names are looked up at a time: lookups take threads of the process, and cannot be ended."""


class Knocks:
    """Tells which others have ended: those whose machine refuses a connection that it took before.

    One that was never reached from here says nothing by a refusal, for clients may reach it by another way. Nor does
    one that does not answer at all: it may be suspended, or cut off.
    """

    def __init__(self) -> None:
        self._answered: set[str] = set()
        self._gone: set[str] = set()
        self._lookups: dict[str, asyncio.Task[list[str]]] = {}
        self._addresses: dict[str, list[str]] = {}
        """By name of a host, as the last lookup found them, also where nobody waited for it any more."""
        self._turns = asyncio.Semaphore(LOOKUPS_MAX)

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
        hosts = {_host_and_port(address)[0] for address in others.values()}
        self._addresses = {host: found for host, found in self._addresses.items() if host in hosts}
        answered, gone = set(self._answered), set(self._gone)
        await asyncio.gather(*(self._ask(name, address) for name, address in others.items()))
        return self._answered - answered, self._gone - gone

    async def _ask(self, name: str, address: str) -> None:
        try:
            async with asyncio.timeout(KNOCK_S):
                await self._connect(*_host_and_port(address))
        except ConnectionRefusedError:
            if name in self._answered:
                self._gone.add(name)
        except (OSError, TimeoutError, UnicodeError):
            pass  # that it does not answer is no proof
        else:
            self._answered.add(name)
            self._gone.discard(name)

    async def _connect(self, host: str, port: str) -> None:
        """Connect to one of a host's addresses. Raises OSError, ConnectionRefusedError if each of them refuses."""
        errors: list[OSError] = []
        for one in await self._addresses_of(host):
            try:
                _, writer = await asyncio.open_connection(one, int(port))
            except OSError as error:
                errors.append(error)
            else:
                writer.close()
                return
        raise next((one for one in errors if not isinstance(one, ConnectionRefusedError)), errors[0])

    async def _addresses_of(self, host: str) -> list[str]:
        """Return the addresses of a host, for which one lookup is under way at a time, however often it is asked for.

        They are those of the last lookup while this one takes long. Raises OSError, UnicodeError.
        """
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        known, lookup = self._addresses.get(host), self._lookups.get(host)
        if lookup is None:
            lookup = self._lookups[host] = asyncio.create_task(self._look_up(host))
            lookup.add_done_callback(_note_error)
        await asyncio.wait({lookup}, timeout=None if known is None else LOOKUP_S)
        return lookup.result() if known is None or lookup.done() else known

    async def _look_up(self, host: str) -> list[str]:
        try:
            async with self._turns:
                found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        finally:
            del self._lookups[host]
        self._addresses[host] = [str(address[0]) for *_, address in found]
        return self._addresses[host]


def _host_and_port(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


def _note_error(lookup: asyncio.Task[list[str]]) -> None:
    """Take the error of a lookup that nobody may wait for any more, or the event loop tells of it."""
    if not lookup.cancelled():
        lookup.exception()
