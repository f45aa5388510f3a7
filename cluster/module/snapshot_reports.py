"""What members tell each other of their snapshots: who holds which, and who still waits for old log.

From the reports of a quorum of voters follows which part of the log nobody will need again, which snapshot may be given
to a member that lacks it, and whose state differs from the others'.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

from cluster.wire import ordo_codecs
from cluster.wire.snapshot_digest import DIGEST_LENGTH_BYTES
from runtime.errors import DecodeError

NULL_VALUE = -1
ROWS_MAX = 8
_ROW = struct.Struct(f"<q{DIGEST_LENGTH_BYTES}s")


class HeldSnapshot(NamedTuple):
    """A snapshot by what it is: two members hold the same one when both agree."""

    log_position: int
    digest: bytes


class _Report(NamedTuple):
    snapshots: frozenset[HeldSnapshot]
    needed_position: int
    heard_ns: int


class Agreement:
    """The newest snapshot that a quorum of voters was seen to hold alike, and that this member holds, too.

    What became of that quorum since, in another configuration or with other disks, does not matter: a member that
    deletes log because of it can start from it, and give it to whoever still needs that log.
    """

    def __init__(self, agreed: HeldSnapshot) -> None:
        """`agreed`: of the time before this start."""
        self.agreed = agreed
        self._noted: list[HeldSnapshot] = []

    def settle(self, found: list[HeldSnapshot], digests: dict[int, bytes]) -> list[tuple[HeldSnapshot, int]]:
        """Goes on to the newest snapshot that a quorum was seen to hold, and that this member holds alike.

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


class SnapshotReports:
    """The newest report of each member, this one's included."""

    def __init__(self, own_id: int, patience_ns: int) -> None:
        """`patience_ns`: a member is waited for so long after it was heard last; it may have to start again."""
        self._own_id = own_id
        self._patience_ns = patience_ns
        self._reports: dict[int, _Report] = {}
        self._since_ns: int | None = None

    def encode_own(self, digests: dict[int, bytes], needed_position: int, now_ns: int) -> bytes:
        """Takes note of the own snapshots, and puts them into a message to all others."""
        if self._since_ns is None:
            self._since_ns = now_ns
        newest = sorted(digests.items(), reverse=True)[:ROWS_MAX]
        held = frozenset(HeldSnapshot(*row) for row in newest)
        self._reports[self._own_id] = _Report(held, needed_position, now_ns)
        encoded: bytes = ordo_codecs.SNAPSHOT_REPORT.encode(
            member_id=self._own_id,
            needed_position=needed_position,
            snapshots=b"".join(_ROW.pack(*row) for row in newest),
        )
        return encoded

    def on_report(self, report: Any, now_ns: int) -> None:
        """From another member. Raises DecodeError."""
        if len(report.snapshots) % _ROW.size or len(report.snapshots) > ROWS_MAX * _ROW.size:
            raise DecodeError(f"SnapshotReport: {len(report.snapshots)} bytes are no rows of {_ROW.size}")
        held = frozenset(HeldSnapshot(*row) for row in _ROW.iter_unpack(report.snapshots))
        self._reports[report.member_id] = _Report(held, report.needed_position, now_ns)

    def note_need(self, member_id: int, position: int, now_ns: int) -> None:
        """A member was told to fetch the snapshot of this position, or asks for it: it has not said so to all yet."""
        former = self._reports.get(member_id)
        self._reports[member_id] = _Report(former.snapshots if former else frozenset(), position, now_ns)

    def find_quorums(self, voter_ids: Collection[int], threshold: int) -> list[HeldSnapshot]:
        """The snapshots that so many voters hold alike, by ascending position."""
        counts = Counter(
            held for member_id in voter_ids if (one := self._reports.get(member_id)) for held in one.snapshots
        )
        return sorted(held for held, count in counts.items() if count >= threshold)

    def find_dissent(self, voter_ids: Collection[int], threshold: int) -> int | None:
        """The newest position at which no quorum can come to hold a snapshot alike, whatever else is reported."""
        digests: dict[int, Counter[bytes]] = {}
        for member_id in voter_ids:
            for held in self._reports[member_id].snapshots if member_id in self._reports else ():
                digests.setdefault(held.log_position, Counter())[held.digest] += 1
        silent = {position: len(voter_ids) - found.total() for position, found in digests.items()}
        split = [one for one, found in digests.items() if max(found.values()) + silent[one] < threshold]
        return max(split, default=None)

    def find_difference(self, agreed: HeldSnapshot) -> bytes | None:
        """The digest that this member has of a snapshot which others agree on, where it is another one."""
        own = self._reports.get(self._own_id)
        found = (held.digest for held in own.snapshots if held.log_position == agreed.log_position) if own else ()
        return next((digest for digest in found if digest != agreed.digest), None)

    def holders(self, snapshot: HeldSnapshot, heard_since_ns: int = 0) -> list[int]:
        """Members that hold the snapshot, by ascending id; only those heard from since a time."""
        rows = self._reports.items()
        return sorted(one for one, found in rows if snapshot in found.snapshots and found.heard_ns >= heard_since_ns)

    def is_complete(self, member_ids: Collection[int], now_ns: int) -> bool:
        """Whether each of them has said what it waits for since this one started, or was silent for too long."""
        is_patient = self._since_ns is None or now_ns < self._since_ns + self._patience_ns
        return not is_patient or all(one in self._reports for one in member_ids)

    def needed_position(self, start_position: int, now_ns: int) -> int | None:
        """The lowest position that another member waits for, None where nobody waits.

        Who waits for what is below the beginning of the own log does not get it here in any case.
        """
        lowest = max(0, start_position)
        positions = [
            one.needed_position
            for member_id, one in self._reports.items()
            if member_id != self._own_id and one.needed_position >= lowest and now_ns < one.heard_ns + self._patience_ns
        ]
        return min(positions, default=None)
