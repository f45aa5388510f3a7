"""A socket whose datagrams are encrypted.

Each pair of sockets has keys of its own, so nothing is shared between threads, and what arrives is known to come from
the address that it comes from. What is sent to an address without keys begins a handshake and waits for its end; it is
begun again by what is sent, when it got no answer. New keys are agreed on while the old ones are still in use.
"""

from libc.string cimport memcpy, memset

from ordo.transport.driver.frames.frames cimport COUNTER_FORGED, COUNTER_HANDSHAKES_REFUSED, COUNTER_KEYS_AGREED, \
    COUNTER_NOT_ENCRYPTED, COUNTER_REPLAYED, COUNTER_UNKNOWN_KEYS, load_address, same_address
from ordo.transport.secure.context cimport RECEIVE_ITEMS, SEALED_LENGTH_MAX
from ordo.transport.secure.session cimport *

from ordo.runtime.errors import DecodeError, OrdoError
from ordo.transport.secure.crypto import preferred_suite
from ordo.transport.secure.handshakes import Called, Calling
from ordo.transport.secure.keys import public_text
from ordo.transport.secure.noise import KeyPair
from ordo.transport.udp import pack_address

cdef extern from "<errno.h>" nogil:
    int EAGAIN

cdef enum:
    SEGMENTS_MAX = 64                  # of one segmented send, as UdpChannel has it
    SEGMENTED_LENGTH_MAX = 65000
    DATAGRAM_LENGTH_MAX = 65507
    HELLO_LENGTH = 96
    COOKIE_REPLY_LENGTH = 72
    COOKIE_REPLY_STATIC_KEY = 32
    COOKIE_REPLY_SUITE = 64            # u8
    INIT_LENGTH = 136
    RESPONSE_LENGTH = 68
    DISTRUSTED_LENGTH = 32
    PEERS_MAX = 16384
    HELD_MAX = 16                      # datagrams that wait for a session, of one peer
    HELD_BYTES_MAX = 65536
    RETRY_NS = 250000000               # between attempts, twice as long each time, up to
    RETRY_MAX_NS = 2000000000
    SILENT_ATTEMPTS = 6                # then a line says that nobody answers

cdef int64_t EXPIRY_FACTOR = 4
cdef int64_t HEARD_LATELY_NS = 15000000000      # longer than an image lives without its sender


