"""A durable consumer: goes on where it was, on any machine, whoever was killed (docs/CONSUMERS.md).

with Consumer(["10.0.0.1:20000", "10.0.0.2:20000", "10.0.0.3:20000"], "risk") as consumer:
    for entry in consumer:
        handle(entry.payload)
        consumer.commit()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from cluster.client.settings import ClientSettings
from runtime.closing import Closing
from runtime.errors import ClusterError, ClusterTimeoutError
from runtime.random import RandomSource
from sequencer.consumer_member import DEFAULT_KINDS, ConsumerSettings, ExclusiveMember
from sequencer.entries import EntryKind, LogEntry
from transport.client_transport import ClientTransport

PARK_NS = 1_000_000
CLOSE_TIMEOUT_NS = 1_000_000_000
ENTRIES_PER_POLL = 256
MEMBER_KEY_MAX = 2**62


def draw_member_key() -> int:
    """Returns a random number that no other process has."""
    return RandomSource().secret("consumers").randint(1, MEMBER_KEY_MAX)


class Consumer(Closing):
    """A member of an exclusive consumer: one member at a time reads, the others stand by. Belongs to one thread.

    `endpoints`: the first `host:port` of each member of the cluster. `name` is what makes it durable: its position is
    part of the cluster's replicated state. `start` ("first", "live" or a position) says where a new consumer begins;
    one that is there goes on where it stands. `kinds` and `session_ids` choose entries, and must be the same for all
    members. When the active member closes or dies, the next one that joined takes over and begins at the position that
    was committed last; a member that was killed is noticed after the cluster's `session_timeout`.

    Raises ConfigurationError, TransportError; the cluster is looked for later, in `poll`.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        name: str,
        *,
        start: int | Literal["first", "live"] = "first",
        kinds: Collection[EntryKind] = DEFAULT_KINDS,
        session_ids: Collection[int] = (),
        settings: ClientSettings | None = None,
        aeron_dir: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """`settings`: of the session with the cluster, such as its credentials and its `egress_channel`. `timeout_s`:
        how long `commit` waits."""
        chosen = ConsumerSettings(
            name=name,
            endpoints=tuple(endpoints),
            start=start,
            kinds=tuple(kinds),
            session_ids=tuple(session_ids),
            client=settings or ClientSettings(),
        )
        self._timeout_ns = round(timeout_s * 1e9)
        self._transport = (
            ClientTransport.connect(aeron_dir, "consumer") if aeron_dir else ClientTransport.embedded("consumer")
        )
        self._member = ExclusiveMember(chosen, self._transport, draw_member_key())
        self._is_closed = False

    # State

    @property
    def is_active(self) -> bool:
        """Whether this member is the one that reads, as far as it was told."""
        return self._member.is_active

    @property
    def is_paused(self) -> bool:
        """Whether an operator has paused the consumer (`ordo consumers pause`)."""
        return self._member.is_paused

    @property
    def epoch(self) -> int:
        """Names the time in which this member is the active one; -1 while it is not. No two members have the same, and
        a later one is greater: a sink that stores it can refuse what comes from a member that was replaced."""
        return self._member.epoch

    @property
    def position(self) -> int:
        """The position that is committed, as far as this member was told."""
        return self._member.committed

    @property
    def lag(self) -> int:
        """How far the consumer is behind the log's end as it was when the cluster answered last, in bytes."""
        answer = self._member.answer
        return 0 if answer is None else max(0, answer.log_position - answer.position)

    @property
    def trouble(self) -> str:
        """Why the last session was lost, or the reader left a node."""
        return self._member.trouble or self._member.source_problem

    # Reading

    def poll(self, handler: Callable[[LogEntry], object], limit: int = ENTRIES_PER_POLL) -> int:
        """Runs one duty cycle and calls `handler(entry)` for at most `limit` entries; returns how many. Does not wait.

        Raises OrdoError when the consumer cannot go on: it was removed, or refused, or its log was deleted everywhere.
        """
        self._member.work()
        return self._member.take(handler, limit)

    def __iter__(self) -> Iterator[LogEntry]:
        return self.entries()

    def entries(self, *, timeout_s: float | None = None) -> Iterator[LogEntry]:
        """Entries as they come, for ever, or until none has come for `timeout_s`; also those after a take-over."""
        found: list[LogEntry] = []
        silent_since_ns = self._transport.clock.now()
        while True:
            if self.poll(found.append, 1):
                silent_since_ns = self._transport.clock.now()
                yield found.pop()
            elif timeout_s is not None and self._transport.clock.now() - silent_since_ns > timeout_s * 1e9:
                return
            else:
                self._transport.park(PARK_NS)

    def commit(self, position: int | None = None, *, wait: bool = True) -> None:
        """Says that everything up to an entry's `position` is done, by default all that was handed out.

        With `wait` it returns when the position is in the log on a quorum, so that no member begins before it any more.
        Raises ClusterError when another member has become the active one, or the consumer was moved: what was handed
        out since the last commit is handed out again. Raises ClusterTimeoutError.
        """
        member = self._member
        epoch = member.epoch
        wanted = member.handed_out if position is None else position
        member.commit(wanted)
        deadline_ns = self._transport.clock.now() + self._timeout_ns
        while wait and member.committed < wanted:
            if member.epoch != epoch:
                raise ClusterError(
                    f"consumer {member.settings.name}: position={wanted} is not committed: this member is not the"
                    " active one any more; what is not committed is handed out again"
                )
            if self._transport.clock.now() > deadline_ns:
                raise ClusterTimeoutError(f"position={wanted} not committed in time: {self.trouble or 'no answer'}")
            if member.work() == 0:
                self._transport.park(PARK_NS)

    # The end

    def close(self) -> None:
        """Leaves the consumer, so that the next member takes over at once. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        member, clock = self._member, self._transport.clock
        member.begin_close()
        deadline_ns = clock.now() + CLOSE_TIMEOUT_NS
        try:
            while not member.is_closed and clock.now() < deadline_ns:
                if member.work() == 0:
                    self._transport.park(PARK_NS)
        finally:
            member.close()
            self._transport.close()
