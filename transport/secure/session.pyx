"""Sessions and peers."""

from libc.string cimport memcpy, memset

from ordo.transport.udp import unpack_address

cdef uint64_t NUMBER_MAX = <uint64_t> 1 << 48


cdef class SecureSession:
    """`keys` are (to seal with, to open with)."""

    def __init__(self, int suite, tuple keys not None, *, uint32_t local_index, uint32_t remote_index,
                 bytes identity not None, bint is_confirmed, int64_t renew_ns, int64_t expire_ns):
        self.sealing = Aead(suite, keys[0], is_sealing=True)
        self.opening = Aead(suite, keys[1], is_sealing=False)
        self.local_index = local_index
        self.remote_index = remote_index
        self.identity = identity
        self.is_confirmed = is_confirmed
        self.renew_ns = renew_ns
        self.expire_ns = expire_ns

    cdef bint seal(self, const uint8_t* plain, uint32_t length, uint8_t* out) noexcept nogil:
        """Seal a datagram into `length` + OVERHEAD_LENGTH bytes."""
        put_head(out, KIND_DATA, self.remote_index, self.sent_count)
        self.sent_count += 1
        return self.sealing.seal(self.sent_count - 1, NULL, 0, plain, <int> length, out + HEAD_LENGTH)

    cdef int open(self, const uint8_t* datagram, uint32_t length, uint8_t* out) noexcept nogil:
        """Open a datagram; return the bytes of plain text, or an OPENED_ reason."""
        cdef uint64_t number = get_u64(datagram + HEAD_NUMBER)
        if not self.is_new(number):
            return OPENED_REPLAYED
        if not self.opening.open(number, NULL, 0, datagram + HEAD_LENGTH, <int> (length - OVERHEAD_LENGTH), out):
            return OPENED_FORGED
        self.note(number)
        return <int> (length - OVERHEAD_LENGTH)

    cdef bint is_new(self, uint64_t number) noexcept nogil:
        if number > self.highest:
            return number < NUMBER_MAX
        if self.highest - number >= (WINDOW_WORDS - 1) * 64:
            return False
        return (self.window[(number >> 6) % WINDOW_WORDS] >> (number & 63)) & 1 == 0

    cdef void note(self, uint64_t number) noexcept nogil:
        cdef uint64_t word = self.highest >> 6, last = number >> 6
        if number > self.highest:
            if last - word >= WINDOW_WORDS:
                memset(self.window, 0, sizeof(self.window))
            else:
                while word < last:
                    word += 1
                    self.window[word % WINDOW_WORDS] = 0
            self.highest = number
        self.window[last % WINDOW_WORDS] |= <uint64_t> 1 << (number & 63)

    def take(self, uint64_t number):
        """Return whether a number is new, and if so, note it. For tests."""
        found = self.is_new(number)
        if found:
            self.note(number)
        return found


cdef class SecurePeer:

    def __init__(self, bytes packed not None, int64_t now_ns):
        memset(&self.address, 0, sizeof(self.address))
        memcpy(self.address.storage, <const char*> packed, len(packed))
        self.address.length_bytes = len(packed)
        self.packed = packed
        self.name = unpack_address(packed)
        self.used_ns = now_ns
        self.answered_ephemeral = b""
        self.answer = b""
        self.held = []

    def call(self, calling):
        """Note that a handshake begins."""
        self.calling = calling
        self.is_calling = True
        self.calling_index = calling.index
        self.calling_nonce = int.from_bytes(calling.nonce, "little")

    def end_call(self):
        self.calling = None
        self.is_calling = False

    def sessions(self):
        return [one for one in (self.current, self.previous, self.next) if one is not None]

    def adopt(self, SecureSession session not None):
        """Seal with a session from now on; return the one that falls out, or None."""
        dropped = self.previous
        self.previous = self.current
        self.current = session
        if self.next is session:
            self.next = None
        session.peer = <void*> self
        return dropped

    def await_proof(self, SecureSession session not None):
        """Add a session that counts once something arrives on it; return the one that falls out, or None."""
        dropped = self.next
        self.next = session
        session.peer = <void*> self
        return dropped

    def drop(self, SecureSession session not None):
        if self.current is session:
            self.current = None
        if self.previous is session:
            self.previous = None
        if self.next is session:
            self.next = None
