"""A stretch of the committed log over the network, frame by frame, from whichever node can give it.

`survey` asks all nodes what they have, and `RangeReader` reads from one position to another:

    found = survey(["10.0.0.1:9014", "10.0.0.2:9014"])
    with RangeReader(["10.0.0.1:9014", "10.0.0.2:9014"], found.start_position, found.end_position) as reader:
        for position, frames in reader:
            ...
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.cluster.client.connection.endpoints import check_list
from ordo.cluster.wire.known_cluster import KnownCluster, newest_of
from ordo.cluster.wire.log_identity import Origin
from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.follow.recordings.recording_follower import Refusals
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, ConfigurationError, OrdoError, OtherClusterError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.polled_items import PolledItems
from ordo.runtime.security.credentials import credentials_from_file
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.frame_layout import FRAME_ALIGNMENT
from ordo.transport.secure.settings import Encryption

TOKEN_VARIABLE = "ORDO_TOKEN_FILE"
PARK_NS = 1_000_000
RETRY_PAUSE_NS = 100_000_000
BLOCK_BYTES = 1 << 20
SESSION_TIMEOUT_S = 3.0
"""How long a node may take for a session and for each answer before the next node is asked."""
NEEDS_ROLE = "; reading the log takes a token with the role log (docs/SECURITY.md)"
PATIENCE_S = 0.5
"""How long a survey waits for the other nodes once one has answered."""


@dataclass(frozen=True)
class Access:
    """How nodes are reached: the caller's key and the keys it trusts, empty for ORDO_KEY_FILE and ORDO_TRUSTED_FILE.

    `timeout_s` without any progress is an error. `token_file`: a token with the role log; empty for ORDO_TOKEN_FILE,
    and for none where that is not set either.
    """

    key_file: str = ""
    trusted_file: str = ""
    timeout_s: float = 60.0
    token_file: str = ""

    def settings(self, address: str) -> ArchiveClientSettings:
        """Raise ConfigurationError for an address that is none, or that has no host."""
        token_file = self.token_file or os.environ.get(TOKEN_VARIABLE, "")
        return ArchiveClientSettings.at(
            address,
            message_timeout_s=min(self.timeout_s / 2, SESSION_TIMEOUT_S),
            name="range-reader",
            credentials=credentials_from_file(token_file) if token_file else b"",
            key_file=self.key_file,
            trusted_file=self.trusted_file,
        )

    def transport(self) -> ClientTransport:
        encryption = Encryption.chosen(self.key_file, self.trusted_file)
        return ClientTransport.embedded("range-reader", encryption=encryption)


@dataclass(frozen=True)
class Survey:
    """What the nodes have of the log. Positions in bytes; some node has the first, and some node the last."""

    descriptor: RecordingDescriptor
    start_position: int
    end_position: int
    answered: tuple[str, ...]
    """The nodes that answered in time, the one with the most log first, but the leader last: it has enough to do."""
    silent: dict[str, str]
    """The others, and why."""
    origin: Origin | None = None
    """Which cluster's log it is; None: no node says it."""
    leader: str | None = None
    """The one of those that answered that writes the log, where it was seen."""

    @property
    def followers(self) -> tuple[str, ...]:
        """The nodes that answered, without the leader; the leader where no other did."""
        return tuple(address for address in self.answered if address != self.leader) or self.answered

    @property
    def addresses(self) -> tuple[str, ...]:
        """All nodes, those that answered first."""
        return (*self.answered, *self.silent)


def survey(
    addresses: Sequence[str],
    access: Access | None = None,
    unawaited: Collection[str] = (),
    cluster: KnownCluster | None = None,
) -> Survey:
    """Ask all nodes at once how much of the log they have, committed.

    Waits until one has answered, then a little for the others, though not for those in `unawaited`. `cluster`: the one
    that is known, up to a position, of which the nodes' logs have to be. Raises ArchiveError when none of them answers
    within the access's timeout, OtherClusterError when they are of two clusters.
    """
    access = access or Access()
    check_list("addresses", addresses)
    if not addresses:
        raise ConfigurationError("addresses: give the archive endpoint of at least one member")
    transport = access.transport()
    try:
        return _Surveyor(transport, addresses, access, unawaited, cluster or KnownCluster()).run()
    finally:
        transport.close()


