"""Recording positions of a running node's archive, from its counters (cnc-and-driver-protocol.md §5)."""

from __future__ import annotations

from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.counters import CounterDescriptor, CountersReader
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.control.cnc import map_cnc


def read_live_counters(path: str) -> list[CounterDescriptor]:
    """Return all counters of the counters file `path`, as they are now; it is mapped only during the call.

    Raises ArchiveError when the driver has not made the file ready yet.
    """
    cnc = map_cnc(FileMemoryProvider(), path, writable=False)
    if cnc is None:
        raise ArchiveError(f"{path} is not ready; wait until the node has started")
    try:
        reader = CountersReader(cnc.counters_metadata, cnc.counters_values)
        found = list(reader)
    finally:
        del reader
        cnc.close()
    return found
