"""Carries out orders given in the console, to members and durable consumers, with the user's token."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ordo.cluster.admin import orders
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.gateway.callers.members import remote_cluster
from ordo.gateway.callers.settings import GatewaySettings
from ordo.runtime.errors import ConfigurationError, OrdoError

FIND_TIMEOUT_S = 5.0
CONSUMERS_TIMEOUT_S = 5.0
CONSUMERS_UNUSED_S = 20.0

_CLUSTER: dict[str, tuple[str, Callable[[Any, int | None], object]]] = {
    "snapshot": ("a snapshot was taken", lambda leader, _: orders.take_snapshot(leader)),
    "suspend": ("the cluster stands still", lambda leader, _: orders.suspend(leader)),
    "resume": ("the cluster goes on", lambda leader, _: orders.resume(leader)),
    "transfer": ("the leadership was handed over", lambda leader, target: orders.transfer(leader, target)),
}


def give_order(settings: GatewaySettings, credentials: bytes, name: str, target: int | None) -> str:
    """Carry out one order, and return what was done. Blocks. Raises what ordo.cluster.admin.orders raises."""
    if name not in _CLUSTER:
        raise ConfigurationError(f"order {name[:40]!r}: must be one of {', '.join(_CLUSTER)}")
    text, give = _CLUSTER[name]
    with remote_cluster(settings, credentials) as cluster:
        give(cluster.find_leader(FIND_TIMEOUT_S), target)
    return text


class Consumers:
    """Durable consumers and applications, for one token, with a session while a page shows them. Blocks; any thread."""

    def __init__(self, settings: GatewaySettings, credentials: bytes) -> None:
        self._settings = replace(
            settings.client, credentials=credentials, client_name="ordo console", keep_alive_thread=True
        )
        self._endpoints = list(settings.endpoints)
        self._orders: ConsumerOrders | None = None
        self._lock = threading.Lock()
        self._used_s = 0.0

    def list_all(self) -> list[dict[str, Any]]:
        """Every consumer with its lag. Raises what ConsumerOrders raises."""
        rows: list[dict[str, Any]] = self._do(lambda found: found.list_all())
        return rows

    def list_instances(self) -> list[dict[str, Any]]:
        """Every instance of an application with its lag. Raises what ConsumerOrders raises."""
        rows: list[dict[str, Any]] = self._do(lambda found: found.list_instances())
        return rows

    def give_order(self, name: str, consumer: str) -> str:
        """Pause or resume one consumer, and return what was done."""
        if name == "pause-consumer":
            self._do(lambda found: found.pause(consumer))
            return f"consumer {consumer} is paused"
        if name == "resume-consumer":
            self._do(lambda found: found.resume(consumer))
            return f"consumer {consumer} goes on"
        raise ConfigurationError(f"order {name[:40]!r}: must be pause-consumer or resume-consumer")

    def _do(self, action: Callable[[ConsumerOrders], Any]) -> Any:
        with self._lock:
            self._used_s = time.monotonic()
            if self._orders is None:
                self._orders = ConsumerOrders(self._endpoints, settings=self._settings, timeout_s=CONSUMERS_TIMEOUT_S)
            try:
                return action(self._orders)
            except OrdoError:
                self._close()
                raise

    def close_unused(self) -> None:
        """End the session if no page has asked for a while."""
        if self._lock.acquire(blocking=False):
            try:
                if self._orders is not None and time.monotonic() - self._used_s > CONSUMERS_UNUSED_S:
                    self._close()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        found, self._orders = self._orders, None
        if found is not None:
            found.close()
