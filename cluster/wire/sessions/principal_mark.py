"""The mark of a session's principal, in the detail of the event that opens the session.

A gateway shows tokens of others, of which only the cluster knows whose they are. A client that asks for it, in the
info of its SessionConnectRequest, is told a mark that is the same for all sessions of one principal, and no name.
"""

from __future__ import annotations

import hashlib
import re

WANTED = "wants=principal"
"""Word of the client's info."""
MARK_BYTES = 16
_PREFIX = "principal="
_MARK = re.compile(rf"{_PREFIX}([0-9a-f]{{{2 * MARK_BYTES}}})")


def is_wanted(client_info: str) -> bool:
    """Return whether a client asks for it."""
    return WANTED in client_info.split()


def encode_mark(encoded_principal: bytes) -> str:
    """Return the word for the detail; empty for the empty principal."""
    if not encoded_principal:
        return ""
    return _PREFIX + hashlib.blake2b(encoded_principal, digest_size=MARK_BYTES).hexdigest()


def decode_mark(detail: str) -> str:
    """Return the mark, or '' if there is no principal, or the leader is an older release."""
    found = (_MARK.fullmatch(word) for word in detail.split())
    return next((one[1] for one in found if one is not None), "")
