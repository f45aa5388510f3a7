"""A durable consumer: resumes at its position, on any machine, whichever process was killed (docs/CONSUMERS.md).

with Consumer(["10.0.0.1:20000", "10.0.0.2:20000", "10.0.0.3:20000"], "risk") as consumer:
    for entry in consumer:
        handle(entry.payload)
        consumer.commit()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Self, TypedDict

from ordo.cluster.client.opening import open_transport
from ordo.cluster.client.settings import ClientSettings
from ordo.consumers.client_face import MemberFace
from ordo.consumers.consumer_member import DEFAULT_KINDS, ConsumerSettings, ExclusiveMember, Start
from ordo.consumers.names import draw_member_key
from ordo.follow.entries import EntryKind, LogEntry
from ordo.runtime.errors import ClusterError


class ConsumerChoices(TypedDict, total=False):
    """The keyword arguments of Consumer."""

    start: Start
    kinds: Collection[EntryKind]
    session_ids: Collection[int]
    repeats: bool
    settings: ClientSettings | None
    aeron_dir: str | None
    timeout_s: float


class Consumer(MemberFace[LogEntry]):
    """A member of an exclusive consumer: one member at a time reads, the others stand by. Belongs to one thread.

    `endpoints`: the first `host:port` of each member of the cluster. `name` is what makes it durable: its position is
    part of the cluster's replicated state. `start` ("first", "live", a position, or a datetime with its time zone) says
    where a new consumer begins; one that is there goes on where it stands. `kinds` and `session_ids` choose entries.
    A request that was sent again is handed out once; `repeats` hands out the copies that are not executed as well. All
    three must be the same for all members. When the active member closes or dies, the next one that joined takes over
    and begins at the position that was committed last; a member that was killed is noticed after the cluster's
    `session_timeout`.

    Raises ConfigurationError, TransportError; the cluster is looked for later, in `poll`.
    """

    _member: ExclusiveMember

    def __init__(
        self,
        endpoints: Sequence[str],
        name: str,
        *,
        start: Start = ConsumerSettings.start,
        kinds: Collection[EntryKind] = DEFAULT_KINDS,
        session_ids: Collection[int] = (),
        repeats: bool = False,
        settings: ClientSettings | None = None,
        aeron_dir: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """Open a consumer.

        `settings` are those of the session with the cluster, such as its credentials and `egress_channel`.

        `timeout_s`: how long `commit` waits.
        """
        chosen = ConsumerSettings(
            name=name,
            endpoints=tuple(endpoints),
            start=start,
            kinds=tuple(kinds),
            session_ids=tuple(session_ids),
            repeats=repeats,
            client=settings or ClientSettings(),
        )
        self._open(chosen, aeron_dir, timeout_s)

    def _open(self, chosen: ConsumerSettings, aeron_dir: str | None, timeout_s: float) -> None:
        transport = open_transport(aeron_dir, chosen.client, "consumer")
        super().__init__(ExclusiveMember(chosen, transport, draw_member_key()), transport, timeout_s)

    @classmethod
    def of(cls, settings: ConsumerSettings, *, timeout_s: float = 30.0) -> Self:
        """Return a consumer with settings that are made already. Raises TransportError."""
        consumer = cls.__new__(cls)
        consumer._open(settings, None, timeout_s)
        return consumer

    @property
    def is_active(self) -> bool:
        """Whether this member is the active one, as far as it knows."""
        return self._member.is_active

    @property
    def epoch(self) -> int:
        """The time in which this member is the active one; -1 while it is not.

        No two members have the same, and a later one is greater: a sink that stores it can refuse what comes from a
        member that was replaced.
        """
        return self._member.epoch

    def entries(self, *, timeout_s: float | None = None) -> Iterator[LogEntry]:
        """Entries as they come, for ever, or until none has come for `timeout_s`; also those after a take-over."""
        return self._items(timeout_s)

    def commit(self, position: int | None = None, *, wait: bool = True) -> None:
        """Say that everything up to an entry's `position` is done, by default all that was handed out.

        With `wait` it returns when the position is in the log on a quorum, so that no member begins before it any more.
        Raises ClusterError when another member has become the active one, or the consumer was moved: what was handed
        out since the last commit is handed out again. Raises ClusterTimeoutError.
        """
        is_committed = self.begin_commit(position)
        if wait:
            self._drive_until(is_committed, f"consumer {self._member.settings.name}: a position was not committed")

    def begin_commit(self, position: int | None = None) -> Callable[[], bool]:
        """`commit` without waiting.

        Returns what says whether the position is committed, and raises ClusterError once it cannot be any more.
        """
        self._demand_open()
        member = self._member
        epoch = member.epoch
        wanted = member.handed_out if position is None else position
        member.commit(wanted)

        def is_committed() -> bool:
            if member.committed >= wanted:
                return True
            if member.epoch != epoch:
                raise ClusterError(
                    f"consumer {member.settings.name}: position={wanted} is not committed: this member is not the"
                    " active one any more; what is not committed is handed out again"
                )
            return False

        return is_committed
