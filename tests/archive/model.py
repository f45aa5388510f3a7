"""A slow, obvious reading of segment files (archive.md B3): what the fast code is compared with."""

import struct
from pathlib import Path
from typing import NamedTuple

TYPE_PAD = 0
TYPE_DATA = 1


class Frame(NamedTuple):
    """One frame as it lies in a segment file."""

    position: int
    length: int
    flags: int
    type: int
    term_offset: int
    checksum: int
    stream_id: int
    term_id: int
    reserved: int
    payload: bytes


def crc32c(data: bytes) -> int:
    """Castagnoli, bit by bit, as a signed 32-bit number."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return int.from_bytes((crc ^ 0xFFFFFFFF).to_bytes(4, "little"), "little", signed=True)


def header_mask(header: bytes) -> int:
    """What the header of a recorded data frame adds to its checksum (archive/segments/frames.pxd), as a signed 32-bit
    number."""
    crc = crc32c(header[:12] + bytes(4) + header[16:32]) & 0xFFFFFFFF
    mask = crc ^ (crc << 1 & 0xFFFFFFFF | crc >> 31)
    return int.from_bytes((mask or 3).to_bytes(4, "little"), "little", signed=True)


def checksum_of(frame: "Frame") -> int:
    """The checksum that the recorder gives a data frame."""
    f = frame
    header = struct.pack(
        "<iBBHiiiiq", f.length, 0, f.flags, f.type, f.term_offset, 0, f.stream_id, f.term_id, f.reserved
    )
    return crc32c(f.payload) ^ header_mask(header)


def seal_of(frame: "Frame") -> int:
    """The reserved value that the recorder gives a PAD."""
    f = frame
    header = struct.pack("<iBBHiiii", f.length, 0, f.flags, f.type, f.term_offset, f.checksum, f.stream_id, f.term_id)
    return 0x4F726450 << 32 | crc32c(header) & 0xFFFFFFFF


def as_aeron_writes(path: Path, frames: "list[Frame]") -> None:
    """Gives the data frames of a segment file the checksums of Aeron's archive, which do not cover the header."""
    data = bytearray(path.read_bytes())
    for frame in frames:
        if frame.type == TYPE_DATA:
            struct.pack_into("<i", data, frame.position % len(data) + 12, crc32c(frame.payload))
    path.write_bytes(data)


def as_ordo_writes(path: Path, frames: "list[Frame]") -> None:
    """Gives the frames of a segment file the checksums and seals of Ordo's recorder."""
    data = bytearray(path.read_bytes())
    for frame in frames:
        offset = frame.position % len(data)
        if frame.type == TYPE_DATA:
            struct.pack_into("<i", data, offset + 12, checksum_of(frame))
        else:
            struct.pack_into("<q", data, offset + 24, seal_of(frame))
    path.write_bytes(data)


def align(length: int) -> int:
    return (length + 31) // 32 * 32


def read_frames(
    directory: str, recording_id: int, start: int, stop: int, segment_length: int, term: int
) -> list[Frame]:
    """Every frame of a recording from `start` to `stop`, unchecked."""
    frames, position, first_base = [], start, start // term * term
    while position < stop:
        base = first_base + (position - first_base) // segment_length * segment_length
        data = Path(directory, f"{recording_id}-{base}.rec").read_bytes()
        assert len(data) == segment_length
        offset = position - base
        length, _, flags, kind, term_offset, checksum, stream_id, term_id, reserved = struct.unpack_from(
            "<iBBHiiiiq", data, offset
        )
        assert length > 0, f"hole at {position}"
        payload = data[offset + 32 : offset + align(length)]
        frames.append(
            Frame(position, length, flags, kind, term_offset, checksum, stream_id, term_id, reserved, payload)
        )
        position += align(length)
    assert position == stop
    return frames


def messages_of(frames: list[Frame]) -> list[bytes]:
    """Whole messages in order."""
    messages: list[bytes] = []
    parts: list[bytes] = []
    for frame in frames:
        if frame.type == TYPE_PAD:
            continue
        if frame.flags & 0x80:
            parts = []
        parts.append(frame.payload[: frame.length - 32])
        if frame.flags & 0x40:
            messages.append(b"".join(parts))
    return messages
