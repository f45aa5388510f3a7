"""An archive, or a reader of one, in a process of its own, told what to do by lines; see benchmarks.replays.

    python -m benchmarks.replay_peer archive FOLDER CONTROL_CHANNEL MIB MESSAGE_BYTES
    python -m benchmarks.replay_peer reader FOLDER CONTROL_CHANNEL PORT

An archive records, says "ready" and serves until its input ends. A reader says "ready", and for each line the bytes a
second of one replay. PORT is for the sake of the other contender: this one lets the system choose.
"""

from __future__ import annotations

import sys
import threading
import time

from ordo.archive.client.client import ArchiveClient
from ordo.archive.control.settings import ControlSettings
from ordo.archive.inspection.server import ArchiveServer, ArchiveServerSettings

STREAM_ID = 1001
RECORDED = "aeron:ipc?term-length=16m|mtu=8192|alias=recorded"


def serve(folder: str, control: str, length_bytes: int, size_bytes: int) -> None:
    config = ArchiveServerSettings(
        f"{folder}/archive", ControlSettings(control_channel=control), aeron_dir=f"{folder}/driver", sync="none"
    )
    server = ArchiveServer(config, on_error=print)
    try:
        record(server, length_bytes, size_bytes)
        print("ready", flush=True)
        threading.Thread(target=end_with_input, args=[server], daemon=True).start()
        server.run()
    finally:
        server.close()


def end_with_input(server: ArchiveServer) -> None:
    sys.stdin.read()
    server.end()


def record(server: ArchiveServer, length_bytes: int, size_bytes: int) -> None:
    now_ns = time.monotonic_ns
    server.archive.record_subscription(RECORDED, STREAM_ID)
    publication = server.client.add_exclusive_publication(RECORDED, STREAM_ID)
    message = bytes(size_bytes)
    while publication.position < length_bytes:
        if publication.offer(message) < 0:
            server.do_work(now_ns())
    while (recording := server.archive.recording(0)) is None or recording.written_position < publication.position:
        server.do_work(now_ns())
    server.archive.stop(recording)
    publication.close()


def read(control: str) -> None:
    """Each replay in a session of its own, since nobody drives this client's driver while it waits for a line."""
    print("ready", flush=True)
    for _ in sys.stdin:
        with ArchiveClient.connect(control, response_channel="aeron:udp?endpoint=127.0.0.1:0") as archive:
            rate = replay(archive)
        print(f"replay {rate}", flush=True)


def replay(archive: ArchiveClient) -> float:
    """Bytes a second of one replay from the recording's start to its end."""
    (recording,) = archive.list_recordings()
    begin_ns = time.monotonic_ns()
    with archive.open_replay(recording.recording_id, length=recording.stop_position) as stream:
        while not stream.is_done:
            stream.pass_over()
    return float(recording.stop_position * 1e9 / (time.monotonic_ns() - begin_ns))


if __name__ == "__main__":
    role, place, channel, number, *rest = sys.argv[1:]
    if role == "archive":
        serve(place, channel, int(number) << 20, int(rest[0]))
    else:
        read(channel)
