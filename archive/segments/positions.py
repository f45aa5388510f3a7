"""The rules for positions: what may be extended, replayed and truncated where (archive.md).

Also how the recording position counter is named.
"""

import struct

from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.cursor import SegmentCursor
from ordo.archive.segments.recovery import base_of
from ordo.archive.segments.scan import FrameScanner
from ordo.runtime.errors import ArchiveError
from ordo.runtime.io.storage import Storage
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.transport.frame_layout import FRAME_ALIGNMENT

ERROR_INVALID_EXTENSION = 9
ERROR_INVALID_POSITION = 16
KEY_LENGTH_MAX = 112
LABEL_LENGTH_MAX = 380


def check_extension(
    descriptor: RecordingDescriptor,
    *,
    position: int,
    initial_term_id: int,
    term_length: int,
    mtu: int,
    stream_id: int,
) -> None:
    """Raise ArchiveError unless an image with these parameters continues the recording (archive.md A5)."""
    pairs = {
        "position": (descriptor.stop_position, position),
        "initial_term_id": (descriptor.initial_term_id, initial_term_id),
        "term_length": (descriptor.term_length, term_length),
        "mtu": (descriptor.mtu, mtu),
        "stream_id": (descriptor.stream_id, stream_id),
    }
    for name, (expected, actual) in pairs.items():
        if expected != actual:
            raise ArchiveError(
                f"recording {descriptor.recording_id} cannot be extended by this image: {name} expected={expected} "
                f"actual={actual}",
                code=ERROR_INVALID_EXTENSION,
            )


def _check_range(descriptor: RecordingDescriptor, position: int, stop: int) -> None:
    if position % FRAME_ALIGNMENT or not descriptor.start_position <= position <= stop:
        raise ArchiveError(
            f"invalid position {position} of recording {descriptor.recording_id}: it is not a multiple of "
            f"{FRAME_ALIGNMENT} from start={descriptor.start_position} to stop={stop}",
            code=ERROR_INVALID_POSITION,
        )


def check_replay(
    descriptor: RecordingDescriptor,
    position: int,
    length: int | None,
    stop: int,
    *,
    is_live: bool,
    may_be_empty: bool = False,
) -> None:
    """Raise ArchiveError unless a replay may begin at `position`; `stop` is how far the recording goes now.

    `may_be_empty`: the request named no position, so that there may be nothing to replay.
    """
    _check_range(descriptor, position, stop)
    if position == stop and not is_live and not may_be_empty:
        raise ArchiveError(
            f"recording {descriptor.recording_id} ends at position={position}: there is nothing to replay",
            code=ERROR_INVALID_POSITION,
        )
    if length is not None and length <= 0:
        raise ArchiveError(f"length={length} of a replay is not above 0", code=ERROR_INVALID_POSITION)


def check_detachment(descriptor: RecordingDescriptor, new_start: int, stop: int) -> None:
    """Raise ArchiveError unless everything below `new_start` may be removed (archive.md A7, valid detach)."""
    first = base_of(descriptor, descriptor.start_position) + descriptor.segment_length
    last = base_of(descriptor, stop)
    if new_start != base_of(descriptor, new_start) or not first <= new_start <= last:
        raise ArchiveError(
            f"invalid detach: newStartPosition={new_start} of recording {descriptor.recording_id} is not the base of a "
            f"segment from {first} to {last}; its segments are {descriptor.segment_length} bytes long"
        )


def check_truncation(storage: Storage, directory: str, descriptor: RecordingDescriptor, position: int) -> None:
    """Raise ArchiveError unless the recording is stopped and a frame begins at `position`, or it is the stop."""
    if descriptor.stop_position == NULL_POSITION:
        raise ArchiveError(f"recording {descriptor.recording_id} is being recorded; stop it first", code=2)
    _check_range(descriptor, position, descriptor.stop_position)
    segment_start = max(descriptor.start_position, base_of(descriptor, position))
    if position in (descriptor.stop_position, segment_start):
        return
    end, _, damage = FrameScanner(SegmentCursor(storage, directory, descriptor)).run(segment_start, position)
    if damage is not None:
        raise damage
    if end != position:
        raise ArchiveError(
            f"position={position} of recording {descriptor.recording_id} is within a frame that ends at position={end}"
            "; truncate where a frame begins",
            code=ERROR_INVALID_POSITION,
        )


def recording_counter_key(descriptor: RecordingDescriptor, archive_id: int) -> bytes:
    """Return the key of the `rec-pos` counter (archive.md B7).

    These are recording id, session id, source identity and archive id.
    """
    identity = descriptor.source_identity.encode("ascii", "replace")[: KEY_LENGTH_MAX - 24]
    head = struct.pack("<qii", descriptor.recording_id, descriptor.session_id, len(identity))
    return head + identity + struct.pack("<q", archive_id)


def recording_counter_label(descriptor: RecordingDescriptor, archive_id: int) -> str:
    """Return the label of the `rec-pos` counter (archive.md B7); the channel is cut so that it fits."""
    head = f"rec-pos: {descriptor.recording_id} {descriptor.session_id} {descriptor.stream_id} "
    tail = f" - archiveId={archive_id}"
    return head + descriptor.stripped_channel[: LABEL_LENGTH_MAX - len(head) - len(tail)] + tail
