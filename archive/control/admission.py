"""Whether a client of an archive is let in: its conversation with the authenticator (archive.md A3).

WAITING      until its response publication is connected, and the authenticator has decided
CHALLENGED   until it has answered, and the authenticator has decided
ADMITTED     as `principal`
REJECTED
"""

from __future__ import annotations

from enum import Enum, auto

from ordo.runtime.errors import ArchiveError
from ordo.runtime.security.authentication import PRINCIPAL_LENGTH_BYTES_MAX, Authenticator

ASK_INTERVAL_NS = 10_000_000
"""How long after asking an undecided authenticator it is asked again."""


class Verdict(Enum):
    """The state of the conversation with the authenticator."""

    WAITING = auto()
    CHALLENGED = auto()
    ADMITTED = auto()
    REJECTED = auto()


class Admission:
    """The admission of one client, and the proxy that its authenticator gets.

    Without an authenticator everybody is admitted.
    """

    def __init__(
        self, authenticator: Authenticator | None, session_id: int, key_name: str, credentials: bytes, now_ms: int
    ) -> None:
        """Begin the admission; `session_id` is a random number by which authenticators tell clients apart."""
        self.session_id = session_id
        self.key_name = key_name
        self.verdict = Verdict.ADMITTED if authenticator is None else Verdict.WAITING
        self.principal = b""
        self.encoded_challenge = b""
        """The challenge to be sent; empty once it was."""
        self._authenticator = authenticator
        self._next_ask_ns = 0
        if authenticator is not None:
            authenticator.on_connect_request(session_id, credentials, now_ms)

    def challenge(self, encoded_challenge: bytes) -> None:
        self.verdict, self.encoded_challenge = Verdict.CHALLENGED, encoded_challenge

    def authenticate(self, encoded_principal: bytes) -> None:
        if len(encoded_principal) > PRINCIPAL_LENGTH_BYTES_MAX:
            self.reject()
            raise ArchiveError(
                f"authenticator: principal of {len(encoded_principal)} bytes, at most {PRINCIPAL_LENGTH_BYTES_MAX}"
            )
        self.verdict, self.principal = Verdict.ADMITTED, encoded_principal

    def reject(self) -> None:
        self.verdict = Verdict.REJECTED

    @property
    def is_open(self) -> bool:
        """Whether the authenticator has not decided yet."""
        return self.verdict in (Verdict.WAITING, Verdict.CHALLENGED)

    def on_challenge_response(self, credentials: bytes, now_ms: int) -> bool:
        """Take an answer to the challenge; return whether one was waited for."""
        if self._authenticator is None or self.verdict is not Verdict.CHALLENGED:
            return False
        self._authenticator.on_challenge_response(self.session_id, credentials, now_ms)
        self._next_ask_ns = 0
        return True

    def work(self, now_ns: int, now_ms: int) -> bool:
        """Ask the authenticator when it is time to; return whether it has decided just now."""
        if self._authenticator is None or not self.is_open or now_ns < self._next_ask_ns:
            return False
        self._next_ask_ns = now_ns + ASK_INTERVAL_NS
        if self.verdict is Verdict.WAITING:
            self._authenticator.on_connected_session(self, now_ms)
        else:
            self._authenticator.on_challenged_session(self, now_ms)
        return not self.is_open
