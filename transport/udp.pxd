"""UDP sockets behind the datagram seam (runtime/io/datagram.pxd): one epoll for all of them, batches in and out."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from ordo.runtime.io.datagram cimport DatagramChannel, DatagramNetwork, ReceiveItem, SendItem, SocketAddress
from ordo.runtime.native.native_vector cimport NativeVector

cdef extern from "<sys/socket.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    cdef struct msghdr:
        void* msg_name
        uint32_t msg_namelen
        iovec* msg_iov
        size_t msg_iovlen
        void* msg_control
        size_t msg_controllen
        int msg_flags
    cdef struct mmsghdr:
        msghdr msg_hdr
        unsigned int msg_len

cdef enum:
    SEND_BATCH = 64                    # messages of one sendmmsg
    RECEIVE_BATCH = 16                 # messages of one recvmmsg
    RECEIVE_SLOT_LENGTH = 65536        # a coalesced receive is at most this long
    CONTROL_LENGTH = 64                # room for ancillary messages: a segment's length and a time

cdef struct Joint:
    const SocketAddress* to            # of the message that was laid out last
    uint32_t length_bytes
    uint32_t segment_bytes             # of its datagrams, the last may be shorter; 0: nothing can be put behind it

cdef class UdpNetwork(DatagramNetwork):
    """Real sockets. Receive buffers are shared: what `receive` gave is valid until the next receive of any channel."""
    cdef int _epoll
    cdef int _event
    cdef int _wake_socket
    cdef object _wake_path
    cdef object _resolver
    cdef object _channels                      # slot -> UdpChannel, keeps them alive
    cdef NativeVector _by_slot                 # of borrowed pointers to UdpChannel, NULL where a slot is free
    cdef object _free_slots
    cdef bint _has_pwait2
    cdef int _descriptors_kept
    cdef readonly bint segmentation            # the kernel knows UDP_SEGMENT
    cdef readonly bint coalescing              # the kernel knows UDP_GRO
    cdef mmsghdr* _messages
    cdef iovec* _vectors                       # SEND_BATCH, of all messages
    cdef int _vector_count                     # used by the messages that are being laid out
    cdef uint8_t* _controls
    cdef int* _item_of_message                 # which SendItem a message ends, or -1
    cdef mmsghdr* _received                    # RECEIVE_BATCH, each with its part of the buffers
    cdef iovec* _received_vectors
    cdef uint8_t* _received_controls
    cdef uint8_t* _buffers
    cdef int _wait(self, void* events, int64_t timeout_ns) noexcept nogil
    cdef void _drain_wakers(self, int fd) noexcept nogil

cdef class UdpChannel(DatagramChannel):
    """One non-blocking UDP socket of a UdpNetwork."""
    cdef int _fd
    cdef int _slot
    cdef UdpNetwork _network
    cdef bint _segmentation
    cdef bint _has_times                       # the kernel notes when datagrams arrive
    cdef int _alone                            # how often in a row one datagram came alone; or ALONE_FOUND
    cdef bint _was_empty                       # the latest receive found nothing
    cdef readonly tuple local_address          # (host, port) as bound
    cdef readonly int receive_buffer_bytes
    cdef readonly int send_buffer_bytes
    cdef int _receive_batch(self, ReceiveItem* items, int slots) noexcept nogil
    cdef void _note_batch(self, const ReceiveItem* items, int count) noexcept nogil
    cdef int _receive_alone(self, ReceiveItem* item) noexcept nogil
    cdef void _coalesce(self, int32_t is_wanted) noexcept nogil
    cdef bint _stop_coalescing(self) noexcept nogil
    cdef void _read_control(self, msghdr* message, ReceiveItem* item) noexcept nogil
    cdef int _prepare(self, SendItem* items, int count) noexcept nogil
    cdef int _fill(self, int message, const uint8_t* data, uint32_t length, uint32_t segment, const SocketAddress* to,
                   int item) noexcept nogil
    cdef void _add_vector(self, int message, const uint8_t* data, uint32_t length, int item) noexcept nogil
    cdef void _set_segment(self, int message, uint32_t segment) noexcept nogil
    cdef bint _join(self, int message, Joint* joint, const SendItem* item, int index) noexcept nogil
    cdef int _send_messages(self, mmsghdr* messages, int count) noexcept nogil
    cdef int _send_alone(self, SendItem* items, int count) noexcept nogil
