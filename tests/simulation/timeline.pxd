"""The loop of a simulated world."""

from libc.stdint cimport int64_t

from ordo.cluster.node.cycle cimport NodeCycle
from ordo.sequencer.sequencer cimport Sequencer
from ordo.runtime.native.clock cimport VirtualClock
from tests.simulation.network cimport SimulatedHost, SimulatedNetwork
from ordo.transport.driver.media_driver cimport MediaDriver

cdef class Actor:
    cdef public int64_t due_ns             # when it runs next; NEVER_NS: not before something arrives
    cdef public int64_t earliest_ns        # not before its last duty cycle is over
    cdef public int64_t paused_until_ns
    cdef public int64_t cycle_ns           # how long a duty cycle takes
    cdef public SimulatedHost host         # None while its process is dead
    cdef int run(self, int64_t now_ns) except -1
    cdef void wake(self) noexcept
    cdef void sleep(self, int64_t now_ns, int64_t wait_ns) noexcept

cdef class MemberClock(VirtualClock):
    cdef int64_t _look_ns
    cdef public object tell_quality        # answers how well it is known; None: nothing tells

cdef class NodeActor(Actor):
    cdef NodeCycle _cycle
    cdef MediaDriver _driver
    cdef Sequencer _sequencer
    cdef VirtualClock _clock
    cdef object _context                   # of the consensus core
    cdef list _queues
    cdef object _election_state
    cdef object _role
    cdef int64_t _candidate_term_id
    cdef int64_t _leads_term
    cdef int64_t _booted_ns                # world time
    cdef int64_t _first_ns                 # local time then
    cdef int64_t _rate_ppm
    cdef public int64_t leaves_at_ns       # only its driver runs, until then; NEVER_NS: it was not told to end
    cdef int64_t _append_position
    cdef int64_t _commit_position
    cdef int _leave(self, int64_t now_ns, int64_t local_ns) except -1
    cdef int64_t _world_ns(self, int64_t local_ns) noexcept
    cdef int64_t _until_sync(self, int64_t local_ns)
    cdef int _look_for_changes(self, bint has_worked) except -1

cdef class Timeline:
    cdef readonly VirtualClock clock
    cdef readonly SimulatedNetwork network
    cdef readonly list actors
    cdef public int64_t steps
    cdef list _events
    cdef int64_t _event_count
    cdef public bint has_failed            # ends the run after the step it was found in
    cdef int64_t _next(self, int64_t end_ns)
    cdef int _turn(self, int64_t end_ns) except -1
