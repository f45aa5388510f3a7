"""An archive that is served by a process of its own, and what its clients record there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from ordo.archive.client.client import ArchiveClient
from ordo.archive.protocol.codes import RecordingSignal
from ordo.runtime.security.tokens import hash_token
from ordo.transport.streams.publication import Publication
from tests.patience import patient

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def connect(self, *, is_local: bool = False, credentials: bytes = b"", timeout_s: float = 30.0) -> ArchiveClient:
        """Over UDP with a driver of the client's own, or over IPC on the archive's driver."""
        if is_local:
            return ArchiveClient.connect(
                "aeron:ipc", aeron_dir=str(self.aeron_dir), message_timeout_s=patient(timeout_s)
            )
        return ArchiveClient.connect(self.address, credentials=credentials, message_timeout_s=patient(timeout_s))

    def stop(self, number: int = signal.SIGTERM) -> str:
        """What it wrote to its log."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=patient(30))[1]


def send(client: ArchiveClient, publication: Publication, messages: list[bytes]) -> None:
    for message in messages:
        while publication.offer(message) <= 0:
            client.work()


def record(
    client: ArchiveClient,
    channel: str,
    messages: list[bytes],
    *,
    local: bool = False,
    stream_id: int = STREAM,
    term_length: str = "64k",
) -> int:
    """Records a publication of the client, whole; its recording id."""
    started: list[int] = []
    client._session.on_signal = lambda event: (
        started.append(event.recording_id) if event.signal is RecordingSignal.START else None
    )
    client.start_recording(channel, stream_id, local=local, auto_stop=True)
    publication = client.transport.add_exclusive_publication(f"{channel}|term-length={term_length}", stream_id)
    while not publication.is_connected:
        client.work()
    send(client, publication, messages)
    while not started or client.recording_position(started[0]) != publication.position:
        client.work()
    publication.close()
    client.stop_recording_by_id(started[0])
    return started[0]
