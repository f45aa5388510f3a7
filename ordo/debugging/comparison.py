"""Two executions of one log, in step: the first record at which they differ, and how.

What they differ by may be the code, or one record that is changed or left out for one of the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ordo.debugging.replaying.effects import RAISED, Effect, first_difference
from ordo.debugging.replaying.execution import Execution, ServiceFailedError
from ordo.debugging.replaying.state import how_states_differ
from ordo.transport.frame_layout import FRAME_ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordo.debugging.replaying.recorded_log import Checkpoint, RecordedLog
    from ordo.follow.log_schemas import LogSchemas

STATE_INTERVAL_S = 0.5
"""States are compared after so much execution, and where something else differs."""
STATE_COST_MAX = 4
"""States that take long are compared after at least this many times as long."""
EFFECTS_SHOWN_MAX = 5

MakeExecution = Callable[["Checkpoint | None"], Execution]
Starts = tuple["Checkpoint | None", "Checkpoint | None"]


class Difference(NamedTuple):
    """Where two executions differ. `position`: after the record."""

    position: int
    record: str
    effects: tuple[list[Effect], list[Effect]]
    state: list[str]
    """How their states differ after the record."""
    schemas: LogSchemas | None = None
    """What the log has, for messages among the effects."""

    def lines(self) -> Iterator[str]:
        """Yield the difference for people."""
        yield f"they differ first at position {self.position}: {self.record}"
        if first_difference(*self.effects) is not None:
            for name, effects in zip(("left", "right"), self.effects, strict=True):
                shown = [one.describe(self.schemas) for one in effects[:EFFECTS_SHOWN_MAX]] or ["nothing"]
                yield from (f"  {name}: {one}" for one in shown)
        yield from (f"  state: {one}" for one in self.state)


class Pair:
    """Two executions that stand at the same position."""

    def __init__(self, makers: tuple[MakeExecution, MakeExecution], starts: Starts) -> None:
        self.left, self.right = makers[0](starts[0]), makers[1](starts[1])
        self.can_save = self.left.can_save and self.right.can_save

    @property
    def position(self) -> int:
        return self.left.position

    def run(self, limit: int) -> tuple[bool, bool]:
        """Execute some records: whether there were any, and whether what the two did is alike as far as was noted."""
        moved, noted = [], []
        for one in (self.left, self.right):
            container = one.container
            container.effects = []
            rejected = container.messages_rejected
            moved.append(one.run(limit))
            noted.append((container.effects, container.messages_rejected - rejected))
            container.effects = None
        return moved[0] or moved[1], noted[0] == noted[1]

    def run_to(self, limit: int) -> None:
        """Execute all records that end at the limit or before, up to one at which a service raises."""
        self.left.run_to(limit)
        self.right.run_to(limit)

    def step(self, position: int) -> tuple[list[Effect], list[Effect]]:
        """Execute the record that ends at a position, and return what each of the two did."""
        return observe(self.left, position), observe(self.right, position)

    def states_differ(self) -> bool:
        return self.can_save and self.left.own_state() != self.right.own_state()

    def save(self) -> Starts:
        return self.left.save(), self.right.save()


def observe(execution: Execution, position: int) -> list[Effect]:
    """Execute the record that ends at a position, and return what the service did; that it raised is an effect, too."""
    try:
        return execution.step(position)
    except ServiceFailedError as error:
        return [Effect(position, RAISED, 0, repr(error.failure.error).encode())]


class Comparison:
    """Compares two ways to execute one log."""

    def __init__(
        self, log: RecordedLog, left: MakeExecution, right: MakeExecution, *, compares_states: bool = True
    ) -> None:
        """`compares_states`: by what the services write into their snapshots."""
        self._log = log
        self._makers = left, right
        self._compares_states = compares_states
        self.raised_position: int | None = None
        """The position of a record at which both raise alike, after which nothing is compared."""

    def first(self, start: Checkpoint | None, end: int) -> Difference | None:
        """Return the first difference up to a position, from the same state on. Raises ConfigurationError."""
        starts: Starts = (start, start)
        begun = self._log.start if start is None else start.position
        pair = Pair(self._makers, starts)
        looked_s, cost_s = time.perf_counter(), 0.0
        while True:
            before = pair.position
            try:
                is_moved, is_alike = pair.run(end)
            except ServiceFailedError:
                is_alike = False
            if not is_alike:
                return self._narrow(starts, begun, self._log.end)
            is_due = time.perf_counter() - looked_s > max(STATE_INTERVAL_S, STATE_COST_MAX * cost_s) or not is_moved
            begun_s = time.perf_counter()
            if is_due and self._differ(pair):
                return self._narrow(starts, begun, pair.position)
            if not is_moved:
                return None
            if is_due and pair.can_save:
                starts, begun = pair.save(), pair.position
                looked_s = time.perf_counter()
                cost_s = looked_s - begun_s
            assert pair.position > before

    def _differ(self, pair: Pair) -> bool:
        return self._compares_states and pair.states_differ()

    def _narrow(self, starts: Starts, begun: int, upto: int) -> Difference | None:
        """Find the first difference after `begun`, where both were alike; what they do differs, or the state `upto`."""
        pair = Pair(self._makers, starts)
        found, before = upto, upto
        for record in self._log.records(begun, upto):
            left, right = pair.step(record.position)
            if first_difference(left, right) is not None:
                found, before = record.position, record.position - 1
                break
            if has_raised(left):
                self.raised_position = record.position
                return None  # both alike: there is nothing to compare any more
        earlier = self._search_state(starts, begun, before) if self._compares_states else None
        return self._describe(starts, found if earlier is None else earlier)

    def _search_state(self, starts: Starts, low: int, high: int) -> int | None:
        """Return where the states begin to differ, after `low`; None where they are alike at `high`.

        A difference stays until then, or is not found.
        """
        pair = Pair(self._makers, starts)
        pair.run_to(high)
        if not pair.states_differ():
            return None
        high = pair.position
        while high - low > FRAME_ALIGNMENT:
            middle = low + max(FRAME_ALIGNMENT, (high - low) // 2 // FRAME_ALIGNMENT * FRAME_ALIGNMENT)
            if middle >= high:
                break
            pair = Pair(self._makers, starts)
            pair.run_to(middle)
            if pair.states_differ():
                high = pair.position
            else:
                low = middle
        return high

    def _describe(self, starts: Starts, position: int) -> Difference:
        pair = Pair(self._makers, starts)
        pair.run_to(position - 1)
        record = next(self._log.records(pair.position))
        effects = pair.step(record.position)
        state = how_states_differ(pair.left, pair.right)
        said = self._log.describe(record.position, record.payload)
        return Difference(record.position, said, effects, state, self._log.schemas)


def has_raised(effects: list[Effect]) -> bool:
    return any(one.kind == RAISED for one in effects)
