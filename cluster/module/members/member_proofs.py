"""Decides which streams may speak for a member: those that return a number sent to the member's own endpoint.

Anybody who reaches the consensus endpoint can open a stream there and name any member in its messages. So messages of a
stream are held until its sender has proven to be the member that they name: a random number goes to the endpoint which
the configuration has for that member, and must come back in the stream itself. Who does not receive there cannot know
it. A stream stays its member's for as long as it lives.

    stream of X, unproven: AppendPosition of X ------> held;  X's endpoint <-- MemberChallenge(nonce)
    stream of X: MemberProof(nonce) -----------------> proven: what was held is taken, and all that follows
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from ordo.cluster.wire import ordo_codecs
from ordo.consensus.state import messages

if TYPE_CHECKING:
    from random import Random

    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.wire import records
    from ordo.sequencer.sources import ConsensusSource

NULL_MEMBER = -1
NEVER_NS = 1 << 63
HELD_MAX = 16
"""Messages held of one stream; older ones go first, and their senders repeat them."""
CHALLENGE_INTERVAL_NS = 10_000_000
PATIENCE_NS = 5_000_000_000
"""A member that speaks for so long and answers no challenge is told of."""
NONCE_BITS = 63
TERM_LEAP_MAX = 2**32
"""Elections that a member can have missed; more than there can be in the life of a cluster."""

SENDER_FIELDS: dict[type[Any], str] = {
    messages.CanvassPosition: "follower_member_id",
    messages.RequestVote: "candidate_member_id",
    messages.Vote: "follower_member_id",
    messages.NewLeadershipTerm: "leader_member_id",
    messages.AppendPosition: "follower_member_id",
    messages.CommitPosition: "leader_member_id",
    messages.CatchupPosition: "follower_member_id",
    messages.TerminationAck: "member_id",
    messages.TimeoutNow: "leader_member_id",
    messages.TrustRequest: "member_id",
    messages.TrustAnswer: "member_id",
    messages.StandsBack: "member_id",
    messages.ReadHeartbeat: "leader_member_id",
    messages.ReadHeartbeatAck: "follower_member_id",
    messages.ReadIndexRequest: "follower_member_id",
    messages.ReadIndexResponse: "leader_member_id",
}
"""Which field of a message names the member that sent it. StopCatchup and TerminationPosition are the leader's."""


class Endpoints(Protocol):
    """The members that this one knows, and how to reach them."""

    def __contains__(self, member_id: int) -> bool: ...
    def send(self, member_id: int, message: bytes) -> None:
        """Send a message to the endpoint that the configuration has for the member."""


class DataJudge(Protocol):
    """Judges which cluster's data a member has (`ordo.cluster.module.members.standings`)."""

    def encode_proof(self, nonce: int) -> bytes: ...
    def admits(self, values: records.MemberProof) -> bool:
        """Return whether a proven member may take part with the data that its MemberProof shows."""

    def is_foreign(self, member_id: int) -> bool: ...


