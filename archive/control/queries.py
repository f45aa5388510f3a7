"""Requests that look into the catalog (archive.md A6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ordo.archive.archive import Archive
from ordo.archive.control.access import AccessPolicy
from ordo.archive.control.recordings import RecordingRequests
from ordo.archive.control.session import ControlSession, Listing
from ordo.archive.protocol import codecs, own_codecs
from ordo.archive.protocol.codes import ErrorCode, ResponseCode
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import ArchiveError, UnknownRecordingError
from ordo.runtime.native.sentinels import NULL_POSITION, NULL_VALUE

if TYPE_CHECKING:
    from ordo.archive.protocol import records

Handler = Callable[[ControlSession, Any], None]
QUESTIONS_MAX = 64
"""The most questions for places that wait, each of another session."""


class QueryRequests:
    """Requests for listings, for positions, and for the streams that are recorded now."""

    def __init__(self, archive: Archive, recordings: RecordingRequests, access: AccessPolicy) -> None:
        self._archive = archive
        self._access = access
        self._recordings = recordings
        self.handlers: dict[int, Handler] = {
            codecs.ARCHIVE_ID_REQUEST.template_id: self._archive_id,
            codecs.LIST_RECORDINGS_REQUEST.template_id: self._list_all,
            codecs.LIST_RECORDINGS_FOR_URI_REQUEST.template_id: self._list_for_uri,
            codecs.LIST_RECORDING_REQUEST.template_id: self._list_one,
            codecs.FIND_LAST_MATCHING_RECORDING_REQUEST.template_id: self._find_last,
            codecs.LIST_RECORDING_SUBSCRIPTIONS_REQUEST.template_id: self._list_subscriptions,
            codecs.RECORDING_POSITION_REQUEST.template_id: self._recording_position,
            codecs.START_POSITION_REQUEST.template_id: self._start_position,
            codecs.STOP_POSITION_REQUEST.template_id: self._stop_position,
            codecs.MAX_RECORDED_POSITION_REQUEST.template_id: self._max_recorded_position,
            own_codecs.FIND_LOG_PLACE.template_id: self._ask_place,
            own_codecs.FIND_PAST_IDENTITY.template_id: self._ask_past,
        }
        self._questions: deque[tuple[ControlSession, Callable[[], bytes]]] = deque()

    def work(self) -> int:
        """Answer one question, which reads a stretch of the log or all terms; return the number of things done."""
        if not self._questions:
            return 0
        session, answer = self._questions.popleft()
        if not session.is_done:
            session.responses.send(answer())
        return 1

    def _archive_id(self, session: ControlSession, request: records.ArchiveIdRequest) -> None:
        session.responses.send_ok(request.correlation_id, self._archive.archive_id)

    # --- listings -----------------------------------------------------------------------------------------------------

    def _list_all(self, session: ControlSession, request: records.ListRecordingsRequest) -> None:
        session.begin_listing(self._listing(session, request, lambda _: True))

    def _list_for_uri(self, session: ControlSession, request: records.ListRecordingsForUriRequest) -> None:
        def matches(descriptor: RecordingDescriptor) -> bool:
            return descriptor.stream_id == request.stream_id and request.channel in descriptor.original_channel

        session.begin_listing(self._listing(session, request, matches))

    def _listing(
        self, session: ControlSession, request: Any, matches: Callable[[RecordingDescriptor], bool]
    ) -> Listing:
        """List descriptors in ascending order until there are enough, or RECORDING_UNKNOWN when they run out."""
        _check_count(request.record_count)

        def steps() -> Listing:
            yield self._identity(session, request)
            count = 0
            recording_id = max(0, request.from_recording_id)
            while recording_id < self._archive.catalog.next_recording_id:
                descriptor = self._archive.catalog.find(recording_id)
                recording_id += 1
                if descriptor is None or not matches(descriptor):
                    yield None
                    continue
                yield session.responses.recording_descriptor(request.correlation_id, descriptor)
                count += 1
                if count == request.record_count:
                    return
            yield session.responses.recording_unknown(request.correlation_id, recording_id)

        return steps()

    def _identity(self, session: ControlSession, request: Any) -> bytes | None:
        """Return the identity of the cluster whose log this is, which clients that know it get before a listing."""
        told = self._access.log_identity() if session.is_of_ordo else None
        if told is not None and self._access.places is not None:
            told = told._replace(has_index=self._access.places.is_there)
        if told is not None:
            told = told._replace(knows_past=self._access.past_identity is not None)
        return None if told is None else session.responses.log_identity(request.correlation_id, told)

    def _list_one(self, session: ControlSession, request: records.ListRecordingRequest) -> None:
        session.check_no_listing()
        responses = session.responses
        identity = self._identity(session, request)
        if identity is not None:
            responses.send(identity)
        descriptor = self._archive.catalog.find(request.recording_id)
        if descriptor is None:
            responses.send(responses.recording_unknown(request.correlation_id, request.recording_id))
        else:
            responses.send(responses.recording_descriptor(request.correlation_id, descriptor))

    def _find_last(self, session: ControlSession, request: records.FindLastMatchingRecordingRequest) -> None:
        """Look for the last matching recording, a slice of the catalog at a time, as listings do."""
        if request.min_recording_id < 0:
            raise UnknownRecordingError(
                f"minRecordingId={request.min_recording_id} < 0, must be 0 or more", code=ErrorCode.UNKNOWN_RECORDING
            )

        def steps() -> Listing:
            found = NULL_VALUE
            for recording_id in range(self._archive.catalog.next_recording_id - 1, request.min_recording_id - 1, -1):
                descriptor = self._archive.catalog.find(recording_id)
                if (
                    descriptor is not None
                    and (descriptor.session_id, descriptor.stream_id) == (request.session_id, request.stream_id)
                    and request.channel in descriptor.original_channel
                ):
                    found = recording_id
                    break
                yield None
            yield session.responses.control_response(request.correlation_id, found)

        session.begin_listing(steps())

    def _list_subscriptions(self, session: ControlSession, request: records.ListRecordingSubscriptionsRequest) -> None:
        session.check_no_listing()
        _check_count(request.subscription_count)
        entries = self._recordings.subscriptions()
        chosen = [
            entry
            for entry in entries[request.pseudo_index :]
            if request.pseudo_index >= 0
            and request.channel in entry.channel
            and (request.apply_stream_id != 1 or entry.stream_id == request.stream_id)
        ][: request.subscription_count]
        responses = session.responses
        for entry in chosen:
            responses.send(
                codecs.RECORDING_SUBSCRIPTION_DESCRIPTOR.encode(
                    control_session_id=session.session_id,
                    correlation_id=request.correlation_id,
                    subscription_id=entry.subscription_id,
                    stream_id=entry.stream_id,
                    stripped_channel=entry.channel,
                )
            )
        if len(chosen) < request.subscription_count:
            responses.send(responses.control_response(request.correlation_id, 0, ResponseCode.SUBSCRIPTION_UNKNOWN))

    def _ask_place(self, session: ControlSession, request: own_codecs.FindLogPlaceFields) -> None:
        responses, correlation_id = session.responses, request.correlation_id
        self._ask(
            session,
            lambda: responses.log_place(correlation_id, self._find_place(request)),
            responses.log_place(correlation_id, None),
        )

    def _ask_past(self, session: ControlSession, request: own_codecs.FindPastIdentityFields) -> None:
        responses, correlation_id, find = session.responses, request.correlation_id, self._access.past_identity
        self._ask(
            session,
            lambda: responses.past_identity(correlation_id, b"" if find is None else find(request.position)),
            responses.past_identity(correlation_id, b""),
        )

    def _ask(self, session: ControlSession, answer: Callable[[], bytes], refusal: bytes) -> None:
        """Keep a question for its turn. A client whose questions wait is told that the node cannot tell."""
        if len(self._questions) < QUESTIONS_MAX and all(one is not session for one, _ in self._questions):
            self._questions.append((session, answer))
        else:
            session.responses.send(refusal)

    def _find_place(self, request: own_codecs.FindLogPlaceFields) -> own_codecs.ToldPlace | None:
        """Return where the log has a number or a time."""
        places = self._access.places
        if places is None or request.kind not in tuple(own_codecs.PlaceKind):
            return None
        return places.find(own_codecs.PlaceKind(request.kind), request.value)

    # --- positions ----------------------------------------------------------------------------------------------------

    def _recording_position(self, session: ControlSession, request: records.RecordingPositionRequest) -> None:
        self._readable(session, request.recording_id)
        live = self._archive.recording(request.recording_id)
        position = NULL_POSITION if live is None else self._bounded(request.recording_id, live.durable_position)
        session.responses.send_ok(request.correlation_id, position)

    def _start_position(self, session: ControlSession, request: records.StartPositionRequest) -> None:
        descriptor = self._readable(session, request.recording_id)
        session.responses.send_ok(request.correlation_id, descriptor.start_position)

    def _stop_position(self, session: ControlSession, request: records.StopPositionRequest) -> None:
        descriptor = self._readable(session, request.recording_id)
        stop = descriptor.stop_position
        position = stop if stop == NULL_POSITION else self._bounded(request.recording_id, stop)
        session.responses.send_ok(request.correlation_id, position)

    def _max_recorded_position(self, session: ControlSession, request: records.MaxRecordedPositionRequest) -> None:
        descriptor = self._archive.descriptor(request.recording_id)
        self._access.rights.check_measuring(descriptor, session.admission.principal)
        live = self._archive.recording(request.recording_id)
        position = descriptor.stop_position if live is None else live.durable_position
        session.responses.send_ok(request.correlation_id, self._bounded(request.recording_id, position))

    def _readable(self, session: ControlSession, recording_id: int) -> RecordingDescriptor:
        """Raise ArchiveError for a recording that is not there, or that this client may not read."""
        descriptor = self._archive.descriptor(recording_id)
        self._access.rights.check_reading(descriptor, session.admission.principal)
        return descriptor

    def _bounded(self, recording_id: int, position: int) -> int:
        """Return the position, or the limit up to which clients may read, if that is lower."""
        limit = self._access.replays.limit(recording_id)
        return position if limit is None else min(position, limit.value)


def _check_count(count: int) -> None:
    if count < 1:
        raise ArchiveError(f"count={count} of a listing, must be 1 or more")
