"""Copies the snapshots of standbys to a member, where `[snapshot] by = "standby"`.

A member asks its standbys in turn which snapshot they have, and copies the services' parts of one that its log has
ordered, as a backup copies them. Whether they are of its own state is found out by its module, which stores them then
(ordo.cluster.module.snapshots.copied_snapshots).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.backup.query import MemberQuery
from ordo.backup.snapshot_copy import PartCopy
from ordo.cluster.node.node import Node
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.runtime.errors import OrdoError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS
from ordo.runtime.security.credentials import credentials_from_file

if TYPE_CHECKING:
    from ordo.backup.query import Description
    from ordo.cluster.settings.config import NodeSettings

ASK_INTERVAL_NS = 2 * SECOND_NS
AWAITED_INTERVAL_NS = 200 * MILLISECOND_NS
"""Standbys are asked more often while a copy of theirs is awaited."""


class StandbyCopies:
    """Copies snapshots from standbys to one member's node. `work` with every slow tick, until `close`."""

    def __init__(self, node: Node, addresses: Sequence[str], credentials: bytes = b"") -> None:
        """`addresses`: the standbys' ingress, host:port."""
        self._node = node
        self._addresses = list(addresses)
        self._credentials = credentials
        self._copies = node.module.exchange.copies
        self._orders = node.module.exchange.copy_orders
        self._shelf = node.module.held.shelf
        self._query: MemberQuery | None = None
        self._asked_count = 0
        self._due_ns = 0
        self._parts: list[PartCopy] = []
        self._to_copy: list[int] = []
        self._settings: ArchiveClientSettings | None = None
        self._position = NULL_VALUE
        """The log position of the snapshot whose parts are copied, or -1."""
        self._problems: dict[tuple[str, bool], str] = {}
        """By address, and whether it had answered: what failed last there; empty: it answers."""

    def work(self, now_ns: int) -> None:
        """Run one duty cycle. What fails is told once, and tried again."""
        try:
            if self._position != NULL_VALUE:
                self._copy(now_ns)
            elif self._query is not None:
                self._await_answer(self._query, now_ns)
            elif now_ns >= self._due_ns and not self._copies.is_under_way:
                self._ask(now_ns)
        except OrdoError as error:
            self._give_up(error.message, now_ns)

    def _ask(self, now_ns: int) -> None:
        wanted = self._copies.wanted_position
        self._due_ns = now_ns + (ASK_INTERVAL_NS if wanted == NULL_VALUE else AWAITED_INTERVAL_NS)
        self._asked_count += 1
        self._query = MemberQuery(self._node.client, self._address, self._credentials, now_ns, wanted)

    @property
    def _address(self) -> str:
        """The standby that was asked last."""
        return self._addresses[self._asked_count % len(self._addresses)]

    def _await_answer(self, query: MemberQuery, now_ns: int) -> None:
        query.work(now_ns)
        if not query.is_done:
            return
        self._query = None
        query.close()
        if query.answer is None:
            assert query.problem is not None
            raise query.problem
        self._tell("", has_answered=False)
        self._orders.note_answer(now_ns)
        self._begin(query.answer)

    def _begin(self, answer: Description) -> None:
        """Begin a copy, if what the standby has is awaited."""
        offered = answer.snapshot
        if offered is None or answer.archive is None or not self._copies.awaits(offered.log_position):
            return
        self._position = offered.log_position
        self._to_copy = list(offered.service_recording_ids)
        self._settings = ArchiveClientSettings.at(self._without_name(answer.archive), credentials=self._credentials)

    def _without_name(self, archive: str) -> str:
        """Return the address of a standby's archive; a name in it is that of the host which was asked.

        Looking one up takes as long as it takes, and the member would stand still meanwhile.
        """
        host, _, port = archive.rpartition(":")
        try:
            ip_address(host.strip("[]"))
        except ValueError:
            host = self._address.rpartition(":")[0]
        return f"{host}:{port}"

    def _copy(self, now_ns: int) -> None:
        """Copy one part after the other. Raises OrdoError when the standby does not give one, or the disk fails."""
        if self._parts and not self._parts[-1].is_done:
            self._parts[-1].work(now_ns)
        elif self._to_copy:
            assert self._settings is not None
            known = KnownCluster(self._node.module.base.seams.store.folder.origin, "this member's log")
            known.position = self._position
            self._parts.append(
                PartCopy(self._node.archive, self._node.client, self._settings, self._to_copy.pop(0), now_ns, known)
            )
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        recording_ids = tuple(one.recording_id for one in self._parts if one.recording_id is not None)
        assert len(recording_ids) == len(self._parts), "parts that are done have recordings"
        position, self._position, self._parts = self._position, NULL_VALUE, []
        self._problems.pop((self._address, True), None)
        if self._copies.awaits(position):
            self._copies.take(position, recording_ids)
        else:
            for recording_id in recording_ids:  # a newer snapshot has come meanwhile
                self._shelf.drop_part(recording_id)

    def _give_up(self, problem: str, now_ns: int) -> None:
        """End what is under way; it is asked for again, not at once, since the next copy may be as long."""
        has_answered = self._position != NULL_VALUE
        self._due_ns = now_ns + ASK_INTERVAL_NS
        self.close()
        for part in self._parts:
            if part.recording_id is not None:
                self._shelf.drop_part(part.recording_id)
        self._parts, self._position = [], NULL_VALUE
        self._tell(problem, has_answered=has_answered)

    def _tell(self, problem: str, *, has_answered: bool) -> None:
        """Say once what fails at the standby that was asked, and when it answers again."""
        if self._problems.get((self._address, has_answered)) != problem:
            self._problems[self._address, has_answered] = problem
            text = f"the standby at {self._address} answers" if not problem else f"no copy from a standby: {problem}"
            self._node.module.member.announce("cluster.snapshot-copy", text)

    def close(self) -> None:
        """End what is under way; the next start removes what has come. Idempotent."""
        if self._query is not None:
            self._query.close()
            self._query = None
        for part in self._parts:
            part.close()


class CopyingNode(Node):
    """The node of a member that copies its snapshots from standbys."""

    copies: StandbyCopies | None = None

    def start(self) -> None:
        super().start()
        settings = self.config.snapshot
        file = settings.standby_token_file
        credentials = b"" if file is None else credentials_from_file(file)()
        self.copies = StandbyCopies(self, settings.standbys, credentials)
        self._closers.append(self.copies.close)

    def _on_tick(self, now_ns: int) -> None:
        super()._on_tick(now_ns)
        if self.copies is not None and not self.module.member.has_ended:
            self.copies.work(now_ns)


def choose_node(config: NodeSettings) -> type[Node]:
    """Return what makes the node of a member."""
    return CopyingNode if config.snapshot.by == "standby" else Node