class MemberProofs:
    """Knows which stream belongs to which member. At most HELD_MAX messages of a stream wait for its proof."""

    def __init__(
        self,
        own_id: int,
        endpoints: Endpoints,
        random: Random,
        on_refused: Callable[[str], object],
        standings: DataJudge,
    ) -> None:
        """Take the member's parts.

        `random` gives numbers that nobody can predict; `on_refused` takes one line for each refused message.
        """
        self._own_id = own_id
        self._endpoints = endpoints
        self._random = random
        self._on_refused = on_refused
        self._standings = standings
        self._nonces: dict[int, int] = {}
        self._next_challenge_ns: dict[int, int] = {}
        self._asked_ns: dict[int, int] = {}
        """Since when a member's answer is waited for; NEVER once it was told of."""
        self._held: WeakKeyDictionary[ConsensusSource, list[bytes]] = WeakKeyDictionary()

    def sender_of(self, message: messages.Message, leader_id: int) -> int:
        """Return the id of the member that a message claims to come from."""
        name = SENDER_FIELDS.get(type(message))
        return leader_id if name is None else int(getattr(message, name))

    def admits(self, source: ConsensusSource, sender_id: int, message: bytes, now_ns: int) -> bool:
        """Return True when the stream is that member's.

        Else hold the message until the stream proves it, or refuse it.
        """
        if source.member_id == sender_id and sender_id != NULL_MEMBER:
            return True
        if source.member_id != NULL_MEMBER:
            self._on_refused(f"consensus: member {source.member_id} speaks for member {sender_id}")
        elif sender_id not in self._endpoints or sender_id == self._own_id:
            self._on_refused("consensus: a message of nobody in this cluster")
        else:
            held = self._held.setdefault(source, [])
            held.append(message)
            del held[:-HELD_MAX]
            self._challenge(sender_id, now_ns)
        return False

    def _challenge(self, member_id: int, now_ns: int) -> None:
        if now_ns < self._next_challenge_ns.get(member_id, 0):
            return
        self._next_challenge_ns[member_id] = now_ns + CHALLENGE_INTERVAL_NS
        self._watch(member_id, now_ns)
        nonce = self._nonces.setdefault(member_id, self._random.getrandbits(NONCE_BITS))
        self._endpoints.send(member_id, ordo_codecs.MEMBER_CHALLENGE.encode(nonce=nonce, member_id=self._own_id))

    def _watch(self, member_id: int, now_ns: int) -> None:
        if now_ns - self._asked_ns.setdefault(member_id, now_ns) > PATIENCE_NS:
            self._asked_ns[member_id] = NEVER_NS
            self._on_refused(
                f"consensus: member {member_id} does not prove who it is, and counts for nothing: an Aeron node cannot"
                " be a member of an Ordo cluster, nor an Ordo node of an Aeron one; else check its consensus endpoint"
            )

    def on_challenge(self, values: records.MemberChallenge) -> None:
        """Handle a challenge: a stream claims to be this member. If it is, the nonce is sent back in that stream."""
        if values.member_id in self._endpoints and values.member_id != self._own_id:
            self._endpoints.send(values.member_id, self._standings.encode_proof(values.nonce))

    def on_proof(self, source: ConsensusSource, values: records.MemberProof) -> Iterator[bytes]:
        """Handle a proof; return the messages that were held of the stream, in order."""
        if self._nonces.get(values.member_id) != values.nonce:
            self._on_refused(f"consensus: a proof to be member {values.member_id} that is none")
            return
        self._asked_ns.pop(values.member_id, None)
        if source.member_id != NULL_MEMBER:
            return
        held = self._held.pop(source, [])
        if self._standings.admits(values):
            source.prove(values.member_id)
            yield from held

    def judge(self, source: ConsensusSource, member_id: int) -> None:
        """Judge the data that a member's MemberProof or MemberStanding shows.

        A stream that has another cluster's data loses what it had proven.
        """
        if self._standings.is_foreign(member_id):
            source.disprove()


def find_disbelief(message: messages.Message, contacts: Contacts, latest_term_id: int) -> str | None:
    """Return why a message is not believed, or None.

    It may name a member that this one has never heard of (then the reason is empty), or a term that no election could
    have reached. A member that is not known yet may introduce itself while there is no leader, and must not use up the
    terms.
    """
    names = ("follower_member_id", "candidate_member_id", "leader_member_id", "member_id")
    if any(getattr(message, name) not in contacts for name in names if hasattr(message, name)):
        return ""
    terms = ("leadership_term_id", "candidate_term_id", "log_leadership_term_id")
    highest = max((getattr(message, name) for name in terms if hasattr(message, name)), default=latest_term_id)
    if highest > latest_term_id + TERM_LEAP_MAX:
        return f"consensus: term {highest} is too far beyond {latest_term_id}"
    return None