cdef class SecureChannel(DatagramChannel):

    def __init__(self, DatagramChannel inner not None, SecureContext context not None, on_close not None, *,
                 connect=None):
        self.inner = inner
        self.context = context
        self.on_close = on_close
        self.peers = {}
        self.by_address = PointerMap()
        self.by_index = PointerMap()
        if connect is not None:
            self._connect(connect)

    @property
    def local_address(self):
        return self.inner.local_address

    @property
    def receive_buffer_bytes(self):
        return self.inner.receive_buffer_bytes

    @property
    def send_buffer_bytes(self):
        return self.inner.send_buffer_bytes

    def fileno(self):
        return self.inner.fileno()

    def close(self):
        """Close the socket and forget its keys; a second call does nothing."""
        self.inner.close()
        self.on_close(self)
        self.ready = False
        self.connected = None
        for key in list(self.peers):
            self._forget(key)

    def note_times(self):
        """Note the arrival time of datagrams; see DatagramChannel.note_times."""
        self.inner.note_times()

    def reconnect(self, tuple address):
        """Send to, and hear from, another (host, port) from now on."""
        self.inner.reconnect(address)
        for key in list(self.peers):
            self._forget(key)
        self._connect(address)

    def _connect(self, tuple address):
        self.connected = self._make_peer(pack_address(*address))

    # --- peers ----------------------------------------------------------------------------------------------------

    def _make_peer(self, bytes packed):
        cdef SecurePeer peer = SecurePeer(packed, self.context.now_ns)
        cdef int64_t key = self.context.key_of(&peer.address)
        self._forget(key)
        self.peers[key] = peer
        self.by_address.put(key, <void*> peer)
        return peer

    def _forget(self, int64_t key):
        peer = self.peers.pop(key, None)
        if peer is None:
            return
        for session in peer.sessions():
            self.by_index.remove(session.local_index)
        self.by_address.remove(key)

    def _drop(self, session):
        if session is not None:
            self.by_index.remove(session.local_index)

    def key_name(self, bytes packed not None):
        """Return the name of the key that an address proved last; empty where there is none."""
        cdef SecurePeer probe = SecurePeer(packed, 0)
        peer = self.peers.get(self.context.key_of(&probe.address))
        if peer is None or peer.packed != packed or peer.current is None:
            return ""
        key = self.context.keyring.trusted.caller(peer.current.identity, peer.name[0])
        return "" if key is None else key.name

    def peer_names(self):
        """Return (host, port) of each peer with keys."""
        return [peer.name for peer in self.peers.values() if peer.current is not None]

    cdef void* _peer_of(self, const SocketAddress* to) noexcept nogil:
        cdef void* found
        if to == NULL:
            return <void*> self.connected if self.connected is not None else NULL
        found = self.by_address.get(self.context.key_of(to))
        if found == NULL or not same_address(&(<SecurePeer> found).address, to):
            return NULL
        return found

    def expire(self):
        """Forget keys and peers that are not used any more; called every few seconds."""
        cdef SecurePeer peer
        cdef int64_t now_ns = self.context.now_ns
        for key, peer in list(self.peers.items()):
            for session in peer.sessions():
                if now_ns >= session.expire_ns:
                    peer.drop(session)
                    self._drop(session)
            if peer is not self.connected and now_ns - peer.used_ns > EXPIRY_FACTOR * self.context.rekey_ns:
                self._forget(key)

    def check_trust(self):
        """End the sessions of keys that are not trusted any more and renew the others, after the keys changed."""
        cdef SecurePeer peer
        trusted = self.context.keyring.trusted
        for peer in self.peers.values():
            for session in peer.sessions():
                if trusted.callee(session.identity, *peer.name) is None:
                    peer.drop(session)
                    self._drop(session)
                session.renew_ns = 0

    # --- sending --------------------------------------------------------------------------------------------------

    cdef int send(self, SendItem* items, int count) noexcept nogil:
        cdef int i, sent, done = 0
        cdef void* peer
        self.queued = 0
        self.queued_bytes = 0
        for i in range(count):
            peer = self._peer_of(items[i].to)
            if peer == NULL or not self._is_ready(peer):
                self._attend(items[i].to, &items[i])
                peer = self._peer_of(items[i].to)
                if peer == NULL or (<SecurePeer> peer).current is None:
                    if self.queued == 0:
                        done = i + 1                # it is kept until there are keys, or lost
                    continue
            (<SecurePeer> peer).used_ns = self.context.now_ns
            sent = self._queue_sealed(peer, &items[i], i)
            if sent <= 0:
                return done if done > 0 else sent
            done = sent - 1 if sent > 1 else done
        if self.queued == 0:
            return count
        sent = self._flush(done)
        return count if sent == self.ends[self.queued - 1] else sent

    cdef bint _is_ready(self, void* peer) noexcept nogil:
        """Return whether there are keys, and no new ones are due."""
        cdef int64_t now_ns = self.context.now_ns
        if (<SecurePeer> peer).current is None or now_ns >= (<SecurePeer> peer).current.expire_ns:
            return False
        return ((now_ns < (<SecurePeer> peer).current.renew_ns
                 and (<SecurePeer> peer).current.sent_count < self.context.rekey_count)
                or now_ns < (<SecurePeer> peer).attend_ns)

    cdef int _flush(self, int done) noexcept nogil:
        """Send the queue; return the count of items that are whole, `done` of them before, or -errno."""
        cdef int sent = self.inner.send(self.queue, self.queued)
        if sent == self.queued:
            return self.ends[self.queued - 1]
        if sent > 0:
            return self.ends[sent - 1] if self.ends[sent - 1] > done else done
        return done if done > 0 else sent

    cdef int _queue_sealed(self, void* peer, SendItem* item, int index) noexcept nogil:
        """Seal an item into the queue: 1, or 1 + items sent when the queue had to be sent first; 0 or -errno when it
        could not be."""
        cdef const uint8_t* data = item.data
        cdef uint32_t left = item.length_bytes, segment = item.segment_length_bytes, chunk, step, length
        cdef uint8_t* out
        cdef int sent, answer = 1
        cdef SendItem* queued
        if segment == 0 or segment > left:
            segment = left
        if segment + OVERHEAD_LENGTH > DATAGRAM_LENGTH_MAX or segment == 0:
            return 1                                # no datagram is so long: lost, as UDP would lose it
        chunk = SEGMENTED_LENGTH_MAX / (segment + OVERHEAD_LENGTH)
        chunk = segment * (1 if chunk == 0 else chunk if chunk < SEGMENTS_MAX else SEGMENTS_MAX)
        while left > 0:
            step = left if left < chunk else chunk
            if self.queued == SEND_ITEMS or self.queued_bytes + 65536 > SEALED_LENGTH_MAX:
                sent = self._flush(0)
                if sent != self.ends[self.queued - 1]:
                    return sent if sent <= 0 else 0
                answer = 1 + index
                self.queued = 0
                self.queued_bytes = 0
            queued = &self.queue[self.queued]
            out = self.context.sealed + self.queued_bytes
            queued.data = out
            queued.to = item.to
            queued.segment_length_bytes = segment + OVERHEAD_LENGTH
            left -= step
            while step > 0:
                length = step if step < segment else segment
                if not (<SecurePeer> peer).current.seal(data, length, out):
                    return 1
                data += length
                out += length + OVERHEAD_LENGTH
                step -= length
            queued.length_bytes = <uint32_t> (out - queued.data)
            self.queued_bytes += queued.length_bytes
            self.ends[self.queued] = index + 1 if left == 0 else index
            self.queued += 1
        return answer

    cdef void _attend(self, const SocketAddress* to, SendItem* item) noexcept nogil:
        with gil:
            try:
                self._want_keys(to, item)
            except Exception as error:
                self.context.report("error", str(type(error)), f"encryption: {error}")

    cdef _want_keys(self, const SocketAddress* to, SendItem* item):
        """Begin a handshake when one is due; keep the datagrams when there are no keys at all."""
        cdef SecurePeer peer
        cdef void* found = self._peer_of(to)
        cdef uint32_t offset, step
        if found != NULL:
            peer = <SecurePeer> found
        elif to == NULL or len(self.peers) >= PEERS_MAX:
            return
        else:
            peer = self._make_peer((<const char*> to.storage)[:to.length_bytes])
        if peer.current is not None and self.context.now_ns >= peer.current.expire_ns:
            self._drop(peer.current)
            peer.drop(peer.current)
        if self.context.now_ns >= peer.attend_ns:
            self._call(peer)
        if peer.current is not None or len(peer.held) >= HELD_MAX:
            return
        if peer.held_bytes + item.length_bytes <= HELD_BYTES_MAX:
            peer.held_bytes += item.length_bytes
            peer.held.append(((<const char*> item.data)[:item.length_bytes], item.segment_length_bytes))

    def _call(self, SecurePeer peer):
        """Send the first datagram of a handshake."""
        context = self.context
        peer.call(Calling(self._new_index(), context.random_bytes(8)))
        peer.attempt_count += 1
        peer.attend_ns = context.now_ns + min(RETRY_NS << min(peer.attempt_count - 1, 8), RETRY_MAX_NS)
        self._send_bytes(peer, peer.calling.hello())
        if peer.attempt_count == SILENT_ATTEMPTS:
            host, port = peer.name
            context.report("silent", f"{host}:{port}", f"encryption: {host}:{port} answers no handshake: nobody is "
                           "there, or somebody without [encryption]")

    def _new_index(self):
        while True:
            index = int.from_bytes(self.context.random_bytes(4), "little")
            if index and self.by_index.get(<int64_t> <uint32_t> index) == NULL:
                return index

    def _send_bytes(self, SecurePeer peer, bytes datagram):
        self._send_one(<const uint8_t*> <const char*> datagram, len(datagram), &peer.address)

    cdef void _send_one(self, const uint8_t* datagram, uint32_t length, const SocketAddress* to) noexcept nogil:
        cdef SendItem item
        item.data = datagram
        item.length_bytes = length
        item.segment_length_bytes = length
        item.to = to if self.connected is None else NULL
        self.inner.send(&item, 1)

    # --- receiving ------------------------------------------------------------------------------------------------

    cdef int receive(self, ReceiveItem* items, int capacity) noexcept nogil:
        cdef ReceiveItem raw[RECEIVE_ITEMS]
        cdef int i, opened, filled = 0
        cdef uint32_t offset, length, first, total
        cdef uint8_t* out = self.context.opened
        cdef int count = self.inner.receive(raw, capacity if capacity < RECEIVE_ITEMS else RECEIVE_ITEMS)
        self.ready = self.inner.ready
        if count <= 0:
            return count
        for i in range(count):
            offset = first = total = 0
            while offset < raw[i].length_bytes:
                length = raw[i].length_bytes - offset
                if 0 < raw[i].segment_length_bytes < length:
                    length = raw[i].segment_length_bytes
                # only the last of a batch may be shorter than the first
                opened = self._take(raw[i].data + offset, length, &raw[i].source, out + total)
                if opened > 0:
                    if first == 0:
                        first = opened
                    if <uint32_t> opened <= first and total % first == 0:
                        total += opened
                offset += length
            if total > 0:
                items[filled].data = out
                items[filled].length_bytes = total
                items[filled].segment_length_bytes = first
                items[filled].source = raw[i].source
                items[filled].time_ns = raw[i].time_ns
                filled += 1
                out += total
        return filled

    cdef int _take(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source,
                   uint8_t* out) noexcept nogil:
        """Open one datagram; return the bytes of its frames, 0 when it has none."""
        if not has_mark(datagram, length):
            self._refuse_plain(datagram, length, source)
        elif datagram[0] == KIND_DATA:
            if length >= OVERHEAD_LENGTH:
                return self._open(datagram, length, source, out)
            self.context.count(COUNTER_FORGED)
        elif datagram[0] == KIND_HELLO:
            if length == HELLO_LENGTH:
                self._answer_hello(datagram, source)
        elif datagram[0] == KIND_INIT:
            if (length == INIT_LENGTH and self.context.is_cookie(source, datagram, datagram + HEAD_LENGTH)
                    and self.context.admit(source)):
                self._handshake(datagram, length, source)
            else:
                self.context.count(COUNTER_HANDSHAKES_REFUSED)
        elif self._is_expected(datagram, length, source):
            self._handshake(datagram, length, source)
        return 0

    cdef int _open(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source,
                   uint8_t* out) noexcept nogil:
        cdef void* found = self.by_index.get(<int64_t> get_u32(datagram + HEAD_INDEX))
        cdef int opened
        if (found == NULL or self.context.now_ns >= (<SecureSession> found).expire_ns
                or not same_address(source, &(<SecurePeer> (<SecureSession> found).peer).address)):
            self.context.count(COUNTER_UNKNOWN_KEYS)
            self._answer(KIND_UNKNOWN, datagram, length, source)
            return 0
        opened = (<SecureSession> found).open(datagram, length, out)
        if opened < 0:
            self.context.count(COUNTER_REPLAYED if opened == OPENED_REPLAYED else COUNTER_FORGED)
            return 0
        if not (<SecureSession> found).is_confirmed and not self._confirm(found):
            return 0
        (<SecurePeer> (<SecureSession> found).peer).used_ns = self.context.now_ns
        (<SecurePeer> (<SecureSession> found).peer).heard_ns = self.context.now_ns
        return opened

    cdef void _refuse_plain(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source) noexcept nogil:
        self.context.count(COUNTER_NOT_ENCRYPTED)
        self._answer(KIND_PLAIN, datagram, length, source)
        if self.context.notices_left <= 0:
            return
        with gil:
            host = SecurePeer((<const char*> source.storage)[:source.length_bytes], 0).name[0]
            self.context.report("plain", host, f"encryption: {host} sends datagrams that are not encrypted, which are "
                                "refused: give it an [encryption] block, too")

    cdef void _answer_hello(self, const uint8_t* hello, const SocketAddress* source) noexcept nogil:
        cdef uint8_t reply[COOKIE_REPLY_LENGTH]
        memset(reply, 0, sizeof(reply))
        put_head(reply, KIND_COOKIE, get_u32(hello + HEAD_INDEX), get_u64(hello + HEAD_NUMBER))
        if not self.context.make_cookie(source, hello, 0, reply + HEAD_LENGTH):
            return
        memcpy(reply + COOKIE_REPLY_STATIC_KEY, self.context.own_public, 32)
        reply[COOKIE_REPLY_SUITE] = self.context.preferred_suite
        self._send_one(reply, COOKIE_REPLY_LENGTH, source)

    cdef void _answer(self, uint8_t kind, const uint8_t* datagram, uint32_t length,
                      const SocketAddress* source) noexcept nogil:
        """Answer with a hint of 16 bytes, limited per second, and never longer than what it answers."""
        cdef uint8_t reply[HEAD_LENGTH]
        if length < HEAD_LENGTH or self.context.notices_left <= 0:
            return
        self.context.notices_left -= 1
        put_head(reply, kind, get_u32(datagram + HEAD_INDEX), get_u64(datagram + HEAD_NUMBER))
        self._send_one(reply, HEAD_LENGTH, source)

    cdef bint _is_expected(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source) noexcept nogil:
        """Return whether a hint answers what this socket sent there: nobody off the path knows index and number."""
        cdef void* peer = self._peer_of(source)
        cdef uint8_t kind = datagram[0]
        cdef uint32_t index = get_u32(datagram + HEAD_INDEX)
        if kind == KIND_DISTRUSTED:
            return length == DISTRUSTED_LENGTH and self.context.is_cookie(source, datagram, datagram + HEAD_LENGTH)
        if peer == NULL:
            return False
        if kind == KIND_UNKNOWN:
            return (length == HEAD_LENGTH and (<SecurePeer> peer).current is not None
                    and (<SecurePeer> peer).current.remote_index == index
                    and get_u64(datagram + HEAD_NUMBER) < (<SecurePeer> peer).current.sent_count
                    and self.context.now_ns >= (<SecurePeer> peer).attend_ns)
        if not (<SecurePeer> peer).is_calling or (<SecurePeer> peer).calling_index != index \
                or (<SecurePeer> peer).calling_nonce != get_u64(datagram + HEAD_NUMBER):
            return False
        return (kind == KIND_COOKIE and length == COOKIE_REPLY_LENGTH
                or kind == KIND_RESPONSE and length == RESPONSE_LENGTH
                or kind == KIND_REFUSED and length == HEAD_LENGTH)

    # --- handshakes -----------------------------------------------------------------------------------------------

    cdef void _handshake(self, const uint8_t* datagram, uint32_t length, const SocketAddress* source) noexcept nogil:
        with gil:
            try:
                self._on_handshake((<const char*> datagram)[:length], (<const char*> source.storage)[:source.length_bytes],
                                   source)
            except OrdoError:
                self.context.count(COUNTER_HANDSHAKES_REFUSED)
            except Exception as error:
                self.context.report("error", str(type(error)), f"encryption: {error}")

    cdef _on_handshake(self, bytes datagram, bytes packed, const SocketAddress* source):
        cdef void* found = self._peer_of(source)
        peer = <SecurePeer> found if found != NULL else None
        kind = datagram[0]
        if kind == KIND_INIT:
            self._on_init(datagram, packed, peer)
        elif kind == KIND_DISTRUSTED:
            host, port = SecurePeer(packed, 0).name
            self.context.report("distrusted", host, f"encryption: {host}:{port} does not trust the key of this side, "
                                f"{public_text(self.context.keyring.own.public)}")
        elif kind == KIND_COOKIE:
            self._on_cookie(datagram, peer)
        elif kind == KIND_RESPONSE:
            self._on_response(datagram, peer)
        elif kind == KIND_UNKNOWN:
            self._call(peer)
        else:
            host, port = peer.name
            self.context.report("refused", host, f"encryption: {host}:{port} does not trust the key of this side, "
                                f"{public_text(self.context.keyring.own.public)}")

    def _on_cookie(self, bytes datagram, SecurePeer peer):
        host, port = peer.name
        public = peer.calling.read_cookie(datagram)
        keyring = self.context.keyring
        if keyring.trusted.callee(public, host, port) is None:
            self._send_bytes(peer, peer.calling.distrusted())
            peer.end_call()
            self.context.count(COUNTER_HANDSHAKES_REFUSED)
            self.context.report("untrusted", host, f"encryption: {host}:{port} has the key {public_text(public)}, which "
                                "is not trusted there: add it with `ordo keys trust` if it should be")
            return
        if self._is_anothers(peer, public):
            peer.end_call()
            peer.attempt_count = min(peer.attempt_count, SILENT_ATTEMPTS - 2)     # somebody does answer there
            self._refuse_another(peer, public)
            return
        self._send_bytes(peer, peer.calling.init(keyring.own, KeyPair.of(self.context.random_bytes(32))))

    def _is_anothers(self, SecurePeer peer, bytes public):
        """Return whether an address belongs to a key of another name that was heard lately and may have open
        streams."""
        if peer.current is None or self.context.now_ns - peer.heard_ns >= HEARD_LATELY_NS:
            return False
        return not self.context.keyring.trusted.are_one(peer.current.identity, public)

    def _refuse_another(self, SecurePeer peer, bytes public):
        """Refuse another key at an address in use. Both sides try again until the address has been quiet, or its old
        key is not trusted any more."""
        host, port = peer.name
        self.context.count(COUNTER_HANDSHAKES_REFUSED)
        self.context.report("another", host, f"encryption: {host}:{port} shows the key {public_text(public)}, but a key "
                            "of another name was heard there lately: it has to be quiet for 15 s, or not trusted any "
                            "more")

    def _on_init(self, bytes datagram, bytes packed, peer):
        context = self.context
        called = Called(datagram, context.keyring.own)
        host, port = SecurePeer(packed, 0).name
        if context.keyring.trusted.callee(called.initiator_static, host, port) is None:
            context.count(COUNTER_HANDSHAKES_REFUSED)
            stranger = SecurePeer(packed, 0)
            self._send_bytes(stranger, called.refused())
            context.report("untrusted", host, f"encryption: {host}:{port} has the key "
                           f"{public_text(called.initiator_static)}, which is not trusted there: add it with "
                           "`ordo keys trust` if it should be")
            return
        if peer is not None and self._is_anothers(peer, called.initiator_static):
            self._refuse_another(peer, called.initiator_static)
            return
        if peer is not None and peer.answered_ephemeral == called.ephemeral:
            self._send_bytes(peer, peer.answer)          # the RESPONSE was lost, or the INIT came twice
            return
        index = self._new_index()
        answer, keys = called.response(index, KeyPair.of(context.random_bytes(32)))
        if peer is None:                                 # nothing is kept of anybody who has not proven its key
            if len(self.peers) >= PEERS_MAX:
                raise DecodeError("too many peers")
            peer = self._make_peer(packed)
        session = self._make_session(called.suite, (keys.to_initiator, keys.to_responder), index, called.index,
                                     called.initiator_static, False)
        self._drop(peer.await_proof(session))
        peer.answered_ephemeral, peer.answer = called.ephemeral, answer
        self._send_bytes(peer, answer)

    def _on_response(self, bytes datagram, SecurePeer peer):
        calling = peer.calling
        remote_index, keys = calling.read_response(datagram)
        if self.by_index.get(<int64_t> <uint32_t> calling.index) != NULL:
            raise DecodeError("the index was taken meanwhile")
        session = self._make_session(calling.suite, (keys.to_responder, keys.to_initiator), calling.index, remote_index,
                                     calling.responder_static, True)
        peer.end_call()
        self._adopt(peer, session)

    def _make_session(self, int suite, tuple keys, uint32_t local_index, uint32_t remote_index, bytes identity,
                      bint is_confirmed):
        """Make a session. The side that began renews earlier, both with some randomness, so that not all are due
        together."""
        cdef int64_t rekey_ns = self.context.rekey_ns
        chance = int.from_bytes(self.context.random_bytes(2), "little") / 65536
        cdef int64_t after_ns = int(rekey_ns * ((0.8 if is_confirmed else 1.1) + 0.2 * chance))
        now_ns = self.context.now_ns
        session = SecureSession(suite, keys, local_index=local_index, remote_index=remote_index, identity=identity,
                                is_confirmed=is_confirmed, renew_ns=now_ns + after_ns,
                                expire_ns=now_ns + EXPIRY_FACTOR * rekey_ns)
        self.by_index.put(local_index, <void*> session)
        return session

    cdef bint _confirm(self, void* session) noexcept nogil:
        """Adopt a session on which something arrived; return whether it counts now."""
        with gil:
            try:
                return self._adopt(<SecurePeer> (<SecureSession> session).peer, <SecureSession> session)
            except Exception as error:
                self.context.report("error", str(type(error)), f"encryption: {error}")
                return False

    def _adopt(self, SecurePeer peer, SecureSession session):
        """Seal with a session from now on, beginning with what has waited for one.

        False for a session that came too late: its key is not trusted there any more, or the address is another's.
        """
        trusted = self.context.keyring.trusted
        if trusted.callee(session.identity, *peer.name) is None or self._is_anothers(peer, session.identity):
            peer.drop(session)
            self._drop(session)
            self.context.count(COUNTER_HANDSHAKES_REFUSED)
            return False
        session.is_confirmed = True
        self._drop(peer.adopt(session))
        if peer.previous is not None and not trusted.are_one(peer.previous.identity, session.identity):
            self._drop(peer.previous)                    # whoever was here before speaks for nobody any more
            peer.drop(peer.previous)
        peer.attempt_count = 0
        peer.attend_ns = self.context.now_ns + RETRY_NS
        self.context.count(COUNTER_KEYS_AGREED)
        held, peer.held, peer.held_bytes = peer.held, [], 0
        packed = b"" if self.connected is not None else peer.packed
        for datagram, segment_length_bytes in held:
            self.send_bytes(datagram, packed, segment_length_bytes)
        return True
