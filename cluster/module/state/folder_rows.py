"""The owner of a data folder: rows of `state.mdb` that name its member, its cluster, and the member's last start.

See docs/CONSENSUS.md, Whose data a folder has.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ordo.cluster.wire.log_identity import IDENTITY_BYTES, Origin
from ordo.runtime.errors import ClusterError
from ordo.runtime.io.storage import MetadataStore, Transaction

NO_NUMBER = 0
ACCEPTED_LEAP = 1 << 32
"""More starts than a member can have made: what an operator accepted counts as later than all of them."""
_OWNER = b"owner"
_ORIGIN = b"origin"
_PAST_ORIGIN = b"origin/"
_START = b"start"
_RECOVERING = b"recovering"
_REJOINING = b"rejoining"
_STANDBY = b"standby"
_BEGUN_ANEW = b"2"
_PEER = b"peer/"
_PEER_CLUSTER = b"peer-cluster/"
_OWNER_ROW = struct.Struct(">ii")
_ORIGIN_ROW = struct.Struct(f">{IDENTITY_BYTES}sq")
_START_ROW = struct.Struct(">qq")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_REJOINING_ROW = struct.Struct(">q")
_RECOVERING_ROW = struct.Struct(">qq")


class Owner(NamedTuple):
    """The member that a folder belongs to, as its configuration named it."""

    cluster_id: int
    member_id: int


class Start(NamedTuple):
    """One start of a member: its number, and a random value that distinguishes starts with the same number."""

    number: int
    draw: int


NO_START = Start(NO_NUMBER, 0)


class Recovering(NamedTuple):
    """What a member had before an `ordo cluster recover` that did not come to its end."""

    log_position: int
    """Its log ended here."""
    committed_position: int
    """It knew the log to be committed up to here."""


class FolderRows:
    """The rows of a store that say whose the folder is, and what is being made of it.

    The keys are `owner`, `origin`, `origin/<position>`, `start`, `recovering`, `rejoining`, `standby`,
    `peer/<member id>` and `peer-cluster/<member id>`.

    Every change is durable when the call returns.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    @property
    def owner(self) -> Owner | None:
        """The member that owns the folder; None in a new one, and in one of a release that did not write it down."""
        row = self._store.get(_OWNER)
        return Owner(*_OWNER_ROW.unpack(row)) if row else None

    def put_owner(self, owner: Owner) -> None:
        with self._store.transaction() as txn:
            txn.put(_OWNER, _OWNER_ROW.pack(*owner))

    @property
    def origin(self) -> Origin | None:
        """The cluster that the folder belongs to; None until the record that names it is committed."""
        row = self._store.get(_ORIGIN)
        return Origin(*_ORIGIN_ROW.unpack(row)) if row else None

    def put_origin(self, origin: Origin) -> None:
        with self._store.transaction() as txn:
            self._put_origin(txn, origin)

    def _put_origin(self, txn: Transaction, origin: Origin) -> None:
        """Put the newest, and keep what there was as well: the log before is that cluster's."""
        for one in (self.origin, origin):
            if one is not None:
                txn.put(_PAST_ORIGIN + _I64.pack(one.position), _ORIGIN_ROW.pack(*one))
        txn.put(_ORIGIN, _ORIGIN_ROW.pack(*origin))

    def origins(self) -> list[Origin]:
        """Return the clusters whose log this log was, oldest first, as far as this folder has known them."""
        found = {Origin(*_ORIGIN_ROW.unpack(row)) for _, row in self._store.items(_PAST_ORIGIN)}
        newest = self.origin
        return sorted(found if newest is None else {*found, newest}, key=lambda one: one.position)

    @property
    def start(self) -> Start:
        """The last start with this folder; NO_START before the first."""
        row = self._store.get(_START)
        return Start(*_START_ROW.unpack(row)) if row else NO_START

    def put_start(self, start: Start) -> None:
        with self._store.transaction() as txn:
            txn.put(_START, _START_ROW.pack(*start))

    def peers(self) -> dict[int, Start]:
        """Return the newest start of each other member that this one has seen."""
        rows = self._store.items(_PEER)
        return {_I32.unpack(key[len(_PEER) :])[0]: Start(*_START_ROW.unpack(value)) for key, value in rows}

    def peer_clusters(self) -> dict[int, bytes]:
        """Return the identity of the cluster that the member showed with its newest start; empty: it knew none."""
        return {_I32.unpack(key[len(_PEER_CLUSTER) :])[0]: value for key, value in self._store.items(_PEER_CLUSTER)}

    def put_peer(self, member_id: int, start: Start, cluster: bytes) -> None:
        with self._store.transaction() as txn:
            txn.put(_PEER + _I32.pack(member_id), _START_ROW.pack(*start))
            txn.put(_PEER_CLUSTER + _I32.pack(member_id), cluster)

    @property
    def recovering(self) -> Recovering | None:
        """What was there before an `ordo cluster recover` that did not come to its end; None otherwise."""
        row = self._store.get(_RECOVERING)
        return Recovering(*_RECOVERING_ROW.unpack(row)) if row else None

    def put_recovering(self, before: Recovering) -> None:
        """Note that `ordo cluster recover` writes what follows the log, and what was known to be committed."""
        with self._store.transaction() as txn:
            txn.put(_RECOVERING, _RECOVERING_ROW.pack(*before))

    @property
    def rejoining(self) -> int | None:
        """Where the log is to end of a folder that is being made a standby's (`ordo standby rejoin`); None: it is not.

        What was behind it is kept elsewhere, durably.
        """
        row = self._store.get(_REJOINING)
        return int(_REJOINING_ROW.unpack(row)[0]) if row else None

    def put_rejoining(self, log_position: int) -> None:
        """Note that the log is cut off at a position, for the folder to become a standby's."""
        with self._store.transaction() as txn:
            txn.put(_REJOINING, _REJOINING_ROW.pack(log_position))

    @property
    def is_standby(self) -> bool:
        """Whether the folder has a copy of another cluster's log, which only a promotion makes one to go on with."""
        return self._store.get(_STANDBY) is not None

    @property
    def is_begun_anew(self) -> bool:
        """Whether a standby copies a snapshot and the log behind it, since the log that it has ends before a gap."""
        return self._store.get(_STANDBY) == _BEGUN_ANEW

    def put_standby(self, *, begins_anew: bool = False) -> None:
        """Note that the log of this folder is a copy, and whether another one is begun that is not whole yet."""
        with self._store.transaction() as txn:
            txn.put(_STANDBY, _BEGUN_ANEW if begins_anew else b"1")

    def begin_epoch(self, txn: Transaction, origin: Origin) -> None:
        """End a recovery or a promotion: the folder is another cluster's, which has met no other member yet."""
        txn.delete(_RECOVERING)
        txn.delete(_STANDBY)
        self._forget_peers(txn)
        self._put_origin(txn, origin)

    def become_standby(self, txn: Transaction, log_position: int) -> None:
        """End a rejoin: the log, which ends at a position, is a copy of another cluster's."""
        known = self.origins()
        txn.delete(_REJOINING)
        self._forget_peers(txn)
        for origin in known:
            if origin.position > log_position:  # the record that named it is not in the log any more
                txn.delete(_PAST_ORIGIN + _I64.pack(origin.position))
                txn.delete(_ORIGIN)
        if left := [one for one in known if one.position <= log_position]:
            txn.put(_ORIGIN, _ORIGIN_ROW.pack(*left[-1]))
        txn.put(_STANDBY, b"1")

    def _forget_peers(self, txn: Transaction) -> None:
        for prefix in (_PEER, _PEER_CLUSTER):
            for key, _ in self._store.items(prefix):
                txn.delete(key)


