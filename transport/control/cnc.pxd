"""The counters-and-control file `cnc.dat` (cnc-and-driver-protocol.md §2)."""

from ordo.runtime.native.memory cimport Memory
from ordo.transport.control.ring cimport ManyToOneRing

cdef class CncFile:
    """A mapped `cnc.dat`: the ring to the driver, the broadcast buffer, counters and error log as memory slices."""
    cdef readonly Memory memory
    cdef readonly ManyToOneRing to_driver
    cdef readonly Memory to_clients
    cdef readonly Memory counters_metadata
    cdef readonly Memory counters_values
    cdef readonly Memory error_log
