"""The sockets that channels share, found by channel tag or by canonical form (transport-wire.md §11)."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from ordo.transport.driver.channels.channel import UdpChannelSpec, check_same_socket


class Endpoint(Protocol):
    """What is found: the channel that opened it."""

    @property
    def spec(self) -> UdpChannelSpec: ...


EndpointT = TypeVar("EndpointT", bound=Endpoint)


class EndpointIndex(Generic[EndpointT]):
    """The open endpoints of one direction. Each may have several tags: those of all channels that shared it."""

    def __init__(self) -> None:
        self._by_canonical: dict[str, EndpointT] = {}
        self._by_tag: dict[int, EndpointT] = {}
        self._tags: dict[EndpointT, set[int]] = {}

    def find(self, spec: UdpChannelSpec) -> EndpointT | None:
        """Return the endpoint that a channel shares, or None.

        Raises ChannelError where a channel names another socket than that of its tag.
        """
        if spec.tag is not None and (tagged := self._by_tag.get(spec.tag)) is not None:
            check_same_socket(spec, tagged.spec)
            return tagged
        return self._by_canonical.get(spec.canonical)

    def add(self, endpoint: EndpointT) -> None:
        """Add an endpoint that was opened."""
        self._by_canonical.setdefault(endpoint.spec.canonical, endpoint)
        self._tags[endpoint] = set()
        self.note_tag(endpoint, endpoint.spec)

    def note_tag(self, endpoint: EndpointT, spec: UdpChannelSpec) -> None:
        """Let later channels find an endpoint by the tag of one that shares it."""
        if spec.tag is not None and self._by_tag.setdefault(spec.tag, endpoint) is endpoint:
            self._tags[endpoint].add(spec.tag)

    def remove(self, endpoint: EndpointT) -> None:
        """Forget an endpoint with all its tags."""
        del self._by_canonical[endpoint.spec.canonical]
        for tag in self._tags.pop(endpoint):
            del self._by_tag[tag]
