"""Fetches a snapshot from another member, for a member that cannot reach its state in any other way.

    IDLE        nothing is wanted
    DESCRIBING  asks the source how long the parts are
    FETCHING    records one part after the other, as the source replays it; goes on where an attempt ended
    CHECKING    reads what came, for the digest that a quorum has agreed on

A fetched snapshot that is whole is handed to `install`; the member starts again from it. It arrives at the endpoint
for catch-ups: while a fetch is under way the member does not join the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.state_store import SnapshotEntry
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import SnapshotPart
from ordo.cluster.wire.snapshots.part_lengths import unpack_lengths
from ordo.cluster.wire.snapshots.snapshot_digest import MessagesDigest, combine
from ordo.cluster.wire.streams import MODULE_SNAPSHOT_STREAM_ID, SERVICE_SNAPSHOT_STREAM_ID, local_stream
from ordo.runtime.errors import ArchiveError, OrdoError, TransportError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from random import Random

    from ordo.archive.archive import Archive
    from ordo.archive.recorder import Recording
    from ordo.cluster.module.snapshots.snapshot_reports import HeldSnapshot
    from ordo.cluster.module.state.host import ArchiveAccess
    from ordo.cluster.module.state.module_snapshot import SnapshotLayout
    from ordo.cluster.wire import records
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.image import Image
    from ordo.transport.streams.subscription import Subscription

ATTEMPT_TIMEOUT_NS = 1_000_000_000
ATTEMPTS_MAX = 10
"""Without progress; then the leader is to say anew what to take, and where."""
PAUSE_NS = 2_000_000_000
CHECK_BYTES = 1024 * 1024
"""Read in one go; elections and heartbeats wait so long at most."""
SESSION_ID_MAX = 2**31 - 1


class FetchState(Enum):
    IDLE = auto()
    DESCRIBING = auto()
    FETCHING = auto()
    CHECKING = auto()


class Part(NamedTuple):
    """One of the recordings of a snapshot."""

    part: int
    """A SnapshotPart."""
    stream_id: int
    length_bytes: int


class FetchedSnapshot(NamedTuple):
    """Another member's snapshot that has been received, whole and checked."""

    entry: SnapshotEntry
    digest: bytes
    terms: list[tuple[int, int]]


class PartRecorder:
    """Records one part into one recording, in as many attempts as it takes."""

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        part: Part,
        channel: str,
        random: Random,
        alias: str = "snapshot-fetch",
    ) -> None:
        self._archive = archive
        self._client = client
        self._channel = channel
        self._random = random
        self._alias = alias
        self._subscription: Subscription | None = None
        self._recording: Recording | None = None
        self.part = part
        self.recording_id = NULL_VALUE
        self.length_bytes = 0
        """So much is here."""
        self.session_id = 0
        self._failure: OrdoError | None = None

    def begin(self) -> None:
        """Listen for a replay from `length_bytes` on, under a new session id. Raises OrdoError."""
        self.end()
        self.session_id = self._random.randint(1, SESSION_ID_MAX)
        self._subscription = self._client.add_subscription(
            f"{self._channel}|session-id={self.session_id}|rejoin=false|alias={self._alias}",
            self.part.stream_id,
            on_available_image=self._on_image,
        )

    def _on_image(self, image: Image) -> None:
        if self._recording is not None:
            return
        known = None if self.recording_id == NULL_VALUE else self.recording_id
        try:
            self._recording = self._archive.record(image, recording_id=known, on_stop=self._on_stop)
            self.recording_id = self._recording.recording_id
        except OrdoError as error:
            self._failure = error

    def _on_stop(self, recording: Recording, error: Exception | None) -> None:
        descriptor = self._archive.descriptor(recording.recording_id)
        self.length_bytes = descriptor.stop_position - descriptor.start_position
        self._recording = None

    def work(self) -> bool:
        """Record what has arrived; return True when the part is complete and durable. Raises OrdoError."""
        if self._failure is not None:
            raise self._failure
        if self._recording is not None:
            start = self._archive.descriptor(self.recording_id).start_position
            self.length_bytes = self._recording.durable_position - start
        if self.length_bytes < self.part.length_bytes:
            return False
        self.end()
        return True

    def end(self) -> None:
        """Stop listening; keep the part received so far."""
        if self._recording is not None:
            self._archive.stop(self._recording)
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def give_up(self) -> None:
        self.end()
        if self.recording_id != NULL_VALUE:
            self._archive.purge(self.recording_id)


