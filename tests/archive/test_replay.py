"""Replays: the same bytes at the same positions, bounded, checked, and over when they should be."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ordo.archive.archive import CONNECT_TIMEOUT_NS_DEFAULT, Archive
from ordo.archive.replay import Replay
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, CorruptFrameError, UnknownRecordingError
from ordo.runtime.native.counters import local_counter
from tests.archive.streams import MTU, Sink, Stream
from tests.archive.test_reader import flip
from tests.archive.test_recorder import send, send_many

CHANNEL = "aeron:udp?endpoint=127.0.0.1:4444|term-length=1m|linger=0"


class Subscriber:
    """Reads what a replay publishes, one fragment at a time, with headers."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.frames: list[tuple[int, int, int, int, bytes]] = []

    def take(self, payload: Any, header: Any) -> None:
        self.frames.append((header.start_position, header.flags, header.session_id, header.stream_id, bytes(payload)))

    def drain(self, archive: Archive, *, cycles: int = 10_000) -> "Subscriber":
        """Lets the archive work and reads, until neither has anything to do."""
        for _ in range(cycles):
            self.stream.drive()
            work = archive.do_work(0)
            work += self.stream.image.poll(self.take, 100)
            if not work:
                break
        return self

    @property
    def payloads(self) -> list[bytes]:
        messages: list[bytes] = []
        parts: list[bytes] = []
        for _, flags, _, _, payload in self.frames:
            if flags & 0x80:
                parts = []
            parts.append(payload)
            if flags & 0x40:
                messages.append(b"".join(parts))
        return messages


def recorded(archive: Archive, count: int, *, position: int = 0, seed: int = 1) -> tuple[Stream, Any, list[bytes]]:
    stream = Stream(position=position, session_id=5)
    recording = archive.record(stream.image)
    return stream, recording, send_many(archive, stream, count, seed)


def replay_of(archive: Archive, sink: Sink, *args: Any, **options: Any) -> tuple[Replay, Subscriber]:
    replay = archive.replay(*args, channel=CHANNEL, stream_id=200, **options)
    return replay, Subscriber(sink.streams[-1])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 150), start=st.integers(0, 3000))
def test_a_replay_is_the_recording_again(
    fresh_archive: Callable[..., Archive], sink: Sink, seed: int, count: int, start: int
) -> None:
    archive = fresh_archive()
    _, recording, sent = recorded(archive, count, position=start * 32, seed=seed)
    archive.stop(recording)
    messages = list(archive.reader(recording.recording_id).messages())
    _, subscriber = replay_of(archive, sink, recording.recording_id, session_id=-7)
    subscriber.drain(archive)
    assert subscriber.payloads == sent
    assert subscriber.stream.image.position == recording.written_position
    assert {(session, stream) for _, _, session, stream, _ in subscriber.frames} == {(-7, 200)}
    starts = [position for position, flags, _, _, _ in subscriber.frames if flags & 0x80]
    assert starts == [message.start_position for message in messages]
    assert archive.replays() == []


def test_the_publication_continues_the_recording(open_archive: Callable[..., Archive], sink: Sink) -> None:
    """archive.md A8.1: term ids, offsets, lengths and MTU of the recording; the session id that was asked for."""
    archive = open_archive()
    recorded(archive, 100)
    message = list(archive.reader(0).messages())[50]
    replay_of(archive, sink, 0, message.position, session_id=77)
    term_id, offset = 7 + message.position // 65536, message.position % 65536
    assert sink.channels == [
        f"aeron:udp?endpoint=127.0.0.1:4444|linger=0|init-term-id=7|term-id={term_id}|term-offset={offset}|"
        f"term-length=65536|mtu={MTU}|session-id=77"
    ]


