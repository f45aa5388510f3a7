"""Reports between members: which snapshots each holds, and which members still need old log.

From the reports of a quorum of voters follows which part of the log nobody will need again, which snapshot may be given
to a member that lacks it, and whose state differs from the others'.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots.snapshot_digest import DIGEST_LENGTH_BYTES
from ordo.runtime.errors import DecodeError

if TYPE_CHECKING:
    from ordo.cluster.wire import records

ROWS_MAX = 8
_ROW = struct.Struct(f"<q{DIGEST_LENGTH_BYTES}s")


class HeldSnapshot(NamedTuple):
    """A snapshot's position and digest: two members hold the same one when both agree."""

    log_position: int
    digest: bytes


class Agreement:
    """The newest snapshot that a quorum of voters was seen to hold alike, and that this member holds, too.

    What became of that quorum since, in another configuration or with other disks, does not matter: a member that
    deletes log because of it can start from it, and give it to members that still need that log.
    """

    def __init__(self, agreed: HeldSnapshot) -> None:
        """Start from `agreed`, which was known before this start."""
        self.agreed = agreed
        self._noted: list[HeldSnapshot] = []

    def settle(self, found: list[HeldSnapshot], digests: dict[int, bytes]) -> list[tuple[HeldSnapshot, int]]:
        """Go on to the newest snapshot that a quorum was seen to hold, and that this member holds alike.

        `found`: what a quorum holds now. `digests`: of what this member holds, by log position. Returns what a quorum
        holds and this member does not hold alike (yet), each with the position of the newest agreed one before it.
        """
        newer = {one for one in found if one.log_position > self.agreed.log_position}
        noted = sorted({*self._noted, *newer})[-ROWS_MAX:]
        missed = []
        for one in noted:
            if digests.get(one.log_position) == one.digest:
                self.agreed = one
            else:
                missed.append((one, self.agreed.log_position))
        self._noted = [one for one in noted if one.log_position > self.agreed.log_position]
        return missed


class StateReports:
    """The states that members had at their positions, by each member's newest report, this one's included."""

    def __init__(self, own_id: int) -> None:
        self._own_id = own_id
        self._held: dict[int, frozenset[HeldSnapshot]] = {}
        self._heard_ns: dict[int, int] = {}

    def note_own(self, digests: dict[int, bytes], now_ns: int) -> bytes:
        """Take note of the own digests by log position. Returns the newest as the rows of a message."""
        newest = sorted(digests.items(), reverse=True)[:ROWS_MAX]
        self._held[self._own_id] = frozenset(HeldSnapshot(*row) for row in newest)
        self._heard_ns[self._own_id] = now_ns
        return b"".join(_ROW.pack(*row) for row in newest)

    def note(self, member_id: int, rows: bytes, now_ns: int) -> None:
        """Take the report of another member. Raises DecodeError."""
        if len(rows) % _ROW.size or len(rows) > ROWS_MAX * _ROW.size:
            raise DecodeError(f"states of member {member_id}: {len(rows)} bytes are no rows of {_ROW.size}")
        self._held[member_id] = frozenset(HeldSnapshot(*row) for row in _ROW.iter_unpack(rows))
        self._heard_ns[member_id] = now_ns

    def find_quorums(self, voter_ids: Collection[int], threshold: int) -> list[HeldSnapshot]:
        """Return the states that `threshold` voters had alike, by ascending position."""
        counts = Counter(held for member_id in voter_ids for held in self._held.get(member_id, ()))
        return sorted(held for held, count in counts.items() if count >= threshold)

    def find_dissent(self, voter_ids: Collection[int], threshold: int) -> int | None:
        """Return the newest position at which a quorum can no longer have the same state, whatever else is reported."""
        digests: dict[int, Counter[bytes]] = {}
        for member_id in voter_ids:
            for held in self._held.get(member_id, ()):
                digests.setdefault(held.log_position, Counter())[held.digest] += 1
        silent = {position: len(voter_ids) - found.total() for position, found in digests.items()}
        split = [one for one, found in digests.items() if max(found.values()) + silent[one] < threshold]
        return max(split, default=None)

    def find_difference(self, agreed: HeldSnapshot, member_id: int | None = None) -> bytes | None:
        """Return a member's digest (None: this one's) of a state that others agree on, if it differs."""
        held = self._held.get(self._own_id if member_id is None else member_id, ())
        found = (one.digest for one in held if one.log_position == agreed.log_position)
        return next((digest for digest in found if digest != agreed.digest), None)

    def holders(self, snapshot: HeldSnapshot, heard_since_ns: int = 0) -> list[int]:
        """Return the members that had this state, by ascending id; only those heard from since a time."""
        return sorted(
            one for one, held in self._held.items() if snapshot in held and self._heard_ns[one] >= heard_since_ns
        )


class SnapshotReports(StateReports):
    """The snapshots that members hold, and the log that they still need."""

    def __init__(self, own_id: int, patience_ns: int) -> None:
        """Wait `patience_ns` for a member after it was heard last, since it may have to start again."""
        super().__init__(own_id)
        self._patience_ns = patience_ns
        self._needed: dict[int, int] = {}
        self._since_ns: int | None = None

    def encode_own(self, digests: dict[int, bytes], needed_position: int, now_ns: int) -> bytes:
        """Return the own snapshots, which are noted, as a message to all others."""
        if self._since_ns is None:
            self._since_ns = now_ns
        self._needed[self._own_id] = needed_position
        encoded: bytes = ordo_codecs.SNAPSHOT_REPORT.encode(
            member_id=self._own_id, needed_position=needed_position, snapshots=self.note_own(digests, now_ns)
        )
        return encoded

    def on_report(self, report: records.SnapshotReport, now_ns: int) -> None:
        """Take the report of another member. Raises DecodeError."""
        self.note(report.member_id, report.snapshots, now_ns)
        self._needed[report.member_id] = report.needed_position

    def note_need(self, member_id: int, position: int, now_ns: int) -> None:
        """Note that a member needs this snapshot, before the member itself reports so to all."""
        self._held.setdefault(member_id, frozenset())
        self._heard_ns[member_id] = now_ns
        self._needed[member_id] = position

    def is_complete(self, member_ids: Collection[int], now_ns: int) -> bool:
        """Return whether each of them has reported its needs since this member started, or was silent for too long."""
        is_patient = self._since_ns is None or now_ns < self._since_ns + self._patience_ns
        return not is_patient or all(one in self._needed for one in member_ids)

    def needed_position(self, start_position: int, now_ns: int) -> int | None:
        """Return the lowest position that another member needs, or None.

        A member that waits for what is below the beginning of this member's log does not get it here in any case.
        """
        lowest = max(0, start_position)
        positions = [
            position
            for member_id, position in self._needed.items()
            if member_id != self._own_id
            and position >= lowest
            and now_ns < self._heard_ns[member_id] + self._patience_ns
        ]
        return min(positions, default=None)
