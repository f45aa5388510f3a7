"""Ordo's side of a conversation with a peer: a driver on its own thread, and a client that sends and checks."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ordo.runtime.errors import OrdoError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.driver.threads import DriverThreads
from ordo.transport.streams.publication import RESULT_ADMIN_ACTION, RESULT_BACK_PRESSURED, Publication, describe_result
from ordo.transport.streams.subscription import Subscription
from tests.patience import patient

TIMEOUT_S = 60.0
PARK_NS_MAX = 1_000_000  # a foreign client does not wake a parked driver: it looks again after this time
WINDOW_BYTES = 512 * 1024
TIMER_INTERVAL_NS = 100_000_000


class OrdoDriver:
    """A media driver on a thread of its own, as a foreign client needs it."""

    def __init__(self, directory: str, **settings: Any) -> None:
        defaults = {
            "term_length": 1 << 20,
            "ipc_term_length": 1 << 20,
            "timer_interval_ns": TIMER_INTERVAL_NS,
            "threading_mode": "shared",
            "idle_park_max_ns": PARK_NS_MAX,
        }
        self.clock = clock = SystemClock()
        self.directory = directory
        self.errors: list[BaseException | str] = []
        config = MediaDriverSettings(directory=directory, **{**defaults, **settings})
        self.driver = MediaDriver(config, clock=clock, error_handler=self.errors.append)

    def connect(self, name: str = "ordo") -> TransportClient:
        return connect(self.directory, name)

    def __enter__(self) -> Self:
        self.driver.on_start()
        DriverThreads(self.driver).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.driver.on_close()


def connect(directory: str, name: str = "ordo") -> TransportClient:
    """A client of whatever driver, Aeron's included, has this folder, or will; errors outside calls are raised."""
    timeout_ns = round(patient(TIMEOUT_S) * 1e9)
    return TransportClient(
        directory, clock=SystemClock(), memory=FileMemoryProvider(), name=name, driver_timeout_ns=timeout_ns
    )


def await_that(condition: Callable[[], object], client: TransportClient, what: str) -> None:
    """Works for the client until the condition holds. Raises TimeoutError."""
    deadline_s = time.monotonic() + patient(TIMEOUT_S)
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what} did not happen within {TIMEOUT_S:g} s")
        client.do_work(SystemClock().now())
        client.idle()


def await_two(condition: Callable[[], object], client: TransportClient, other: TransportClient, what: str) -> None:
    """Works for both clients until the condition holds. Raises TimeoutError."""

    def work_for_other() -> object:
        other.do_work(SystemClock().now())
        return condition()

    await_that(work_for_other, client, what)


def message(number: int, size_bytes: int) -> bytes:
    """Bytes that tell one message of a size from the next."""
    pattern = bytes((number + 7 * i) & 0xFF for i in range(256))
    return (pattern * (size_bytes // 256 + 1))[:size_bytes]


def exchange(
    client: TransportClient, publication: Publication, subscription: Subscription, sizes_bytes: list[int]
) -> None:
    """Sends a message of each size and demands all of them back, in order and byte for byte."""
    received: list[bytes] = []
    sent = in_flight_bytes = 0
    messages = [message(number, size) for number, size in enumerate(sizes_bytes)]
    deadline_s = time.monotonic() + patient(TIMEOUT_S)

    def on_message(payload: bytes, _: object) -> None:
        assert payload == messages[len(received)], f"message {len(received)} came back with other bytes"
        received.append(payload)

    while len(received) < len(messages):
        before = len(received)
        polled = subscription.poll_messages(on_message, 64)
        in_flight_bytes -= sum(map(len, received[before:]))
        if sent < len(messages) and in_flight_bytes < WINDOW_BYTES:
            result = publication.offer(messages[sent])
            if result > 0:
                in_flight_bytes += len(messages[sent])
                sent += 1
                continue
            if result not in (RESULT_BACK_PRESSURED, RESULT_ADMIN_ACTION):
                raise OrdoError(f"offer of message {sent}: {describe_result(result)}")
        if not polled:
            client.do_work(SystemClock().now())
            client.idle()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{sent} of {len(messages)} messages sent, {len(received)} came back")
