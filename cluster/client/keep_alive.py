"""Keeps a client's session alive: a message of its own where the client sent none for an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire import codecs
from ordo.runtime.errors import OrdoError

if TYPE_CHECKING:
    from ordo.cluster.client.connection.loop import ClientLoop
    from ordo.cluster.client.current_session import CurrentSession


class KeepAlive:
    """The keep-alives of one client's session."""

    def __init__(self, session: CurrentSession, loop: ClientLoop, interval_ns: int) -> None:
        self.next_ns = 0
        """When the next one is due."""
        self._session = session
        self._loop = loop
        self._interval_ns = interval_ns

    def begin(self, now_ns: int) -> None:
        """Begin an interval: something was sent."""
        self.next_ns = now_ns + self._interval_ns

    def offer(self) -> bool:
        """Return whether the leader's ingress has taken one."""
        publication = self._session.publications.get(self._session.leader_member_id)
        if publication is None:
            return False
        return publication.offer(codecs.SESSION_KEEP_ALIVE.encode(**self._session.ids())) > 0

    def send(self) -> bool:
        """Offer one, and have the transport send it."""
        sent = self.offer()
        self._loop.drive()
        return sent

    def is_due(self, now_ns: int) -> bool:
        return self._session.is_connected and now_ns >= self.next_ns

    def work(self, now_ns: int) -> None:
        """Keep the session alive, even of a client that shares a transport, which the other clients' calls run."""
        if self.is_due(now_ns) and (self._loop.take_sent() or self.offer()):
            self.begin(now_ns)

    def run(self) -> None:
        """Run the transport and keep the session alive, unless the application does so already; deliver no messages.

        For a thread beside the application's, which calls nothing else.
        """
        loop = self._loop
        if not loop.begin_keeping():
            return
        try:
            now_ns = loop.run_transport()
            if self.is_due(now_ns):
                self.work(now_ns)
                loop.run_transport()
        except OrdoError:
            pass  # the application's next call meets it, too, and says so
        finally:
            loop.end_keeping()
