"""Datagrams of several streams that leave the same socket. See gathered_sends.pxd.

Of each stream there is at most one item, so its datagrams keep their order; between streams there is none.
"""

from ordo.transport.driver.frames.frames cimport *
from ordo.transport.driver.frames.system_counters cimport count_event


cdef class GatheredSends:
    """What the publications of one turn of the sender have to send. It is empty between turns."""

    def __init__(self, SystemCounters system not None):
        self._system = system

    cdef bint has_room(self) noexcept nogil:
        return self._count < GATHERED_MAX

    cdef void add(self, SentStream stream, const SendItem* item, int64_t position_after,
                  const SocketAddress* to) noexcept nogil:
        """Keep an item of a stream, which takes it to a position. There must be room."""
        cdef int at = self._count
        self._sends[at].stream = <void*> stream
        self._sends[at].item = item[0]
        self._sends[at].item.to = to
        self._sends[at].position_after = position_after
        self._sends[at].next = -1
        if stream.endpoint.gathered_count == 0:
            stream.endpoint.gathered_first = at
            self._endpoints[self._endpoint_count] = <void*> stream.endpoint
            self._endpoint_count += 1
        else:
            self._sends[stream.endpoint.gathered_last].next = at
        stream.endpoint.gathered_last = at
        stream.endpoint.gathered_count += 1
        self._count += 1

    cdef void flush(self, int64_t now_ns) noexcept nogil:
        """Send what was gathered."""
        cdef int i
        for i in range(self._endpoint_count):
            self.flush_endpoint(<SendEndpoint> self._endpoints[i], now_ns)
        self._count = self._endpoint_count = 0

    cdef int64_t take_unsent(self) noexcept nogil:
        """Return how many bytes full socket buffers have left to the next turn, and count from 0 again."""
        cdef int64_t unsent_bytes = self._unsent_bytes
        self._unsent_bytes = 0
        return unsent_bytes

    cdef void flush_endpoint(self, SendEndpoint endpoint, int64_t now_ns) noexcept nogil:
        """Send what was gathered for one socket; what is sent there next comes behind it."""
        cdef SendItem items[GATHERED_MAX]
        cdef GatheredSend* gathered
        cdef int i, sent, at = endpoint.gathered_first, count = endpoint.gathered_count
        if count == 0:
            return
        endpoint.gathered_count = 0
        for i in range(count):
            items[i] = self._sends[at].item
            at = self._sends[at].next
        sent = endpoint.transmit_all(items, count)
        at = endpoint.gathered_first
        for i in range(count):
            gathered = &self._sends[at]
            if i < sent:
                (<SentStream> gathered.stream).advance(gathered.position_after, gathered.item.length_bytes, now_ns)
            else:
                count_event(self._system, COUNTER_SHORT_SENDS, 1)
                self._unsent_bytes += gathered.item.length_bytes
                (<SentStream> gathered.stream).on_idle(now_ns)
            at = gathered.next
