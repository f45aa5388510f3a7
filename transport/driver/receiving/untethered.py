"""Untethered subscriptions, which may not hold up a stream for long (transport-wire.md §6.4)."""

from __future__ import annotations

from typing import Any

ACTIVE = "active"
LINGER = "linger"
RESTING = "resting"


class Tether:
    """The state of one subscriber position. A tethered one stays active for ever."""

    def __init__(self, parameters: Any, now_ns: int) -> None:
        self.parameters = parameters
        self.state = ACTIVE
        self.changed_ns = now_ns

    @property
    def holds_window(self) -> bool:
        """Whether the position holds back the stream, as active and lingering ones do; resting ones do not."""
        return self.state != RESTING

    def check(self, position: int, limit: int, now_ns: int) -> str | None:
        """Return what to do with an untethered subscriber, or None.

        Linger (tell the client), rest (drop from the window), close, or rejoin.

        `limit` is the position an active subscriber must be beyond not to count as late.
        """
        if self.parameters.is_tethered:
            return None
        parameters = self.parameters
        if self.state == ACTIVE:
            if position > limit:
                self.changed_ns = now_ns
            elif now_ns - self.changed_ns > parameters.untethered_window_limit_timeout_ns:
                return self._enter(LINGER, "linger", now_ns)
        elif self.state == LINGER:
            if now_ns - self.changed_ns > parameters.untethered_linger_timeout_ns:
                if not parameters.rejoins:
                    return "close"
                return self._enter(RESTING, "rest", now_ns)
        elif now_ns - self.changed_ns > parameters.untethered_resting_timeout_ns:
            return self._enter(ACTIVE, "rejoin", now_ns)
        return None

    def _enter(self, state: str, step: str, now_ns: int) -> str:
        self.state = state
        self.changed_ns = now_ns
        return step
