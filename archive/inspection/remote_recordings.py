"""The functions of `ordo archive verify | dump --endpoints`: recordings of a remote archive.

Read-only. An archive checks every frame before it replays it, so a recording that it can send from start to end is
whole; what is wrong with another one the archive says itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

from ordo.archive.client import replay
from ordo.archive.client.client import ArchiveClient
from ordo.archive.client.replay import ReplayStream
from ordo.archive.inspection.recording_inspection import Verification
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.reader import RecordedMessage
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, UnknownRecordingError
from ordo.transport.frame_layout import FRAME_ALIGNMENT
from ordo.transport.streams.logbuffer import framed_bytes

PARK_NS = 1_000_000


def _go_on() -> None:
    """Do nothing: the default check for callers that always want the rest."""


def verify(
    client: ArchiveClient, recording_id: int | None = None, *, check: Callable[[], object] = _go_on
) -> Generator[Verification]:
    """Have the archive send every recording, or one, up to its present end, and discard the bytes.

    `check` is called again and again while an archive sends; what it raises ends the replay.

    Raises UnknownRecordingError, ArchiveTimeoutError, and ArchiveError when the archive refuses to replay.
    """
    for descriptor in client.list_recordings() if recording_id is None else [_describe(client, recording_id)]:
        try:
            yield _verify_recording(client, descriptor, check)
        except UnknownRecordingError:
            if recording_id is not None:
                raise  # of all recordings, one may have been deleted since they were listed


def _describe(client: ArchiveClient, recording_id: int) -> RecordingDescriptor:
    found = client.describe_recording(recording_id)
    if found is None:
        raise UnknownRecordingError(f"recording {recording_id} is not in the archive", code=ErrorCode.UNKNOWN_RECORDING)
    return found


def _verify_recording(
    client: ArchiveClient, descriptor: RecordingDescriptor, check: Callable[[], object]
) -> Verification:
    start, damage = client.start_position(descriptor.recording_id), None
    stop = client.max_recorded_position(descriptor.recording_id)
    try:
        if start < stop:
            with client.open_replay(descriptor.recording_id, position=start, length=stop - start) as stream:
                while not stream.is_done:
                    check()
                    _take(client, stream, stream.pass_over)
    except ArchiveError as error:
        if not is_damage(client, error) and not _lacks_first_frame(client, descriptor.recording_id, start, error):
            raise
        damage = error
    return Verification(descriptor.recording_id, start, stop, None, descriptor.is_active, damage)


def is_damage(client: ArchiveClient, error: ArchiveError) -> bool:
    """Return whether the error of a replay says that the recording is damaged.

    It does when the archive lives, and has no other reason.
    """
    return error.code == ErrorCode.GENERIC and not isinstance(error, ArchiveTimeoutError) and not client.is_closed


def _lacks_first_frame(client: ArchiveClient, recording_id: int, start: int, error: ArchiveError) -> bool:
    """Return whether the archive finds no frame where the recording starts, and it still starts there."""
    return error.code == ErrorCode.INVALID_POSITION and client.start_position(recording_id) == start


def _take(client: ArchiveClient, stream: ReplayStream, take: Callable[[], int]) -> None:
    """Receive what has arrived, or wait a moment."""
    if take() == 0 and not stream.is_done:
        client.park(PARK_NS)


def dump(
    client: ArchiveClient,
    recording_id: int,
    from_position: int | None = None,
    *,
    check: Callable[[], object] = _go_on,
) -> Generator[RecordedMessage]:
    """Return the messages of a recording from a position to its present end.

    A message begins at the position; the default is the recording's start.

    `check` as in `verify`. Raises UnknownRecordingError, ArchiveTimeoutError, and ArchiveError, also where the
    recording is damaged.
    """
    descriptor = _describe(client, recording_id)
    for position, payload in _replay(client, recording_id, from_position, check):
        start = position - framed_bytes(len(payload), descriptor.mtu)
        term_id = descriptor.initial_term_id + start // descriptor.term_length
        yield RecordedMessage(payload, start, position, term_id)


def _replay(
    client: ArchiveClient, recording_id: int, from_position: int | None, check: Callable[[], object]
) -> Generator[replay.RecordedMessage]:
    start = client.start_position(recording_id) if from_position is None else from_position
    if start % FRAME_ALIGNMENT:
        text = f"no message begins at position={start}: give the position after a message"
        raise ArchiveError(text, code=ErrorCode.INVALID_POSITION)
    stop = client.max_recorded_position(recording_id)
    if start == stop:
        return
    come: deque[replay.RecordedMessage] = deque()
    with client.open_replay(recording_id, position=start, length=stop - start) as stream:
        while not stream.is_done:
            check()
            _take(client, stream, lambda: stream.poll(come.append))
            while come:
                yield come.popleft()