class Claim(NamedTuple):
    """A folder as a member has taken it for one start."""

    previous: Start
    """The start before this one, as the folder has it."""
    start: Start


def claim(rows: FolderRows, owner: Owner, folder: str, draw: int, *, is_standby: bool = False) -> Claim:
    """Take a folder for a member's start, before anything else is done with it.

    Raises ClusterError where it belongs to another member or cluster, or is a copy that was not promoted and is to be
    used by anybody but a standby. `draw`: a random number.
    """
    found = rows.owner
    if found is not None and found != owner:
        raise ClusterError(describe_foreign(found, owner, folder, rows.origin))
    if rows.rejoining is not None:
        raise ClusterError(describe_rejoining(folder))
    if rows.is_standby and not is_standby:
        raise ClusterError(
            f"the data folder {folder} is a standby's, a copy of another cluster's log: start it with `ordo standby "
            "run`, or promote it first (`ordo standby promote`)"
        )
    if rows.recovering is not None:
        command, of = (
            ("`ordo standby promote`", "promoted") if rows.is_standby else ("`ordo cluster recover`", "recovered")
        )
        raise ClusterError(
            f"the data folder {folder} was being {of}, and that did not come to its end: give the same {command} "
            "again, and then start the member"
        )
    if found is None:
        rows.put_owner(owner)
    previous = rows.start
    start = Start(previous.number + 1, draw)
    rows.put_start(start)
    return Claim(previous, start)


def describe_rejoining(folder: str) -> str:
    """Return one line that says that a folder is neither a member's any more nor a standby's yet."""
    return (
        f"the data folder {folder} was being made a standby's, and that did not come to its end: give the same `ordo "
        "standby rejoin` again"
    )


def describe_foreign(found: Owner, owner: Owner, folder: str, origin: Origin | None) -> str:
    """Return one line that says why a folder does not belong to this member."""
    whose = f"member {found.member_id} of cluster {found.cluster_id}"
    identity = "" if origin is None else f" (identity {origin})"
    told = f"the data folder {folder} is that of {whose}{identity}, and this is member {owner.member_id} of cluster"
    if found.cluster_id != owner.cluster_id:
        return f"{told} {owner.cluster_id}: start it with its own folder, or with an empty one and `--rejoin`"
    return (
        f"{told} {owner.cluster_id}: start it with its own folder, or with an empty one and `--rejoin`; to make it "
        "this member's, without its vote until it has caught up, see `ordo cluster adopt`"
    )
