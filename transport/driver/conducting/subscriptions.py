"""Subscriptions of a driver: links, endpoints, destinations, images, IPC and spies (transport-wire.md §5, §9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ordo.runtime.errors import ChannelError, RegistrationError
from ordo.runtime.native.counters import Counter
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.control.commands import (
    IPC_IDENTITY,
    ErrorCode,
    OnAvailableImage,
    OnSubscriptionReady,
    OnUnavailableImage,
)
from ordo.transport.driver.channels.channel import (
    UdpChannelSpec,
    check_shared,
    is_name,
    packed,
    parse_udp,
    refuse_unsupported,
    stamper_of,
)
from ordo.transport.driver.channels.parameters import SYSTEM_TOS, SubscriptionParameters, subscription_parameters
from ordo.transport.driver.conducting.context import (
    STATUS_ACTIVE,
    STATUS_CLOSING,
    TYPE_RECEIVE_CHANNEL,
    TYPE_SUBSCRIBER_POSITION,
    DriverContext,
    StreamName,
    format_address,
)
from ordo.transport.driver.conducting.endpoint_index import EndpointIndex
from ordo.transport.driver.conducting.images import Images
from ordo.transport.driver.conducting.links import (
    KIND_IPC,
    KIND_NETWORK,
    KIND_SPY,
    Resource,
    SubscriptionLink,
    SubscriptionLinks,
)
from ordo.transport.driver.conducting.send_endpoints import RESOLUTION_CHANGES
from ordo.transport.driver.receiving.publication_image import PublicationImage
from ordo.transport.driver.receiving.receive_endpoint import ReceiveEndpoint, ReceiveTransport
from ordo.transport.driver.receiving.untethered import Tether
from ordo.transport.driver.sending.ipc_publication import IpcPublication
from ordo.transport.driver.sending.network_publication import NetworkPublication
from ordo.transport.uri import ChannelUri

NO_STATUS = -1


class Subscriptions:
    """All subscription links, receive endpoints and, in `images`, what they receive."""

    def __init__(self, context: DriverContext, publications: Any) -> None:
        self.context = context
        self.publications = publications
        self.links = SubscriptionLinks()
        self.endpoints: list[ReceiveEndpoint] = []
        self._index: EndpointIndex[ReceiveEndpoint] = EndpointIndex()
        self._asking: dict[ReceiveEndpoint, None] = {}
        """The endpoints that ask a publisher's control address for SETUP."""
        self.images = Images(context, self)
        self._next_receiver_id = context.random.randrange(-(1 << 63), 1 << 63)

    # --- adding ---------------------------------------------------------------------------------------------------

    def add(self, client_id: int, correlation_id: int, stream_id: int, channel: str) -> None:
        """Add a subscription, respond to the client, and give it the images that exist already."""
        uri = ChannelUri.parse(channel).check_subscription()
        refuse_unsupported(uri)
        parameters = subscription_parameters(uri, self.context.config, self.publications.tagged(uri))
        is_response = uri.control_mode == "response"
        link = SubscriptionLink(
            _kind(uri), correlation_id, client_id, stream_id, channel, parameters, is_response=is_response
        )
        status_id = NO_STATUS
        if link.kind == KIND_NETWORK:
            link.endpoint = self._endpoint(uri, parameters, correlation_id)
            try:
                self._check_stream(link)
            except ChannelError:
                if link.endpoint.reference_count == 0:
                    self._close_endpoint(link.endpoint)
                raise
            link.endpoint.retain()
            status_id = link.endpoint.status.counter_id
        elif link.kind == KIND_SPY:
            link.spec = parse_udp(uri, self.context.names)
        self.links.add(link)
        self.context.transmit(OnSubscriptionReady(correlation_id, status_id))
        if link.endpoint is not None and not link.is_response:
            link.endpoint.add_interest(stream_id, parameters.session_id)
        self._join_existing(link)

    def _check_stream(self, link: SubscriptionLink) -> None:
        """Raise unless subscriptions that share a socket and a stream agree on how it is received."""
        assert link.endpoint is not None
        for other in self.links.of_stream(link.endpoint, link.stream_id):
            for key in ("is_reliable", "rejoins"):
                if getattr(other.parameters, key) != getattr(link.parameters, key):
                    raise ChannelError(
                        f"channel {link.channel!r} differs from {other.channel!r} in "
                        f"{'reliable' if key == 'is_reliable' else 'rejoin'}: subscriptions of one stream on one "
                        "socket must agree"
                    )

    def _join_existing(self, link: SubscriptionLink) -> None:
        if link.endpoint is not None:
            candidates: list[Resource] = list(self.images.of_endpoint(link.endpoint))
        else:
            candidates = list(self.publications.all())
        for resource in candidates:
            if link.wants(resource):
                self.join(link, resource)

    def on_publication(self, publication: NetworkPublication | IpcPublication) -> None:
        """Join the IPC subscriptions and spies that wait for a publication to the one that was added."""
        for link in self.links.local:
            if publication not in link.positions and link.wants(publication):
                self.join(link, publication)

    def join(self, link: SubscriptionLink, resource: Resource) -> None:
        """Make the subscriber's position counter and announce the image."""
        position = resource.consumer_position if isinstance(resource, NetworkPublication) else resource.join_position
        counter = self.position_counter(link, resource, position)
        self.attach(link, resource, counter)
        self.announce(link, resource, counter)

    def position_counter(self, link: SubscriptionLink, resource: Resource, position: int) -> Counter:
        """Make the counter (`sub-pos`) that tells how far a link has read a resource."""
        stream = StreamName(link.registration_id, resource.session_id, resource.stream_id, link.channel)
        return self.context.stream_counter(
            TYPE_SUBSCRIBER_POSITION,
            "sub-pos",
            stream,
            owner_id=link.client_id,
            value=position,
            reference_id=resource_id(resource),
            suffix=f" @{position}",
        )

    def attach(self, link: SubscriptionLink, resource: Resource, counter: Counter) -> None:
        """Add the subscriber's position to the flow control window of the resource."""
        link.positions[resource] = (counter, Tether(link.parameters, self.context.clock.now()))
        self.links.note_reader(link, resource)
        add_position(resource, counter)

    def announce(self, link: SubscriptionLink, resource: Resource, counter: Counter) -> None:
        """Tell the client that it has an image."""
        identity = resource.source_identity if isinstance(resource, PublicationImage) else IPC_IDENTITY
        self.context.transmit(
            OnAvailableImage(
                resource_id(resource),
                resource.session_id,
                resource.stream_id,
                link.registration_id,
                counter.counter_id,
                resource.log.path,
                identity,
            )
        )

    def announce_unavailable(self, link: SubscriptionLink, resource: Resource) -> None:
        self.context.transmit(
            OnUnavailableImage(resource_id(resource), link.registration_id, link.stream_id, link.channel)
        )

    # --- endpoints ------------------------------------------------------------------------------------------------

    def _endpoint(self, uri: ChannelUri, parameters: SubscriptionParameters, registration_id: int) -> ReceiveEndpoint:
        spec = parse_udp(uri, self.context.names)
        found = self._index.find(spec)
        if found is not None:
            check_shared(
                uri, found.spec.uri, self.context.config.socket_buffers, "channel-rcv-ts-offset", "media-rcv-ts-offset"
            )
            self._index.note_tag(found, spec)
            return found
        if spec.is_response and spec.control is None:
            raise ChannelError(f"channel {str(uri)!r} has control-mode=response but no control: whom is it to ask?")
        if spec.endpoint is None and spec.control is None and spec.mode != "manual":
            raise ChannelError(f"channel {str(uri)!r} names tag {spec.tag}, but no endpoint has it: add that one first")
        endpoint = ReceiveEndpoint(
            spec,
            self.context.system,
            receiver_id=self._take_receiver_id(),
            tag=parameters.group_tag,
            stamper=stamper_of(uri, "channel-rcv-ts-offset", self.context.clock),
            media_stamper=stamper_of(uri, "media-rcv-ts-offset", self.context.clock),
            events=self.context.events,
        )
        address = ""
        transport = None
        if spec.mode != "manual":
            transport = self._open_transport(endpoint, spec, parameters, registration_id)
            address = format_address(transport.channel.local_address)
        endpoint.status = self.context.channel_counter(
            TYPE_RECEIVE_CHANNEL, "rcv-channel", spec.text, registration_id, address, STATUS_ACTIVE
        )
        if transport is not None:
            self._add_transport(endpoint, transport)
        self.endpoints.append(endpoint)
        self._index.add(endpoint)
        return endpoint

    def _take_receiver_id(self) -> int:
        taken = self._next_receiver_id
        self._next_receiver_id = taken + 1 if taken < (1 << 63) - 1 else -(1 << 63)
        return taken

    def _open_transport(
        self, endpoint: ReceiveEndpoint, spec: UdpChannelSpec, parameters: SubscriptionParameters, registration_id: int
    ) -> ReceiveTransport:
        network = self.context.receive_network
        buffers: dict[str, Any] = {"rcvbuf": parameters.rcvbuf, "sndbuf": parameters.sndbuf}
        buffers["tos"] = spec.uri.integer("so-tos", SYSTEM_TOS)
        control = spec.control
        if spec.is_multicast:
            assert spec.endpoint is not None
            control = spec.control_group
            channel = network.open(
                (spec.wildcard, spec.endpoint[1]),
                group=spec.endpoint,
                interface=spec.interface,
                ttl=spec.uri.integer("ttl", self.context.config.multicast_ttl),
                reuse=True,
                **buffers,
            )
        else:
            host, wanted = spec.endpoint or (spec.interface or spec.wildcard, spec.interface_port)
            channel = self.context.receive_ports.open(wanted, lambda port: network.open((host, port), **buffers))
        if endpoint.media_stamper is not None:
            channel.note_times()
        return ReceiveTransport(
            channel,
            spec,
            endpoint,
            registration_id=registration_id,
            is_multicast=spec.is_multicast,
            has_explicit_control=spec.control is not None and not spec.is_response,
            control=packed(control),
            now_ns=self.context.clock.now(),
        )

    def _add_transport(self, endpoint: ReceiveEndpoint, transport: ReceiveTransport) -> None:
        transport.local_address_counter = self.context.address_counter(
            "rcv-local-sockaddr",
            endpoint.status.counter_id,
            format_address(transport.channel.local_address),
            transport.registration_id,
        )
        endpoint.add_transport(transport)
        if transport.has_explicit_control:
            self._asking[endpoint] = None
        self.context.receiver.add_transport(transport)

    def _remove_transport(self, endpoint: ReceiveEndpoint, transport: ReceiveTransport) -> None:
        for image in self.images.of_endpoint(endpoint):
            image.drop_connection(transport)
        for setup in self.context.receiver.setups:
            if setup.transport is transport:
                endpoint.unmark(setup.session_id, setup.stream_id)
        self.context.receiver.remove_transport(transport)
        endpoint.remove_transport(transport)
        self.context.free_counter(transport.local_address_counter)

    def _close_endpoint(self, endpoint: ReceiveEndpoint) -> None:
        endpoint.status.set(STATUS_CLOSING)
        for transport in list(endpoint.transports):
            self._remove_transport(endpoint, transport)
        self.endpoints.remove(endpoint)
        self._index.remove(endpoint)
        self._asking.pop(endpoint, None)
        self.context.receiver.pending_endpoints.pop(endpoint, None)
        self.context.free_counter(endpoint.status)

    # --- receive destinations -------------------------------------------------------------------------------------

    def add_destination(self, registration_id: int, correlation_id: int, channel: str) -> None:
        """Add a source to a multi-destination subscription: a socket, or an IPC or spy link."""
        link = self._manual_link(registration_id, channel)
        uri = ChannelUri.parse(channel).check_destination(receive=True)
        refuse_unsupported(uri)
        if channel in link.destinations.values() and (uri.endpoint is None or uri.endpoint.port != 0):
            return
        if _kind(uri) != KIND_NETWORK:
            self._add_local_destination(link, uri, correlation_id)
            return
        assert link.endpoint is not None
        spec = parse_udp(uri, self.context.names)
        transport = self._open_transport(link.endpoint, spec, link.parameters, correlation_id)
        self._add_transport(link.endpoint, transport)
        link.destinations[correlation_id] = channel

    def _add_local_destination(self, link: SubscriptionLink, uri: ChannelUri, correlation_id: int) -> None:
        extra = SubscriptionLink(
            _kind(uri), link.registration_id, link.client_id, link.stream_id, str(uri), link.parameters
        )
        if extra.kind == KIND_SPY:
            extra.spec = parse_udp(uri, self.context.names)
        link.destinations[correlation_id] = str(uri)
        self.links.add(extra)
        self._join_existing(extra)

    def remove_destination_by_id(self, registration_id: int, destination_id: int) -> None:
        link = self._manual_link(registration_id, str(destination_id))
        self._remove_destination(link, destination_id, f"registration_id={destination_id}")

    def has(self, registration_id: int) -> bool:
        return bool(self.links.of_registration(registration_id))

    def remove_destination(self, registration_id: int, channel: str) -> None:
        """Remove the destination with this channel, the first one that was added if there are several."""
        link = self._manual_link(registration_id, channel)
        destination_id = next((one for one, known in link.destinations.items() if known == channel), NULL_VALUE)
        self._remove_destination(link, destination_id, repr(channel))

    def _remove_destination(self, link: SubscriptionLink, destination_id: int, what: str) -> None:
        channel = link.destinations.pop(destination_id, None)
        if channel is None:
            raise RegistrationError(
                f"no destination {what} at subscription registration_id={link.registration_id}",
                code=ErrorCode.GENERIC_ERROR,
            )
        for extra in self.links.of_registration(link.registration_id):
            if extra.kind != KIND_NETWORK and extra.channel == channel:
                self._drop(extra)
                return
        assert link.endpoint is not None
        for transport in list(link.endpoint.transports):
            if transport.registration_id == destination_id:
                self._remove_transport(link.endpoint, transport)

    def _manual_link(self, registration_id: int, channel: str) -> SubscriptionLink:
        link = self.find(registration_id)
        if link.endpoint is None or link.endpoint.spec.mode != "manual":
            raise ChannelError(
                f"destination {channel!r}: the subscription's channel {link.channel!r} has no control-mode=manual, "
                "only then destinations are added and removed"
            )
        return link

    def find(self, registration_id: int) -> SubscriptionLink:
        """Return the subscription's own link. Raises RegistrationError when there is none."""
        links = self.links.of_registration(registration_id)
        if not links:
            raise RegistrationError(
                f"unknown subscription registration_id={registration_id}", code=ErrorCode.UNKNOWN_SUBSCRIPTION
            )
        return links[0]

    # --- removing and life ----------------------------------------------------------------------------------------

    def remove(self, registration_id: int) -> None:
        """Remove a subscription with its IPC and spy destinations."""
        self.find(registration_id)
        for link in self.links.of_registration(registration_id):
            self._drop(link)

    def remove_client(self, client_id: int) -> None:
        for link in [link for link in self.links if link.client_id == client_id]:
            self._drop(link)

    def _drop(self, link: SubscriptionLink) -> None:
        self.links.remove(link)
        for resource in list(link.positions):
            if link.kind != KIND_NETWORK:
                self.announce_unavailable(link, resource)
            self.detach(link, resource)
        if link.endpoint is None:
            return
        if not link.is_response:
            link.endpoint.remove_interest(link.stream_id, link.parameters.session_id)
        elif link.response_session_id is not None:
            link.endpoint.remove_interest(link.stream_id, link.response_session_id)
        if link.endpoint.release():
            self.images.on_endpoint_closing(link.endpoint)
            self._close_endpoint(link.endpoint)

    def detach(self, link: SubscriptionLink, resource: Resource) -> None:
        """Remove the link's position from the window and free its counter."""
        counter, tether = link.positions.pop(resource)
        self.links.forget_reader(link, resource)
        if tether.holds_window:
            remove_position(resource, counter)
        self.context.free_counter(counter)

    def on_publication_rejected(self, publication: IpcPublication) -> None:
        """Take an IPC publication away from all that read it."""
        for link in self.links.readers_of(publication):
            self.announce_unavailable(link, publication)
            self.detach(link, publication)

    def on_publication_lingers(self, publication: NetworkPublication | IpcPublication) -> None:
        """Make the image unavailable once its subscribers have read all of it."""
        for link in self.links.readers_of(publication):
            self.announce_unavailable(link, publication)

    def on_publication_done(self, publication: NetworkPublication | IpcPublication) -> None:
        for link in self.links.readers_of(publication):
            self.detach(link, publication)

    def timer_steps(self, now_ns: int, epoch_ms: int) -> Iterator[None]:
        """Look after untethered positions, one a step, and then after every image."""
        for link in list(self.links):
            if link.parameters.is_tethered:
                continue
            for resource in list(link.positions):
                if resource in link.positions:  # it may have ended since the step before
                    self._tether(link, resource, *link.positions[resource], now_ns)
                    yield
        yield from self.images.timer_steps(now_ns, epoch_ms)

    def _tether(
        self, link: SubscriptionLink, resource: Resource, counter: Counter, tether: Tether, now_ns: int
    ) -> None:
        """Release untethered subscriptions that hold back the window, and let them rejoin (transport-wire.md §6.4)."""
        step = tether.check(counter.value, resource.untethered_limit, now_ns)
        if step == "linger":
            self.announce_unavailable(link, resource)
        elif step == "rest":
            remove_position(resource, counter)
        elif step == "close":
            self.detach(link, resource)
        elif step == "rejoin":
            position = (
                resource.consumer_position if isinstance(resource, NetworkPublication) else resource.join_position
            )
            counter.set(position)
            add_position(resource, counter)
            self.announce(link, resource, counter)

    def conduct_endpoints(self, now_ns: int) -> int:
        """Request SETUP from explicit control addresses; return the next deadline (ns).

        Forgets old PENDING_SETUP markers.
        """
        pending = self.context.receiver.pending_endpoints
        deadline = (1 << 63) - 1
        for endpoint in [*self._asking, *(endpoint for endpoint in pending if endpoint not in self._asking)]:
            deadline = min(deadline, endpoint.conduct_endpoint(now_ns))
            if not endpoint.pending:
                pending.pop(endpoint, None)
        return deadline

    def reresolve(self, now_ns: int) -> None:
        """Resolve publishers' control names again while nothing comes from them.

        Their addresses may have changed.
        """
        for endpoint in self.endpoints:
            if endpoint.images:
                continue
            for transport in endpoint.transports:
                control = transport.spec.uri.control
                if control is not None and is_name(control):
                    host = self.context.lookup_again(control.host, transport.spec.text)
                    if host is not None and transport.replace_control(packed((host, control.port))):
                        self.context.system.add(RESOLUTION_CHANGES)

    def close(self) -> None:
        self.images.close()
        for endpoint in self.endpoints:
            endpoint.close()


def resource_id(resource: Resource) -> int:
    """Return the image's correlation id, or the publication's registration id for IPC and spies."""
    return resource.correlation_id if isinstance(resource, PublicationImage) else resource.registration_id


def add_position(resource: Resource, counter: Counter) -> None:
    """Let a subscriber position hold back the resource's window."""
    if isinstance(resource, NetworkPublication):
        resource.add_spy(counter)
    else:
        resource.add_subscriber(counter)


def remove_position(resource: Resource, counter: Counter) -> None:
    if isinstance(resource, NetworkPublication):
        resource.remove_spy(counter)
    else:
        resource.remove_subscriber(counter)


def _kind(uri: ChannelUri) -> str:
    if uri.is_spy:
        return KIND_SPY
    return KIND_IPC if uri.is_ipc else KIND_NETWORK
