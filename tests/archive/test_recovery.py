"""Recovery finds the true end of a torn recording, and tells damage from a torn end."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.archive import Archive
from ordo.archive.segments.catalog import RecordingState
from ordo.archive.segments.checkpoints import CHECKPOINT_INTERVAL_NS
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.segments.recovery import find_damage
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.errors import CorruptFrameError
from ordo.runtime.io.storage import FileStorage
from tests.archive.model import TYPE_PAD, Frame, align
from tests.archive.streams import MTU, Stream
from tests.archive.test_recorder import frames_of, send, send_many


@pytest.fixture
def crash(tmp_path: Path, open_archive: Callable[..., Archive]) -> Callable[..., list[Frame]]:
    """Records payloads into the test's archive folder and leaves it as a crash would: active in the catalog."""

    def record_and_crash(
        payloads: list[bytes], *, position: int = 0, pad: int | None = None, **options: Any
    ) -> list[Frame]:
        archive = open_archive(**options)
        stream = Stream(position=position)
        recording = archive.record(stream.image)
        for payload in payloads:
            send(archive, stream, payload)
        if pad is not None:
            stream.pad(pad)
        while archive.do_work(0):
            pass
        frames = frames_of(archive, 0, recording.written_position)
        saved = tmp_path / "saved"
        shutil.copytree(tmp_path / "archive", saved)
        archive.close()
        shutil.rmtree(tmp_path / "archive")
        saved.rename(tmp_path / "archive")
        return frames

    return record_and_crash


def test_a_recording_left_active_gets_its_stop(crash: Any, open_archive: Callable[..., Archive]) -> None:
    frames = crash([b"one", bytes(3000), b"three"])
    archive = open_archive()
    end = frames[-1].position + align(frames[-1].length)
    (recovered,) = archive.recovered
    assert (recovered.recording_id, recovered.stop_position, recovered.found) == (0, end, None)
    assert archive.descriptor(0).stop_position == end
    assert len(list(archive.reader(0).messages())) == 3


def test_a_write_torn_at_any_byte(crash: Any, open_archive: Callable[..., Archive], tmp_path: Path) -> None:
    """archive.md B4, stronger: whatever of the last two frames is on disk, the end is after the last whole one."""
    frames = crash([b"whole", bytes(range(1, 101)), bytes(range(100, 170))])
    path = tmp_path / "archive" / "0-0.rec"
    content = path.read_bytes()
    catalog = (tmp_path / "archive" / "catalog.mdb").read_bytes()
    second, third = frames[1], frames[2]
    for cut in range(second.position, third.position + third.length):
        path.write_bytes(content[:cut].ljust(len(content), b"\0"))
        (tmp_path / "archive" / "catalog.mdb").write_bytes(catalog)
        archive = open_archive()
        whole_end = third.position if cut >= second.position + second.length else second.position
        assert archive.descriptor(0).stop_position == whole_end, f"cut={cut}"
        assert not any(path.read_bytes()[whole_end:]), "what was torn is cleared"
        archive.close()


def test_pages_that_reached_the_disk_out_of_order(
    crash: Any, open_archive: Callable[..., Archive], tmp_path: Path
) -> None:
    """A hole in the middle ends the recording; the whole frames behind it must not come back."""
    frames = crash([bytes([number]) * 1000 for number in range(1, 40)])
    path = tmp_path / "archive" / "0-0.rec"
    content = bytearray(path.read_bytes())
    content[8192:12288] = bytes(4096)
    path.write_bytes(content)
    archive = open_archive()
    expected = max(frame.position for frame in frames if frame.position + align(frame.length) <= 8192)
    stop = archive.descriptor(0).stop_position
    assert stop == expected + align(1032)
    assert isinstance(archive.recovered[0].found, CorruptFrameError)
    assert archive.recovered[0].found.position == stop
    stream = Stream(position=stop)
    archive.record(stream.image, recording_id=0)
    send(archive, stream, b"new")
    archive.do_work(0)
    archive.close()
    reopened = open_archive()
    assert [message.payload for message in reopened.reader(0).messages()][-1] == b"new"


@pytest.mark.parametrize("pad", [0, 4064, 8000])
def test_a_pad_at_the_end_does_not_count(crash: Any, open_archive: Callable[..., Archive], pad: int) -> None:
    """The PAD may be that of a leadership term whose first record was lost, so the recording ends before it."""
    frames = crash([b"before"], pad=pad)
    archive = open_archive()
    assert archive.descriptor(0).stop_position == frames[-1].position
    stream = Stream(position=frames[-1].position)
    archive.record(stream.image, recording_id=0)
    send(archive, stream, b"after")
    archive.do_work(0)
    archive.close()
    assert [message.payload for message in open_archive().reader(0).messages()] == [b"before", b"after"]


@pytest.mark.parametrize("pad", [0, 4064, 8000])
def test_a_pad_at_the_end_counts_where_it_was_acknowledged(
    crash: Any, open_archive: Callable[..., Archive], pad: int
) -> None:
    """Whoever opens the folder next: what a client was told stays true."""
    frames = crash([b"before"], pad=pad, counts_padding=True)
    archive = open_archive()
    assert archive.descriptor(0).stop_position == frames[-1].position + align(frames[-1].length)
    assert [message.payload for message in archive.reader(0).messages()] == [b"before"]


def test_the_end_of_the_last_of_several_segments(crash: Any, open_archive: Callable[..., Archive]) -> None:
    frames = crash([bytes(1000)] * 200, position=70_016)
    archive = open_archive()
    assert archive.descriptor(0).stop_position == frames[-1].position + align(frames[-1].length)
    assert len(list(archive.reader(0).messages())) == 200


