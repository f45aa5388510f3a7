"""Requests that replay recordings (archive.md A8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ordo.archive.archive import Archive
from ordo.archive.channels import answering_channel, bounded_channel, strip_channel
from ordo.archive.control.access import AccessPolicy
from ordo.archive.control.live_replays import LiveReplays
from ordo.archive.control.session import ControlSession
from ordo.archive.control.settings import ControlSettings
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import NULL_LENGTH, REPLAY_ALL_AND_FOLLOW, REPLAY_ALL_AND_STOP, ErrorCode
from ordo.archive.protocol.driver_requests import DriverRequests
from ordo.archive.replay import Replay
from ordo.archive.replay_plan import ReplayPlan
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.record_filter import RecordFilter
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.runtime.native.counters import Counter, CountersReader
from ordo.runtime.native.sentinels import NULL_POSITION, NULL_VALUE
from ordo.transport.frame_layout import FRAME_ALIGNMENT
from ordo.transport.streams.image import Image
from ordo.transport.streams.publication import ExclusivePublication
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.archive.protocol import records

    ReplayOrder = records.ReplayRequest | records.BoundedReplayRequest

REQUEST_LENGTH_MIN = 48
"""The bytes of a replay request without its channel."""


class ClientReplay:
    """One replay for a client: its publication is on its way, or it runs."""

    def __init__(
        self,
        owner: ReplayRequests,
        session: ControlSession,
        request: ReplayOrder,
    ) -> None:
        self.session = session
        self.recording_id: int = request.recording_id
        self.replay_session_id = NULL_VALUE
        self.replay: Replay | None = None
        self._owner = owner
        self._correlation_id: int = request.correlation_id
        self._block_length: int | None = request.file_io_length_max if request.file_io_length_max > 0 else None
        self._limit: Counter | None = None
        self._filter = RecordFilter.of_channel(ChannelUri.parse(request.replay_channel))
        self._plan: ReplayPlan | None = None

    def open(self, plan: ReplayPlan, limit: Counter | None) -> None:
        self._plan, self._limit = plan, limit

    @property
    def is_following(self) -> bool:
        """Whether the replay goes on with what is recorded from now on, up to a bound."""
        return self._plan is not None and self._plan.length_bytes is None and self._limit is not None

    def on_publication(self, publication: ExclusivePublication) -> None:
        assert self._plan is not None
        try:
            self.replay = self._owner.archive.begin_replay(
                self._plan,
                publication,
                limit=self._limit,
                block_length_bytes=self._block_length,
                revokes=True,
                on_end=self._on_end,
                record_filter=self._filter,
            )
        except OrdoError as error:
            self.on_failure(error)
            return
        self.replay_session_id = (self.replay.replay_id << 32) | (publication.session_id & 0xFFFFFFFF)
        self.session.responses.send_ok(self._correlation_id, self.replay_session_id)

    def on_failure(self, error: OrdoError) -> None:
        self._owner.remove(self)
        self.session.responses.send_error(self._correlation_id, error)

    def _on_end(self, replay: Replay, error: Exception | None) -> None:
        self._owner.remove(self)
        if error is not None:
            self.session.responses.send_error(self._correlation_id, error)

    def stop(self) -> None:
        if self.replay is not None:
            self._owner.archive.stop_replay(self.replay)


class ReplayRequests:
    """The replays that clients asked for. Replays of the archive's owner are not listed and cannot be stopped here."""

    def __init__(
        self,
        archive: Archive,
        driver: DriverRequests,
        counters: CountersReader,
        config: ControlSettings,
        access: AccessPolicy,
    ) -> None:
        self.archive = archive
        self._driver = driver
        self._counters = counters
        self._config = config
        self._access = access
        self._replays: list[ClientReplay] = []
        self.live = LiveReplays(archive, driver, config, self._find_end)
        self.handlers: dict[int, Callable[[ControlSession, Any], None]] = {
            codecs.REPLAY_REQUEST.template_id: self._replay,
            codecs.BOUNDED_REPLAY_REQUEST.template_id: self._replay,
            codecs.STOP_REPLAY_REQUEST.template_id: self._stop,
            codecs.STOP_ALL_REPLAYS_REQUEST.template_id: self._stop_all,
        }

    @property
    def is_followed(self) -> bool:
        """Whether a client waits for what comes into a recording up to the bound that its owner put on it."""
        return self.live.is_followed or any(one.is_following for one in self._replays)

    def remove(self, replay: ClientReplay) -> None:
        if replay in self._replays:
            self._replays.remove(replay)

    def answer(self, image: Image, session: ControlSession, request: ReplayOrder) -> None:
        """Start a replay that goes back to the publisher of the stream that it was asked for in."""
        self._replay(
            session, request._replace(replay_channel=answering_channel(request.replay_channel, image.correlation_id))
        )

    def _replay(self, session: ControlSession, request: ReplayOrder) -> None:
        if ChannelUri.parse(request.replay_channel).get("live") == "true":
            self._share(session, request)
            return
        if len(self._replays) >= self._config.replays_max:
            raise ArchiveError(
                f"{len(self._replays)} replays are active, the most this archive allows; stop one",
                code=ErrorCode.MAX_REPLAYS,
            )
        descriptor = self.archive.descriptor(request.recording_id)
        self._access.rights.check_reading(descriptor, session.admission.principal)
        replayed_ids = [one.recording_id for one in self._replays]
        self._access.replays.check_replay(descriptor.recording_id, [*replayed_ids, *self.live.recording_ids])
        limit = self._limit(request)
        position, length = self._range(descriptor, request, limit)
        if 0 < request.file_io_length_max < descriptor.mtu:
            raise ArchiveError(
                f"fileIoMaxLength={request.file_io_length_max} < mtuLength={descriptor.mtu}: frames are read whole"
            )
        asked = self._access.channels.replay_channel(request.replay_channel, request.replay_stream_id)
        self._check_channel(asked)
        plan = self.archive.plan_replay(
            request.recording_id, position, length, channel=asked, session_id=ChannelUri.parse(asked).session_id
        )
        replay = ClientReplay(self, session, request)
        replay.open(plan, limit)
        channel = plan.channel
        if not session.is_at(channel):  # the host there may never have asked for it
            channel = bounded_channel(channel, REQUEST_LENGTH_MIN + len(request.replay_channel))
        self._driver.add_exclusive_publication(
            channel, request.replay_stream_id, replay.on_publication, replay.on_failure
        )
        self._replays.append(replay)

    def _share(self, session: ControlSession, request: ReplayOrder) -> None:
        """Join a replay that other clients share, from the end of a live recording on."""
        descriptor = self.archive.descriptor(request.recording_id)
        self._access.rights.check_reading(descriptor, session.admission.principal)
        if descriptor.recording_id not in self.live.recording_ids:
            replayed_ids = [one.recording_id for one in self._replays]
            self._access.replays.check_share(descriptor.recording_id, replayed_ids, self.live.recording_ids)
        asked = self._access.channels.replay_channel(request.replay_channel, request.replay_stream_id)
        self._check_channel(asked)
        self.live.start(session, request, asked, self._limit(request))

    def forget(self, session: ControlSession) -> None:
        """Forget a client that has left. Its own replays end by themselves without a receiver."""
        self.live.stop(session)

    def _check_channel(self, channel: str) -> None:
        ChannelUri.parse(strip_channel(channel)).check_publication()
        linger_ns = ChannelUri.parse(channel).integer("linger", 0)
        if linger_ns > self._config.linger_ns_max:
            raise ArchiveError(f"channel {channel!r} has linger={linger_ns} ns, at most {self._config.linger_ns_max}")

    def _limit(self, request: ReplayOrder) -> Counter | None:
        """Return the counter that bounds a replay.

        It is the client's, or one that the archive's owner set for the recording.
        """
        owned = self._access.replays.limit(request.recording_id)
        counter_id: int | None = getattr(request, "limit_counter_id", None)
        if counter_id is None:
            return owned
        if owned is not None and counter_id != owned.counter_id:
            raise ArchiveError(
                f"limit_counter_id={counter_id} is refused: replays of this recording are bounded by "
                f"counter {owned.counter_id}",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )
        if not 0 <= counter_id <= self._counters.max_counter_id or not self._counters.is_active(counter_id):
            raise ArchiveError(f"limit_counter_id={counter_id} is no counter of the archive's driver")
        return owned or self._counters.counter(counter_id)

    def _range(
        self,
        descriptor: RecordingDescriptor,
        request: ReplayOrder,
        limit: Counter | None,
    ) -> tuple[int | None, int | None]:
        """Return position and length of a replay.

        A position of None is the start. A length of None follows a live recording, or goes to its stop.
        """
        position = descriptor.start_position if request.position == NULL_POSITION else request.position
        if position % FRAME_ALIGNMENT:
            raise ArchiveError(
                f"requested replay start position={position} is not a multiple of FRAME_ALIGNMENT ({FRAME_ALIGNMENT})"
            )
        if limit is not None and position > limit.value:
            raise ArchiveError(
                f"position={position} of a replay is beyond its limit={limit.value}",
                code=ErrorCode.INVALID_POSITION,
            )
        stop = self._find_end(descriptor.recording_id, limit)
        length: int = request.length
        asked = None if request.position == NULL_POSITION else position
        if length in (REPLAY_ALL_AND_FOLLOW, NULL_LENGTH):
            return asked, None
        if length == REPLAY_ALL_AND_STOP:
            length = stop - position
            if length == 0:
                raise ArchiveError(
                    f"recording {descriptor.recording_id} has nothing from position={position} on",
                    code=ErrorCode.EMPTY_RECORDING,
                )
        if length < 0:
            raise ArchiveError(
                f"replay length must be positive, {REPLAY_ALL_AND_FOLLOW} or {REPLAY_ALL_AND_STOP}: "
                f"length={request.length} from position={position}"
            )
        return asked, length if position + length < 1 << 62 else None

    def _find_end(self, recording_id: int, limit: Counter | None) -> int:
        """Return the end of a replay that does not follow a live recording."""
        live = self.archive.recording(recording_id)
        end: int = self.archive.descriptor(recording_id).stop_position if live is None else live.durable_position
        return end if limit is None else min(end, limit.value)

    def _stop(self, session: ControlSession, request: records.StopReplayRequest) -> None:
        """Stop a replay, and confirm in every case, since it may have ended by itself."""
        for replay in list(self._replays):
            if replay.replay_session_id == request.replay_session_id and self._may_stop(session, replay):
                replay.stop()
        self.live.stop(session, request.replay_session_id)
        session.responses.send_ok(request.correlation_id)

    def _stop_all(self, session: ControlSession, request: records.StopAllReplaysRequest) -> None:
        for replay in list(self._replays):
            if request.recording_id in (NULL_VALUE, replay.recording_id) and self._may_stop(session, replay):
                replay.stop()
        session.responses.send_ok(request.correlation_id)

    def _may_stop(self, session: ControlSession, replay: ClientReplay) -> bool:
        return replay.session is session or not self._access.rights.owns_replays
