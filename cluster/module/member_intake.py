"""Takes the messages of the consensus stream: determines their sender, and passes each to its handler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ordo.cluster.module.members.member_proofs import MemberProofs, find_disbelief
from ordo.cluster.wire import consensus_codec, ordo_codecs
from ordo.cluster.wire.members import parse_member
from ordo.consensus.state import messages
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import ConfigurationError, DecodeError
from ordo.sequencer.hosts import ConsensusHost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ordo.cluster.module.log.disk_space_watch import RoomWatch
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.sessions.queries import Queries
    from ordo.cluster.module.state.clock_watch import ClockWatch
    from ordo.cluster.module.state.peers import Contacts
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.sbe import Message
    from ordo.sequencer.sources import ConsensusSource

NULL_MEMBER = -1


class IntakeHost(Protocol):
    """The member that receives the messages."""

    member_id: int

    @property
    def leadership_term_id(self) -> int: ...
    def on_invalid_request(self, detail: str) -> None:
        """Count a refused request, and log one line."""


@dataclass(frozen=True)
class MessageReceivers:
    """The parts that take messages of members beside consensus: on the log, reads, disks, the leader's time."""

    log: LogKeeper
    queries: Queries
    room: RoomWatch
    clock_watch: ClockWatch


@dataclass(frozen=True)
class IntakeCalls:
    """What a message has the member do."""

    carry_out: Callable[[int], None]
    """Carries out the commands that consensus has issued; takes the time in ns."""
    send: Callable[[int, messages.Message], None]
    """Sends a message to a member, by its id."""
    on_stranger: Callable[[str, bytes], None]
    """Takes the source and the bytes of a message from outside the members, a backup's. Raises DecodeError."""


class MemberIntake(ConsensusHost):
    """Takes one member's consensus stream."""

    def __init__(
        self,
        host: IntakeHost,
        core: ConsensusCore,
        contacts: Contacts,
        proofs: MemberProofs,
        receivers: MessageReceivers,
        handlers: Mapping[Message, Callable[[Any, int], None]],
        calls: IntakeCalls,
    ) -> None:
        """Take the member's parts; `handlers` take Ordo's own messages of members, and raise DecodeError."""
        self._host = host
        self._core = core
        self._contacts = contacts
        self._proofs = proofs
        self._receivers = receivers
        self.handlers = dict(handlers)
        self._calls = calls

    def on_consensus(self, source: ConsensusSource, message: bytes, now_ns: int) -> None:
        """Take a message of the consensus stream. It counts only once its stream is proven to be a member's."""
        try:
            found = ordo_codecs.decode(message)
            decoded = consensus_codec.decode(message)
        except DecodeError as error:
            self._host.on_invalid_request(f"consensus: {error.message}")
            return
        if found is None and decoded is None:
            self._on_stranger(source, message)
        elif found is not None and found[0] is ordo_codecs.MEMBER_CHALLENGE:
            self._proofs.on_challenge(found[1])
        elif found is not None and found[0] is ordo_codecs.MEMBER_PROOF:
            for held in self._proofs.on_proof(source, found[1]):
                self.on_consensus(source, held, now_ns)
        elif isinstance(decoded, messages.Introduction):
            self._on_introduction(source, decoded)
        elif decoded is not None:
            sender_id = self._proofs.sender_of(decoded, self._core.leader_member_id)
            if self._proofs.admits(source, sender_id, message, now_ns) and self._is_believable(decoded):
                self._on_member_message(decoded, now_ns)
        elif found is not None:
            sender_id = self._sender_of(*found)
            if sender_id != NULL_MEMBER and self._proofs.admits(source, sender_id, message, now_ns):
                self._on_own_message(*found, now_ns)
                self._proofs.judge(source, sender_id)

    def _on_member_message(self, message: messages.Message, now_ns: int) -> None:
        if isinstance(message, messages.CatchupPosition):
            self._receivers.log.on_catchup_position(message, self._host.leadership_term_id)
        elif isinstance(message, messages.StopCatchup):
            is_for_this = message.follower_member_id == self._host.member_id
            if is_for_this and self._receivers.log.stop_catchup(message.leadership_term_id):
                self._core.on_live(now_ns)
        elif isinstance(message, messages.ReadMessage):
            self._receivers.queries.on_message(message, now_ns)
        else:
            if isinstance(message, messages.AppendPosition):
                self._receivers.room.on_append_position(message, now_ns)
                self._check_catchup(message)
            self._core.on_message(message, now_ns)
            self._receivers.clock_watch.on_message(message)
        self._calls.carry_out(now_ns)
        if self._core.state is ElectionState.INIT and isinstance(message, messages.TimeoutNow | messages.RequestVote):
            self._core.tick(now_ns)  # the log is left: the vote need not wait
            self._calls.carry_out(now_ns)

    def _on_stranger(self, source: ConsensusSource, buffer: bytes) -> None:
        try:
            self._calls.on_stranger(source.image.source_identity, buffer)
        except DecodeError as error:
            self._host.on_invalid_request(f"consensus: {error.message}")

    def _sender_of(self, table: Message, values: Any) -> int:
        """Return the member that a message of Ordo's own claims as its sender; -1 if the message has no handler."""
        if table not in self.handlers:
            return NULL_MEMBER
        return int(values.leader_member_id if table is ordo_codecs.CATCHUP_REFUSAL else values.member_id)

    def _on_own_message(self, table: Message, values: Any, now_ns: int) -> None:
        """Have a message of Ordo's own handled, if this member knows all the members that it names."""
        names = ("member_id", "leader_member_id", "follower_member_id")
        if not all(getattr(values, name) in self._contacts for name in names if hasattr(values, name)):
            return
        try:
            self.handlers[table](values, now_ns)
        except (DecodeError, ConfigurationError) as error:
            self._host.on_invalid_request(f"consensus: {error.message}")

    def _on_introduction(self, source: ConsensusSource, message: messages.Introduction) -> None:
        """Learn of a member from another one. A member's introduction of itself is not accepted."""
        if not self._core.may_introduce(source.member_id):
            if source.member_id != NULL_MEMBER:
                self._host.on_invalid_request(
                    f"consensus: an Introduction by member {source.member_id}, which was removed"
                )
            return  # a stream that is not proven yet: with its next message it will be
        try:
            member = parse_member(message.member_id, message.member)
        except ConfigurationError as error:
            self._host.on_invalid_request(f"consensus: Introduction: {error.message}")
            return
        is_known = member.id in self._core.configuration.member_ids
        if not is_known and member.id != self._host.member_id and self._core.on_introduction(member.id):
            self._contacts.learn(member)

    def _is_believable(self, message: messages.Message) -> bool:
        latest = max(self._core.candidate_term_id, self._core.leadership_term_id, 0)
        disbelief = find_disbelief(message, self._contacts, latest)
        if disbelief:
            self._host.on_invalid_request(disbelief)
        return disbelief is None

    def _check_catchup(self, message: messages.AppendPosition) -> None:
        stop = self._receivers.log.on_append_position(message, self._host.leadership_term_id)
        if stop is not None:
            self._calls.send(message.follower_member_id, stop)
