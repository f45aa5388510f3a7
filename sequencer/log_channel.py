"""The log stream between members: the leader's publication, the follower's subscription, and catch-up replays.

Both ends record what they have through the archive; the recording is the log (docs/ARCHITECTURE.md, Catch-up).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ordo.cluster.wire.members import Member, host_of
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.runtime.errors import ClusterError, OrdoError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.client.pending_registrations import PendingRegistrations

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.archive.recorder import Recording
    from ordo.archive.replay import Replay
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.image import Image
    from ordo.transport.streams.publication import ExclusivePublication
    from ordo.transport.streams.subscription import Subscription

LIVE_JOIN_WINDOW_BYTES_MAX = 32 * 1024 * 1024
SPY_ATTEMPTS = 100
CATCHUP_REQUESTS_MAX = 2
LIVE_TRANSPORTS = 2
"""While a member joins, its image hears the replay and the live log."""
RETRY_INTERVAL_NS = 1_000_000_000


@dataclass(frozen=True)
class LogParameters:
    """What a new log is created with; an existing recording keeps its own."""

    term_length_bytes: int
    mtu_bytes: int
    receiver_window_bytes: int
    socket_buffer_bytes: int


class TermStart(NamedTuple):
    """Where a leader's term begins in the log: in which recording, NULL_VALUE for a new one, and at which position."""

    recording_id: int
    base_position: int


class CatchupRequests(NamedTuple):
    """How often in a row a member has asked for a replay from one position, although one is on its way."""

    position: int
    times: int


class RecordedLog:
    """The end of a recorded log, of either the leader or a follower."""

    failure: str | None = None
    """Why the log must be left, or None while it is recorded."""
    stop_error: Exception | None = None

    def _on_stop(self, recording: Recording, error: Exception | None) -> None:
        self.stop_error = error
        self.failure = "the log recording has stopped" if error is None else f"the log recording has stopped: {error}"


