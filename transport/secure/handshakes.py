"""The datagrams by which two sockets agree on keys, and what each side remembers meanwhile.

    initiator                                       responder
    HELLO   index, nonce                       -->
                                               <--  COOKIE    cookie, its static key, what ciphers it prefers
    INIT    cookie, cipher, first message      -->
                                               <--  RESPONSE  second message
    DATA                                       -->  which proves to the responder that the keys are the right ones

The responder remembers nothing and computes one MAC until an INIT shows the cookie, which proves that the initiator
receives at its address. Every answer is shorter than what it answers. The static key in a COOKIE is only a hint: the
initiator goes on if it trusts it, and the handshake fails if it is not the responder's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ordo.runtime.errors import DecodeError
from ordo.transport.secure.crypto import AES_256_GCM, CHACHA20_POLY1305, preferred_suite
from ordo.transport.secure.noise import (
    FIRST_MESSAGE_BYTES,
    KEY_BYTES,
    SECOND_MESSAGE_BYTES,
    Initiator,
    KeyPair,
    Keys,
    Responder,
)

MARK = b"OS\xf1"
"""Bytes 1 to 3 of each datagram; an Aeron driver takes them for a frame of negative length, and drops it."""
HELLO, COOKIE, INIT, RESPONSE, DATA, UNKNOWN, REFUSED, PLAIN, DISTRUSTED = range(1, 10)
HEAD_BYTES = 16
COOKIE_BYTES = 16
HELLO_BYTES = 96
COOKIE_REPLY_BYTES = HEAD_BYTES + COOKIE_BYTES + KEY_BYTES + 8
INIT_BYTES = HEAD_BYTES + COOKIE_BYTES + 8 + FIRST_MESSAGE_BYTES
RESPONSE_BYTES = HEAD_BYTES + SECOND_MESSAGE_BYTES + 4
_HEAD = struct.Struct("<B3sI8s")
_PROLOGUE = b"Ordo encrypted datagrams 1"

Entropy = Callable[[int], bytes]


def head(kind: int, index: int, nonce: bytes) -> bytes:
    """Return the first 16 bytes of every datagram of a handshake: the initiator's index, and its nonce."""
    return _HEAD.pack(kind, MARK, index, nonce)


def split_head(datagram: bytes) -> tuple[int, bytes]:
    """Return index and nonce."""
    _, _, index, nonce = _HEAD.unpack_from(datagram)
    return index, nonce


def _prologue(index: int, nonce: bytes, suite: int) -> bytes:
    return _PROLOGUE + head(INIT, index, nonce) + bytes([suite])


def choose_suite(preferred_by_other: int) -> int:
    """Return AES where both processors have instructions for it, otherwise ChaCha20."""
    both = preferred_by_other == preferred_suite() == AES_256_GCM
    return AES_256_GCM if both else CHACHA20_POLY1305


class Calling:
    """A handshake that this side began: HELLO sent, and perhaps INIT."""

    def __init__(self, index: int, nonce: bytes) -> None:
        self.index = index
        self.nonce = nonce
        self.suite = 0
        self.responder_static = b""
        self.cookie = b""
        self._initiator: Initiator | None = None

    def hello(self) -> bytes:
        return head(HELLO, self.index, self.nonce).ljust(HELLO_BYTES, b"\0")

    def read_cookie(self, datagram: bytes) -> bytes:
        """Return the static key that the responder claims to have."""
        end = HEAD_BYTES + COOKIE_BYTES
        self.cookie = datagram[HEAD_BYTES:end]
        self.responder_static = datagram[end : end + KEY_BYTES]
        self.suite = choose_suite(datagram[end + KEY_BYTES])
        return self.responder_static

    def init(self, static: KeyPair, ephemeral: KeyPair) -> bytes:
        """Return the INIT for the cookie and the static key that were read. Raises DecodeError for a worthless key."""
        prologue = _prologue(self.index, self.nonce, self.suite)
        self._initiator = Initiator(self.suite, static, ephemeral, self.responder_static, prologue)
        start = head(INIT, self.index, self.nonce) + self.cookie + bytes([self.suite]).ljust(8, b"\0")
        return start + self._initiator.first_message()

    def distrusted(self) -> bytes:
        """Tell the responder, with its cookie as proof of the address, that its key is not trusted here."""
        return head(DISTRUSTED, self.index, self.nonce) + self.cookie

    def read_response(self, datagram: bytes) -> tuple[int, Keys]:
        """Return the responder's index, and the keys. Raises DecodeError."""
        if self._initiator is None:
            raise DecodeError("a RESPONSE without INIT")
        payload, keys = self._initiator.read_second(datagram[HEAD_BYTES:])
        return struct.unpack("<I", payload)[0], keys


class Called:
    """A handshake that the other side began, made of its INIT, whose cookie was right."""

    def __init__(self, datagram: bytes, static: KeyPair) -> None:
        """Read an INIT. Raises DecodeError."""
        self.index, self._nonce = split_head(datagram)
        self.suite = datagram[HEAD_BYTES + COOKIE_BYTES]
        if self.suite not in (AES_256_GCM, CHACHA20_POLY1305):
            raise DecodeError(f"suite={self.suite}")
        self._message = datagram[HEAD_BYTES + COOKIE_BYTES + 8 :]
        self.ephemeral = self._message[:KEY_BYTES]
        self._responder = Responder(self.suite, static, _prologue(self.index, self._nonce, self.suite))
        self.initiator_static = self._responder.read_static(self._message)

    def refused(self) -> bytes:
        """Tell the initiator that its key is not trusted here."""
        return head(REFUSED, self.index, self._nonce)

    def response(self, own_index: int, ephemeral: KeyPair) -> tuple[bytes, Keys]:
        """Return RESPONSE and keys. Raises DecodeError when the initiator does not have the key that it named."""
        self._responder.read_payload()
        message, keys = self._responder.second_message(ephemeral, struct.pack("<I", own_index))
        return head(RESPONSE, self.index, self._nonce) + message, keys
