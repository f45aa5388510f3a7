"""Egress of a service container: one shared publication for each (channel, stream), made while this member leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ordo.transport.client.pending_registrations import PendingRegistrations

if TYPE_CHECKING:
    from ordo.cluster.container.streams.loop import ContainerSession
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import Publication


@dataclass(slots=True)
class _Egress:
    publication: Publication | None = None
    sessions: list[ContainerSession] = field(default_factory=list)


class EgressPublications:
    """Adds publications without waiting: `connect` sessions, then `poll` until nothing is `pending`."""

    def __init__(self, client: TransportClient, on_error: Callable[[Exception], None]) -> None:
        """Take `on_error`, which is called for a channel that the driver refused; its sessions stay unconnected."""
        self._client = client
        self._on_error = on_error
        self._egresses: dict[tuple[str, int], _Egress] = {}
        self._asked: PendingRegistrations[tuple[str, int]] = PendingRegistrations(client)

    @property
    def pending(self) -> int:
        return len(self._asked)

    def connect(self, sessions: Iterable[ContainerSession]) -> None:
        for session in sessions:
            key = session.response_channel, session.response_stream_id
            egress = self._egresses.get(key)
            if egress is None:
                try:
                    self._asked.add(self._client.async_add_publication(*key), key)
                except Exception as error:
                    self._on_error(error)
                    continue
                egress = self._egresses[key] = _Egress()
            egress.sessions.append(session)
            session.connect(egress.publication)

    def poll(self) -> int:
        """Process the driver's answers and return their number."""
        answers = self._asked.take()
        for key, publication, error in answers:
            if error is not None:
                self._on_error(error)
                del self._egresses[key]
                continue
            egress = self._egresses[key]
            egress.publication = publication
            if not egress.sessions:
                publication.close()
                del self._egresses[key]
            for session in egress.sessions:
                session.connect(publication)
        return len(answers)

    def disconnect(self, session: ContainerSession) -> None:
        session.connect(None)
        key = session.response_channel, session.response_stream_id
        egress = self._egresses.get(key)
        if egress is None or session not in egress.sessions:
            return
        egress.sessions.remove(session)
        if not egress.sessions and egress.publication is not None:
            egress.publication.close()
            del self._egresses[key]

    def disconnect_all(self) -> None:
        """Close every publication. One that the driver has not confirmed yet is closed when it does."""
        for egress in list(self._egresses.values()):
            for session in list(egress.sessions):
                self.disconnect(session)