def test_a_replay_follows_a_live_recording_until_it_stops(open_archive: Callable[..., Archive], sink: Sink) -> None:
    archive = open_archive()
    stream, recording, sent = recorded(archive, 20)
    ended: list[Exception | None] = []
    replay, subscriber = replay_of(archive, sink, 0, on_end=lambda _, error: ended.append(error))
    for number in range(50):
        assert subscriber.drain(archive).payloads == sent
        sent.append(number.to_bytes(500, "big"))
        send(archive, stream, sent[-1])
        archive.do_work(0)
    assert replay.is_active
    archive.stop(recording)
    assert subscriber.drain(archive).payloads == sent
    assert ended == [None]
    assert not replay.is_active


def test_nothing_passes_the_limit_counter(open_archive: Callable[..., Archive], sink: Sink) -> None:
    """A bounded replay ends at the counter, follows it, and never goes beyond it."""
    archive = open_archive()
    stream, recording, sent = recorded(archive, 60)
    messages = list(archive.reader(0).messages(recording.written_position))
    limit = local_counter(0)
    replay, subscriber = replay_of(archive, sink, 0, limit=limit)
    for index in (0, 1, 5, 30, 59):
        limit.set(messages[index].position)
        assert subscriber.drain(archive).payloads == sent[: index + 1]
        assert replay.position == subscriber.stream.position == messages[index].position
    limit.set(1 << 40)
    send(archive, stream, b"above what was known")
    assert subscriber.drain(archive).payloads == [*sent, b"above what was known"]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limits=st.lists(st.integers(0, 2000), min_size=1, max_size=30))
def test_a_limit_between_frames_is_not_passed(
    fresh_archive: Callable[..., Archive], sink: Sink, limits: list[int]
) -> None:
    archive = fresh_archive()
    recording = recorded(archive, 40)[1]
    limit = local_counter(0)
    replay, subscriber = replay_of(archive, sink, recording.recording_id, limit=limit)
    for value in sorted(limits):
        limit.set(value * 32)
        subscriber.drain(archive)
        assert replay.position <= value * 32


def test_a_length_ends_the_replay_after_the_frame_that_reaches_it(
    open_archive: Callable[..., Archive], sink: Sink
) -> None:
    archive = open_archive()
    stream = Stream()
    archive.record(stream.image)
    for number in range(10):
        send(archive, stream, bytes([number]) * 100)
    archive.do_work(0)
    _, subscriber = replay_of(archive, sink, 0, 160, 321)
    assert len(subscriber.drain(archive).payloads) == 3
    assert archive.replays() == []


def test_many_replays_at_once(open_archive: Callable[..., Archive], sink: Sink) -> None:
    archive = open_archive()
    _, recording, sent = recorded(archive, 80)
    messages = list(archive.reader(0).messages(recording.written_position))
    subscribers = [replay_of(archive, sink, 0, messages[index].start_position)[1] for index in range(0, 80, 10)]
    for index, subscriber in zip(range(0, 80, 10), subscribers, strict=True):
        assert subscriber.drain(archive).payloads == sent[index:]
    assert len(archive.replays(0)) == 8


def test_a_slow_subscriber_holds_back_only_its_own_replay(open_archive: Callable[..., Archive], sink: Sink) -> None:
    archive = open_archive()
    _, recording, sent = recorded(archive, 200)
    slow, slow_subscriber = replay_of(archive, sink, 0)
    _, subscriber = replay_of(archive, sink, 0)
    assert subscriber.drain(archive).payloads == sent
    assert slow.position < recording.written_position
    assert slow_subscriber.drain(archive).payloads == sent


def test_a_subscriber_that_goes_away_ends_the_replay_in_order(open_archive: Callable[..., Archive], sink: Sink) -> None:
    archive = open_archive()
    recorded(archive, 200)
    replay, subscriber = replay_of(archive, sink, 0)
    archive.do_work(0)
    subscriber.stream.log.connected = False
    for _ in range(100):
        archive.do_work(0)
    assert (replay.is_active, replay.error) == (False, None)
    assert replay.publication.is_closed


