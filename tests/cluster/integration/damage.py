"""What befalls the log of a member on its disk."""

from __future__ import annotations

from pathlib import Path

from ordo.archive.inspection import recording_inspection as archive_tools
from ordo.deploy.launcher import LocalCluster

LOG_STREAM_ID = 100
PAD_TYPE = 0
FRAME_ALIGNMENT = 32


def log_files(cluster: LocalCluster, member_id: int) -> list[Path]:
    """Segment files of a member's log, in order."""
    folder = cluster.data_dir(member_id) / "archive"
    log = next(one for one in archive_tools.list_recordings(str(folder)) if one.stream_id == LOG_STREAM_ID)
    return sorted(folder.glob(f"{log.recording_id}-*.rec"), key=lambda path: int(path.stem.split("-")[1]))


def flip(path: Path, offset: int) -> None:
    """Changes one bit in place: a node that runs has the file open."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def records_of(segment: bytes) -> list[bytes]:
    """The frames of a segment but for paddings: these name the stream that they came in, which is a replay's at a
    member that had to catch up."""
    found, offset = [], 0
    while offset < len(segment) and (
        length_bytes := int.from_bytes(segment[offset : offset + 4], "little", signed=True)
    ):
        if int.from_bytes(segment[offset + 6 : offset + 8], "little") != PAD_TYPE:
            found.append(segment[offset : offset + length_bytes])
        offset += length_bytes + -length_bytes % FRAME_ALIGNMENT
    return found


def flip_first_segment(files: list[Path]) -> Path:
    flip(files[0], 40)
    return files[0]


def closed_segments(files: list[Path]) -> int:
    """How many segments are behind the last one with a record: no member adds to them, or has less of them."""
    return files.index(last_written(files))


def last_written(files: list[Path]) -> Path:
    """The last segment with a record: the one after it may have been made already, and be empty."""
    return next(path for path in reversed(files) if records_of(path.read_bytes()))


def flip_last_segment(files: list[Path]) -> Path:
    last = last_written(files)
    flip(last, 40)
    return last


def flip_last_byte(files: list[Path]) -> Path:
    """Of the last message: the last byte that is not zero."""
    last = last_written(files)
    flip(last, len(last.read_bytes().rstrip(b"\0")) - 1)
    return last


def remove_segment(files: list[Path]) -> Path:
    files[len(files) // 2].unlink()
    return files[len(files) // 2]


def cut_segment(files: list[Path]) -> Path:
    with files[len(files) // 2].open("r+b") as file:
        file.truncate(1000)
    return files[len(files) // 2]


LOG_DAMAGES = (flip_first_segment, flip_last_segment, flip_last_byte, remove_segment, cut_segment)
"""Each takes the segment files of a log, in order, and returns the one that is damaged."""
