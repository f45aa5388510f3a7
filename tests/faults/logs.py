"""The logs of all members compared byte for byte, as they are in the segment files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import counter_of

FRAME_ALIGNMENT = 32
HEADER_LENGTH = 32
HEADER = Struct("<iBBHi")  # frame length, version, flags, type, term offset
PAD = 0


def demand_equal_logs(cluster: LocalCluster, position: int) -> None:
    """The logs of all members hold the same frames up to a position."""
    logs = {member_id: log_bytes(cluster, member_id) for member_id in cluster.member_ids}
    frames = {member_id: list(frames_of(log, position)) for member_id, log in logs.items()}
    for member_id in cluster.member_ids:
        for at, one, other in zip(offsets(frames[0]), frames[0], frames[member_id], strict=False):
            assert one == other, (
                f"the logs of members 0 and {member_id} differ in the frame at {at} of {position}: "
                f"{one[:HEADER_LENGTH].hex(' ', 4)} | {other[:HEADER_LENGTH].hex(' ', 4)}"
            )
        assert len(frames[0]) == len(frames[member_id]), f"the log of member {member_id} has fewer or more frames"


def frames_of(log: bytes, position: int) -> Iterator[bytes]:
    """Each frame up to a position. Of a PAD only what is written of it and means something: its length and place."""
    offset = 0
    while offset < position:
        length, _, _, frame_type, _ = HEADER.unpack_from(log, offset)
        assert length > 0, f"the log ends at {offset}; executed were {position}"
        yield log[offset : offset + (HEADER.size if frame_type == PAD else length)]
        offset += -(-length // FRAME_ALIGNMENT) * FRAME_ALIGNMENT


def offsets(frames: list[bytes]) -> Iterator[int]:
    """Where each frame begins."""
    offset = 0
    for frame in frames:
        yield offset
        offset += -(-HEADER.unpack_from(frame)[0] // FRAME_ALIGNMENT) * FRAME_ALIGNMENT


def log_bytes(cluster: LocalCluster, member_id: int) -> bytes:
    """The whole log of a running member as it is recorded."""
    recording_id = counter_of(cluster, member_id, CounterType.LOG_RECORDING)
    return log_files(cluster.data_dir(member_id) / "archive", recording_id)


def log_files(archive: Path, recording_id: int) -> bytes:
    """The files of a log in an archive's folder, with the room behind its end."""
    files = archive.glob(f"{recording_id}-*.rec")
    return b"".join(path.read_bytes() for path in sorted(files, key=segment_base))


def log_end(log: bytes) -> int:
    """Where the frames of a log end, as recorded: behind it is nothing."""
    offset = 0
    while offset < len(log) and (length := HEADER.unpack_from(log, offset)[0]) > 0:
        offset += -(-length // FRAME_ALIGNMENT) * FRAME_ALIGNMENT
    return offset


def segment_base(path: Path) -> int:
    """The position at which a segment file begins."""
    return int(path.stem.split("-")[1])
