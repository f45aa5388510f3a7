"""Several processes write to one log and one ring in shared memory: nothing is lost, torn or reordered."""

import struct
import subprocess
import sys
import time
from pathlib import Path

from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import Counter, CountersManager
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.control.cnc import create_cnc
from ordo.transport.control.ring import ManyToOneRing
from ordo.transport.streams.image import Image
from ordo.transport.streams.logbuffer import LOG_TYPE_CONCURRENT, LogBuffers, create_log
from tests.patience import patient
from tests.transport.logs import TERM_LENGTH
from tests.transport.writer import message

WRITERS = 4
MESSAGES = 3_000
TIMEOUT_S = 60


def test_concurrent_writers(tmp_path: Path) -> None:
    memory = FileMemoryProvider()
    cnc = create_cnc(memory, f"{tmp_path}/cnc.dat", client_liveness_timeout_ns=1, start_timestamp_ms=1, pid=1)
    counters = CountersManager(cnc.counters_metadata, cnc.counters_values, SystemClock())
    limit = counters.allocate(1, "limit")
    log = create_log(
        memory,
        f"{tmp_path}/1.logbuffer",
        term_length=TERM_LENGTH,
        mtu=1408,
        initial_term_id=-5,
        session_id=1,
        stream_id=2,
        correlation_id=1,
        log_type=LOG_TYPE_CONCURRENT,
    )
    log.connected = True
    cnc.mark_ready(1)
    image = Image(log, counters.allocate(4, "position"))
    command = [sys.executable, "-m", "tests.transport.writer", str(tmp_path)]
    writers = [subprocess.Popen([*command, str(number), str(MESSAGES)]) for number in range(WRITERS)]
    try:
        received = read(image, log, limit)
        ids = read_ring(cnc.to_driver)
        assert [writer.wait(TIMEOUT_S) for writer in writers] == [0] * WRITERS
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    for number in range(WRITERS):
        mine = [payload for payload in received if struct.unpack_from("<i", payload)[0] == number]
        assert mine == [message(number, i) for i in range(MESSAGES)]
    assert len(received) == WRITERS * MESSAGES
    assert sorted(ids) == list(range(1, WRITERS * MESSAGES // 10 + 1))
    assert log.term_count > 100


def read(image: Image, log: LogBuffers, limit: Counter) -> list[bytes]:
    received: list[bytes] = []
    cleaned = 0
    deadline = time.monotonic() + patient(TIMEOUT_S)
    limit.set(TERM_LENGTH // 2)
    while len(received) < WRITERS * MESSAGES:
        assert time.monotonic() < deadline, f"{len(received)} messages at {image}"
        if not image.poll_messages(lambda payload, _: received.append(payload), 50):
            time.sleep(0)
            continue
        while cleaned < image.position - TERM_LENGTH:
            cleaned = log.clean_range(cleaned, image.position - TERM_LENGTH)
        limit.set(image.position + TERM_LENGTH // 2)
    return received


def read_ring(ring: ManyToOneRing) -> list[int]:
    """The correlation ids that the writers took; each writer's messages come in its order."""
    ids = []
    expected = [0] * WRITERS

    def on_message(type_id: int, payload: bytes) -> None:
        number, correlation_id = struct.unpack("<iq", payload)
        assert number == expected[type_id - 1]
        expected[type_id - 1] += 1
        ids.append(correlation_id)

    deadline = time.monotonic() + patient(TIMEOUT_S)
    while len(ids) < WRITERS * MESSAGES // 10:
        assert time.monotonic() < deadline
        if not ring.read(on_message, 100):
            time.sleep(0)
    return ids
