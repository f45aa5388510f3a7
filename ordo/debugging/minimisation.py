"""Delta debugging: the records of a stretch without which what happens would not happen.

Chunks of records are left out, smaller ones each time, as long as the failure stays (ddmin of Zeller and Hildebrandt).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ordo.debugging.replaying.execution import ServiceFailedError
from ordo.runtime.errors import ConfigurationError, OrdoError

if TYPE_CHECKING:
    from ordo.debugging.recorded_file import Record, Recorded
    from ordo.debugging.replaying.code import MakeVersions
    from ordo.service_api.service import Service

TRIES_MAX = 10_000


def minimise(stretch: Recorded, code: MakeVersions, holds: Callable[[Service], object] | None) -> Recorded:
    """Return the stretch with no record that can be left out.

    What must stay: that the predicate fails after some record or, without one, that the service raises. Raises
    ConfigurationError where that does not happen with all records.
    """

    def fails(records: Sequence[Record]) -> bool:
        return failure_of(stretch.with_records(records), code, holds)

    if not fails(stretch.records):
        what = "the service does not raise" if holds is None else "the predicate does not fail"
        raise ConfigurationError(f"--minimise: {what} in this stretch, so there is nothing that its records must keep")
    return stretch.with_records(reduce(stretch.records, fails))


def failure_of(stretch: Recorded, code: MakeVersions, holds: Callable[[Service], object] | None) -> bool:
    """Return whether the stretch fails, as the predicate or the service says."""
    try:
        run = stretch.run_code(code, holds)
    except ServiceFailedError:
        return holds is None
    except OrdoError:
        return False  # such as a log without its first term: nothing that can be executed
    return holds is not None and not holds(run.service)


def reduce(records: Sequence[Record], fails: Callable[[Sequence[Record]], bool]) -> list[Record]:
    """Return records that fail, of which none can be left out alone."""
    kept, parts, tries = list(records), 2, 0
    while len(kept) >= 2 and tries < TRIES_MAX:
        size = -(-len(kept) // parts)
        for begin in range(0, len(kept), size):
            tries += 1
            rest = kept[:begin] + kept[begin + size :]
            if rest and fails(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept
