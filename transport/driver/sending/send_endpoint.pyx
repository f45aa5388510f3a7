"""Where a publication's datagrams leave (transport-wire.md §4.1, §9)."""

from ordo.runtime.native.atomics cimport ordo_store_release_i64
from ordo.runtime.native.counters cimport Counter
from ordo.transport.driver.frames.event_log cimport EVENT_FRAME_OUT
from ordo.transport.driver.frames.frames cimport address_port, load_address, same_address

cdef extern from "<errno.h>" nogil:
    int EAGAIN

from ordo.runtime.errors import TransportError

_MODES = {"single": MODE_SINGLE, "manual": MODE_MANUAL, "dynamic": MODE_DYNAMIC, "response": MODE_RESPONSE}


cdef class SendEndpoint:
    """`channel` sends, `control` receives status messages and NAKs; the same one but for multicast."""

    def __init__(self, spec, DatagramChannel channel not None, DatagramChannel control not None, *, str mode,
                 bint group_semantics, int64_t destination_timeout_ns, int ttl=0, FrameStamper stamper=None, EventLog events=None):
        self.spec = spec
        self.connected_to = spec.endpoint
        self.channel = channel
        self.control = control
        self.mode = _MODES[mode]
        self.sends_to_one = self.mode == MODE_SINGLE or self.mode == MODE_RESPONSE
        self.has_group_semantics = group_semantics
        self.destination_timeout_ns = destination_timeout_ns
        self.ttl = ttl
        self.stamper = stamper
        self.events = events
        self.publications = PointerMap()
        self.destinations = NativeVector(sizeof(Destination), DESTINATIONS_MAX)

    def retain(self):
        self.reference_count += 1

    def release(self):
        """Return whether the last publication is gone."""
        self.reference_count -= 1
        return self.reference_count == 0

    @property
    def is_manual(self):
        return self.mode == MODE_MANUAL

    @property
    def destination_count(self):
        return self.destinations.count

    def set_destinations_counter(self, Counter counter not None):
        """Attach the counter `mdc-num-dest`, which shows the number of destinations."""
        self.destinations_counter = counter
        self.destination_counter = counter.address
        self._publish_count()

    def close(self):
        self.channel.close()
        if self.control is not self.channel:
            self.control.close()

    def add_destination(self, bytes packed, int64_t registration_id, int64_t now_ns):
        """Add a manual destination; `packed` is the kernel's address, empty while its name has none."""
        cdef SocketAddress address
        load_address(&address, packed)
        if self._add(&address, registration_id, now_ns) == NULL:
            raise TransportError(f"too many destinations: destination_count={self.destinations.count} "
                                 f"allowed={DESTINATIONS_MAX}; remove one first")

    def remove_destination(self, bytes packed):
        """Remove the manual destination with this address; return whether there was one."""
        cdef Destination* destinations = <Destination*> self.destinations.items
        cdef SocketAddress address
        cdef int64_t i
        load_address(&address, packed)
        for i in range(self.destinations.count):
            if same_address(&destinations[i].address, &address):
                self._remove(i)
                return True
        return False

    def remove_destination_by_id(self, int64_t registration_id):
        """Remove the manual destination that this command added; return whether there was one."""
        cdef Destination* destinations = <Destination*> self.destinations.items
        cdef int64_t i
        for i in range(self.destinations.count):
            if destinations[i].registration_id == registration_id:
                self._remove(i)
                return True
        return False

    def replace_destination(self, int64_t registration_id, bytes packed):
        """Give a manual destination's name another address; return whether it differs from the one in use."""
        cdef Destination* destinations = <Destination*> self.destinations.items
        cdef SocketAddress address
        cdef int64_t i
        load_address(&address, packed)
        for i in range(self.destinations.count):
            if destinations[i].registration_id == registration_id:
                if destinations[i].address.length_bytes and same_address(&destinations[i].address, &address):
                    return False
                destinations[i].address = address
                destinations[i].has_receiver_id = False
                return True
        return False

    def destination_at(self, bytes packed):
        """Return the registration id of the manual destination with this address, or -1."""
        cdef Destination* destinations = <Destination*> self.destinations.items
        cdef SocketAddress address
        cdef int64_t i
        load_address(&address, packed)
        for i in range(self.destinations.count):
            if same_address(&destinations[i].address, &address):
                return destinations[i].registration_id
        return -1

    def is_silent(self, int64_t now_ns):
        """Return whether this is a unicast endpoint that was not heard for the destination timeout."""
        return self.mode == MODE_SINGLE and now_ns - self.last_heard_ns > self.destination_timeout_ns

    def reconnect(self, tuple address):
        """Send to another (host, port) from now on; return whether it differs from the one in use."""
        if address == self.connected_to:
            return False
        self.channel.reconnect(address)
        self.connected_to = address
        return True

    def silent_destinations(self, int64_t now_ns):
        """Return the registration ids of the manual destinations that were not heard for the destination timeout."""
        cdef Destination* destinations = <Destination*> self.destinations.items
        return [destinations[i].registration_id for i in range(self.destinations.count)
                if now_ns - destinations[i].last_heard_ns > self.destination_timeout_ns]

    def expire_destinations(self, int64_t now_ns):
        """Drop dynamic destinations that fell silent."""
        cdef Destination* destinations = <Destination*> self.destinations.items
        cdef int64_t i = 0
        if self.mode != MODE_DYNAMIC:
            return
        while i < self.destinations.count:
            if now_ns - destinations[i].last_heard_ns > self.destination_timeout_ns:
                self._remove(i)
            else:
                i += 1

    def _remove(self, int64_t index):
        self.destinations.swap_remove_at(index)
        self._publish_count()

    cdef void _publish_count(self) noexcept nogil:
        if self.destination_counter != NULL:
            ordo_store_release_i64(self.destination_counter, self.destinations.count)

    cdef Destination* _add(self, const SocketAddress* address, int64_t registration_id, int64_t now_ns) noexcept nogil:
        """Return the new destination, or NULL when there is no room for it."""
        cdef Destination* added = <Destination*> self.destinations.try_append()
        if added == NULL:
            return NULL
        added.address = address[0]
        added.registration_id = registration_id
        added.last_heard_ns = now_ns
        self._publish_count()
        return added

    cdef Destination* _find(self, int64_t receiver_id, const SocketAddress* source) noexcept nogil:
        """Return the destination that a status message comes from, or NULL."""
        cdef int64_t i
        cdef Destination* d
        for i in range(self.destinations.count):
            d = &(<Destination*> self.destinations.items)[i]
            if d.has_receiver_id:
                if d.receiver_id == receiver_id and address_port(&d.address) == address_port(source):
                    return d
            elif d.address.length_bytes and same_address(&d.address, source):
                return d
        return NULL

    cdef void on_status_source(self, int64_t receiver_id, const SocketAddress* source, int64_t now_ns) noexcept nogil:
        """Keep the destination of a valid status message, or add a new one in dynamic mode."""
        cdef Destination* heard
        self.last_heard_ns = now_ns
        if self.mode == MODE_SINGLE or self.mode == MODE_RESPONSE:
            return
        heard = self._find(receiver_id, source)
        if heard == NULL and self.mode == MODE_DYNAMIC:
            heard = self._add(source, -1, now_ns)
        if heard == NULL:
            return
        heard.receiver_id = receiver_id
        heard.has_receiver_id = True
        heard.last_heard_ns = now_ns

    cdef int _send(self, SendItem* items, int count) noexcept nogil:
        """Send items through the socket; return how many of them were sent, or the negative errno."""
        cdef int i, sent = self.channel.send(items, count)
        if self.events is not None and self.events.wants(EVENT_FRAME_OUT):
            for i in range(sent):
                self.events.sent(&items[i])
        return sent

    cdef int _transmit_to(self, SendItem* items, int count, const SocketAddress* to) noexcept nogil:
        cdef int k
        for k in range(count):
            items[k].to = to
        return self.transmit_all(items, count)

    cdef int transmit_all(self, SendItem* items, int count) noexcept nogil:
        """Send items, each to where it says; return how many, from the first: only a full socket buffer holds one up.

        A destination that cannot be reached loses its own item, and no other's.
        """
        cdef int sent, done = 0
        while done < count:
            sent = self._send(items + done, count - done)
            if sent == 0 or sent == -EAGAIN:
                break
            done += sent if sent > 0 else 1
        return done

    cdef int transmit(self, SendItem* items, int count, const SocketAddress* to) noexcept nogil:
        """Send items to every destination, or to the only one of a response; return how many of them, from the first,
        were sent.

        A destination that cannot be reached loses its datagrams; only a full socket buffer holds the others up.
        """
        cdef Destination* destinations = <Destination*> self.destinations.items
        cdef Destination* d
        cdef int64_t i
        cdef int k, sent, whole = count
        if self.mode == MODE_SINGLE:
            return self._transmit_to(items, count, NULL)
        if self.mode == MODE_RESPONSE:
            return self._transmit_to(items, count, to) if to.length_bytes else count
        if self.destinations.count * count <= GATHERED_ITEMS_MAX:
            return self._transmit_gathered(items, count)
        for i in range(self.destinations.count):
            d = &destinations[(i + self.next_start) % self.destinations.count]
            if d.address.length_bytes == 0:
                continue
            for k in range(count):
                items[k].to = &d.address
            sent = self._send(items, count)
            if sent == -EAGAIN:
                sent = 0
            elif sent < 0:
                sent = count
            if sent < whole:
                whole = sent
        self.next_start += 1
        if self.next_start >= self.destinations.count:
            self.next_start = 0
        return whole

    cdef int _transmit_gathered(self, SendItem* items, int count) noexcept nogil:
        """Send to all destinations with one system call; after a full socket buffer all of them get the rest again."""
        cdef SendItem gathered[GATHERED_ITEMS_MAX]
        cdef Destination* d
        cdef int64_t i
        cdef int k, sent, total = 0
        for i in range(self.destinations.count):
            d = &(<Destination*> self.destinations.items)[i]
            if d.address.length_bytes == 0:
                continue
            for k in range(count):
                gathered[total] = items[k]
                gathered[total].to = &d.address
                total += 1
        if total == 0:
            return count
        sent = self._send(gathered, total)
        if sent < 0:
            return 0 if sent == -EAGAIN else count
        return count if sent == total else max(0, sent - (total - count))

    cdef bint is_destination(self, const SocketAddress* address) noexcept nogil:
        """Return whether a listed destination has this address."""
        cdef Destination* destinations = <Destination*> self.destinations.items
        cdef int64_t i
        for i in range(self.destinations.count):
            if destinations[i].address.length_bytes and same_address(&destinations[i].address, address):
                return True
        return False

    cdef int answer(self, SendItem* items, int count, const SocketAddress* to) noexcept nogil:
        """Send what one receiver has asked for to it alone; return how many of the items were sent.

        A `to` of no length is a receiver whose address is not listed. It may be behind a destination that was never
        heard under its own address (a multicast group, a NAT): these get the items.
        """
        cdef Destination* destinations = <Destination*> self.destinations.items
        cdef int64_t i
        cdef int sent, whole = count
        if self.mode == MODE_SINGLE or self.mode == MODE_RESPONSE:
            return self.transmit(items, count, to)
        if to.length_bytes:
            return self._transmit_to(items, count, to)
        for i in range(self.destinations.count):
            if destinations[i].address.length_bytes and not destinations[i].has_receiver_id:
                sent = self._transmit_to(items, count, &destinations[i].address)
                whole = min(whole, sent)
        return whole

    cdef bint transmit_frame(self, const uint8_t* frame, uint32_t length, const SocketAddress* to) noexcept nogil:
        cdef SendItem item
        item.data = frame
        item.length_bytes = length
        item.segment_length_bytes = length
        item.to = NULL
        return self.transmit(&item, 1, to) == 1
