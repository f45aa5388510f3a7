"""Flow control: how far a sender may go, from what its receivers say (transport-wire.md §7).

One class, four rules. `unicast` and `max` keep the furthest edge any receiver named. `min` tracks each receiver and
keeps the nearest edge; `tagged` does so for the receivers that carry the group's tag.
"""

from ordo.runtime.native.atomics cimport ordo_store_release_i64

from ordo.runtime.errors import TransportError

_STRATEGIES = {"unicast": STRATEGY_UNICAST, "max": STRATEGY_MAX, "min": STRATEGY_MIN, "tagged": STRATEGY_TAGGED}

cdef enum:
    RECEIVERS_MAX = 4096               # a bound on what strangers can make a sender remember


cdef class FlowControl:
    """`strategy` is one of unicast, max, min, tagged; times in ns; `retransmit_window_multiple` bounds one resend."""

    def __init__(self, str strategy, *, int64_t receiver_timeout_ns, int64_t group_tag=-1, int32_t group_min_size=0,
                 int32_t retransmit_window_multiple=4):
        if strategy not in _STRATEGIES:
            raise TransportError(f"unknown flow control strategy fc={strategy!r}; allowed: {', '.join(_STRATEGIES)}")
        self.strategy = _STRATEGIES[strategy]
        self.receiver_timeout_ns = receiver_timeout_ns
        self.group_tag = group_tag
        self.group_min_size = group_min_size
        self.retransmit_window_multiple = retransmit_window_multiple
        self.receivers = NativeVector(sizeof(FlowReceiver), RECEIVERS_MAX)

    cdef void _publish_count(self) noexcept nogil:
        if self.receivers_counter != NULL:
            ordo_store_release_i64(self.receivers_counter, self.receivers.count)

    cdef int64_t _minimum(self) noexcept nogil:
        """Return the nearest edge of the tracked receivers; there is at least one."""
        cdef FlowReceiver* receivers = <FlowReceiver*> self.receivers.items
        cdef int64_t edge = receivers[0].edge
        cdef int64_t i
        for i in range(1, self.receivers.count):
            if receivers[i].edge < edge:
                edge = receivers[i].edge
        return edge

    cdef bint _track(self, int64_t receiver_id, int64_t edge, int32_t window, bint leaving,
                     int64_t now_ns) noexcept nogil:
        """Update or admit a receiver; return False when it is not among the tracked ones afterwards."""
        cdef FlowReceiver* receivers = <FlowReceiver*> self.receivers.items
        cdef FlowReceiver* added
        cdef int64_t i
        for i in range(self.receivers.count):
            if receivers[i].receiver_id == receiver_id:
                if edge > receivers[i].edge:
                    receivers[i].edge = edge
                receivers[i].last_heard_ns = now_ns
                receivers[i].leaving = leaving
                return True
        if leaving:
            return False
        if self.receivers.count > 0 and edge < self._minimum() - window:
            return False                            # too far behind to hold up the others
        added = <FlowReceiver*> self.receivers.try_append()
        if added == NULL:
            return False
        added.receiver_id = receiver_id
        added.edge = edge
        added.last_heard_ns = now_ns
        self.guard_deadline_ns = 0
        self._publish_count()
        return True

    cdef int64_t on_status(self, int64_t receiver_id, int64_t position, int32_t window, bint leaving, bint has_tag,
                           int64_t tag, int64_t limit, int64_t now_ns) noexcept nogil:
        """Return the new limit after a status message."""
        cdef int64_t edge = position + window
        if self.strategy <= STRATEGY_MAX:
            return edge if edge > limit else limit
        if self.strategy == STRATEGY_TAGGED and not (has_tag and tag == self.group_tag):
            if self.receivers.count == 0 and self.group_min_size == 0 and edge > limit:
                return edge
            return limit
        self._track(receiver_id, edge, window, leaving, now_ns)
        if self.receivers.count == 0 or self.receivers.count < self.group_min_size:
            return limit
        edge = self._minimum()
        if self.guard_deadline_ns != 0 and edge > self.guard_limit:
            edge = self.guard_limit
        return edge if edge > limit else limit

    cdef int64_t on_idle(self, int64_t limit, int64_t now_ns) noexcept nogil:
        """Drop receivers that left or fell silent; return the new limit, which may be lower."""
        cdef FlowReceiver* receivers = <FlowReceiver*> self.receivers.items
        cdef int64_t i, kept = 0, edge
        if self.strategy <= STRATEGY_MAX:
            return limit
        for i in range(self.receivers.count):
            if receivers[i].leaving or now_ns - receivers[i].last_heard_ns > self.receiver_timeout_ns:
                continue
            receivers[kept] = receivers[i]
            kept += 1
        if kept != self.receivers.count:
            self.receivers.truncate(kept)
            self._publish_count()
        if self.guard_deadline_ns != 0 and now_ns > self.guard_deadline_ns:
            self.guard_deadline_ns = 0
        if self.receivers.count == 0 or self.receivers.count < self.group_min_size:
            return limit
        edge = self._minimum()
        if self.guard_deadline_ns != 0 and edge > self.guard_limit:
            edge = self.guard_limit
        return edge

    cdef void on_send_setup(self, bint has_tag, int64_t tag, int64_t limit, int64_t now_ns) noexcept nogil:
        """Hold the limit when a receiver asks for SETUP, so that the newcomer can still be admitted."""
        if self.strategy <= STRATEGY_MAX or self.receivers.count == 0 or self.guard_deadline_ns != 0:
            return
        if self.strategy == STRATEGY_TAGGED and not (has_tag and tag == self.group_tag):
            return
        self.guard_limit = limit
        self.guard_deadline_ns = now_ns + self.receiver_timeout_ns

    cdef void on_error(self, int64_t receiver_id) noexcept nogil:
        cdef FlowReceiver* receivers = <FlowReceiver*> self.receivers.items
        cdef int64_t i
        for i in range(self.receivers.count):
            if receivers[i].receiver_id == receiver_id:
                receivers[i].leaving = True

    cdef bint has_required_receivers(self) noexcept nogil:
        return self.strategy <= STRATEGY_MAX or self.receivers.count >= self.group_min_size

    # --- for tests and tools ----------------------------------------------------------------------------------------

    def status(self, int64_t receiver_id, int64_t position, int32_t window, *, int64_t limit, int64_t now_ns,
               bint leaving=False, tag=None):
        """Call `on_status` from Python, with `tag` None for an untagged message."""
        return self.on_status(receiver_id, position, window, leaving, tag is not None, tag or 0, limit, now_ns)

    def idle(self, int64_t limit, int64_t now_ns):
        return self.on_idle(limit, now_ns)

    def send_setup(self, int64_t limit, int64_t now_ns, tag=None):
        self.on_send_setup(tag is not None, tag or 0, limit, now_ns)

    def error(self, int64_t receiver_id):
        self.on_error(receiver_id)

    @property
    def tracks_receivers(self):
        """min and tagged follow each receiver, the others do not."""
        return self.strategy >= STRATEGY_MIN

    @property
    def receiver_count(self):
        return self.receivers.count

    @property
    def satisfied(self):
        """Whether the receivers a connection needs are there."""
        return self.has_required_receivers()
