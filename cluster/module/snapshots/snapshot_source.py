"""Gives snapshots of this member to others: describes them, and replays their recordings on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.cluster.module.log.member_replays import MemberReplays
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import SnapshotPart
from ordo.cluster.wire.snapshots.part_lengths import pack_lengths
from ordo.runtime.errors import DecodeError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.snapshots.snapshot_reports import SnapshotReports
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.state_store import SnapshotEntry
    from ordo.cluster.wire import records
    from ordo.cluster.wire.members import Member


class SnapshotSource:
    """Replays snapshots natively: at most one replay to a member at a time, the last one it asked for."""

    def __init__(
        self,
        archive: Archive,
        shelf: SnapshotShelf,
        reports: SnapshotReports,
        contacts: Contacts,
        own_id: int,
        on_failure: Callable[[str], None],
    ) -> None:
        self._archive = archive
        self._shelf = shelf
        self._own_id = own_id
        self._reports = reports
        self._contacts = contacts
        self._replays = MemberReplays(archive, "a snapshot", "snapshot-to", on_failure)

    def on_request(self, request: records.SnapshotRequest, now_ns: int) -> None:
        """Answer a member's SnapshotRequest.

        For a snapshot that is gone, say so, so that the member looks elsewhere. Raises DecodeError.
        """
        (member,) = self._contacts.find([request.member_id])
        self._reports.note_need(member.id, request.snapshot_position, now_ns)
        if request.from_position < 0:
            raise DecodeError(f"SnapshotRequest: from_position={request.from_position}")
        entry = self._shelf.find(request.snapshot_position, request.digest)
        if entry is None or request.part == SnapshotPart.DESCRIPTION:
            self._contacts.send(member.id, self._describe(request, entry))
        elif SnapshotPart.MODULE <= request.part < SnapshotPart.SERVICE + len(entry.service_recording_ids):
            self._replay(request, entry, member)

    def _describe(self, request: records.SnapshotRequest, entry: SnapshotEntry | None) -> bytes:
        encoded: bytes = ordo_codecs.SNAPSHOT_OFFER.encode(
            snapshot_position=request.snapshot_position,
            leadership_term_id=entry.leadership_term_id if entry else NULL_VALUE,
            term_base_log_position=entry.term_base_log_position if entry else NULL_VALUE,
            timestamp=entry.timestamp if entry else 0,
            module_length_bytes=self._length(entry.module_recording_id) if entry else NULL_VALUE,
            service_length_bytes=self._length(entry.service_recording_id) if entry else NULL_VALUE,
            member_id=self._own_id,
            follower_member_id=request.member_id,
            digest=request.digest,
            more_lengths=pack_lengths(map(self._length, entry.more_recording_ids if entry else ())),
        )
        return encoded

    def _length(self, recording_id: int) -> int:
        descriptor = self._archive.descriptor(recording_id)
        return int(descriptor.stop_position - descriptor.start_position)

    def _replay(self, request: records.SnapshotRequest, entry: SnapshotEntry, member: Member) -> None:
        is_module = request.part == SnapshotPart.MODULE
        wanted = entry.module_recording_id
        if not is_module:
            wanted = entry.service_recording_ids[request.part - SnapshotPart.SERVICE]
        descriptor = self._archive.descriptor(wanted)
        position = descriptor.start_position + request.from_position
        recording_id, stream_id = descriptor.recording_id, descriptor.stream_id
        self._replays.start(member, recording_id, position, None, stream_id, request.session_id)
