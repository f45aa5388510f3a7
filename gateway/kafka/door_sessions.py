"""The session with which a door asks the cluster for something for itself: its own, or one of a client.

The door itself may have no right to send anything, where every client shows a token of its own. An order of a session
without the role `ingress` is not answered at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ordo.gateway.kafka.caller import is_final
from ordo.gateway.kafka.service.orders import OrderAnswer, OrderKind, encode_order
from ordo.gateway.kafka.sessions import ClusterSession, ClusterSessions
from ordo.runtime.errors import OrdoError

SESSIONS_TRIED_MAX = 3
"""So many sessions are tried for one order."""


class DoorSessions:
    """Tries sessions until the cluster answers an order, and stays with the one that it answered."""

    def __init__(self, sessions: ClusterSessions, timeout_s: float) -> None:
        self._sessions = sessions
        self._timeout_s = timeout_s
        self._own = sessions.take_own()
        self._answered: ClusterSession = self._own
        """The session of which the cluster answered an order last."""
        self._tried = 0
        """How many other sessions have been tried in vain."""

    @property
    def best(self) -> ClusterSession:
        """The session of which an order was answered last, if it is open or a client uses it."""
        return self._answered if self._answered.is_open or self._answered.users else self._own

    def _to_try(self) -> Sequence[ClusterSession]:
        """Return the best session and some others, each time others."""
        first = self.best
        others = [one for one in self._sessions.active() if one not in (first, self._own)]
        if first is not self._own:
            others.insert(0 if self._own.credentials else len(others), self._own)
        at = self._tried % max(len(others), 1)
        return [first, *others[at:], *others[:at]][:SESSIONS_TRIED_MAX]

    async def order(self, kind: OrderKind, **fields: object) -> OrderAnswer:
        """Have an order executed. Raises OrdoError."""
        tried = self._to_try()
        trouble: OrdoError | None = None
        for one in tried:
            try:
                answer = await one.order(encode_order(kind, **fields), self._timeout_s / len(tried))
            except OrdoError as error:
                if is_final(error):
                    raise  # the service refuses it, by any session
                trouble = error
                continue
            self._answered = one
            return answer
        self._tried += SESSIONS_TRIED_MAX - 1
        assert trouble is not None
        raise trouble
