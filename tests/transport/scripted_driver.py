"""The driver's half of the control protocol, answering from a script: for what a healthy driver does not do."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ordo.runtime.native.clock import Clock
from ordo.runtime.native.counters import Counter, CountersManager
from ordo.runtime.native.memory import MemoryProvider
from ordo.transport.control import commands as c
from ordo.transport.control.cnc import create_cnc
from ordo.transport.streams.logbuffer import (
    LOG_TYPE_CONCURRENT,
    LOG_TYPE_EXCLUSIVE,
    LOG_TYPE_IMAGE,
    LogBuffers,
    create_log,
)
from tests.transport.logs import SESSION_ID, TERM_LENGTH

HEARTBEAT_TYPE_ID = 11
SMALL = 1 << 20


class ScriptedDriver:
    """Answers like a driver, but for the command types in `answers`: those go to a function that says what to send.

    Calling it is one duty cycle. `commands` are those it has read.
    """

    def __init__(self, directory: str, clock: Clock, memory: MemoryProvider, *, is_ready: bool = True) -> None:
        self.directory = directory
        self.clock = clock
        self.memory = memory
        self.cnc = create_cnc(
            memory,
            f"{directory}/cnc.dat",
            client_liveness_timeout_ns=10_000_000_000,
            start_timestamp_ms=clock.epoch_ms(),
            pid=1,
            counters_values_length=1 << 16,
        )
        self.counters = CountersManager(self.cnc.counters_metadata, self.cnc.counters_values, clock)
        self.transmitter = self.cnc.transmitter()
        self.answers: dict[type, Callable[[Any], list[Any]]] = {}
        self.commands: list[Any] = []
        self.heartbeats: dict[int, Counter] = {}
        self.limits: dict[int, Counter] = {}
        self.logs: dict[int, LogBuffers] = {}
        self.is_beating = True
        if is_ready:
            self.cnc.mark_ready(clock.epoch_ms())

    def __call__(self) -> int:
        if self.is_beating and self.cnc.version:
            self.cnc.to_driver.consumer_heartbeat_ms = self.clock.epoch_ms()
        return self.cnc.to_driver.read(self._on_command, 10)

    def send(self, *responses: Any) -> None:
        for response in responses:
            self.transmitter.transmit(c.type_id_of(response), c.encode(response))

    def received(self, kind: type) -> list[Any]:
        return [command for command in self.commands if isinstance(command, kind)]

    def make_log(self, log_id: int, log_type: int, folder: str = "publications") -> LogBuffers:
        log = create_log(
            self.memory,
            f"{self.directory}/{folder}/{log_id}.logbuffer",
            term_length=TERM_LENGTH,
            mtu=1408,
            initial_term_id=0,
            session_id=SESSION_ID,
            stream_id=10,
            correlation_id=log_id,
            log_type=log_type,
        )
        self.logs[log_id] = log
        return log

    def make_image(self, subscription_id: int, image_id: int) -> c.OnAvailableImage:
        """An image of a subscription: its log, its position counter, and the announcement to send."""
        log = self.make_log(image_id, LOG_TYPE_IMAGE, "images")
        position = self.counters.allocate(4, "sub-pos")
        return c.OnAvailableImage(image_id, SESSION_ID, 10, subscription_id, position.counter_id, log.path, "a:1")

    def _on_command(self, type_id: int, payload: bytes) -> None:
        command = c.decode_command(type_id, payload)
        assert command is not None
        self.commands.append(command)
        self._know(command.client_id)
        answer = self.answers.get(type(command))
        self.send(*(self._answer(command) if answer is None else answer(command)))

    def _know(self, client_id: int) -> None:
        if client_id not in self.heartbeats:
            key = struct.pack("<q", client_id)
            label = f"client-heartbeat: id={client_id}"
            self.heartbeats[client_id] = self.counters.allocate(
                HEARTBEAT_TYPE_ID, label, key, registration_id=client_id, owner_id=client_id
            )
            self.send(c.OnCounterReady(client_id, self.heartbeats[client_id].counter_id))

    def _answer(self, command: Any) -> list[Any]:
        if isinstance(command, c.AddPublication | c.AddExclusivePublication):
            return [self._add_publication(command)]
        if isinstance(command, c.AddSubscription):
            return [c.OnSubscriptionReady(command.correlation_id, -1)]
        if isinstance(command, c.AddCounter):
            counter = self.counters.allocate(command.type_id, command.label, command.key)
            return [c.OnCounterReady(command.correlation_id, counter.counter_id)]
        if isinstance(command, c.ClientClose):
            return []
        return [c.OnOperationSuccess(command.correlation_id)]

    def _add_publication(self, command: Any) -> Any:
        is_exclusive = isinstance(command, c.AddExclusivePublication)
        original = command.correlation_id
        if not is_exclusive and self.logs:
            original = next(iter(self.logs))
        else:
            self.make_log(original, LOG_TYPE_EXCLUSIVE if is_exclusive else LOG_TYPE_CONCURRENT)
            self.limits[original] = self.counters.allocate(1, "pub-lmt", value=TERM_LENGTH // 2)
        ready = c.OnExclusivePublicationReady if is_exclusive else c.OnPublicationReady
        log = self.logs[original]
        limit_id = self.limits[original].counter_id
        return ready(command.correlation_id, original, SESSION_ID, command.stream_id, limit_id, -1, log.path)
