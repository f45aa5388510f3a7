"""Repairs this member's log in place while it runs: fetches damaged parts from another member.

    one place at a time: damage below the commit position -> LogRequest to another member -> it replays that stretch to
    the endpoint for catch-ups -> recorded, checked -> written over the damaged segment, synced -> read again

Only committed log is asked for and given out, which is the same on all members for ever. What is not committed is
repaired at the next start; damage elsewhere is told to `on_other_damage` (snapshots: snapshot_repair.py).
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ordo.archive.inspection.recording_inspection import verify_recording
from ordo.archive.scrub import Scrubber
from ordo.archive.segments.frames import reseal
from ordo.archive.segments.recovery import base_of
from ordo.archive.segments.segments import segment_name
from ordo.cluster.module.log.member_replays import MemberReplays
from ordo.cluster.module.snapshots.snapshot_fetch import ATTEMPT_TIMEOUT_NS, Part, PartRecorder
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import SnapshotPart
from ordo.cluster.wire.streams import LOG_REPAIR_STREAM_ID
from ordo.runtime.errors import ArchiveError, CorruptFrameError, OrdoError, StorageError, TransportError
from ordo.runtime.native.sentinels import NULL_POSITION

if TYPE_CHECKING:
    from random import Random

    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import ArchiveAccess, Replication
    from ordo.cluster.module.state.settings import ArchiveSettings
    from ordo.cluster.wire import records

LENGTH_BYTES = 256 * 1024
LENGTH_BYTES_MAX = 4 * LENGTH_BYTES
"""Fetched in one go. Attempts differ in length: of a stretch that is only a PAD nothing is recorded."""
PAGE_BYTES = 4096
"""What a device reads, or cannot read, in one piece."""
ATTEMPTS_MAX = 30
SHOW_INTERVAL_NS = 1_000_000_000
PLACES_MAX = 64
"""Damaged places that wait; of more the next pass tells."""


def is_unreadable(error: StorageError) -> bool:
    """Return whether the device cannot read the place. Missing rights or descriptors say nothing about the data."""
    return getattr(error.__cause__, "errno", None) == errno.EIO


class RepairHost(Protocol):
    """What a repair needs of its member."""

    def record_error(self, message: str) -> None: ...
    def announce(self, event: str, text: str) -> None: ...


class LogRepair:
    """The scrubber of a member, and the repair of the damage that it finds."""

    def __init__(
        self,
        host: RepairHost,
        settings: ArchiveSettings,
        access: ArchiveAccess,
        replication: Replication,
        random: Random,
        log_recording_id: Callable[[], int],
        counters: ModuleCounters,
        on_other_damage: Callable[[int, CorruptFrameError | StorageError], None],
    ) -> None:
        """Take the member's parts; `on_other_damage` is called when a recording that is not the log is damaged."""
        self._host = host
        archive = access.archive
        self._archive = archive
        self._client = access.client
        self._contacts = replication.contacts
        self._core = replication.core
        self._sequencer = replication.sequencer
        self._random = random
        self._log_recording_id = log_recording_id
        self._counters = counters
        self._on_other_damage = on_other_damage
        self._shown_ns = 0
        self._places: deque[int] = deque()
        self._part: PartRecorder | None = None
        self._due_ns = 0
        self._attempts = 0
        self._received_bytes = 0
        self._replays = MemberReplays(archive, "the log", "log-to", host.record_error)
        self.scrubber = Scrubber(archive, settings.scrub_ns, settings.scrub_rate_bytes, self._on_damage)
        self.repaired_count = 0

    @property
    def _commit_position(self) -> int:
        return self._sequencer.commit_position

    @property
    def _other_ids(self) -> list[int]:
        """The other members of the configuration in force."""
        return [one for one in self._core.configuration.member_ids if one != self._contacts.own.id]

    def start(self) -> None:
        """Remove what an earlier run received and did not use."""
        for descriptor in self._archive.recordings():
            if descriptor.stream_id == LOG_REPAIR_STREAM_ID and "alias=log-repair" in descriptor.original_channel:
                self._archive.purge(descriptor.recording_id)

    def _on_damage(self, found: RecordingDescriptor, position: int, error: CorruptFrameError | StorageError) -> None:
        """Report damage, and note what can be repaired."""
        self._host.record_error(f"found by the scrubber: {error.message}")
        if isinstance(error, StorageError) and not is_unreadable(error):
            return
        if found.recording_id != self._log_recording_id():
            self._on_other_damage(found.recording_id, error)
        elif position < self._commit_position and position not in self._places and len(self._places) < PLACES_MAX:
            self._places.append(position)

    def work(self, now_ns: int, *, is_free: bool) -> None:
        """Take a step; `is_free`: the endpoint for catch-ups is not needed for anything else."""
        self._scrub(now_ns)
        if not self._places:
            return
        try:
            if self._part is not None and self._part.work():
                self._install(self._part)
            elif self._part is not None and self._part.length_bytes > self._received_bytes:
                self._received_bytes, self._due_ns = self._part.length_bytes, now_ns + ATTEMPT_TIMEOUT_NS
            elif now_ns >= self._due_ns and self._part is not None and self._received_bytes > 0:
                self._part.end()  # a PAD at the end does not count, so all that comes may be less than was asked for
                self._install(self._part)
            elif now_ns >= self._due_ns:
                self._give_up()
                if is_free:
                    self._ask(now_ns)
        except OrdoError as error:
            self._host.record_error(f"the log is not mended at position {self._places.popleft()}: {error.message}")
            self._attempts = 0
            self._give_up()

    @property
    def is_under_way(self) -> bool:
        """Whether something is being fetched, at the endpoint for catch-ups."""
        return self._part is not None

    def _scrub(self, now_ns: int) -> None:
        """Take the scrubber's step, and once a second show its progress and findings."""
        counters, scrubber = self._counters, self.scrubber
        pass_count = scrubber.pass_count
        scrubber.work(now_ns)
        if scrubber.pass_count != pass_count:
            counters.scrub_ended.set(self._client.epoch_ms)
        elif now_ns < self._shown_ns + SHOW_INTERVAL_NS:
            return
        self._shown_ns = now_ns
        counters.scrubbed_bytes.set(scrubber.scrubbed_bytes)
        counters.scrub_progress.set(int(scrubber.progress * 1000))
        counters.damage_found.set(scrubber.found_count)
        counters.damage_mended.set(scrubber.mended_count)
        counters.damage_left.set(scrubber.damaged_count())

    # -- the member whose log is damaged

    def _ask(self, now_ns: int) -> None:
        """Ask the other members in turn, until one has given the place."""
        self._due_ns = now_ns + ATTEMPT_TIMEOUT_NS
        position, others = self._places[0], self._other_ids
        self._attempts += 1
        if not others or self._attempts > ATTEMPTS_MAX:
            raise ArchiveError("no other member gives this part of the log")
        length = LENGTH_BYTES * (1 + self._attempts // len(others) % 4)
        length = min(length, LENGTH_BYTES_MAX, self._commit_position - position)
        part = PartRecorder(
            self._archive,
            self._client,
            Part(SnapshotPart.DESCRIPTION, LOG_REPAIR_STREAM_ID, length),
            f"aeron:udp?endpoint={self._contacts.bound.catchup}",
            self._random,
            alias="log-repair",
        )
        try:
            part.begin()
        except TransportError:
            return  # the endpoint is still taken by a subscription that is being closed
        self._part = part
        self._received_bytes = 0
        request = ordo_codecs.LOG_REQUEST.encode(
            from_position=position, length_bytes=length, member_id=self._contacts.own.id, session_id=part.session_id
        )
        self._contacts.send(others[self._attempts % len(others)], request)

    def _install(self, part: PartRecorder) -> None:
        """Overwrite the damaged part with what was received. Raises OrdoError."""
        position = self._places[0]
        received = self._archive.descriptor(part.recording_id)
        log = self._archive.descriptor(self._log_recording_id())
        end = received.start_position + part.length_bytes
        if received.start_position != position or end > self._commit_position or position < log.start_position:
            raise ArchiveError(f"received {received.start_position} to {end}")
        verification = verify_recording(self._archive.storage, self._archive.directory, received)
        if not verification.is_good:
            raise ArchiveError(str(verification))
        copied = position
        while copied < end:
            bases = base_of(log, copied), base_of(received, copied)
            until = min(end, bases[0] + log.segment_length, bases[1] + received.segment_length)
            self._copy(received, log, copied, until - copied)
            copied = until
        self._places.popleft()
        self._give_up()
        self._due_ns = self._attempts = 0
        self.repaired_count += 1
        self.scrubber.look_again(log.recording_id, position)
        self._host.announce("cluster.log-mended", f"mended the log from position {position} to {end}")

    def _copy(self, received: RecordingDescriptor, log: RecordingDescriptor, position: int, length: int) -> None:
        storage, folder = self._archive.storage, self._archive.directory
        base = base_of(received, position)
        path = f"{folder}/{segment_name(received.recording_id, base)}"
        with storage.open_segment(path, received.segment_length, writable=False) as file:
            frames = bytearray(file.read_bytes(length, position - base))
        if len(frames) != length:
            raise ArchiveError(f"{path} has {len(frames)} of {length} bytes at position={position}")
        reseal(frames, log.stream_id)
        base = base_of(log, position)
        # The rest of a page that cannot be read has to be written with it, and below its start a log has nothing.
        below = (position - base) % PAGE_BYTES if position == log.start_position else 0
        path = f"{folder}/{segment_name(log.recording_id, base)}"
        is_gone = not storage.exists(path)
        with storage.open_segment(path, log.segment_length, create=is_gone) as file:
            file.write_bytes(bytes(below) + frames, position - base - below)
            file.sync_now()
        if is_gone:
            storage.sync_directory(folder)

    def _give_up(self) -> None:
        """Forget the attempt that is under way."""
        part, self._part = self._part, None
        if part is not None:
            part.give_up()

    # -- the member that gives

    def on_request(self, request: records.LogRequest, now_ns: int) -> None:
        """Serve a member's LogRequest. One for log that is not here, or not committed, is ignored."""
        (member,) = self._contacts.find([request.member_id])
        log = self._log_recording_id()
        if not 0 < request.length_bytes <= LENGTH_BYTES_MAX or log == NULL_POSITION:
            return
        start = self._archive.descriptor(log).start_position
        if not start <= request.from_position <= self._commit_position - request.length_bytes:
            return
        self._replays.start(
            member, log, request.from_position, request.length_bytes, LOG_REPAIR_STREAM_ID, request.session_id
        )

    def close(self) -> None:
        """End a repair in progress; the next start removes what was received."""
        if self._part is not None:
            self._part.end()
            self._part = None
