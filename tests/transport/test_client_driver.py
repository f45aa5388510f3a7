"""A client without an invoker and a real driver on a thread of its own, which parks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.runtime.errors import DriverTimeoutError, RegistrationError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from tests.patience import patient

STREAM_ID = 33
TIMEOUT_S = 30
PARK_NS = 5_000_000_000


class ThreadedDriver:
    """Works until it has nothing to do, then parks until it is woken or something is due."""

    def __init__(self, directory: str) -> None:
        self.clock = SystemClock()
        self.driver = MediaDriver(
            MediaDriverSettings(directory=directory, term_length=1 << 16, ipc_term_length=1 << 16), clock=self.clock
        )
        self.driver.on_start()
        self.running = True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while self.running:
            now_ns = self.clock.now()
            if not self.driver.do_work(now_ns):
                self.driver.park(now_ns, PARK_NS)

    def close(self) -> None:
        self.running = False
        self.driver.wake()
        self.thread.join(TIMEOUT_S)
        self.driver.on_close()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[str]:
    driver = ThreadedDriver(f"{tmp_path}/driver")
    yield driver.driver.directory
    driver.close()


def connect(directory: str, name: str = "") -> TransportClient:
    return TransportClient(directory, clock=SystemClock(), memory=FileMemoryProvider(), name=name)


def await_that(condition: Callable[[], object], *clients: TransportClient) -> None:
    deadline = time.monotonic() + patient(TIMEOUT_S)
    while not condition():
        assert time.monotonic() < deadline
        for client in clients:
            client.do_work(SystemClock().now())
            client.idle()


@pytest.mark.parametrize("channel", ["aeron:ipc", "aeron:udp?endpoint=127.0.0.1:0"])
def test_more_messages_than_the_window_holds(directory: str, channel: str) -> None:
    """The publisher fills the window many times: each time the parked driver must be woken to open it again."""
    publisher, subscriber = connect(directory, "publisher"), connect(directory, "subscriber")
    subscription = subscriber.add_subscription(channel, STREAM_ID)
    await_that(lambda: channel == "aeron:ipc" or subscription.resolved_endpoint, subscriber)
    target = channel.replace("127.0.0.1:0", subscription.resolved_endpoint or "")
    publication = publisher.add_exclusive_publication(target, STREAM_ID)
    await_that(lambda: publication.is_connected and subscription.is_connected, publisher, subscriber)
    received: list[bytes] = []
    messages = [bytes([number % 256]) * (number % 2000) for number in range(1000)]
    for message in messages:
        deadline = time.monotonic() + patient(TIMEOUT_S)
        while publication.offer(message) < 0:
            assert time.monotonic() < deadline
            subscription.poll_messages(lambda payload, _: received.append(payload))
            subscriber.wake_driver()
            publisher.idle()
    await_that(
        lambda: (
            subscription.poll_messages(lambda payload, _: received.append(payload)) >= 0
            and len(received) == len(messages)
        )
    )
    assert received == messages
    publication.close()
    await_that(lambda: not subscription.is_connected, publisher, subscriber)
    publisher.close()
    subscriber.close()


def test_command_wakes_a_parked_driver(directory: str) -> None:
    client = connect(directory)
    assert client.waker is not None
    flag = client.counters.counter(client.counters.find(1004))
    await_that(lambda: flag.value)
    started = time.monotonic()
    client.add_counter(1000, "x").close()
    assert time.monotonic() - started < PARK_NS / 1e9 / 2
    client.close()


def test_refusal_of_a_real_driver(directory: str) -> None:
    with connect(directory) as client:
        with pytest.raises(RegistrationError, match="invalid mtu, must be a multiple of 32"):
            client.add_publication("aeron:udp?endpoint=127.0.0.1:4000|mtu=100", STREAM_ID)
        assert not client.is_closed


def test_no_driver_in_the_folder(tmp_path: Path) -> None:
    with pytest.raises(DriverTimeoutError, match="within 50 ms"):
        TransportClient(str(tmp_path), clock=SystemClock(), memory=FileMemoryProvider(), driver_timeout_ns=50_000_000)
