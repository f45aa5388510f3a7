"""Who may open a session: the authenticator hook of cluster-client.md §4.1."""

from __future__ import annotations

from typing import Protocol

PRINCIPAL_LENGTH_BYTES_MAX = 4096


class SessionProxy(Protocol):
    """What an authenticator may do with a session that asks to be opened."""

    @property
    def session_id(self) -> int: ...

    def challenge(self, encoded_challenge: bytes) -> None:
        """Asks the client to answer; the answer comes through `on_challenge_response`."""

    def authenticate(self, encoded_principal: bytes) -> None:
        """Lets the session in, under a principal of at most PRINCIPAL_LENGTH_BYTES_MAX bytes."""

    def reject(self) -> None: ...


class Authenticator(Protocol):
    """Called on the leader, once a slow tick for each session that waits, until it decides."""

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None: ...

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None: ...

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None: ...

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None: ...


class AcceptAll:
    """The default: every session is let in with an empty principal."""

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        pass

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        pass

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        proxy.authenticate(b"")

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        proxy.authenticate(b"")