class _Surveyor:
    def __init__(
        self,
        transport: ClientTransport,
        addresses: Sequence[str],
        access: Access,
        unawaited: Collection[str],
        cluster: KnownCluster,
    ) -> None:
        self._transport = transport
        self._access = access
        self._addresses = list(dict.fromkeys(addresses))
        self._unawaited = frozenset(unawaited)
        self._sources: dict[str, LogSource] = {}
        self._cluster = cluster
        self._problems: dict[str, str] = {}
        self._refused: set[str] = set()
        self._unproven: set[str] = set()

    def run(self) -> Survey:
        deadline_ns = self._transport.clock.now() + round(self._access.timeout_s * SECOND_NS)
        patience_ns: int | None = None
        while True:
            now_ns = self._transport.drive()
            self._open(now_ns)
            work_count = sum(source.work(now_ns) for source in self._sources.values())
            self._check_cluster()
            ready = self._ready()
            if ready:
                patience_ns = patience_ns or now_ns + round(PATIENCE_S * SECOND_NS)
                if now_ns >= patience_ns or not self._awaited():
                    return self._finish(ready)
            elif now_ns >= deadline_ns:
                self._close()
                raise ArchiveTimeoutError(
                    f"no node answered within {self._access.timeout_s:g} s: {self._describe_problems()}; give the "
                    f"archive endpoints of the members (the last of a member's five ports)"
                )
            if work_count == 0:
                self._transport.park(PARK_NS)

    def _check_cluster(self) -> None:
        if self._cluster.error is not None:
            self._close()
        self._cluster.check()

    def _open(self, now_ns: int) -> None:
        """Open a source at each node; a new one where the last has ended without an answer."""
        for address in self._addresses:
            source = self._sources.get(address)
            if source is not None and not source.is_ended:
                continue
            if source is not None:
                self._problems[address] = source.reason
                self._note_refusal(address, source)
            try:
                self._sources[address] = LogSource(
                    self._transport.client, self._access.settings(address), now_ns, cluster=self._cluster
                )
            except OrdoError as error:
                self._problems[address] = str(error)

    def _note_refusal(self, address: str, source: LogSource) -> None:
        """Raise ArchiveError when every node refuses; none may be able to show whose log it has."""
        if source.is_unproven:
            self._unproven.add(address)
        if len(self._unproven) == len(self._addresses):
            self._cluster.refuse_unproven(address, source.reason)
        if source.is_refused:
            self._refused.add(address)
        if len(self._refused) == len(self._addresses):
            self._close()
            raise ArchiveError(f"{address}: {source.reason}{NEEDS_ROLE}", code=ErrorCode.UNAUTHORISED_ACTION)

    def _ready(self) -> dict[str, LogSource]:
        return {
            address: source for address, source in self._sources.items() if source.state is SourceState.READY
        }  # fmt: skip

    def _awaited(self) -> bool:
        known = self._ready().keys() | self._problems.keys() | self._unawaited
        return any(address not in known for address in self._addresses)

    def _describe_problems(self) -> str:
        reasons = {address: self._problems.get(address, "no answer yet") for address in self._addresses}
        return ", ".join(f"{address} ({reason})" for address, reason in reasons.items())

    def _newest(self, ready: dict[str, LogSource]) -> Origin | None:
        """Return whose log it is, and leave out who has yet to come to that. Raises OtherClusterError."""
        told = {address: source.told for address, source in ready.items()}
        try:
            newest = newest_of((address, log) for address, log in told.items() if log is not None)
        except OtherClusterError:
            self._close()
            raise
        for address, log in told.items():
            if log is not None and newest is not None and log.identity != newest.identity:
                self._problems[address] = f"does not say yet that it is of the cluster with identity {newest}"
                del ready[address]
        return newest or self._cluster.origin

    def _finish(self, ready: dict[str, LogSource]) -> Survey:
        origin = self._newest(ready)
        found = sorted(ready.items(), key=lambda item: (item[1].is_leader, -item[1].end_position))
        descriptors = [source.descriptor for _, source in found if source.descriptor is not None]
        silent = {
            address: self._problems.get(address, "no answer in time")
            for address in self._addresses
            if address not in ready
        }
        result = Survey(
            descriptors[0],
            min(source.start_position for _, source in found),
            max(source.end_position for _, source in found),
            tuple(address for address, _ in found),
            silent,
            origin,
            next((address for address, source in found if source.is_leader), None),
        )
        self._close()
        return result

    def _close(self) -> None:
        for source in self._sources.values():
            source.close()
        self._transport.drive()


class LostRangeError(ArchiveError):
    """No node has the position any longer; `oldest_position` is where the log begins now."""

    def __init__(self, position: int, oldest_position: int) -> None:
        super().__init__(
            f"position={position} of the log was deleted everywhere; the oldest that is left is "
            f"position={oldest_position}",
            code=ErrorCode.INVALID_POSITION,
        )
        self.oldest_position = oldest_position


class BoundaryError(ArchiveError):
    """No frame begins at the position."""


