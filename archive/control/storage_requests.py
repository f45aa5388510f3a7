"""Requests that take recordings apart (archive.md A7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ordo.archive import history
from ordo.archive.archive import Archive
from ordo.archive.channels import strip_channel
from ordo.archive.control.session import ControlSession
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ErrorCode
from ordo.runtime.errors import ArchiveError
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.archive.protocol import records

CHANNEL_LENGTH_MAX = 4095


class StorageRequests:
    """Truncation, purging, segments that come and go, and the channel in the catalog."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.handlers: dict[int, Callable[[ControlSession, Any], None]] = {
            codecs.TRUNCATE_RECORDING_REQUEST.template_id: self._truncate,
            codecs.PURGE_RECORDING_REQUEST.template_id: self._purge,
            codecs.DETACH_SEGMENTS_REQUEST.template_id: self._detach,
            codecs.DELETE_DETACHED_SEGMENTS_REQUEST.template_id: self._delete_detached,
            codecs.PURGE_SEGMENTS_REQUEST.template_id: self._purge_segments,
            codecs.ATTACH_SEGMENTS_REQUEST.template_id: self._attach,
            codecs.MIGRATE_SEGMENTS_REQUEST.template_id: self._migrate,
            codecs.UPDATE_CHANNEL_REQUEST.template_id: self._update_channel,
        }

    def _deleted(self, session: ControlSession, correlation_id: int, count: int, recording_id: int) -> None:
        session.responses.send_ok(correlation_id, count)
        session.responses.send_delete(correlation_id, recording_id)

    def _check_stopped(self, recording_id: int, what: str) -> None:
        if self._archive.recording(recording_id) is not None:
            raise ArchiveError(f"cannot {what} active recording {recording_id}", code=ErrorCode.ACTIVE_RECORDING)

    def _truncate(self, session: ControlSession, request: records.TruncateRecordingRequest) -> None:
        self._check_stopped(request.recording_id, "truncate")
        count = self._archive.truncate(request.recording_id, request.position)
        self._deleted(session, request.correlation_id, count, request.recording_id)

    def _purge(self, session: ControlSession, request: records.PurgeRecordingRequest) -> None:
        self._check_stopped(request.recording_id, "purge")
        self._deleted(session, request.correlation_id, self._archive.purge(request.recording_id), request.recording_id)

    def _detach(self, session: ControlSession, request: records.DetachSegmentsRequest) -> None:
        self._archive.detach_segments(request.recording_id, request.new_start_position)
        session.responses.send_ok(request.correlation_id)

    def _delete_detached(self, session: ControlSession, request: records.DeleteDetachedSegmentsRequest) -> None:
        count = self._archive.delete_detached_segments(request.recording_id)
        self._deleted(session, request.correlation_id, count, request.recording_id)

    def _purge_segments(self, session: ControlSession, request: records.PurgeSegmentsRequest) -> None:
        count = self._archive.purge_segments(request.recording_id, request.new_start_position)
        self._deleted(session, request.correlation_id, count, request.recording_id)

    def _attach(self, session: ControlSession, request: records.AttachSegmentsRequest) -> None:
        count = history.attach_segments(self._archive, request.recording_id)
        session.responses.send_ok(request.correlation_id, count)

    def _migrate(self, session: ControlSession, request: records.MigrateSegmentsRequest) -> None:
        count = history.migrate_segments(self._archive, request.source_recording_id, request.target_recording_id)
        self._deleted(session, request.correlation_id, count, request.source_recording_id)

    def _update_channel(self, session: ControlSession, request: records.UpdateChannelRequest) -> None:
        session.check_no_listing()
        if self._archive.catalog.find(request.recording_id) is None:
            responses = session.responses
            responses.send(responses.recording_unknown(request.correlation_id, request.recording_id))
            return
        if len(request.channel) > CHANNEL_LENGTH_MAX:
            raise ArchiveError(f"channel of {len(request.channel)} characters, at most {CHANNEL_LENGTH_MAX}")
        ChannelUri.parse(request.channel)
        self._archive.catalog.update(
            request.recording_id, stripped_channel=strip_channel(request.channel), original_channel=request.channel
        )
        session.responses.send_ok(request.correlation_id)
