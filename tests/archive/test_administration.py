"""What `ordo archive` changes, dumps and exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ordo.archive.archive import Archive
from ordo.archive.inspection import administration, recording_inspection
from ordo.archive.inspection.export import crc32c, encode_catalog, encode_mark_file
from ordo.archive.segments.catalog import Catalog, RecordingDescriptor, RecordingState
from ordo.cli import run
from ordo.runtime.errors import ArchiveError, CorruptFrameError, StorageInUseError, UnknownRecordingError
from ordo.runtime.io.storage import FileStorage
from tests.archive.model import TYPE_DATA, TYPE_PAD, as_aeron_writes
from tests.archive.streams import MTU, Stream
from tests.archive.test_reader import flip
from tests.archive.test_recorder import frames_of, send

DESCRIPTOR = RecordingDescriptor(
    0, 0, 960, 0x1A1FB67B322, 0x1A1FB67B6B8, 5, 131072, 65536, 1408, -1450890248, 1001, "aeron:ipc?alias=foo",
    "aeron:ipc?alias=foo|term-length=64k", "aeron:ipc",
)  # fmt: skip


@pytest.fixture
def folder(open_archive: Callable[..., Archive]) -> str:
    """One stopped recording of forty messages, in an archive that is closed."""
    archive = open_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    for number in range(40):
        while stream.offer(b"message %d " % number + bytes(3000)) < 0:
            archive.do_work(0)
    archive.do_work(0)
    archive.stop(recording)
    archive.close()
    return str(archive.directory)


def test_the_exported_catalog_is_that_of_aerons_worked_example() -> None:
    """archive.md B10; the example has no checksum, so that field is left out."""
    content = encode_catalog([DESCRIPTOR])
    assert len(content) == 1024 * 1024
    assert content[:32].hex() == "00010300200000000100000000000000400000000000000000000000" + "00000000"
    assert content[32:40].hex() == "a000000001000000"
    expected = "22b367fba1010000b8b667fba10100000000000000000000c0030000000000000500000000000200"
    assert content[0x58:0x80].hex() == expected[: 2 * 0x28]
    assert content[0x80:0x94].hex() == "0000010080050000f82b85a9e903000013000000"
    assert content[0x94:0xA7] == b"aeron:ipc?alias=foo"
    assert content[0xE0:0x120] == bytes(64)
    assert crc32c(content[64:224]) == int.from_bytes(content[40:44], "little")


def test_crc32c_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_the_mark_file_is_of_an_archive_that_is_not_running() -> None:
    content = encode_mark_file([DESCRIPTOR])
    assert content[:8].hex() == "8000c80064000200"
    assert content[8:12].hex() == "00010300"
    assert int.from_bytes(content[16:24], "little", signed=True) == -1
    assert len(content) == 8192 + 1024 * 1024


def test_messages_are_dumped_with_their_positions(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    messages = list(recording_inspection.dump(folder, 0))
    assert len(messages) == 40
    assert run(["archive", "dump", folder, "0", "--from", str(messages[9].position), "--count", "2"]) == 0
    shown = capsys.readouterr().out
    assert f"message at position={messages[10].start_position} up to {messages[10].position} length=3011" in shown
    assert "message 10 " in shown
    assert "6d 65 73 73 61 67 65" in shown
    assert "... 2947 bytes more" in shown
    assert shown.count("message at") == 2
    assert run(["archive", "dump", folder, "7"]) == 1


def test_a_recording_is_marked_and_trusted_again(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["archive", "mark-invalid", folder, "0"]) == 0
    assert recording_inspection.list_recordings(folder)[0].state is RecordingState.INVALID
    with pytest.raises(ArchiveError, match="is INVALID, so it cannot become invalid"):
        administration.mark_invalid(folder, 0)
    assert run(["archive", "mark-valid", folder, "0"]) == 0
    assert recording_inspection.list_recordings(folder)[0].state is RecordingState.VALID
    with pytest.raises(ArchiveError, match="is VALID, so it cannot become valid"):
        administration.mark_valid(folder, 0)
    with pytest.raises(UnknownRecordingError):
        administration.mark_valid(folder, 9)
    assert "recording 0 is VALID now" in capsys.readouterr().out


def test_a_damaged_recording_does_not_become_valid(folder: str) -> None:
    administration.mark_invalid(folder, 0)
    path = Path(folder) / "0-0.rec"
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptFrameError, match="checksum"):
        administration.mark_valid(folder, 0)
    assert recording_inspection.list_recordings(folder)[0].state is RecordingState.INVALID


def test_orphans_are_deleted_when_the_user_says_so(folder: str) -> None:
    orphans = [Path(folder) / name for name in ("5-0.rec", "0-6553600.rec")]
    for orphan in orphans:
        orphan.write_bytes(b"x")
    from ordo.cli import app

    assert CliRunner().invoke(app, ["archive", "delete-orphans", folder], input="n\n").exit_code != 0
    assert all(orphan.exists() for orphan in orphans)
    done = CliRunner().invoke(app, ["archive", "delete-orphans", folder, "--yes"])
    assert "deleted 5-0.rec" in done.stdout
    assert not any(orphan.exists() for orphan in orphans)
    assert (Path(folder) / "0-0.rec").exists()
    assert "no segment file" in CliRunner().invoke(app, ["archive", "delete-orphans", folder]).stdout


def test_compaction_finishes_purges_and_shrinks_the_catalog(folder: str, storage: FileStorage) -> None:
    catalog = Catalog.open(storage, folder)
    template = catalog.get(0)
    for _ in range(100):
        catalog.add(template)
    for recording_id in range(1, 101):
        catalog.update(recording_id, state=RecordingState.DELETED)
    catalog.close()
    (Path(folder) / "3-0.rec").write_bytes(b"x")
    done = administration.compact(folder)
    assert done.finished_purges == 100
    assert done.length_after_bytes < done.length_before_bytes
    assert not (Path(folder) / "3-0.rec").exists()
    assert [found.recording_id for found in recording_inspection.list_recordings(folder)] == [0]
    reopened = Catalog.open(storage, folder)
    assert reopened.next_recording_id == 101
    reopened.close()
    assert len(list(recording_inspection.dump(folder, 0))) == 40


def test_frames_of_aerons_checksum_get_the_one_that_covers_headers(
    open_archive: Callable[..., Archive], capsys: pytest.CaptureFixture[str]
) -> None:
    """In two segments, with PADs of two kinds; a flipped bit that was believed before is found after."""
    archive = open_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    for payload in [bytes(1000)] * 100:
        send(archive, stream, payload)
    stream.pad(2 * MTU)
    send(archive, stream, b"behind the PAD")
    archive.do_work(0)
    archive.stop(recording)
    frames = frames_of(archive, 0, recording.written_position)
    archive.close()
    paths = [Path(archive.directory, name) for name in ("0-0.rec", "0-65536.rec")]
    sealed = [path.read_bytes() for path in paths]
    for path, base in zip(paths, (0, 65536), strict=True):
        inside = [frame for frame in frames if base <= frame.position < base + 65536]
        as_aeron_writes(path, inside)
        content = bytearray(path.read_bytes())
        for pad in (frame for frame in inside if frame.type == TYPE_PAD):
            content[pad.position - base + 24 : pad.position - base + 32] = bytes(8)
        path.write_bytes(content)
    aerons = paths[0].read_bytes()
    assert {frame.type for frame in frames} == {TYPE_DATA, TYPE_PAD}
    flip(paths[0], 24, 0)
    assert run(["archive", "verify", archive.directory]) == 0, "Aeron's checksum does not cover the reserved value"
    paths[0].write_bytes(aerons)
    flip(paths[1], 5000)
    assert run(["archive", "checksum", archive.directory]) == 1
    assert paths[0].read_bytes() == aerons, "nothing is changed where anything is damaged"
    flip(paths[1], 5000)
    assert run(["archive", "checksum", archive.directory]) == 0
    assert [path.read_bytes() for path in paths] == sealed
    assert f"recording 0: {len(frames)} frames have a new checksum" in capsys.readouterr().out
    assert run(["archive", "checksum", archive.directory, "--recording", "0"]) == 0
    assert "recording 0: 0 frames have a new checksum" in capsys.readouterr().out
    flip(paths[0], 24, 0)
    assert run(["archive", "verify", archive.directory]) == 1


def test_a_new_checksum_hides_no_damage(folder: str) -> None:
    path = Path(folder) / "0-0.rec"
    flip(path, 5000, 0)
    damaged = path.read_bytes()
    with pytest.raises(CorruptFrameError, match="checksum"):
        administration.renew_checksums(folder)
    assert path.read_bytes() == damaged
    with pytest.raises(UnknownRecordingError):
        administration.renew_checksums(folder, 7)


def test_a_recording_never_stopped_keeps_its_checksums(folder: str, storage: FileStorage) -> None:
    catalog = Catalog.open(storage, folder)
    catalog.update(0, stop_position=-1)
    catalog.close()
    with pytest.raises(ArchiveError, match="was never stopped: start its archive once"):
        administration.renew_checksums(folder)


def test_nothing_is_changed_while_a_process_owns_the_folder(open_archive: Callable[..., Archive], folder: str) -> None:
    open_archive()
    for action in (
        lambda: administration.mark_invalid(folder, 0),
        lambda: administration.delete_orphans(folder),
        lambda: administration.compact(folder),
        lambda: administration.renew_checksums(folder),
    ):
        with pytest.raises(StorageInUseError):
            action()
    assert len(list(recording_inspection.dump(folder, 0))) == 40
