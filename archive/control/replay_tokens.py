"""Tokens by which a client asks for a replay on another stream than that of its session (archive.md A8.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.archive.control.session import ControlSession
from ordo.archive.control.settings import ControlSettings
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ErrorCode
from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import NULL_VALUES

if TYPE_CHECKING:
    from random import Random

    from ordo.archive.protocol import records

TOKEN_MAX = 1 << 62
NO_TOKEN = (NULL_VALUE, NULL_VALUES["i64"])


class _Given(NamedTuple):
    session: ControlSession
    recording_id: int
    expires_ns: int


class ReplayTokens:
    """The tokens that clients were given: each is good for one recording, for `connect_timeout_ns`."""

    def __init__(self, random: Random, config: ControlSettings) -> None:
        self._random = random
        self._config = config
        self._given: dict[int, _Given] = {}
        self._now_ns = 0
        self.handlers: dict[int, Callable[[ControlSession, Any], None]] = {
            codecs.REPLAY_TOKEN_REQUEST.template_id: self._give,
        }

    def work(self, now_ns: int) -> None:
        """Forget tokens whose time is over, and those of sessions that are."""
        self._now_ns = now_ns
        if self._given:
            self._given = {
                token: given
                for token, given in self._given.items()
                if now_ns < given.expires_ns and not given.session.is_done
            }

    def session_of(self, request: Any) -> ControlSession | None:
        """Return the session whose replay a request with a token is for; None without a valid token."""
        given = self._given.get(getattr(request, "replay_token", NULL_VALUE))
        if given is None or given.recording_id != request.recording_id or given.session.is_done:
            return None
        return given.session

    def _give(self, session: ControlSession, request: records.ReplayTokenRequest) -> None:
        if len(self._given) >= self._config.replay_tokens_max:
            raise ArchiveError(
                f"{len(self._given)} replay tokens are valid, the most this archive allows; they expire",
                code=ErrorCode.MAX_REPLAYS,
            )
        token = self._random.randrange(TOKEN_MAX)
        expires_ns = self._now_ns + self._config.connect_timeout_ns
        self._given[token] = _Given(session, request.recording_id, expires_ns)
        session.responses.send_ok(request.correlation_id, token)
