"""`ordo archive serve` as a process, and plain clients of it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from ordo.archive.client.client import ArchiveClient
from ordo.archive.protocol.codes import ErrorCode
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, ConfigurationError
from ordo.runtime.security.tokens import new_token
from tests.archive.served import STREAM, Served, record, token_table


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
    log = other.process.communicate(timeout=30)[1]
    assert other.process.returncode == 1
    assert "in use" in log or "another" in log
    assert "Traceback" not in log


def test_a_port_that_is_taken_is_one_line(served: Served, tmp_path: Path) -> None:
    served.connect().close()
    other = Served(int(served.address.rpartition(":")[2]), tmp_path / "other", tmp_path / "other-driver")
    log = other.process.communicate(timeout=30)[1]
    assert other.process.returncode == 1
    assert "Traceback" not in log
    assert served.address in log


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
