"""Readers and writers in other processes that stop or die: the driver lets go of them, and the others lose nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from tests.patience import patient
from tests.transport.driver_world import Collector, Feeder
from tests.transport.test_driver_threads import connect, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
TIMEOUT_S = 60.0
LIVENESS: dict[str, Any] = {
    "client_liveness_timeout_ns": 3_000_000_000,
    "publication_unblock_timeout_ns": 4_000_000_000,
}


def fork(work: Callable[[TransportClient], object], directory: str) -> int:
    """A process with a client of its own that does this, and ends without a goodbye; its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work(TransportClient(directory, clock=SystemClock(), memory=FileMemoryProvider()))
        finally:
            os._exit(0)
    return pid


def read_for_ever(channel: str) -> Callable[[TransportClient], object]:
    def work(client: TransportClient) -> None:
        subscription = client.add_subscription(channel, 10)
        while True:
            if not subscription.poll(lambda *_: None, 10):
                client.do_work(time.monotonic_ns())
                client.idle()

    return work


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.parametrize("media", ["ipc", "udp"])
def test_a_stopped_subscriber_is_given_up_and_the_others_go_on(
    media: str, how: signal.Signals, shm_path: Path, free_port: Callable[[], int]
) -> None:
    """The dead subscriber holds the stream up until the driver misses it, no longer, and leaves no counter behind."""
    channel = "aeron:ipc" if media == "ipc" else f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    with running(shm_path, threading_mode="dedicated", **LIVENESS) as driver, connect(driver) as client:
        collector = Collector(client.add_subscription(channel, 10))
        before = {one.counter_id for one in driver.counters}
        pid = fork(read_for_ever(channel), driver.directory)
        try:
            publication = client.add_exclusive_publication(channel, 10)
            feeder = Feeder(publication, 20_000, length=200)
            deadline_s = time.monotonic() + patient(TIMEOUT_S)
            is_stopped = False
            while len(collector.messages) < len(feeder.messages):
                assert time.monotonic() < deadline_s, f"{len(collector.messages)} of {len(feeder.messages)}"
                feeder.feed(200)
                if not is_stopped and len(collector.messages) > 2_000:
                    os.kill(pid, how)
                    is_stopped = True
                client.do_work(time.monotonic_ns())
                if not collector.poll(200):
                    client.idle()
            assert is_stopped and collector.messages == feeder.messages
        finally:
            end(pid)
        publication.close()
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while any(one.type_id == 11 and one.owner_id != client.client_id for one in driver.counters):
            assert time.monotonic() < deadline_s, "the client is given up"
            client.do_work(time.monotonic_ns())
            time.sleep(0.01)
        own = {client.client_id, -1, 0}
        assert not [one for one in driver.counters if one.counter_id not in before and one.owner_id not in own]


def test_a_killed_publisher_leaves_a_stream_that_others_write_on(shm_path: Path) -> None:
    """Killed while it holds a claim: what others write behind it is read, whole and in order."""
    with running(shm_path, threading_mode="dedicated", **LIVENESS) as driver, connect(driver) as client:
        subscription = client.add_subscription("aeron:ipc", 10)
        publication = client.add_publication("aeron:ipc", 10)

        def die_with_a_claim(other: TransportClient) -> None:
            shared = other.add_publication("aeron:ipc", 10)
            while shared.offer(b"the last word") < 0:
                other.idle()
            claim = shared.try_claim(100)
            os._exit(0 if claim else 1)

        pid = fork(die_with_a_claim, driver.directory)
        assert os.waitpid(pid, 0)[1] == 0
        feeder = Feeder(publication, 1_000)
        collector = Collector(subscription)
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while len(collector.messages) < 1_001:
            assert time.monotonic() < deadline_s, f"{len(collector.messages)} messages"
            feeder.feed(100)
            client.do_work(time.monotonic_ns())
            if not collector.poll(200):
                client.idle()
        assert collector.messages == [b"the last word", *feeder.messages]
        assert driver.system_counter(19) == 1, "unblocked publications"
