"""How the gateway carries out what operators ask for.

Rare calls that wait, so each has a connection of its own, on a thread, one at a time. Of each host one waits for the
others', so that none keeps them out with many.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from ordo.cluster.admin.remote import RemoteCluster
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.gateway.callers.call_context import CallContext, Deadline, credentials_of, host_of, refuse_with
from ordo.gateway.callers.members import remote_cluster
from ordo.gateway.callers.settings import GatewaySettings
from ordo.runtime.errors import OrdoError, OutcomeUnknownError

CLIENT_NAME = "ordo gateway"
T = TypeVar("T")


class _Queue:
    """The orders of one host."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.length = 0


class Operations:
    """Carries out one operation after the other, with the token of the caller."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._one_at_a_time = asyncio.Lock()
        self._of_host: dict[str, _Queue] = {}

    async def on_cluster(self, context: CallContext, operation: Callable[[RemoteCluster, float], T]) -> T:
        """Call `operation(cluster, timeout_s)` and return its result."""

        def carry_out(credentials: bytes, timeout_s: float) -> T:
            with remote_cluster(self._settings, credentials) as cluster:
                return operation(cluster, timeout_s)

        return await self._carry_out(context, carry_out)

    async def on_consumers(self, context: CallContext, operation: Callable[[ConsumerOrders], T]) -> T:
        """Run an action with ConsumerOrders, which are a session of the cluster."""

        def carry_out(credentials: bytes, timeout_s: float) -> T:
            settings = replace(self._settings.client, credentials=credentials, client_name=CLIENT_NAME)
            endpoints = list(self._settings.endpoints)
            with ConsumerOrders(endpoints, settings=settings, timeout_s=timeout_s) as orders:
                return operation(orders)

        return await self._carry_out(context, carry_out)

    @asynccontextmanager
    async def _turn_of(self, host: str) -> AsyncIterator[None]:
        """One order of a host at a time."""
        queue = self._of_host.setdefault(host, _Queue())
        queue.length += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._of_host[host]

    async def _carry_out(self, context: CallContext, operation: Callable[[bytes, float], T]) -> T:
        """Carry out an order by the caller's deadline.

        Refuses the call if it fails, or if its end cannot be observed.
        """
        deadline = Deadline(context, self._settings.timeout_s)
        credentials = self._settings.credentials_for(credentials_of(context))
        try:
            async with asyncio.timeout(deadline.seconds), self._turn_of(host_of(context)), self._one_at_a_time:
                return await asyncio.shield(asyncio.to_thread(operation, credentials, deadline.seconds))
        except TimeoutError:
            await refuse_with(context, OutcomeUnknownError("the order was not carried out in time, and may be yet"))
        except OrdoError as error:
            await refuse_with(context, error)
