"""Aeron's archive client against Ordo's archive, and Ordo's client against Aeron's archive."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ordo.archive.client.client import ArchiveClient
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.cli import run
from ordo.runtime.errors import ArchiveError
from ordo.runtime.security.tokens import new_token
from tests.archive.served import STREAM, Served, record, send, token_table
from tests.patience import patient
from tests.peers.java_peer import JavaPeers

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
COPY_TIMEOUT_S = 100.0
PARK_NS = 1_000_000


@pytest.mark.parametrize("is_local", [False, True], ids=["udp", "ipc"])
def test_aerons_client_uses_an_archive_of_ordo(
    java: JavaPeers, tmp_path: Path, shm_path: Path, free_port: Callable[[], int], is_local: bool
) -> None:
    """Over UDP with a Java driver of its own, and a token; over IPC on the archive's driver, with its recording
    counters."""
    token = new_token()
    file = tmp_path / "tokens.toml"
    file.write_text(token_table("java", token, "log", "record", "delete"))
    options = () if is_local else ("--tokens-file", str(file))
    served = Served(free_port(), tmp_path / "archive", shm_path / "driver", *options)
    try:
        served.connect(credentials=token.encode()).close()
        if is_local:
            places = [str(served.aeron_dir), "attach", "aeron:ipc", "aeron:ipc"]
            streams = ["aeron:ipc?alias=java", "aeron:ipc"]
        else:
            ports = [free_port() for _ in range(3)]
            places = [str(shm_path / "java"), "launch", f"aeron:udp?endpoint={served.address}"]
            places.append(f"aeron:udp?endpoint=127.0.0.1:{ports[0]}")
            streams = [
                f"aeron:udp?endpoint=127.0.0.1:{ports[1]}|alias=java",
                f"aeron:udp?endpoint=127.0.0.1:{ports[2]}",
                token,
            ]
        said = java.run("ArchiveUser", *places, *streams)
        assert said[1:] == ["recorded 0", "replayed 3000", "extended", "replayed 6000", "segments", "errors", "done"]
    finally:
        log = served.stop()
    assert [line for line in log.splitlines() if "archive.error" in line] == []


@pytest.mark.parametrize("is_local", [False, True], ids=["javas-driver", "the-archives-driver"])
def test_aerons_client_goes_over_from_a_replay_to_the_live_stream(
    java: JavaPeers, tmp_path: Path, shm_path: Path, free_port: Callable[[], int], is_local: bool
) -> None:
    """ReplayMerge, of a stream with several destinations that is published meanwhile."""
    with Served(free_port(), tmp_path / "archive", shm_path / "driver") as served:
        served.connect().close()
        control, record_at, replay_at, live_at, answers = (f"127.0.0.1:{free_port()}" for _ in range(5))
        where = [str(served.aeron_dir), "attach", "aeron:ipc", "aeron:ipc"]
        if not is_local:
            where = [
                str(shm_path / "java"),
                "launch",
                *(f"aeron:udp?endpoint={one}" for one in (served.address, answers)),
            ]
        assert java.run("MergeUser", *where, control, record_at, replay_at, live_at) == ["merged", "done"]
        assert [line for line in served.stop().splitlines() if "archive.error" in line] == []


def refused_with(action: Callable[[], object]) -> int:
    with pytest.raises(ArchiveError) as refused:
        action()
    return refused.value.code


def extend(client: ArchiveClient, descriptor: RecordingDescriptor, channel: str, messages: list[bytes]) -> None:
    """Under a session id of its own, for the image of the first publication is still there."""
    recording_id, stop = descriptor.recording_id, descriptor.stop_position
    term = descriptor.initial_term_id + stop // descriptor.term_length
    where = f"init-term-id={descriptor.initial_term_id}|term-id={term}|term-offset={stop % descriptor.term_length}"
    again = f"{channel}|session-id=4711"
    client.extend_recording(recording_id, again, STREAM, auto_stop=True)
    publication = client.transport.add_exclusive_publication(f"{again}|term-length=64k|{where}", STREAM)
    send(client, publication, messages)
    while client.recording_position(recording_id) != publication.position:
        client.work()
    assert [stream.stream_id for stream in client.list_recorded_streams(channel="alias=ordo")] == [STREAM]
    publication.close()
    client.stop_recording_by_id(recording_id)
    while client.stop_position(recording_id) is None:
        client.work()


def test_ordos_client_uses_an_archive_of_aeron(
    java: JavaPeers, tmp_path: Path, shm_path: Path, free_port: Callable[[], int]
) -> None:
    """Records, extends, replays, truncates, moves segments, purges, and meets Aeron's errors with their codes."""
    address = f"127.0.0.1:{free_port()}"
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|alias=ordo"
    host = java.start(
        "ArchiveHost", shm_path / "java", tmp_path / "archive", f"aeron:udp?endpoint={address}",
        "aeron:udp?endpoint=127.0.0.1:0",
    )  # fmt: skip
    (archive_id,) = host.await_line("ready")
    sent = [b"%d " % number + bytes(number * 13 % 3000) for number in range(300)]
    with ArchiveClient.connect(address) as client:
        assert client.archive_id == int(archive_id)
        recording_id = record(client, channel, sent, local=False)
        (descriptor,) = client.list_recordings(stream_id=STREAM, channel="alias=ordo")
        assert descriptor == client.describe_recording(recording_id)
        assert client.find_last_recording("alias=ordo", STREAM, descriptor.session_id) == recording_id
        stop = client.stop_position(recording_id)
        assert stop is not None
        assert stop == client.max_recorded_position(recording_id) > 3 * 65536
        assert [message.payload for message in client.replay(recording_id)] == sent

        extend(client, descriptor, channel, sent)
        assert [message.payload for message in client.replay(recording_id)] == sent + sent

        assert client.truncate_recording(recording_id, stop) > 0
        assert client.stop_position(recording_id) == stop
        client.detach_segments(recording_id, 2 * 65536)
        assert client.start_position(recording_id) == 2 * 65536
        assert client.attach_segments(recording_id) == 2
        assert client.purge_segments(recording_id, 65536) == 1
        assert client.start_position(recording_id) == 65536

        assert refused_with(lambda: client.start_position(99)) == ErrorCode.UNKNOWN_RECORDING
        assert refused_with(lambda: client.stop_recording(channel, STREAM)) == ErrorCode.UNKNOWN_SUBSCRIPTION
        quiet = STREAM + 1  # the publication of STREAM may linger, and would be recorded once more
        client.start_recording(channel, quiet)
        assert refused_with(lambda: client.start_recording(channel, quiet)) == ErrorCode.ACTIVE_SUBSCRIPTION
        client.stop_recording(channel, quiet)
        assert client.describe_recording(99) is None
        client.stop_all_replays()
        client.purge_recording(recording_id)
        assert client.list_recordings() == []
    host.finish()


