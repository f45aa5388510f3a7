"""Replays that many clients share: of a live recording from its end on, by one publication (docs/LOG.md).

A client that has caught up by a replay of its own asks for the shared one with `live=true` in its channel. Its endpoint
becomes a destination of the publication, whose flow control waits for the fastest receiver: nobody holds up the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.archive import Archive
from ordo.archive.control.session import ControlSession
from ordo.archive.control.settings import ControlSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.protocol.driver_requests import DriverRequests
from ordo.archive.replay import Replay
from ordo.archive.replay_plan import ReplayPlan
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.runtime.native.counters import Counter
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.streams.publication import ExclusivePublication
from ordo.transport.uri import ChannelUri, udp

if TYPE_CHECKING:
    from ordo.archive.protocol import records

    ReplayOrder = records.ReplayRequest | records.BoundedReplayRequest

LIVE_STREAM_ID = 140
"""The stream id of shared replays; clients share a stream, so none of them chooses its id."""
CHECK_INTERVAL_NS = 1_000_000_000
"""A shared replay is, within that time, where its recording ended before. One that follows another waits for the next
check, so that a client that comes and goes does not have a publication begun each time."""
LIVE_CHANNEL = "aeron:udp?control-mode=manual|fc=max|linger=1s|sparse=true|alias=live"


class LiveClient(NamedTuple):
    """A client of a shared replay: the session that asked, and the destination."""

    session: ControlSession
    correlation_id: int
    destination: str


class LiveReplay:
    """A shared replay of one recording, from where it ended when the first client asked.

    It ends when the last client is gone.
    """

    def __init__(self, owner: LiveReplays, recording_id: int, limit: Counter | None) -> None:
        """Prepare a replay that `begin` starts."""
        self.recording_id = recording_id
        self.replay_session_id = NULL_VALUE
        self._owner = owner
        self._limit = limit
        self._waiting: list[LiveClient] = []
        self._clients: dict[LiveClient, int] = {}
        """The clients, with the id of each one's destination."""
        self._replay: Replay | None = None
        self._is_over = False
        self._expected_position = 0
        """Where the recording ended at the last check."""
        self._plan: ReplayPlan | None = None

    @property
    def is_begun(self) -> bool:
        return self._plan is not None

    def begin(self) -> None:
        """Raise ArchiveError for a recording that cannot be replayed."""
        owner = self._owner
        position = owner.find_end(self.recording_id, self._limit)
        self._plan = owner.archive.plan_replay(self.recording_id, position, channel=LIVE_CHANNEL)
        owner.driver.add_exclusive_publication(self._plan.channel, LIVE_STREAM_ID, self._on_publication, self._fail)

    @property
    def client_count(self) -> int:
        return len(self._waiting) + len(self._clients)

    @property
    def is_bounded(self) -> bool:
        """Whether its clients wait for a limit to rise."""
        return self._limit is not None

    def check(self) -> None:
        """Begin a replay that waits.

        Ends one that even its fastest client does not keep up with: who joined now would be sent what it has
        had for long, and would wait for what is new.
        """
        if not self.is_begun:
            try:
                self.begin()
            except OrdoError as error:
                self._fail(error)
        elif self._replay is None or self._owner.archive.recording(self.recording_id) is None:
            return
        elif self._replay.position < self._expected_position:
            self._fail(None)
        else:
            self._expected_position = self._owner.find_end(self.recording_id, self._limit)

    def _on_publication(self, publication: ExclusivePublication) -> None:
        if self._is_over:
            publication.close()
            return
        assert self._plan is not None
        try:
            self._replay = self._owner.archive.begin_replay(
                self._plan, publication, limit=self._limit, on_end=lambda _, error: self._fail(error)
            )
        except OrdoError as error:
            self._fail(error)
            return
        self.replay_session_id = (self._replay.replay_id << 32) | (publication.session_id & 0xFFFFFFFF)
        for client in list(self._waiting):
            self._add_destination(client)

    def add(self, client: LiveClient) -> None:
        """Send to one more client and tell it so, and no longer where its session was sent before."""
        session = client.session
        self._waiting = [*(one for one in self._waiting if one.session is not session), client]
        self._remove_destinations(session)
        if self._replay is not None:
            self._add_destination(client)

    def _add_destination(self, client: LiveClient) -> None:
        assert self._replay is not None
        try:
            self._owner.driver.add_destination(
                self._replay.publication,
                client.destination,
                lambda destination_id: self._on_destination(client, destination_id),
                lambda error: self._on_no_destination(client, error),
            )
        except OrdoError as error:
            self._on_no_destination(client, error)

    def _on_destination(self, client: LiveClient, destination_id: int) -> None:
        if client in self._waiting:
            self._waiting.remove(client)
            self._clients[client] = destination_id
            client.session.responses.send_ok(client.correlation_id, self.replay_session_id)
        else:
            self._remove_destination(destination_id)

    def _on_no_destination(self, client: LiveClient, error: OrdoError) -> None:
        if client in self._waiting:
            self._waiting.remove(client)
            client.session.responses.send_error(client.correlation_id, error)
            self._end_if_unused()

    def remove(self, session: ControlSession) -> None:
        """Send no longer to the clients of a session."""
        self._waiting = [one for one in self._waiting if one.session is not session]
        self._remove_destinations(session)
        self._end_if_unused()

    def _remove_destinations(self, session: ControlSession) -> None:
        for client in [one for one in self._clients if one.session is session]:
            self._remove_destination(self._clients.pop(client))

    def _remove_destination(self, destination_id: int) -> None:
        if self._replay is not None:
            with suppress(OrdoError):
                self._owner.driver.client.remove_destination_by_id(self._replay.publication, destination_id)

    def _end_if_unused(self) -> None:
        if self.client_count == 0:
            self._fail(None)

    def _fail(self, error: Exception | None) -> None:
        """End the replay: waiting clients get the error, others see the end of the stream."""
        if self._is_over:
            return
        self._is_over = True
        self._owner.remove(self)
        for client in self._waiting:
            client.session.responses.send_error(
                client.correlation_id, error or ArchiveError("the live stream has ended; ask again")
            )
        self._waiting.clear()
        self._clients.clear()
        if self._replay is not None:
            self._owner.archive.stop_replay(self._replay)


