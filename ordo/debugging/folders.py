"""Two folders of one cluster: the first record at which their logs differ, or the first snapshot that does, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.debugging.replaying.execution import Execution
from ordo.debugging.replaying.state import how_states_differ
from ordo.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordo.debugging.replaying.code import MakeVersions
    from ordo.debugging.replaying.recorded_log import Checkpoint, RecordedLog


def compare_logs(left: RecordedLog, right: RecordedLog) -> list[str]:
    """Return the first record at which two logs differ, in lines; nothing where they are alike as far as both go.

    Raises ConfigurationError where they have no stretch in common.
    """
    start, end = max(left.start, right.start), min(left.end, right.end)
    if start >= end:
        raise ConfigurationError(
            f"{left.path} has the log from {left.start} to {left.end}, {right.path} from {right.start} to {right.end}:"
            " no stretch is common to both"
        )
    for one, two in zip(left.records(start, end), right.records(start, end), strict=False):
        if (one.position, one.payload) != (two.position, two.payload):
            return [
                f"the logs differ first at position {min(one.position, two.position)}",
                f"  {left.path}: {left.describe(one.position, one.payload)}",
                f"  {right.path}: {right.describe(two.position, two.payload)}",
            ]
    return []


def compare_snapshots(left: RecordedLog, right: RecordedLog, code: MakeVersions, service_id: int) -> Iterator[str]:
    """Yield the first snapshot that the two have otherwise, how it differs, and which of the two the log leads to."""
    theirs = {one.log_position: one for one in right.snapshots}
    alike: Checkpoint | None = None
    count = 0
    for entry in left.snapshots:
        other = theirs.get(entry.log_position)
        if other is None:
            continue
        one, two = left.load(entry, service_id), right.load(other, service_id)
        count += 1
        if b"".join(one.messages) == b"".join(two.messages):
            alike = one
            continue
        since = "the beginning of the log" if alike is None else f"the snapshot at {alike.position}"
        yield f"their states differ at the snapshot of position {one.position}, and are alike at {since}"
        made = [Execution(log, code, state, service_id=service_id) for log, state in ((left, one), (right, two))]
        yield from (f"  state: {line}" for line in how_states_differ(*made))
        yield from _judge(left, right, code, alike, made, service_id)
        return
    yield f"the logs are alike from {max(left.start, right.start)} to {min(left.end, right.end)}, and {count} snapshots"


def _judge(
    left: RecordedLog,
    right: RecordedLog,
    code: MakeVersions,
    alike: Checkpoint | None,
    made: list[Execution],
    service_id: int,
) -> Iterator[str]:
    """Say which of two snapshots the log leads to with this code."""
    if alike is None and left.start > 0:
        yield "  which of the two the log leads to cannot be told: no state is left to execute from"
        return
    replayed = Execution(left, code, alike, service_id=service_id)
    replayed.run_to(made[0].position)
    state = replayed.own_state()
    leads_to = [log.path for log, one in zip((left, right), made, strict=True) if one.own_state() == state]
    yield f"  the log leads to that of {leads_to[0]}" if leads_to else "  the log leads to neither, with this code"
