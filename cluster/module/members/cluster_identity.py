"""The cluster that this member's log belongs to: 128 bits from the log's first record, stored once committed.

The first record of a log names the moment at which it began and a random number (the session of its publication): the
identity is the hash of both. So every log that still has its first record has an identity, whichever release began it.
From protocol level 4 on a ClusterIdentityEvent repeats it, for members whose log begins later and for snapshots; where
no member knows the first record any more, the leader draws a random one. docs/CONSENSUS.md, Whose data a folder has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.archive.protocol.own_codecs import ToldIdentity
from ordo.cluster.module.state.folder_rows import FolderRows
from ordo.cluster.module.state.host import AppendingHost
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.levels import IDENTITY_LEVEL
from ordo.cluster.wire.log_identity import (
    IDENTITY_BYTES,
    LogIdentity,
    Origin,
    begin_of_identity,
    identity_at,
    identity_of,
    is_first_record,
    pack_identity,
    pack_past,
    unpack_identity,
)
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel


class IdentityHost(AppendingHost, Protocol):
    """The member whose log is identified."""

    def announce(self, event: str, text: str) -> None: ...


class ClusterIdentity:
    """One member's knowledge of its cluster. `origin` is committed; only a record of the log can change it."""

    def __init__(
        self, host: IdentityHost, levels: ProtocolLevel, rows: FolderRows, random: Random, own_id: int
    ) -> None:
        """Take the member's parts; `random` gives numbers that no other cluster draws."""
        self._host = host
        self._own_id = own_id
        self._levels = levels
        self._rows = rows
        self._random = random
        self._events: list[LogIdentity] = []
        """The identities in this member's durable log, committed or not."""
        self.origin: Origin | None = rows.origin
        self._past: list[Origin] = rows.origins()
        """The clusters whose log this was, and is, as far as that is committed."""
        self._is_settled = False
        """The log, or a snapshot, repeats the identity in an event: all members have that one."""

    def start(
        self, of_snapshot: LogIdentity | None, first: Origin | None, *, has_log: bool, past: Sequence[Origin] = ()
    ) -> None:
        """Set what is known before the log is read.

        `of_snapshot` is what the starting snapshot says; `first` is what the log's first record says, where the log
        still has it and it is committed; `has_log`: a log goes on from the snapshot, which is not just fetched. `past`:
        what the log says where it was gone on with as another cluster's.

        Raises ClusterError where these contradict what is written down: a folder put together of two.
        """
        stored = self.origin
        if first is not None:
            if stored is not None and stored.position == first.position and stored != first:
                raise ClusterError(_describe_mixture(stored, "log", first))
            self._note_past(first)
            self._adopt(first)
        for one in past:
            self._note_past(one)
            self._is_settled = self._is_settled or one == self.origin
        if of_snapshot is not None:
            self._events.append(of_snapshot)
            self._is_settled = True
            found = Origin(of_snapshot.identity, of_snapshot.position)
            self._note_past(found)
            # A member stores each identity that it executes, and then takes snapshots: one of its own is not newer.
            is_own = has_log or (stored is not None and stored.position == found.position)
            if stored is not None and is_own and _is_contradicted(stored, found):
                raise ClusterError(_describe_mixture(stored, "snapshot", found))
            self._adopt(found)

    def _adopt(self, found: Origin) -> None:
        """Adopt the identity of a committed record; a repeated one changes nothing."""
        if self.origin is not None and (
            self.origin.identity == found.identity or self.origin.position >= found.position
        ):
            return
        self._rows.put_origin(found)
        self._note_past(found)
        self.origin = found
        self._host.announce("cluster.identity", f"this is the log of the cluster with identity {found.identity.hex()}")

    def _note_past(self, origin: Origin) -> None:
        if origin not in self._past:
            self._past.append(origin)

    def find_past(self, position: int, terms: Sequence[tuple[int, int]]) -> bytes:
        """Return whose log this log was where a record of it ends; empty if not known. `terms`: all of the log's."""
        durable = [Origin(one.identity, one.position) for one in self._events]
        return identity_at(position, terms, self._past) or identity_at(position, terms, durable)

    def on_record(self, record: LogRecord) -> None:
        """Note a record of this member's durable log; it need not be committed."""
        if record.table is ordo_codecs.CLUSTER_IDENTITY_EVENT:
            self._events.append(LogIdentity(record.position, pack_identity(record.values)))

    def truncate(self, position: int) -> None:
        """Forget what was read beyond `position`, where the log was cut."""
        while self._events and self._events[-1].position > position:
            self._events.pop()

    def execute(self, record: LogRecord) -> None:
        """Execute a committed first record or ClusterIdentityEvent."""
        if is_first_record(record.table, record.values):
            self._adopt(Origin(identity_of(record.values), record.values.log_position))
        elif record.table is ordo_codecs.CLUSTER_IDENTITY_EVENT:
            self._adopt(Origin(pack_identity(record.values), begin_of_identity(record.values, record.position)))
            self._is_settled = True

    def told(self, executed_position: int) -> ToldIdentity | None:
        """Return the identity of this member's log, as readers and clients are told it.

        None before an event has said it: until then members may know different ones, and a leader may yet draw another.
        """
        if self.origin is None or not self._is_settled:
            return None
        return ToldIdentity(
            **unpack_identity(self.origin.identity),
            identity_position=self.origin.position,
            executed_position=max(executed_position, self.origin.position),
            past=pack_past(one for one in self._past if one.position < self.origin.position),
        )

    def told_beginning(self) -> ToldIdentity | None:
        """Return what the log's first record says, as clients are told it until an event has said the identity.

        It is told without an executed position: a leader may yet draw another identity, which begins further on. But of
        two logs whose first records differ, one is another cluster's.
        """
        if self.origin is None or self._is_settled:
            return None
        return ToldIdentity(
            **unpack_identity(self.origin.identity),
            identity_position=self.origin.position,
            executed_position=NULL_VALUE,
        )

    def at(self, log_position: int) -> LogIdentity | None:
        """Return the identity of the newest ClusterIdentityEvent up to a position, for a snapshot there."""
        return next((one for one in reversed(self._events) if one.position <= log_position), None)

    def work(self) -> None:
        """Make sure, as a leader and once a second, that the log names the cluster it belongs to."""
        host = self._host
        if not host.is_leader or self._levels.newest < IDENTITY_LEVEL or self._events:
            return
        identity = self._random.randbytes(IDENTITY_BYTES) if self.origin is None else self.origin.identity
        host.append(
            ordo_codecs.CLUSTER_IDENTITY_EVENT.encode(
                leadership_term_id=host.leadership_term_id,
                timestamp=host.cluster_time,
                log_position=NULL_VALUE,
                member_id=self._own_id,
                **unpack_identity(identity),
            )
        )


def _is_contradicted(stored: Origin, found: Origin) -> bool:
    """Return whether a snapshot of this member's own shows an identity that its store would have, and does not."""
    return stored.identity != found.identity and stored.position <= found.position


def _describe_mixture(stored: Origin, name: str, found: Origin) -> str:
    return (
        f"the data folder is put together of two: its store of votes and terms is of cluster {stored}, and its {name} "
        f"of cluster {found}: restore both from one copy, or start with an empty folder and `--rejoin`"
    )
