"""Finds the first record after which a predicate of the service fails.

Every record is looked at, so that one after which the predicate holds again is found as well. Snapshots cut the log
into stretches, which are executed at the same time where the machine has several cores.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from ordo.debugging.replaying.execution import Execution, ServiceFailedError
from ordo.runtime.errors import ConfigurationError, ServiceError
from ordo.runtime.reporting.failures import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ordo.debugging.replaying.code import MakeVersions
    from ordo.debugging.replaying.recorded_log import RecordedLog
    from ordo.service_api.service import Service

Predicate = Callable[["Service"], object]
PARALLEL_BYTES_MIN = 32 << 20
"""Stretches of less log than this together are executed one after the other: starting processes takes longer."""


class Stretch(NamedTuple):
    """What is executed from one state; `snapshot` is the index of the snapshot at `start`, or None."""

    start: int
    end: int
    snapshot: int | None


class Outcome(NamedTuple):
    """What a stretch came to; `position`: after the first record after which the predicate failed, or None."""

    position: int | None
    is_start: bool
    """It failed before anything was executed."""
    records: int
    text: str = ""
    """What the service raised there, which counts as a failure of the predicate."""


class Search(NamedTuple):
    """What is looked for, and where."""

    log: RecordedLog
    code: MakeVersions
    predicate: Predicate
    service_id: int = 0


class Found(NamedTuple):
    """The first record after which the predicate fails; `position` None: it holds throughout."""

    position: int | None
    is_start: bool
    records: int
    stretches: int
    processes: int
    text: str = ""


def bisect(search: Search, start: int, end: int, *, uses_snapshots: bool, processes: int | None = None) -> Found:
    """Look at the records from one position to another. Raises ConfigurationError, ServiceError."""
    stretches = cut(search.log, start, end, uses_snapshots=uses_snapshots)
    cores = len(os.sched_getaffinity(0)) if processes is None else processes
    count = min(cores, len(stretches))
    if processes is None and end - start < PARALLEL_BYTES_MIN:
        count = 1
    _ = search.log.skips  # before the processes begin, which all need them
    outcomes = _in_turn(search, stretches) if count == 1 else _at_once(search, stretches, count)
    records = sum(one.records for one in outcomes)
    for index, outcome in enumerate(outcomes):
        if outcome.position is None:
            continue
        if outcome.is_start and index > 0:
            raise ServiceError(
                f"the members' snapshot at {outcome.position} fails the predicate, and the log before it does not lead"
                " there with this code: --no-snapshots executes the log alone"
            )
        return Found(outcome.position, outcome.is_start, records, len(stretches), count, outcome.text)
    return Found(None, False, records, len(stretches), count)


def cut(log: RecordedLog, start: int, end: int, *, uses_snapshots: bool) -> list[Stretch]:
    """Return the stretches between two positions, at snapshots. Raises ConfigurationError."""
    entries = log.snapshots if uses_snapshots or log.start > 0 else []
    inner = [(one.log_position, index) for index, one in enumerate(entries) if start < one.log_position < end]
    first = max((index for index, one in enumerate(entries) if one.log_position <= start), default=None)
    begin = log.start if first is None else entries[first].log_position
    if first is None and log.start > 0:
        raise ConfigurationError(f"position {start} cannot be reached: there is no snapshot at it or before it")
    cuts: list[tuple[int, int | None]] = [(begin, first), *inner]
    ends = [position for position, _ in cuts[1:]] + [end]
    return [Stretch(position, until, index) for (position, index), until in zip(cuts, ends, strict=True)]


def _in_turn(search: Search, stretches: Sequence[Stretch]) -> list[Outcome]:
    """Execute stretches up to the first that fails."""
    outcomes = []
    for stretch in stretches:
        outcomes.append(execute(search, stretch))
        if outcomes[-1].position is not None:
            break
    return outcomes


_search: Search | None = None
"""The search that a process of `_at_once` was started with."""


def _begin(search: Search) -> None:
    global _search
    _search = search


def _execute(stretch: Stretch) -> Outcome:
    assert _search is not None
    return execute(_search, stretch)


def _at_once(search: Search, stretches: Sequence[Stretch], count: int) -> list[Outcome]:
    """Execute stretches in processes, the earliest first; none is begun after one has failed."""
    context = multiprocessing.get_context("fork")
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(search,)) as pool:
        futures: list[Future[Outcome]] = [pool.submit(_execute, one) for one in stretches]
        for future in futures:
            outcomes.append(future.result())
            if outcomes[-1].position is not None:
                pool.shutdown(cancel_futures=True)
                break
    return outcomes


def execute(search: Search, stretch: Stretch) -> Outcome:
    """Execute a stretch record by record, up to the first after which the predicate fails. Raises ServiceError."""
    log, predicate = search.log, search.predicate
    start = None if stretch.snapshot is None else log.load(log.snapshots[stretch.snapshot], search.service_id)
    execution = Execution(log, search.code, start, service_id=search.service_id)
    records = 0
    if not _holds(predicate, execution):
        return Outcome(execution.position, True, 0)
    try:
        container, run = execution.container, execution.begin_steps(stretch.end)
        while run():
            records += 1
            try:
                if predicate(container.service):
                    continue
            except Exception as error:
                raise _raised(error, execution) from error
            return Outcome(execution.position, False, records)
    except ServiceFailedError as error:
        return Outcome(error.failure.position, False, records, error.message)
    return Outcome(None, False, records)


def _holds(predicate: Predicate, execution: Execution) -> bool:
    try:
        return bool(predicate(execution.service))
    except Exception as error:
        raise _raised(error, execution) from error


def _raised(error: Exception, execution: Execution) -> ServiceError:
    return ServiceError(f"the predicate raised at position {execution.position}: {one_line(error)}")
