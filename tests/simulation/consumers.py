"""Members of durable consumers: what ships, on simulated hosts, killed and stopped while they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ordo.cluster.wire.sessions.consumer_codec import AnswerFlag, ConsumerAnswer, ConsumerStatus, RowKind
from ordo.consumers.consumer_member import ConsumerMember, ExclusiveMember
from ordo.consumers.shared_member import Delivery, SharedMember, SharedSettings
from ordo.follow.entries import LogEntry
from ordo.runtime.errors import ClusterError, OrdoError
from tests.simulation.log_followers import FollowerWorld, LogFollowerProcess

if TYPE_CHECKING:
    from tests.simulation.history import ClientHistory

MS = 1_000_000
BATCH_MAX = 20
ACK_TIMEOUT_S = 0.5
TRIES_MAX = 1000


class ConsumerWorld(FollowerWorld, Protocol):
    """What a member needs of the world that it lives in."""

    clients_history: ClientHistory


class ConsumerWatch:
    """What all members of one consumer have heard and done, over all their lives."""

    def __init__(self, world: ConsumerWorld, name: str, *, is_shared: bool) -> None:
        self.world = world
        self.name = name
        self.is_shared = is_shared
        self.sink: list[int] = []
        """Positions of the entries whose effects are there: stored together with the position of the last one."""
        self.done: dict[int, int] = {}
        """Shared: acknowledged positions, with the log position at which that was executed."""
        self.effects: set[int] = set()
        """Shared: what any member has done."""
        self.position = 0
        """The highest that any member was told."""
        self.refused: dict[int, int] = {}
        """Shared: how often members gave a message back."""
        self._refusals_position: int | None = None
        """Shared: of messages that come after it nothing but refusals counts."""
        self._actives: dict[int, int] = {}
        self._positions: list[tuple[int, int]] = []

    def on_answer(self, answer: ConsumerAnswer) -> None:
        """Hears of every answer that a member takes in."""
        if answer.status is not ConsumerStatus.OK or answer.position < 0:
            return
        self.position = max(self.position, answer.position)
        if AnswerFlag.ACTIVE in answer.flags and not self.is_shared:
            active = self._actives.setdefault(answer.epoch, answer.member_key)
            if active != answer.member_key:
                self.world.fail(f"consumer {self.name}: two members are active in epoch {answer.epoch}")
        for log_position, position in self._positions:
            is_earlier = log_position <= answer.log_position
            if (position > answer.position) if is_earlier else (position < answer.position):
                self.world.fail(
                    f"consumer {self.name}: position={answer.position} at {answer.log_position}, and {position} at "
                    f"{log_position}: it went back"
                )
        self._positions = [*self._positions[-200:], (answer.log_position, answer.position)]

    def store(self, entry: LogEntry) -> None:
        """The effect of an entry, in one transaction with its position: again, it is not stored again."""
        if not self.sink or entry.position > self.sink[-1]:
            self.sink.append(entry.position)

    def on_delivered(self, delivery: Delivery, answer: ConsumerAnswer) -> None:
        """A shared message is handed out, as of an answer's log position."""
        self._check_tries(delivery)
        done_at = self.done.get(delivery.entry.position)
        if done_at is not None and answer.log_position > done_at:
            self.world.fail(
                f"consumer {self.name}: the message at {delivery.entry.position} was acknowledged at {done_at}, and is "
                f"handed out again at {answer.log_position}"
            )

    def _check_tries(self, delivery: Delivery) -> None:
        """Only what was given back may count as tried, once some member of the cluster has it so."""
        if self._refusals_position is None:
            counting = [node for node in self.world.nodes if node.is_alive and node.counts_refusals(self.name)]
            self._refusals_position = max((node.executed_position for node in counting), default=None)
        elif delivery.position > self._refusals_position:
            refused = self.refused.get(delivery.position, 0)
            if delivery.counted > 1 + refused:
                self.world.fail(
                    f"consumer {self.name}: the message at {delivery.position} was given back {refused} times, and "
                    f"{delivery.counted - 1} tries count"
                )

    def find_missing(self) -> list[int]:
        """Requests that were executed, and have no effect, or are not known to be done."""
        executed = set(self.world.clients_history.executed.values())
        effects = self.effects if self.is_shared else set(self.sink)
        return sorted(executed - effects) or [one for one in executed if one > self.position]