def test_aerons_tool_reads_an_exported_folder(
    java: JavaPeers, tmp_path: Path, shm_path: Path, free_port: Callable[[], int]
) -> None:
    """ArchiveTool describes and counts it, and verifies it with checksums of its own, which Ordo then reads."""
    served = Served(free_port(), tmp_path / "archive", shm_path / "driver")
    with served.connect() as client:
        for number in range(2):
            channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|alias=tool-{number}"
            record(client, channel, [bytes([size % 256]) * (size * 17 % 2500) for size in range(200)], local=False)
        stops = [client.stop_position(recording_id) for recording_id in range(2)]
    served.stop()
    folder = str(tmp_path / "archive")
    assert run(["archive", "export-catalog", folder]) == 0

    def tool(*arguments: str) -> list[str]:
        return java.run("io.aeron.archive.ArchiveTool", folder, *arguments)

    described = "\n".join(tool("describe"))
    for recording_id, stop in enumerate(stops):
        assert f"|recordingId={recording_id}|" in described
        assert f"|stopPosition={stop}|" in described
        assert f"alias=tool-{recording_id}" in described
    assert tool("count-entries")[-1].endswith("2")
    tool("checksum", "io.aeron.archive.checksum.Crc32c", "-a")
    verified = tool("verify", "-a", "-checksum", "io.aeron.archive.checksum.Crc32c")
    assert [line for line in verified if "recordingId=" in line] == ["(recordingId=0) OK", "(recordingId=1) OK"]
    assert run(["archive", "verify", folder]) == 0


def await_copied(signals: list[str], *clients: ArchiveClient, last: str = "STOP") -> None:
    """Works with the clients until the signals of a whole replication have come."""
    deadline_s = time.monotonic() + patient(COPY_TIMEOUT_S)
    while not {"SYNC", last, "REPLICATE_END"} <= set(signals):
        assert time.monotonic() < deadline_s, f"the copy is not whole; signals so far: {signals}"
        if sum(client.work() for client in clients) == 0:
            clients[0].park(PARK_NS)


def test_recordings_are_copied_between_aerons_archive_and_ordos(
    java: JavaPeers, tmp_path: Path, shm_path: Path, free_port: Callable[[], int]
) -> None:
    """A recording goes from Ordo's archive to Aeron's, and the copy back again."""
    address = f"127.0.0.1:{free_port()}"
    host = java.start(
        "ArchiveHost", shm_path / "java", tmp_path / "java", f"aeron:udp?endpoint={address}",
        "aeron:udp?endpoint=127.0.0.1:0",
    )  # fmt: skip
    host.await_line("ready")
    served = Served(free_port(), tmp_path / "archive", shm_path / "driver")
    sent = [b"%d " % number + bytes(number * 13 % 3000) for number in range(300)]
    with served.connect() as ours:
        source_id = record(ours, f"aeron:udp?endpoint=127.0.0.1:{free_port()}", sent, local=False)
        with ArchiveClient.connect(address) as theirs:
            signals: list[str] = []
            theirs._session.on_signal = lambda event: signals.append(event.signal.name)
            theirs.replicate(source_id, served.address)
            await_copied(signals, theirs)
            (copy,) = theirs.list_recordings()
            assert [message.payload for message in theirs.replay(copy.recording_id)] == sent
            signals.clear()
            ours._session.on_signal = lambda event: signals.append(event.signal.name)
            ours.replicate(copy.recording_id, address)
            await_copied(signals, ours, theirs)
            back = ours.list_recordings()[-1]
            assert back.recording_id != source_id
            assert [message.payload for message in ours.replay(back.recording_id)] == sent
            signals.clear()
            ours.replicate(copy.recording_id, address, target_recording_id=back.recording_id)  # compared, and whole
            await_copied(signals, ours, theirs, last="SYNC")
            other = record(ours, f"aeron:udp?endpoint=127.0.0.1:{free_port()}", sent[:3], local=False)
            with pytest.raises(ArchiveError, match="is not the one that recording"):
                ours.replicate(copy.recording_id, address, target_recording_id=other)
                await_copied([], ours, theirs)
    served.stop()
    host.finish()
