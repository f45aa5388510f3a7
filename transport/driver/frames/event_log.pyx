"""What a driver does, event by event, for whoever looks on: `events.dat` in its folder.

```
 0     4             8                   16                 24         4096
 +-----+-------------+-------------------+------------------+-----------+------------------------------+
 | 0x1 | i32 kinds   | i64 reader alive  | i64 events lost  | 0         | ring buffer (ordo.transport.control.ring) |
 +-----+-------------+-------------------+------------------+-----------+------------------------------+
```

A reader says which kinds it wants, and shows that it lives by the monotonic time, ns. While nobody wants a kind, an
event of it costs the driver one look at `kinds`; when a reader was killed, the driver ends what it had asked for. An
event for which there is no room is counted as lost: nothing here waits. A record's type is its kind, its payload
`i64` time, ns since 1970, and then

    FRAME_IN, FRAME_OUT   u32 length of the datagram, u8 length of the address, address as the kernel has it, first
                          bytes of the datagram
    COMMAND, RESPONSE     i32 type and the record, as in cnc-and-driver-protocol.md §6
    STATE                 text
"""

from libc.string cimport memcpy, memset

from ordo.runtime.native.atomics cimport (ordo_fetch_add_i64, ordo_load_acquire_i32, ordo_load_acquire_i64, ordo_put_i32,
                              ordo_put_i64, ordo_store_release_i32, ordo_store_release_i64)
from ordo.transport.control.ring cimport RECORD_HEADER_LENGTH, RING_TRAILER_LENGTH

from ordo.runtime.errors import TransportError

cdef enum:
    VERSION = 1
    KINDS = 4
    READER_ALIVE = 8
    LOST = 16
    HEADER_LENGTH = 4096
    HEAD_LENGTH_MAX = 96                       # of a datagram
    TIME_LENGTH = 8                            # then, of a datagram:
    ADDRESS_LENGTH_OFFSET = 4                  # u8
    ADDRESS_OFFSET = 5
    TYPE_LENGTH = 4                            # and of a command or response

cdef int64_t READER_TIMEOUT_NS = 5000000000

FILE_NAME = "events.dat"
FRAME_IN = EVENT_FRAME_IN
FRAME_OUT = EVENT_FRAME_OUT
COMMAND = EVENT_COMMAND
RESPONSE = EVENT_RESPONSE
STATE = EVENT_STATE
ALL_KINDS = EVENT_FRAME_IN | EVENT_FRAME_OUT | EVENT_COMMAND | EVENT_RESPONSE | EVENT_STATE


def file_length_bytes(int64_t capacity):
    """Return the length of the file for a ring of `capacity` bytes, a power of two."""
    return HEADER_LENGTH + capacity + RING_TRAILER_LENGTH


