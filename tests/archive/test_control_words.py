"""Errors carry the words by which programs of Aeron's clients tell them apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests as ask
from ordo.archive.client.control_requests import Call
from ordo.runtime.errors import ArchiveError
from tests.archive.control_world import ControlWorld
from tests.archive.test_control import CHANNEL, STREAM, record
from tests.archive.test_with_driver import payloads

LIVE_STREAM = STREAM + 1
ANYWHERE = "aeron:udp?endpoint=10.0.0.9:9100"
WORDS: list[tuple[Call[Any], str]] = [
    (ask.start_recording(CHANNEL, LIVE_STREAM, local=True), f"recording exists for streamId={LIVE_STREAM} channel="),
    (ask.stop_recording(CHANNEL, 5), "no recording found for streamId=5 channel="),
    (ask.stop_recording_subscription(123), "no recording subscription found for subscriptionId=123"),
    (ask.start_position(999), "unknown recording id: 999"),
    (ask.extend_recording(1, CHANNEL, LIVE_STREAM), "cannot extend active recording 1"),
    (ask.extend_recording(0, CHANNEL, 5), "cannot extend recording 0 with streamId=5"),
    (ask.truncate_recording(1, 0), "cannot truncate active recording"),
    (ask.purge_recording(1), "cannot purge active recording 1"),
    (ask.truncate_recording(0, 3), "invalid position 3"),
    (ask.detach_segments(0, 32), "newStartPosition=32"),
    (ask.migrate_segments(0, 1), "invalid migrate"),
    (ask.find_last_recording("", STREAM, 1, min_recording_id=-1), "minRecordingId=-1 < 0"),
    (ask.start_replay(0, ANYWHERE, 7, position=3), "requested replay start position=3 is not a multiple of FRAME"),
    (ask.start_replay(0, ANYWHERE, 7, length=-3), "replay length must be positive"),
    (ask.start_replay(0, ANYWHERE, 7, file_io_length_max=64), "fileIoMaxLength=64 < mtuLength="),
    (
        ask.replicate(0, "10.0.0.1:1", target_recording_id=999, replication_channel=ANYWHERE),
        "unknown destination rec",
    ),
    (ask.stop_replication(999), "unknown replication id 999"),
    (ask.migrate_segments(1, 0), "recording 1 is still active"),
]
WHOLE = ("unknown recording id: 999", "cannot purge active recording 1", "recording 1 is still active")
"""Texts that Aeron's tests compare to their end."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControlWorld]:
    world = ControlWorld(tmp_path)
    yield world
    world.close()


def test_errors_have_the_words_of_aerons_archive(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(3))
    caller.call(ask.start_recording(CHANNEL, LIVE_STREAM, local=True))
    server.node.client.add_exclusive_publication(CHANNEL, LIVE_STREAM)
    world.until(lambda: server.archive.recording(1) is not None)
    told = {}
    for call, words in WORDS:
        with pytest.raises(ArchiveError) as refused:
            caller.call(call)
        told[words] = refused.value.message
    assert {words: text for words, text in told.items() if words not in text} == {}
    assert {words: told[words] for words in WHOLE if not told[words].endswith(words)} == {}
