"""A network whose sockets encrypt."""

from libc.stdint cimport int64_t
from ordo.runtime.io.datagram cimport DatagramNetwork
from ordo.transport.driver.frames.pointers cimport PointerArray
from ordo.transport.secure.context cimport SecureContext

cdef class SecureNetwork(DatagramNetwork):
    cdef readonly DatagramNetwork inner
    cdef readonly SecureContext context
    cdef readonly list channels
    cdef PointerArray pointers
    cdef int64_t care_ns
    cdef int turns
    cdef int keys_version
    cdef void _care(self) noexcept
