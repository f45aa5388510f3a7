"""Listing, describing and verifying a folder from outside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.archive import Archive
from ordo.archive.inspection.recording_inspection import (
    describe,
    list_recordings,
    orphaned_segments,
    verify,
    verify_recording,
)
from ordo.cli import EXIT_FAILED, run
from ordo.runtime.errors import CorruptFrameError, StorageMissingError, UnknownRecordingError
from tests.archive.streams import Stream
from tests.archive.test_reader import flip
from tests.archive.test_recorder import send_many


@pytest.fixture
def folder(open_archive: Callable[..., Archive]) -> str:
    """Two stopped recordings, the first of several segments."""
    archive = open_archive()
    for count in (150, 10):
        stream = Stream(session_id=count)
        recording = archive.record(stream.image)
        send_many(archive, stream, count)
        archive.stop(recording)
    archive.close()
    return archive.directory


def test_verify_finds_whole_recordings_good(folder: str) -> None:
    results = list(verify(folder))
    assert [(result.recording_id, result.is_good, result.is_active) for result in results] == [
        (0, True, False),
        (1, True, False),
    ]
    assert (results[0].frame_count or 0) > 150
    assert str(results[1]).startswith("recording 1: OK start=0 stop=")
    assert orphaned_segments(folder) == []


def test_verify_names_the_first_damage(folder: str) -> None:
    """A flipped byte, a removed segment, a cut tail: recording, file, position, reason."""
    segments = sorted(Path(folder).glob("0-*.rec"), key=lambda path: int(path.stem.split("-")[1]))
    last = segments[-1]
    last.write_bytes(last.read_bytes()[:100])
    (short,) = verify(folder, 0)
    assert isinstance(short.damage, CorruptFrameError)
    assert (short.damage.segment_path, short.damage.reason) == (str(last), "the segment file ends inside the frame")
    segments[1].unlink()
    (missing,) = verify(folder, 0)
    assert isinstance(missing.damage, CorruptFrameError)
    assert missing.damage.position <= 65536
    assert "missing" in missing.damage.reason or "ends inside" in missing.damage.reason
    flip(segments[0], 40)
    first, second = verify(folder)
    assert isinstance(first.damage, CorruptFrameError)
    assert (first.damage.recording_id, first.damage.position, first.damage.reason) == (0, 0, "checksum")
    assert first.damage.segment_path == str(segments[0])
    assert str(first).startswith("recording 0: DAMAGED recording 0 is damaged at position=0 in ")
    assert second.is_good


def test_verify_goes_on_behind_a_file_that_cannot_be_read(folder: str) -> None:
    segment = Path(folder, "0-0.rec")
    segment.unlink()
    segment.mkdir()
    first, second = verify(folder)
    assert str(first).startswith("recording 0: UNREADABLE cannot read recording 0 at position=0: path=")
    assert not first.is_good
    assert second.is_good


def test_verify_beside_the_owner(open_archive: Callable[..., Archive], storage: Any) -> None:
    """A live recording is good as far as it goes."""
    archive = open_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    send_many(archive, stream, 100)
    result = verify_recording(storage, archive.directory, archive.descriptor(0))
    assert (result.is_good, result.is_active, result.stop_position) == (True, True, recording.written_position)


def test_describe_is_one_line_a_recording(folder: str) -> None:
    lines = describe(folder)
    stop = list_recordings(folder)[1].stop_position
    assert len(lines) == 2
    assert lines[1] == (
        f"recording 1: stream=100 session=10 start=0 stop={stop} term_length=65536 segment_length=65536 mtu=1408 "
        "initial_term_id=7 channel=aeron:ipc?alias=log source=aeron:ipc state=VALID"
    )
    assert describe(folder, 1) == lines[1:]


def test_orphans_are_named(folder: str) -> None:
    stop = list_recordings(folder)[1].stop_position
    beyond = (stop // 65536 + 1) * 65536
    for name in (f"1-{beyond}.rec", "7-0.rec", "notes.txt"):
        Path(folder, name).touch()
    assert orphaned_segments(folder) == sorted([f"1-{beyond}.rec", "7-0.rec"])


def test_user_mistakes(folder: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownRecordingError):
        list(verify(folder, 9))
    with pytest.raises(StorageMissingError):
        list_recordings(str(tmp_path / "nowhere"))


def test_a_catalog_that_cannot_be_written_leaves_the_one_that_was_there(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["archive", "export-catalog", folder]) == 0
    before = Path(folder, "archive.catalog").read_bytes()
    capsys.readouterr()
    Path(folder, "archive.catalog.new").mkdir()
    assert run(["archive", "export-catalog", folder]) == EXIT_FAILED
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"ordo: {folder}/archive.catalog cannot be written: Is a directory\n")
    assert Path(folder, "archive.catalog").read_bytes() == before


def test_nothing_checked_is_said(open_archive: Callable[..., Archive], capsys: pytest.CaptureFixture[str]) -> None:
    archive = open_archive()
    archive.close()
    assert run(["archive", "verify", archive.directory]) == 0
    assert capsys.readouterr().out == "no recordings: nothing was checked\n"
