"""The tail of a recording in memory says what its files say, wherever its ring begins again."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ordo.archive.archive import Archive
from ordo.archive.segments.reader import RecordedMessage
from ordo.runtime.errors import CorruptFrameError
from tests.archive.streams import Stream
from tests.archive.test_reader import flip
from tests.archive.test_recorder import send

TAIL_LENGTH = 1 << 20
SIZES = (0, 5, 32, 700, 1376, 5000)


@pytest.mark.parametrize("seed", range(4))
def test_a_follower_reads_what_the_files_say_round_the_ring(open_archive: Callable[..., Archive], seed: int) -> None:
    """Random batches, so that blocks end and frames cross the end of the ring anywhere."""
    random = Random(seed)
    archive, stream = open_archive(sync="none"), Stream(position=random.randrange(1000) * 32)
    recording = archive.record(stream.image)
    follower = archive.follower(recording.recording_id)
    followed: list[RecordedMessage] = []
    while recording.written_position < 3 * TAIL_LENGTH:
        for _ in range(random.randrange(1, 12)):
            stream.offer(random.randbytes(random.choice(SIZES)))
        archive.do_work(0)
        if random.random() < 0.9:
            followed += follower.messages(recording.written_position)
    followed += follower.messages(recording.written_position)
    assert followed == list(archive.reader(recording.recording_id).messages(recording.written_position))
    assert len(followed) > 500


def test_nothing_that_is_in_memory_is_read_from_the_file(open_archive: Callable[..., Archive]) -> None:
    """Seen by damaging the file: a reader of the files meets it, a follower that is not behind does not."""
    archive, stream = open_archive(sync="none"), Stream()
    recording = archive.record(stream.image)
    follower = archive.follower(recording.recording_id)
    sent = [number.to_bytes(400, "big") for number in range(20)]
    for payload in sent:
        send(archive, stream, payload)
    archive.do_work(0)
    segment = next(Path(archive.directory).glob("*.rec"))
    flip(segment, 100)
    assert [message.payload for message in follower.messages(recording.written_position)] == sent
    with pytest.raises(CorruptFrameError):
        list(archive.reader(recording.recording_id).messages(recording.written_position))


def test_a_follower_that_is_behind_reads_the_files(open_archive: Callable[..., Archive]) -> None:
    archive, stream = open_archive(sync="none"), Stream()
    recording = archive.record(stream.image)
    follower = archive.follower(recording.recording_id)
    sent: list[bytes] = []
    while recording.written_position < 2 * TAIL_LENGTH:
        sent.append(len(sent).to_bytes(1000, "big"))
        send(archive, stream, sent[-1])
        archive.do_work(0)
    assert [message.payload for message in follower.messages(recording.written_position)] == sent


def test_what_was_truncated_is_not_in_memory_any_more(open_archive: Callable[..., Archive]) -> None:
    """Another record stands at the same position afterwards."""
    archive, stream = open_archive(sync="none"), Stream()
    recording = archive.record(stream.image)
    follower = archive.follower(recording.recording_id)
    send(archive, stream, b"kept")
    archive.do_work(0)
    kept = recording.written_position
    send(archive, stream, b"truncated")
    archive.do_work(0)
    assert len(list(follower.messages(recording.written_position))) == 2
    archive.stop(recording)
    archive.truncate(recording.recording_id, kept)
    follower.seek(kept)
    again = Stream(position=kept)
    recording = archive.record(again.image, recording_id=recording.recording_id)
    send(archive, again, b"another")
    archive.do_work(0)
    assert [message.payload for message in follower.messages(recording.written_position)] == [b"another"]