class LiveReplays:
    """The shared replays of an archive, at most one of a recording."""

    def __init__(
        self,
        archive: Archive,
        driver: DriverRequests,
        config: ControlSettings,
        find_end: Callable[[int, Counter | None], int],
    ) -> None:
        """Take the parts of the archive.

        `find_end(recording_id, limit)` returns up to where a recording may be replayed now.
        """
        self.archive = archive
        self.driver = driver
        self.find_end = find_end
        self._replays_max = config.live_replays_max
        self._replays: list[LiveReplay] = []
        self._ended: set[int] = set()
        """Recordings whose replay ended since the last check."""
        self._check_ns = 0

    def work(self, now_ns: int) -> None:
        """Check, once in a while, whether the replays keep up."""
        if now_ns < self._check_ns:
            return
        self._check_ns = now_ns + CHECK_INTERVAL_NS
        self._ended.clear()
        for one in list(self._replays):
            one.check()

    @property
    def is_followed(self) -> bool:
        """Whether clients wait for the limit of a recording to rise."""
        return any(one.is_bounded for one in self._replays)

    @property
    def recording_ids(self) -> list[int]:
        """The ids of the recordings with an active shared replay, one for each."""
        return [one.recording_id for one in self._replays]

    @property
    def client_count(self) -> int:
        """The number of clients of all shared replays."""
        return sum(one.client_count for one in self._replays)

    def start(
        self,
        session: ControlSession,
        request: ReplayOrder,
        channel: str,
        limit: Counter | None,
    ) -> None:
        """Add a client; `channel` is as the policy allows it.

        A session that asks again is sent to the new channel only. Raises ArchiveError, TransportError,
        ChannelError.
        """
        if request.replay_stream_id != LIVE_STREAM_ID:
            raise ArchiveError(f"live replays have the stream id {LIVE_STREAM_ID}, not {request.replay_stream_id}")
        endpoint = ChannelUri.parse(channel).endpoint
        if endpoint is None or not session.is_at(channel):
            raise ArchiveError(
                f"channel {channel[:200]!r} is refused: a live replay goes to the host that asks for it, only, which "
                "it and the response channel name by its address",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )
        if self.archive.recording(request.recording_id) is None:
            raise ArchiveError(f"recording {request.recording_id} is not live: nothing is added to it")
        client = LiveClient(session, request.correlation_id, udp(endpoint=endpoint))
        self._find(request.recording_id, limit).add(client)

    def _find(self, recording_id: int, limit: Counter | None) -> LiveReplay:
        for one in self._replays:
            if one.recording_id == recording_id:
                return one
        if len(self._replays) >= self._replays_max:
            raise ArchiveError(
                f"{self._replays_max} live replays are active, the most this archive allows; replay for yourself",
                code=ErrorCode.MAX_REPLAYS,
            )
        made = LiveReplay(self, recording_id, limit)
        if recording_id not in self._ended:
            made.begin()
        self._replays.append(made)
        return made

    def remove(self, replay: LiveReplay) -> None:
        if replay in self._replays:
            self._replays.remove(replay)
            if replay.is_begun:
                self._ended.add(replay.recording_id)

    def stop(self, session: ControlSession, replay_session_id: int | None = None) -> None:
        """Remove a client from the shared replay, or from all without an id."""
        for one in list(self._replays):
            if replay_session_id in (None, one.replay_session_id):
                one.remove(session)
