"""One end of a pair of streams through Ordo's transport, as a process that is told what to measure by lines.

    python -m benchmarks.stream_peer near|far FOLDER launch|attach CHANNEL_OUT CHANNEL_IN LONGEST_BYTES

It prints `ready` when both streams are connected. The near end then takes lines: `trips BYTES MS` (round trips, one on
the way; prints `trips COUNT P50_NS P99_NS`), `stream BYTES MS` (as fast as it goes; prints `stream COUNT NS`), and
`batch BYTES MS`, the same from plain Python with `offer_many` (prints `batch COUNT NS`). The far end counts and
answers. Both end with their standard input. The driver runs on the thread of its client, as in the other side of the
comparison.
"""

from __future__ import annotations

import select
import sys
import time
from array import array

from ordo.bench.loads.stream_native import BATCH_BYTES, BATCH_MAX, StreamPeer
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.streams.publication import Publication

STREAMS = {"near": (1001, 1002), "far": (1002, 1001)}
"""What an end sends on, and what it receives."""
WINDOW_BYTES = 1 << 20
SOCKET_BUFFER_BYTES = 2 << 20
SLICE_NS = 20_000_000
QUIET_S = 0.001
SAMPLES_MAX = 1 << 20


def launch(directory: str) -> MediaDriver:
    """A driver for this thread."""
    config = MediaDriverSettings(
        directory=directory,
        delete_directory_on_start=True,
        receiver_window=WINDOW_BYTES,
        socket_rcvbuf=SOCKET_BUFFER_BYTES,
        socket_sndbuf=SOCKET_BUFFER_BYTES,
    )
    driver = MediaDriver(config, clock=SystemClock())
    driver.on_start()
    return driver


def is_ended(wait_s: float) -> bool:
    """Whether there is something to read: a command, or the end of the standard input."""
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


def batch(peer: StreamPeer, publication: Publication, length_bytes: int, duration_ns: int) -> tuple[int, int]:
    """Sends from plain Python with `offer_many`: messages, and the ns until the far end had all of them."""
    payloads = [bytes(length_bytes)] * max(1, min(BATCH_MAX, BATCH_BYTES // length_bytes))
    start_ns = time.monotonic_ns()
    end_ns = start_ns + duration_ns
    sent = 0
    while time.monotonic_ns() < end_ns:
        sent += publication.offer_many(payloads)
        peer.cycle()
    peer.await_all(length_bytes, sent)
    return sent, time.monotonic_ns() - start_ns


def obey(peer: StreamPeer, publication: Publication) -> None:
    """Does what the lines of the standard input say, until it ends."""
    times_ns = array("q", bytes(8 * SAMPLES_MAX))
    while True:
        while not is_ended(QUIET_S):
            peer.cycle()
        words = sys.stdin.readline().split()
        if not words:
            return
        length_bytes, duration_ns = int(words[1]), int(words[2]) * 1_000_000
        if words[0] == "trips":
            count = peer.round_trips(length_bytes, duration_ns, times_ns)
            ordered = sorted(times_ns[:count])
            print("trips", count, ordered[count // 2], ordered[count * 99 // 100], flush=True)
        elif words[0] == "stream":
            print("stream", *peer.stream(length_bytes, duration_ns), flush=True)
        else:
            print("batch", *batch(peer, publication, length_bytes, duration_ns), flush=True)


def main(end: str, directory: str, how: str, channel_out: str, channel_in: str, longest_bytes: str) -> None:
    clock = SystemClock()
    driver = launch(directory) if how == "launch" else None
    try:
        with TransportClient(
            directory,
            clock=clock,
            memory=FileMemoryProvider(),
            invoker=None if driver is None else lambda: driver.do_work(clock.now()),
        ) as client:
            stream_out, stream_in = STREAMS[end]
            subscription = client.add_subscription(channel_in, stream_in)
            publication = client.add_exclusive_publication(channel_out, stream_out)
            peer = StreamPeer(int(longest_bytes), client, driver, subscription, publication)
            while not (publication.is_connected and subscription.is_connected):
                if is_ended(QUIET_S):
                    return
                peer.cycle()
            print("ready", flush=True)
            if end == "near":
                obey(peer, publication)
            while end == "far" and not is_ended(0):
                peer.serve(SLICE_NS)
    finally:
        if driver is not None:
            driver.on_close()


if __name__ == "__main__":
    main(*sys.argv[1:])