def test_a_subscriber_that_never_comes_is_an_error(open_archive: Callable[..., Archive], sink: Sink) -> None:
    archive = open_archive()
    recorded(archive, 5)
    ended: list[Exception | None] = []
    _, subscriber = replay_of(archive, sink, 0, on_end=lambda _, error: ended.append(error))
    subscriber.stream.log.connected = False
    archive.do_work(1000)
    archive.do_work(1000 + CONNECT_TIMEOUT_NS_DEFAULT - 1)
    assert ended == []
    archive.do_work(1000 + CONNECT_TIMEOUT_NS_DEFAULT)
    assert isinstance(ended[0], ArchiveTimeoutError)


def test_damage_is_never_replayed(open_archive: Callable[..., Archive], sink: Sink) -> None:
    """What is before the damage goes out; then the replay ends and names it."""
    archive = open_archive()
    stream = Stream()
    archive.record(stream.image)
    for number in range(10):
        send(archive, stream, bytes([number]) * 100)
    archive.do_work(0)
    flip(Path(archive.directory, "0-0.rec"), 4 * 160 + 50)
    _, subscriber = replay_of(archive, sink, 0)
    with pytest.raises(CorruptFrameError, match=r"recording 0 is damaged at position=640 .*checksum expected"):
        subscriber.drain(archive)
    subscriber.stream.image.poll(subscriber.take, 100)
    assert len(subscriber.payloads) == 4
    assert archive.replays() == []


def test_a_pad_longer_than_a_message_goes_out(open_archive: Callable[..., Archive], sink: Sink) -> None:
    archive = open_archive()
    stream = Stream(mtu=8192)
    recording = archive.record(stream.image)
    send(archive, stream, b"before")
    archive.do_work(0)

    def put_pad(offset: int, length: int) -> None:
        with stream.log.view() as view:
            start = length.to_bytes(4, "little") + bytes([0, 0xC0, 0, 0]) + offset.to_bytes(4, "little")
            view[offset : offset + 32] = start + bytes(view[12:32])
        archive.do_work(0)

    put_pad(64, 40_000)
    assert (recording.written_position, recording.durable_position) == (64 + 40_000, 64), "it counts when one follows"
    put_pad(64 + 40_000, 32)
    replay, subscriber = replay_of(archive, sink, 0)
    assert subscriber.drain(archive).payloads == [b"before"]
    assert recording.durable_position == 64 + 40_000
    assert replay.position == recording.written_position


def test_where_a_replay_may_begin(open_archive: Callable[..., Archive], sink: Sink) -> None:
    """archive.md A8.1."""
    archive = open_archive()
    _, recording, _ = recorded(archive, 10, position=320)
    for position in (0, 288, 321, recording.written_position + 32):
        with pytest.raises(ArchiveError) as caught:
            replay_of(archive, sink, 0, position)
        assert caught.value.code == 16
    with pytest.raises(UnknownRecordingError):
        replay_of(archive, sink, 4)
    with pytest.raises(ArchiveError, match="length=0"):
        replay_of(archive, sink, 0, 320, 0)
    replay_of(archive, sink, 0, recording.written_position)
    archive.stop(recording)
    with pytest.raises(ArchiveError, match="nothing to replay"):
        replay_of(archive, sink, 0, recording.written_position)
    assert len(archive.replays()) == 1


def test_a_position_within_a_frame_is_refused(open_archive: Callable[..., Archive], sink: Sink) -> None:
    archive = open_archive()
    stream = Stream()
    archive.record(stream.image)
    send(archive, stream, random.Random(1).randbytes(1000))
    archive.do_work(0)
    with pytest.raises(ArchiveError, match="no frame of recording 0 begins at position=64"):
        replay_of(archive, sink, 0, 64)


def test_truncating_ends_replays_and_purging_waits_for_them(open_archive: Callable[..., Archive], sink: Sink) -> None:
    archive = open_archive()
    _, recording, _ = recorded(archive, 50)
    archive.stop(recording)
    replay, _ = replay_of(archive, sink, 0)
    with pytest.raises(ArchiveError, match="cannot purge recording with active replay 0"):
        archive.purge(0)
    archive.truncate(0, 0)
    assert not replay.is_active
    archive.purge(0)
