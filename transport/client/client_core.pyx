"""The native part of the transport client: what runs in every duty cycle."""

from ordo.runtime.native.atomics cimport ordo_store_release_i64
from ordo.runtime.native.counters cimport COUNTER_REFERENCE_WORD, CountersReader


cdef class ClientCore(Agent):
    """Base of TransportClient, which implements `_service(now_ns) -> work count`."""

    cpdef int do_work(self, int64_t now_ns) except -1:
        """Run one duty cycle: responses of the driver, image callbacks, keepalive and lingering logs."""
        if self._receiver is None:
            return self._rest()
        if now_ns < self._next_chore_ns and not self._pending_callbacks and not self._receiver.has_message():
            return 0
        return self._service(now_ns)

    cdef bint has_news(self) noexcept nogil:
        return self._receiver is not None and (self._pending_callbacks or self._receiver.has_message())

    def wake_driver(self) -> None:
        """Wake the driver if it is parked; call this once per batch after writing into log buffers."""
        if self.waker is not None:
            self.waker.wake()

    # --- for the subclass -------------------------------------------------------------------------------------------

    def _attach(self, BroadcastReceiver receiver, Waker waker) -> None:
        self._receiver = receiver
        self.waker = waker

    def _set_waker(self, Waker waker) -> None:
        self.waker = waker

    def _set_next_chore(self, int64_t deadline_ns) -> None:
        self._next_chore_ns = deadline_ns

    def _set_pending_callbacks(self, bint pending) -> None:
        self._pending_callbacks = pending

    def _rest(self):
        """Run a duty cycle of a client that has ended."""
        return 0

    def _service(self, now_ns):
        raise NotImplementedError(type(self).__name__)


cdef class ClientCounter(Counter):
    """A counter whose value lives in the driver's counters file; this client alone writes it."""

    def __init__(self):
        raise TypeError("a ClientCounter is made by TransportClient.add_counter")

    def refer_to(self, int64_t reference_id) -> None:
        """Say which resource the counter is of, by its registration id."""
        ordo_store_release_i64(self.address + COUNTER_REFERENCE_WORD, reference_id)

    def close(self) -> None:
        """Give the counter back to the driver. Idempotent. Do not write it any more."""
        if not self.closed:
            self.closed = True
            self._client.on_counter_closed(self)

    def force_close(self) -> None:
        """Close without telling the driver."""
        self.closed = True


def make_client_counter(CountersReader counters not None, int counter_id, int64_t registration_id, client):
    """Return the ClientCounter of an allocated counter."""
    cdef Counter found = counters.counter(counter_id)
    cdef ClientCounter counter = ClientCounter.__new__(ClientCounter)
    counter.address = found.address
    counter.counter_id = found.counter_id
    counter._owner = found._owner
    counter.registration_id = registration_id
    counter._client = client
    return counter
