"""The sockets of one simulated host."""

from libc.stdint cimport int64_t

from runtime.datagram cimport DatagramNetwork

cdef class SimulatedHost(DatagramNetwork):
    cdef readonly object network
    cdef readonly str address
    cdef readonly bint closed
    cdef readonly list channels
    cdef readonly int64_t parked_ns        # the timeout of the last select: how long the owner would have waited
    cdef public bint has_arrivals          # a socket got something since the owner cleared this
    cdef bint _has_queued                  # a socket may have something waiting
    cdef int _next_port
    cdef int _look(self) noexcept
