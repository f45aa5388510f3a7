"""The loops of the raw floor: what four bare processes need for the four datagrams of one replicated request.

A datagram is 9 bytes of header and zeros up to the size asked for:

    0          8       9
    sequence   kind    zeros
    i64        u8
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.errno cimport EAGAIN, EINTR, ECONNREFUSED, errno
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset
from ordo.runtime.native.atomics cimport ordo_get_i64, ordo_monotonic_ns, ordo_put_i64, sched_yield

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_DONTWAIT
    ctypedef unsigned int socklen_t
    struct sockaddr:
        pass
    ssize_t recv(int fd, void* data, size_t length, int flags)
    ssize_t sendto(int fd, const void* data, size_t length, int flags, const sockaddr* to, socklen_t to_length)

cdef extern from "<netinet/in.h>" nogil:
    enum: AF_INET
    enum: INADDR_LOOPBACK
    struct in_addr:
        uint32_t s_addr
    struct sockaddr_in:
        uint16_t sin_family
        uint16_t sin_port
        in_addr sin_addr
    uint16_t htons(uint16_t value)
    uint32_t htonl(uint32_t value)

cdef extern from "<poll.h>" nogil:
    enum: POLLIN
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* fds, unsigned long count, int timeout_ms)

cdef extern from "<unistd.h>" nogil:
    int getppid()

cdef enum:
    DATAGRAM_MAX = 65507
    HEADER_LENGTH = 9
    KIND_REQUEST = 1
    KIND_APPEND = 2
    KIND_APPENDED = 3
    KIND_REPLY = 4
    POLL_TIMEOUT_MS = 200


cdef void _loopback(sockaddr_in* address, int port) noexcept nogil:
    memset(address, 0, sizeof(sockaddr_in))
    address.sin_family = AF_INET
    address.sin_port = htons(<uint16_t> port)
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK)


cdef int _send(int fd, const uint8_t* data, size_t length, const sockaddr_in* to) noexcept nogil:
    """0, or -errno. A full socket buffer or a peer that is gone loses the datagram, as a network would."""
    if sendto(fd, data, length, 0, <const sockaddr*> to, sizeof(sockaddr_in)) < 0:
        if errno != EAGAIN and errno != EINTR and errno != ECONNREFUSED:
            return -errno
    return 0


cdef ssize_t _receive(int fd, uint8_t* data, int64_t spin_ns) noexcept nogil:
    """Length of the next datagram; 0 when none came in POLL_TIMEOUT_MS; -errno. Spins, yielding, before it blocks."""
    cdef pollfd waiting
    cdef ssize_t length
    cdef int64_t deadline_ns
    length = recv(fd, data, DATAGRAM_MAX, MSG_DONTWAIT)
    if length < 0 and spin_ns > 0:
        deadline_ns = ordo_monotonic_ns() + spin_ns
        while length < 0 and ordo_monotonic_ns() < deadline_ns:
            sched_yield()
            length = recv(fd, data, DATAGRAM_MAX, MSG_DONTWAIT)
    if length < 0:
        waiting.fd = fd
        waiting.events = POLLIN
        waiting.revents = 0
        if poll(&waiting, 1, POLL_TIMEOUT_MS) == 0:
            return 0
        length = recv(fd, data, DATAGRAM_MAX, MSG_DONTWAIT)
    if length < 0:
        return 0 if errno == EAGAIN or errno == EINTR or errno == ECONNREFUSED else -errno
    return length


cdef int _follow(int fd, int leader_port, int64_t spin_ns, uint8_t* data) noexcept nogil:
    cdef sockaddr_in leader
    cdef ssize_t length
    cdef int parent = getppid()
    cdef int result = 0
    _loopback(&leader, leader_port)
    while result == 0 and getppid() == parent:
        length = _receive(fd, data, spin_ns)
        if length < 0:
            return <int> length
        if length >= HEADER_LENGTH and data[8] == KIND_APPEND:
            data[8] = KIND_APPENDED
            result = _send(fd, data, <size_t> length, &leader)
    return result


cdef int _lead(int fd, int client_port, int first_port, int second_port, int64_t spin_ns, uint8_t* data) noexcept nogil:
    cdef sockaddr_in client, first, second
    cdef ssize_t length
    cdef int64_t replied = -1
    cdef int parent = getppid()
    cdef int result = 0
    _loopback(&client, client_port)
    _loopback(&first, first_port)
    _loopback(&second, second_port)
    while result == 0 and getppid() == parent:
        length = _receive(fd, data, spin_ns)
        if length < 0:
            return <int> length
        if length < HEADER_LENGTH:
            continue
        if data[8] == KIND_REQUEST:
            data[8] = KIND_APPEND
            result = _send(fd, data, <size_t> length, &first)
            if result == 0:
                result = _send(fd, data, <size_t> length, &second)
        elif data[8] == KIND_APPENDED and ordo_get_i64(data) > replied:
            replied = ordo_get_i64(data)
            data[8] = KIND_REPLY
            result = _send(fd, data, <size_t> length, &client)
    return result


cdef int64_t _round_trip(int fd, const sockaddr_in* leader, int64_t sequence, int size_bytes, int64_t spin_ns,
                         uint8_t* data) noexcept nogil:
    """Nanoseconds until the reply; 0 when the datagram was lost; -errno."""
    cdef int64_t start_ns = ordo_monotonic_ns()
    cdef ssize_t length
    cdef int result
    ordo_put_i64(data, sequence)
    data[8] = KIND_REQUEST
    result = _send(fd, data, <size_t> size_bytes, leader)
    if result < 0:
        return result
    while True:
        length = _receive(fd, data, spin_ns)
        if length <= 0:
            return length
        if length >= HEADER_LENGTH and data[8] == KIND_REPLY and ordo_get_i64(data) == sequence:
            return ordo_monotonic_ns() - start_ns


def follow(int fd, int leader_port, int64_t spin_ns):
    """Answers every append until the parent process is gone. Raises OSError."""
    _run(fd, leader_port, 0, 0, spin_ns, False)


def lead(int fd, int client_port, int first_port, int second_port, int64_t spin_ns):
    """Replicates requests and replies after the first follower's answer, until the parent is gone. Raises OSError."""
    _run(fd, client_port, first_port, second_port, spin_ns, True)


