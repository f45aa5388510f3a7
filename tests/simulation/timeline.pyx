"""The loop of a simulated world: goes from event to event in virtual time, and runs whoever is due."""

import heapq

from libc.stdint cimport int64_t

from ordo.cluster.node.cycle cimport NodeCycle
from ordo.sequencer.sequencer cimport Sequencer
from ordo.runtime.native.clock cimport VirtualClock
from tests.simulation.network cimport SimulatedHost, SimulatedNetwork
from tests.simulation.storage cimport SimulatedSyncQueue
from ordo.transport.driver.media_driver cimport MediaDriver

cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFFLL
cdef int64_t FAREWELL_STEP = 1_000_000

cdef enum:
    NOTHING = 0
    POSITIONS = 1          # of the log have risen
    STATE = 2              # of the election, the role, the term, the leadership; or the log has become shorter

NEVER_NS = NEVER


cdef class HastySequencer(Sequencer):
    """A planted bug: what a leader appends says that the leader's own log is committed."""

    cdef int64_t told_position(self) noexcept nogil:
        return self.append_position


cdef class Actor:
    """Something that runs when it is due, at most once in `cycle_ns`. Times are virtual, in ns."""

    def __cinit__(self):
        self.due_ns = NEVER

    cdef int run(self, int64_t now_ns) except -1:
        """One duty cycle; sets `due_ns`. Says what changed that invariants look at: NOTHING, POSITIONS or STATE."""
        self.step(now_ns)
        return NOTHING

    def step(self, now_ns):
        """The same for Python; what invariants look at does not change."""
        raise NotImplementedError

    def pause(self, int64_t until_ns):
        """It does not run before a time."""
        self.paused_until_ns = until_ns
        if self.due_ns < until_ns:
            self.due_ns = until_ns

    def resume(self, int64_t now_ns):
        """It may run again at once."""
        self.paused_until_ns = 0
        if self.host is not None:
            self.due_ns = now_ns

    cdef void wake(self) noexcept:
        """Something has arrived for it."""
        cdef int64_t at_ns = max(self.earliest_ns, self.paused_until_ns)
        if at_ns < self.due_ns:
            self.due_ns = at_ns

    cdef void sleep(self, int64_t now_ns, int64_t wait_ns) noexcept:
        """Plans the next duty cycle."""
        self.earliest_ns = now_ns + self.cycle_ns
        self.due_ns = now_ns + max(self.cycle_ns, min(wait_ns, NEVER // 2))

    def sleep_for(self, int64_t now_ns, int64_t wait_ns):
        """As seen from Python."""
        self.sleep(now_ns, wait_ns)


cdef class MemberClock(VirtualClock):
    """The clock of a member: each look at it takes `look_ns`, so that time passes within a duty cycle."""

    def __init__(self, int64_t now_ns, int64_t epoch_offset_ns, int64_t look_ns):
        super().__init__(now_ns, epoch_offset_ns)
        self._look_ns = look_ns

    def quality(self):
        return None if self.tell_quality is None else self.tell_quality()

    cdef int64_t nano_time(self) noexcept nogil:
        self.now_ns += self._look_ns
        return self.now_ns


cdef class NodeActor(Actor):
    """Runs the duty cycle of a node and parks it as its own thread would. The clock may run at another rate."""

    def attach(self, node, VirtualClock clock not None, SimulatedHost host not None, list sync_queues, int64_t now_ns,
               int64_t rate_ppm):
        """A process was started at `now_ns`; its clock goes on from where it is, `rate_ppm` faster than the world's."""
        self._cycle = node.cycle
        self._driver = node.driver
        self._sequencer = node.module.sequencer
        self._context = node.module.core._ctx
        self._clock = clock
        self.host = host
        self._queues = sync_queues
        self._booted_ns = now_ns
        self._first_ns = clock.now_ns
        self._rate_ppm = rate_ppm
        self._election_state = None
        self.leaves_at_ns = NEVER
        self.due_ns = self.earliest_ns = now_ns

    def detach(self):
        """The process is gone."""
        self._cycle = self._driver = self._sequencer = self._context = self._clock = self.host = None
        self._queues = []
        self.due_ns = NEVER
        self.paused_until_ns = 0

    cdef int run(self, int64_t now_ns) except -1:
        cdef int64_t elapsed_ns = now_ns - self._booted_ns
        cdef int64_t local_ns = self._first_ns + elapsed_ns + elapsed_ns * self._rate_ppm // 1_000_000
        cdef int64_t wait_ns = 0, next_tick_ns = self._cycle.next_tick_ns
        cdef int work
        self._clock.now_ns = local_ns
        if self.leaves_at_ns < NEVER:
            return self._leave(now_ns, local_ns)
        try:
            work = self._cycle.do_work(local_ns)
        except BaseException as error:
            self.on_failed(error)
            return NOTHING
        if self._cycle.member.has_ended:  # as `NodeCycle.run`: no further cycle
            self.pause(NEVER)
            return self._look_for_changes(True)
        if work == 0:
            wait_ns = max(0, self._cycle.deadline_ns() - local_ns)
            self._driver.park_until(local_ns, wait_ns)
            wait_ns = self._world_ns(self.host.parked_ns if wait_ns else 0)
            wait_ns = min(wait_ns, self._until_sync(local_ns))
        self.sleep(now_ns, wait_ns)
        return self._look_for_changes(work != 0 or self._cycle.next_tick_ns != next_tick_ns)

    cdef int _leave(self, int64_t now_ns, int64_t local_ns) except -1:
        """What is left to do of a node that was told to end: its driver goes on for a while."""
        if now_ns >= self.leaves_at_ns:
            self.on_left()
            return NOTHING
        self._driver.do_work(local_ns)
        self.sleep(now_ns, FAREWELL_STEP)
        return NOTHING

    cdef int64_t _world_ns(self, int64_t local_ns) noexcept:
        """World time in which the local clock goes on by so much, rounded up."""
        if local_ns <= 0:
            return 0
        return local_ns if self._rate_ppm == 0 else <int64_t> (local_ns * (1e6 / (1e6 + self._rate_ppm))) + 1

    cdef int64_t _until_sync(self, int64_t local_ns):
        cdef int64_t soonest_ns = NEVER, due_ns
        for queue in self._queues:
            due_ns = (<SimulatedSyncQueue> queue).due_after(local_ns)
            if due_ns < NEVER:
                soonest_ns = min(soonest_ns, self._world_ns(due_ns - local_ns))
        return soonest_ns

    cdef int _look_for_changes(self, bint has_worked) except -1:
        cdef Sequencer sequencer = self._sequencer
        cdef bint moved = (sequencer.append_position != self._append_position
                           or sequencer.commit_position != self._commit_position)
        cdef bint was_cut = sequencer.append_position < self._append_position
        if not has_worked and not moved:
            return NOTHING
        cdef object context = self._context, state = context.state, role = context.role
        cdef int64_t candidate_term_id = context.candidate_term_id, leads_term = sequencer.leading_term()
        self._append_position = sequencer.append_position
        self._commit_position = sequencer.commit_position
        if (state is self._election_state and role is self._role and candidate_term_id == self._candidate_term_id
                and leads_term == self._leads_term and not was_cut):
            return POSITIONS if moved else NOTHING
        self._election_state = state
        self._role = role
        self._candidate_term_id = candidate_term_id
        self._leads_term = leads_term
        self.on_state_changed()
        return STATE

    @property
    def append_position(self):
        """End of the durable log of a live member."""
        assert self._sequencer is not None
        return self._sequencer.append_position

    @property
    def commit_position(self):
        """Of a live member."""
        assert self._sequencer is not None
        return self._sequencer.commit_position

    @property
    def leads_term(self):
        """The term whose log a live member publishes, or -1."""
        assert self._sequencer is not None
        return self._sequencer.leading_term()

    def on_failed(self, error):
        """The duty cycle raised."""
        raise error

    def on_left(self):
        """The time of a node that was told to end is over."""

    def on_state_changed(self):
        """The state of the election, the role, the term or the leadership is another one."""


cdef class Timeline:
    """Actors, planned events and a network on one virtual clock."""

    def __init__(self, VirtualClock clock not None, SimulatedNetwork network not None):
        self.clock = clock
        self.network = network
        self.actors = []
        self._events = []

    @property
    def now_ns(self):
        return self.clock.now_ns

    def at(self, int64_t delay_ns, action):
        """Runs an action once, `delay_ns` from now."""
        self._event_count += 1
        heapq.heappush(self._events, (self.clock.now_ns + delay_ns, self._event_count, action))

    def run_until(self, int64_t end_ns, int64_t stop_ns):
        """Goes from one moment at which anything happens to the next, at least once: until `end_ns`, to the first
        moment at or after `stop_ns`, or until something has failed."""
        self._turn(end_ns)
        while self.clock.now_ns < min(end_ns, stop_ns) and not self.has_failed:
            self._turn(end_ns)

    cdef int _turn(self, int64_t end_ns) except -1:
        """Goes to the next moment at which anything happens, at most to `end_ns`, and lets it happen."""
        cdef Actor actor
        cdef int changed
        cdef int64_t next_ns = self._next(end_ns)
        if next_ns > self.clock.now_ns:
            self.clock.now_ns = next_ns
        while self._events and self._events[0][0] <= next_ns:
            heapq.heappop(self._events)[2]()
        self.network.deliver()
        for actor in self.actors:
            if actor.host is not None and actor.host.has_arrivals:
                actor.wake()
            if actor.due_ns <= next_ns:
                self.steps += 1
                if actor.host is not None:
                    actor.host.has_arrivals = False
                changed = actor.run(next_ns)
                if changed == STATE:
                    self.on_changed(actor)
                elif changed == POSITIONS:
                    self.on_moved(actor)
        return 0

    cdef int64_t _next(self, int64_t end_ns):
        cdef Actor actor
        cdef int64_t next_ns = min(end_ns, self.network.next_arrival_ns)
        if self._events and self._events[0][0] < next_ns:
            next_ns = self._events[0][0]
        for actor in self.actors:
            if actor.due_ns < next_ns:
                next_ns = actor.due_ns
        return max(next_ns, self.clock.now_ns)

    def on_changed(self, actor):
        """An actor's step changed the state of its election, its role or its term, or cut its log."""

    def on_moved(self, actor):
        """An actor's step raised the positions of its log, and changed nothing else."""

    def forget_events(self):
        """Nothing planned happens any more."""
        self._events.clear()
