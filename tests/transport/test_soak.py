"""A driver under hours of loss, slow and dead readers, and writers killed in the middle of an offer.

`make test SUITE=soak` has five minutes of it each night; `make soak MINUTES=60` is the long form.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from tests.peers.relay import LossyRelay
from tests.transport.test_driver_threads import program
from tests.transport.test_subscribers import end, fork

MINUTES = float(os.environ.get("SOAK_MINUTES", "0.25"))
pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(int(MINUTES * 60) + 150)]
LOSS = 0.01
MEASURE_S = 2.0
POLLS_PER_S = 500
LENGTH_BYTES = 200
PATIENCE_S = 60.0
GROWTH_BYTES_MAX = 16 << 20
STREAM_ID, SHARED_STREAM_ID = 10, 11
COUNTER_OF_CLIENT = 11


class Digest:
    """What came or went, as its number and hash."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, payload: bytes) -> None:
        self.count += 1
        self._hash.update(payload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and self._hash.digest() == other._hash.digest()

    __hash__ = None  # type: ignore[assignment]


class Soak:
    """One publisher that is paced, one reader beside it, and others that come to harm."""

    def __init__(self, client: TransportClient, port: int, relayed_port: int, seed: int) -> None:
        self.client = client
        self.channel = f"aeron:udp?endpoint=127.0.0.1:{port}"
        self.sent, self.received = Digest(), Digest()
        self.whole = 0
        self.random = random.Random(seed)
        self._subscription = client.add_subscription(self.channel, STREAM_ID)
        self._shared = client.add_subscription("aeron:ipc", SHARED_STREAM_ID)
        self._publication = client.add_exclusive_publication(
            f"aeron:udp?endpoint=127.0.0.1:{relayed_port}|term-length=256k", STREAM_ID
        )
        self.rate = 0.0
        """Messages a second: half of what came through in a first while without a pace."""
        self._began_s = time.monotonic()
        self._before = 0
        self.run(lambda: self._publication.is_connected)
        self.find_rate()

    def find_rate(self) -> None:
        self.rate = float("inf")
        until_s = time.monotonic() + MEASURE_S
        self.run(lambda: time.monotonic() > until_s)
        self.rate, self._before, self._began_s = self.received.count / MEASURE_S / 2, self.sent.count, time.monotonic()

    def run(self, until: Callable[[], object], paced: bool = True) -> None:
        deadline_s = time.monotonic() + max(PATIENCE_S, MINUTES * 60 + PATIENCE_S)
        while not until():
            assert time.monotonic() < deadline_s, f"sent={self.sent.count} received={self.received.count}"
            work = self._subscription.poll(lambda payload, _: self.received.add(bytes(payload)), 100)
            work += self._shared.poll(self._on_shared, 100)
            work += self._offer() if paced else 0
            self.client.do_work(time.monotonic_ns())
            if not work:
                self.client.idle()

    def _offer(self) -> int:
        if self.sent.count - self._before > (time.monotonic() - self._began_s) * self.rate:
            return 0
        payload = self.sent.count.to_bytes(8, "little") * (LENGTH_BYTES // 8)
        if self._publication.offer(payload) < 0:
            return 0
        self.sent.add(payload)
        return 1

    def _on_shared(self, payload: bytes, _header: object) -> None:
        """A message of a writer that may be dead by now: it is whole, or it is not there."""
        text = bytes(payload)
        assert len(text) == LENGTH_BYTES and text == text[:8] * (LENGTH_BYTES // 8)
        self.whole += 1

    def counters(self) -> int:
        return sum(1 for _ in self.client.counters)

    def clients(self) -> int:
        return sum(one.type_id == COUNTER_OF_CLIENT for one in self.client.counters)


def read_slowly(channel: str, rate: float) -> Callable[[TransportClient], object]:
    """A reader that sleeps most of the time, and keeps up only just."""
    limit = 2 + int(2 * rate / POLLS_PER_S)

    def work(client: TransportClient) -> None:
        subscription = client.add_subscription(channel, STREAM_ID)
        while True:
            subscription.poll(lambda *_: None, limit)
            client.do_work(time.monotonic_ns())
            time.sleep(1 / POLLS_PER_S)

    return work


def write_for_ever(client: TransportClient) -> None:
    """Offers as fast as it can, so that it dies in the middle of one."""
    publication = client.add_publication("aeron:ipc", SHARED_STREAM_ID)
    number = 0
    while True:
        claim = publication.try_claim(LENGTH_BYTES) if number % 2 else None
        payload = number.to_bytes(8, "little") * (LENGTH_BYTES // 8)
        if claim:
            claim.buffer[:] = payload
            claim.commit()
        elif claim is None:
            publication.offer(payload)
        number += 1
        if number % 64 == 0:
            client.do_work(time.monotonic_ns())


def one_round(soak: Soak, folder: str) -> None:
    """A slow reader, one that stands still, one that is killed, and a writer that is killed; then all is as before."""
    before, whole = soak.counters(), soak.whole
    slow, stopped, dead = (fork(read_slowly(soak.channel, soak.rate), folder) for _ in range(3))
    writer = fork(write_for_ever, folder)
    try:
        soak.run(lambda: soak.clients() == 5 and soak.whole > whole)
        until_s = time.monotonic() + soak.random.uniform(0.2, 1.0)
        soak.run(lambda: time.monotonic() > until_s)
        os.kill(stopped, signal.SIGSTOP)
        received = soak.received.count
        for pid in (writer, dead):
            os.kill(pid, signal.SIGKILL)
        soak.run(lambda: soak.received.count > received + soak.rate)
    finally:
        for pid in (slow, stopped, dead, writer):
            end(pid)
    soak.run(lambda: soak.clients() == 1 and soak.counters() == before)


def memory_bytes(pid: int) -> int:
    """What a process has in memory of its own, shared files left out."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


def test_others_go_on_and_nothing_is_left_behind(shm_path: Path, tmp_path: Path, free_port: Callable[[], int]) -> None:
    settings = tmp_path / "driver.toml"
    settings.write_text(
        'client_liveness_timeout = "2s"\npublication_unblock_timeout = "3s"\ntimer_interval = "20ms"\n'
        'term_length = "256k"\nipc_term_length = "256k"\n'
    )
    folder, port = shm_path / "driver", free_port()
    with (
        program(folder, "--threads", "dedicated", "--config", str(settings)) as driver,
        LossyRelay(port, loss=LOSS) as relay,
        TransportClient(str(folder), clock=SystemClock(), memory=FileMemoryProvider()) as client,
    ):
        soak = Soak(client, port, relay.port, seed=1)
        deadline_s = time.monotonic() + MINUTES * 60
        one_round(soak, str(folder))
        memory = memory_bytes(driver.pid)
        rounds = 1
        while rounds < 2 or time.monotonic() < deadline_s:
            one_round(soak, str(folder))
            rounds += 1
        soak.run(lambda: soak.received.count == soak.sent.count, paced=False)
        assert soak.received == soak.sent
        assert relay.dropped > 0
        assert memory_bytes(driver.pid) < memory + GROWTH_BYTES_MAX
        counted = f"{rounds} rounds, {soak.sent.count} messages at {soak.rate:.0f} a second"
        print(f"\n{counted}, {relay.dropped} datagrams lost, {soak.whole} of writers")