cdef object _run(int fd, int port, int first_port, int second_port, int64_t spin_ns, bint leads):
    cdef uint8_t* data = <uint8_t*> PyMem_Malloc(DATAGRAM_MAX)
    cdef int result
    if data == NULL:
        raise MemoryError()
    try:
        with nogil:
            result = _lead(fd, port, first_port, second_port, spin_ns, data) if leads else _follow(
                fd, port, spin_ns, data)
    finally:
        PyMem_Free(data)
    if result < 0:
        raise OSError(-result, "datagram socket failed")


def drive(int fd, int leader_port, int size_bytes, int64_t spin_ns, int64_t first_sequence, int64_t[::1] out_ns):
    """Fills `out_ns` with round trips of datagrams of `size_bytes`, one outstanding; a lost one is 0.

    Sequences begin at `first_sequence` and must grow from call to call. Raises ValueError for a size out of
    9..65507, OSError when the socket fails.
    """
    if not HEADER_LENGTH <= size_bytes <= DATAGRAM_MAX:
        raise ValueError(f"size_bytes={size_bytes}: {HEADER_LENGTH} to {DATAGRAM_MAX} are allowed")
    cdef uint8_t* data = <uint8_t*> PyMem_Malloc(DATAGRAM_MAX)
    cdef sockaddr_in leader
    cdef Py_ssize_t index = 0
    cdef int64_t result = 0
    if data == NULL:
        raise MemoryError()
    try:
        _loopback(&leader, leader_port)
        with nogil:
            memset(data, 0, DATAGRAM_MAX)
            for index in range(out_ns.shape[0]):
                result = _round_trip(fd, &leader, first_sequence + index, size_bytes, spin_ns, data)
                if result < 0:
                    break
                out_ns[index] = result
    finally:
        PyMem_Free(data)
    if result < 0:
        raise OSError(-result, "datagram socket failed")
