"""How many identities one principal may open: a share, so that the others find room too (docs/CLIENT.md).

A service keeps a bounded number of identities, and makes room for a new one only where one was silent for an hour. So
it is counted which ones a principal has opened within an hour, by the leader alone and before anything is appended: the
log, and what services make of it, is the same with any bound. A new leader counts anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire import ordo_codecs
from ordo.runtime.errors import DecodeError
from ordo.runtime.native.cluster_time import time_ms
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.service_api.requests import OpenStatus, RequestLimits

if TYPE_CHECKING:
    from ordo.cluster.module.sessions.sessions import ClusterSession
    from ordo.cluster.wire import records
    from ordo.transport.streams.image import Image

EVENTS_MAX = 64
"""A session with this many events that wait is told nothing more; its client asks again."""


class SessionsOfIdentities(Protocol):
    """The open sessions."""

    def get(self, session_id: int) -> ClusterSession | None: ...
    def may_ask(self, session_id: int, image: Image) -> bool: ...
    def tell(self, session: ClusterSession, event: bytes) -> None: ...


class IdentityBounds:
    """The bounds of one leader.

    Without authentication, clients have no principal and only the service's bounds apply.
    """

    def __init__(
        self, sessions: SessionsOfIdentities, of_principal: int, on_refused: Callable[[str], object], window: int = 0
    ) -> None:
        """Set the bounds. `of_principal`: 0 for three quarters of what a service keeps.

        `on_refused` takes a line the first time that a principal meets its bound, and again once it was below. `window`
        is in ms of cluster time; 0: an hour.
        """
        limits = RequestLimits()
        self._sessions = sessions
        self._bound = of_principal or limits.identities_max * 3 // 4
        self._names_max = 2 * limits.identities_max
        self._window = window or limits.idle_timeout_crowded
        self._on_refused = on_refused
        self._opened: dict[bytes, OrderedDict[bytes, int]] = {}
        """Keyed by principal: when each of its identities was last opened, the oldest first."""
        self._count = 0
        self._full: set[bytes] = set()

    def clear(self) -> None:
        """Forget everything: the leadership is over."""
        self._opened.clear()
        self._full.clear()
        self._count = 0

    def admits(self, image: Image, message: bytes, cluster_time: int) -> bool:
        """Return whether an OpenIdentity may be appended; otherwise its client is told that there is no room."""
        try:
            values = ordo_codecs.OPEN_IDENTITY.decode(message)
        except DecodeError:
            return False
        session = self._sessions.get(values.cluster_session_id)
        if session is None or not session.encoded_principal or not self._sessions.may_ask(session.id, image):
            return True
        principal, name = session.encoded_principal, ordo_codecs.join_identity(values)
        own = self._opened.get(principal, OrderedDict())
        now_ms = time_ms(cluster_time)
        self._forget_old(principal, own, now_ms)
        if name not in own and values.known_position <= 0 and len(own) >= self._bound:
            self._refuse(session, values)
            return False
        self._full.discard(principal)
        self._note(principal, name, now_ms)
        return True

    def _note(self, principal: bytes, name: bytes, now_ms: int) -> None:
        own = self._opened.setdefault(principal, OrderedDict())
        self._count += name not in own
        own[name] = now_ms
        own.move_to_end(name)
        if self._count > self._names_max:
            most = max(self._opened, key=lambda one: len(self._opened[one]))
            self._drop_oldest(most, self._opened[most])

    def _forget_old(self, principal: bytes, own: OrderedDict[bytes, int], now_ms: int) -> None:
        while own and now_ms - next(iter(own.values())) > self._window:
            self._drop_oldest(principal, own)

    def _drop_oldest(self, principal: bytes, own: OrderedDict[bytes, int]) -> None:
        own.popitem(last=False)
        self._count -= 1
        if not own:
            del self._opened[principal]

    def _refuse(self, session: ClusterSession, values: records.OpenIdentity) -> None:
        principal = session.encoded_principal
        if principal not in self._full:
            self._full.add(principal)
            self._on_refused(
                f"ingress: principal {principal.decode(errors='replace')[:64]!r} has opened {self._bound} identities "
                "within an hour, as many as max_identities_per_principal allows: further ones wait"
            )
        if len(session.events) < EVENTS_MAX:
            answer = ordo_codecs.IDENTITY_OPENED.encode(
                leadership_term_id=values.leadership_term_id,
                cluster_session_id=session.id,
                timestamp=values.timestamp,
                incarnation=values.incarnation,
                open_position=NULL_POSITION,
                number=0,
                confirmed=0,
                status=OpenStatus.FULL,
                length_bytes_max=0,
                takes_ids=0,
                takes_output_ids=0,
            )
            self._sessions.tell(session, answer)
