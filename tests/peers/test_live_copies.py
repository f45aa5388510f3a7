"""Live recordings copied between Aeron's archive and Ordo's, with the source killed on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ordo.archive.client.client import ArchiveClient
from ordo.archive.protocol.codes import RecordingSignal
from ordo.runtime.errors import ArchiveError
from ordo.transport.streams.publication import Publication
from tests.archive.served import STREAM, Served, send
from tests.patience import patient
from tests.peers.java_peer import JavaPeers
from tests.peers.peer_process import PeerProcess

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
WAIT_S = 100.0
PARK_NS = 1_000_000
FIRST, MORE = ([b"%s %d" % (name, number) + bytes(465) for number in range(100, 500)] for name in (b"first", b"other"))
"""With its header each has 512 bytes, so none crosses a page: an archive of Aeron that was killed behind one that does
refuses to start until `ArchiveTool verify` has been asked whether to cut it off."""


class JavaArchive:
    """Aeron's archive in a process of its own, which can be killed and started again over its folder."""

    def __init__(self, java: JavaPeers, port: int, folder: Path, shm_path: Path) -> None:
        self.address = f"127.0.0.1:{port}"
        self._java = java
        self._folder = folder
        self._shm_path = shm_path
        self._starts = 0
        self.start()

    def start(self) -> None:
        """With another folder for its driver, and without the mark of the process before.

        For ten seconds Aeron would think that it lives.
        """
        (self._folder / "archive-mark.dat").unlink(missing_ok=True)
        self._starts += 1
        channels = f"aeron:udp?endpoint={self.address}", "aeron:udp?endpoint=127.0.0.1:0"
        self._process: PeerProcess = self._java.start(
            "ArchiveHost", self._shm_path / f"java-{self._starts}", self._folder, *channels
        )
        self._process.await_line("ready")

    def connect(self) -> ArchiveClient:
        return ArchiveClient.connect(self.address, message_timeout_s=patient(30))

    def kill(self) -> None:
        self._process.kill()


class OrdosArchive(Served):
    """Ordo's archive in a process of its own."""

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def work_until(reached: Callable[[], bool], *clients: ArchiveClient) -> list[str]:
    """Work with the clients, and return the errors that their archives tell meanwhile."""
    deadline_s = time.monotonic() + patient(WAIT_S)
    errors: list[str] = []
    while not reached():
        assert time.monotonic() < deadline_s, f"not reached in time; errors so far: {errors}"
        try:
            if sum(client.work() for client in clients) == 0:
                clients[0].park(PARK_NS)
        except ArchiveError as error:
            errors.append(str(error))
    return errors


@contextmanager
def recorded_live(archive: JavaArchive | OrdosArchive, channel: str) -> Iterator[tuple[ArchiveClient, Publication]]:
    """Has it record a publication of a client, which goes on; ends without a word to an archive that was killed."""
    client = archive.connect()
    started: list[int] = []
    client._session.on_signal = lambda event: (
        started.append(event.recording_id) if event.signal is RecordingSignal.START else None
    )
    client.start_recording(channel, STREAM, auto_stop=True)
    with client.transport.add_exclusive_publication(f"{channel}|term-length=64k", STREAM) as publication:
        work_until(lambda: publication.is_connected and bool(started), client)
        assert started == [0]
        yield client, publication
    client.transport.close()


@pytest.mark.parametrize("is_from_java", [True, False], ids=["aerons-source", "ordos-source"])
def test_a_source_is_killed_while_its_live_recording_is_copied(
    java: JavaPeers, tmp_path: Path, shm_path: Path, free_port: Callable[[], int], is_from_java: bool
) -> None:
    """The copy ends where the source ended or before, says that it has, and is completed once the source is back."""
    theirs = JavaArchive(java, free_port(), tmp_path / "java", shm_path)
    ours = OrdosArchive(free_port(), tmp_path / "archive", shm_path / "driver")
    source, target = (theirs, ours) if is_from_java else (ours, theirs)
    with ours, target.connect() as client, ExitStack() as stack:
        signals: list[str] = []
        client._session.on_signal = lambda event: signals.append(event.signal.name)
        channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
        sender, publication = stack.enter_context(recorded_live(source, channel))
        send(sender, publication, FIRST)
        client.replicate(0, source.address)
        work_until(lambda: "EXTEND" in signals, client, sender)
        (copy,) = client.list_recordings()
        work_until(lambda: client.recording_position(copy.recording_id) == publication.position, client, sender)
        send(sender, publication, MORE)
        source.kill()
        errors = work_until(lambda: {"REPLICATE_END", "STOP"} <= set(signals), client)
        stack.close()
        assert "SYNC" not in signals
        if is_from_java:  # Aeron's archive says it by signals alone
            where = f"the archive at aeron:udp?endpoint={source.address}"
            assert errors == [f"replication from the source archive failed: {where} is gone; connect again"]
        copied = [message.payload for message in client.replay(copy.recording_id)]
        assert len(copied) >= len(FIRST)
        assert copied == (FIRST + MORE)[: len(copied)]

        source.start()
        signals.clear()
        client.replicate(0, source.address, target_recording_id=copy.recording_id)
        work_until(lambda: {"SYNC", "REPLICATE_END"} <= set(signals), client)
        with source.connect() as other:
            kept = [message.payload for message in other.replay(0)]
            work_until(lambda: client.stop_position(copy.recording_id) == other.stop_position(0), client, other)
        assert [message.payload for message in client.replay(copy.recording_id)] == kept
        assert kept == (FIRST + MORE)[: len(kept)]
        assert len(kept) >= len(copied)
