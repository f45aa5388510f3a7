"""Sends consensus messages to other members, and fills in the fields that the core does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire import consensus_codec
from ordo.consensus.state import messages
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.wire.members import Member
    from ordo.runtime.native.clock import Clock
    from ordo.sequencer.sequencer import Sequencer


class TimedHost(Protocol):
    """The member that sends the messages."""

    @property
    def cluster_time(self) -> int: ...


class OutgoingMessages:
    """Sends for one member."""

    def __init__(
        self,
        host: TimedHost,
        sequencer: Sequencer,
        log: LogKeeper,
        membership: Membership,
        contacts: Contacts,
        clock: Clock,
    ) -> None:
        self._host = host
        self._sequencer = sequencer
        self._log = log
        self._membership = membership
        self._contacts = contacts
        self._clock = clock

    def broadcast(self, message: messages.Message) -> None:
        """Send to all members, with an Introduction for those whose older configuration may lack the sender."""
        if isinstance(message, messages.CanvassPosition) and self._membership.is_of_the_log:
            for introduction in self._introductions():
                self._contacts.broadcast(introduction)
        self._contacts.broadcast(consensus_codec.encode(message))

    def introduce(self, member_id: int, introduced_id: int) -> None:
        """Introduce a member that this one knows to another member."""
        self._contacts.send(member_id, _introduction(*self._contacts.find([introduced_id])))

    def _introductions(self) -> list[bytes]:
        """Return introductions of the log's members, which receivers accept from a member they know."""
        return [_introduction(member) for member in (*self._membership.voters, *self._membership.learners)]

    def send(self, member_id: int, message: messages.Message) -> None:
        """Send to one member."""
        if isinstance(message, messages.NewLeadershipTerm):
            message = message._replace(timestamp=self._host.cluster_time, leader_recording_id=self._log.recording_id)
            if self._membership.is_of_the_log:
                for introduction in self._introductions():
                    self._contacts.send(member_id, introduction)
        elif isinstance(message, messages.TrustAnswer) and message.leadership_term_id != NULL_VALUE:
            message = message._replace(log_position=self._sequencer.log_end_position)
        elif isinstance(message, messages.AppendPosition):
            message = message._replace(flags=self._sequencer.position_flags)
        elif isinstance(message, messages.ReadIndexResponse):
            self._sequencer.tell_commit(self._clock.now())  # the member reads when it knows of it
        self._contacts.send(member_id, consensus_codec.encode(message))


def _introduction(member: Member) -> bytes:
    return consensus_codec.encode(messages.Introduction(member.id, member.encode()))
