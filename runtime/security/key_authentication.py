"""An authenticator that derives a client's principal and roles from the key that it encrypts with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ordo.runtime.security.authentication import Right

if TYPE_CHECKING:
    from ordo.runtime.security.authentication import Authenticator, SessionProxy

WAITING_MAX = 8192
"""The number of sessions that may show credentials and wait for a verdict; the oldest is forgotten first."""


class KeyAuthenticator:
    """An authenticator that lets in the holders of keys with roles, as the name of the key.

    A client that shows credentials is left to `others`, if there is one.

    A session of a key is its holder's: its messages must be encrypted with a key of that name, also after a
    change of the leader.
    """

    def __init__(
        self,
        read_keys: Callable[[], Mapping[str, Right]],
        others: Authenticator | None = None,
        *,
        read_topics: Callable[[], Mapping[str, tuple[str, ...]]] = dict,
    ) -> None:
        """Take the sources of rights, which are asked again for every decision.

        `read_keys` gives the rights of each name, `read_topics` the topics that it may read.
        """
        self._read_keys = read_keys
        self._read_topics = read_topics
        self._others = others
        self._with_credentials: OrderedDict[int, None] = OrderedDict()

    def _others_for(self, session_id: int) -> Authenticator | None:
        """Return the authenticator that decides about a session with credentials.

        None for a session that only has its key.
        """
        return self._others if session_id in self._with_credentials else None

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        if self._others is None or not encoded_credentials:
            return
        self._with_credentials[session_id] = None
        if len(self._with_credentials) > WAITING_MAX:
            self._with_credentials.popitem(last=False)
        self._others.on_connect_request(session_id, encoded_credentials, now_ms)

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        others = self._others_for(session_id)
        if others is not None:
            others.on_challenge_response(session_id, encoded_credentials, now_ms)

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        others = self._others_for(proxy.session_id)
        if others is not None:
            others.on_connected_session(proxy, now_ms)
        elif self._read_keys().get(proxy.key_name):
            proxy.authenticate(proxy.key_name.encode())
        else:
            proxy.reject()

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        others = self._others_for(proxy.session_id)
        if others is not None:
            others.on_challenged_session(proxy, now_ms)
        else:
            proxy.reject()

    def rights_of(self, encoded_principal: bytes) -> Right:
        """Return the rights of the key of this name, otherwise those of the others' principal."""
        found = self._read_keys().get(encoded_principal.decode(errors="replace"))
        if found is not None:
            return found
        return Right(0) if self._others is None else self._others.rights_of(encoded_principal)

    def topics_of(self, encoded_principal: bytes) -> tuple[str, ...]:
        """Return the topics of the key of this name, otherwise those of the others' principal."""
        name = encoded_principal.decode(errors="replace")
        if name in self._read_keys():
            return self._read_topics().get(name, ())
        return () if self._others is None else self._others.topics_of(encoded_principal)

    def speaks_for(self, encoded_principal: bytes, key_name: str) -> bool:
        """Return whether a stream under a key may speak for the sessions of a principal."""
        name = encoded_principal.decode(errors="replace")
        return name not in self._read_keys() or name == key_name
