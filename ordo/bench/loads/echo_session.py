"""One client of an echo service, as the benchmarks use it."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping
from struct import Struct

from hdrh.histogram import HdrHistogram

from ordo.bench.loads.latency import new_histogram, record
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ClusterTimeoutError

_HEAD = Struct("<qq")  # number of the message, ns at which it was meant to leave
PAYLOAD_BYTES_MIN = _HEAD.size
POLL_LIMIT = 512
SPINS = 5
TERM_LENGTH_BYTES = 4 * 1024 * 1024  # a window of requests fits into the ingress and into the egress
PARK_NS = 1_000_000
PARK_S = PARK_NS / 1e9
SILENCE_NS = 20_000_000_000


def echo_settings() -> ClientSettings:
    """Terms that hold a window of messages and their answers."""
    return ClientSettings(
        ingress_channel=f"aeron:udp?term-length={TERM_LENGTH_BYTES}", egress_term_length_bytes=TERM_LENGTH_BYTES
    )


class EchoSession(Closing):
    """Sends numbered messages and takes their echoes; each carries the time it was meant to leave.

    `spins` is how often the client polls before it parks.
    """

    def __init__(self, ingress_endpoints: Mapping[int, str], size_bytes: int, *, spins: int = SPINS) -> None:
        if size_bytes < PAYLOAD_BYTES_MIN:
            raise ValueError(f"size_bytes={size_bytes}: at least {PAYLOAD_BYTES_MIN}")
        self._client = ClusterClient(
            dict(ingress_endpoints),
            on_message=self._on_message,
            settings=echo_settings(),
        )
        self._write, self._read = self.writer(size_bytes), self.reader()
        self._spins = spins
        self._times_ns = array("q")
        self.sent = 0
        self.received = 0

    def close(self) -> None:
        self._client.close()

    def writer(self, size_bytes: int) -> Callable[[int, int], bytes]:
        """Return what makes a message of its number and of the time at which it was meant to leave."""
        return Struct(f"{_HEAD.format}{size_bytes - PAYLOAD_BYTES_MIN}x").pack

    def reader(self) -> Callable[[bytes], tuple[int, int]]:
        """Return what gives the number and the time of a message."""
        return _HEAD.unpack_from

    def round_trips(self, count: int) -> HdrHistogram:
        """`count` round trips with one message on the way."""
        self._times_ns = array("q")
        for _ in range(count):
            self._send(time.monotonic_ns())
            self._await(self.sent)
        return self._histogram()

    def pipelined(self, count: int, window: int) -> float:
        """Seconds for `count` messages with up to `window` of them on the way."""
        start_ns = time.monotonic_ns()
        last = self.sent + count
        client, write = self._client, self._write
        waiting_since_ns = start_ns
        while self.received < last:
            before = self.received
            while self.sent < last and self.sent - self.received < window:
                if client.offer(write(self.sent + 1, start_ns)) <= 0:
                    break
                self.sent += 1
            if not client.poll(POLL_LIMIT):
                client.park(PARK_S)
            now_ns = time.monotonic_ns()
            waiting_since_ns = self._check_silence(before, waiting_since_ns, now_ns)
        return (time.monotonic_ns() - start_ns) / 1e9

    def open_loop(self, rate: float, seconds: float) -> HdrHistogram:
        """Messages at a fixed rate whatever comes back; times count from when each was meant to leave."""
        self._times_ns = array("q")
        interval_ns = int(1e9 / rate)
        count = int(rate * seconds)
        first, start_ns = self.sent, time.monotonic_ns()
        waiting_since_ns = start_ns
        while self.received < first + count:
            before, now_ns = self.received, time.monotonic_ns()
            due = min((now_ns - start_ns) // interval_ns + 1, count)
            while self.sent - first < due and self._offer(start_ns + (self.sent - first) * interval_ns):
                pass
            if not self._client.poll(POLL_LIMIT):
                next_ns = (
                    start_ns + (self.sent - first) * interval_ns if self.sent - first < count else now_ns + PARK_NS
                )
                self._client.park(max(0, min(PARK_S, (next_ns - time.monotonic_ns()) / 1e9)))
            waiting_since_ns = self._check_silence(before, waiting_since_ns, time.monotonic_ns())
        return self._histogram()

    def _histogram(self) -> HdrHistogram:
        histogram = new_histogram()
        record(histogram, self._times_ns)
        return histogram

    def _send(self, meant_ns: int) -> None:
        while not self._offer(meant_ns):
            self._client.poll(POLL_LIMIT)

    def _offer(self, meant_ns: int) -> bool:
        if self._client.offer(self._write(self.sent + 1, meant_ns)) <= 0:
            return False
        self.sent += 1
        return True

    def _await(self, number: int) -> None:
        client, spins = self._client, 0
        since_ns = time.monotonic_ns()
        while self.received < number:
            if client.poll(POLL_LIMIT):
                continue
            spins += 1
            if spins > self._spins:
                client.park(PARK_S)
                self._check_silence(self.received, since_ns, time.monotonic_ns())

    def _check_silence(self, before: int, since_ns: int, now_ns: int) -> int:
        """Since when nothing has come; raises ClusterTimeoutError when that is too long ago."""
        if self.received != before:
            return now_ns
        if now_ns - since_ns > SILENCE_NS:
            raise ClusterTimeoutError(f"no echo for {SILENCE_NS // 10**9} s: sent={self.sent} received={self.received}")
        return since_ns

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        number, meant_ns = self._read(payload)
        self.received += 1
        if number != self.received:
            raise ClusterTimeoutError(f"echo number={number}, expected {self.received}: messages were lost")
        self._times_ns.append(time.monotonic_ns() - meant_ns)
