"""Is a history of operations linearizable? Wing and Gong's search with Lowe's memory of what was tried.

An operation takes effect at one moment between its call and its return; one whose outcome nobody learnt may take effect
at any later time, or never. The history is linearizable if there is an order of effects that the model allows. It is
searched per key, since objects that do not touch each other can be checked alone (Herlihy and Wing's locality).

Where the order of effects is said to be known (`place`, e.g. a position in a replicated log), that order is tried
first: if the model allows it and it goes with the times of calls and returns, nothing need be searched. If not, the
history may still be linearizable in another order, and the search decides.

The search goes through calls and returns in order of time. It tries each pending call as the next effect; at a return
whose operation has not taken effect it must go back. Lowe: a pair (operations that took effect, state) met before leads
to the same end, so it is not tried twice; the set of operations is one integer used as a bit set.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from math import inf
from time import monotonic
from typing import Any, NamedTuple, Protocol

CLOCK_CHECK_INTERVAL = 4096


class Operation(NamedTuple):
    """One operation of one client.

    `returned` is infinite for an operation whose outcome was never learnt; its `output` is then `UNKNOWN`. Times are
    comparable numbers of one clock; equal times count as concurrent.
    """

    process: Hashable
    key: Hashable
    kind: str
    argument: Any
    output: Any
    called: float
    returned: float
    place: Any = None
    """Sorts the operations of one key in the order in which they are thought to have taken effect; None: not known."""


class Unknown:
    """The output of an operation that never returned."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


class Model(Protocol):
    """A sequential object."""

    def initial(self) -> Hashable:
        """The state of the model before all operations."""
        ...

    def step(self, state: Any, operation: Operation) -> tuple[bool, Hashable]:
        """Whether the operation may do in this state what it did, and the state after it.

        An operation with output UNKNOWN may always: it does whatever it does in this state.
        """
        ...


@unique
class Verdict(Enum):
    """What was found out; UNDECIDED when the time limit passed first."""

    LINEARIZABLE = "linearizable"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


@dataclass
class Result:
    """A verdict; for a violation also the key, the longest order found, and the operation nothing could go on with."""

    verdict: Verdict
    key: Hashable = None
    order: list[Operation] = field(default_factory=list)
    stuck_at: Operation | None = None

    def describe(self) -> str:
        """One line."""
        if self.verdict is Verdict.LINEARIZABLE:
            return "LINEARIZABLE"
        return f"{self.verdict.name}: key={self.key!r} after {len(self.order)} operations, stuck at {self.stuck_at}"


def check(
    operations: Iterable[Operation],
    model: Model,
    time_limit_s: float = inf,
    clock: Callable[[], float] = monotonic,
) -> Result:
    """Check a history key by key, up to the first violation. UNDECIDED if a key took too long and none is violated."""
    by_key: dict[Hashable, list[Operation]] = {}
    for operation in operations:
        assert operation.called <= operation.returned, operation
        by_key.setdefault(operation.key, []).append(operation)
    deadline_s = clock() + time_limit_s
    undecided = Result(Verdict.LINEARIZABLE)
    for key, group in by_key.items():
        if is_explained_by_places(group, model):
            continue
        result = Search(group, model, deadline_s, clock).run()
        result.key = key
        if result.verdict is Verdict.VIOLATED:
            return result
        if result.verdict is Verdict.UNDECIDED:
            undecided = result
    return undecided


def is_explained_by_places(operations: Sequence[Operation], model: Model) -> bool:
    """Whether all places are known and their order is a linearization: allowed by the model, and with no operation
    before another that had returned before it was called."""
    if any(operation.place is None for operation in operations):
        return False
    state = model.initial()
    called_last = -inf
    for operation in sorted(operations, key=lambda one: (one.place, one.called)):
        is_allowed, state = model.step(state, operation)
        if not is_allowed or operation.returned < called_last:
            return False
        called_last = max(called_last, operation.called)
    return True


class Search:
    """The search over one key. Events are a doubly linked list: entry 2i is the call, 2i + 1 the return of operation i.

    Operations that took effect are lifted out of the list; the entry after the head is what must be explained next.
    """

    def __init__(
        self, operations: Sequence[Operation], model: Model, deadline_s: float, clock: Callable[[], float]
    ) -> None:
        self._operations = operations
        self._model = model
        self._deadline_s = deadline_s
        self._clock = clock
        count = len(operations)
        events = [(op.called, 0, 2 * i) for i, op in enumerate(operations)]
        events += [(op.returned, 1, 2 * i + 1) for i, op in enumerate(operations)]
        entries = [entry for _, _, entry in sorted(events)]
        self._head = 2 * count
        self._next = [0] * (2 * count + 1)
        self._previous = [0] * (2 * count + 1)
        for a, b in zip([self._head, *entries], [*entries, self._head], strict=True):
            self._next[a] = b
            self._previous[b] = a
        self._must_return = sum(op.returned != inf for op in operations)

    def run(self) -> Result:
        """Go through the list until all returned operations are explained, or nothing is left to try."""
        state = self._model.initial()
        done = explained = steps = 0
        stack: list[tuple[int, Hashable]] = []
        tried: set[tuple[int, Hashable]] = set()
        best: list[int] = []
        best_stuck = -1
        entry = self._next[self._head]
        while explained < self._must_return:
            steps += 1
            if steps % CLOCK_CHECK_INTERVAL == 0 and self._clock() > self._deadline_s:
                return self._result(Verdict.UNDECIDED, best, best_stuck)
            if not entry & 1:
                index = entry >> 1
                is_allowed, after = self._model.step(state, self._operations[index])
                mark = (done | 1 << index, after)
                if is_allowed and mark not in tried:
                    tried.add(mark)
                    stack.append((index, state))
                    done, state = mark
                    explained += self._operations[index].returned != inf
                    self._lift(entry)
                    entry = self._next[self._head]
                else:
                    entry = self._next[entry]
                continue
            if len(stack) >= len(best):
                best, best_stuck = [index for index, _ in stack], entry >> 1
            if not stack:
                return self._result(Verdict.VIOLATED, best, best_stuck)
            index, state = stack.pop()
            done &= ~(1 << index)
            explained -= self._operations[index].returned != inf
            self._unlift(2 * index)
            entry = self._next[2 * index]
        return self._result(Verdict.LINEARIZABLE, [index for index, _ in stack], -1)

    def _lift(self, call: int) -> None:
        """Take a call and its return out of the list."""
        following, previous = self._next, self._previous
        for entry in (call, call + 1):
            following[previous[entry]] = following[entry]
            previous[following[entry]] = previous[entry]

    def _unlift(self, call: int) -> None:
        """Put them back where they were, in reverse order."""
        following, previous = self._next, self._previous
        for entry in (call + 1, call):
            following[previous[entry]] = entry
            previous[following[entry]] = entry

    def _result(self, verdict: Verdict, order: list[int], stuck: int) -> Result:
        stuck_at = self._operations[stuck] if stuck >= 0 else None
        return Result(verdict, None, [self._operations[index] for index in order], stuck_at)
