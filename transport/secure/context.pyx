"""Clock, buffers, cookies and bounds of a network's encrypted sockets."""

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from ordo.runtime.io.datagram cimport ADDRESS_IPV4, ADDRESS_IPV6, ADDRESS_LENGTH_IPV4, ADDRESS_PORT
from ordo.transport.driver.frames.frames cimport address_port
from ordo.transport.driver.frames.system_counters cimport count_event
from ordo.transport.secure.crypto cimport equal16, mac16
from ordo.transport.secure.session cimport HEAD_INDEX, HEAD_LENGTH, get_u32, get_u64

from ordo.transport.secure.crypto import preferred_suite

cdef enum:
    HANDSHAKES_PER_S = 100             # from one host, after a burst
    HANDSHAKES_BURST = 400
    REPORTS_MAX = 256
    REPORT_AGAIN_S = 60
    COOKIE_TEXT_HOST = 2               # what a cookie is made of: port, host, then index and nonce of the handshake
    COOKIE_TEXT_HANDSHAKE = 18
    COOKIE_TEXT_LENGTH = 30


cdef class SecureContext:
    """`on_report` takes a line that users should see; one of a kind and host comes once a minute."""

    def __init__(self, keyring not None, Clock clock not None, entropy not None, *, int64_t rekey_ns,
                 uint64_t rekey_count):
        self.keyring = keyring
        self.clock = clock
        self.entropy = entropy
        self.rekey_ns = rekey_ns
        self.rekey_count = rekey_count
        self.reported = {}
        self.now_ns = clock.nano_time()
        self.opened = <uint8_t*> malloc(RECEIVED_LENGTH_MAX)
        self.sealed = <uint8_t*> malloc(SEALED_LENGTH_MAX)
        self.buckets = <Bucket*> calloc(BUCKETS, sizeof(Bucket))
        if self.opened == NULL or self.sealed == NULL or self.buckets == NULL:
            raise MemoryError
        cdef bytes keys = self.random_bytes(64)
        memcpy(self.cookie_keys, <const char*> keys, 64)
        self.salt = int.from_bytes(self.random_bytes(8), "little") | 1
        for index in range(BUCKETS):
            self.buckets[<int> index].tokens = HANDSHAKES_BURST
            self.buckets[<int> index].filled_ns = self.now_ns
        self.preferred_suite = preferred_suite()
        self.load_own()

    def __dealloc__(self):
        free(self.opened)
        free(self.sealed)
        free(self.buckets)

    def attach(self, SystemCounters system, on_report):
        self.system = system
        self.on_report = on_report

    def load_own(self):
        """Return the own key, where native code finds it."""
        cdef bytes public = self.keyring.own.public
        memcpy(self.own_public, <const char*> public, 32)

    def random_bytes(self, int length):
        return <bytes> self.entropy(length)

    def turn_cookies(self):
        """Change the cookie keys; cookies made with the current key stay valid until the next change."""
        cdef bytes fresh = self.random_bytes(32)
        memcpy(&self.cookie_keys[32], self.cookie_keys, 32)
        memcpy(self.cookie_keys, <const char*> fresh, 32)

    def refill_notices(self, int64_t count):
        self.notices_left = count

    def report(self, str kind, str host, str text):
        """Report an event once a minute for each kind and host; a flood of forged ones is cut off."""
        now_s = self.now_ns // 1000000000
        key = (kind, host)
        if now_s - self.reported.get(key, now_s - REPORT_AGAIN_S) < REPORT_AGAIN_S:
            return
        if len(self.reported) >= REPORTS_MAX:
            self.reported = {key: at_s for key, at_s in self.reported.items() if now_s - at_s < REPORT_AGAIN_S}
            if len(self.reported) >= REPORTS_MAX:
                return
        self.reported[key] = now_s
        if self.on_report is not None:
            self.on_report(text)

    cdef void count(self, int index) noexcept nogil:
        if self.system is not None:
            count_event(self.system, index, 1)

    cdef bint make_cookie(self, const SocketAddress* source, const uint8_t* head, int key, uint8_t* out) noexcept nogil:
        """Make the cookie of an address, and of index and nonce of a handshake (bytes 4 to 15 of its datagrams)."""
        cdef uint8_t text[34]
        memset(text, 0, sizeof(text))
        memcpy(text, source.storage + ADDRESS_PORT, 2)
        if source.length_bytes <= ADDRESS_LENGTH_IPV4:
            memcpy(text + COOKIE_TEXT_HOST, source.storage + ADDRESS_IPV4, 4)
        else:
            memcpy(text + COOKIE_TEXT_HOST, source.storage + ADDRESS_IPV6, 16)
        memcpy(text + COOKIE_TEXT_HANDSHAKE, head + HEAD_INDEX, HEAD_LENGTH - HEAD_INDEX)
        return mac16(&self.cookie_keys[32 * key], 32, text, COOKIE_TEXT_LENGTH, out)

    cdef bint is_cookie(self, const SocketAddress* source, const uint8_t* head, const uint8_t* cookie) noexcept nogil:
        cdef uint8_t expected[16]
        cdef int key
        for key in range(2):
            if self.make_cookie(source, head, key, expected) and equal16(expected, cookie):
                return True
        return False

    cdef bint admit(self, const SocketAddress* source) noexcept nogil:
        """Return whether a host may have one more handshake now; hosts share buckets by a salted hash."""
        cdef uint64_t host = (get_u32(source.storage + ADDRESS_IPV4) if source.length_bytes <= ADDRESS_LENGTH_IPV4
                              else get_u64(source.storage + ADDRESS_IPV6))
        cdef Bucket* bucket = &self.buckets[((host * self.salt) >> 32) % BUCKETS]
        cdef int64_t earned = (self.now_ns - bucket.filled_ns) / (1000000000 / HANDSHAKES_PER_S)
        if earned > 0:
            bucket.tokens = bucket.tokens + earned if bucket.tokens + earned < HANDSHAKES_BURST else HANDSHAKES_BURST
            bucket.filled_ns = self.now_ns
        if bucket.tokens <= 0:
            return False
        bucket.tokens -= 1
        return True

    cdef int64_t key_of(self, const SocketAddress* address) noexcept nogil:
        """Return a lookup key of an address: exact for IPv4, a salted hash for IPv6, so that a match has to compare the
        address."""
        cdef uint64_t port = address_port(address)
        if address.length_bytes <= ADDRESS_LENGTH_IPV4:
            return <int64_t> (<uint64_t> get_u32(address.storage + ADDRESS_IPV4) << 16 | port)
        cdef uint64_t high = get_u64(address.storage + ADDRESS_IPV6) * self.salt
        cdef uint64_t low = (get_u64(address.storage + ADDRESS_IPV6 + sizeof(uint64_t)) ^ (high >> 29)) * self.salt
        return <int64_t> ((low ^ (low >> 32) ^ high) * self.salt ^ port | <uint64_t> 1 << 63)
