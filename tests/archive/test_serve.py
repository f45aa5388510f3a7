"""`ordo archive serve` as a process, and plain clients of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from archive.client.client import ArchiveClient
from archive.control.codes import ErrorCode, RecordingSignal
from runtime.errors import ArchiveError, ArchiveTimeoutError, ConfigurationError
from runtime.tokens import hash_token, new_token
from transport.publication import Publication

STREAM = 42


def token_table(principal: str, token: str, *roles: str) -> str:
    """A table of a file of tokens."""
    return f'[[tokens]]\nprincipal = "{principal}"\nhash = "{hash_token(token)}"\nroles = {list(roles)}\n'


class Served:
    """A served archive in a process of its own."""

    def __init__(self, port: int, folder: Path, aeron_dir: Path, *options: str) -> None:
        self.address = f"127.0.0.1:{port}"
        self.folder = folder
        self.aeron_dir = aeron_dir
        self.command = [
            sys.executable, "-m", "ordo.cli", "archive", "serve", str(folder), "--control", self.address,
            "--aeron-dir", str(aeron_dir), "--segment-length", "64k", *options,
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)

    def connect(self, *, is_local: bool = False, credentials: bytes = b"") -> ArchiveClient:
        """Over UDP with a driver of the client's own, or over IPC on the archive's driver."""
        if is_local:
            return ArchiveClient.connect("aeron:ipc", aeron_dir=str(self.aeron_dir))
        return ArchiveClient.connect(self.address, credentials=credentials)

    def stop(self, number: int = signal.SIGTERM) -> str:
        """What it wrote to its log."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=30)[1]


@pytest.fixture
def served(tmp_path: Path, shm_path: Path, free_port: Callable[[], int]) -> Iterator[Served]:
    one = Served(free_port(), tmp_path / "archive", shm_path / "driver")
    yield one
    one.process.kill()
    one.process.communicate()


def send(client: ArchiveClient, publication: Publication, messages: list[bytes]) -> None:
    for message in messages:
        while publication.offer(message) <= 0:
            client.work()


def record(client: ArchiveClient, channel: str, messages: list[bytes], *, local: bool) -> int:
    """Records a publication of the client, whole; its recording id."""
    started: list[int] = []
    client._session.on_signal = lambda event: (
        started.append(event.recording_id) if event.signal is RecordingSignal.START else None
    )
    client.start_recording(channel, STREAM, local=local, auto_stop=True)
    publication = client.transport.add_exclusive_publication(f"{channel}|term-length=64k", STREAM)
    while not publication.is_connected:
        client.work()
    send(client, publication, messages)
    while not started or client.recording_position(started[0]) != publication.position:
        client.work()
    publication.close()
    client.stop_recording_by_id(started[0])
    return started[0]


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
