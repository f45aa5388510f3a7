"""What clients do not take, kept beside the service. See outbox.pxd and docs/CLIENT.md, Slow clients.

A service never waits for a client: what the egress of a session does not take at once is kept here, in order, and sent
by later duty cycles as room comes. Beyond the bound of a session, or of all of them, its policy applies: it is given up
(`disconnect`: the default), or loses its oldest message and is told how many it has lost (`drop-oldest`).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from ordo.service_api.native cimport ADMIN_ACTION, BACK_PRESSURED, CLOSED, KEPT, MESSAGE_TOO_LONG, NOT_CONNECTED
from ordo.transport.streams.publication cimport Publication

from collections import deque

cdef enum:
    ADMIN_ACTION_ATTEMPTS = 3          # the position after a term's end is free as soon as the term has rotated
    MESSAGE_OVERHEAD_BYTES = 64        # of a kept message, whatever its length

SESSION_BYTES_MAX_DEFAULT = 8 << 20
TOTAL_BYTES_MAX_DEFAULT = 256 << 20


cdef class EgressBuffers:
    def __init__(self, encode_gap, int64_t session_bytes_max=SESSION_BYTES_MAX_DEFAULT,
                 int64_t total_bytes_max=TOTAL_BYTES_MAX_DEFAULT):
        """`encode_gap(session_id, count)` is the message that tells a client how many are missing here."""
        self._encode_gap = encode_gap
        self.session_bytes_max = session_bytes_max
        self.total_bytes_max = total_bytes_max
        self._waiting = {}
        self._slow = []

    @property
    def keeps(self):
        """True while a session has messages that it did not take yet."""
        return len(self._waiting) > 0

    @property
    def has_slow(self):
        """True when `take_slow` has something."""
        return len(self._slow) > 0

    def take_slow(self):
        """Ids of the sessions given up since the last call."""
        slow, self._slow = self._slow, []
        return slow

    cdef int drain(self) except -1:
        """Sends what was kept as far as there is room; the number of messages."""
        cdef int count = 0
        cdef Outbox outbox
        for outbox in list(self._waiting.values()):
            count += outbox.drain()
        return count

    cdef Outbox _find_largest(self):
        """Of those that can be given up; None when there are none."""
        cdef Outbox outbox, largest = None
        for outbox in self._waiting.values():
            if not outbox.drops_oldest and (largest is None or outbox.kept_bytes > largest.kept_bytes):
                largest = outbox
        return largest


cdef class Outbox:
    def __init__(self, EgressBuffers buffers not None, int64_t session_id, bint drops_oldest):
        self._buffers = buffers
        self.session_id = session_id
        self.drops_oldest = drops_oldest

    cdef int64_t send(self, const uint8_t* header, int64_t header_length, const uint8_t* payload,
                      int64_t length_bytes) noexcept nogil:
        cdef int64_t result = BACK_PRESSURED
        if self.publication is None:
            return NOT_CONNECTED
        if header_length + length_bytes > self.publication.max_message_length:
            return MESSAGE_TOO_LONG
        if not self._keeps:
            result = self._append(header, header_length, payload, length_bytes)
        if result == BACK_PRESSURED or result == ADMIN_ACTION:
            with gil:
                result = self._keep(header, header_length, payload, length_bytes)
        return result

    cdef int64_t _append(self, const uint8_t* header, int64_t header_length, const uint8_t* payload,
                         int64_t length_bytes) noexcept nogil:
        cdef int64_t result = ADMIN_ACTION
        cdef int attempt = 0
        while result == ADMIN_ACTION and attempt < ADMIN_ACTION_ATTEMPTS:
            result = self.publication.append(header, header_length, payload, length_bytes)
            attempt += 1
        return result

    cdef int64_t _keep(self, const uint8_t* header, int64_t header_length, const uint8_t* payload,
                       int64_t length_bytes) noexcept:
        cdef bytes message
        try:
            message = PyBytes_FromStringAndSize(NULL, header_length + length_bytes)
            memcpy(PyBytes_AS_STRING(message), header, header_length)
            memcpy(PyBytes_AS_STRING(message) + header_length, payload, length_bytes)
            return self._keep_message(message)
        except MemoryError:
            return BACK_PRESSURED

    cdef int64_t _keep_message(self, bytes message) except -100:
        cdef EgressBuffers buffers = self._buffers
        cdef int64_t cost = PyBytes_GET_SIZE(message) + MESSAGE_OVERHEAD_BYTES
        cdef Outbox largest
        if self.drops_oldest:
            while self._keeps and (self.kept_bytes + cost > buffers.session_bytes_max
                                   or buffers.kept_bytes + cost > buffers.total_bytes_max):
                self._drop_oldest()
        elif self.kept_bytes + cost > buffers.session_bytes_max:
            self._give_up()
            return CLOSED
        while buffers.kept_bytes + cost > buffers.total_bytes_max:
            largest = buffers._find_largest()
            if largest is None or largest.kept_bytes <= self.kept_bytes:
                largest = self
            largest._give_up()
            if largest is self:
                return CLOSED
        if self._messages is None:
            self._messages = deque()
        self._messages.append(message)
        self._keeps = True
        self.kept_bytes += cost
        buffers.kept_bytes += cost
        buffers._waiting[self.session_id] = self
        return KEPT

    cdef int drain(self) except -1:
        cdef int count = 0
        cdef bytes message
        cdef int64_t result
        while self._keeps:
            message = self._messages[0] if self._gap == 0 else self._buffers._encode_gap(self.session_id, self._gap)
            result = self._append(<const uint8_t*> PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message), NULL, 0)
            if result == BACK_PRESSURED or result == ADMIN_ACTION:
                break
            if result < 0:                   # the client is gone: a session's egress does not come back
                self._clear()
            elif self._gap:
                self._gap = 0
            else:
                self._take_oldest()
                count += 1
        return count

    cdef int _drop_oldest(self) except -1:
        self._take_oldest()
        self._gap += 1
        self._buffers.messages_dropped += 1
        return 0

    def _take_oldest(self):
        cdef int64_t cost = PyBytes_GET_SIZE(<bytes> self._messages.popleft()) + MESSAGE_OVERHEAD_BYTES
        self.kept_bytes -= cost
        self._buffers.kept_bytes -= cost
        if not self._messages:
            self._keeps = False
            del self._buffers._waiting[self.session_id]

    cdef int _clear(self) except -1:
        if self._keeps:
            self._messages.clear()
            self._keeps = False
            self._buffers.kept_bytes -= self.kept_bytes
            self.kept_bytes = 0
            del self._buffers._waiting[self.session_id]
        self._gap = 0
        return 0

    cdef int connect(self, Publication publication) except -1:
        """Sends through a publication from now on; None disconnects. What is kept was for the one before."""
        if publication is not self.publication:
            self._clear()
        self.publication = publication
        return 0

    cdef int _give_up(self) except -1:
        """The client takes too little: nothing more is sent or kept."""
        self._clear()
        self.publication = None
        self._buffers._slow.append(self.session_id)
        return 0
