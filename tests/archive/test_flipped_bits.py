"""Disks that lie: no flip of any single bit of a small archive is served as good, one after the other."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.archive import Archive
from ordo.archive.inspection.recording_inspection import list_recordings, verify_recording
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.checkpoints import CHECKPOINT_INTERVAL_NS, CHECKPOINTS_NAME, Checkpoints
from ordo.archive.segments.reader import RecordingReader
from ordo.runtime.errors import CorruptFrameError
from ordo.runtime.io.storage import FileStorage
from tests.archive.model import TYPE_DATA, TYPE_PAD, as_aeron_writes, crc32c, header_mask
from tests.archive.streams import MTU, TERM_LENGTH, Stream
from tests.archive.test_recorder import frames_of, send

LONG_PAD = 2 * MTU
START = TERM_LENGTH - 32 * 160


def record_every_kind(archive: Archive) -> tuple[Path, int, int]:
    """Records whole messages, an empty one, fragments, a short and a long PAD: (segment file, start, stop)."""
    stream = Stream(position=START, session_id=0x11111111)
    recording = archive.record(stream.image)
    for payload in (b"first", b"", bytes(range(64)), b"fragmented" * 150):
        send(archive, stream, payload)
    for pad, payload in ((64 - 32, b"between"), (LONG_PAD - 32, b"last")):
        stream.pad(pad)
        send(archive, stream, payload)
    archive.do_work(0)
    archive.stop(recording)
    frames = frames_of(archive, 0, recording.written_position)
    assert {(frame.type, frame.length > MTU) for frame in frames} == {
        (TYPE_DATA, False),
        (TYPE_PAD, False),
        (TYPE_PAD, True),
    }
    return Path(archive.directory, "0-0.rec"), START, recording.written_position


def flips(path: Path, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Flips each bit of a file, and flips it back: (offset, bit) while it is flipped."""
    with path.open("r+b", buffering=0) as file:
        content = path.read_bytes()
        for offset, bit in itertools.product(range(start, stop), range(8)):
            file.seek(offset)
            file.write(bytes((content[offset] ^ 1 << bit,)))
            yield offset, bit
            file.seek(offset)
            file.write(content[offset : offset + 1])


def served(storage: Any, directory: str, descriptor: RecordingDescriptor) -> list[tuple[Any, ...]]:
    """What a reader hands out. Raises CorruptFrameError."""
    return [tuple(message) for message in RecordingReader(storage, directory, descriptor).messages()]


def test_no_bit_of_a_segment(open_archive: Callable[..., Archive], storage: FileStorage) -> None:
    """Headers, payloads, what fills them up, PADs: it is found, or what is handed out is what was recorded.

    Only the mark of a PAD's seal changes nothing, and what lies under a PAD.
    """
    archive = open_archive()
    path, start, stop = record_every_kind(archive)
    (descriptor,) = list_recordings(archive.directory)
    good = served(storage, archive.directory, descriptor)
    assert [len(message[0]) for message in good] == [5, 0, 64, 1500, 7, 4]
    found, harmless = 0, set()
    for offset, bit in flips(path, start, stop):
        is_good = verify_recording(storage, archive.directory, descriptor).is_good
        try:
            assert served(storage, archive.directory, descriptor) == good, f"offset={offset} bit={bit}"
            harmless.add(offset)
        except CorruptFrameError:
            assert not is_good, f"offset={offset} bit={bit}"
            found += 1
    pads = [frame for frame in frames_of(archive, 0, stop) if frame.type == TYPE_PAD]
    allowed = {pad.position + byte for pad in pads for byte in range(28, pad.length)}
    assert harmless <= allowed
    assert found > 8 * (stop - start - LONG_PAD - 2 * 64)


def test_what_aeron_wrote_is_read(open_archive: Callable[..., Archive], storage: FileStorage) -> None:
    """Its checksum covers no header, so its low bits of the length, flags and reserved value are believed."""
    archive = open_archive()
    path, start, stop = record_every_kind(archive)
    (descriptor,) = list_recordings(archive.directory)
    good = served(storage, archive.directory, descriptor)
    as_aeron_writes(path, frames_of(archive, 0, stop))
    assert verify_recording(storage, archive.directory, descriptor).is_good
    assert served(storage, archive.directory, descriptor) == good
    for _, _ in flips(path, start + 32, start + 64):
        with pytest.raises(CorruptFrameError, match=r"position=60416 .* checksum"):
            served(storage, archive.directory, descriptor)


def test_no_single_bit_takes_one_kind_of_checksum_for_the_other() -> None:
    """The claim of archive/segments/frames.pxd, whatever the frame says: CRC32C is linear, so the change is the same
    for all."""

    def weight(number: int) -> int:
        return (number & 0xFFFFFFFF).bit_count()

    for length_bytes in (32, MTU - 32):
        empty = crc32c(bytes(length_bytes))
        for bit in (*range(8), *range(8 * length_bytes - 8, 8 * length_bytes), 4 * length_bytes):
            changed = bytearray(length_bytes)
            changed[bit // 8] = 1 << bit % 8
            assert weight(empty ^ crc32c(bytes(changed))) % 2 == 1
    masks = set()
    for bit in range(256):
        changed = bytearray(32)
        changed[bit // 8] = 1 << bit % 8
        mask = header_mask(bytes(changed))
        assert mask
        assert weight(mask) % 2 == 0
        masks.add(mask)
    assert len(masks) == 256 - 32 + 1  # the checksum's own four bytes count as zeros


def test_no_bit_of_the_checkpoints(tmp_path: Path, storage: FileStorage) -> None:
    """A damaged slot leaves the one before: a position that was on the device as well, a second earlier."""
    queue = storage.sync_queue()
    checkpoints = Checkpoints(storage, str(tmp_path), queue)
    for now_s, position in enumerate((640, 1280)):
        recording = SimpleNamespace(recording_id=3, durable_position=position, start_position=0)
        checkpoints.note([recording], now_s * CHECKPOINT_INTERVAL_NS)
    checkpoints.close()
    queue.close()
    assert Checkpoints.load(storage, str(tmp_path)) == {3: 1280}
    found = [Checkpoints.load(storage, str(tmp_path)) for _ in flips(tmp_path / CHECKPOINTS_NAME, 0, 64)]
    assert [found.count({3: position}) for position in (640, 1280)] == [28 * 8, 64 * 8 - 28 * 8]
