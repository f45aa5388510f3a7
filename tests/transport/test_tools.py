"""`ordo streams`, `backlog`, `loss` and `log-inspect` against drivers and files made here."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.runtime.errors import StorageMissingError, TransportError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import CounterDescriptor
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.control.cnc import create_cnc
from ordo.transport.driver.flow.loss_report import FILE_NAME as LOSS_FILE_NAME
from ordo.transport.driver.flow.loss_report import LossReport
from ordo.transport.inspection import driver_folder
from ordo.transport.inspection.log_inspector import LogInspector
from ordo.transport.inspection.stream_positions import UNKNOWN, Backlog, backlogs, stream_counters
from ordo.transport.streams.logbuffer import LOG_TYPE_EXCLUSIVE, LOG_TYPE_IMAGE, create_log
from tests.cluster.integration.agreement import await_that
from tests.transport.driver_world import Collector, Feeder
from tests.transport.test_driver_threads import connect, exchange, running

TERM_LENGTH = 64 << 10


def stream_key(registration_id: int, channel: str, session_id: int = 7, stream_id: int = 10) -> bytes:
    text = channel.encode()
    return struct.pack("<qiii", registration_id, session_id, stream_id, len(text)) + text


def counter(
    type_id: int, name: str, registration_id: int, value: int, channel: str, reference: int = 0
) -> CounterDescriptor:
    key = stream_key(registration_id, channel)
    return CounterDescriptor(
        0, type_id, key, f"{name}: {registration_id} 7 10 {channel}", value, registration_id, -1, reference
    )


def test_backlogs_are_of_the_same_stream_and_image() -> None:
    """Two images of one session, from two channels: each subscriber goes by its own."""
    sent, near, far = "aeron:udp?control-mode=manual", "aeron:udp?endpoint=a:1", "aeron:udp?endpoint=b:1"
    counters = [
        counter(12, "pub-pos (exclusive)", 1, 1000, sent),
        counter(1, "pub-lmt", 1, 5000, sent),
        counter(2, "snd-pos", 1, 900, sent),
        counter(9, "snd-lmt", 1, 950, sent),
        counter(3, "rcv-hwm", 2, 900, near),
        counter(5, "rcv-pos", 2, 800, near),
        counter(4, "sub-pos", 8, 700, near, reference=2),
        counter(3, "rcv-hwm", 3, 500, far),
        counter(5, "rcv-pos", 3, 500, far),
        counter(4, "sub-pos", 9, 500, far),
        counter(11, "client-heartbeat", 4, 1, "x"),
    ]
    found = {(one.party, one.registration_id): one for one in backlogs(stream_counters(counters))}
    assert found["publisher", 1] == Backlog(10, 7, "publisher", 1, 1000, UNKNOWN, 4000, sent)
    assert found["sender", 1] == Backlog(10, 7, "sender", 1, 900, 100, 50, sent)
    assert found["receiver", 2] == Backlog(10, 7, "receiver", 2, 800, 100, UNKNOWN, near)
    assert found["subscriber", 8].behind_bytes == 200
    assert found["subscriber", 9].behind_bytes == 0, "a driver that names no image: by channel"
    assert len(found) == 6


def test_a_key_that_is_no_streams_is_passed_over() -> None:
    short = CounterDescriptor(0, 2, b"\1\2", "snd-pos: odd", 5, 1, 1, 0)
    negative = CounterDescriptor(0, 2, struct.pack("<qiii", 1, 2, 3, -9), "snd-pos: odd", 5, 1, 1, 0)
    assert [one.channel for one in stream_counters([short, negative])] == [""]


def test_streams_and_backlog_of_a_running_driver(
    shm_path: Path, free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with running(shm_path, threading_mode="dedicated") as driver, connect(driver) as client:
        channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
        subscription = client.add_subscription(channel, 10)
        publication = client.add_publication(channel, 10)
        collector = Collector(subscription)
        exchange(client, [Feeder(publication, 5)], [collector])
        while publication.offer(b"x" * 1000) < 0:
            pass
        folder = Path(driver.directory)
        position = publication.position
        await_that(lambda: found_backlog(folder, "sender").behind_bytes == 0, "all is sent")
        await_that(lambda: found_backlog(folder, "receiver").position == position, "all is received")
        assert found_backlog(folder, "subscriber").behind_bytes == 1056
        assert found_backlog(folder, "publisher").position == position
        assert run(["streams", "--dir", str(folder)]) == 0
        assert f"{position:,}" in capsys.readouterr().out
        assert run(["backlog", "--dir", str(folder)]) == 0
        assert "1,056" in capsys.readouterr().out


def found_backlog(folder: Path, party: str) -> Backlog:
    return next(one for one in backlogs(driver_folder.read_streams(folder)) if one.party == party)


def test_a_trace_of_a_running_driver(shm_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(shm_path, threading_mode="dedicated") as driver, connect(driver) as client:
        publication = client.add_publication("aeron:udp?endpoint=127.0.0.1:1", 77)
        arguments = ["trace", "--dir", driver.directory, "--duration", "0.3"]
        setup = f"frame_length=40 flags=00000000 term_offset=0 session_id={publication.session_id} stream_id=77"

        def shows_setup() -> bool:
            """A sender that is held up sends it later."""
            assert run([*arguments, "--events", "frames-out"]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert all(" out " in line for line in lines)
            return any(f"out SETUP length_bytes=40 {setup}" in line for line in lines)

        await_that(shows_setup, "a set-up in the trace")
        assert run([*arguments, "--events", "frames-in,thoughts"]) == 2
        assert "--events frames-in,thoughts: must be all, or some of frames-in" in capsys.readouterr().err


def test_a_folder_without_a_driver_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["streams"], ["backlog"], ["loss"], ["trace"], ["driver", "pid"]):
        assert run([*command, "--dir", str(tmp_path)]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
    with pytest.raises(StorageMissingError, match="give a driver's folder"):
        driver_folder.read_streams(tmp_path)


def test_tools_read_what_a_dead_driver_left(tmp_path: Path) -> None:
    memory = FileMemoryProvider()
    cnc = create_cnc(memory, f"{tmp_path}/cnc.dat", client_liveness_timeout_ns=1, start_timestamp_ms=1, pid=4711)
    cnc.mark_ready(1)
    cnc.close()
    assert driver_folder.driver_pid(tmp_path) == 4711
    assert driver_folder.read_streams(tmp_path) == []


def test_a_file_that_its_driver_is_still_making_is_told_from_none(tmp_path: Path) -> None:
    create_cnc(
        FileMemoryProvider(), f"{tmp_path}/cnc.dat", client_liveness_timeout_ns=1, start_timestamp_ms=1, pid=1
    ).close()
    with pytest.raises(StorageMissingError, match=r"cnc\.dat is not whole: its driver is about to start"):
        driver_folder.read_streams(tmp_path)


def test_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Image:
        correlation_id, session_id, stream_id = 5, -7, 10
        channel, source_identity = "aeron:udp?endpoint=a:1", "10.0.0.1:4711"

    memory = FileMemoryProvider().create(str(tmp_path / LOSS_FILE_NAME), 1 << 16)
    report = LossReport(memory, SystemClock())
    for length in (1408, 64):
        report.record(Image, length)
    (entry,) = driver_folder.read_loss_report(tmp_path)
    assert (entry.observation_count, entry.total_bytes_lost, entry.session_id) == (2, 1472, -7)
    assert run(["loss", "--dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1,472" in printed and "10.0.0.1:4711" in printed and "aeron:udp?endpoint=a:1" in printed
    memory.close()


# --- log buffers ------------------------------------------------------------------------------------------------------


@pytest.fixture
def log_path(tmp_path: Path) -> Iterator[Path]:
    """A log in its second term: two frames in it, a PAD at the end of the first."""
    path = tmp_path / "1.logbuffer"
    log = create_log(
        FileMemoryProvider(), str(path), term_length=TERM_LENGTH, mtu=1408, initial_term_id=5, session_id=7,
        stream_id=10, correlation_id=1, log_type=LOG_TYPE_EXCLUSIVE, term_id=6, term_offset=96,
    )  # fmt: skip
    with log.view() as view:
        put_frame(view, 0, TERM_LENGTH - 64, 64, kind=0, term_id=5)
        put_frame(view, TERM_LENGTH, 0, 40, term_id=6, payload=b"abcdefgh")
        put_frame(view, TERM_LENGTH, 64, 32, term_id=6)
    log.close()
    yield path


def put_frame(
    view: memoryview, base: int, offset: int, length: int, *, term_id: int, kind: int = 1, payload: bytes = b""
) -> None:
    struct.pack_into("<iBBHiiiiq", view, base + offset, length, 0, 0xC0, kind, offset, 7, 10, term_id, 99)
    view[base + offset + 32 : base + offset + 32 + len(payload)] = payload


def test_a_log_is_described_with_its_frames(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspector = LogInspector(str(log_path))
    described = dict(inspector.describe())
    assert (described["kind"], described["term length"], described["end of stream"], described["revoked"]) == (
        "exclusive publication", "65,536", "not yet", "no",
    )  # fmt: skip
    assert [(term.term_id, term.position) for term in inspector.terms()][1] == (6, TERM_LENGTH + 96)
    (pad,) = inspector.frames(0, 100)
    assert (pad.type_name, pad.offset, pad.payload) == ("PAD", TERM_LENGTH - 64, b"")
    first, second = inspector.frames(1, 3)
    assert (first.payload, first.reserved_value, first.frame_length, second.offset) == (b"abc", 99, 40, 64)
    assert list(inspector.frames(2, 100)) == []
    inspector.close()
    assert run(["log-inspect", str(log_path), "--payload", "8"]) == 0
    assert "6162636465666768" in capsys.readouterr().out
    assert run(["log-inspect", str(log_path), "--no-frames"]) == 0
    assert "DATA" not in capsys.readouterr().out


@pytest.mark.parametrize("length", [1, 31, TERM_LENGTH + 32, (1 << 31) - 1])
def test_a_length_that_cannot_be_ends_it(length: int, log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = LogInspector(str(log_path))
    log.close()
    with log_path.open("r+b") as file:
        file.seek(TERM_LENGTH + 64)
        file.write(struct.pack("<i", length))
    inspector = LogInspector(str(log_path))
    with pytest.raises(TransportError, match=f"frame_length={length}"):
        list(inspector.frames(1, 10))
    inspector.close()
    assert run(["log-inspect", str(log_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_unfinished_frame_ends_the_term(log_path: Path) -> None:
    with log_path.open("r+b") as file:
        file.seek(TERM_LENGTH + 64)
        file.write(struct.pack("<i", -32))
    inspector = LogInspector(str(log_path))
    assert len(list(inspector.frames(1, 10))) == 1
    inspector.close()


def test_an_image_joined_in_the_middle_of_a_term(tmp_path: Path) -> None:
    path = tmp_path / "2.logbuffer"
    log = create_log(
        FileMemoryProvider(), str(path), term_length=TERM_LENGTH, mtu=1408, initial_term_id=5, session_id=7,
        stream_id=10, correlation_id=1, log_type=LOG_TYPE_IMAGE,
    )  # fmt: skip
    with log.view() as view:
        put_frame(view, 0, 4096, 96, term_id=5, payload=b"\x20\0\0\0\0\0\1\0" * 8)
    log.close()
    inspector = LogInspector(str(path))
    assert [frame.offset for frame in inspector.frames(0, 0)] == [4096]
    assert dict(inspector.describe())["kind"] == "image"
    inspector.close()


@pytest.mark.parametrize("content", [b"", b"x" * 100, bytes(3 * TERM_LENGTH + 4096)])
def test_a_file_that_is_no_log_is_one_line(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    assert run(["log-inspect", str(path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