class WatchedExclusive(ExclusiveMember):
    watch: ConsumerWatch

    def _on_answer(self, answer: ConsumerAnswer) -> None:
        self.watch.on_answer(answer)
        super()._on_answer(answer)


class WatchedShared(SharedMember):
    watch: ConsumerWatch

    def _on_answer(self, answer: ConsumerAnswer) -> None:
        self.watch.on_answer(answer)
        sent = [row.position for row in self._sent.values() if row.kind == RowKind.ACKNOWLEDGED]
        if answer.number and answer.status is ConsumerStatus.OK and sent and answer.accepted == len(sent):
            for position in sent:
                self.watch.done.setdefault(position, answer.log_position)
        super()._on_answer(answer)


class SimulatedConsumer(LogFollowerProcess):
    """One member through all its lives. `member` is None while its process is dead."""

    def __init__(self, world: ConsumerWorld, watch: ConsumerWatch, index: int) -> None:
        super().__init__(world, f"consumer{index}", f"10.0.3.{index + 1}")
        self.world = world
        self.watch = watch
        self.index = index
        self.member: ConsumerMember[Any] | None = None
        self._commit_ns = 0

    def boot(self) -> None:
        """A new process, which knows nothing but the consumer's name."""
        transport = self.start_life()
        kind: Any = WatchedShared if self.watch.is_shared else WatchedExclusive
        self.member = member = kind(self._settings(), transport, self.random.getrandbits(62) + 1)
        member.watch = self.watch

    def _settings(self) -> SharedSettings:
        return SharedSettings(
            name=self.watch.name,
            endpoints=self.endpoints(),
            archives=self.archives(self.index),
            client=self.client_settings(),
            silence_s=0.3,
            ack_timeout_s=ACK_TIMEOUT_S,
            tries_max=TRIES_MAX,
            in_flight_max=16,
            counts_refusals=self.world.options.levels,
        )

    def release(self) -> None:
        """Forgets the process without a word to anybody."""
        super().release()
        self.member = None

    @property
    def is_alive(self) -> bool:
        return self.member is not None

    def step(self, now_ns: int) -> None:
        """One duty cycle, and sleep until something is due."""
        member = self.member
        assert member is not None
        self.begin_step(now_ns)
        try:
            member.work()
            if isinstance(member, SharedMember):
                member.take(self._on_delivery, BATCH_MAX)
            elif isinstance(member, ExclusiveMember):
                self._consume(member, now_ns)
        except OrdoError as error:
            self.world.fail(f"{self.name} ended: {type(error).__name__}: {error}")
        self.end_step(now_ns)

    def _consume(self, member: ExclusiveMember, now_ns: int) -> None:
        member.take(self._on_entry, BATCH_MAX)
        if now_ns < self._commit_ns or member.handed_out <= member.committed:
            return
        self._commit_ns = now_ns + self.random.choice((5, 50, 300)) * MS
        try:
            member.commit(member.handed_out)
        except ClusterError:
            self.world.note(f"{self.name} is not the active one any more")

    def _on_entry(self, entry: LogEntry) -> None:
        self.check_committed(entry)
        self.watch.store(entry)

    def _on_delivery(self, delivery: Delivery) -> None:
        member = self.member
        assert isinstance(member, SharedMember) and member.answer is not None
        self.watch.on_delivered(delivery, member.answer)
        draw = self.random.random()
        if draw < 0.9:
            self.watch.effects.add(delivery.entry.position)
            member.acknowledge(delivery)
        elif draw < 0.95 and member.give_back(delivery, self.random.choice((0, 50))):
            self.watch.refused[delivery.position] = self.watch.refused.get(delivery.position, 0) + 1


def make_consumers(world: ConsumerWorld) -> list[SimulatedConsumer]:
    """The members of one exclusive consumer and of one shared one, as far as the options ask for them."""
    options = world.options
    exclusive = ConsumerWatch(world, "exclusive", is_shared=False)
    shared = ConsumerWatch(world, "shared", is_shared=True)
    watches = [exclusive] * options.consumers + [shared] * options.shared_consumers
    return [SimulatedConsumer(world, watch, index) for index, watch in enumerate(watches)]


def find_unfinished(consumers: list[SimulatedConsumer]) -> str:
    """Executed requests without effect, for each consumer; '' when there are none."""
    watches = {one.watch.name: one.watch for one in consumers}.values()
    missing = {watch.name: watch.find_missing() for watch in watches}
    return ", ".join(f"consumer {name} lacks {len(what)}: {what[:3]}" for name, what in missing.items() if what)
