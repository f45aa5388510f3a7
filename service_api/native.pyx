"""The base for services written in Cython: the message callback works without Python objects."""

from cpython.bytes cimport PyBytes_FromStringAndSize

from ordo.runtime.payloads import to_bytes

cdef class NativeSession:
    def __init__(self, int64_t id=-1):
        self.id = id

    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil:
        return NOT_CONNECTED

    cdef int reply_native(self, const uint8_t* payload, int64_t length_bytes) except -1:
        raise NotImplementedError(f"{type(self).__name__} answers no messages")


cdef class SinkSession(NativeSession):
    def __init__(self, int64_t id, sink):
        super().__init__(id)
        self.sink = sink

    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil:
        cdef int64_t result = CLOSED
        with gil:
            result = self._offer(payload, length_bytes)
        return result

    cdef int reply_native(self, const uint8_t* payload, int64_t length_bytes) except -1:
        self.reply(PyBytes_FromStringAndSize(<const char*> payload, length_bytes))
        return 0

    def reply(self, payload):
        """Answer the message being executed; answers go where offers go."""
        self.sink(self, to_bytes(payload, "what session.reply is given"))

    cdef int64_t _offer(self, const uint8_t* payload, int64_t length_bytes) noexcept:
        try:
            return self.sink(self, PyBytes_FromStringAndSize(<const char*> payload, length_bytes))
        except Exception as error:
            self.error = error
            return CLOSED


cdef class Header:
    def __init__(self, int64_t position=0, int64_t leadership_term_id=-1, int64_t sequence=0, arrival_ns=None):
        self.update(position, leadership_term_id, sequence, arrival_ns)

    def update(self, int64_t position, int64_t leadership_term_id, int64_t sequence=0, arrival_ns=None):
        """Point the flyweight at the next record; for whoever runs the service."""
        self.position = position
        self.leadership_term_id = leadership_term_id
        self.sequence = sequence
        self.arrival = 0 if arrival_ns is None else arrival_ns

    @property
    def arrival_ns(self):
        """When the message arrived at the socket of the leader that appended it, by that machine's clock, in ns since
        1970: as the log has it, so the same on all members. None: the log does not say."""
        return self.arrival if self.arrival > 0 else None

    def __repr__(self):
        return (f"Header(position={self.position}, leadership_term_id={self.leadership_term_id}, "
                f"sequence={self.sequence}, arrival_ns={self.arrival_ns})")


cdef class MessageSequence:
    def __init__(self):
        self.is_counting = True

    def next(self):
        """Return the number of the next message; 0: it has none."""
        return self.take()

    def keep(self, int64_t position):
        """Execute the record that brought the protocol level of such numbers, and ends at a position. Idempotent."""
        if not self.is_counting:
            self.is_counting, self.last = True, position
        self.is_kept = True

    def pass_snapshot(self):
        """Execute the record at which members take a snapshot: below the protocol level it holds no number."""
        if not self.is_kept:
            self.is_counting, self.last = False, 0

    def restore(self, int64_t last, bint is_kept):
        """Go on from a snapshot that holds the last number, or below 0 if it holds none."""
        self.is_counting = last >= 0
        self.last, self.is_kept = max(last, 0), is_kept

    def snapshot(self):
        """Return the last number, -1 where messages have none, and whether the log has the protocol level."""
        return (self.last if self.is_counting else -1), self.is_kept


cdef class NativeClusteredService:
    cdef int on_message(self, NativeSession session, int64_t timestamp, const uint8_t* payload, int64_t length_bytes,
                        int64_t position) except -1:
        raise NotImplementedError(f"{type(self).__name__} must implement `cdef int on_message(...) except -1`")

    def on_session_message(self, NativeSession session, int64_t timestamp, const uint8_t[::1] payload, header):
        """Execute a message for callers in Python, such as `ordo.service_api.testing.harness.ServiceHarness`."""
        cdef const uint8_t* data = &payload[0] if payload.shape[0] > 0 else NULL
        self.on_message(session, timestamp, data, payload.shape[0], header.position)

    def on_start(self, cluster, snapshot):
        """Start; called once, before any other callback. Restore the state from `snapshot` when there is one."""

    def on_session_open(self, session, timestamp):
        """Handle the opening of a client's session."""

    def on_session_close(self, session, timestamp, close_reason):
        """Handle the closing of a session, which is no longer in `cluster.client_sessions`."""

    def on_timer_event(self, correlation_id, timestamp):
        """Handle a timer that fired."""

    def on_query(self, payload):
        """Answer a client's query from the state, without changing the state."""
        raise NotImplementedError("the service answers no queries")

    def on_take_snapshot(self, writer):
        """Write the whole state, with the same bytes for the same state; `on_start` gets it back."""

    def state_hash(self):
        """Return a hash of the whole state, cheap to compute, the same bytes for the same state; called where
        overridden."""
        raise NotImplementedError(f"{type(self).__name__} has no state_hash")

    def on_role_change(self, role):
        """Handle the change of this member's role to leader or follower. Not part of the state machine: members
        differ."""

    def on_terminate(self, cluster):
        """Stop; the last callback of a service that was started."""

    def on_new_leadership_term(self, event):
        """Handle the first record of a leadership term."""

    def on_time_unit(self, former, unit):
        """Convert the times of the state from one unit to a finer one; called where overridden."""
        raise NotImplementedError(f"{type(self).__name__} has no on_time_unit")

    def do_background_work(self, now_ns):
        """Do background work, in every duty cycle, given the monotonic clock. Not part of the state machine. Returns >
        0 if work was done."""
        return 0
