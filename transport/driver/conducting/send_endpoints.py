"""The sockets that publications send through, and the destinations that are added to them by hand."""

from __future__ import annotations

from typing import Any

from ordo.runtime.errors import ChannelError, RegistrationError, TransportError
from ordo.transport.control.commands import (
    ErrorCode,
)
from ordo.transport.driver.channels.channel import (
    ResolutionPending,
    UdpChannelSpec,
    check_shared,
    is_name,
    packed,
    parse_udp,
    stamper_of,
)
from ordo.transport.driver.channels.parameters import (
    SYSTEM_TOS,
    PublicationParameters,
)
from ordo.transport.driver.channels.settings import ENCRYPTED_MTU_MAX
from ordo.transport.driver.conducting.context import (
    STATUS_ACTIVE,
    STATUS_CLOSING,
    TYPE_DESTINATIONS,
    TYPE_SEND_CHANNEL,
    DriverContext,
    format_address,
)
from ordo.transport.driver.conducting.endpoint_index import EndpointIndex
from ordo.transport.driver.sending.send_endpoint import SendEndpoint
from ordo.transport.resolver import UNRESOLVED
from ordo.transport.uri import ChannelUri

RESOLUTION_CHANGES = 25


class SendEndpoints:
    """The send endpoints of a driver. Publications of one socket share one."""

    def __init__(self, context: DriverContext) -> None:
        self.all: list[SendEndpoint] = []
        self._context = context
        self._index: EndpointIndex[SendEndpoint] = EndpointIndex()
        self._destinations: dict[int, tuple[SendEndpoint, ChannelUri]] = {}

    def find(
        self, uri: ChannelUri, parameters: PublicationParameters, registration_id: int
    ) -> tuple[SendEndpoint, UdpChannelSpec]:
        """Return the send endpoint of a channel, opened if none matches."""
        spec = parse_udp(uri, self._context.names)
        found = self._index.find(spec)
        if found is not None:
            check_shared(uri, found.spec.uri, self._context.config.socket_buffers, "channel-snd-ts-offset")
            self._index.note_tag(found, spec)
            return found, spec
        if spec.endpoint is None and not spec.is_multi_destination and not spec.is_response:
            raise ChannelError(f"channel {str(uri)!r} names tag {spec.tag}, but no endpoint has it: add that one first")
        if self._context.config.encryption_key_file and parameters.mtu > ENCRYPTED_MTU_MAX:
            raise ChannelError(
                f"channel {str(uri)!r} has mtu={parameters.mtu}, at most {ENCRYPTED_MTU_MAX} with encryption"
            )
        endpoint = self._open(spec, parameters)
        if parameters.mtu > endpoint.channel.send_buffer_bytes:
            endpoint.close()
            raise ChannelError(
                f"channel {str(uri)!r} has mtu={parameters.mtu}, above the socket's send buffer of "
                f"{endpoint.channel.send_buffer_bytes} bytes: set so-sndbuf"
            )
        self._add_counters(endpoint, spec, registration_id)
        self.all.append(endpoint)
        self._index.add(endpoint)
        self._context.sender.add_endpoint(endpoint)
        return endpoint, spec

    def known(self, uri: ChannelUri) -> SendEndpoint | None:
        """Return the send endpoint that a channel shares, or None where it would open one."""
        return self._index.find(parse_udp(uri, self._context.names))

    def _open(self, spec: UdpChannelSpec, parameters: PublicationParameters) -> SendEndpoint:
        config, network = self._context.config, self._context.send_network
        ttl = spec.uri.integer("ttl", config.multicast_ttl)
        buffers: dict[str, Any] = {"rcvbuf": parameters.rcvbuf, "sndbuf": parameters.sndbuf}
        buffers["tos"] = spec.uri.integer("so-tos", SYSTEM_TOS)
        bind = spec.control or (spec.interface or spec.wildcard, spec.interface_port)
        if spec.is_multicast:
            assert spec.endpoint is not None
            channel = self._context.send_ports.open(
                spec.interface_port,
                lambda port: network.open(
                    (spec.wildcard, port), connect=spec.endpoint, interface=spec.interface, ttl=ttl, **buffers
                ),
            )
            control = network.open(
                (spec.wildcard, spec.endpoint[1]),
                group=spec.control_group,
                interface=spec.interface,
                reuse=True,
                **buffers,
            )
        else:
            connect = None if spec.is_multi_destination or spec.is_response else spec.endpoint
            channel = control = self._context.send_ports.open(
                bind[1], lambda port: network.open((bind[0], port), connect=connect, **buffers)
            )
        return SendEndpoint(
            spec,
            channel,
            control,
            mode=spec.mode,
            group_semantics=spec.has_group_semantics,
            destination_timeout_ns=config.destination_timeout_ns,
            ttl=ttl,
            stamper=stamper_of(spec.uri, "channel-snd-ts-offset", self._context.clock),
            events=self._context.events,
        )

    def _add_counters(self, endpoint: SendEndpoint, spec: UdpChannelSpec, registration_id: int) -> None:
        address = format_address(endpoint.channel.local_address)
        endpoint.status = self._context.channel_counter(
            TYPE_SEND_CHANNEL, "snd-channel", spec.text, registration_id, address, STATUS_ACTIVE
        )
        endpoint.local_address_counter = self._context.address_counter(
            "snd-local-sockaddr", endpoint.status.counter_id, address, registration_id
        )
        if spec.is_multi_destination:
            counter = self._context.channel_counter(TYPE_DESTINATIONS, "mdc-num-dest", spec.text, registration_id)
            endpoint.set_destinations_counter(counter)

    def remove(self, endpoint: SendEndpoint) -> None:
        """Close an endpoint that no publication uses any more."""
        endpoint.status.set(STATUS_CLOSING)
        self._context.sender.remove_endpoint(endpoint)
        self.all.remove(endpoint)
        self._index.remove(endpoint)
        endpoint.close()
        for counter in (endpoint.status, endpoint.local_address_counter, endpoint.destinations_counter):
            self._context.free_counter(counter)
        if endpoint.is_manual:
            for key in [k for k, (owner, _) in self._destinations.items() if owner is endpoint]:
                del self._destinations[key]

    # --- destinations ---------------------------------------------------------------------------------------------

    def add_destination(self, endpoint: SendEndpoint, correlation_id: int, channel: str) -> None:
        """Add a destination to a manual multi-destination endpoint."""
        uri = ChannelUri.parse(channel).check_destination()
        endpoint.add_destination(self._address(uri), correlation_id, self._context.clock.now())
        self._destinations[correlation_id] = (endpoint, uri)

    def _address(self, uri: ChannelUri) -> bytes:
        """Return the address of a destination: b"" while its name has none, which is looked up again later.

        A publication with several destinations must not fail to start because one of them is down.
        """
        try:
            return packed(parse_udp(uri, self._context.names).endpoint)
        except ResolutionPending:
            raise
        except TransportError as error:
            if UNRESOLVED not in str(error):
                raise
            return b""

    def remove_destination(self, endpoint: SendEndpoint, registration_id: int, channel: str) -> None:
        """Remove the destination with this address, even if its name resolves to another one by now.

        `registration_id`: that of the publication, for messages.
        """
        uri = ChannelUri.parse(channel).check_destination()
        for key, (owner, known) in list(self._destinations.items()):
            if owner is endpoint and known.endpoint == uri.endpoint:
                del self._destinations[key]
                endpoint.remove_destination_by_id(key)
                return
        if not endpoint.remove_destination(packed(parse_udp(uri, self._context.names).endpoint)):
            raise RegistrationError(
                f"no destination {channel!r} at publication registration_id={registration_id}",
                code=ErrorCode.GENERIC_ERROR,
            )

    def remove_destination_by_id(self, endpoint: SendEndpoint, registration_id: int, destination_id: int) -> None:
        if not endpoint.remove_destination_by_id(destination_id):
            raise RegistrationError(
                f"no destination registration_id={destination_id} at publication registration_id={registration_id}",
                code=ErrorCode.GENERIC_ERROR,
            )
        self._destinations.pop(destination_id, None)

    # --- life -----------------------------------------------------------------------------------------------------

    def expire_destinations(self, now_ns: int) -> None:
        """Give up dynamic destinations that no receiver has asked for lately."""
        for endpoint in self.all:
            endpoint.expire_destinations(now_ns)

    def reresolve(self, now_ns: int) -> None:
        """Resolve again the names whose address fell silent: manual destinations and unicast endpoints."""
        for endpoint in self.all:
            for registration_id in endpoint.silent_destinations(now_ns):
                if registration_id in self._destinations:
                    address = self._moved(self._destinations[registration_id][1])
                    if address is not None and endpoint.replace_destination(registration_id, packed(address)):
                        self._context.system.add(RESOLUTION_CHANGES)
            if endpoint.is_silent(now_ns) and not endpoint.spec.is_multicast:
                address = self._moved(endpoint.spec.uri)
                if address is not None and endpoint.reconnect(address):
                    self._context.system.add(RESOLUTION_CHANGES)

    def _moved(self, uri: ChannelUri) -> tuple[str, int] | None:
        """Return the current address of a channel's endpoint, or None if it is not a name or has no address now."""
        address = uri.endpoint
        if address is None or not is_name(address):
            return None
        host = self._context.lookup_again(address.host, str(uri))
        return None if host is None else (host, address.port)

    def close(self) -> None:
        for endpoint in self.all:
            endpoint.close()
