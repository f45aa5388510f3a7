"""Reads without a log entry (Raft §8; dissertation §6.4): up to which position a service must have executed.

    leader      notes its commit position, asks the members whether it still leads, and gives the position out once a
                quorum has said so after it was noted
    follower    asks its leader for such a position

A read asked for meanwhile goes with the next round: the position of the one under way may be older than what the reader
has seen already. Rounds are repeated until they are answered; they end without an answer when the leader or the term is
another one, and the reader asks again.
"""

from typing import Generic, NamedTuple, TypeVar

from ordo.consensus.core import ConsensusCore
from ordo.consensus.state.messages import (
    NULL_MEMBER,
    NULL_TERM,
    ReadHeartbeat,
    ReadHeartbeatAck,
    ReadIndexRequest,
    ReadIndexResponse,
    ReadMessage,
)
from ordo.runtime.native.sentinels import NULL_POSITION

Read = TypeVar("Read")


class RemoteRead(NamedTuple):
    """The reads of a follower that go with one request."""

    member_id: int
    request_id: int


class ReadIndex(Generic[Read]):
    """One member's reads. After each call: `take_messages`, `take_confirmed`, `take_failed`.

    At most one round is under way: at a leader a question to all members, at a follower a request to its leader.
    """

    def __init__(self, core: ConsensusCore, interval_ns: int, first_round_id: int) -> None:
        """Serve reads for a core; a round is repeated every `interval_ns`.

        `first_round_id` differs between the runs of a member, so that no answer to an earlier run is taken for
        this one's.
        """
        self._core = core
        self._interval_ns = interval_ns
        self._next_round_id = first_round_id
        self._office = NULL_TERM, NULL_MEMBER, False
        self._waiting: list[Read | RemoteRead] = []
        self._under_way: list[Read | RemoteRead] = []
        self._round_id = 0
        self._position = NULL_POSITION
        self._acknowledged: set[int] = set()
        self._sent_ns = 0
        self._messages: list[tuple[int, ReadMessage]] = []
        self._confirmed: list[tuple[Read, int]] = []
        self._failed: list[Read] = []

    # -- inputs ---------------------------------------------------------------------------------------------------

    def add(self, read: Read, now_ns: int) -> bool:
        """Add a read. Returns False if no member is known that could confirm it now."""
        self._look_for_office()
        if not self._leads and self._leader_id == NULL_MEMBER:
            return False
        self._waiting.append(read)
        self.tick(now_ns)
        return True

    def on_message(self, message: ReadMessage, now_ns: int) -> None:
        """Handle a message about reads from another member."""
        self._look_for_office()
        match message:
            case ReadHeartbeat(leadership_term_id, round_id, leader_id):
                if self._core.is_bound_to(leadership_term_id, leader_id):
                    self._messages.append(
                        (leader_id, ReadHeartbeatAck(leadership_term_id, round_id, self._core.member_id))
                    )
            case ReadHeartbeatAck(leadership_term_id, round_id, member_id):
                if self._leads and leadership_term_id == self._core.leadership_term_id and round_id == self._round_id:
                    self._acknowledged.add(member_id)
                    self._confirm_by_quorum()
            case ReadIndexRequest():
                self._on_request(message)
            case ReadIndexResponse(request_id, position, _):
                if not self._leads and self._under_way and request_id == self._round_id:
                    self._end_round(position)
        self.tick(now_ns)

    def tick(self, now_ns: int) -> None:
        """Notice a change of leadership, begin the next round, and repeat the one under way."""
        if not (self._waiting or self._under_way):
            return
        self._look_for_office()
        if not self._under_way and self._waiting:
            self._begin_round(now_ns)
        elif self._under_way and now_ns - self._sent_ns >= self._interval_ns:
            self._repeat(now_ns)

    # -- outputs --------------------------------------------------------------------------------------------------

    @property
    def has_outputs(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._messages or self._confirmed or self._failed)

    def take_messages(self) -> list[tuple[int, ReadMessage]]:
        """Return (member id, or NULL_MEMBER for all others; message), in order."""
        messages, self._messages = self._messages, []
        return messages

    def take_confirmed(self) -> list[tuple[Read, int]]:
        """Return the confirmed reads, each with the log position that a service must have executed to answer it."""
        confirmed, self._confirmed = self._confirmed, []
        return confirmed

    def take_failed(self) -> list[Read]:
        """Return the reads that will not be confirmed, and forget them."""
        failed, self._failed = self._failed, []
        return failed

    # -- inside ---------------------------------------------------------------------------------------------------

    def _look_for_office(self) -> None:
        """Fail the reads that were asked of another office.

        The office is the term, its leader, and whether that is this member and it serves (its term's first
        record is committed).
        """
        core = self._core
        office = core.leadership_term_id, core.leader_member_id, core.is_serving
        if office != self._office:
            self._office = office
            self._drop()

    @property
    def _leader_id(self) -> int:
        """The leader this member follows, or NULL_MEMBER."""
        leader_id = self._core.leader_member_id
        return NULL_MEMBER if leader_id == self._core.member_id else leader_id

    @property
    def _leads(self) -> bool:
        return self._office[2]

    def _drop(self) -> None:
        for read in [*self._under_way, *self._waiting]:
            if not isinstance(read, RemoteRead):
                self._failed.append(read)
        self._under_way = []
        self._waiting = []

    def _on_request(self, request: ReadIndexRequest) -> None:
        remote = RemoteRead(request.follower_member_id, request.request_id)
        if not self._leads or request.leadership_term_id != self._core.leadership_term_id:
            self._answer(remote, NULL_POSITION)
        elif remote not in self._under_way and remote not in self._waiting:
            self._waiting.append(remote)

    def _begin_round(self, now_ns: int) -> None:
        """Begin a round: note the position before any member is asked, and after every read of the round."""
        assert not self._under_way
        self._under_way, self._waiting = self._waiting, []
        self._round_id = self._next_round_id
        self._next_round_id += 1
        if self._leads:
            self._position = self._core.commit_position
            self._acknowledged = {self._core.member_id}
            self._confirm_by_quorum()
        if self._under_way:
            self._send(now_ns)

    def _repeat(self, now_ns: int) -> None:
        """Repeat the round under way, unless the answers so far are a quorum by now because members were removed."""
        if self._leads:
            self._confirm_by_quorum()
        if self._under_way:
            self._send(now_ns)

    def _send(self, now_ns: int) -> None:
        self._sent_ns = now_ns
        own_id, leadership_term_id = self._core.member_id, self._core.leadership_term_id
        if self._leads:
            self._messages.append((NULL_MEMBER, ReadHeartbeat(leadership_term_id, self._round_id, own_id)))
        else:
            self._messages.append((self._leader_id, ReadIndexRequest(leadership_term_id, self._round_id, own_id)))

    def _confirm_by_quorum(self) -> None:
        if self._under_way and self._core.is_quorum(self._acknowledged):
            self._end_round(self._position)

    def _end_round(self, position: int) -> None:
        """End a round; `position` is NULL_POSITION when the member that was asked does not lead."""
        ended, self._under_way = self._under_way, []
        for read in ended:
            if isinstance(read, RemoteRead):
                self._answer(read, position)
            elif position == NULL_POSITION:
                self._failed.append(read)
            else:
                self._confirmed.append((read, position))

    def _answer(self, read: RemoteRead, position: int) -> None:
        self._messages.append((read.member_id, ReadIndexResponse(read.request_id, position, self._core.member_id)))
