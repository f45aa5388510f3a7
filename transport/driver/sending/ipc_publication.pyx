"""A publication through shared memory only (log-buffer.md §6): subscribers read the publisher's own log."""

from ordo.runtime.native.atomics cimport ordo_load_acquire_i64, ordo_store_release_i64
from ordo.runtime.native.counters cimport Counter
from ordo.transport.driver.frames.frames cimport COUNTER_PUBLICATIONS_REVOKED, COUNTER_UNBLOCKED_PUBLICATIONS
from ordo.transport.driver.frames.pointers cimport pointer_at
from ordo.transport.driver.frames.system_counters cimport count_event
from ordo.transport.streams.unblock cimport unblock_log

cdef enum:
    PUBLICATION_ACTIVE = 0
    PUBLICATION_DRAINING = 1
    PUBLICATION_LINGER = 2
    PUBLICATION_DONE = 3
    CLEAN_TURNS = 4

STATE_NAMES = ("ACTIVE", "DRAINING", "LINGER", "DONE")


cdef class IpcPublication:
    """`parameters` is a PublicationParameters; `counters` holds pub-pos and pub-lmt by these names; times in ns."""

    def __init__(self, *, LogBuffers log not None, SystemCounters system not None, int64_t registration_id,
                 int64_t client_id, bint is_exclusive, parameters, dict counters, int64_t start_position,
                 int64_t unblock_timeout_ns, int64_t now_ns):
        self.log = log
        self.system = system
        self.subscribers = PointerArray()
        self.session_id = log.session_id
        self.stream_id = log.stream_id
        self.registration_id = registration_id
        self.client_id = client_id
        self.is_exclusive = is_exclusive
        self.parameters = parameters
        self.counters = counters
        self.window = parameters.window_length
        self.linger_timeout_ns = parameters.linger_timeout_ns
        self.position_cell = (<Counter> counters["pub-pos"]).address
        self.limit_cell = (<Counter> counters["pub-lmt"]).address
        self.consumer_position = self.clean_position = self.trip_limit = start_position
        self.unblock_position = start_position
        self.unblock_timeout_ns = unblock_timeout_ns
        self.unblock_changed_ns = self.state_changed_ns = now_ns

    cdef int conduct(self, int64_t now_ns) noexcept nogil:
        """Move the publisher's limit and clean the log behind the slowest subscriber; return 1 when the limit moved."""
        cdef int64_t producer, least, position, limit
        cdef int i, turns = 0
        if self.state != PUBLICATION_ACTIVE:
            return 0
        producer = self.log.producer_position()
        if producer != self.position_cell[0]:
            ordo_store_release_i64(self.position_cell, producer)
        if self.subscribers.count == 0:
            if self.limit_cell[0] > self.consumer_position:
                ordo_store_release_i64(self.limit_cell, self.consumer_position)
                self.trip_limit = self.consumer_position
                return 1
            return 0
        least = producer                               # nobody has read what was not written, whatever a counter says
        for i in range(self.subscribers.count):
            position = ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i))
            least = position if position < least else least
            self._consumed(position)
        least &= ~<int64_t> 31
        limit = least + self.window
        if limit <= self.trip_limit:
            return 0
        while self.clean_position < least and turns < CLEAN_TURNS:
            self.clean_position = self.log.clean(self.clean_position, least)
            turns += 1
        if (limit + self.log.term_length / 4 > self.log.reserved_position
                and not self.log.reserve(limit + self.log.term_length / 4)):
            return 0                                   # no room in shared memory: the producer waits
        ordo_store_release_i64(self.limit_cell, limit)
        self.trip_limit = limit + self.window / 8
        return 1

    cdef void _consumed(self, int64_t position) noexcept nogil:
        """Take a subscriber's position; it is believed only up to what was written."""
        position &= ~<int64_t> 31
        if position > self.consumer_position and position <= self.log.producer_position():
            self.consumer_position = position

    cdef bint has_unread(self) noexcept nogil:
        """Return whether a subscriber is behind the publisher, so that its progress has to be polled."""
        cdef int i
        cdef int64_t producer
        if self.state == PUBLICATION_DONE or self.subscribers.count == 0:
            return False
        producer = self.log.producer_position()
        for i in range(self.subscribers.count):
            if ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i)) < producer:
                return True
        return False

    cdef bint has_moved(self) noexcept nogil:
        """Return whether something was appended since the last turn."""
        return self.state == PUBLICATION_ACTIVE and self.log.producer_position() != self.position_cell[0]

    # --- life (Python, rare) --------------------------------------------------------------------------------------

    @property
    def subscriber_count(self):
        return self.subscribers.count

    @property
    def state_name(self):
        return STATE_NAMES[self.state]

    @property
    def is_active(self):
        return self.state == PUBLICATION_ACTIVE

    @property
    def is_draining(self):
        return self.state == PUBLICATION_DRAINING

    @property
    def untethered_limit(self):
        """Late is who has not passed this: the fastest subscriber less three quarters of the window."""
        return self.consumer_position - self.window + self.window / 4

    @property
    def accepts_subscriptions(self):
        """Whether a further subscriber may join: none after a rejection, and while draining only if something is unread."""
        if self.state == PUBLICATION_DRAINING:
            return not self.log.is_revoked() and not self.subscribers_have_drained()
        return self.state == PUBLICATION_ACTIVE and self.rejected_until_ns == 0

    @property
    def join_position(self):
        """Where a further subscriber begins: the slowest other one, else the consumption so far."""
        cdef int i
        cdef int64_t position = self.consumer_position
        for i in range(self.subscribers.count):
            position = min(position, ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i)))
        return max(position & ~31, self.clean_position)

    def add_subscriber(self, Counter position not None):
        self.subscribers.add(position.address)
        self.log.set_connected(self.state == PUBLICATION_ACTIVE)

    def remove_subscriber(self, Counter position not None):
        cdef int64_t gone = ordo_load_acquire_i64(position.address)
        self.subscribers.remove(position.address)
        self._consumed(gone)
        if self.subscribers.count == 0:
            self.log.set_connected(False)

    def subscribers_have_drained(self):
        cdef int i
        cdef int64_t producer = self.log.producer_position()
        for i in range(self.subscribers.count):
            if ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i)) < producer:
                return False
        return True

    def reject(self, int64_t until_ns):
        """Take no subscribers until then; those that there are have to be removed."""
        self.rejected_until_ns = until_ns

    def begin_draining(self, int64_t now_ns, bint revoke=False):
        """Begin draining: the last client link is gone, so that no more data comes."""
        cdef int64_t producer = self.log.producer_position()
        if self.state != PUBLICATION_ACTIVE:
            return
        self.state = PUBLICATION_DRAINING
        self.state_changed_ns = now_ns
        ordo_store_release_i64(self.position_cell, producer)
        ordo_store_release_i64(self.limit_cell, producer)
        self.log.set_end_of_stream_position(producer)
        if revoke:
            self.log.set_revoked()
            count_event(self.system, COUNTER_PUBLICATIONS_REVOKED, 1)

    def on_time_event(self, int64_t now_ns, int64_t epoch_ms):
        """Carry out changes of state that are due by now. Returns the name of the state that was entered, or None."""
        if self.state == PUBLICATION_ACTIVE:
            self.log.set_connected(self.subscribers.count > 0)
            if not self.is_exclusive:
                self._check_unblock(now_ns)
            if self.rejected_until_ns != 0 and now_ns >= self.rejected_until_ns:
                self.rejected_until_ns = 0
                return STATE_NAMES[PUBLICATION_ACTIVE]
        elif self.state == PUBLICATION_DRAINING:
            if self.log.is_revoked() or self.subscribers_have_drained():
                return self._enter(PUBLICATION_LINGER, now_ns)
            if self.consumer_position < self.log.producer_position():
                self._track_consumer()
                self._unblock()
        elif self.state == PUBLICATION_LINGER:
            if self.subscribers.count == 0 or now_ns - self.state_changed_ns >= self.linger_timeout_ns:
                return self._enter(PUBLICATION_DONE, now_ns)
        return None

    def _track_consumer(self):
        cdef int i
        for i in range(self.subscribers.count):
            self._consumed(ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i)))

    def _enter(self, int state, int64_t now_ns):
        self.state = state
        self.state_changed_ns = now_ns
        return STATE_NAMES[state]

    def _check_unblock(self, int64_t now_ns):
        if self.consumer_position != self.unblock_position or \
                self.log.producer_position() <= self.consumer_position:
            self.unblock_position = self.consumer_position
            self.unblock_changed_ns = now_ns
        elif now_ns - self.unblock_changed_ns > self.unblock_timeout_ns:
            self._unblock()
            self.unblock_changed_ns = now_ns

    def _unblock(self):
        if unblock_log(self.log, self.consumer_position):
            count_event(self.system, COUNTER_UNBLOCKED_PUBLICATIONS, 1)
