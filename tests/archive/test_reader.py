"""The reader: whole messages up to a limit, and nothing damaged ever handed out."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ordo.archive.archive import Archive
from ordo.archive.segments.reader import RecordingReader
from ordo.runtime.errors import ArchiveError, CorruptFrameError, UnknownRecordingError
from tests.archive.model import as_aeron_writes
from tests.archive.streams import MTU, Stream, payload_of
from tests.archive.test_recorder import frames_of, send, send_many


def flip(path: Path, offset: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 100), start=st.integers(0, 3000))
def test_reads_what_was_sent(fresh_archive: Callable[..., Archive], seed: int, count: int, start: int) -> None:
    archive = fresh_archive()
    stream = Stream(position=start * 32)
    recording = archive.record(stream.image)
    sent = send_many(archive, stream, count, seed)
    messages = list(archive.reader(recording.recording_id).messages(recording.written_position))
    assert [message.payload for message in messages] == sent
    assert messages[-1].position <= recording.written_position
    for before, after in itertools.pairwise(messages):
        assert before.position <= after.start_position


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), step=st.integers(1, 400))
def test_a_limit_that_moves_gives_every_message_once(
    fresh_archive: Callable[..., Archive], seed: int, step: int
) -> None:
    """Nothing ends above the limit, and following in small steps gives what one pass gives."""
    archive = fresh_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    sent = send_many(archive, stream, 40, seed)
    reader = archive.reader(recording.recording_id)
    got = []
    for limit in [*range(0, recording.written_position, step * 32), recording.written_position]:
        for message in reader.messages(limit):
            assert message.position <= limit
            got.append(message.payload)
    assert got == sent


def test_follows_a_live_recording_without_a_limit(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    stream = Stream()
    archive.record(stream.image)
    reader = archive.reader(0)
    assert list(reader.messages()) == []
    sent, got = [], []
    for number in range(500):
        sent.append(number.to_bytes(400, "big"))
        send(archive, stream, sent[-1])
        archive.do_work(0)
        got += [message.payload for message in reader.messages()]
    assert got == sent


def test_a_message_of_the_longest_kind(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive(segment_length_bytes=1 << 20)
    stream = Stream(term_length=1 << 20)
    recording = archive.record(stream.image)
    sent = [payload_of(random.Random(3), (1 << 20) // 8), b"", b"small"]
    for payload in sent:
        send(archive, stream, payload)
        archive.do_work(0)
    assert [message.payload for message in archive.reader(0).messages(recording.written_position)] == sent


def test_seek_goes_to_any_message_and_passes_over_a_started_one(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    for payload in (b"first", bytes(3000), b"last"):
        send(archive, stream, payload)
    archive.do_work(0)
    reader = archive.reader(0)
    messages = list(reader.messages(recording.written_position))
    for message in reversed(messages):
        reader.seek(message.start_position)
        assert next(reader.messages(recording.written_position)) == message
    reader.seek(messages[1].start_position + MTU)
    assert [message.payload for message in reader.messages(recording.written_position)] == [b"last"]


def test_another_process_reads_through_the_catalog(open_archive: Callable[..., Archive], storage: Any) -> None:
    archive = open_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    sent = send_many(archive, stream, 30)
    archive.stop(recording)
    archive.close()
    reader = RecordingReader.open(storage, archive.directory, 0)
    assert (reader.start_position, reader.stop_position) == (0, recording.written_position)
    assert [message.payload for message in reader.messages()] == sent
    assert reader.position == recording.written_position
    with pytest.raises(UnknownRecordingError, match="unknown recording id: 1"):
        RecordingReader.open(storage, archive.directory, 1)
    with pytest.raises(ArchiveError, match="cannot be read from position=31"):
        RecordingReader.open(storage, archive.directory, 0, 31)


def record_some(archive: Archive, payloads: list[bytes]) -> list[Any]:
    """Records messages, stops, closes: the frames."""
    stream = Stream(session_id=0x11111111)
    recording = archive.record(stream.image)
    for payload in payloads:
        send(archive, stream, payload)
    archive.do_work(0)
    archive.stop(recording)
    frames = frames_of(archive, 0, recording.written_position)
    archive.close()
    return frames


def test_a_damaged_checksum_names_expected_and_actual(open_archive: Callable[..., Archive], storage: Any) -> None:
    archive = open_archive()
    record_some(archive, [b"123456789"])
    flip(Path(archive.directory, "0-0.rec"), 32)
    with pytest.raises(CorruptFrameError, match=r"recording 0 is damaged at position=0 in .*/0-0\.rec: checksum "
                       r"expected=0x4182b7ef actual=0x[0-9a-f]{8}; "):  # fmt: skip
        list(RecordingReader.open(storage, archive.directory, 0).messages())


@pytest.mark.parametrize("lost_flag", [0x80, 0x40])
def test_fragments_whose_flags_contradict_each_other(
    open_archive: Callable[..., Archive], storage: Any, lost_flag: int
) -> None:
    """As Aeron writes them: its checksum does not cover the flags."""
    archive = open_archive()
    frames = record_some(archive, [b"one", b"two", b"three"])
    path = Path(archive.directory, "0-0.rec")
    as_aeron_writes(path, frames)
    flip(path, 64 + 5, lost_flag.bit_length() - 1)
    with pytest.raises(CorruptFrameError, match=r"position=64 .*fragment flags"):
        list(RecordingReader.open(storage, archive.directory, 0).messages())


def test_a_missing_segment_and_a_short_one(open_archive: Callable[..., Archive], storage: Any) -> None:
    archive = open_archive()
    record_some(archive, [bytes(1000)] * 150)
    second = Path(archive.directory, "0-65536.rec")
    content = second.read_bytes()
    second.write_bytes(content[:4096])
    with pytest.raises(CorruptFrameError, match=r"0-65536\.rec: the segment file ends inside the frame"):
        list(RecordingReader.open(storage, archive.directory, 0).messages())
    second.unlink()
    with pytest.raises(CorruptFrameError, match=r"position=65536 in .*0-65536\.rec: the segment file is missing"):
        list(RecordingReader.open(storage, archive.directory, 0).messages())


def test_a_hole_below_a_promised_limit_is_damage(open_archive: Callable[..., Archive]) -> None:
    """A caller that gives a limit says that everything below it was written."""
    archive = open_archive()
    stream = Stream()
    archive.record(stream.image)
    send(archive, stream, b"there")
    archive.do_work(0)
    reader = archive.reader(0)
    assert len(list(reader.messages(64))) == 1
    with pytest.raises(CorruptFrameError, match=r"position=64 .*no frame was written here"):
        list(reader.messages(128))
