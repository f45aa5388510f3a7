"""Clients of a driver: known by their first command, alive while their heartbeat counter moves (§6.1, §7)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ordo.runtime.errors import RegistrationError
from ordo.runtime.native.counters import KEY_LENGTH_MAX, Counter
from ordo.transport.control.commands import (
    ErrorCode,
    OnClientTimeout,
    OnCounterReady,
    OnStaticCounter,
    OnUnavailableCounter,
)
from ordo.transport.driver.conducting.context import OWNER_NONE, TYPE_CLIENT_HEARTBEAT, DriverContext

CLIENT_TIMEOUTS = 24
STEP_MS = 500
"""How much more or less than the monotonic clock a wall clock may move between two ticks before it counts as
stepped."""


def _check_key(key: bytes) -> None:
    if len(key) > KEY_LENGTH_MAX:
        raise RegistrationError(
            f"key of a counter has {len(key)} bytes, must be at most {KEY_LENGTH_MAX}: shorten it",
            code=ErrorCode.GENERIC_ERROR,
        )


@dataclass
class Client:
    """One client and its heartbeat counter, whose value it sets to epoch ms."""

    client_id: int
    heartbeat: Counter
    has_closed: bool = False


@dataclass
class CounterLink:
    """A counter and the client that it is kept alive for."""

    registration_id: int
    client_id: int
    counter: Counter


class Clients:
    """All clients and the counters they own."""

    def __init__(self, context: DriverContext) -> None:
        self.context = context
        self.all: dict[int, Client] = {}
        self.counters: dict[int, CounterLink] = {}
        self._ahead_ms: int | None = None

    def ensure(self, client_id: int) -> Client:
        """Return the client; a new one gets its heartbeat counter, announced before anything else."""
        known = self.all.get(client_id)
        if known is not None:
            return known
        heartbeat = self.context.counters.allocate(
            TYPE_CLIENT_HEARTBEAT,
            f"client-heartbeat: id={client_id}",
            struct.pack("<q", client_id),
            registration_id=client_id,
            owner_id=client_id,
            value=self.context.clock.epoch_ms(),
        )
        client = Client(client_id, heartbeat)
        self.all[client_id] = client
        self.context.events.state("client {} is there", client_id)
        self.context.transmit(OnCounterReady(client_id, heartbeat.counter_id))
        return client

    def keepalive(self, client_id: int) -> None:
        if client_id in self.all:
            self.all[client_id].heartbeat.set(self.context.clock.epoch_ms())

    def close(self, client_id: int) -> None:
        """Handle the end of a client: the next timer tick frees its resources, without notifying others."""
        if client_id in self.all:
            self.all[client_id].heartbeat.set(0)
            self.all[client_id].has_closed = True

    def forgive_step(self, now_ns: int, epoch_ms: int) -> None:
        """Give all clients a new timeout after the wall clock was stepped.

        Their heartbeats carry the time from before.
        """
        ahead_ms = epoch_ms - now_ns // 1_000_000
        if self._ahead_ms is not None and abs(ahead_ms - self._ahead_ms) > STEP_MS:
            for client in self.all.values():
                if not client.has_closed:
                    client.heartbeat.set(epoch_ms)
        self._ahead_ms = ahead_ms

    def take_dead(self, epoch_ms: int) -> list[Client]:
        """Return the clients that closed or fell silent, once each; notify them and free their heartbeat counters."""
        timeout_ms = self.context.config.client_liveness_timeout_ns // 1_000_000
        dead = [client for client in self.all.values() if epoch_ms > client.heartbeat.value + timeout_ms]
        for client in dead:
            del self.all[client.client_id]
            self.context.events.state("client {} {}", client.client_id, "closed" if client.has_closed else "is silent")
            if not client.has_closed:
                self.context.system.add(CLIENT_TIMEOUTS)
                self.context.transmit(OnClientTimeout(client.client_id))
            self.context.transmit(OnUnavailableCounter(client.client_id, client.heartbeat.counter_id))
            self.context.free_counter(client.heartbeat)
        return dead

    # --- counters of clients --------------------------------------------------------------------------------------

    def add_counter(self, client_id: int, correlation_id: int, type_id: int, key: bytes, label: str) -> None:
        _check_key(key)
        counter = self.context.counters.allocate(
            type_id, label, key, registration_id=correlation_id, owner_id=client_id
        )
        self.counters[correlation_id] = CounterLink(correlation_id, client_id, counter)
        self.context.transmit(OnCounterReady(correlation_id, counter.counter_id))

    def add_static_counter(
        self, correlation_id: int, registration_id: int, type_id: int, key: bytes, label: str
    ) -> None:
        """Add a counter that stays until the driver ends.

        The same one is returned for the same type and registration id.
        """
        _check_key(key)
        counters = self.context.counters
        counter_id = counters.find(type_id, registration_id=registration_id)
        if counter_id < 0:
            counter_id = counters.allocate(
                type_id, label, key, registration_id=registration_id, owner_id=OWNER_NONE
            ).counter_id
        else:
            found = counters.describe(counter_id)
            if found is None or found.owner_id != OWNER_NONE:
                raise RegistrationError(
                    f"cannot add static counter, because a non-static counter exists: counterId={counter_id} "
                    f"typeId={type_id} registrationId={registration_id}; use another registration id",
                    code=ErrorCode.GENERIC_ERROR,
                )
        self.context.transmit(OnStaticCounter(correlation_id, counter_id))

    def remove_counter(self, registration_id: int) -> CounterLink:
        """Take the counter off the list; `free_counter_link` frees it after the response."""
        link = self.counters.pop(registration_id, None)
        if link is None:
            raise RegistrationError(
                f"unknown counter registration_id={registration_id}", code=ErrorCode.UNKNOWN_COUNTER
            )
        return link

    def free_counter_link(self, link: CounterLink) -> None:
        self.context.transmit(OnUnavailableCounter(link.registration_id, link.counter.counter_id))
        self.context.free_counter(link.counter)

    def remove_client(self, client_id: int) -> None:
        for link in [link for link in self.counters.values() if link.client_id == client_id]:
            self.free_counter_link(self.remove_counter(link.registration_id))
