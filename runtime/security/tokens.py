"""Static tokens: an authenticator whose principals, hashes and roles are in the node's configuration.

Tokens are random (256 bits when `ordo cluster new-token` makes them), so that nobody finds one by trying, and a salted
SHA-256 of them gives nothing away. A slow hash (scrypt) would protect passwords that people choose; here it would only
hand strangers a way to hold up the node: each connect request would cost its thread, and so its heartbeats, tens of
milliseconds.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.random import RandomSource
from ordo.runtime.security.authentication import Right, rights_of_roles, topics_of_roles

if TYPE_CHECKING:
    from ordo.runtime.security.authentication import SessionProxy

TOKEN_BYTES = 32
TOKEN_LENGTH_MIN = 32
SALT_BYTES = 16
WAITING_MAX = 8192
"""The number of sessions whose verdict is kept until their response channel is connected; the oldest goes first."""
NAMELESS = b""
"""The principal of those who show no token; the name of a token is never empty."""
HASH = re.compile(r"sha256:([0-9a-f]{32}):([0-9a-f]{64})")
FORM = "'sha256:' and two hexadecimal numbers, as `ordo cluster new-token` prints it"


@dataclass(frozen=True)
class Token:
    """One token in the configuration."""

    principal: str
    token_hash: str
    rights: Right
    topics: tuple[str, ...] = ()
    """The topics that Right.TOPICS allows to read."""


def new_token() -> str:
    """Return a random token that is easy to copy."""
    return urlsafe_b64encode(_random_bytes(TOKEN_BYTES)).rstrip(b"=").decode()


def _random_bytes(count: int) -> bytes:
    return RandomSource().secret("tokens").randbytes(count)


def hash_token(token: str) -> str:
    """Return the form of a token that the configuration keeps.

    Raises ConfigurationError for a token that could be guessed.
    """
    if len(token) < TOKEN_LENGTH_MIN:
        raise ConfigurationError(
            f"token of {len(token)} characters: it must be random, and have {TOKEN_LENGTH_MIN} at least; without"
            " --from-stdin one is made"
        )
    salt = _random_bytes(SALT_BYTES)
    return f"sha256:{salt.hex()}:{_digest(salt, token.encode()).hex()}"


def check_hash(token_hash: str) -> str:
    """Return the hash. Raises ConfigurationError when it is not one."""
    if HASH.fullmatch(token_hash) is None:
        raise ConfigurationError(f"hash={token_hash!r}: must be {FORM}")
    return token_hash


def _digest(salt: bytes, token: bytes) -> bytes:
    return hashlib.sha256(salt + token).digest()


class TokenAuthenticator:
    """An authenticator that admits clients with one of the tokens, as the token's principal.

    With `anonymous_roles`, clients without a token as well, as the principal without a name.
    """

    def __init__(self, tokens: Iterable[Token], anonymous_roles: Sequence[str] = ()) -> None:
        self._takes_nameless = bool(anonymous_roles)
        self._hashes: list[tuple[bytes, bytes, bytes]] = []
        self._rights: dict[bytes, Right] = {}
        self._topics: dict[bytes, tuple[str, ...]] = {}
        self._verdicts: OrderedDict[int, bytes] = OrderedDict()
        for token in tokens:
            found = HASH.fullmatch(check_hash(token.token_hash))
            assert found is not None
            principal = token.principal.encode()
            self._hashes.append((bytes.fromhex(found[1]), bytes.fromhex(found[2]), principal))
            self._rights[principal] = self._rights.get(principal, Right(0)) | token.rights
            self._topics[principal] = (*self._topics.get(principal, ()), *token.topics)
        if anonymous_roles:
            self._rights[NAMELESS] = rights_of_roles(anonymous_roles)
            self._topics[NAMELESS] = topics_of_roles(anonymous_roles)

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        principal = self._find(encoded_credentials)
        if principal is not None:
            self._verdicts[session_id] = principal
            if len(self._verdicts) > WAITING_MAX:
                self._verdicts.popitem(last=False)

    def _find(self, credentials: bytes) -> bytes | None:
        """Return the principal of a token.

        All hashes are compared, so that the time taken reveals nothing about them.
        """
        found = NAMELESS if self._takes_nameless and not credentials else None
        for salt, digest, principal in self._hashes:
            if hmac.compare_digest(_digest(salt, credentials), digest):
                found = principal
        return found

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        """Do nothing: clients with tokens are never challenged."""

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        principal = self._verdicts.pop(proxy.session_id, None)
        if principal is None:
            proxy.reject()
        else:
            proxy.authenticate(principal)

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        proxy.reject()

    def rights_of(self, encoded_principal: bytes) -> Right:
        """Return the rights of a principal; none if the configuration no longer names it."""
        return self._rights.get(encoded_principal, Right(0))

    def topics_of(self, encoded_principal: bytes) -> tuple[str, ...]:
        """Return the topics of all tokens of a principal."""
        return self._topics.get(encoded_principal, ())
