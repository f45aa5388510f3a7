"""The digest of a snapshot, which members compare, and against which a fetched snapshot is checked.

It covers the messages of both parts, not their frames: two members that took the same snapshot have recorded it in
frames of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

DIGEST_LENGTH_BYTES = 16


class MessagesDigest:
    """The digest of one part, message by message."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=DIGEST_LENGTH_BYTES)

    def add(self, message: bytes) -> None:
        """Take the next message; its length counts, too, so that no two lists of messages look alike."""
        self._hash.update(len(message).to_bytes(8, "little"))
        self._hash.update(message)

    def digest(self) -> bytes:
        return self._hash.digest()


def digest_of(messages: Iterable[bytes]) -> bytes:
    """Return the digest of one complete part."""
    digest = MessagesDigest()
    for message in messages:
        digest.add(message)
    return digest.digest()


def combine(*digests: bytes) -> bytes:
    """Return the digest of a whole snapshot: of its services' parts by service id, then of the module's.

    Empty where one of them has none.
    """
    if any(len(one) != DIGEST_LENGTH_BYTES for one in digests):
        return b""
    return blake2b(b"".join(digests), digest_size=DIGEST_LENGTH_BYTES).digest()
