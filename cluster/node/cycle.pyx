"""The duty cycle of a node: driver, archive, consensus module and an inline service on one thread."""

from ordo.runtime.agents.wake cimport PARK_FUTEX
from ordo.transport.driver.frames.system_counters cimport CYCLE_THRESHOLD_NS

cdef enum:
    SLOW_TICK_NS = 10000000
    HEARTBEAT_WORK_MAX = 512           # bytes and messages that heartbeats of members may make in a duty cycle
    IDLE_TICK_NS = 50000000            # at most, of a follower, or a leader to which nothing came since the last tick
    QUICK_TICK_NS = 1000000            # while a candidacy, a join or a request is under way
    SHARED_PARK_NS_MIN = 50000         # beside a driver of its own process, which wakes nobody
    SHARED_PARK_NS_MAX = 1000000


cdef class NodeCycle(Agent):
    def __init__(self, MediaDriver driver, Archive archive, module, client, list containers not None, Clock clock, tick,
                 int64_t spins_max, LogSamples samples not None, ParkFlag park_flag=None):
        self.driver = driver
        self.archive = archive
        self.sequencer = module.sequencer
        self.module = module
        self.member = module.member
        self.client = client
        self.containers = containers
        self.idle_tick_ns = max(SLOW_TICK_NS, min(IDLE_TICK_NS, <int64_t> module.base.config.leader_heartbeat_interval_ns))
        self.clock = clock
        self.cluster_clock = module.member.clock_watch.clock
        self.max_cycle_time = module.counters.max_cycle_time
        self.cycles_exceeded = module.counters.cycles_exceeded
        self.tick = tick
        self.spinning = Spinning(spins_max)
        self.samples = samples
        self.park_flag = park_flag
        self.park_ns = SHARED_PARK_NS_MIN

    @property
    def role_name(self):
        return f"node-{self.member.member_id}"

    cpdef int do_work(self, int64_t now_ns) except -1:
        cdef Sequencer sequencer = self.sequencer
        cdef MediaDriver driver = self.driver
        cdef LogSamples samples = self.samples
        cdef LogTraces traces = sequencer.traces
        cdef ContainerLoop container
        cdef int64_t cluster_time
        cdef int work = 0
        cdef bint has_looked = self.skips_left == 0
        if traces is not None:
            traces.cycle_ns = now_ns
        if driver is not None:
            if has_looked:
                driver.look(now_ns)
            work += driver.receive_work(now_ns)
        work += sequencer.poll_consensus(now_ns)
        self.cluster_clock.note_record(sequencer.last_timestamp, now_ns)
        if self.cluster_clock.time(now_ns) >= self.cluster_clock.alarm:
            self.module.fire_timers()
            work += 1
        cluster_time = self.cluster_clock.hold(now_ns)    # also of what else is appended while messages are taken
        work += sequencer.poll_ingress(now_ns, cluster_time)
        self.cluster_clock.release()
        if now_ns >= samples.next_ns and sequencer.appended_position != samples.position:
            samples.take(sequencer.appended_position, now_ns)
        if driver is not None:
            work += driver.conduct_and_send_work(now_ns)
        if traces is not None and traces.is_under_way:
            traces.send()
        work += self.archive.record_work(now_ns)
        if sequencer.follower_traces is not None:
            sequencer.note_traces(now_ns)
        work += self._update_positions(now_ns)
        work += self._serve_readers(now_ns)
        sequencer.wake_containers()
        work += sequencer.poll_service()
        for container in self.containers:
            work += container.cycle(now_ns)
        if work and driver is not None:
            work += driver.send_work(now_ns)
        elif work:
            self.client.wake_driver()
        if sequencer.follower_traces is not None and sequencer.follower_traces.has_unsent:
            sequencer.follower_traces.send()
        # What this cycle did may leave more to do that no socket tells of: the next one looks for that alone.
        self.skips_left = 1 if work and has_looked else 0
        if work > HEARTBEAT_WORK_MAX:
            self.has_worked = True
        self._rare_work(now_ns)
        return work

    cdef int _update_positions(self, int64_t now_ns) except -1:
        """Moves the positions of the log, and notes how far the messages that are measured have come."""
        cdef Sequencer sequencer = self.sequencer
        cdef LogSamples samples = self.samples
        cdef LogTraces traces = sequencer.traces
        cdef int64_t looked_ns = 0
        cdef bint is_leading
        cdef int work
        if samples.is_under_way or (traces is not None and traces.is_under_way):
            looked_ns = self.clock.nano_time()        # before a service elsewhere is woken, and goes on from there
        work = sequencer.update_positions(now_ns)
        if looked_ns:
            is_leading = sequencer.leading_term() >= 0
            samples.look(sequencer.append_position, sequencer.commit_position, is_leading, looked_ns)
            if traces is not None:
                traces.look(sequencer.append_position, sequencer.commit_position, is_leading, looked_ns)
        return work

    cdef int _serve_readers(self, int64_t now_ns) except -1:
        """Send what is committed to those that follow the log. A container that was woken before would take the processor."""
        cdef int work = self.archive.replay_work(now_ns)
        if work and self.driver is not None:
            self.driver.send_work(now_ns)
        return work

    cdef int64_t deadline_ns(self) noexcept nogil:
        cdef int64_t due_ns = min(self.next_tick_ns, self.sequencer.due_ns(), self.sequencer.quotas.due_ns)
        return min(due_ns, self.cluster_clock.alarm_ns())

    cdef int _rare_work(self, int64_t now_ns) except -1:
        """The slow tick when it is due. What the driver has to tell, new images above all, does not wait for it."""
        if self.sequencer.wants_tick and self.next_tick_ns > now_ns + QUICK_TICK_NS:
            self.next_tick_ns = now_ns + QUICK_TICK_NS
        if now_ns >= self.next_tick_ns or self.archive.needs_attention():
            return self._slow_tick(now_ns)
        if self.client.has_news():
            self.client.do_work(now_ns)
            if not self.sequencer.is_steady:
                self.sequencer.request_tick()     # it may be the log that this member joins
        return 0

    cdef int _slow_tick(self, int64_t now_ns) except -1:
        self.sequencer.take_tick_request()
        self.client.do_work(now_ns)
        self.archive.do_work(now_ns)
        self.module.slow_tick(now_ns)
        self.sequencer.wake_containers()
        self.tick(now_ns)
        if self.module.wants_quick_ticks():
            self.next_tick_ns = now_ns + QUICK_TICK_NS
        elif not self.sequencer.is_steady or (self.member.is_leader and (self.has_worked or self.module.has_timers)):
            self.next_tick_ns = now_ns + SLOW_TICK_NS
        else:
            self.next_tick_ns = now_ns + self.idle_tick_ns
        self.has_worked = False
        return 0

    def run(self):
        """Duty cycles until the module has ended; idles by spinning a little, then parked on the sockets."""
        while not self.member.has_ended:
            if not self.work() and not self._spin():
                self.rest()

    cpdef bint work(self) except -1:
        """One duty cycle at the present time. Returns False when the thread may rest before the next one."""
        cdef int64_t now_ns = self.clock.nano_time()
        self._note_cycle(now_ns)
        self.worked_ns = now_ns
        if not self.do_work(now_ns):
            return False
        self.spinning.note(self.sequencer.append_position + self.sequencer.commit_position, now_ns)
        self.park_ns = SHARED_PARK_NS_MIN
        return True

    cdef bint _spin(self) except -1:
        """Gives the core away for a moment where something is likely to come soon. Returns False where the thread should
        rest."""
        if self.spinning.turns_left == 0:
            return False
        self._note_cycle(self.clock.nano_time())
        self.worked_ns = 0
        with nogil:
            return self.spinning.take()

    cpdef int rest(self) except -1:
        """Waits for datagrams, for a wake-up, or until something is due by time."""
        cdef int64_t timeout_ns = self.deadline_ns() - self.worked_ns
        self._note_cycle(self.clock.nano_time())
        if timeout_ns > 0 and self.driver is not None:
            with nogil:
                self.driver.park_until(self.worked_ns, timeout_ns)
        elif timeout_ns > 0:
            self._rest_beside_driver(timeout_ns)
        self.worked_ns = 0
        return 0

    cdef void _note_cycle(self, int64_t ended_ns) noexcept nogil:
        """The cycle that began at `worked_ns` has ended, and there was no rest since (cluster-consensus.md §18)."""
        cdef int64_t cycle_ns = ended_ns - self.worked_ns
        if self.worked_ns == 0:
            return
        self.max_cycle_time.propose_max(cycle_ns)
        if cycle_ns > CYCLE_THRESHOLD_NS:
            self.cycles_exceeded.add(1)

    cdef int _rest_beside_driver(self, int64_t timeout_ns) except -1:
        """Beside a driver elsewhere: sleeps, longer each time, unless a sync completes."""
        self.client.wake_driver()
        if self.park_ns < timeout_ns:
            timeout_ns = self.park_ns
        with nogil:
            self.park_flag.announce(PARK_FUTEX)
            self.park_flag.wait_futex(timeout_ns)
            self.park_flag.awake()
        self.park_ns = min(2 * self.park_ns, SHARED_PARK_NS_MAX)
        return 0