class DamagedRangeError(ArchiveError):
    """The node cannot send what it has at `position`; the message is what its archive says."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"position={position}: {reason}", code=ErrorCode.GENERIC)
        self.position = position


@dataclass(frozen=True)
class OneNode:
    """What a single node has itself: its log, or another of its recordings.

    That its archive refuses to send a frame is a DamagedRangeError then, for no other node can give it.
    """

    recording_id: int | None = None


class RangeReader(Closing):
    """Reads [start, end) of the log, each frame once and in order; iterating gives (position, frames).

    The frames are those of the recording but for session id and stream id (REPLAY_STREAM_ID), which are the replay's;
    the last one may reach beyond `end`. One node is read at a time. When it dies, refuses, or sends nothing for
    `silence_s`, the reader goes on with the next one at the same position. Every part below `end` is committed, so some
    node has it. Belongs to one thread. Iterating raises ArchiveError when every node refuses or has the part no longer,
    and after `timeout_s` without progress; LostRangeError and BoundaryError.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        start: int,
        end: int,
        access: Access | None = None,
        *,
        silence_s: float = 3.0,
        record_filter: Mapping[str, str] | None = None,
        origin: Origin | None = None,
        of_node: OneNode | None = None,
    ) -> None:
        """`record_filter`: what nodes may leave out, with padding in its place (`ordo.follow.entries.record_filter`).

        `origin`: of a survey; a node of another cluster is refused with an OtherClusterError. `of_node`: the only node
        is read for what it has itself.

        Raises ConfigurationError, TransportError; nodes are asked later.
        """
        check_list("addresses", addresses)
        self.position = start
        self.end = end
        self._cluster = KnownCluster(origin, "what the survey found")
        self.problem = ""
        """Why the reader left the last node."""
        self._access = access or Access()
        self._record_filter = record_filter
        self._of_node = of_node
        self._is_of_log = of_node is None or of_node.recording_id is None
        self._settings = [self._access.settings(address) for address in addresses]
        self._silence_ns = round(silence_s * SECOND_NS)
        self._transport = self._access.transport()
        self._next_node = 0
        self._source: LogSource | None = None
        self._closing: list[LogSource] = []
        self._too_old: dict[str, int] = {}
        self._refusals = Refusals(self._settings, self._cluster)
        self._progress_ns = self._transport.clock.now()
        self._silent_ns = self._progress_ns
        self._pause_until_ns = 0
        self._polled: PolledItems[tuple[int, bytes]] = PolledItems()

    @property
    def source(self) -> str | None:
        """The channel of the node that is read from."""
        return None if self._source is None else self._source.address

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        if self.position % FRAME_ALIGNMENT:
            raise BoundaryError(f"no frame begins at position={self.position}: frames begin at multiples of 32")
        while self._polled or self.position < self.end:
            if self._polled:
                yield self._polled.take()
                self._progress_ns = self._silent_ns = self._transport.clock.now()  # without the caller's own time
            else:
                self._poll()

    def _on_block(self, position: int, frames: memoryview) -> None:
        self._polled.append((position, bytes(frames)))

    def _poll(self) -> None:
        now_ns = self._transport.drive()
        work_count = sum(source.work(now_ns) for source in self._closing)
        self._closing = [source for source in self._closing if source.is_pending]
        self._cluster.position = max(self.position, 1) if self._is_of_log else 1  # all of the log is the survey's
        if self._source is None and now_ns >= self._pause_until_ns:
            self._open(now_ns)
        source = self._source
        if source is not None:
            work_count += source.work(now_ns)
            self._cluster.check()
            if source.state is SourceState.READY:
                source.begin(self.position, self.end - self.position)
                self._silent_ns = now_ns
            length = source.poll_block(self._on_block, BLOCK_BYTES)
            if length:
                self.position += length
                self._too_old.clear()
                self._refusals.clear()
                return
            self._attend(source, now_ns)
        if now_ns - self._progress_ns >= self._access.timeout_s * SECOND_NS:
            raise ArchiveTimeoutError(
                f"nothing of the log came from position={self.position} on within {self._access.timeout_s:g} s: "
                f"{self.problem or 'no node answered'}"
            )
        if work_count == 0:
            self._transport.park(PARK_NS)

    def _open(self, now_ns: int) -> None:
        settings = self._settings[self._next_node % len(self._settings)]
        self._next_node += 1
        self._silent_ns = now_ns
        self._source = LogSource(
            self._transport.client, settings, now_ns,
            recording_id=None if self._of_node is None else self._of_node.recording_id,
            record_filter=self._record_filter, cluster=self._cluster,
        )  # fmt: skip

    def _attend(self, source: LogSource, now_ns: int) -> None:
        """Leave a node that has ended its replay, or is silent."""
        if not source.is_ended and now_ns - self._silent_ns < self._silence_ns:
            return
        self.problem = f"{source.address}: {source.reason or 'sends nothing'}"
        source.close()
        self._closing.append(source)
        self._source = None
        if self._of_node is not None and source.is_damaged:
            raise DamagedRangeError(self.position, source.reason)
        if not source.is_between_frames:
            raise BoundaryError(f"no frame of the log begins at position={self.position}: {source.reason}")
        self._refusals.note(source)
        if source.is_too_old:
            self._too_old[source.address] = source.start_position
        self._refusals.check(self._too_old)
        if len(self._too_old) == len({settings.control_channel for settings in self._settings}):
            raise LostRangeError(self.position, min(self._too_old.values()))
        if self._next_node % len(self._settings) == 0:
            self._pause_until_ns = now_ns + RETRY_PAUSE_NS

    def close(self) -> None:
        """End the replay. Idempotent."""
        self._transport.close(before=self._end_replay)

    def _end_replay(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
            self._transport.drive()
