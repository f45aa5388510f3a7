"""Where a publication's datagrams leave: one socket, and for multi-destination-cast the list of destinations."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from ordo.runtime.io.datagram cimport DatagramChannel, SendItem, SocketAddress
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.transport.driver.frames.event_log cimport EventLog
from ordo.transport.driver.frames.pointers cimport PointerMap
from ordo.transport.driver.frames.timestamps cimport FrameStamper

cdef struct Destination:
    SocketAddress address              # length 0: not resolved, counts as sent
    int64_t receiver_id
    bint has_receiver_id
    int64_t last_heard_ns
    int64_t registration_id            # correlation id of the command that added it; -1 for a dynamic one

cdef enum:
    MODE_SINGLE = 0                    # unicast or multicast: the socket is connected
    MODE_MANUAL = 1
    MODE_DYNAMIC = 2
    MODE_RESPONSE = 3                  # each publication has the one destination that asked for it
    DESTINATIONS_MAX = 4096
    GATHERED_ITEMS_MAX = 32            # items of all destinations that go out with one system call

cdef class SendEndpoint:
    cdef readonly object spec                  # UdpChannelSpec
    cdef readonly DatagramChannel channel      # data out; control in, but for multicast
    cdef readonly DatagramChannel control      # control in
    cdef readonly tuple connected_to           # (host, port) of a unicast endpoint
    cdef int64_t last_heard_ns
    cdef readonly int mode
    cdef bint sends_to_one                     # each publication has one destination
    cdef readonly int ttl                      # multicast TTL told in SETUP
    cdef readonly FrameStamper stamper         # of datagrams that leave, or None
    cdef EventLog events
    cdef bint has_group_semantics              # multicast or multi-destination
    cdef NativeVector destinations             # of Destination
    cdef int64_t next_start                        # destination that goes first, moves round
    cdef int64_t destination_timeout_ns
    cdef int64_t* destination_counter          # mdc-num-dest, or NULL
    cdef PointerMap publications               # (session, stream) -> NetworkPublication
    cdef int gathered_first                    # of what GatheredSends has for it, while `gathered_count` is not 0
    cdef int gathered_last
    cdef int gathered_count
    cdef readonly int reference_count
    cdef public object status                  # Counter: snd-channel
    cdef public object local_address_counter
    cdef public object destinations_counter
    cdef int _send(self, SendItem* items, int count) noexcept nogil
    cdef int transmit(self, SendItem* items, int count, const SocketAddress* to) noexcept nogil
    cdef int transmit_all(self, SendItem* items, int count) noexcept nogil
    cdef int _transmit_to(self, SendItem* items, int count, const SocketAddress* to) noexcept nogil
    cdef int _transmit_gathered(self, SendItem* items, int count) noexcept nogil
    cdef int answer(self, SendItem* items, int count, const SocketAddress* to) noexcept nogil
    cdef bint is_destination(self, const SocketAddress* address) noexcept nogil
    cdef bint transmit_frame(self, const uint8_t* frame, uint32_t length, const SocketAddress* to) noexcept nogil
    cdef void on_status_source(self, int64_t receiver_id, const SocketAddress* source, int64_t now_ns) noexcept nogil
    cdef Destination* _find(self, int64_t receiver_id, const SocketAddress* source) noexcept nogil
    cdef Destination* _add(self, const SocketAddress* address, int64_t registration_id, int64_t now_ns) noexcept nogil
    cdef void _publish_count(self) noexcept nogil
