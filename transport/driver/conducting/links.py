"""Links of subscriptions, indexed so that a driver need not look at all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ordo.runtime.native.counters import Counter
from ordo.transport.driver.channels.channel import UdpChannelSpec
from ordo.transport.driver.channels.parameters import SubscriptionParameters
from ordo.transport.driver.receiving.publication_image import PublicationImage
from ordo.transport.driver.receiving.receive_endpoint import ReceiveEndpoint
from ordo.transport.driver.receiving.untethered import Tether
from ordo.transport.driver.sending.ipc_publication import IpcPublication
from ordo.transport.driver.sending.network_publication import NetworkPublication

KIND_NETWORK = "network"
KIND_IPC = "ipc"
KIND_SPY = "spy"
Resource = PublicationImage | NetworkPublication | IpcPublication


class SubscriptionLink:
    """One subscription of one client, or one of its IPC or spy destinations (same registration id).

    A response wants no session until `response_session_id` is known.
    """

    def __init__(
        self,
        kind: str,
        registration_id: int,
        client_id: int,
        stream_id: int,
        channel: str,
        parameters: SubscriptionParameters,
        is_response: bool = False,
    ) -> None:
        self.kind = kind
        self.registration_id = registration_id
        self.client_id = client_id
        self.stream_id = stream_id
        self.channel = channel
        self.parameters = parameters
        self.endpoint: ReceiveEndpoint | None = None
        """Where a network subscription receives."""
        self.spec: UdpChannelSpec | None = None
        """The channel of the publications that a spy reads."""
        self.is_response = is_response
        self.response_session_id: int | None = None
        self.destinations: dict[int, str] = {}
        """The channel of each, by the id of the command that added it."""
        self.positions: dict[Resource, tuple[Counter, Tether]] = {}

    def wants_session(self, session_id: int) -> bool:
        if self.is_response:
            return self.response_session_id == session_id
        return self.parameters.session_id is None or self.parameters.session_id == session_id

    def wants(self, resource: Resource) -> bool:
        """Return whether this link reads the stream of a publication or image."""
        if resource.stream_id != self.stream_id or not resource.accepts_subscriptions:
            return False
        if not self.wants_session(resource.session_id):
            return False
        if self.kind == KIND_IPC:
            return isinstance(resource, IpcPublication) and resource.parameters.is_response == self.is_response
        if self.kind == KIND_SPY:
            return (
                isinstance(resource, NetworkPublication) and self.spec is not None and self._means(self.spec, resource)
            )
        return isinstance(resource, PublicationImage) and resource.endpoint is self.endpoint

    @staticmethod
    def _means(spec: UdpChannelSpec, publication: NetworkPublication) -> bool:
        """Return whether a spy's channel means this publication, whose tag may be newer than that of its socket."""
        if spec.tag is not None and spec.tag == publication.parameters.channel_tag:
            return True
        return spec.matches(publication.endpoint.spec)


class SubscriptionLinks:
    """All links, in the order in which they were added."""

    def __init__(self) -> None:
        self._all: dict[SubscriptionLink, None] = {}
        self._by_registration: dict[int, list[SubscriptionLink]] = {}
        self._by_stream: dict[tuple[ReceiveEndpoint, int], list[SubscriptionLink]] = {}
        self._local: dict[SubscriptionLink, None] = {}
        self._readers: dict[Resource, list[SubscriptionLink]] = {}

    def __iter__(self) -> Iterator[SubscriptionLink]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, link: SubscriptionLink) -> None:
        self._all[link] = None
        self._by_registration.setdefault(link.registration_id, []).append(link)
        if link.endpoint is not None:
            self._by_stream.setdefault((link.endpoint, link.stream_id), []).append(link)
        else:
            self._local[link] = None

    def remove(self, link: SubscriptionLink) -> None:
        del self._all[link]
        _drop(self._by_registration, link.registration_id, link)
        if link.endpoint is not None:
            _drop(self._by_stream, (link.endpoint, link.stream_id), link)
        else:
            del self._local[link]

    def of_registration(self, registration_id: int) -> list[SubscriptionLink]:
        """Return a subscription's own link first, followed by those of its IPC and spy destinations."""
        return list(self._by_registration.get(registration_id, ()))

    def of_stream(self, endpoint: ReceiveEndpoint, stream_id: int) -> list[SubscriptionLink]:
        """Return the links that receive a stream on a socket."""
        return list(self._by_stream.get((endpoint, stream_id), ()))

    @property
    def local(self) -> list[SubscriptionLink]:
        """The links that read publications of this driver: IPC and spies."""
        return list(self._local)

    def readers_of(self, resource: Resource) -> list[SubscriptionLink]:
        """Return the links with a position in a publication or image."""
        return list(self._readers.get(resource, ()))

    def note_reader(self, link: SubscriptionLink, resource: Resource) -> None:
        self._readers.setdefault(resource, []).append(link)

    def forget_reader(self, link: SubscriptionLink, resource: Resource) -> None:
        _drop(self._readers, resource, link)


def _drop(index: dict[Any, list[SubscriptionLink]], key: object, link: SubscriptionLink) -> None:
    links = index[key]
    links.remove(link)
    if not links:
        del index[key]
