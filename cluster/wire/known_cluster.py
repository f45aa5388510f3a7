"""The cluster that an outside program reads from or talks to, so that it does not mistake another for it.

Positions, numbers and answers of one cluster mean nothing at another. Addresses are used again, lists of addresses mix
two clusters, and what was kept of one is used with another.
"""

from __future__ import annotations

from collections.abc import Iterable

from ordo.cluster.wire.log_identity import Log, Origin, are_of_two_clusters
from ordo.runtime.errors import OtherClusterError
from ordo.transport.frame_layout import FRAME_ALIGNMENT

GIVE_ONE = "give the addresses of one cluster"


class KnownCluster:
    """The first cluster that was met, or the one that something kept is of.

    A node that does not say which cluster's log it has is let in: members of earlier releases do not.
    """

    def __init__(self, origin: Origin | None = None, whose: str = "", remedy: str = GIVE_ONE) -> None:
        """`whose`: what is of the cluster `origin`; empty: the node that was met first. `remedy`: ends the error."""
        self.origin = origin
        self.position = 0
        """Up to here its log was read, or acknowledged, by who knows it."""
        self.error: OtherClusterError | None = None
        self._whose = whose
        self._remedy = remedy
        self._beginning: Origin | None = None
        """What was met first said this of its log, which had not said its identity yet."""
        self._former: Origin | None = None
        """The cluster whose log it is below `origin.position`, if that is known."""

    def check(self) -> None:
        """Raise OtherClusterError once a node of another cluster was met."""
        if self.error is not None:
            raise self.error

    def admits(self, told: Log | None, address: str, past: Iterable[Origin] = ()) -> bool:
        """Return whether a node may belong to this cluster. The first node that reports an identity decides.

        `past`: the clusters whose log the node's was before. One that begins within what is known here shows, as the
        newest would, that the two logs part there.
        """
        if told is None:
            return True
        own = self.origin
        if own is None:
            is_one = self.admits_beginning(Origin(told.identity, told.position), address)
            if is_one:
                self.adopt(told, address)
            return is_one
        known, past = Log(own.identity, own.position, self.position), list(past)
        later = [Log(*one, one.position) for one in past if one.position > own.position]
        if not any(are_of_two_clusters(known, one) for one in (told, *later)):
            return True
        self._refuse(told, own, address, _find_kept(own, told, past))
        return False

    def admits_beginning(self, told: Origin, address: str) -> bool:
        """Return whether a node may belong to this cluster whose log has not said its identity yet.

        It says what its first record says, from which the log's own word may differ that comes later: it proves nothing
        but that two logs with other identities from the same position on are two.
        """
        known = self.origin or self._beginning
        if known is None:
            self._beginning = told
            self._whose = self._whose or f"{address}, which was met first,"
            return True
        if known.position != told.position or known.identity == told.identity:
            return True
        self._refuse(told, known, address)
        return False

    def find_doubt(self, told: Log | None) -> int | None:
        """Return where a node has to say whose log its log was before it is read; None: what it has told is enough.

        What was read has to be a beginning of the node's log. Two logs whose newest identities differ may be one, up to
        where the newer one begins, or not: it may be the second since, and the first begin in what was read. A node
        with the same identity, which has not come to where this reader is, may get another one before that.
        """
        own = self.origin
        if own is None or told is None or self.position == 0:
            return None
        if told.identity in self._identities:
            return self.position if told.executed_position < self.position else None
        return max(self.position, own.position)

    @property
    def _identities(self) -> set[bytes]:
        """The identities that the log may have where this reader is: one before, too, where the newest is ahead."""
        own, former = self.origin, self._former
        if own is None:
            return set()
        return {own.identity, former.identity} if former and self.position < own.position else {own.identity}

    def is_behind(self, told: Log | None) -> bool:
        """Return whether a node is not to be read before it has come to where the newest identity begins."""
        own = self.origin
        if own is None or told is None or self.position == 0 or told.position > own.position:
            return False
        return told.identity not in self._identities

    def is_beginning_of(self, told: Log, identity: bytes, address: str) -> bool:
        """Return whether what was read is a beginning of a node's log, which was of this identity at `find_doubt`."""
        own = self.origin
        assert own is not None, "nothing was in doubt"
        if identity in self._identities:
            return True
        self._refuse(told if told.identity != own.identity else Origin(identity, 0), own, address)
        return False

    def refuse_unproven(self, address: str, reason: str) -> None:
        """Give up, since no node can show that its log goes on with what was read."""
        self.error = self.error or OtherClusterError(f"{address}: {reason}: {self._remedy}")

    def _refuse(self, told: Log | Origin, own: Origin, address: str, kept_position: int | None = None) -> None:
        kept = "" if kept_position is None else f", whose log it goes on with behind position={kept_position}"
        self.error = self.error or OtherClusterError(
            f"{address} is of the cluster with identity {told}, and {self._whose} of the one with identity {own}"
            f"{kept}: {self._remedy}",
            kept_position=kept_position,
        )

    def find_limit(self, told: Log | None) -> int | None:
        """Return up to where a node's log may be read that is let in; None: as far as it goes.

        A node whose identity is an older one may come to that of this cluster yet, or be of a cluster that was begun
        anew: behind the place where it would have it, it has to say it first.
        """
        own = self.origin
        return None if own is None or told is None or told.identity == own.identity else own.position

    def adopt(self, told: Log | None, address: str) -> None:
        """Take a node's word, now that it is read: from a position on a restored cluster is one of its own."""
        own = self.origin
        if told is None or (own is not None and (told.identity == own.identity or told.position <= own.position)):
            return
        if own is None and not self._whose:
            self._whose = f"{address}, which was met first,"
        self._former = own
        self.origin = Origin(told.identity, told.position)


def _find_kept(own: Origin, told: Log, past: Iterable[Origin]) -> int | None:
    """Return up to where a cluster has the log of another one that it went on with; None: it says nothing of that one.

    Its identity begins where its first own record may end at the earliest.
    """
    if own.identity not in {one.identity for one in past}:
        return None
    begins = [one.position for one in (Origin(told.identity, told.position), *past) if one.position > own.position]
    return max(min(begins) - FRAME_ALIGNMENT, own.position) if begins else None


def newest_of(told: Iterable[tuple[str, Log]]) -> Origin | None:
    """Return the newest identity that nodes (address, log) have said; None: none has said any.

    Raises OtherClusterError where they are of two clusters: one has come to where the newer identity of another begins.
    """
    known = KnownCluster()
    for address, log in sorted(told, key=lambda one: one[1].position):
        known.admits(log, address)
        known.check()
        known.adopt(log, address)
        known.position = max(known.position, log.executed_position)
    return known.origin
