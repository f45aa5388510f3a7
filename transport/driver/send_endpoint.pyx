"""Where a publication's datagrams leave (transport-wire.md §4.1, §9)."""

from libc.stdlib cimport free, realloc
from libc.string cimport memset

from runtime.atomics cimport ordo_store_release_i64
from runtime.counters cimport Counter
from transport.driver.frames cimport address_port, load_address, same_address

cdef extern from "<errno.h>" nogil:
    int EAGAIN

from runtime.errors import TransportError

_MODES = {"single": MODE_SINGLE, "manual": MODE_MANUAL, "dynamic": MODE_DYNAMIC}


cdef class SendEndpoint:
    """`channel` sends, `control` receives status messages and NAKs; the same one but for multicast."""

    def __init__(self, spec, DatagramChannel channel not None, DatagramChannel control not None, *, str mode,
                 bint group_semantics, int64_t destination_timeout_ns, int ttl=0):
        self.spec = spec
        self.connected_to = spec.endpoint
        self.channel = channel
        self.control = control
        self.mode = _MODES[mode]
        self.has_group_semantics = group_semantics
        self.destination_timeout_ns = destination_timeout_ns
        self.ttl = ttl
        self.publications = PointerMap()

    def __dealloc__(self):
        free(self.destinations)

    def retain(self):
        self.reference_count += 1

    def release(self):
        """True when the last publication is gone."""
        self.reference_count -= 1
        return self.reference_count == 0

    @property
    def is_manual(self):
        return self.mode == MODE_MANUAL

    @property
    def is_multi_destination(self):
        return self.mode != MODE_SINGLE

    def set_destinations_counter(self, Counter counter not None):
        """mdc-num-dest: the number of destinations."""
        self.destinations_counter = counter
        self.destination_counter = counter.address
        self._publish_count()

    def close(self):
        self.channel.close()
        if self.control is not self.channel:
            self.control.close()

    def add_destination(self, bytes packed, int64_t registration_id, int64_t now_ns):
        """A manual destination; `packed` is the kernel's address, empty while the name has none."""
        cdef SocketAddress address
        load_address(&address, packed)
        if not self._add(&address, registration_id, now_ns):
            raise TransportError(f"too many destinations: destination_count={self.destination_count} "
                                 f"allowed={DESTINATIONS_MAX}; remove one first")

    def remove_destination(self, bytes packed):
        """Removes the manual destination with this address; True when there was one."""
        cdef SocketAddress address
        cdef int i
        load_address(&address, packed)
        for i in range(self.destination_count):
            if same_address(&self.destinations[i].address, &address):
                self._remove(i)
                return True
        return False

    def remove_destination_by_id(self, int64_t registration_id):
        """Removes the manual destination that command added; True when there was one."""
        cdef int i
        for i in range(self.destination_count):
            if self.destinations[i].registration_id == registration_id:
                self._remove(i)
                return True
        return False

    def replace_destination(self, int64_t registration_id, bytes packed):
        """The name of a manual destination has another address now; True when it differs from the one in use."""
        cdef SocketAddress address
        cdef int i
        load_address(&address, packed)
        for i in range(self.destination_count):
            if self.destinations[i].registration_id == registration_id:
                if self.destinations[i].address.length_bytes and same_address(&self.destinations[i].address, &address):
                    return False
                self.destinations[i].address = address
                self.destinations[i].has_receiver_id = False
                return True
        return False

    def is_silent(self, int64_t now_ns):
        """A unicast endpoint that was not heard for the destination timeout."""
        return self.mode == MODE_SINGLE and now_ns - self.last_heard_ns > self.destination_timeout_ns

    def reconnect(self, tuple address):
        """Sends to another (host, port); True when it differs from the one in use."""
        if address == self.connected_to:
            return False
        self.channel.reconnect(address)
        self.connected_to = address
        return True

    def silent_destinations(self, int64_t now_ns):
        """Registration ids of the manual destinations that were not heard for the destination timeout."""
        return [self.destinations[i].registration_id for i in range(self.destination_count)
                if now_ns - self.destinations[i].last_heard_ns > self.destination_timeout_ns]

    def expire_destinations(self, int64_t now_ns):
        """Drops dynamic destinations that fell silent."""
        cdef int i = 0
        if self.mode != MODE_DYNAMIC:
            return
        while i < self.destination_count:
            if now_ns - self.destinations[i].last_heard_ns > self.destination_timeout_ns:
                self._remove(i)
            else:
                i += 1

    def _remove(self, int index):
        self.destinations[index] = self.destinations[self.destination_count - 1]
        self.destination_count -= 1
        self._publish_count()

    cdef void _publish_count(self) noexcept nogil:
        if self.destination_counter != NULL:
            ordo_store_release_i64(self.destination_counter, self.destination_count)

    cdef bint _add(self, const SocketAddress* address, int64_t registration_id, int64_t now_ns) noexcept nogil:
        cdef Destination* grown
        cdef Destination* added
        if self.destination_count >= DESTINATIONS_MAX:
            return False
        if self.destination_count == self.destination_capacity:
            grown = <Destination*> realloc(self.destinations, (2 * self.destination_capacity + 4) * sizeof(Destination))
            if grown == NULL:
                return False
            self.destinations = grown
            self.destination_capacity = 2 * self.destination_capacity + 4
        added = &self.destinations[self.destination_count]
        memset(added, 0, sizeof(Destination))
        added.address = address[0]
        added.registration_id = registration_id
        added.last_heard_ns = now_ns
        self.destination_count += 1
        self._publish_count()
        return True

    cdef int _find(self, int64_t receiver_id, const SocketAddress* source) noexcept nogil:
        cdef int i
        cdef Destination* d
        for i in range(self.destination_count):
            d = &self.destinations[i]
            if d.has_receiver_id:
                if d.receiver_id == receiver_id and address_port(&d.address) == address_port(source):
                    return i
            elif d.address.length_bytes and same_address(&d.address, source):
                return i
        return -1

    cdef void on_status_source(self, int64_t receiver_id, const SocketAddress* source, int64_t now_ns) noexcept nogil:
        """Any valid status message keeps its destination, and makes a new one in dynamic mode."""
        cdef int i
        self.last_heard_ns = now_ns
        if self.mode == MODE_SINGLE:
            return
        i = self._find(receiver_id, source)
        if i < 0:
            if self.mode != MODE_DYNAMIC or not self._add(source, -1, now_ns):
                return
            i = self.destination_count - 1
        self.destinations[i].receiver_id = receiver_id
        self.destinations[i].has_receiver_id = True
        self.destinations[i].last_heard_ns = now_ns

    cdef int transmit(self, SendItem* items, int count) noexcept nogil:
        """How many of the items, from the first, went to every destination.

        A destination that cannot be reached loses its datagrams; only a full socket buffer holds the others up.
        """
        cdef int i, k, sent, whole = count
        cdef Destination* d
        if self.mode == MODE_SINGLE:
            for k in range(count):
                items[k].to = NULL
            sent = self.channel.send(items, count)
            return sent if sent > 0 else 0 if sent == 0 or sent == -EAGAIN else count
        if self.destination_count * count <= GATHERED_ITEMS_MAX:
            return self._transmit_gathered(items, count)
        for i in range(self.destination_count):
            d = &self.destinations[(i + self.next_start) % self.destination_count]
            if d.address.length_bytes == 0:
                continue
            for k in range(count):
                items[k].to = &d.address
            sent = self.channel.send(items, count)
            if sent == -EAGAIN:
                sent = 0
            elif sent < 0:
                sent = count
            if sent < whole:
                whole = sent
        self.next_start += 1
        if self.next_start >= self.destination_count:
            self.next_start = 0
        return whole

    cdef int _transmit_gathered(self, SendItem* items, int count) noexcept nogil:
        """All destinations with one system call; after a full socket buffer all of them get the rest again."""
        cdef SendItem gathered[GATHERED_ITEMS_MAX]
        cdef int i, k, sent, total = 0
        cdef Destination* d
        for i in range(self.destination_count):
            d = &self.destinations[i]
            if d.address.length_bytes == 0:
                continue
            for k in range(count):
                gathered[total] = items[k]
                gathered[total].to = &d.address
                total += 1
        if total == 0:
            return count
        sent = self.channel.send(gathered, total)
        if sent < 0:
            return 0 if sent == -EAGAIN else count
        return count if sent == total else max(0, sent - (total - count))

    cdef bint transmit_frame(self, const uint8_t* frame, uint32_t length) noexcept nogil:
        cdef SendItem item
        item.data = frame
        item.length_bytes = length
        item.segment_length_bytes = length
        item.to = NULL
        return self.transmit(&item, 1) == 1
