"""`ordo archive serve` as a process, and plain clients of it."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client.client import ArchiveClient
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codecs import SCHEMAS
from ordo.archive.protocol.codes import ErrorCode
from ordo.cli import run
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, ConfigurationError
from ordo.runtime.sbe import decode_one_of
from ordo.runtime.security.tokens import new_token
from ordo.transport.streams.subscription import NULL_COUNTER_ID
from tests.archive.served import STREAM, Served, record, token_table
from tests.patience import patient


@pytest.mark.parametrize("is_local", [False, True], ids=["udp", "ipc"])
def test_a_client_records_and_gets_back_what_it_sent(
    served: Served, free_port: Callable[[], int], is_local: bool
) -> None:
    sent = [bytes([number % 256]) * (number % 3000) for number in range(300)]
    channel = "aeron:ipc?alias=test" if is_local else f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    with served.connect(is_local=is_local) as client:
        recording_id = record(client, channel, sent, local=is_local)
        assert [message.payload for message in client.replay(recording_id)] == sent
        descriptor = client.describe_recording(recording_id)
        assert descriptor is not None
        assert descriptor.stop_position == client.stop_position(recording_id)
        with pytest.raises(ArchiveError, match="is not a multiple of 32") as refused:
            client.truncate_recording(recording_id, 33)
        assert refused.value.code == ErrorCode.INVALID_POSITION
        assert client.purge_recording(recording_id) > 0
        assert client.list_recordings() == []
    assert "archive.serving" in served.stop()
    assert served.process.returncode == 0
    assert not served.aeron_dir.exists()


@pytest.mark.parametrize("is_local", [False, True], ids=["udp", "ipc"])
def test_terms_of_128_mib_are_recorded(
    tmp_path: Path, shm_path: Path, free_port: Callable[[], int], is_local: bool
) -> None:
    """By the archive's driver, and by that of a client to which they are replayed."""
    channel = "aeron:ipc?alias=long" if is_local else f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    archive = Served(free_port(), tmp_path / "archive", shm_path / "driver", "--segment-length", "128m")
    with archive as served, served.connect(is_local=is_local) as client:
        recording_id = record(client, channel, [b"one", b"two"], local=is_local, term_length="128m")
        assert [message.payload for message in client.replay(recording_id)] == [b"one", b"two"]
        descriptor = client.describe_recording(recording_id)
        assert descriptor is not None and descriptor.term_length == 128 << 20


def test_recordings_are_there_after_the_archive_was_killed(served: Served, free_port: Callable[[], int]) -> None:
    sent = [b"%d" % number for number in range(1000)]
    with served.connect() as client:
        record(client, f"aeron:udp?endpoint=127.0.0.1:{free_port()}", sent, local=False)
    served.stop(signal.SIGKILL)
    served.start()
    with served.connect() as client:
        assert [message.payload for message in client.replay(0)] == sent
        check_a_loop_that_is_left_early(client, sent)


def check_a_loop_that_is_left_early(client: ArchiveClient, sent: list[bytes]) -> None:
    """What was polled with the message at which a loop ends is there for the next one, and for `poll`."""
    with client.open_replay(0) as stream:
        got = [message.payload for message in islice(stream.messages(), 300)]
        with client.open_replay(0, position=stream.position) as another:
            assert next(another.messages()).payload == sent[len(got)]
        first = next(stream.messages())
        assert stream.position == first.position
        stream.poll(lambda message: got.extend([first.payload, message.payload]), 1)
        got += [message.payload for message in stream.messages()]
        assert stream.is_done
    assert got == sent


def test_two_archives_do_not_share_a_folder(served: Served, tmp_path: Path, free_port: Callable[[], int]) -> None:
    served.connect().close()
    other = Served(free_port(), served.folder, tmp_path / "other-driver")
    log = other.process.communicate(timeout=patient(30))[1]
    assert other.process.returncode == 1
    assert "in use" in log or "another" in log
    assert "Traceback" not in log


def test_a_port_that_is_taken_is_one_line(served: Served, tmp_path: Path) -> None:
    served.connect().close()
    other = Served(int(served.address.rpartition(":")[2]), tmp_path / "other", tmp_path / "other-driver")
    log = other.process.communicate(timeout=patient(30))[1]
    assert other.process.returncode == 1
    assert "Traceback" not in log
    assert served.address in log


def test_an_archive_uses_a_driver_that_runs_and_ends_with_it(
    tmp_path: Path, shm_path: Path, free_port: Callable[[], int]
) -> None:
    """Clients of that driver reach it over IPC, others over UDP."""
    folder = shm_path / "driver"
    driver = subprocess.Popen([sys.executable, "-m", "ordo.cli", "driver", "--dir", str(folder)])
    served = Served(free_port(), tmp_path / "archive", folder, "--no-own-driver")
    try:
        for is_local in (True, False):
            with served.connect(is_local=is_local) as client:
                channel = "aeron:ipc?alias=test" if is_local else f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
                recording_id = record(client, channel, [b"one", b"two"], local=is_local)
                assert [message.payload for message in client.replay(recording_id)] == [b"one", b"two"]
        driver.terminate()
        assert driver.wait(patient(30)) == 0
        log = served.process.communicate(timeout=patient(60))[1]
        assert served.process.returncode == 1
        assert "archive cannot be used any more: the driver" in log and "Traceback" not in log
    finally:
        served.stop(signal.SIGKILL)
        driver.kill()
        driver.wait()


