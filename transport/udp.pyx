"""UDP sockets: `sendmmsg` with UDP_SEGMENT, `recvmmsg` with UDP_GRO, one `epoll_wait` for all of them.

Errors of a single destination (a refused or unreachable peer) are losses, as on any network: the datagram counts as
sent. A full socket buffer is not: `send` returns how many items went out whole.
"""

import errno
import fcntl
import ipaddress
import os
import re
import resource
import socket
import struct

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from ordo.runtime.io.datagram cimport DatagramChannel, DatagramNetwork, ReceiveItem, SendItem, SocketAddress

from ordo.runtime.native.clock import SystemClock
from ordo.runtime.errors import TransportError
from ordo.transport.resolver import UNRESOLVED, NameResolver, resolve

cdef extern from "<errno.h>" nogil:
    int c_errno "errno"
    int EAGAIN, EINTR, ECONNREFUSED, EINVAL, EMSGSIZE, EIO, ENOSYS, ENOBUFS, EWOULDBLOCK, EBADF, EPIPE

cdef extern from "<sys/socket.h>" nogil:
    cdef struct cmsghdr:
        size_t cmsg_len
        int cmsg_level
        int cmsg_type
    int sendmmsg(int fd, mmsghdr* messages, unsigned int count, int flags)
    ssize_t sendto(int fd, const void* buffer, size_t length, int flags, const void* address, uint32_t address_length)
    int recvmmsg(int fd, mmsghdr* messages, unsigned int count, int flags, void* timeout)
    ssize_t recvfrom(int fd, void* buffer, size_t length, int flags, void* address, uint32_t* address_length)
    int setsockopt(int fd, int level, int option, const void* value, uint32_t length)
    ssize_t c_recv "recv"(int fd, void* buffer, size_t length, int flags)
    cmsghdr* CMSG_FIRSTHDR(msghdr* message)
    cmsghdr* CMSG_NXTHDR(msghdr* message, cmsghdr* control)
    uint8_t* CMSG_DATA(cmsghdr* control)
    size_t CMSG_LEN(size_t length)
    size_t CMSG_SPACE(size_t length)
    int MSG_DONTWAIT, MSG_NOSIGNAL, MSG_TRUNC
    int SOL_SOCKET

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        uint32_t u32
        uint64_t u64
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event* event)
    int epoll_wait(int epfd, epoll_event* events, int capacity, int timeout_ms)
    int EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLIN, EPOLL_CLOEXEC

cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd(unsigned int initial, int flags)
    int EFD_NONBLOCK, EFD_CLOEXEC

cdef extern from "<sys/ioctl.h>" nogil:
    int ioctl(int fd, unsigned long request, void* argument)
    unsigned long FIONREAD

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)
    ssize_t c_read "read"(int fd, void* buffer, size_t length)
    ssize_t c_write "write"(int fd, const void* buffer, size_t length)
    long syscall(long number, ...)

cdef extern from "<time.h>" nogil:
    cdef struct timespec:
        long tv_sec
        long tv_nsec

cdef enum:
    IPPROTO_UDP_LEVEL = 17
    UDP_SEGMENT = 103
    UDP_GRO = 104
    SO_TIMESTAMPNS = 35                # its time has the same number in an ancillary message
    SEGMENTS_MAX = 64                  # of one segmented send
    SEGMENTED_LENGTH_MAX = 65000
    SYS_EPOLL_PWAIT2 = 441
    EVENTS_MAX = 1024                  # of thousands of sockets, or each would wait for many cycles to be seen
    ALONE_MIN = 64                     # so often in a row one datagram came alone, before one is asked for
    ALONE_FOUND = ALONE_MIN + 1        # one was asked for and came: is there another behind it?
    SLOT_EVENT = 0x7FFFFFFE
    SLOT_WAKE_SOCKET = 0x7FFFFFFF

_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B
_SO_RCVBUFFORCE = 33
_SO_SNDBUFFORCE = 32


