"""The proof that what was read is a beginning of a node's log: the node says whose log its own was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.archive.protocol.own_codecs import FIND_PAST_IDENTITY, is_set
from ordo.cluster.wire.log_identity import Log, pack_identity, told_log

if TYPE_CHECKING:
    from ordo.archive.client.session import ArchiveSession, Reply
    from ordo.cluster.wire.known_cluster import KnownCluster


class LogProof:
    """What a node says of whose log it has, compared with the reader's cluster.

    `ask` before anything of the log is taken, and `judge` the answer.
    """

    def __init__(self, session: ArchiveSession, cluster: KnownCluster, address: str) -> None:
        self.cluster = cluster
        self.is_impossible = False
        """The node cannot show it, and will not be able to."""
        self._session = session
        self._address = address
        self._asked = (Log(b"", 0, 0), 0)
        """What the node had told, and the position that it was asked for."""

    @property
    def told(self) -> Log | None:
        """Which cluster's log the node has, as it said last."""
        return told_log(self._session.log_identity)

    @property
    def is_early(self) -> bool:
        """Whether the node has not come to where the reader is, as far as it has said: it may become another's log."""
        told = self.told
        return self.cluster.is_behind(told) or (told is not None and told.executed_position < self.cluster.position)

    @property
    def is_unsaid(self) -> bool:
        """Whether the node has said nothing, and the reader knows whose log it reads."""
        return self.told is None and self.cluster.origin is not None

    def ask(self) -> tuple[Reply | None, str]:
        """Return the reply to come, if something is in doubt, and why the node is to be left, if it is.

        Raises ArchiveError where the node cannot be asked.
        """
        told, doubt = self.told, self.cluster.find_doubt(self.told)
        if not self.cluster.admits(told, self._address):
            return None, "is of another cluster"
        if told is None or doubt is None:
            return None, ""
        self._asked = told, doubt
        if not is_set(self._session.log_identity.knows_past):
            return None, self._give_up("is of a release that does not tell it (update the cluster, or begin anew)")
        return self._session.request(FIND_PAST_IDENTITY, position=doubt), ""

    def judge(self, reply: Reply) -> str:
        """Return why the node is to be left, by its answer; empty: what was read is a beginning of its log."""
        identity = pack_identity(reply.items[0]) if reply.items else b""
        if not identity:
            return self._give_up("does not know it")
        is_one = self.cluster.is_beginning_of(self._asked[0], identity, self._address)
        return "" if is_one else "is of another cluster"

    def _give_up(self, reason: str) -> str:
        told, position = self._asked
        self.is_impossible = told.executed_position >= position
        return f"cannot show whose log it had up to position={position}, where this one ends: it {reason}"
