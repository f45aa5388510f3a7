"""The simulated medium, its hosts and their sockets. See network.pyx."""

from libc.stdint cimport int64_t, uint32_t

from ordo.runtime.native.clock cimport Clock
from ordo.runtime.io.datagram cimport DatagramChannel, DatagramNetwork, ReceiveItem, SendItem

cdef class Faults:
    cdef public double loss
    cdef public double duplication
    cdef public double corruption
    cdef public double truncation
    cdef public double reordering
    cdef public int64_t delay_min_ns
    cdef public int64_t delay_max_ns
    cdef public int64_t reorder_delay_ns
    cdef public bint checksums

cdef class Statistics:
    cdef readonly int64_t sent
    cdef readonly int64_t delivered
    cdef readonly int64_t lost
    cdef readonly int64_t blocked
    cdef readonly int64_t duplicated
    cdef readonly int64_t corrupted
    cdef readonly int64_t truncated
    cdef readonly int64_t reordered
    cdef readonly int64_t overflowed
    cdef readonly int64_t unreachable

cdef class SimulatedNetwork:
    cdef readonly Clock clock
    cdef public object random
    cdef public Faults faults
    cdef readonly dict names
    cdef readonly set pending_names
    cdef public object capture
    cdef readonly Statistics statistics
    cdef readonly dict hosts
    cdef public bint notes_times           # sockets that ask for it are told when datagrams arrived
    cdef readonly int64_t next_arrival_ns  # of the datagram that arrives first; NEVER_NS when none is on its way
    cdef set _blocked                      # (source host, destination host)
    cdef dict _extra_delay_ns              # by the same
    cdef dict _multicast                   # by host: whether it is a group
    cdef dict _groups                      # hosts by group
    cdef dict _names                       # (host, port) by packed address
    cdef dict _packed                      # the other way round
    cdef list _in_flight                   # heap of (time, number, host, source, destination, payload)
    cdef int64_t _sequence
    cdef uint32_t _digest
    cdef tuple _unpack(self, bytes packed)
    cdef bytes _pack(self, tuple name)
    cdef int _route(self, str source_host, tuple source, str address, tuple destination, bytes payload) except -1
    cdef int _push(self, int64_t delay_ns, str address, tuple source, tuple destination, bytes payload) except -1
    cdef int64_t _delay_ns(self) except -1
    cdef bytes _maybe_damage(self, bytes payload)
    cdef int _note(self, int fate, tuple destination, bytes payload) except -1
    cpdef int send(self, str source_host, tuple source, tuple destination, bytes payload) except -1
    cpdef int deliver(self) except -1

cdef class SimulatedHost(DatagramNetwork):
    cdef readonly SimulatedNetwork network
    cdef readonly str address
    cdef readonly bint closed
    cdef readonly list channels
    cdef readonly int64_t parked_ns        # the timeout of the last select: how long the owner would have waited
    cdef public bint has_arrivals          # a socket got something since the owner cleared this
    cdef bint _has_queued                  # a socket may have something waiting
    cdef int _next_port
    cdef int _look(self) noexcept
    cdef str _own(self, str host)
    cpdef bint accept(self, tuple source, tuple destination, bytes payload) except -1

cdef class SimulatedChannel(DatagramChannel):
    cdef readonly SimulatedHost host
    cdef readonly tuple local_address
    cdef readonly tuple connected_to
    cdef readonly tuple group
    cdef readonly int receive_buffer_bytes
    cdef readonly int send_buffer_bytes
    cdef readonly bint closed
    cdef public int items_room             # of the send buffer; below 0, which is the default: any number
    cdef bint _has_times
    cdef readonly object failure           # what went wrong in `send` or `receive` beside an OSError
    cdef object _queue                     # of (payload, packed source), up to the receive buffer
    cdef int64_t _queued_bytes
    cdef list _held                        # payloads of the last receive
    cdef bint _hears(self, tuple source, tuple destination) except -1
    cdef int _enqueue(self, tuple source, bytes payload) except -1
    cdef int _send(self, SendItem* items, int count) except -1000
    cdef int _receive(self, ReceiveItem* items, int capacity) except -1000
    cdef int _code_of(self, error) noexcept