def pack_address(str host, int port):
    """Return the kernel's form (sockaddr_in or sockaddr_in6) of a numeric address; raise TransportError for a name."""
    text, _, scope = host.partition("%")
    if ":" not in text:
        try:
            return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_pton(
                socket.AF_INET, text) + bytes(8)
        except OSError:
            raise TransportError(f"not a numeric address: host={host!r}; resolve the name first") from None
    try:
        address = socket.inet_pton(socket.AF_INET6, text)
    except OSError:
        raise TransportError(f"not a numeric address: host={host!r}; resolve the name first") from None
    scope_id = 0
    if scope:
        scope_id = int(scope) if scope.isdigit() else socket.if_nametoindex(scope)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + address + struct.pack("=I", scope_id)


def unpack_address(bytes packed):
    """Return (host, port) of the kernel's form."""
    family, port = struct.unpack_from("=H", packed)[0], struct.unpack_from("!H", packed, 2)[0]
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, packed[4:8]), port
    return socket.inet_ntop(socket.AF_INET6, packed[8:24]), port


def _interface_address(text):
    name = re.fullmatch(r"\{([^{}]+)\}(:\d+)?", text)
    if name:
        found = [str(address.ip) for owner, address in _interfaces() if owner == name[1]]
    else:
        parts = re.fullmatch(r"(?:\[([^\[\]]+)\]|([^\[\]:/]+))(?::\d+)?(?:/(\d+))?", text)
        host = parts[1] or parts[2]
        if not parts[3]:
            return host
        wanted = ipaddress.ip_interface(f"{host}/{parts[3]}").network
        found = sorted((str(address.ip) for _, address in _interfaces() if address.ip in wanted),
                       key=lambda ip: ipaddress.ip_address(ip).is_loopback)
    if not found:
        raise TransportError(f"unknown interface {name[1] if name else text}: no interface of this machine matches it; use "
                             "the address of one")
    return found[0]


