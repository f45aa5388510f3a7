"""Egress of a service container: one shared publication for each (channel, stream), made while this member leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.errors import RegistrationError

if TYPE_CHECKING:
    from cluster.container_loop import ContainerSession
    from transport.client import TransportClient
    from transport.publication import Publication


@dataclass(slots=True)
class _Egress:
    registration_id: int
    publication: Publication | None = None
    sessions: list[ContainerSession] = field(default_factory=list)


class EgressPublications:
    """Adds publications without waiting: `connect` sessions, then `poll` until nothing is `pending`."""

    def __init__(self, client: TransportClient, on_error: Callable[[Exception], None]) -> None:
        """`on_error`: a channel that the driver refused; its sessions stay unconnected."""
        self._client = client
        self._on_error = on_error
        self._egresses: dict[tuple[str, int], _Egress] = {}
        self._pending: dict[tuple[str, int], _Egress] = {}

    @property
    def pending(self) -> int:
        return len(self._pending)

    def connect(self, sessions: Iterable[ContainerSession]) -> None:
        for session in sessions:
            key = session.response_channel, session.response_stream_id
            egress = self._egresses.get(key)
            if egress is None:
                try:
                    registration_id = self._client.async_add_publication(*key)
                except Exception as error:
                    self._on_error(error)
                    continue
                egress = self._egresses[key] = self._pending[key] = _Egress(registration_id)
            egress.sessions.append(session)
            session.connect(egress.publication)

    def poll(self) -> int:
        """Takes up the driver's answers; their number."""
        answered = 0
        for key, egress in list(self._pending.items()):
            try:
                egress.publication = self._client.get(egress.registration_id)
            except RegistrationError as error:
                self._on_error(error)
                del self._egresses[key], self._pending[key]
                answered += 1
                continue
            if egress.publication is not None:
                del self._pending[key]
                answered += 1
                if not egress.sessions:
                    egress.publication.close()
                    del self._egresses[key]
                for session in egress.sessions:
                    session.connect(egress.publication)
        return answered

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
        """Closes every publication. One that the driver has not answered for yet is closed with its answer."""
        for egress in list(self._egresses.values()):
            for session in list(egress.sessions):
                self.disconnect(session)
