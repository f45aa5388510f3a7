"""Clients that are told apart by who they say they are: what one of them uses up is its own."""

from __future__ import annotations

from ordo.runtime.security.authentication import SessionProxy


class AsTheySay:
    """An authenticator that takes credentials for the principal."""

    def __init__(self) -> None:
        self._said: dict[int, bytes] = {}

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        self._said[session_id] = encoded_credentials

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        raise AssertionError("nobody was challenged")

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        proxy.authenticate(self._said.pop(proxy.session_id))

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        raise AssertionError("nobody was challenged")