cdef class EventLog:
    """Both ends of the file in `memory`: the driver writes events, one reader at a time takes them."""

    def __init__(self, Memory memory not None, Clock clock not None, bint is_new=False):
        if memory.length_bytes < HEADER_LENGTH + RING_TRAILER_LENGTH:
            raise TransportError(f"event log of {memory.length_bytes} bytes: it is not whole")
        self.memory = memory
        self.header = memory.data
        self.clock = clock
        self.records = memory.slice(HEADER_LENGTH, memory.length_bytes - HEADER_LENGTH)
        self.ring = ManyToOneRing(self.records)
        if is_new:
            ordo_store_release_i32(self.header, VERSION)
        elif ordo_load_acquire_i32(self.header) != VERSION:
            raise TransportError(f"event log of version {ordo_load_acquire_i32(self.header)}, known is {VERSION}")

    # --- the driver -----------------------------------------------------------------------------------------------

    cdef bint wants(self, int32_t kind) noexcept nogil:
        return ordo_load_acquire_i32(self.header + KINDS) & kind != 0

    cdef int64_t _begin(self, int32_t kind, uint32_t length) noexcept nogil:
        """Return the offset in the ring for `length` bytes of an event, after its time; -1 when the event is lost."""
        cdef int64_t index = self.ring.claim(kind, <int32_t> length + TIME_LENGTH)
        if index < 0:
            ordo_fetch_add_i64(self.header + LOST, 1)
            return -1
        ordo_put_i64(self.ring.buffer + index + RECORD_HEADER_LENGTH, self.clock.epoch_time_ns())
        return index

    cdef void frame(self, int32_t kind, const uint8_t* datagram, uint32_t length, const SocketAddress* peer) noexcept nogil:
        """Log a datagram that was received or sent; `peer` is NULL for the address that its socket is connected to."""
        cdef uint32_t address_length = peer.length_bytes if peer != NULL else 0
        cdef uint32_t head_length = min(length, <uint32_t> HEAD_LENGTH_MAX)
        cdef int64_t index = self._begin(kind, ADDRESS_OFFSET + address_length + head_length)
        cdef uint8_t* target
        if index < 0:
            return
        target = self.ring.buffer + index + RECORD_HEADER_LENGTH + TIME_LENGTH
        ordo_put_i32(target, <int32_t> length)
        target[ADDRESS_LENGTH_OFFSET] = <uint8_t> address_length
        if address_length:
            memcpy(target + ADDRESS_OFFSET, peer.storage, address_length)
        if head_length:
            memcpy(target + ADDRESS_OFFSET + address_length, datagram, head_length)
        self.ring.commit(index)

    cdef void sent(self, const SendItem* item) noexcept nogil:
        """Log every datagram of an item that was sent."""
        cdef uint32_t at = 0, length
        while at < item.length_bytes:
            length = min(item.segment_length_bytes, item.length_bytes - at)
            if length == 0:
                return
            self.frame(EVENT_FRAME_OUT, item.data + at, length, item.to)
            at += length

    def datagram(self, int32_t kind, const uint8_t[::1] datagram not None, bytes address not None):
        """Log a datagram of name resolution if a reader wants those; `address` is in the kernel's form."""
        cdef SocketAddress peer
        if not self.wants(kind):
            return
        peer.length_bytes = <uint32_t> len(address)
        if peer.length_bytes > sizeof(peer.storage):
            raise ValueError(f"address of {peer.length_bytes} bytes, at most {sizeof(peer.storage)} are allowed")
        memcpy(peer.storage, <const char*> address, peer.length_bytes)
        self.frame(kind, &datagram[0] if datagram.shape[0] else NULL, <uint32_t> datagram.shape[0], &peer)

    def record(self, int32_t kind, int32_t type_id, const uint8_t[::1] payload not None):
        """Log a command or a response if a reader wants those."""
        cdef uint32_t length = <uint32_t> payload.shape[0]
        cdef int64_t index
        if not self.wants(kind):
            return
        index = self._begin(kind, TYPE_LENGTH + length)
        if index < 0:
            return
        ordo_put_i32(self.ring.buffer + index + RECORD_HEADER_LENGTH + TIME_LENGTH, type_id)
        if length:
            memcpy(self.ring.buffer + index + RECORD_HEADER_LENGTH + TIME_LENGTH + TYPE_LENGTH, &payload[0], length)
        self.ring.commit(index)

    def state(self, str what, *values):
        """Log a change of state if a reader wants those; the format `what` is rendered only then."""
        cdef bytes text
        cdef int64_t index
        if not self.wants(EVENT_STATE):
            return
        text = what.format(*values).encode("ascii", "replace")
        index = self._begin(EVENT_STATE, <uint32_t> len(text))
        if index >= 0:
            memcpy(self.ring.buffer + index + RECORD_HEADER_LENGTH + TIME_LENGTH, <const char*> text, len(text))
            self.ring.commit(index)

    def expire(self):
        """Switch off the events that a reader asked for which was killed."""
        if self.kinds and not self.has_reader:
            self.kinds = 0

    # --- the reader -----------------------------------------------------------------------------------------------

    @property
    def kinds(self):
        """The kinds of events that are wanted, a sum of FRAME_IN and so on."""
        return ordo_load_acquire_i32(self.header + KINDS)

    @kinds.setter
    def kinds(self, int32_t kinds):
        if kinds & ~ALL_KINDS:
            raise ValueError(f"kinds={kinds}, must be a sum of kinds up to {ALL_KINDS}")
        ordo_store_release_i32(self.header + KINDS, kinds)

    @property
    def has_reader(self):
        """Whether a reader was alive lately."""
        cdef int64_t alive_ns = ordo_load_acquire_i64(self.header + READER_ALIVE)
        return alive_ns != 0 and self.clock.nano_time() - alive_ns < READER_TIMEOUT_NS

    def show_reader(self, bint is_alive=True):
        """Note that the reader lives, or that it leaves."""
        ordo_store_release_i64(self.header + READER_ALIVE, self.clock.nano_time() if is_alive else 0)

    @property
    def lost_count(self):
        """Events for which there was no room, since the driver began."""
        return ordo_load_acquire_i64(self.header + LOST)

    def close(self):
        """Let go of the file; nothing of this object may be used any more."""
        self.records.close()
        self.memory.close()
