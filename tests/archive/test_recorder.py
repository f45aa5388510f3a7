"""The recorder against a slow model, and its failures."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ordo.archive.archive import Archive
from ordo.archive.recorder import Recording
from ordo.runtime.errors import ArchiveError, StorageExistsError
from tests.archive.model import TYPE_DATA, TYPE_PAD, Frame, checksum_of, messages_of, read_frames, seal_of
from tests.archive.streams import BACK_PRESSURED, MTU, TERM_LENGTH, Stream, payload_of

LENGTHS = [0, 1, 31, 32, 33, 64, 100, MTU - 33, MTU - 32, MTU - 31, 2 * (MTU - 32), 5000, TERM_LENGTH // 8]


def send(archive: Archive, stream: Stream, payload: bytes) -> None:
    """Offers until there is room; the archive makes it."""
    while stream.offer(payload) == BACK_PRESSURED:
        assert archive.do_work(0) > 0


def send_many(archive: Archive, stream: Stream, count: int, seed: int = 1) -> list[bytes]:
    """Random messages of every awkward length, and a few PAD frames between them."""
    rng = random.Random(seed)
    sent = []
    for _ in range(count):
        if rng.random() < 0.05:
            while stream.pad(rng.choice([0, 32, 1000, 4000])) == BACK_PRESSURED:
                archive.do_work(0)
        sent.append(payload_of(rng, rng.choice(LENGTHS)))
        send(archive, stream, sent[-1])
    while archive.do_work(0):
        pass
    return sent


def frames_of(archive: Archive, recording_id: int, end: int) -> list[Frame]:
    descriptor = archive.descriptor(recording_id)
    return read_frames(
        archive.directory,
        recording_id,
        descriptor.start_position,
        end,
        descriptor.segment_length,
        descriptor.term_length,
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 120), start=st.integers(0, 5000), shift=st.integers(0, 2))
def test_segments_hold_what_was_sent(
    fresh_archive: Callable[..., Archive], seed: int, count: int, start: int, shift: int
) -> None:
    """archive.md B3: frames as in the term, over term wraps and segment rolls, from any start."""
    archive = fresh_archive(segment_length_bytes=(64 * 1024) << shift)
    stream = Stream(position=start * 32)
    recording = archive.record(stream.image)
    sent = send_many(archive, stream, count, seed)
    frames = frames_of(archive, recording.recording_id, recording.written_position)
    assert recording.written_position == stream.position == recording.durable_position
    assert messages_of(frames) == sent
    for frame in frames:
        assert (frame.term_offset, frame.stream_id) == (frame.position % TERM_LENGTH, 100)
        assert frame.term_id == 7 + frame.position // TERM_LENGTH


def test_data_frames_carry_their_checksum_and_pads_their_session(open_archive: Callable[..., Archive]) -> None:
    """archive/segments/frames.pxd: the checksum is at offset 12; a PAD keeps its session id there, and is sealed."""
    archive = open_archive()
    stream = Stream(session_id=0x1234567)
    recording = archive.record(stream.image)
    send_many(archive, stream, 12, seed=5)
    stream.pad(512)
    archive.do_work(0)
    frames = frames_of(archive, 0, recording.written_position)
    assert {frame.type for frame in frames} == {TYPE_DATA, TYPE_PAD}
    for frame in frames:
        if frame.type == TYPE_DATA:
            assert frame.checksum == checksum_of(frame)
        else:
            assert frame.checksum == 0x1234567
            assert frame.reserved == seal_of(frame)
            assert not any(frame.payload)


def test_golden_frame(open_archive: Callable[..., Archive]) -> None:
    """The bytes on disk of one small message: they never change."""
    archive = open_archive()
    stream = Stream()
    archive.record(stream.image)
    send(archive, stream, b"123456789")
    archive.do_work(0)
    data = Path(archive.directory, "0-0.rec").read_bytes()
    assert data[:32].hex() == "2900000000c0010000000000efb7824164000000070000000000000000000000"
    assert data[32:64] == b"123456789".ljust(32, b"\0")
    assert not any(data[64:])


def test_a_recording_that_ends_at_a_boundary_leaves_an_empty_segment(open_archive: Callable[..., Archive]) -> None:
    """archive.md B3, B10: the next file is created at once."""
    archive = open_archive()
    stream = Stream(mtu=8192)
    recording = archive.record(stream.image)
    for _ in range(64):
        send(archive, stream, bytes(1024 - 32))
    archive.do_work(0)
    archive.stop(recording)
    assert archive.descriptor(0).stop_position == 64 * 1024
    names = sorted(path.name for path in Path(archive.directory).glob("*.rec"))
    assert names == ["0-0.rec", "0-65536.rec"]


def test_a_segment_that_is_there_already_ends_the_recording(open_archive: Callable[..., Archive]) -> None:
    """archive.md B3: the next file must be new; what was acknowledged stays."""
    archive = open_archive()
    stream = Stream()
    ended: list[tuple[Recording, Exception | None]] = []
    archive.record(stream.image, on_stop=lambda recording, error: ended.append((recording, error)))
    Path(archive.directory, "0-65536.rec").touch()
    while not ended:
        stream.offer(bytes(1000))
        archive.do_work(0)
    assert isinstance(ended[0][1], StorageExistsError)
    stop = archive.descriptor(0).stop_position
    assert 0 < stop <= 65536
    assert stop == ended[0][0].durable_position


def test_a_pad_at_the_end_counts_where_the_archive_says_so(open_archive: Callable[..., Archive]) -> None:
    """A program that closes its publication after a full term waits for the position after the PAD."""
    archive = open_archive(counts_padding=True)
    stream = Stream()
    recording = archive.record(stream.image)
    send(archive, stream, b"last")
    stream.pad(4064)
    while archive.do_work(0):
        pass
    assert recording.counter is not None
    assert recording.durable_position == recording.counter.value == stream.position == 4160
    archive.stop(recording)
    assert archive.descriptor(0).stop_position == stream.position
    archive.close()
    assert [message.payload for message in open_archive().reader(0).messages()] == [b"last"]


def test_an_image_that_jumps_ends_the_recording(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    stream = Stream()
    archive.record(stream.image)
    stream.offer(bytes(100))
    archive.do_work(0)
    stream.offer(bytes(100))
    stream.image.poll(lambda *_: None)
    stream.offer(bytes(100))
    with pytest.raises(ArchiveError, match="does not continue at position=160"):
        archive.do_work(0)
    assert archive.descriptor(0).stop_position == 160


def test_a_closed_image_ends_the_recording(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    stream = Stream()
    ended: list[Exception | None] = []
    recording = archive.record(stream.image, on_stop=lambda _, error: ended.append(error))
    stream.offer(b"last words")
    archive.do_work(0)
    stream.image.mark_closed()
    archive.do_work(0)
    assert ended == [None]
    assert not recording.is_active
    assert archive.recording(0) is None
    assert archive.descriptor(0).stop_position == 64


def test_the_position_counter_is_named_as_archives_name_it(open_archive: Callable[..., Archive], sink: Any) -> None:
    """archive.md B7: type 100; the value is the durable position."""
    archive = open_archive(archive_id=5)
    stream = Stream(session_id=3, stream_id=9)
    archive.record(stream.image)
    send(archive, stream, b"x")
    archive.do_work(0)
    (counter,) = sink.counters
    assert counter.type_id == 100
    assert counter.label == "rec-pos: 0 3 9 aeron:ipc?alias=log - archiveId=5"
    assert counter.key == (bytes(8) + b"\3\0\0\0\x09\0\0\0aeron:ipc\5").ljust(112, b"\0")
    assert sink.counters.get_value(counter.counter_id) == 64
    archive.close()
    assert list(sink.counters) == []


def test_nothing_is_recorded_beyond_the_limit_until_it_is_raised(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    recording.limit_position = 1000
    for _ in range(10):
        assert stream.offer(bytes(224)) > 0
    while archive.do_work(0):
        pass
    assert recording.written_position == 768, "whole frames of 256 bytes"
    recording.limit_position = 1024
    archive.do_work(0)
    assert recording.written_position == 1024
    recording.limit_position, recording.source_limit_position = 1 << 40, 1536
    while archive.do_work(0):
        pass
    assert recording.written_position == 1536, "the source's limit holds, whatever room there is"
    recording.source_limit_position = 1 << 40
    while archive.do_work(0):
        pass
    assert recording.written_position == 2560