def test_damage_in_the_last_segment_but_one_drops_the_last(
    crash: Any, open_archive: Callable[..., Archive], tmp_path: Path
) -> None:
    crash([bytes(1000)] * 100)
    path = tmp_path / "archive" / "0-0.rec"
    content = bytearray(path.read_bytes())
    content[40 * 1056 + 100] ^= 1
    path.write_bytes(content)
    archive = open_archive()
    assert archive.descriptor(0).stop_position == 40 * 1056
    assert not (tmp_path / "archive" / "0-65536.rec").exists()


def test_a_recording_without_files_is_empty(crash: Any, open_archive: Callable[..., Archive], tmp_path: Path) -> None:
    crash([], position=320)
    (tmp_path / "archive" / "0-0.rec").unlink()
    archive = open_archive()
    assert (archive.descriptor(0).start_position, archive.descriptor(0).stop_position) == (320, 320)


def test_recovery_twice_is_recovery_once(crash: Any, open_archive: Callable[..., Archive]) -> None:
    crash([b"one", b"two"])
    open_archive().close()
    again = open_archive()
    assert again.recovered == []
    assert len(list(again.reader(0).messages())) == 2


def test_random_damage_never_gives_a_wrong_message(
    crash: Any, open_archive: Callable[..., Archive], tmp_path: Path
) -> None:
    """Whatever bytes are lost, what recovery keeps is a prefix of what was sent."""
    rng = random.Random(11)
    sent = [rng.randbytes(rng.choice([0, 10, 100, MTU, 4000])) for _ in range(30)]
    crash(sent)
    folder = tmp_path / "archive"
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    for _ in range(40):
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)
        content = bytearray((folder / "0-0.rec").read_bytes())
        start = rng.randrange(40_000) // 512 * 512
        content[start : start + 512] = rng.choice([bytes(512), rng.randbytes(512)])
        (folder / "0-0.rec").write_bytes(content)
        archive = open_archive()
        messages = [message.payload for message in archive.reader(0).messages()]
        assert messages == sent[: len(messages)]
        archive.close()


def test_damage_below_the_checkpoint_is_not_a_torn_end(
    open_archive: Callable[..., Archive], tmp_path: Path, storage: Any
) -> None:
    """What had been acknowledged is never dropped in silence: the recording is INVALID until truncated."""
    archive = open_archive(sync="commit")
    stream = Stream()
    recording = archive.record(stream.image)
    send_many(archive, stream, 30)
    now_ns = 0
    while recording.durable_position < recording.written_position:
        now_ns += CHECKPOINT_INTERVAL_NS
        archive.do_work(now_ns)
    archive.do_work(now_ns + CHECKPOINT_INTERVAL_NS)
    frames = frames_of(archive, 0, recording.written_position)
    saved = tmp_path / "saved"
    shutil.copytree(tmp_path / "archive", saved)
    archive.close()
    shutil.rmtree(tmp_path / "archive")
    saved.rename(tmp_path / "archive")
    victim = next(frame for frame in frames[10:] if frame.type == 1 and frame.length > 100)
    path = next(
        path for path in (tmp_path / "archive").glob("0-*.rec") if path.stem == f"0-{victim.position // 65536 * 65536}"
    )
    content = bytearray(path.read_bytes())
    content[victim.position % 65536 + 40] ^= 0x10
    path.write_bytes(content)

    damaged = open_archive(sync="commit")
    (recovered,) = damaged.recovered
    assert (recovered.is_damaged, recovered.stop_position) == (True, victim.position)
    assert damaged.descriptor(0).state is RecordingState.INVALID
    assert path.read_bytes() == bytes(content), "nothing is cleared"
    with pytest.raises(CorruptFrameError, match=f"damaged at position={victim.position}, which had been acknowledged"):
        damaged.record(Stream(position=victim.position).image, recording_id=0)
    assert list(RecordingReader(storage, damaged.directory, damaged.descriptor(0)).messages())
    damaged.truncate(0, victim.position)
    assert damaged.descriptor(0).state is RecordingState.VALID
    damaged.record(Stream(position=victim.position).image, recording_id=0)


def test_what_is_good_before_a_lost_segment_ends_with_its_last_frame_and_no_padding(
    crash: Any, open_archive: Callable[..., Archive], tmp_path: Path
) -> None:
    """A member that lost a segment acknowledged the PAD before it, and restarted without it."""
    frames = crash([bytes(3000)] * 40)
    archive = open_archive()
    descriptor, storage, folder = archive.descriptor(0), FileStorage(open_lmdb), str(tmp_path / "archive")
    padding = next(frame for frame in frames if frame.type == TYPE_PAD)
    lost = align(padding.position + padding.length)
    assert lost == descriptor.segment_length
    (tmp_path / "archive" / f"0-{lost}.rec").unlink()
    for from_position in (0, descriptor.stop_position):  # met by the reader, and by its name
        damage = find_damage(storage, folder, descriptor, from_position)
        assert damage is not None
        assert damage.good_position == padding.position


def test_what_follows_the_position_need_not_be_there(
    crash: Any, open_archive: Callable[..., Archive], tmp_path: Path
) -> None:
    """Of the segment that holds the position, its file has to reach up to it, and no further."""
    crash([bytes(3000)] * 40)
    archive = open_archive()
    descriptor, storage, folder = archive.descriptor(0), FileStorage(open_lmdb), str(tmp_path / "archive")
    base = descriptor.segment_length
    position = descriptor.stop_position
    assert base < position < 2 * base
    os.truncate(tmp_path / "archive" / f"0-{base}.rec", position - base)
    assert find_damage(storage, folder, descriptor, position) is None
    os.truncate(tmp_path / "archive" / f"0-{base}.rec", position - base - 1)
    assert find_damage(storage, folder, descriptor, position) is not None
