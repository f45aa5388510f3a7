"""Looks into a node from outside: the counters of its driver's folder, read while it runs or after it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.runtime.errors import StorageMissingError
from ordo.runtime.native.counters import CounterDescriptor, CountersReader
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.processes import is_process_alive
from ordo.transport.control.cnc import CncFile, map_cnc

_RECOVERED_POSITION = Struct("<q")  # in the key of counter 204 (cluster-consensus.md §18)
_RECOVERED_POSITION_OFFSET = 8


@contextmanager
def open_cnc(aeron_dir: Path, *, writable: bool = False) -> Iterator[CncFile]:
    """Open the mapped `cnc.dat` of a node. Raises StorageMissingError when there is none, or not yet."""
    cnc = map_cnc(FileMemoryProvider(), str(aeron_dir / "cnc.dat"), writable=writable)
    if cnc is None:
        raise StorageMissingError(f"no running node in {aeron_dir}: cnc.dat is not there; give the aeron_dir of a node")
    try:
        yield cnc
    finally:
        cnc.close()


def read_counters(aeron_dir: Path) -> list[CounterDescriptor]:
    """Every allocated counter of a node, in the order of their ids."""
    with open_cnc(aeron_dir) as cnc:
        return list(CountersReader(cnc.counters_metadata, cnc.counters_values))


def counter_value(aeron_dir: Path, counter_type: CounterType) -> int:
    """Value of the first counter of a type; -1 when it or the whole folder is not there yet."""
    try:
        counters = read_counters(aeron_dir)
    except StorageMissingError:
        return NULL_VALUE
    return next((counter.value for counter in counters if counter.type_id == counter_type), NULL_VALUE)


class LeaderProgress(NamedTuple):
    """Positions of a node that serves as leader: committed, and executed by its service."""

    committed: int
    executed: int


def leader_progress(aeron_dir: Path) -> LeaderProgress | None:
    """Return the positions, or None while the node does not lead or has not committed the first record of its term.

    That record lies beyond what the node recovered at its start, which tells it from a position of an earlier run.
    """
    try:
        found = read_counters(aeron_dir)
    except StorageMissingError:
        return None
    counters = {counter.type_id: counter for counter in found}
    kinds = (CounterType.LEADER_TERM, CounterType.COMMIT_POSITION, CounterType.SERVICE_POSITION)
    if CounterType.RECOVERY_STATE not in counters or any(kind not in counters for kind in kinds):
        return None
    term, committed, _ = (counters[kind].value for kind in kinds)
    executed = min(one.value for one in found if one.type_id == CounterType.SERVICE_POSITION)
    (recovered,) = _RECOVERED_POSITION.unpack_from(counters[CounterType.RECOVERY_STATE].key, _RECOVERED_POSITION_OFFSET)
    return LeaderProgress(committed, executed) if term >= 0 and committed > recovered else None


def is_alive(aeron_dir: Path, now_ms: int, timeout_ms: int, gone_after_ms: int | None = None) -> bool:
    """Return whether the node's driver has shown a heartbeat within the timeout; `now_ms` is wall-clock time.

    One that has shown none for `gone_after_ms` is dead at once if no process has its id. Not before, since it may live
    in another container, whose processes are not seen from here.
    """
    try:
        with open_cnc(aeron_dir) as cnc:
            age_ms = now_ms - cnc.to_driver.consumer_heartbeat_ms
            if gone_after_ms is not None and age_ms > gone_after_ms and not is_process_alive(cnc.pid):
                return False
            return age_ms <= timeout_ms
    except StorageMissingError:
        return False