class LeaderLog(RecordedLog):
    """The log publication of a serving leader, its recording through a spy, and replays to members catching up."""

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        bound: Member,
        others: list[Member],
        parameters: LogParameters,
        start: TermStart,
        on_failure: Callable[[Exception], None],
        now_ns: int,
    ) -> None:
        recording_id, base_position = start
        self._archive = archive
        self._client = client
        self._on_failure = on_failure
        self._replays: dict[int, Replay] = {}
        self._requests: dict[int, CatchupRequests] = {}
        self._base_position = base_position
        self.publication = self._publish(bound, parameters, recording_id, base_position)
        self._destinations: list[str] = []
        self._settled: list[Member] | None = None
        """The members for which nothing is left to be done."""
        self._asked: PendingRegistrations[str] = PendingRegistrations(client)
        self._next_attempt_ns: dict[str, int] = {}
        self.send_to(others, is_final=False, now_ns=now_ns)
        self._spy: Subscription = client.add_subscription(self._spy_channel, LOG_STREAM_ID)
        self.recording = self._record(recording_id, base_position)

    def _publish(
        self, bound: Member, parameters: LogParameters, recording_id: int, base_position: int
    ) -> ExclusivePublication:
        if recording_id == NULL_VALUE:
            initial_term_id, term_length, mtu = 0, parameters.term_length_bytes, parameters.mtu_bytes
        else:
            descriptor = self._archive.descriptor(recording_id)
            initial_term_id, term_length = descriptor.initial_term_id, descriptor.term_length
            mtu = descriptor.mtu
        tag = self._client.next_correlation_id()
        options = (
            f"tags={tag}|mtu={mtu}|term-length={term_length}|init-term-id={initial_term_id}"
            f"|term-id={initial_term_id + base_position // term_length}|term-offset={base_position % term_length}"
            f"|so-sndbuf={parameters.socket_buffer_bytes}|ssc=true|fc=max|linger=1s|alias=log"
        )
        channel = f"aeron:udp?control-mode=manual|control={host_of(bound.log)}:0|{options}"
        publication = self._client.add_exclusive_publication(channel, LOG_STREAM_ID)
        self._spy_channel = f"aeron-spy:aeron:udp?tags={tag}|session-id={publication.session_id}|alias=log"
        return publication

    def send_to(self, others: list[Member], is_final: bool, now_ns: int) -> None:
        """Send the live log to these members; to others no longer when that is final.

        A member that cannot be sent to costs nobody else the leader. It is tried again after a while: its name may be
        known then.
        """
        if others is self._settled:
            return
        wanted = [f"aeron:udp?endpoint={member.log}" for member in others]
        for uri in wanted:
            is_there = uri in self._destinations or uri in self._asked
            if not is_there and now_ns >= self._next_attempt_ns.get(uri, now_ns):
                self._asked.add(self._client.async_add_destination(self.publication, uri), uri)
                self._client.invoke_driver()
        for uri, _, error in self._asked.take():
            if error is None:
                self._destinations.append(uri)
            else:
                self._next_attempt_ns[uri] = now_ns + RETRY_INTERVAL_NS
                self._on_failure(ClusterError(f"the log is not sent to {uri}: {error.message}"))
        for uri in [uri for uri in self._destinations if is_final and uri not in wanted]:
            self._destinations.remove(uri)
            with suppress(OrdoError):
                self._client.remove_destination(self.publication, uri)
        if is_final and set(self._destinations) == set(wanted):
            self._settled = others

    def _record(self, recording_id: int, base_position: int) -> Recording:
        image = self._await_spy_image()
        if image.join_position != base_position:
            raise ClusterError(f"the log joined at position={image.join_position}, expected {base_position=}")
        existing = None if recording_id == NULL_VALUE else recording_id
        return self._archive.record(image, recording_id=existing, on_stop=self._on_stop)

    def _await_spy_image(self) -> Image:
        for _ in range(SPY_ATTEMPTS):
            if self._spy.images:
                return self._spy.images[0]
            self._client.invoke()
        raise ClusterError("the spy on the log publication has no image: the driver did not link it")

    def needs_replay(self, member_id: int, position: int) -> bool:
        """Return whether a member that asks for a replay from `position` has none on its way.

        A member that keeps asking from one position does not receive the replay: its subscription came too late. One
        whose position grows receives it.
        """
        replay = self._replays.get(member_id)
        if replay is None or not replay.is_active:
            return True
        asked = self._requests[member_id]
        if asked.position != position:
            asked = CatchupRequests(position, 0)
        if replay.position > position:
            asked = CatchupRequests(position, asked.times + 1)
        self._requests[member_id] = asked
        return asked.times > CATCHUP_REQUESTS_MAX

    def start_replay(self, member: Member, position: int, catchup_endpoint: str) -> None:
        """Replay the recording from `position` to a member, following the live end; replace an earlier replay."""
        self.stop_replay(member.id)
        self._replays[member.id] = self._archive.replay(
            self.recording.recording_id,
            position,
            channel=f"aeron:udp?endpoint={catchup_endpoint}|linger=0|eos=false|alias=catchup-{member.id}",
            stream_id=LOG_STREAM_ID,
            session_id=self.publication.session_id,
            on_end=self._on_replay_end,
        )
        self._requests[member.id] = CatchupRequests(position, 0)

    def _on_replay_end(self, replay: Replay, error: Exception | None) -> None:
        """End the replay of a member that went away; the member asks again when it returns."""
        self._replays = {key: value for key, value in self._replays.items() if value is not replay}
        if error is not None:
            self._on_failure(error)

    def stop_replay(self, member_id: int) -> None:
        replay = self._replays.pop(member_id, None)
        if replay is not None:
            self._archive.stop_replay(replay)

    @property
    def near_position(self) -> int:
        """The position from which on a live follower can get the rest by retransmission.

        Positions below this term's base were never in this publication; only a replay has them.
        """
        window = min(self.publication.term_length // 4, LIVE_JOIN_WINDOW_BYTES_MAX)
        return max(self._base_position, int(self.publication.position) - window)

    def close(self) -> int:
        """End publication, replays and recording. Returns the durable position at which this member's log ends."""
        for member_id in list(self._replays):
            self.stop_replay(member_id)
        self._archive.stop(self.recording)
        self._spy.close()
        self.publication.close()
        return int(self._archive.descriptor(self.recording.recording_id).stop_position)


class FollowerLog(RecordedLog):
    """The log subscription of a follower: joined by a replay, then live; one image throughout."""

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        bound: Member,
        log_session_id: int,
        recording_id: int,
        from_position: int,
        parameters: LogParameters,
        on_lost: Callable[[str, bool], None],
    ) -> None:
        self._archive = archive
        self._client = client
        self._recording_id = recording_id
        self._from_position = from_position
        self._on_lost = on_lost
        self._image: Image | None = None
        self._live = False
        self._catching_up = True
        self.recording: Recording | None = None
        self._subscription: Subscription = client.add_subscription(
            f"aeron:udp?control-mode=manual|session-id={log_session_id}|rejoin=false|alias=log"
            f"|rcv-wnd={parameters.receiver_window_bytes}|so-rcvbuf={parameters.socket_buffer_bytes}",
            LOG_STREAM_ID,
            on_available_image=self._on_image,
            on_unavailable_image=self._on_image_gone,
        )
        self._catchup_destination = f"aeron:udp?endpoint={bound.catchup}"
        self._live_destination = f"aeron:udp?endpoint={bound.log}"
        client.add_receive_destination(self._subscription, self._catchup_destination)

    @property
    def is_live(self) -> bool:
        return self._live

    @property
    def position(self) -> int:
        return self._image.position if self._image is not None else self._from_position

    def _on_image(self, image: Image) -> None:
        if self._image is None:
            self._image = image

    def _on_image_gone(self, image: Image) -> None:
        if self._image is not None and image is self._image:
            self._on_lost("the log image has gone", image.is_end_of_stream)

    @property
    def has_ended(self) -> bool:
        """Whether the leader closed its log cleanly and all of it was received."""
        image = self._image
        return image is not None and image.is_end_of_stream

    def try_join(self) -> bool:
        """Start the recording once the image exists. Return True if this call starts it."""
        if self._image is None or self.recording is not None:
            return False
        if self._image.join_position != self._from_position:
            self._on_lost(
                f"the log image joined at position={self._image.join_position}, expected {self._from_position}", False
            )
            return False
        existing = None if self._recording_id == NULL_VALUE else self._recording_id
        if self.has_other_lengths:
            self._refuse_lengths(self._image, self._recording_id)
        self.recording = self._archive.record(self._image, recording_id=existing, on_stop=self._on_stop)
        return True

    @property
    def has_other_lengths(self) -> bool:
        """Whether the leader's log, once it arrives, cannot be recorded as the continuation of this member's."""
        if self._image is None or self._recording_id == NULL_VALUE:
            return False
        own, log = self._archive.descriptor(self._recording_id), self._image
        return (own.term_length, own.mtu) != (log.term_length, log.mtu)

    def _refuse_lengths(self, log: Image, recording_id: int) -> NoReturn:
        own = self._archive.descriptor(recording_id)
        raise ClusterError(
            f"the leader's log has log_term_length = {log.term_length} and mtu = {log.mtu}, that of this member "
            f"{own.term_length} and {own.mtu}: the leader's was begun anew; do so here, too (`ordo cluster "
            "renew-log`), or start this member with an empty folder (`ordo node --rejoin`)"
        )

    def try_go_live(self, leader_position: int) -> bool:
        """Add the live destination once the image is near `leader_position`; True once frames come over both.

        Not before: a leader that ran on meanwhile may be too far ahead for this member to be heard on the live path.
        """
        if self._image is None:
            return False
        window = min(self._image.term_length // 4, LIVE_JOIN_WINDOW_BYTES_MAX)
        if not self._live and self._image.position >= leader_position - window:
            self._client.add_receive_destination(self._subscription, self._live_destination)
            self._live = True
        return self._live and self._image.active_transport_count >= LIVE_TRANSPORTS

    def stop_catchup(self) -> None:
        if self._catching_up:
            self._catching_up = False
            self._client.remove_receive_destination(self._subscription, self._catchup_destination)

    def close(self) -> int | None:
        """End subscription and recording. Returns where the log ends, or None when nothing was recorded.

        The client tells of the image's end later, when this member may lead or follow another log: that is no loss.
        """
        self._image = None
        if self.recording is not None:
            self._archive.stop(self.recording)
        self._subscription.close()
        if self.recording is None:
            return None
        return int(self._archive.descriptor(self.recording.recording_id).stop_position)
