"""The functions behind `ordo archive verify | dump --endpoints`: recordings of an archive that is elsewhere.

Read-only. An archive checks every frame before it replays it, so a recording that it can send from start to end is
whole; what is wrong with another one the archive says itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from archive.catalog import RecordingDescriptor
from archive.client.client import ArchiveClient
from archive.client.replay import ReplayStream
from archive.control.codes import ErrorCode
from archive.reader import RecordedMessage
from archive.tools import Verification
from runtime.errors import ArchiveError, ArchiveTimeoutError, UnknownRecordingError
from transport.logbuffer import framed_bytes

PARK_NS = 1_000_000
REASON_TIMEOUT_NS = 1_000_000_000
"""How long the archive's reason may come after the end of the replay that it broke off."""


def verify(client: ArchiveClient, recording_id: int | None = None) -> Iterator[Verification]:
    """Has the archive send every recording, or one, up to what it has now; the bytes are thrown away.

    Raises UnknownRecordingError, ArchiveTimeoutError, and ArchiveError when the archive refuses to replay.
    """
    for descriptor in client.list_recordings() if recording_id is None else [_describe(client, recording_id)]:
        try:
            yield _verify_recording(client, descriptor)
        except UnknownRecordingError:
            if recording_id is not None:
                raise  # of all recordings, one may have been deleted since they were listed


def _describe(client: ArchiveClient, recording_id: int) -> RecordingDescriptor:
    found = client.describe_recording(recording_id)
    if found is None:
        raise UnknownRecordingError(f"recording {recording_id} is not in the archive", code=ErrorCode.UNKNOWN_RECORDING)
    return found


def _verify_recording(client: ArchiveClient, descriptor: RecordingDescriptor) -> Verification:
    start, damage = client.start_position(descriptor.recording_id), None
    stop = client.max_recorded_position(descriptor.recording_id)
    try:
        if start < stop:
            with client.open_replay(descriptor.recording_id, position=start, length=stop - start) as stream:
                _pass_over(client, stream)
    except ArchiveError as error:
        is_answer = error.code == ErrorCode.GENERIC and not isinstance(error, ArchiveTimeoutError)
        if client.is_closed or not is_answer:
            raise
        damage = error
    return Verification(descriptor.recording_id, start, stop, None, descriptor.is_active, damage)


def _pass_over(client: ArchiveClient, stream: ReplayStream) -> None:
    """Raises the reason that the archive gives when it ends the replay before its time."""
    try:
        while not stream.is_done:
            if stream.pass_over() == 0:
                client.park(PARK_NS)
    except ArchiveError:
        if stream.is_cut_short:  # the reason comes in another stream
            _await_reason(client)
        raise


def _await_reason(client: ArchiveClient) -> None:
    deadline_ns = client.now_ns() + REASON_TIMEOUT_NS
    while client.now_ns() < deadline_ns:
        if client.work() == 0:
            client.park(PARK_NS)


def dump(client: ArchiveClient, recording_id: int, from_position: int | None = None) -> Generator[RecordedMessage]:
    """The messages of a recording from a position on, where one begins (default its start), up to what there is now.

    Raises UnknownRecordingError, ArchiveTimeoutError, and ArchiveError, also where the recording is damaged.
    """
    descriptor = _describe(client, recording_id)
    for position, payload in client.replay(recording_id, position=from_position):
        start = position - framed_bytes(len(payload), descriptor.mtu)
        term_id = descriptor.initial_term_id + start // descriptor.term_length
        yield RecordedMessage(payload, start, position, term_id)
