"""Names and base positions of segment files (archive.md A7, B3)."""

import re
from typing import NamedTuple

SEGMENT_LENGTH_MIN = 64 * 1024
SEGMENT_LENGTH_MAX = 1024 * 1024 * 1024
SEGMENT_LENGTH_DEFAULT = 64 * 1024 * 1024

DELETED_SUFFIX = ".del"
"""The end of the name of a segment file that somebody put aside for deletion; Ordo deletes without that step."""

_NAME = re.compile(r"(0|[1-9]\d*)-(0|[1-9]\d*)\.rec")


class SegmentName(NamedTuple):
    """The recording id and the position in the name of a segment file."""

    recording_id: int
    base_position: int


def segment_name(recording_id: int, base_position: int) -> str:
    """Return `<recording id>-<base position>.rec`, decimal without padding (archive.md B1)."""
    return f"{recording_id}-{base_position}.rec"


def parse_segment_name(name: str) -> SegmentName | None:
    """Return the parts of a segment file's name, or None when it is not one."""
    match = _NAME.fullmatch(name)
    return SegmentName(int(match[1]), int(match[2])) if match else None


def segment_base_position(start_position: int, position: int, term_length: int, segment_length: int) -> int:
    """Return the base position of the segment that holds `position` (all in bytes; archive.md A7)."""
    first_base = start_position - (start_position & (term_length - 1))
    offset = position - first_base
    return first_base + (offset - (offset & (segment_length - 1)))
