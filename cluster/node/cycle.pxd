"""The duty cycle of a node."""

from libc.stdint cimport int64_t

from ordo.archive.archive cimport Archive
from ordo.cluster.container.streams.loop cimport ContainerLoop
from ordo.sequencer.cluster_clock cimport ClusterClock
from ordo.sequencer.sequencer cimport Sequencer
from ordo.cluster.wire.counters.latencies cimport LogSamples
from ordo.cluster.wire.counters.traces cimport LogTraces
from ordo.runtime.agents.agent cimport Agent
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.agents.spinning cimport Spinning
from ordo.runtime.agents.wake cimport ParkFlag
from ordo.transport.client.client_core cimport ClientCore
from ordo.transport.driver.media_driver cimport MediaDriver

cdef class NodeCycle(Agent):
    """One duty cycle in the order a message takes: receive, sequence, send, record, commit, replay, serve, send.

    `module` is the ConsensusModule, and `member` its OwnMember; `tick` is called after its slow tick with the time
    (children, activity stamps).
    """
    cdef MediaDriver driver                # None: the node uses one of another process
    cdef ParkFlag park_flag                # for that case
    cdef int64_t park_ns
    cdef Archive archive
    cdef Sequencer sequencer
    cdef list containers                   # of ContainerLoop; none where services run in processes of their own
    cdef Clock clock
    cdef ClusterClock cluster_clock
    cdef LogSamples samples
    cdef object module
    cdef object member
    cdef ClientCore client
    cdef object tick
    cdef readonly int64_t next_tick_ns     # when the slow tick is due, monotonic
    cdef int64_t idle_tick_ns
    cdef bint has_worked                   # something beyond heartbeats since the last tick
    cdef Spinning spinning
    cdef int64_t worked_ns                 # when the last cycle of `work` began; 0: it has rested since
    cdef int skips_left                    # duty cycles that do without a look at the sockets
    cdef Counter max_cycle_time
    cdef Counter cycles_exceeded
    cdef int64_t deadline_ns(self) noexcept nogil      # when a cycle is due without being told
    cpdef bint work(self) except -1
    cpdef int rest(self) except -1
    cdef bint _spin(self) except -1
    cdef void _note_cycle(self, int64_t ended_ns) noexcept nogil
    cdef int _rest_beside_driver(self, int64_t timeout_ns) except -1
    cdef int _update_positions(self, int64_t now_ns) except -1
    cdef int _serve_readers(self, int64_t now_ns) except -1
    cdef int _rare_work(self, int64_t now_ns) except -1
    cdef int _slow_tick(self, int64_t now_ns) except -1
