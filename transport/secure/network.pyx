"""A network whose sockets encrypt: real or simulated ones inside.

Multicast has no keys that two sockets could agree on; it is refused.
"""

import ipaddress
import os

from libc.stdint cimport int64_t, uint64_t
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.io.datagram cimport DatagramNetwork
from ordo.transport.driver.frames.pointers cimport PointerArray, pointer_at
from ordo.transport.driver.frames.system_counters cimport SystemCounters
from ordo.transport.secure.channel cimport SecureChannel
from ordo.transport.secure.context cimport SecureContext

from ordo.runtime.errors import ChannelError

cdef enum:
    CARE_NS = 1000000000
    COOKIE_TURNS_S = 30
    NOTICES_PER_S = 500

REKEY_NS = 120_000_000_000
REKEY_COUNT = 1 << 26


cdef class SecureNetwork(DatagramNetwork):
    """`keyring` holds the own key and those that are trusted; `entropy` gives random bytes."""

    def __init__(self, DatagramNetwork inner not None, keyring not None, Clock clock not None, *, entropy=os.urandom,
                 int64_t rekey_ns=REKEY_NS, uint64_t rekey_count=REKEY_COUNT):
        self.inner = inner
        self.context = SecureContext(keyring, clock, entropy, rekey_ns=rekey_ns, rekey_count=rekey_count)
        self.channels = []
        self.pointers = PointerArray()
        self.keys_version = keyring.version

    def attach(self, SystemCounters system, on_report):
        """Set the counter for refused datagrams, and the function that reports to users."""
        self.context.attach(system, on_report)

    def __getattr__(self, name):
        """Take over what has nothing to do with encryption: names, wakers, file descriptors."""
        return getattr(self.inner, name)

    def open(self, tuple bind=("0.0.0.0", 0), *, connect=None, group=None, interface=None, int ttl=0, bint reuse=False,
             int rcvbuf=0, int sndbuf=0, int tos=-1):
        """Open an encrypted channel; see DatagramNetwork.open. Raises ChannelError for multicast."""
        if group is not None or (connect is not None and ipaddress.ip_address(connect[0].split("%")[0]).is_multicast):
            raise ChannelError(f"{(group or connect)[0]}: multicast cannot be encrypted; use unicast or control-mode "
                               "(several destinations), or a driver without [encryption]")
        inner = self.inner.open(bind, connect=connect, interface=interface, ttl=ttl, reuse=reuse, rcvbuf=rcvbuf,
                                sndbuf=sndbuf, tos=tos)
        channel = SecureChannel(inner, self.context, self.forget, connect=connect)
        self.channels.append(channel)
        self.pointers.add(<void*> channel)
        return channel

    cdef int select(self, int64_t timeout_ns) noexcept nogil:
        cdef int i, marked = self.inner.select(timeout_ns)
        self.context.now_ns = self.context.clock.nano_time()
        if marked > 0:
            for i in range(self.pointers.count):
                if (<SecureChannel> pointer_at(self.pointers, i)).inner.ready:
                    (<SecureChannel> pointer_at(self.pointers, i)).ready = True
        if self.context.now_ns >= self.care_ns:
            self.care_ns = self.context.now_ns + CARE_NS
            with gil:
                self._care()
        return marked

    cdef int wait(self, int64_t timeout_ns) noexcept nogil:
        return self.inner.wait(timeout_ns)

    cdef void _care(self) noexcept:
        """Clean up once a second: closed sockets, old keys, cookies."""
        try:
            self.context.refill_notices(NOTICES_PER_S)
            if self.keys_version != self.context.keyring.version:
                self.keys_version = self.context.keyring.version
                self.context.load_own()
                for channel in self.channels:
                    channel.check_trust()
            self.turns += 1
            if self.turns % COOKIE_TURNS_S == 0:
                self.context.turn_cookies()
            for channel in self.channels:
                channel.expire()
        except Exception as error:
            self.context.report("error", str(type(error)), f"encryption: {error}")

    def forget(self, channel):
        """Forget a channel that was closed."""
        if channel in self.channels:
            self.channels.remove(channel)
        self.pointers.remove(<void*> channel)

    def resolve(self, str host, int port):
        return self.inner.resolve(host, port)

    def close(self):
        """Close every channel."""
        for channel in list(self.channels):
            channel.close()
        self.inner.close()
