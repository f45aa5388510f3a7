"""How many images strangers may cause, each and all together: number, memory, and how fast.

A SETUP is believed before anything else of its sender is known, so what it costs is bounded. Over a bound the newest is
refused, in native code and without a trace but a counter, and whoever was admitted before notices nothing.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from ordo.runtime.native.time_units cimport SECOND_NS
from ordo.runtime.io.datagram cimport ADDRESS_IPV4, ADDRESS_IPV6
from ordo.transport.driver.frames.frames cimport (COUNTER_IMAGES_FULL, COUNTER_IMAGES_OF_SOURCE_FULL, COUNTER_SETUPS_TOO_FAST,
                                      COUNTER_TERMS_TOO_LONG, load_address)

cdef enum:
    PROBES_MAX = 32
    IPV4_LENGTH = 16                   # of a sockaddr_in; longer ones are sockaddr_in6



cdef inline int64_t mapped_length(int32_t term_length) noexcept nogil:
    return 3 * <int64_t> term_length + 4096


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    value = (value ^ (value >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9ULL
    value = (value ^ (value >> 27)) * <uint64_t> 0x94D049BB133111EBULL
    return value ^ (value >> 31)


cdef uint64_t host_key(const SocketAddress* source, uint64_t secret) noexcept nogil:
    """Return a number that stands for the host of an address, never 0. Of an IPv6 address only the first 64 bits count,
    because one host may have all addresses that share them."""
    cdef uint64_t part = 0
    if source.length_bytes <= IPV4_LENGTH:
        memcpy(&part, source.storage + ADDRESS_IPV4, 4)
    else:
        memcpy(&part, source.storage + ADDRESS_IPV6, 8)
    return mix(mix(part ^ secret) + source.length_bytes) | 1


cdef class Admission:
    """`secret` keeps strangers from choosing addresses that share an account; `rate_per_source` is set-ups a second."""

    def __init__(self, *, secret, int term_length_max, int images_max, int images_per_source_max,
                 int unconfirmed_per_source_max, int64_t bytes_max, int64_t bytes_per_source_max, int rate_per_source,
                 int burst_per_source):
        self.sources = <Source*> calloc(SOURCES_MAX, sizeof(Source))
        if self.sources == NULL:
            raise MemoryError
        self.secret = secret
        self.term_length_max = term_length_max
        self.images_max = images_max
        self.images_per_source_max = images_per_source_max
        self.unconfirmed_per_source_max = unconfirmed_per_source_max
        self.bytes_max = bytes_max
        self.bytes_per_source_max = bytes_per_source_max
        self.interval_ns = SECOND_NS // rate_per_source
        self.burst_ns = self.interval_ns * burst_per_source

    def __dealloc__(self):
        free(self.sources)

    cdef Source* _find(self, const SocketAddress* source, int64_t now_ns) noexcept nogil:
        """Return the account of a host, a new one if need be; NULL when all slots near its place are in use."""
        cdef uint64_t key = host_key(source, self.secret)
        cdef Source* vacant = NULL
        cdef Source* found
        cdef int i
        for i in range(PROBES_MAX):
            found = &self.sources[(key + <uint64_t> i) & (SOURCES_MAX - 1)]
            if found.key == key:
                return found
            if vacant == NULL and found.images == 0 and found.paid_until_ns <= now_ns:
                vacant = found
        if vacant != NULL:
            vacant.key = key
            vacant.paid_until_ns = now_ns
        return vacant

    cdef int admit(self, const SocketAddress* source, int32_t term_length, int64_t now_ns) noexcept nogil:
        cdef Source* account
        cdef int64_t length = mapped_length(term_length)
        if term_length > self.term_length_max:
            return COUNTER_TERMS_TOO_LONG
        if self.images >= self.images_max or self.mapped_bytes + length > self.bytes_max:
            return COUNTER_IMAGES_FULL
        account = self._find(source, now_ns)
        if account == NULL:
            return COUNTER_IMAGES_FULL
        if account.images >= self.images_per_source_max or account.mapped_bytes + length > self.bytes_per_source_max:
            return COUNTER_IMAGES_OF_SOURCE_FULL
        if account.unconfirmed >= self.unconfirmed_per_source_max:
            return COUNTER_SETUPS_TOO_FAST
        if account.paid_until_ns < now_ns:
            account.paid_until_ns = now_ns
        if account.paid_until_ns + self.interval_ns > now_ns + self.burst_ns:
            return COUNTER_SETUPS_TOO_FAST
        account.paid_until_ns += self.interval_ns
        account.images += 1
        account.unconfirmed += 1
        account.mapped_bytes += length
        self.images += 1
        self.mapped_bytes += length
        return 0

    def ask(self, bytes source, int32_t term_length, int64_t now_ns):
        """Return the verdict of `admit`, for Python tests: 0 when the image is admitted."""
        cdef SocketAddress address
        load_address(&address, source)
        return self.admit(&address, term_length, now_ns)

    cdef Source* _known(self, const SocketAddress* source) noexcept nogil:
        """Return the account of a host that has images."""
        cdef uint64_t key = host_key(source, self.secret)
        cdef int i
        for i in range(PROBES_MAX):
            if self.sources[(key + <uint64_t> i) & (SOURCES_MAX - 1)].key == key:
                return &self.sources[(key + <uint64_t> i) & (SOURCES_MAX - 1)]
        return NULL

    cdef void confirm(self, const SocketAddress* source) noexcept nogil:
        cdef Source* account = self._known(source)
        if account != NULL:
            account.unconfirmed -= 1

    def release(self, bytes source not None, int32_t term_length, bint is_confirmed):
        """Release the account of an admitted image that is gone, or was not built."""
        cdef SocketAddress address
        cdef Source* account
        load_address(&address, source)
        account = self._known(&address)
        self.images -= 1
        self.mapped_bytes -= mapped_length(term_length)
        if account != NULL:
            account.images -= 1
            account.unconfirmed -= not is_confirmed
            account.mapped_bytes -= mapped_length(term_length)