def _interfaces():
    """Return (name, address with prefix) of the IPv4 and IPv6 interfaces."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                address = fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24]
                mask = fcntl.ioctl(probe, _SIOCGIFNETMASK, request)[20:24]
            except OSError:
                continue
            found.append((name, ipaddress.ip_interface(f"{socket.inet_ntoa(address)}/{socket.inet_ntoa(mask)}")))
    try:
        with open("/proc/net/if_inet6") as lines:
            for line in lines:
                digits, _, prefix, _, _, name = line.split()
                found.append((name, ipaddress.ip_interface((int(digits, 16).to_bytes(16, "big"), int(prefix, 16)))))
    except OSError:
        pass
    return found


def _bind_error(error: OSError, address: tuple) -> TransportError:
    where = f"{address[0]}:{address[1]}"
    if error.errno == errno.EADDRINUSE:
        return TransportError(f"Address already in use: {where}; another socket holds this port: stop its process or choose "
                              "another port (0 picks a free one)")
    if error.errno == errno.EADDRNOTAVAIL:
        return TransportError(f"not an address of this machine: {where}; use one of its interfaces or 0.0.0.0")
    return TransportError(f"cannot open a UDP socket on {where}: {error.strerror or error}")


cdef class UdpChannel(DatagramChannel):

    def __init__(self):
        raise TypeError("opened by UdpNetwork.open")

    def fileno(self):
        return self._fd

    def close(self):
        """Close the socket; a second call does nothing."""
        if self._fd >= 0:
            self._network._forget(self)
            c_close(self._fd)
            self._fd = -1
            self.ready = False

    def reconnect(self, tuple address):
        """Send to, and hear from, another (host, port) from now on."""
        with socket.fromfd(self._fd, socket.AF_INET6 if ":" in address[0] else socket.AF_INET,
                           socket.SOCK_DGRAM) as alias:
            try:
                alias.connect(address)
            except OSError as error:
                raise TransportError(f"cannot connect to {address[0]}:{address[1]}: {error.strerror or error}") from None

    def note_times(self):
        """Have the kernel note when each datagram arrives. Raises TransportError."""
        with socket.fromfd(self._fd, socket.AF_INET, socket.SOCK_DGRAM) as alias:
            try:
                alias.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            except OSError as error:
                raise TransportError(f"the kernel notes no times of datagrams: {error.strerror or error}; leave out "
                                     "media-rcv-ts-offset") from None
        self._has_times = True

    def disable_segmentation(self):
        """Send one datagram per message from now on, as on a device without segmentation."""
        self._segmentation = False

    def __dealloc__(self):
        if self._fd >= 0:
            c_close(self._fd)

    cdef int _fill(self, int message, const uint8_t* data, uint32_t length, uint32_t segment, const SocketAddress* to,
                   int item) noexcept nogil:
        cdef mmsghdr* m = &self._network._messages[message]
        m.msg_hdr.msg_iov = &self._network._vectors[self._network._vector_count]
        m.msg_hdr.msg_iovlen = 0
        m.msg_hdr.msg_name = <void*> to.storage if to != NULL else NULL
        m.msg_hdr.msg_namelen = to.length_bytes if to != NULL else 0
        m.msg_hdr.msg_control = NULL
        m.msg_hdr.msg_controllen = 0
        m.msg_hdr.msg_flags = 0
        self._add_vector(message, data, length, item)
        if segment != 0 and segment < length:
            self._set_segment(message, segment)
        return message + 1

    cdef void _add_vector(self, int message, const uint8_t* data, uint32_t length, int item) noexcept nogil:
        cdef mmsghdr* m = &self._network._messages[message]
        cdef iovec* vector = &self._network._vectors[self._network._vector_count]
        vector.iov_base = <void*> data
        vector.iov_len = length
        self._network._vector_count += 1
        m.msg_hdr.msg_iovlen += 1
        self._network._item_of_message[message] = item

    cdef void _set_segment(self, int message, uint32_t segment) noexcept nogil:
        cdef mmsghdr* m = &self._network._messages[message]
        cdef cmsghdr* control
        m.msg_hdr.msg_control = self._network._controls + message * CONTROL_LENGTH
        m.msg_hdr.msg_controllen = CMSG_SPACE(sizeof(uint16_t))
        control = CMSG_FIRSTHDR(&m.msg_hdr)
        control.cmsg_level = IPPROTO_UDP_LEVEL
        control.cmsg_type = UDP_SEGMENT
        control.cmsg_len = CMSG_LEN(sizeof(uint16_t))
        (<uint16_t*> CMSG_DATA(control))[0] = <uint16_t> segment

    cdef bint _join(self, int message, Joint* joint, const SendItem* item, int index) noexcept nogil:
        """Put an item behind what a message holds already, if it goes to the same address in datagrams of the same
        length: the kernel takes both as one."""
        cdef uint32_t length = joint.length_bytes + item.length_bytes
        cdef uint32_t datagram = item.segment_length_bytes
        if datagram == 0 or datagram > item.length_bytes:
            datagram = item.length_bytes
        if item.to != joint.to or datagram == 0 or joint.length_bytes % joint.segment_bytes != 0 \
                or length > SEGMENTED_LENGTH_MAX \
                or length > joint.segment_bytes * SEGMENTS_MAX or datagram > joint.segment_bytes \
                or (datagram < joint.segment_bytes and datagram < item.length_bytes):
            return False
        self._add_vector(message, item.data, item.length_bytes, index)
        if self._network._messages[message].msg_hdr.msg_control == NULL:
            self._set_segment(message, joint.segment_bytes)
        joint.length_bytes = length
        return True

    cdef int _prepare(self, SendItem* items, int count) noexcept nogil:
        """Lay items out as messages, at most SEND_BATCH; an item that does not fit whole is left for the next batch."""
        cdef int message = 0, i, needed
        cdef uint32_t offset, length, segment
        cdef Joint joint
        joint.segment_bytes = 0
        self._network._vector_count = 0
        for i in range(count):
            segment = items[i].segment_length_bytes
            length = items[i].length_bytes
            if self._network._vector_count == SEND_BATCH:
                break
            if joint.segment_bytes != 0 and self._join(message - 1, &joint, &items[i], i):
                continue
            needed = 1 if segment == 0 or segment >= length else <int> ((length + segment - 1) / segment)
            if needed == 1 or (self._segmentation and needed <= SEGMENTS_MAX and length <= SEGMENTED_LENGTH_MAX):
                message = self._fill(message, items[i].data, length, segment, items[i].to, i)
                joint.to = items[i].to
                joint.length_bytes = length
                joint.segment_bytes = 0 if not self._segmentation else length if needed == 1 else segment
                continue
            joint.segment_bytes = 0
            if self._network._vector_count + needed > SEND_BATCH:
                break
            offset = 0
            while offset < length:
                needed = segment if length - offset > segment else length - offset
                message = self._fill(message, items[i].data + offset, needed, 0, items[i].to,
                                     i if offset + needed == length else -1)
                offset += needed
        return message

    cdef int _send_alone(self, SendItem* items, int count) noexcept nogil:
        """Send one item that has more segments than a batch holds, in pieces; 1 when whole."""
        cdef SendItem piece = items[0]
        cdef uint32_t segment = items[0].segment_length_bytes
        cdef uint32_t left = items[0].length_bytes
        cdef uint32_t step = segment * (SEND_BATCH / 2)
        cdef int sent
        while left > 0:
            piece.length_bytes = step if left > step else left
            sent = self.send(&piece, 1)
            if sent <= 0:
                return sent
            piece.data += piece.length_bytes
            left -= piece.length_bytes
        return 1

    cdef int _send_messages(self, mmsghdr* messages, int count) noexcept nogil:
        """Send messages; return how many were sent, or -1 with errno. A single one is sent with `sendto`, for which the
        kernel has less to copy."""
        cdef msghdr* only = &messages.msg_hdr
        if count > 1 or only.msg_control != NULL:
            return sendmmsg(self._fd, messages, count, MSG_DONTWAIT | MSG_NOSIGNAL)
        return -1 if sendto(self._fd, only.msg_iov.iov_base, only.msg_iov.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL,
                            only.msg_name, only.msg_namelen) < 0 else 1

    cdef int send(self, SendItem* items, int count) noexcept nogil:
        cdef int done = 0, messages, base = 0, sent, error, i, attempts = 0
        if self._fd < 0:
            return -EBADF
        while done < count:
            messages = self._prepare(items + done, count - done)
            if messages == 0:
                sent = self._send_alone(items + done, 1)
                if sent <= 0:
                    return done if done > 0 else sent
                done += 1
                continue
            base = done
            i = 0
            while i < messages:
                sent = self._send_messages(self._network._messages + i, messages - i)
                if sent < 0:
                    error = c_errno
                    if error == EINTR:
                        continue
                    if error == EAGAIN or error == EWOULDBLOCK or error == ENOBUFS:
                        return done if done > 0 else -EAGAIN
                    if error == EBADF:
                        return -EBADF
                    if error == ECONNREFUSED and attempts < 2:
                        attempts += 1              # an earlier datagram's error: this one was not tried
                        continue
                    if self._network._messages[i].msg_hdr.msg_control != NULL and (
                            error == EINVAL or error == EMSGSIZE or error == EIO):
                        self._segmentation = False  # the device cannot: one datagram each from now on
                        break
                    sent = 1                        # lost on its way
                attempts = 0
                while sent > 0:
                    if self._network._item_of_message[i] >= 0:
                        done = base + self._network._item_of_message[i] + 1
                    i += 1
                    sent -= 1
        return done

    cdef int receive(self, ReceiveItem* items, int capacity) noexcept nogil:
        cdef bint is_alone = self._alone >= ALONE_MIN
        cdef int slots = 1 if is_alone else capacity if capacity < RECEIVE_BATCH else RECEIVE_BATCH
        cdef int count
        if self._fd < 0:
            return -EBADF
        count = self._receive_alone(items) if is_alone else self._receive_batch(items, slots)
        if count < 0:
            if c_errno == ECONNREFUSED or c_errno == EINTR:
                return 0                            # the next look finds what is there
            self.ready = False
            self._was_empty = True
            return 0 if c_errno == EAGAIN or c_errno == EWOULDBLOCK else -c_errno
        if count < slots or self._alone == ALONE_FOUND:
            self.ready = False
        return count

    cdef int _receive_batch(self, ReceiveItem* items, int slots) noexcept nogil:
        """Receive with `recvmmsg`; return how many datagrams, or -1 with errno."""
        cdef size_t control_length = CONTROL_LENGTH if self._network.coalescing or self._has_times else 0
        cdef mmsghdr* m
        cdef int i, count
        for i in range(slots):
            m = &self._network._received[i]
            m.msg_hdr.msg_name = items[i].source.storage
            m.msg_hdr.msg_namelen = sizeof(items[i].source.storage)
            m.msg_hdr.msg_controllen = control_length
        count = recvmmsg(self._fd, self._network._received, slots, MSG_DONTWAIT, NULL)
        for i in range(count):
            m = &self._network._received[i]
            items[i].data = self._network._buffers + i * RECEIVE_SLOT_LENGTH
            items[i].length_bytes = m.msg_len
            items[i].segment_length_bytes = m.msg_len
            items[i].source.length_bytes = m.msg_hdr.msg_namelen
            items[i].time_ns = 0
            if m.msg_hdr.msg_controllen != 0:
                self._read_control(&m.msg_hdr, &items[i])
        if count > 0:
            self._note_batch(items, count)
        return count

    cdef void _note_batch(self, const ReceiveItem* items, int count) noexcept nogil:
        """Count the receives that found one datagram where the one before had found none: after some in a row, one
        alone is asked for. Where `select` says when to receive, each finds something, and nothing would be saved."""
        if not self._was_empty or count > 1 or items.segment_length_bytes < items.length_bytes or self._has_times:
            self._alone = 0
        else:
            self._alone += 1
            if self._alone == ALONE_MIN and not self._stop_coalescing():
                self._alone = 0
        self._was_empty = False

    cdef int _receive_alone(self, ReceiveItem* item) noexcept nogil:
        """Receive one datagram with `recvfrom`, for which the kernel has less to copy than with ancillary data, and
        does not look for a second: 1, or -1 with errno."""
        cdef ssize_t length
        item.source.length_bytes = sizeof(item.source.storage)
        length = recvfrom(self._fd, self._network._buffers, RECEIVE_SLOT_LENGTH, MSG_DONTWAIT, <void*> item.source.storage,
                          &item.source.length_bytes)
        if length < 0:
            self._alone = ALONE_MIN
            return -1
        item.data = self._network._buffers
        item.length_bytes = item.segment_length_bytes = <uint32_t> length
        item.time_ns = 0
        if self._alone == ALONE_FOUND:
            self._coalesce(True)
            self._alone = 0
        else:
            self._alone = ALONE_FOUND
        return 1

    cdef void _coalesce(self, int32_t is_wanted) noexcept nogil:
        if self._network.coalescing:
            setsockopt(self._fd, IPPROTO_UDP_LEVEL, UDP_GRO, &is_wanted, sizeof(is_wanted))

    cdef bint _stop_coalescing(self) noexcept nogil:
        """Turn receive coalescing off. Datagrams coalesced before have lost their bounds for good: returns False, with
        nothing changed, when something has come meanwhile.

        What the kernel is about to put into the queue in this moment escapes the look. Frames carry their own lengths,
        so the driver takes it if all of it is of one stream and in its place, and else as a loss (`payload_length`).
        """
        cdef int waiting_bytes = 0
        self._coalesce(False)
        if ioctl(self._fd, FIONREAD, &waiting_bytes) == 0 and waiting_bytes == 0:
            return True
        self._coalesce(True)
        return False

    cdef void _read_control(self, msghdr* message, ReceiveItem* item) noexcept nogil:
        cdef cmsghdr* control = CMSG_FIRSTHDR(message)
        cdef timespec* time
        while control != NULL:
            if control.cmsg_level == IPPROTO_UDP_LEVEL and control.cmsg_type == UDP_GRO:
                item.segment_length_bytes = (<int*> CMSG_DATA(control))[0]
            elif control.cmsg_level == SOL_SOCKET and control.cmsg_type == SO_TIMESTAMPNS:
                time = <timespec*> CMSG_DATA(control)
                item.time_ns = <int64_t> time.tv_sec * 1000000000 + time.tv_nsec
            control = CMSG_NXTHDR(message, control)


def _ask_for_buffer(sock, size, option, force):
    """Ask for a buffer of a socket, as far as this process may: the channel tells what it got."""
    if size <= 0:
        return
    sock.setsockopt(socket.SOL_SOCKET, option, size)
    if sock.getsockopt(socket.SOL_SOCKET, option) < 2 * size:
        try:
            sock.setsockopt(socket.SOL_SOCKET, force, size)
        except PermissionError:
            pass


def granted_receive_buffer_bytes(size_bytes):
    """Return how large a receive buffer a socket of this process gets that asks for so much."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        _ask_for_buffer(sock, size_bytes, socket.SO_RCVBUF, _SO_RCVBUFFORCE)
        # Linux reports twice what was asked for, its bookkeeping included
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


