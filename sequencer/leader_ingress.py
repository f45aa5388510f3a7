"""Ingress endpoints that only the serving leader opens, beside every member's own (cluster-client.md §1).

Shared memory, for programs on the leader's machine, and a multicast group that clients send to instead of the members'
endpoints. Followers do not listen to them: what is sent there is for the leader alone, and needs no redirect.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire.streams import INGRESS_STREAM_ID, local_stream
from ordo.runtime.errors import ChannelError
from ordo.transport.client.pending_registrations import PendingRegistrations
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.image import Image
    from ordo.transport.streams.subscription import Subscription

LOCAL_CHANNEL = "aeron:ipc?alias=ingress"
GROUP_KEYS = ("alias", "endpoint", "interface", "rcv-wnd", "so-rcvbuf", "ttl")
ARRIVAL_OPTION = "media-rcv-ts-offset=reserved"
"""The parameter of a channel whose frames tell when they arrived."""
RETRY_NS = 1_000_000_000


def check_group(text: str) -> ChannelUri:
    """Return the channel of a multicast ingress. Raises ChannelError for what members cannot take messages from."""
    uri = ChannelUri.parse(text)
    endpoint = uri.address("endpoint")
    if not uri.is_udp or uri.is_spy or endpoint is None or not endpoint.is_multicast or not endpoint.port:
        raise ChannelError(
            f"{text!r}: allowed is aeron:udp?endpoint=GROUP:PORT of a multicast group, as 224.20.30.39:20500"
        )
    if ipaddress.ip_address(endpoint.host.split("%")[0]).packed[-1] % 2 == 0:
        raise ChannelError(f"{text!r}: the last byte of the group's address must be odd")
    unknown = sorted(set(uri.params) - set(GROUP_KEYS))
    if unknown:
        raise ChannelError(f"{text!r}: {unknown[0]} is not allowed here; allowed are {', '.join(GROUP_KEYS)}")
    return uri


class IngressSettings(Protocol):
    """The settings of these endpoints."""

    cluster_id: int
    ipc_ingress: bool
    ingress_channel: str | None
    arrival_time: bool
    receiver_window_bytes: int
    socket_buffer_bytes: int


class _Way:
    """One subscription of one leadership."""

    def __init__(self, channel: str, stream_id: int, *, is_timed: bool) -> None:
        self.channel = channel
        self.stream_id = stream_id
        self.is_timed = is_timed
        self.is_wanted = True
        self.subscription: Subscription | None = None


class LeaderIngress:
    """Opens what the configuration allows in `lead`, without waiting for it; `lose_leadership` closes it."""

    def __init__(
        self,
        client: TransportClient,
        config: IngressSettings,
        *,
        on_available_image: Callable[[Image, bool], object],
        on_unavailable_image: Callable[[Image], object],
        on_error: Callable[[str], object],
    ) -> None:
        """Take `on_available_image`, which is told whether frames have the time at which they arrived.

        `on_error` gets a line for each endpoint that could not be opened. It is tried again every second.
        """
        self._client = client
        self._on_available_image = on_available_image
        self._on_unavailable_image = on_unavailable_image
        self._on_error = on_error
        self._channels: list[tuple[str, int, bool]] = []
        if config.ipc_ingress:
            self._channels.append((LOCAL_CHANNEL, local_stream(INGRESS_STREAM_ID, config.cluster_id), False))
        if config.ingress_channel is not None:
            uri = check_group(config.ingress_channel)
            own = {"rcv-wnd": str(config.receiver_window_bytes), "so-rcvbuf": str(config.socket_buffer_bytes)}
            params = {"alias": "ingress", **own, **uri.params, "rejoin": "false"}
            if config.arrival_time:
                key, _, value = ARRIVAL_OPTION.partition("=")
                params[key] = value
            self._channels.append((str(ChannelUri(uri.media, params)), INGRESS_STREAM_ID, config.arrival_time))
        self._ways: list[_Way] = []
        self._asked: PendingRegistrations[_Way] = PendingRegistrations(client)
        self._failed: list[_Way] = []
        self._retry_ns = 0

    def lead(self) -> None:
        """Open the endpoints: this member serves from now on."""
        for channel, stream_id, is_timed in self._channels:
            self._open(_Way(channel, stream_id, is_timed=is_timed))

    def _open(self, way: _Way) -> None:
        self._ways.append(way)
        registration_id = self._client.async_add_subscription(
            way.channel,
            way.stream_id,
            on_available_image=partial(self._image_came, way),
            on_unavailable_image=self._on_unavailable_image,
        )
        self._asked.add(registration_id, way)

    def lose_leadership(self) -> None:
        """Close every way. One that the driver has not confirmed yet is closed when it does."""
        for way in self._ways:
            way.is_wanted = False
            if way.subscription is not None:
                way.subscription.close()
        self._ways.clear()
        self._failed.clear()

    def work(self, now_ns: int) -> None:
        """Run one slow tick."""
        if self._asked:
            self._take_asked(now_ns)
        if self._failed and now_ns >= self._retry_ns:
            failed, self._failed = self._failed, []
            for way in failed:
                self._open(way)

    def _take_asked(self, now_ns: int) -> None:
        for way, subscription, error in self._asked.take():
            if error is None and way.is_wanted:
                way.subscription = subscription
            elif error is None:
                subscription.close()
            elif way.is_wanted:
                self._on_error(f"ingress: {way.channel} cannot be opened: {error.message}")
                self._ways.remove(way)
                self._failed.append(way)
                self._retry_ns = now_ns + RETRY_NS

    def _image_came(self, way: _Way, image: Image) -> None:
        if way.is_wanted:
            self._on_available_image(image, way.is_timed)
