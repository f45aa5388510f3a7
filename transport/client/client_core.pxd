"""The native part of the transport client: what runs in every duty cycle."""

from libc.stdint cimport int64_t
from ordo.runtime.agents.agent cimport Agent
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.agents.wake cimport Waker
from ordo.transport.control.broadcast cimport BroadcastReceiver

cdef class ClientCore(Agent):
    """`do_work` costs a few loads while nothing came from the driver and no chore is due."""
    cdef BroadcastReceiver _receiver           # None while not connected
    cdef int64_t _next_chore_ns
    cdef bint _pending_callbacks
    cdef readonly Waker waker                  # of the parked driver; None when the driver runs in this thread
    cdef bint has_news(self) noexcept nogil    # the driver has responded, or a handler is to be called

cdef class ClientCounter(Counter):
    """A counter that a client added; `close` gives it back."""
    cdef readonly int64_t registration_id
    cdef readonly bint closed
    cdef object _client
