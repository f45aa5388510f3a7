"""Every member that this one knows of, with its endpoints and a publication to it.

From the configuration file, from the log, or from the member itself (Introduction). Nobody is forgotten while the node
runs: who was removed is still answered, and learns of it. Who counts is the business of consensus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ordo.cluster.wire.members import Member
from ordo.cluster.wire.streams import CONSENSUS_STREAM_ID
from ordo.transport.client.pending_registrations import PendingRegistrations

if TYPE_CHECKING:
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import ExclusivePublication

RETRY_INTERVAL_NS = 1_000_000_000


class Contacts:
    """Members by id. Publications are made in `connect`, not when a member becomes known: the driver may need a moment.

    Nobody waits for it: the name of one member, unknown or slow to be found, must not hold up the others.
    """

    def __init__(
        self,
        client: TransportClient,
        sequencer: Sequencer,
        members: Iterable[Member],
        own_id: int,
        record_error: Callable[[str], None],
        bind_host: str | None = None,
    ) -> None:
        """Take the member's parts; `bind_host` is explained at `Member.bound_at`."""
        self._client = client
        self._sequencer = sequencer
        self._record_error = record_error
        self._members = {member.id: member for member in members}
        self._publications: dict[int, tuple[Member, ExclusivePublication]] = {}
        self._asked: PendingRegistrations[Member] = PendingRegistrations(client)
        self._next_attempt_ns = 0
        self._own_id = own_id
        self.own = self._members[own_id]
        self.bound = self.own.bound_at(bind_host)
        """Where this member listens; the others are told of `own`."""

    def __contains__(self, member_id: int) -> bool:
        return member_id in self._members

    def find(self, member_ids: Iterable[int]) -> list[Member]:
        """Return the members of these ids, in their order."""
        return [self._members[member_id] for member_id in member_ids]

    def learn(self, member: Member) -> None:
        """Add a member, or change its endpoints; the entry of this node itself never changes."""
        if member.id != self._own_id:
            self._members[member.id] = member
            self._next_attempt_ns = 0

    def connect(self, now_ns: int) -> None:
        """Ask for missing publications, and take those that are ready.

        One that fails is asked for again after a while.
        """
        if now_ns >= self._next_attempt_ns:
            self._next_attempt_ns = now_ns + RETRY_INTERVAL_NS
            for member in self._members.values():
                known = self._publications.get(member.id)
                is_missing = known is None or known[0].consensus != member.consensus
                if member.id != self._own_id and member not in self._asked and is_missing:
                    self._asked.add(self._ask(member), member)
            self._client.invoke_driver()
        for member, publication, error in self._asked.take():
            if error is None:
                self._take(member, publication)
            else:
                self._record_error(f"member {member.id} cannot be reached at {member.consensus}: {error.message}")

    def _ask(self, member: Member) -> int:
        return self._client.async_add_exclusive_publication(
            f"aeron:udp?endpoint={member.consensus}|term-length=64k|linger=0|alias=consensus", CONSENSUS_STREAM_ID
        )

    def _take(self, member: Member, publication: ExclusivePublication) -> None:
        if member.consensus != self._members[member.id].consensus:
            publication.close()
            return
        if (known := self._publications.get(member.id)) is not None:
            known[1].close()
        self._publications[member.id] = member, publication
        self._sequencer.set_member_publication(member.id, publication)

    def is_awaited(self, member_id: int) -> bool:
        """Return whether the driver has not answered yet whether there will be a publication to a member."""
        return self._members[member_id] in self._asked

    def is_reachable(self, member_id: int) -> bool:
        """Return whether there is a publication to a member, connected or not."""
        return member_id in self._publications

    def send(self, member_id: int, message: bytes) -> None:
        """Send to one member; like any datagram, the message may be lost."""
        known = self._publications.get(member_id)
        if known is not None:
            known[1].offer(message)

    def broadcast(self, message: bytes) -> None:
        """Send to every member; any copy may be lost."""
        for _, publication in self._publications.values():
            publication.offer(message)
