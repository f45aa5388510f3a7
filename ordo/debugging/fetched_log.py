"""The log of a running cluster over the network: `ordo://HOST:PORT,...`, read from its members' archives."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ordo.debugging.recorded_file import Record, write_archive
from ordo.debugging.replaying.recorded_log import RecordedLog
from ordo.follow.recordings.ranges import RangeReader, survey
from ordo.runtime.errors import ConfigurationError
from ordo.transport.frame_layout import FRAME_HEADER_LENGTH, align_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCHEME = "ordo://"
_FRAME = struct.Struct("<iBBH")
_BEGIN, _END, _PAD = 0x80, 0x40, 0


def open_log(place: str, commit: str = "auto") -> RecordedLog:
    """Return the log of a folder, or of a cluster at `ordo://HOST:PORT,...`, the archive endpoints of its members.

    The latter is copied into a temporary folder, which goes with the log. Raises ConfigurationError, OrdoError.
    """
    if not place.startswith(SCHEME):
        return RecordedLog(Path(place), commit)
    if commit != "auto":
        raise ConfigurationError(f"--commit {commit}: {place} gives what is committed: leave the option out")
    return FetchedLog(place)


class FetchedLog(RecordedLog):
    """A copy of a cluster's log, in a folder that is there as long as this object."""

    def __init__(self, place: str) -> None:
        """Copy what is committed now."""
        addresses = [part.strip() for part in place.removeprefix(SCHEME).split(",")]
        found = survey(addresses)
        if found.start_position > 0:
            raise ConfigurationError(
                f"{place}: the log begins at {found.start_position}, and snapshots are not read over the network: make"
                " a copy with `ordo backup run FOLDER --once`, and give its folder"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="ordo-fetched-")
        with RangeReader(found.followers, 0, found.end_position, origin=found.origin) as blocks:
            descriptor = found.descriptor
            write_archive(Path(self._folder.name), messages_of(blocks), descriptor.term_length, descriptor.mtu)
        super().__init__(Path(self._folder.name))


def messages_of(blocks: Iterable[tuple[int, bytes]]) -> Iterator[Record]:
    """Yield the messages of whole frames, fragments put together; one that never ended is left out."""
    parts: list[bytes] = []
    start = 0
    for position, block in blocks:
        offset = 0
        while offset < len(block):
            length, _, flags, kind = _FRAME.unpack_from(block, offset)
            if kind != _PAD:
                if flags & _BEGIN:
                    start, parts = position + offset, []
                parts.append(block[offset + FRAME_HEADER_LENGTH : offset + length])
                if flags & _END:
                    yield Record(start, b"".join(parts))
            offset += align_frame(length)
