"""Ingress publications of a cluster client, by member (cluster-client.md §4, §6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordo.runtime.errors import ConfigurationError, RegistrationError

if TYPE_CHECKING:
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import ExclusivePublication

NULL_MEMBER_ID = -1


def parse_endpoints(text: str) -> dict[int, str]:
    """Return the endpoints of `id=host:port,id=host:port` by member id. Raises ConfigurationError."""
    endpoints: dict[int, str] = {}
    for item in text.split(","):
        member_id, separator, endpoint = item.partition("=")
        if not separator or not member_id.strip().isdigit() or ":" not in endpoint:
            raise ConfigurationError(f"ingress endpoints {text!r}: must be id=host:port,id=host:port,...")
        endpoints[int(member_id)] = endpoint.strip()
    return endpoints


@dataclass(slots=True)
class _Ingress:
    endpoint: str
    registration_id: int
    publication: ExclusivePublication | None = None
    was_connected: bool = False

    def is_connected(self) -> bool:
        is_connected = self.publication is not None and self.publication.is_connected
        self.was_connected = self.was_connected or is_connected
        return is_connected

    def is_lost(self) -> bool:
        return not self.is_connected() and self.was_connected


class IngressPublications:
    """The ingress publications: one for each member that is tried, added without waiting."""

    def __init__(self, client: TransportClient, channel: str, stream_id: int) -> None:
        self._client = client
        self.channel = channel
        self._stream_id = stream_id
        self._ingresses: dict[int, _Ingress] = {}
        self.trouble = ""
        """Why the driver refused the last one that it refused."""

    def open(self, endpoints: Mapping[int, str]) -> None:
        """Open publications to these endpoints and no others; keep those that are open. `{-1: ""}` means no endpoint.

        One that has lost its member is made anew: members do not accept one again that they have lost.
        """
        for member_id, ingress in list(self._ingresses.items()):
            if endpoints.get(member_id) != ingress.endpoint or ingress.is_lost():
                self._close(member_id)
        for member_id, endpoint in endpoints.items():
            if member_id not in self._ingresses:
                channel = self.channel
                if endpoint:
                    channel += f"{'|' if '?' in channel else '?'}endpoint={endpoint}"
                registration_id = self._client.async_add_exclusive_publication(channel, self._stream_id)
                self._ingresses[member_id] = _Ingress(endpoint, registration_id)

    def poll(self) -> None:
        """Process the driver's answers. A member whose endpoint the driver refuses is skipped."""
        for member_id, ingress in list(self._ingresses.items()):
            if ingress.publication is None:
                try:
                    ingress.publication = self._client.get(ingress.registration_id)
                except RegistrationError as error:
                    self.trouble = error.message
                    del self._ingresses[member_id]

    @property
    def connected(self) -> dict[int, ExclusivePublication]:
        """The publications that have a subscriber, by member id."""
        found = {}
        for member_id, ingress in self._ingresses.items():
            if ingress.is_connected() and ingress.publication is not None:
                found[member_id] = ingress.publication
        return found

    def get(self, member_id: int) -> ExclusivePublication | None:
        ingress = self._ingresses.get(member_id)
        return None if ingress is None else ingress.publication

    def rename(self, member_id: int, to: int) -> None:
        """Correct the id of a member. The publication without an endpoint (-1) keeps its id."""
        if member_id not in (to, NULL_MEMBER_ID):
            self._ingresses[to] = self._ingresses.pop(member_id)

    def close_others(self, member_id: int) -> None:
        for other in [other for other in self._ingresses if other != member_id]:
            self._close(other)

    def close(self) -> None:
        for member_id in list(self._ingresses):
            self._close(member_id)

    def _close(self, member_id: int) -> None:
        ingress = self._ingresses.pop(member_id)
        if ingress.publication is None:
            try:
                ingress.publication = self._client.get(ingress.registration_id)
            except RegistrationError:
                return
        if ingress.publication is not None:
            ingress.publication.close()