class SnapshotFetch:
    """Fetches one snapshot at a time, from one member."""

    def __init__(
        self,
        access: ArchiveAccess,
        own_id: int,
        layout: SnapshotLayout,
        endpoint: str,
        random: Random,
        send: Callable[[int, bytes], None],
        install: Callable[[FetchedSnapshot], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """Take the member's parts; `endpoint` is where replays are received."""
        self._archive = access.archive
        self._client = access.client
        self._own_id = own_id
        self._cluster_id = layout.cluster_id
        self._channel = f"aeron:udp?endpoint={endpoint}"
        self._random = random
        self._send = send
        self._install = install
        self._on_failure = on_failure
        self._service_count = layout.service_count
        self.state = FetchState.IDLE
        self._wanted: HeldSnapshot | None = None
        self._source_id = NULL_VALUE
        self._offer: Any = None
        self._parts: list[PartRecorder] = []
        self._present: PartRecorder | None = None
        self._attempts = 0
        self._due_ns = 0
        self._progress = 0
        """So much of the present part is here."""
        self._check: Iterator[list[bytes] | None] | None = None

    @property
    def is_under_way(self) -> bool:
        return self.state is not FetchState.IDLE

    @property
    def position(self) -> int:
        """The position of the snapshot that is being fetched, or -1."""
        return NULL_VALUE if self._wanted is None else self._wanted.log_position

    def begin(self, wanted: HeldSnapshot, source_id: int, now_ns: int) -> bool:
        """Begin a fetch. Return False while one is in progress, or shortly after one was abandoned."""
        if self.is_under_way or now_ns < self._due_ns:
            return False
        self._wanted = wanted
        self._source_id = source_id
        self._attempts = 0
        self._due_ns = now_ns
        self.state = FetchState.DESCRIBING
        return True

    def begin_from(self, holders: list[int], wanted: HeldSnapshot, leader_id: int, now_ns: int) -> bool:
        """Begin a fetch from one of the members that hold the snapshot, from the leader only if no other does.

        It has enough to do.

        Returns as `begin`.
        """
        others = [one for one in holders if one != self._own_id]
        followers = [one for one in others if one != leader_id]
        return bool(others) and self.begin(wanted, (followers or others)[0], now_ns)

    def on_offer(self, offer: records.SnapshotOffer, now_ns: int) -> None:
        """Handle a SnapshotOffer; one to another member is ignored."""
        if offer.follower_member_id != self._own_id:
            return
        wanted = self._wanted
        if self.state not in (FetchState.DESCRIBING, FetchState.FETCHING) or wanted is None:
            return
        if (offer.snapshot_position, offer.digest, offer.member_id) != (*wanted, self._source_id):
            return
        if offer.module_length_bytes < 0 or offer.service_length_bytes < 0:
            self._give_up(f"member {offer.member_id} has it no longer", now_ns)
        elif self.state is FetchState.DESCRIBING:
            self._plan_parts(offer, now_ns)

    def _plan_parts(self, offer: records.SnapshotOffer, now_ns: int) -> None:
        self._offer = offer
        lengths = [offer.service_length_bytes, *unpack_lengths(offer.more_lengths)]
        if len(lengths) != self._service_count:
            text = f"it is of {len(lengths)} services, and this member runs {self._service_count} ([[services]])"
            self._give_up(text, now_ns)
            return
        stream_id = self._stream(SERVICE_SNAPSHOT_STREAM_ID)
        parts = (
            Part(SnapshotPart.MODULE, self._stream(MODULE_SNAPSHOT_STREAM_ID), offer.module_length_bytes),
            *(Part(SnapshotPart.SERVICE + one, stream_id, length) for one, length in enumerate(lengths)),
        )
        self._parts = [PartRecorder(self._archive, self._client, part, self._channel, self._random) for part in parts]
        self.state = FetchState.FETCHING

    def _stream(self, stream_id: int) -> int:
        """Return the stream id of a recording, which was made over shared memory."""
        return local_stream(stream_id, self._cluster_id)

    def work(self, now_ns: int) -> None:
        """Advance the fetch.

        One that fails, perhaps for lack of room, does no harm; only errors of `install` are raised.
        """
        fetched: FetchedSnapshot | None = None
        try:
            if self.state is FetchState.DESCRIBING:
                self._attempt(now_ns, lambda: self._request(SnapshotPart.DESCRIPTION, 0, 0))
            elif self.state is FetchState.FETCHING:
                self._fetch(now_ns)
            elif self.state is FetchState.CHECKING:
                fetched = self._go_on_checking(now_ns)
        except OrdoError as error:
            self._give_up(error.message, now_ns)
        if fetched is not None:
            self._parts = []
            self._forget()
            self._install(fetched)

    def _attempt(self, now_ns: int, action: Callable[[], None]) -> None:
        """Start an attempt, at intervals and up to a limit."""
        if now_ns < self._due_ns:
            return
        if self._attempts == ATTEMPTS_MAX:
            self._give_up(f"member {self._source_id} does not give it", now_ns)
            return
        self._attempts += 1
        self._due_ns = now_ns + ATTEMPT_TIMEOUT_NS
        action()

    def _request(self, part: int, from_position: int, session_id: int) -> None:
        assert self._wanted is not None
        request = ordo_codecs.SNAPSHOT_REQUEST.encode(
            snapshot_position=self._wanted.log_position,
            from_position=from_position,
            member_id=self._own_id,
            part=part,
            session_id=session_id,
            digest=self._wanted.digest,
        )
        self._send(self._source_id, request)

    def _fetch(self, now_ns: int) -> None:
        part = next((one for one in self._parts if not one.work()), None)
        if part is None:
            self.state = FetchState.CHECKING
            self._check = self._read()
            return
        if part is not self._present:  # at once: between two parts nothing keeps the source from deleting the snapshot
            self._present, self._progress, self._attempts, self._due_ns = part, part.length_bytes, 0, now_ns
        elif part.length_bytes > self._progress:
            self._progress, self._attempts = part.length_bytes, 0
            self._due_ns = now_ns + ATTEMPT_TIMEOUT_NS
        self._attempt(now_ns, lambda: self._listen(part))

    def _listen(self, part: PartRecorder) -> None:
        """Listen for a part. The endpoint may still be taken by a subscription that the driver has not closed yet."""
        try:
            part.begin()
        except TransportError:
            return
        self._request(part.part.part, part.length_bytes, part.session_id)

    def _read(self) -> Iterator[list[bytes] | None]:
        """Yield digests of the module's part and the services' parts; yield None each time enough was read for now."""
        digests, read_bytes = [], 0
        for part in self._parts:
            digest = MessagesDigest()
            for message in self._archive.reader(part.recording_id, None).messages():
                digest.add(message.payload)
                read_bytes += len(message.payload)
                if read_bytes >= CHECK_BYTES:
                    read_bytes = 0
                    yield None
            digests.append(digest.digest())
        yield digests

    def _go_on_checking(self, now_ns: int) -> FetchedSnapshot | None:
        assert self._check is not None and self._wanted is not None
        digests = next(self._check)
        if digests is None:
            return None
        module_digest, *service_digests = digests
        if combine(*service_digests, module_digest) != self._wanted.digest:
            raise ArchiveError(f"what member {self._source_id} gave is not what a quorum holds")
        return self._fetched()

    def _fetched(self) -> FetchedSnapshot:
        """Return the snapshot. Raises ArchiveError, or ClusterError if it does not have the log's terms."""
        module, service, *more = self._parts
        assert self._wanted is not None
        payloads = (message.payload for message in self._archive.reader(module.recording_id, None).messages())
        contents = module_snapshot.decode(payloads)
        if not contents.terms or contents.point.log_position != self._wanted.log_position:
            raise ArchiveError("the snapshot does not name the leadership terms of the log: it is of an older version")
        offer = self._offer
        entry = SnapshotEntry(
            offer.snapshot_position,
            offer.leadership_term_id,
            offer.term_base_log_position,
            offer.timestamp,
            service.recording_id,
            module.recording_id,
            True,
            tuple(one.recording_id for one in more),
        )
        return FetchedSnapshot(entry, self._wanted.digest, contents.terms)

    def _give_up(self, reason: str, now_ns: int) -> None:
        position = self.position
        self.abandon()
        self._due_ns = now_ns + PAUSE_NS
        self._on_failure(f"the snapshot at log position {position} could not be fetched: {reason}")

    def abandon(self) -> None:
        """End the fetch and delete what it has received."""
        parts, self._parts = self._parts, []
        self._forget()
        for part in parts:
            part.give_up()

    def _forget(self) -> None:
        self.state = FetchState.IDLE
        self._wanted = None
        self._offer = None
        self._check = None
        self._present = None

    def close(self) -> None:
        """End the fetch; the next start removes what was received."""
        for part in self._parts:
            part.end()
        self._parts = []
        self._forget()
