"""Ports on which several subscriptions of one client hear: fewer sockets to ask, and one call sends to all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.subscription import Subscription

STREAMS_MAX = 16
"""So many streams share a port at most."""
STREAM_ID_MAX = (1 << 31) - 1


@dataclass
class SharedPort:
    """A port that the system chooses, for all channels with the same tag.

    A stream's id is used once: a member that still sends to a closed subscription is not heard by the next one.
    """

    channel: str
    first_stream_id: int
    tag: int
    streams_max: int
    streams_used: int = 0
    subscriptions: list[Subscription] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether there is something to share, and room."""
        return self.streams_used < self.streams_max and any(not one.closed for one in self.subscriptions)

    def subscribe(self, client: TransportClient) -> Subscription:
        """Subscribe to its next stream. Raises as `TransportClient.add_subscription`."""
        tagged = str(ChannelUri.parse(self.channel).with_params(tags=self.tag))
        subscription = client.add_subscription(tagged, self.first_stream_id + self.streams_used)
        self.streams_used += 1
        self.subscriptions.append(subscription)
        return subscription


class SharedPorts:
    """Subscriptions whose channel leaves the port to the system: as many on each port as its socket has room for."""

    def __init__(self, client: TransportClient, buffer_bytes: int = 0) -> None:
        """Share ports of `client`; `buffer_bytes` fit the buffer of a socket: 0 where that is not known."""
        self._client = client
        self._buffer_bytes = buffer_bytes
        self._ports: list[SharedPort] = []

    def subscribe(self, channel: str, stream_id: int, window_bytes: int) -> Subscription:
        """Return a subscription. Its stream has another id, a little above `stream_id`, where it shares a port.

        It may be sent `window_bytes` at once, and no burst of one stream is to cost the others datagrams. Raises as
        `TransportClient.add_subscription`.
        """
        uri = ChannelUri.parse(channel)
        address = uri.address("endpoint") if uri.is_udp else None
        streams_max = min(self._buffer_bytes // window_bytes, STREAMS_MAX)
        is_shared = address is not None and address.port == 0 and not uri.has("tags") and streams_max > 1
        if not is_shared or stream_id > STREAM_ID_MAX - STREAMS_MAX:
            return self._client.add_subscription(channel, stream_id)
        self._ports = [port for port in self._ports if port.is_open]
        for port in self._ports:
            if (port.channel, port.first_stream_id, port.streams_max) == (channel, stream_id, streams_max):
                return port.subscribe(self._client)
        port = SharedPort(channel, stream_id, self._client.next_correlation_id(), streams_max)
        subscription = port.subscribe(self._client)
        self._ports.append(port)
        return subscription
