"""How fast one archive records and replays, through shared memory and with a driver in the same thread.

Only the archive's own duty cycles are timed: filling the stream before and emptying it after are left out. With
`sync="commit"` the time runs until everything is on the device. Files are in the system's temporary folder.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ordo.archive.archive import Archive
from ordo.archive.recorder import Recording
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.deploy.launcher import SHARED_MEMORY, SyncMode
from ordo.runtime.errors import ArchiveError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.random import RandomSource
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.udp import UdpNetwork

MEBIBYTE = 1024 * 1024
MESSAGE_BYTES = 1024
CHANNEL = "aeron:ipc?term-length=16m"
RECORDED_STREAM_ID = 10
REPLAYED_STREAM_ID = 11
BACK_PRESSURED = -2
STUCK_AFTER_S = 20.0


@dataclass(frozen=True)
class _Bench:
    driver: MediaDriver
    client: TransportClient
    archive: Archive
    clock: SystemClock


def measure_record_mb_per_s(sync: SyncMode, megabytes: int) -> float:
    """MiB a second of one recording of messages of `MESSAGE_BYTES`, `megabytes` long."""
    with _bench(sync) as bench:
        return round(megabytes / _record(bench, megabytes * MEBIBYTE), 1)


def measure_replay_mb_per_s(megabytes: int) -> float:
    """MiB a second of one replay to one subscriber; every checksum is verified on the way."""
    with _bench("none") as bench:
        _record(bench, megabytes * MEBIBYTE)
        return round(megabytes / _replay(bench), 1)


def _record(bench: _Bench, length_bytes: int) -> float:
    """Has the archive record that many bytes, and returns the seconds that it took."""
    bench.archive.record_subscription(CHANNEL, RECORDED_STREAM_ID)
    publication = bench.client.add_exclusive_publication(CHANNEL, RECORDED_STREAM_ID)
    payload = bytes(MESSAGE_BYTES)
    while publication.offer(payload) <= 0:
        _drive(bench)
        bench.archive.do_work(bench.clock.now())
    recording = bench.archive.recording(bench.archive.recordings()[-1].recording_id)
    assert recording is not None
    seconds, end_position = 0.0, publication.position
    while publication.position < length_bytes:
        while publication.position < length_bytes and (result := publication.offer(payload)) != BACK_PRESSURED:
            end_position = max(end_position, result)  # a PAD behind the last message does not become durable
        seconds += _record_until(bench, recording, end_position)
        _drive(bench)
    publication.close()
    while bench.archive.recording(recording.recording_id) is not None:
        _drive(bench)
        bench.archive.do_work(bench.clock.now())
    return seconds


def _replay(bench: _Bench) -> float:
    """Seconds the archive took to replay the last recording."""
    recording_id = bench.archive.recordings()[-1].recording_id
    length_bytes = bench.archive.descriptor(recording_id).stop_position
    subscription = bench.client.add_subscription(CHANNEL, REPLAYED_STREAM_ID)
    ended: list[Any] = []
    bench.archive.replay(
        recording_id, channel="aeron:ipc", stream_id=REPLAYED_STREAM_ID, on_end=lambda *end: ended.append(end)
    )
    seconds, received_bytes = 0.0, 0

    def count(block: memoryview, *_: object) -> None:
        nonlocal received_bytes
        received_bytes += len(block)

    deadline_s = time.monotonic() + STUCK_AFTER_S
    while received_bytes < length_bytes:
        start_s = time.perf_counter()
        while bench.archive.do_work(bench.clock.now()) and not ended:
            pass
        seconds += time.perf_counter() - start_s
        _drive(bench)
        while subscription.block_poll(count, MEBIBYTE):
            pass
        if time.monotonic() > deadline_s:
            raise ArchiveError(f"the replay stands still at {received_bytes} of {length_bytes} bytes")
    return seconds


def _record_until(bench: _Bench, recording: Recording, position: int) -> float:
    """Seconds of the archive's duty cycles until everything up to `position` is as durable as the sync mode has it."""
    start_s = time.perf_counter()
    while recording.durable_position < position:
        bench.archive.do_work(bench.clock.now())
        if time.perf_counter() - start_s > STUCK_AFTER_S:
            raise ArchiveError(f"the recording stands still at {recording.durable_position} of {position}")
    return time.perf_counter() - start_s


def _drive(bench: _Bench) -> None:
    """Run a few duty cycles of the driver and the client."""
    for _ in range(3):
        bench.driver.do_work(bench.clock.now())
        bench.client.do_work(bench.clock.now())


@contextmanager
def _bench(sync: SyncMode) -> Iterator[_Bench]:
    clock, memory = SystemClock(), FileMemoryProvider()
    folder = Path(tempfile.mkdtemp(prefix="ordo-bench-"))
    aeron_dir = SHARED_MEMORY / folder.name
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(shutil.rmtree, aeron_dir, ignore_errors=True)
        driver = MediaDriver(
            MediaDriverSettings(directory=str(aeron_dir)),
            clock=clock,
            network=UdpNetwork(),
            memory=memory,
            random=RandomSource(),
        )
        driver.on_start()
        stack.callback(driver.on_close)
        client = TransportClient(
            str(aeron_dir), clock=clock, memory=memory, invoker=lambda: driver.do_work(clock.now()), name="bench"
        )
        stack.callback(client.close)
        archive = Archive(str(folder), storage=FileStorage(open_lmdb), clock=clock, client=client, sync=sync)
        stack.callback(archive.close)
        yield _Bench(driver, client, archive, clock)
