"""The calls of `ordo.v1.Archives`.

What `ordo archive list`, `describe`, `verify` and `dump` do with --endpoints, with the caller's token.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeVar

import grpc

from ordo.archive.inspection import remote_recordings
from ordo.archive.inspection.recording_inspection import Verification
from ordo.archive.protocol.codes import REFUSALS
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.reader import RecordedMessage
from ordo.gateway.callers.batches import BATCH_BYTES_MAX, item_length
from ordo.gateway.callers.call_context import CallContext, refuse
from ordo.gateway.services.archive_visits import ArchiveVisits, Look, Visit
from ordo.runtime.errors import ArchiveError, CorruptFrameError, OrdoError
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc

T = TypeVar("T")
MESSAGES_MAX = 4_096
"""Messages of a batch: short messages take more room as objects than in their batch."""


class ArchiveCalls(ordo_pb2_grpc.ArchivesServicer):
    """Looks at recordings, and changes nothing."""

    def __init__(self, visits: ArchiveVisits) -> None:
        self._visits = visits

    async def ListRecordings(
        self, request: pb.ListRecordingsRequest, context: CallContext
    ) -> pb.ListRecordingsResponse:
        member_id = request.member_id if request.HasField("member_id") else None
        members = await self._visits.collect(context, lambda visit: _list(visit, member_id))
        return pb.ListRecordingsResponse(members=members)

    async def VerifyRecordings(self, request: pb.VerifyRecordingsRequest, context: CallContext) -> None:
        recording_id = request.recording_id if request.HasField("recording_id") else None
        await self._stream(request, context, lambda visit: _verify(visit, request.member_id, recording_id))

    async def ReadRecording(self, request: pb.ReadRecordingRequest, context: CallContext) -> None:
        await self._stream(request, context, lambda visit: _read(visit, request))

    async def _stream(
        self, request: pb.VerifyRecordingsRequest | pb.ReadRecordingRequest, context: CallContext, look: Look[T]
    ) -> None:
        for name in ("recording_id", "from_position"):
            if getattr(request, name, 0) < 0:
                await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, f"{name} must be 0 or above")
        await self._visits.stream(context, look)


def _list(visit: Visit[pb.MemberRecordings], member_id: int | None) -> Generator[pb.MemberRecordings]:
    """List the recordings. Raises if one named member fails, or if the archives refuse the credentials."""
    members = visit.find_members() if member_id is None else [visit.find_member(member_id)]
    refusals, has_answer = [], False
    for index, member in enumerate(members):
        visit.check()
        told = pb.MemberRecordings(member_id=member.member_id, archive_endpoint=member.archive)
        try:
            with visit.open_archive(member, len(members) - index) as archive:
                told.recordings.extend(_recording(one) for one in archive.list_recordings())
            has_answer = True
        except OrdoError as error:
            if member_id is not None:
                raise
            if isinstance(error, ArchiveError) and error.code in REFUSALS:
                refusals.append(error)
            told.trouble = error.message
        yield told
    if refusals and not has_answer:
        raise refusals[0]


def _verify(
    visit: Visit[pb.VerifiedRecording], member_id: int, recording_id: int | None
) -> Generator[pb.VerifiedRecording]:
    with visit.open_archive(visit.find_member(member_id)) as archive:
        for found in remote_recordings.verify(archive, recording_id, check=visit.check):
            yield _verified(found)


def _read(visit: Visit[pb.RecordingBatch], request: pb.ReadRecordingRequest) -> Generator[pb.RecordingBatch]:
    position = request.from_position if request.HasField("from_position") else None
    with visit.open_archive(visit.find_member(request.member_id)) as archive:
        messages = remote_recordings.dump(archive, request.recording_id, position, check=visit.check)
        try:
            yield from _batches(islice(messages, request.message_count_max or None))
        except ArchiveError as error:
            if not remote_recordings.is_damage(archive, error):
                raise
            raise CorruptFrameError(error.message, recording_id=request.recording_id) from error
        finally:
            messages.close()


def _batches(messages: Iterable[RecordedMessage]) -> Generator[pb.RecordingBatch]:
    """Yield batches of the maximum length, and the remainder at the end, even if a recording breaks off."""
    batch, length_bytes = pb.RecordingBatch(), 0
    end: ArchiveError | None = None
    try:
        for one in messages:
            is_full = length_bytes + item_length(one) > BATCH_BYTES_MAX or len(batch.messages) >= MESSAGES_MAX
            if batch.messages and is_full:
                yield batch
                batch, length_bytes = pb.RecordingBatch(), 0
            batch.messages.append(_message(one))
            length_bytes += item_length(one)
    except ArchiveError as error:
        end = error
    if batch.messages:
        yield batch
    if end is not None:
        raise end


def _recording(one: RecordingDescriptor) -> pb.Recording:
    return pb.Recording(**one._asdict() | {"state": one.state.name})


def _message(one: RecordedMessage) -> pb.RecordedMessage:
    return pb.RecordedMessage(
        start_position=one.start_position, position=one.position, term_id=one.term_id, payload=one.payload
    )


def _verified(one: Verification) -> pb.VerifiedRecording:
    return pb.VerifiedRecording(
        recording_id=one.recording_id,
        start_position=one.start_position,
        stop_position=one.stop_position,
        is_active=one.is_active,
        is_good=one.is_good,
        damage="" if one.damage is None else one.damage.message,
    )
