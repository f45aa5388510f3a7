"""Extending, truncating, purging, owning: what an archive does to its recordings as a whole."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.archive import Archive
from ordo.archive.segments.reader import RecordingReader
from ordo.runtime.errors import (
    ArchiveError,
    ConfigurationError,
    StorageFullError,
    StorageInUseError,
    UnknownRecordingError,
)
from ordo.runtime.native.sentinels import NULL_POSITION
from tests.archive.streams import BACK_PRESSURED, Stream
from tests.archive.test_recorder import frames_of, send, send_many


def payloads(archive: Archive, recording_id: int = 0) -> list[bytes]:
    return [message.payload for message in archive.reader(recording_id).messages()]


def record_messages(archive: Archive, count: int, *, recording_id: int | None = None, seed: int = 1) -> list[bytes]:
    """Records messages from where the recording stopped, and stops again."""
    position = 0 if recording_id is None else archive.descriptor(recording_id).stop_position
    stream = Stream(position=position, session_id=seed)
    recording = archive.record(stream.image, recording_id=recording_id)
    sent = send_many(archive, stream, count, seed)
    archive.stop(recording)
    return sent


def test_a_descriptor_says_what_was_recorded(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive(segment_length_bytes=1 << 17)
    stream = Stream(position=640, session_id=-5)
    recording = archive.record(stream.image)
    descriptor = archive.descriptor(0)
    assert descriptor.is_active
    assert (descriptor.start_position, descriptor.stop_position) == (640, NULL_POSITION)
    assert (descriptor.session_id, descriptor.stream_id, descriptor.mtu) == (-5, 100, 1408)
    assert (descriptor.segment_length, descriptor.term_length, descriptor.initial_term_id) == (1 << 17, 1 << 16, 7)
    assert descriptor.original_channel == "aeron:ipc?alias=log|term-length=64k"
    assert descriptor.stripped_channel == "aeron:ipc?alias=log"
    archive.stop(recording)
    assert archive.recordings() == [archive.descriptor(0)]
    assert archive.descriptor(0).stop_position == 640


def test_a_segment_is_at_least_a_term_long(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    archive.record(Stream(term_length=1 << 20).image)
    assert archive.descriptor(0).segment_length == 1 << 20


def test_a_recording_is_extended_where_it_stopped(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    sent = record_messages(archive, 40, seed=1)
    sent += record_messages(archive, 40, recording_id=0, seed=2)
    archive.close()
    reopened = open_archive()
    sent += record_messages(reopened, 5, recording_id=0, seed=3)
    assert payloads(reopened) == sent
    assert reopened.descriptor(0).session_id == 3


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"position": 32}, "position"),
        ({"initial_term_id": 8}, "initial_term_id"),
        ({"term_length": 1 << 17}, "term_length"),
        ({"mtu": 2048}, "mtu"),
        ({"stream_id": 101}, "stream_id"),
    ],
)
def test_an_image_that_does_not_continue_is_refused(
    open_archive: Callable[..., Archive], change: dict[str, int], name: str
) -> None:
    """archive.md A5: INVALID_EXTENSION (9), and the recording stays as it was."""
    archive = open_archive()
    record_messages(archive, 0)
    with pytest.raises(ArchiveError, match=f"{name} expected=") as caught:
        archive.record(Stream(**change).image, recording_id=0)
    assert caught.value.code == 9
    assert archive.descriptor(0).stop_position == 0


def test_an_active_recording_is_not_extended_truncated_or_purged(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    archive.record(Stream().image)
    for forbidden in (
        lambda: archive.record(Stream().image, recording_id=0),
        lambda: archive.truncate(0, 0),
        lambda: archive.purge(0),
    ):
        with pytest.raises(ArchiveError, match="is being recorded; stop it first") as caught:
            forbidden()
        assert caught.value.code == 2


@pytest.mark.parametrize("sync", ["none", "commit"])
@pytest.mark.parametrize("cut_at", [0.0, 0.3, 0.6, 1.0])
def test_truncate_keeps_what_is_before(open_archive: Callable[..., Archive], cut_at: float, sync: str) -> None:
    """archive.md A7; what is cut never comes back, not after a crash in the middle of what follows either."""
    archive = open_archive(sync=sync)
    sent = record_messages(archive, 80)
    reader = archive.reader(0)
    messages = list(reader.messages())
    kept = int(len(messages) * cut_at)
    position = messages[kept - 1].position if kept else 0
    archive.truncate(0, position)
    assert archive.descriptor(0).stop_position == position
    assert payloads(archive) == sent[:kept]
    stream = Stream(position=position, session_id=9)
    recording = archive.record(stream.image, recording_id=0)
    send(archive, stream, b"after")
    archive.do_work(0)
    end = recording.written_position
    files = {path: path.read_bytes() for path in Path(archive.directory).glob("*.rec")}
    assert not any(data for path, data in files.items() if int(path.stem.split("-")[1]) > end)
    assert [message.payload for message in archive.reader(0).messages(end)] == [*sent[:kept], b"after"]
    archive.stop(recording)
    archive.close()
    base = end // 65536 * 65536
    assert not any(files[Path(archive.directory, f"0-{base}.rec")][end - base :])


def test_truncate_refuses_what_is_no_frame_boundary(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    record_messages(archive, 10)
    stop = archive.descriptor(0).stop_position
    within = next(frame.position + 32 for frame in frames_of(archive, 0, stop) if frame.length > 100)
    for position in (within, 33, -32, stop + 32):
        with pytest.raises(ArchiveError) as caught:
            archive.truncate(0, position)
        assert caught.value.code == 16
    assert archive.descriptor(0).stop_position == stop


def test_stale_bytes_of_a_cut_tail_never_come_back(open_archive: Callable[..., Archive]) -> None:
    """The old frames fit exactly behind the new ones: a scan after a crash must not take them."""
    archive = open_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    for number in range(10):
        send(archive, stream, bytes([number]) * 100)
    archive.do_work(0)
    archive.stop(recording)
    archive.truncate(0, 3 * 160)
    stream = Stream(position=3 * 160)
    archive.record(stream.image, recording_id=0)
    send(archive, stream, b"new" + bytes(97))
    archive.do_work(0)
    content = Path(archive.directory, "0-0.rec").read_bytes()
    assert not any(content[4 * 160 :])


def test_purge_removes_everything_and_never_gives_the_id_again(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    record_messages(archive, 100)
    record_messages(archive, 1)
    count = len(list(Path(archive.directory).glob("0-*.rec")))
    assert archive.purge(0) == count
    assert not list(Path(archive.directory).glob("0-*.rec"))
    assert [descriptor.recording_id for descriptor in archive.recordings()] == [1]
    with pytest.raises(UnknownRecordingError):
        archive.descriptor(0)
    archive.purge(1)
    archive.close()
    reopened = open_archive()
    record_messages(reopened, 1)
    assert [descriptor.recording_id for descriptor in reopened.recordings()] == [2]


@pytest.mark.parametrize("is_live", [True, False])
def test_old_segments_go_and_the_rest_stays(open_archive: Callable[..., Archive], is_live: bool) -> None:
    """archive.md A7: detach and delete, on a live recording too; positions stay what they are."""
    archive = open_archive()
    stream = Stream(position=320)
    recording = archive.record(stream.image)
    send_many(archive, stream, 150)
    messages = list(archive.reader(0).messages(recording.written_position))
    if not is_live:
        archive.stop(recording)
    new_start = archive.segment_base(0, recording.written_position) - 65536
    for wrong in (0, new_start + 32, archive.segment_base(0, recording.written_position) + 65536, -65536):
        with pytest.raises(ArchiveError, match="is not the base of a segment"):
            archive.purge_segments(0, wrong)
    assert archive.purge_segments(0, new_start) == new_start // 65536
    assert archive.descriptor(0).start_position == new_start
    kept = [message for message in messages if message.start_position >= new_start]
    assert list(archive.reader(0).messages(recording.written_position)) == kept
    if is_live:
        send(archive, stream, b"goes on")
        archive.do_work(0)
        archive.stop(recording)
        assert payloads(archive)[-1] == b"goes on"
    archive.close()
    reopened = open_archive()
    record_messages(reopened, 60, recording_id=0, seed=4)
    assert payloads(reopened)[: len(kept)] == [message.payload for message in kept]


def test_a_folder_has_one_owner(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    with pytest.raises(StorageInUseError, match="archive"):
        open_archive()
    archive.close()
    open_archive()


@pytest.mark.parametrize("wrong", [{"sync": "always"}, {"segment_length_bytes": 100_000}, {"segment_length_bytes": 0}])
def test_wrong_settings_are_refused(open_archive: Callable[..., Archive], wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        open_archive(**wrong)


def test_no_recording_starts_on_a_full_device(open_archive: Callable[..., Archive]) -> None:
    """archive.md B5: STORAGE_SPACE below the threshold."""
    archive = open_archive(low_space_bytes=1 << 60)
    with pytest.raises(StorageFullError, match="needs more than"):
        archive.record(Stream().image)
    assert archive.recordings() == []


def test_close_stops_what_is_active(open_archive: Callable[..., Archive], storage: Any) -> None:
    archive = open_archive(sync="commit")
    stream = Stream()
    archive.record(stream.image)
    sent = send_many(archive, stream, 50)
    archive.close()
    archive.close()
    reader = RecordingReader.open(storage, archive.directory, 0)
    assert [message.payload for message in reader.messages()] == sent


def test_many_recordings_at_once(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive(sync="commit")
    streams = [Stream(session_id=number) for number in range(5)]
    recordings = [archive.record(stream.image) for stream in streams]
    rng = random.Random(4)
    sent: list[list[bytes]] = [[] for _ in streams]
    for _ in range(300):
        index = rng.randrange(len(streams))
        payload = rng.randbytes(rng.choice([10, 100, 2000]))
        while streams[index].offer(payload) == BACK_PRESSURED:
            archive.do_work(0)
        sent[index].append(payload)
    while archive.do_work(0):
        pass
    for recording in recordings:
        archive.stop(recording)
        assert recording.durable_position == recording.written_position
    assert [payloads(archive, recording.recording_id) for recording in recordings] == sent
