"""The datagram seam. The base classes refuse everything; `transport/udp` and the simulated network implement them.

Native implementations override the `cdef` methods. `PythonDatagramChannel` is the base of one written in Python.
"""

import errno

from libc.errno cimport EIO, EMSGSIZE, ENOSYS
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cdef enum:
    BATCH_MAX = 256             # items of one Python-level send or receive
    SEND_LENGTH_MAX = 65507     # payload of one UDP datagram over IPv4


cdef class DatagramChannel:
    """One socket. Beside what datagram.pxd declares, it has `local_address`, the bound (host, port), and `close()`."""

    cdef int send(self, SendItem* items, int count) noexcept nogil:
        return -ENOSYS

    cdef int receive(self, ReceiveItem* items, int capacity) noexcept nogil:
        return -ENOSYS

    def close(self):
        """Close the socket. Idempotent."""

    def key_name(self, bytes packed not None):
        """Return the name of the key that the peer at a packed sockaddr has proven to have; "" without encryption."""
        return ""

    def send_bytes(self, bytes payload, bytes to=b"", int segment_length_bytes=0):
        """Send one item to a packed sockaddr (b"": connected), as `send` does for native code. Returns the items sent,
        1 or 0. Raises OSError."""
        cdef SendItem item
        cdef SocketAddress address
        memset(&address, 0, sizeof(address))
        if len(to) > <Py_ssize_t> sizeof(address.storage):
            raise ValueError(f"address_length_bytes={len(to)}, at most {sizeof(address.storage)}")
        memcpy(address.storage, <const char*> to, len(to))
        address.length_bytes = len(to)
        item.data = <const uint8_t*> <const char*> payload
        item.length_bytes = len(payload)
        item.segment_length_bytes = segment_length_bytes or len(payload)
        item.to = &address if to else NULL
        cdef int result = self.send(&item, 1)
        if result < 0:
            raise OSError(-result, errno.errorcode.get(-result, "send failed"))
        return result

    def note_times(self):
        """Have the kernel note when each datagram arrives: `time_ns` of a ReceiveItem. Raises TransportError."""
        raise NotImplementedError(type(self).__name__)

    def receive_bytes(self, int capacity=16):
        """Receive a list of (datagram, packed sockaddr), one entry per datagram, as `receive` does for native code.
        Raises OSError."""
        if not 0 < capacity <= BATCH_MAX:
            raise ValueError(f"capacity={capacity}, allowed 1..{BATCH_MAX}")
        cdef ReceiveItem* items = <ReceiveItem*> calloc(capacity, sizeof(ReceiveItem))
        if items == NULL:
            raise MemoryError
        try:
            count = self.receive(items, capacity)
            if count < 0:
                raise OSError(-count, errno.errorcode.get(-count, "receive failed"))
            found = []
            for i in range(count):
                whole = (<char*> items[i].data)[:items[i].length_bytes]
                source = (<char*> items[i].source.storage)[:items[i].source.length_bytes]
                step = items[i].segment_length_bytes or max(len(whole), 1)
                for start in range(0, max(len(whole), 1), step):
                    found.append((whole[start:start + step], source))
            return found
        finally:
            free(items)


cdef class DatagramNetwork:
    """A network: `open` gives channels, `select` waits for all of them.

    The contract of `open`: a channel bound to `bind`, connected to `connect` or joined to a multicast `group` (each a
    (host, port) with a numeric host) when given; `interface` is the address multicast leaves from and joins on; `ttl`,
    `rcvbuf` and `sndbuf` are 0, `tos` (the byte of the IP header) is -1 for the system's default. Raises TransportError in one line.
    """

    cdef int select(self, int64_t timeout_ns) noexcept nogil:
        return -ENOSYS

    cdef int wait(self, int64_t timeout_ns) noexcept nogil:
        return -ENOSYS

    def open(self, tuple bind=("0.0.0.0", 0), *, connect=None, group=None, interface=None, int ttl=0, bint reuse=False,
             int rcvbuf=0, int sndbuf=0, int tos=-1):
        raise NotImplementedError(type(self).__name__)

    def resolve(self, str host, int port):
        """Return (numeric host, port) of a name; raise TransportError when it has none."""
        raise NotImplementedError(type(self).__name__)

    def select_channels(self, int64_t timeout_ns):
        """Wait for channels without the GIL; return the number of channels marked ready. Raises OSError."""
        cdef int count
        with nogil:
            count = self.select(timeout_ns)
        if count < 0:
            raise OSError(-count, errno.errorcode.get(-count, "select failed"))
        return count

    def close(self):
        """Close every channel."""


cdef class PythonDatagramChannel(DatagramChannel):
    """A channel in Python: implement `send_datagram(payload, to) -> bool` and `receive_datagram() -> (payload, source)
    | None`.

    Addresses are packed sockaddrs. An OSError becomes -errno; any other error -EIO, kept in `failure`. False from
    `send_datagram` ends the batch, as a full socket does.
    """
    cdef list _held
    cdef public object failure

    def send_datagram(self, bytes payload, bytes to):
        raise NotImplementedError(type(self).__name__)

    def receive_datagram(self):
        raise NotImplementedError(type(self).__name__)

    cdef int send(self, SendItem* items, int count) noexcept nogil:
        with gil:
            return self._send(items, count)

    cdef int receive(self, ReceiveItem* items, int capacity) noexcept nogil:
        with gil:
            return self._receive(items, capacity)

    cdef int _send(self, SendItem* items, int count) noexcept:
        cdef int i
        cdef uint32_t offset, length, step
        try:
            for i in range(count):
                to = b""
                if items[i].to != NULL:
                    to = (<char*> items[i].to.storage)[:items[i].to.length_bytes]
                step = items[i].segment_length_bytes or items[i].length_bytes
                if step > SEND_LENGTH_MAX:
                    return -EMSGSIZE
                offset = 0
                while offset < items[i].length_bytes:
                    length = min(step, items[i].length_bytes - offset)
                    if not self.send_datagram((<const char*> items[i].data)[offset:offset + length], to):
                        return i
                    offset += length
            return count
        except BaseException as error:
            return self._code_of(error)

    cdef int _receive(self, ReceiveItem* items, int capacity) noexcept:
        cdef int i = 0
        cdef bytes payload, source
        self._held = []
        try:
            while i < capacity:
                found = self.receive_datagram()
                if found is None:
                    return i
                payload, source = found
                self._held.append(payload)
                items[i].data = <uint8_t*> <char*> payload
                items[i].length_bytes = items[i].segment_length_bytes = len(payload)
                memcpy(items[i].source.storage, <const char*> source, min(28, <int> len(source)))
                items[i].source.length_bytes = len(source)
                items[i].time_ns = 0
                i += 1
            return i
        except BaseException as error:
            return self._code_of(error)

    cdef int _code_of(self, error) noexcept:
        if isinstance(error, OSError) and error.errno:
            return -<int> error.errno
        self.failure = error
        return -EIO
