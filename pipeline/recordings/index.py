"""The index: what is in each stretch of about a MiB of a segment, so that reads skip what they do not need.

Built by the task that reads the beginning of a segment first, continued when it has grown, and kept in files outside
the archive folder (which belongs to the node): `$ORDO_INDEX_DIR`, or `~/.cache/ordo/index`. An index is thrown away
when the bytes it ends with are no longer what they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.scanner import BLOCK_DTYPE, scan_blocks
from ordo.pipeline.recordings.recordings import Recording, Segment, open_cursor

BLOCK_BYTES = 1 << 20
_FORMAT = 2
_TAIL_BYTES = 4096
_ANY = np.iinfo(np.int64)

Blocks = npt.NDArray[Any]


@dataclass
class SegmentIndex:
    """Blocks of one segment over [segment start, scanned_to). `fault_position` >= 0: a damaged frame stops it there."""

    blocks: Blocks
    scanned_to: int
    fault_position: int = -1


def index_directory() -> Path:
    """Return the folder in which indexes are kept: ORDO_INDEX_DIR, or one below the home folder."""
    if configured := os.environ.get("ORDO_INDEX_DIR"):
        return Path(configured)
    try:
        return Path.home() / ".cache" / "ordo" / "index"
    except RuntimeError:
        raise PipelineError(
            f"user {os.getuid()} has no home folder: set ORDO_INDEX_DIR to a folder for indexes"
        ) from None


def index_of(recordings: Recording, segments: Iterable[Segment], threads: int = 4) -> list[SegmentIndex]:
    """Indexes of the segments of one recording, built side by side where they are not at hand."""
    listed = list(segments)
    if len(listed) == 1:
        return [segment_index(recordings, listed[0])]
    with ThreadPoolExecutor(min(threads, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda segment: segment_index(recordings, segment), listed))


def segment_index(recording: Recording, segment: Segment) -> SegmentIndex:
    """Return the index of one segment up to its end; from the cache as far as that goes."""
    path = _cache_path(recording, segment)
    known = _load(path, segment)
    if known is None:
        known = SegmentIndex(np.zeros(0, dtype=BLOCK_DTYPE), segment.start)
    if known.scanned_to < segment.end and segment.present:
        extended = _extend(recording, segment, known)
        if extended.fault_position < 0:
            _save(path, segment, extended)
        known = extended
    return _clipped(known, segment)


def kept_index(recording: Recording, segment: Segment) -> SegmentIndex | None:
    """Return the stored index of a segment if it reaches the segment's end, else None. Does not read the segment."""
    if not segment.present:
        return _clipped(SegmentIndex(np.zeros(0, dtype=BLOCK_DTYPE), segment.start), segment)
    known = _load(_cache_path(recording, segment), segment)
    return _clipped(known, segment) if known is not None and known.scanned_to >= segment.end else None


def scan_range(recording: Recording, segment: Segment, start: int, end: int, block_bytes: int) -> SegmentIndex:
    """Blocks of [start, end), not kept; `start` is where a message begins."""
    cursor = open_cursor(segment, recording.descriptor, start, end, verify=False, exact=recording.exact)
    blocks = scan_blocks(cursor, recording.is_log, block_bytes)
    return SegmentIndex(blocks, cursor.position, cursor.fault_position if cursor.fault else -1)


def _extend(recording: Recording, segment: Segment, known: SegmentIndex) -> SegmentIndex:
    """Scan on from the last block, which may have been cut short by the end of what could be read then."""
    kept = known.blocks[:-1]
    start = int(known.blocks[-1]["start"]) if len(known.blocks) else known.scanned_to
    found = scan_range(recording, segment, start, segment.end, BLOCK_BYTES)
    return SegmentIndex(np.concatenate([kept, found.blocks]), found.scanned_to, found.fault_position)


def _clipped(index: SegmentIndex, segment: Segment) -> SegmentIndex:
    """Return the blocks of a segment that begin before its end, with an unknown block in place of damage."""
    blocks = index.blocks[index.blocks["start"] < segment.end]
    damaged = index.fault_position >= 0 or not segment.present
    if damaged:
        start = segment.start if not segment.present else index.fault_position
        blocks = np.concatenate([blocks, unknown_block(start, segment.end)]) if start < segment.end else blocks
    return SegmentIndex(blocks, index.scanned_to, index.fault_position)


def unknown_block(start: int, end: int) -> Blocks:
    """One block that passes every test of what is in it."""
    unknown = np.zeros(1, dtype=BLOCK_DTYPE)
    unknown["start"], unknown["end"] = start, end
    for name in ("time", "session", "term"):
        unknown[f"{name}_min"], unknown[f"{name}_max"] = _ANY.min, _ANY.max
    unknown["kinds"], unknown["session_bloom"] = -1, -1
    return unknown


def _cache_path(recording: Recording, segment: Segment) -> Path:
    folder = hashlib.blake2b(os.path.realpath(recording.directory).encode(), digest_size=12).hexdigest()
    return index_directory() / folder / f"{recording.recording_id}-{segment.base}.idx"


def _tail_hash(segment: Segment, scanned_to: int) -> str:
    begin = max(segment.start, scanned_to - _TAIL_BYTES)
    with open(segment.path, "rb") as file:
        file.seek(begin - segment.base)
        return hashlib.blake2b(file.read(scanned_to - begin), digest_size=16).hexdigest()


def _load(path: Path, segment: Segment) -> SegmentIndex | None:
    """Return the kept index, or None when there is none that still fits the file."""
    try:
        header_line, _, body = path.read_bytes().partition(b"\n")
        header = json.loads(header_line)
        if header["format"] != _FORMAT or header["start"] != segment.start:
            return None
        if header["tail"] != _tail_hash(segment, header["scanned_to"]):
            return None
        return SegmentIndex(np.frombuffer(body, dtype=BLOCK_DTYPE), header["scanned_to"])
    except (OSError, ValueError, KeyError):
        return None


def _save(path: Path, segment: Segment, index: SegmentIndex) -> None:
    """Store an index. A failure to do so is not an error: the next read scans again."""
    header = {
        "format": _FORMAT,
        "start": segment.start,
        "scanned_to": index.scanned_to,
        "tail": _tail_hash(segment, index.scanned_to),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(json.dumps(header).encode() + b"\n" + index.blocks.tobytes())
        os.replace(file.name, path)
    except OSError:
        return