def test_the_keys_of_a_driver_that_runs_are_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["archive", "serve", str(tmp_path), "--no-own-driver", "--key-file", "k", "--trusted-file", "t"]) == 2
    assert "it is the driver that encrypts, give it the keys" in capsys.readouterr().err


def test_nobody_there(free_port: Callable[[], int]) -> None:
    with pytest.raises(ArchiveTimeoutError, match="is it running"):
        ArchiveClient.connect(f"127.0.0.1:{free_port()}", message_timeout_s=0.3)
    with pytest.raises(ConfigurationError, match="message_timeout_s"):
        ArchiveClient.connect("127.0.0.1:1", message_timeout_s=0)


def test_tokens_say_who_may_record_and_who_may_read(
    tmp_path: Path, shm_path: Path, free_port: Callable[[], int]
) -> None:
    writer, reader = new_token(), new_token()
    file = tmp_path / "tokens.toml"
    file.write_text(token_table("writer", writer, "log", "record") + token_table("reader", reader, "log"))
    served = Served(free_port(), tmp_path / "archive", shm_path / "driver", "--tokens-file", str(file))
    try:
        with served.connect(credentials=writer.encode()) as client:
            record(client, f"aeron:udp?endpoint=127.0.0.1:{free_port()}", [b"one", b"two"], local=False)
            with pytest.raises(ArchiveError, match="do not have the role delete"):
                client.purge_recording(0)
        with served.connect(credentials=reader.encode()) as client:
            assert [message.payload for message in client.replay(0)] == [b"one", b"two"]
            with pytest.raises(ArchiveError, match="do not have the role record"):
                client.start_recording("aeron:ipc", STREAM)
        with pytest.raises(ArchiveError, match="authentication rejected"):
            served.connect()
    finally:
        log = served.stop()
    assert "PurgeRecordingRequest is refused" in log
    assert "authentication rejected" in log


def test_counters_say_what_an_archive_does(served: Served) -> None:
    """By the type ids of Aeron's archives, for its tools and for programs that look for them."""
    with served.connect(is_local=True) as client:
        counters = client.transport.counters

        def value(type_id: int) -> int:
            return counters.get_value(counters.find(type_id))

        record(client, "aeron:ipc?alias=counted", [bytes(1000)] * 100, local=True)
        stop = client.stop_position(0)
        until(client, lambda: value(106) == stop)
        until(client, lambda: counters.find(113) != NULL_COUNTER_ID and value(113) != 0)
        session = counters.describe(counters.find(113))
        assert session is not None
        assert session.label.startswith("control-session: name=")
        assert session.label.endswith(f" - archiveId={client.archive_id}")
        assert session.key[:16] == struct.pack("<qq", client.archive_id, session.value)
        assert session.reference_id > 0
        for type_id in range(101, 113):
            found = counters.describe(counters.find(type_id))
            assert found is not None
            assert found.label.endswith(f" - archiveId={client.archive_id}")
        until(client, lambda: [value(type_id) for type_id in (101, 102, 111, 112)] == [0, 1, 0, 0])
        assert value(105) > 0
        assert len([*client.replay(0)]) == 100
        until(client, lambda: value(109) == stop)
        assert value(108) <= value(110)


def test_recordings_are_told_of_on_the_events_channel(
    tmp_path: Path, shm_path: Path, free_port: Callable[[], int]
) -> None:
    channel = f"aeron:udp?control-mode=dynamic|control=127.0.0.1:{free_port()}"
    with (
        Served(free_port(), tmp_path / "archive", shm_path / "driver", "--events", channel) as served,
        served.connect(is_local=True) as client,
    ):
        events: list[Any] = []
        subscription = client.transport.add_subscription(f"{channel}|endpoint=127.0.0.1:0", 30)
        until(client, lambda: subscription.is_connected)
        recording_id = record(client, "aeron:ipc?alias=told", [bytes(1000)] * 3, local=True)

        def is_told() -> bool:
            subscription.poll_messages(lambda payload, _: events.append(decode_one_of(SCHEMAS, payload)), 10)
            return bool(events) and events[-1][0] is codecs.RECORDING_STOPPED

        until(client, is_told)
        started, stopped = events[0][1], events[-1][1]
        assert (started.recording_id, started.start_position, started.stream_id) == (recording_id, 0, STREAM)
        assert (started.channel, started.source_identity) == ("aeron:ipc?alias=told", "aeron:ipc")
        assert stopped == (recording_id, 0, 3 * 1056)
        positions = [event.position for message, event in events if message is codecs.RECORDING_PROGRESS]
        assert positions == sorted(positions)
        assert positions[-1] <= 3 * 1056


def until(client: ArchiveClient, condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + patient(20)
    while not condition():
        assert time.monotonic() < deadline_s
        client.work()
