"""The handshake Noise_IK_25519 with SHA256 (The Noise Protocol Framework, revision 34).

The initiator knows the responder's static key; the responder learns the initiator's from the first message. Both get
forward secrecy from fresh keys. What Noise calls a token is one line here:

    <- s
    ...
    -> e, es, s, ss
    <- e, ee, se
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from ordo.runtime.errors import DecodeError
from ordo.transport.secure.crypto import SUITE_NAMES, Aead, public_key, shared_secret

KEY_BYTES = 32
TAG_BYTES = 16
FIRST_MESSAGE_BYTES = KEY_BYTES + KEY_BYTES + TAG_BYTES + TAG_BYTES
SECOND_MESSAGE_BYTES = KEY_BYTES + TAG_BYTES


class KeyPair(NamedTuple):
    """An X25519 key."""

    secret: bytes
    public: bytes

    @classmethod
    def of(cls, secret: bytes) -> KeyPair:
        return cls(secret, public_key(secret))


class Keys(NamedTuple):
    """What a handshake ends in: the key of each direction, and the hash of all that was said (section 5.2, Split)."""

    to_responder: bytes
    to_initiator: bytes
    handshake_hash: bytes


def _hkdf(chaining_key: bytes, material: bytes) -> tuple[bytes, bytes]:
    """Return two outputs of HKDF (section 4.3)."""
    temporary = hmac.digest(chaining_key, material, "sha256")
    first = hmac.digest(temporary, b"\x01", "sha256")
    return first, hmac.digest(temporary, first + b"\x02", "sha256")


@dataclass
class _Symmetric:
    """SymmetricState and CipherState of section 5: what is known so far, as hash and as key."""

    suite: int
    h: bytes
    ck: bytes
    key: bytes = b""
    number: int = 0

    @classmethod
    def begin(cls, suite: int, prologue: bytes, responder_static: bytes) -> _Symmetric:
        name = f"Noise_IK_25519_{SUITE_NAMES[suite]}_SHA256".encode()
        h = name.ljust(32, b"\0") if len(name) <= 32 else sha256(name).digest()
        state = cls(suite, h, h)
        state.mix_hash(prologue)
        state.mix_hash(responder_static)
        return state

    def copy(self) -> _Symmetric:
        return _Symmetric(self.suite, self.h, self.ck, self.key, self.number)

    def mix_hash(self, data: bytes) -> None:
        self.h = sha256(self.h + data).digest()

    def mix_key(self, material: bytes) -> None:
        self.ck, self.key = _hkdf(self.ck, material)
        self.number = 0

    def seal(self, plain: bytes) -> bytes:
        sealed = Aead(self.suite, self.key, is_sealing=True).seal_bytes(self.number, self.h, plain)
        self.number += 1
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed: bytes) -> bytes:
        plain = Aead(self.suite, self.key, is_sealing=False).open_bytes(self.number, self.h, sealed)
        self.number += 1
        self.mix_hash(sealed)
        return plain

    def split(self) -> Keys:
        return Keys(*_hkdf(self.ck, b""), self.h)


class Initiator:
    """The side that begins. `ephemeral` is fresh for each handshake."""

    def __init__(
        self, suite: int, static: KeyPair, ephemeral: KeyPair, responder_static: bytes, prologue: bytes
    ) -> None:
        self._static = static
        self._ephemeral = ephemeral
        self._responder_static = responder_static
        self._state = _Symmetric.begin(suite, prologue, responder_static)

    def first_message(self, payload: bytes = b"") -> bytes:
        """Return the first message; call this once."""
        state = self._state
        state.mix_hash(self._ephemeral.public)
        state.mix_key(shared_secret(self._ephemeral.secret, self._responder_static))
        static = state.seal(self._static.public)
        state.mix_key(shared_secret(self._static.secret, self._responder_static))
        return self._ephemeral.public + static + state.seal(payload)

    def read_second(self, message: bytes) -> tuple[bytes, Keys]:
        """Return payload and keys.

        Raises DecodeError, and can then read another message: a forged answer spoils nothing.
        """
        if len(message) < SECOND_MESSAGE_BYTES:
            raise DecodeError(f"second message of {len(message)} bytes, at least {SECOND_MESSAGE_BYTES}")
        state = self._state.copy()
        other = message[:KEY_BYTES]
        state.mix_hash(other)
        state.mix_key(shared_secret(self._ephemeral.secret, other))
        state.mix_key(shared_secret(self._static.secret, other))
        payload = state.open(message[KEY_BYTES:])
        return payload, state.split()


class Responder:
    """The side that is asked. After `read_payload` its `initiator_static` says by whom; nothing is trusted before."""

    def __init__(self, suite: int, static: KeyPair, prologue: bytes) -> None:
        self._static = static
        self._state = _Symmetric.begin(suite, prologue, static.public)
        self._initiator_ephemeral = b""
        self._sealed_payload = b""
        self.initiator_static = b""

    def read_static(self, message: bytes) -> bytes:
        """Return the static key of the initiator, at the price of one shared secret.

        Only known keys are worth the rest of the work.

        Raises DecodeError.
        """
        if len(message) < FIRST_MESSAGE_BYTES:
            raise DecodeError(f"first message of {len(message)} bytes, at least {FIRST_MESSAGE_BYTES}")
        state = self._state
        self._initiator_ephemeral = message[:KEY_BYTES]
        state.mix_hash(self._initiator_ephemeral)
        state.mix_key(shared_secret(self._static.secret, self._initiator_ephemeral))
        end = 2 * KEY_BYTES + TAG_BYTES
        self.initiator_static = state.open(message[KEY_BYTES:end])
        self._sealed_payload = message[end:]
        return self.initiator_static

    def read_payload(self) -> bytes:
        """Check that the initiator has the key it named. Raises DecodeError."""
        self._state.mix_key(shared_secret(self._static.secret, self.initiator_static))
        return self._state.open(self._sealed_payload)

    def second_message(self, ephemeral: KeyPair, payload: bytes = b"") -> tuple[bytes, Keys]:
        """Return the second message, and the keys."""
        state = self._state
        state.mix_hash(ephemeral.public)
        state.mix_key(shared_secret(ephemeral.secret, self._initiator_ephemeral))
        state.mix_key(shared_secret(ephemeral.secret, self.initiator_static))
        return ephemeral.public + state.seal(payload), state.split()
