"""One record of a log that is left out, or has another payload, and what differs afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ordo.debugging.comparison import Pair, has_raised, observe
from ordo.debugging.replaying.effects import Effect, first_difference
from ordo.debugging.replaying.execution import Execution
from ordo.debugging.replaying.state import how_states_differ
from ordo.debugging.replaying.tracing import Callback, wrapped
from ordo.follow.entries import EntryKind, decode_entry
from ordo.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordo.cluster.container.streams.loop import MessageRun
    from ordo.debugging.replaying.code import MakeVersions
    from ordo.debugging.replaying.recorded_log import Checkpoint, RecordedLog

WHY = "left out: by the one who looks at it"
SHOWN_MAX = 10
_WITH_PAYLOAD = (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT)


class Change:
    """The record that ends at `position`: left out, or with another payload."""

    def __init__(self, position: int, payload: bytes | None) -> None:
        """`payload`: None: the record is left out."""
        self.position = position
        self.payload = payload

    def check(self, log: RecordedLog, start: int) -> str:
        """Return the record in a line. Raises ConfigurationError where there is none, or it has no payload."""
        for record in log.records(start, self.position):
            if record.position == self.position:
                entry = decode_entry(record.position, record.payload)
                if self.payload is not None and (entry is None or entry.kind not in _WITH_PAYLOAD):
                    raise ConfigurationError(f"the record that ends at {self.position} has no payload to be changed")
                return log.describe(record.position, record.payload)
        raise ConfigurationError(
            f"no record of the log ends at {self.position}; `ordo debug replay` shows where some do"
        )

    def step(self, execution: Execution) -> list[Effect]:
        """Execute the record with its change."""
        if self.payload is None:
            return observe(execution, self.position)
        with wrapped(execution.container, {"on_session_message": self._wrap, "on_session_messages": self._wrap_run}):
            return observe(execution, self.position)

    def _wrap(self, callback: Callback) -> Callback:
        def call(session: object, timestamp: int, payload: bytes, header: object) -> object:
            return callback(session, timestamp, self.payload, header)

        return call

    def _wrap_run(self, callback: Callback) -> Callback:
        return lambda messages: callback(_ChangedRun(messages, self.payload or b""))


class _ChangedRun:
    """A run of one message, with another payload."""

    def __init__(self, messages: MessageRun, payload: bytes) -> None:
        self._messages = messages
        self._payload = payload

    def __iter__(self) -> _ChangedRun:
        return self

    def __next__(self) -> bytes:
        next(self._messages)
        return self._payload

    def __getattr__(self, name: str) -> object:
        return cast("object", getattr(self._messages, name))


def what_differs(
    log: RecordedLog, code: MakeVersions, change: Change, start: Checkpoint | None, end: int, service_id: int
) -> Iterator[str]:
    """Yield what differs after a change: records at which the service does something else, and the state at the end."""
    what = "left out" if change.payload is None else "changed"
    yield f"{what}: {change.check(log, log.start if start is None else start.position)}"

    def make(start: Checkpoint | None) -> Execution:
        return Execution(log, code, start, service_id=service_id)

    def make_changed(start: Checkpoint | None) -> Execution:
        skips = log.skips | ({change.position: WHY} if change.payload is None else {})
        return Execution(log, code, start, service_id=service_id, skips=skips)

    pair = Pair((make, make_changed), (start, start))
    pair.run_to(change.position - 1)
    count = 0
    for record in log.records(pair.position, end):
        left = observe(pair.left, record.position)
        right = change.step(pair.right) if record.position == change.position else observe(pair.right, record.position)
        if first_difference(left, right) is None and not has_raised(left):
            continue
        count += 1
        if count <= SHOWN_MAX:
            yield log.describe(record.position, record.payload)
            yield from (f"  as it was: {one.describe(log.schemas)}" for one in left)
            yield from (f"  changed:   {one.describe(log.schemas)}" for one in right)
        if has_raised([*left, *right]):
            yield f"a service raises at position {record.position}: nothing is compared after it"
            return
    yield f"{count} records have other effects, up to position {pair.position}"
    found = how_states_differ(pair.left, pair.right)
    yield from (f"state, as it was | changed: {one}" for one in found)
    if not found:
        yield "the state is the same"
