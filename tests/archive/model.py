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