cdef class UdpNetwork(DatagramNetwork):

    def __cinit__(self):
        self._epoll = self._event = self._wake_socket = -1

    def __init__(self, int descriptors_kept=0):
        """Open a network whose sockets leave `descriptors_kept` of the process's descriptors to files."""
        cdef epoll_event event
        self._descriptors_kept = descriptors_kept
        self.is_asked_at_once = True
        self._channels = {}
        self._by_slot = NativeVector()
        self._free_slots = []
        self._has_pwait2 = True
        self._messages = <mmsghdr*> calloc(SEND_BATCH, sizeof(mmsghdr))
        self._vectors = <iovec*> calloc(SEND_BATCH, sizeof(iovec))
        self._controls = <uint8_t*> calloc(SEND_BATCH, CONTROL_LENGTH)
        self._item_of_message = <int*> calloc(SEND_BATCH, sizeof(int))
        self._received = <mmsghdr*> calloc(RECEIVE_BATCH, sizeof(mmsghdr))
        self._received_vectors = <iovec*> calloc(RECEIVE_BATCH, sizeof(iovec))
        self._received_controls = <uint8_t*> calloc(RECEIVE_BATCH, CONTROL_LENGTH)
        self._buffers = <uint8_t*> malloc(RECEIVE_BATCH * RECEIVE_SLOT_LENGTH)
        if (self._messages == NULL or self._vectors == NULL or self._controls == NULL
                or self._item_of_message == NULL or self._received == NULL or self._received_vectors == NULL
                or self._received_controls == NULL or self._buffers == NULL):
            raise MemoryError
        self._lay_out_receives()
        self._epoll = epoll_create1(EPOLL_CLOEXEC)
        self._event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if self._epoll < 0 or self._event < 0:
            raise TransportError("cannot create epoll or eventfd: raise the limit of open files (ulimit -n)")
        event.events = EPOLLIN
        event.data.u64 = SLOT_EVENT
        epoll_ctl(self._epoll, EPOLL_CTL_ADD, self._event, &event)
        self._probe()

    def __dealloc__(self):
        for fd in (self._epoll, self._event):
            if fd >= 0:
                c_close(fd)
        free(self._messages)
        free(self._vectors)
        free(self._controls)
        free(self._item_of_message)
        free(self._received)
        free(self._received_vectors)
        free(self._received_controls)
        free(self._buffers)

    def _lay_out_receives(self):
        """Prepare what is the same for every receive."""
        cdef int i
        for i in range(RECEIVE_BATCH):
            self._received_vectors[i].iov_base = self._buffers + i * RECEIVE_SLOT_LENGTH
            self._received_vectors[i].iov_len = RECEIVE_SLOT_LENGTH
            self._received[i].msg_hdr.msg_iov = &self._received_vectors[i]
            self._received[i].msg_hdr.msg_iovlen = 1
            self._received[i].msg_hdr.msg_control = self._received_controls + i * CONTROL_LENGTH

    def _probe(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            self.segmentation = self._accepts(probe, UDP_SEGMENT, 0)
            self.coalescing = self._accepts(probe, UDP_GRO, 1)

    @staticmethod
    def _accepts(probe, option, value):
        try:
            probe.setsockopt(IPPROTO_UDP_LEVEL, option, value)
        except OSError:
            return False
        return True

    def fileno(self):
        """Return the epoll descriptor: readable when a channel or a waker is."""
        return self._epoll

    def resolve(self, str host, int port):
        """Return (numeric host, port) of a name, waiting for it; raise TransportError when it has none."""
        try:
            return resolve(host), port
        except TransportError as error:
            raise TransportError(f"{UNRESOLVED}={host!r}: {error.message}; check the name in the channel") from None

    def lookup(self, str host):
        """Return the numeric address of a name without waiting: None while it is looked up, then `select` ends."""
        if self._resolver is None:
            self._resolver = NameResolver(SystemClock(), self.wake)
        return self._resolver.lookup(host)

    def open(self, tuple bind=("0.0.0.0", 0), *, connect=None, group=None, interface=None, int ttl=0, bint reuse=False,
             int rcvbuf=0, int sndbuf=0, int tos=-1):
        """Return a channel bound to `bind` (host, port), connected or joined to a multicast `group` when given.

        `rcvbuf` and `sndbuf` are bytes, 0 for the system's default; `tos` is the byte of the IP header that says how
        packets are treated under way (DSCP and ECN), -1 for the system's default; `interface` is the address multicast leaves from
        and joins on. Raises TransportError in one line when the address cannot be had.
        """
        family = socket.AF_INET6 if ":" in (connect or group or bind)[0] else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError as error:
            raise TransportError(f"cannot open a socket for {bind[0]}:{bind[1]}: {error.strerror or error}; raise "
                                 "the limit of open files (ulimit -n)") from None
        try:
            self._check_room(sock, bind)
            self._set_up(sock, family, connect, group, interface, ttl, reuse, rcvbuf, sndbuf)
            self._mark(sock, family, tos)
            sock.bind(bind)
            if connect is not None:
                sock.connect(connect)
            return self._adopt(sock, rcvbuf, sndbuf)
        except OSError as error:
            raise _bind_error(error, bind) from None
        finally:
            sock.close()

    def _check_room(self, sock, bind):
        """Raise when few descriptors are left: new ones are the lowest free ones, so a high number says so."""
        if self._descriptors_kept == 0:
            return
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit != resource.RLIM_INFINITY and sock.fileno() + 1 >= limit - self._descriptors_kept:
            raise TransportError(f"cannot open a socket for {bind[0]}:{bind[1]}: the last {self._descriptors_kept} of "
                                 f"{limit} descriptors are for files; raise the limit of open files (ulimit -n)")

    def _set_up(self, sock, family, connect, group, interface, ttl, reuse, rcvbuf, sndbuf):
        if reuse:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _ask_for_buffer(sock, rcvbuf, socket.SO_RCVBUF, _SO_RCVBUFFORCE)
        _ask_for_buffer(sock, sndbuf, socket.SO_SNDBUF, _SO_SNDBUFFORCE)
        if self.coalescing:
            sock.setsockopt(IPPROTO_UDP_LEVEL, UDP_GRO, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if group is not None:
            self._join(sock, family, group[0], interface)
        if interface is not None or ttl > 0:
            self._set_multicast_out(sock, family, interface, ttl)

    @staticmethod
    def _mark(sock, family, tos):
        if tos >= 0 and family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        elif tos >= 0:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)

    @staticmethod
    def _join(sock, family, group, interface):
        if family == socket.AF_INET:
            request = socket.inet_aton(group) + socket.inet_aton(interface or "0.0.0.0")
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            sock.setsockopt(socket.IPPROTO_IP, 49, 0)          # IP_MULTICAST_ALL: only the groups joined here
            return
        index = UdpNetwork._interface_index(interface)
        request = socket.inet_pton(socket.AF_INET6, group) + struct.pack("=I", index)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)

    @staticmethod
    def _interface_index(interface):
        scope = (interface or "").partition("%")[2]
        if interface == "::1":
            return socket.if_nametoindex("lo")
        return 0 if not scope else int(scope) if scope.isdigit() else socket.if_nametoindex(scope)

    @staticmethod
    def _set_multicast_out(sock, family, interface, ttl):
        if family == socket.AF_INET:
            if interface is not None:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
            if ttl > 0:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            return
        if interface is not None:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, UdpNetwork._interface_index(interface))
        if ttl > 0:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)

    def _adopt(self, sock, rcvbuf, sndbuf):
        cdef UdpChannel channel = UdpChannel.__new__(UdpChannel)
        cdef epoll_event event
        channel._fd = -1
        channel._network = self
        channel._segmentation = self.segmentation
        channel.local_address = tuple(sock.getsockname()[:2])
        # Linux reports twice what was asked for, its bookkeeping included
        channel.receive_buffer_bytes = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        channel.send_buffer_bytes = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2
        channel._slot = self._take_slot(channel)
        channel._fd = sock.detach()
        event.events = EPOLLIN
        event.data.u64 = channel._slot
        if epoll_ctl(self._epoll, EPOLL_CTL_ADD, channel._fd, &event) != 0:
            raise TransportError("cannot watch the socket: raise the limit of open files (ulimit -n)")
        return channel

    def _take_slot(self, UdpChannel channel):
        cdef int64_t slot
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = self._by_slot.count
            self._by_slot.append()
        self._channels[slot] = channel
        (<void**> self._by_slot.items)[slot] = <void*> channel
        return slot

    def _forget(self, UdpChannel channel):
        epoll_ctl(self._epoll, EPOLL_CTL_DEL, channel._fd, NULL)
        (<void**> self._by_slot.items)[channel._slot] = NULL
        self._free_slots.append(channel._slot)
        del self._channels[channel._slot]

    cdef int _wait(self, void* events, int64_t timeout_ns) noexcept nogil:
        cdef timespec timeout
        cdef int count
        if timeout_ns == 0:
            return epoll_wait(self._epoll, <epoll_event*> events, EVENTS_MAX, 0)
        if self._has_pwait2 and timeout_ns > 0:
            timeout.tv_sec = timeout_ns / 1000000000
            timeout.tv_nsec = timeout_ns % 1000000000
            count = <int> syscall(SYS_EPOLL_PWAIT2, self._epoll, events, <int> EVENTS_MAX, &timeout, NULL, <size_t> 0)
            if count >= 0 or c_errno != ENOSYS:
                return count
            self._has_pwait2 = False
        return epoll_wait(self._epoll, <epoll_event*> events, EVENTS_MAX,
                          -1 if timeout_ns < 0 else <int> ((timeout_ns + 999999) / 1000000))

    cdef void _drain_wakers(self, int fd) noexcept nogil:
        cdef uint8_t scratch[64]
        if fd == self._event:
            c_read(fd, scratch, 8)
            return
        while c_recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT) > 0:
            pass

    cdef int select(self, int64_t timeout_ns) noexcept nogil:
        cdef epoll_event events[EVENTS_MAX]
        cdef int i, count, marked = 0
        cdef uint64_t slot
        cdef void* channel
        count = self._wait(events, timeout_ns)
        if count < 0:
            return 0 if c_errno == EINTR else -c_errno
        for i in range(count):
            slot = events[i].data.u64
            if slot == SLOT_EVENT:
                self._drain_wakers(self._event)
            elif slot == SLOT_WAKE_SOCKET:
                self._drain_wakers(self._wake_socket)
            else:
                channel = (<void**> self._by_slot.items)[slot]
                if channel != NULL:
                    (<UdpChannel> channel).ready = True
                    marked += 1
        return marked

    cdef int wait(self, int64_t timeout_ns) noexcept nogil:
        """Wait for readiness without touching any channel, so that another thread may open and close some meanwhile."""
        cdef epoll_event events[EVENTS_MAX]
        cdef int count = self._wait(events, timeout_ns)
        if count < 0:
            return 0 if c_errno == EINTR else -c_errno
        return count

    def interface_address(self, str text):
        """Return the numeric address of an `interface` parameter: address[:port][/prefix] or {name}[:port]."""
        return _interface_address(text)

    def wake(self):
        """End a `select` that waits, from any thread."""
        cdef uint64_t one = 1
        c_write(self._event, &one, 8)

    def open_wake_socket(self, str path):
        """Return a unix datagram socket at `path`: a byte sent to it ends a `select` that waits."""
        cdef epoll_event event
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            sock.bind(path)
        except OSError as error:
            sock.close()
            raise TransportError(f"cannot open the wake socket path={path!r}: {error.strerror or error}; a path over "
                                 "107 bytes is too long, choose a shorter driver folder") from None
        self._wake_socket = sock.detach()
        self._wake_path = path
        event.events = EPOLLIN
        event.data.u64 = SLOT_WAKE_SOCKET
        epoll_ctl(self._epoll, EPOLL_CTL_ADD, self._wake_socket, &event)

    def close(self):
        """Close every channel and the wakers; the network cannot be used afterwards."""
        if self._resolver is not None:
            self._resolver.close()
        for channel in list(self._channels.values()):
            channel.close()
        if self._wake_socket >= 0:
            c_close(self._wake_socket)
            self._wake_socket = -1
            try:
                os.unlink(self._wake_path)
            except FileNotFoundError:
                pass
        for fd in (self._epoll, self._event):
            if fd >= 0:
                c_close(fd)
        self._epoll = self._event = -1
