"""Publications of a driver: adding, sharing, destinations, life and end (transport-wire.md §4, §9, §11)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from ordo.runtime.errors import ChannelError, RegistrationError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.control.commands import (
    ADDRESS_TYPE_IPV4,
    ADDRESS_TYPE_IPV6,
    ErrorCode,
    OnExclusivePublicationReady,
    OnPublicationError,
    OnPublicationReady,
)
from ordo.transport.driver.channels.channel import (
    UdpChannelSpec,
)
from ordo.transport.driver.channels.parameters import (
    PublicationParameters,
    check_same,
    flow_control,
    publication_parameters,
)
from ordo.transport.driver.conducting.context import (
    OWNER_NONE,
    TYPE_BACK_PRESSURE,
    TYPE_FLOW_RECEIVERS,
    TYPE_NAKS_RECEIVED,
    TYPE_PUBLISHER_LIMIT,
    TYPE_PUBLISHER_POSITION,
    TYPE_SENDER_LIMIT,
    TYPE_SENDER_POSITION,
    DriverContext,
    StreamName,
)
from ordo.transport.driver.conducting.send_endpoints import SendEndpoints
from ordo.transport.driver.flow.flow_control import FlowControl
from ordo.transport.driver.sending.ipc_publication import IpcPublication
from ordo.transport.driver.sending.network_publication import NetworkPublication
from ordo.transport.driver.sending.send_endpoint import SendEndpoint
from ordo.transport.streams.logbuffer import LOG_TYPE_CONCURRENT, LOG_TYPE_EXCLUSIVE, LogBuffers
from ordo.transport.udp import unpack_address
from ordo.transport.uri import ChannelUri

Publication = NetworkPublication | IpcPublication
NO_STATUS = -1
IMAGES_REJECTED = 42


@dataclass
class PublicationLink:
    """One client's share in a publication, with the registration id that the client knows it by."""

    registration_id: int
    client_id: int
    publication: Publication


class Publications:
    """All publications, and their `endpoints`. `ipc` is kept in step by the driver's native loop."""

    def __init__(self, context: DriverContext, ipc_changed: Any) -> None:
        self.context = context
        self.links: dict[int, PublicationLink] = {}
        self.network: dict[int, NetworkPublication] = {}
        self.ipc: dict[int, IpcPublication] = {}
        self.channels: dict[int, str] = {}
        self.endpoints = SendEndpoints(context)
        self._streams: dict[tuple[SendEndpoint, int], dict[int, NetworkPublication]] = {}
        """The publications of a stream of a socket, by session id."""
        self._ipc_changed = ipc_changed
        self._session_secret = context.random.randbytes(32)
        self._sessions_given = 0

    # --- adding ---------------------------------------------------------------------------------------------------

    def add(self, client_id: int, correlation_id: int, stream_id: int, uri: ChannelUri, exclusive: bool) -> Publication:
        """Add or share a publication of a checked channel, respond to the client, and return it.

        A log that was prepared is left where it is refused, or shares one that was added meanwhile: `forget` it then.
        """
        declared = uri.value("stream-id")
        if declared is not None and declared != stream_id:
            raise ChannelError(f"channel {str(uri)!r} has stream-id={declared}, the command has stream_id={stream_id}")
        parameters = publication_parameters(uri, self.context.config, self.tagged(uri))
        self._prepare(correlation_id, stream_id, uri, parameters, exclusive)
        add = self._add_ipc if uri.is_ipc else self._add_network
        publication = add(client_id, correlation_id, stream_id, uri, parameters, exclusive)
        publication.reference_count += 1
        self.links[correlation_id] = PublicationLink(correlation_id, client_id, publication)
        self._announce(correlation_id, publication, exclusive)
        return publication

    def prepare(self, correlation_id: int, stream_id: int, uri: ChannelUri, exclusive: bool) -> None:
        """Have the log of a publication made that is added soon, unless it shares one.

        Raises what `add` would, and LogPending.
        """
        parameters = publication_parameters(uri, self.context.config, self.tagged(uri))
        self._prepare(correlation_id, stream_id, uri, parameters, exclusive)

    def _prepare(
        self, correlation_id: int, stream_id: int, uri: ChannelUri, parameters: PublicationParameters, exclusive: bool
    ) -> None:
        shared = self._find_shared(uri, stream_id, parameters)  # raises first where a name is not known yet
        if shared is not None and not exclusive:
            return
        path, start = self._log_path(correlation_id), _start_position(parameters)
        self.context.logs.prepare(path, parameters.term_length, parameters.sparse, start)

    def _find_shared(self, uri: ChannelUri, stream_id: int, parameters: PublicationParameters) -> Publication | None:
        """Return the publication that one of a channel and stream would share, or None."""
        if uri.is_ipc:
            return _shared(self._ipc_of(stream_id), parameters)
        endpoint = self.endpoints.known(uri)
        return None if endpoint is None else _shared(self._streams.get((endpoint, stream_id), {}).values(), parameters)

    def _ipc_of(self, stream_id: int) -> list[IpcPublication]:
        return [p for p in self.ipc.values() if p.stream_id == stream_id and (p.is_active or p.is_draining)]

    def forget(self, correlation_id: int) -> None:
        """Let go of the log of a publication that is not added after all, if one was prepared."""
        self.context.logs.drop(self._log_path(correlation_id))

    def is_prepared(self, correlation_id: int) -> bool:
        """Return whether no log is being made for a publication."""
        return not self.context.logs.is_pending(self._log_path(correlation_id))

    def _log_path(self, correlation_id: int) -> str:
        return f"{self.context.directory}/publications/{correlation_id}.logbuffer"

    def _announce(self, correlation_id: int, publication: Publication, exclusive: bool) -> None:
        ready = OnExclusivePublicationReady if exclusive else OnPublicationReady
        status_id = NO_STATUS
        if isinstance(publication, NetworkPublication):
            status_id = publication.endpoint.status.counter_id
        self.context.transmit(
            ready(
                correlation_id,
                publication.registration_id,
                publication.session_id,
                publication.stream_id,
                publication.counters["pub-lmt"].counter_id,
                status_id,
                publication.log.path,
            )
        )

    def _add_ipc(
        self,
        client_id: int,
        correlation_id: int,
        stream_id: int,
        uri: ChannelUri,
        parameters: PublicationParameters,
        exclusive: bool,
    ) -> IpcPublication:
        same_stream = self._ipc_of(stream_id)
        shared = None if exclusive else _shared(same_stream, parameters)
        if shared is not None:
            check_same(uri, parameters, shared.parameters, shared.session_id)
            return shared
        session_id = self._session_id(parameters, {p.session_id for p in same_stream}, uri)
        parameters, log = self._create_log(correlation_id, stream_id, session_id, parameters, exclusive, group=False)
        position = _start_position(parameters)
        stream = StreamName(correlation_id, session_id, stream_id, str(uri))
        counters: dict[str, Any] = {}
        with self._undone_on_error(log, counters):
            self._position_counters(counters, stream, client_id, position, exclusive)
        publication = IpcPublication(
            log=log,
            system=self.context.system,
            registration_id=correlation_id,
            client_id=client_id,
            is_exclusive=exclusive,
            parameters=parameters,
            counters=counters,
            start_position=position,
            unblock_timeout_ns=self.context.config.publication_unblock_timeout_ns,
            now_ns=self.context.clock.now(),
        )
        self.ipc[correlation_id] = publication
        self.channels[correlation_id] = str(uri)
        self._ipc_changed()
        return publication

    def _add_network(
        self,
        client_id: int,
        correlation_id: int,
        stream_id: int,
        uri: ChannelUri,
        parameters: PublicationParameters,
        exclusive: bool,
    ) -> NetworkPublication:
        endpoint, spec = self.endpoints.find(uri, parameters, correlation_id)
        try:
            same = self._streams.get((endpoint, stream_id), {})
            shared = None if exclusive else _shared(same.values(), parameters)
            if shared is not None:
                check_same(uri, parameters, shared.parameters, shared.session_id)
                shared.allow_setups(parameters.setup_limit)
                return shared
            session_id = self._session_id(parameters, same.keys(), uri)
            return self._create_network(
                client_id, correlation_id, stream_id, session_id, uri, spec, endpoint, parameters, exclusive
            )
        finally:
            if endpoint.reference_count == 0:
                self.endpoints.remove(endpoint)

    def _create_network(
        self,
        client_id: int,
        correlation_id: int,
        stream_id: int,
        session_id: int,
        uri: ChannelUri,
        spec: UdpChannelSpec,
        endpoint: SendEndpoint,
        parameters: PublicationParameters,
        exclusive: bool,
    ) -> NetworkPublication:
        context, config = self.context, self.context.config
        flow = flow_control(uri, config, spec.has_group_semantics)
        parameters, log = self._create_log(
            correlation_id, stream_id, session_id, parameters, exclusive, group=spec.has_group_semantics
        )
        position = _start_position(parameters)
        stream = StreamName(correlation_id, session_id, stream_id, spec.text)
        counters: dict[str, Any] = {}
        with self._undone_on_error(log, counters):
            self._network_counters(counters, stream, client_id, position, exclusive, flow)
        publication = NetworkPublication(
            log=log,
            endpoint=endpoint,
            flow_control=flow,
            system=context.system,
            registration_id=correlation_id,
            client_id=client_id,
            is_exclusive=exclusive,
            parameters=parameters,
            counters=counters,
            start_position=position,
            connection_timeout_ns=config.publication_connection_timeout_ns,
            resend_delay_ns=config.retransmit_delay_ns,
            resend_linger_ns=config.retransmit_linger_ns,
            unblock_timeout_ns=config.publication_unblock_timeout_ns,
            now_ns=context.clock.now(),
        )
        endpoint.retain()
        self.network[correlation_id] = publication
        self._streams.setdefault((endpoint, stream_id), {})[session_id] = publication
        self.channels[correlation_id] = spec.text
        context.sender.add_publication(publication, context.clock.now())
        return publication

    def _create_log(
        self,
        correlation_id: int,
        stream_id: int,
        session_id: int,
        parameters: PublicationParameters,
        exclusive: bool,
        group: bool,
    ) -> tuple[PublicationParameters, LogBuffers]:
        if parameters.initial_term_id is None:
            parameters = parameters.with_start(self.context.random.randrange(-(1 << 31), 1 << 31))
        assert parameters.initial_term_id is not None
        log = self.context.logs.create(
            self._log_path(correlation_id),
            term_length=parameters.term_length,
            mtu=parameters.mtu,
            initial_term_id=parameters.initial_term_id,
            session_id=session_id,
            stream_id=stream_id,
            correlation_id=correlation_id,
            log_type=LOG_TYPE_EXCLUSIVE if exclusive else LOG_TYPE_CONCURRENT,
            term_id=parameters.term_id,
            term_offset=parameters.term_offset,
            sparse=parameters.sparse,
            publication_window_length=parameters.window_length,
            socket_sndbuf_length=parameters.sndbuf,
            socket_rcvbuf_length=parameters.rcvbuf,
            max_resend=parameters.max_resend,
            entity_tag=-1 if parameters.entity_tag is None else parameters.entity_tag,
            response_correlation_id=parameters.response_correlation_id,
            linger_timeout_ns=parameters.linger_timeout_ns,
            untethered_window_limit_timeout_ns=parameters.untethered_window_limit_timeout_ns,
            untethered_linger_timeout_ns=parameters.untethered_linger_timeout_ns,
            untethered_resting_timeout_ns=parameters.untethered_resting_timeout_ns,
            group=group,
            signal_eos=parameters.signal_eos,
            spies_simulate_connection=parameters.spies_simulate_connection,
        )
        return parameters, log

    def _session_id(self, parameters: PublicationParameters, used: Collection[int], uri: ChannelUri) -> int:
        if parameters.session_id is not None:
            if parameters.session_id in used:
                raise ChannelError(
                    f"channel {str(uri)!r} has session-id={parameters.session_id}, clashing with an existing "
                    "publication of the stream: leave it out or choose another"
                )
            return parameters.session_id
        return self.next_session_id(used)

    def tagged(self, uri: ChannelUri) -> PublicationParameters | None:
        """Return the parameters of the publication that `session-id=tag:` names, or None without it."""
        tag = uri.session_id_tag
        if tag is None:
            return None
        for publication in self.all():
            if publication.parameters.entity_tag == tag:
                return publication.parameters._replace(session_id=publication.session_id)
        raise ChannelError(f"channel {str(uri)!r} has session-id=tag:{tag}, but no publication has that entity tag")

    def next_session_id(self, used: Collection[int]) -> int:
        """Return an id that is neither used nor reserved, and cannot be guessed from earlier ones.

        A stranger who knew the next one could set the stream up before its publisher does, and keep it out.
        """
        low, high = self.context.config.reserved_session_id_low, self.context.config.reserved_session_id_high
        while True:
            self._sessions_given += 1
            digest = hashlib.sha256(self._session_secret + self._sessions_given.to_bytes(8, "little")).digest()
            candidate = int.from_bytes(digest[:4], "little", signed=True)
            if candidate not in used and not low <= candidate <= high:
                return candidate

    def session_ids(self, stream_id: int) -> set[int]:
        """Return the session ids in use on a stream, on whatever channel."""
        return {p.session_id for p in self.all() if p.stream_id == stream_id}

    def all(self) -> Iterator[Publication]:
        yield from self.network.values()
        yield from self.ipc.values()

    # --- counters -------------------------------------------------------------------------------------------------

    @contextmanager
    def _undone_on_error(self, log: LogBuffers, counters: dict[str, Any]) -> Iterator[None]:
        """Free log and counters when not all counters can be allocated."""
        try:
            yield
        except BaseException:
            for counter in counters.values():
                self.context.free_counter(counter)
            self.context.logs.free(log)
            raise

    def _position_counters(
        self, counters: dict[str, Any], stream: StreamName, client_id: int, position: int, exclusive: bool
    ) -> None:
        make = self.context.stream_counter
        name = "pub-pos (exclusive)" if exclusive else "pub-pos (concurrent)"
        counters["pub-pos"] = make(TYPE_PUBLISHER_POSITION, name, stream, owner_id=client_id, value=position)
        counters["pub-lmt"] = make(TYPE_PUBLISHER_LIMIT, "pub-lmt", stream, owner_id=client_id, value=position)

    def _network_counters(
        self,
        counters: dict[str, Any],
        stream: StreamName,
        client_id: int,
        position: int,
        exclusive: bool,
        flow: FlowControl,
    ) -> None:
        make = self.context.stream_counter
        if flow.tracks_receivers:
            counters["fc-receivers"] = make(TYPE_FLOW_RECEIVERS, "fc-receivers", stream, owner_id=OWNER_NONE)
        self._position_counters(counters, stream, client_id, position, exclusive)
        for type_id, name, value in (
            (TYPE_SENDER_POSITION, "snd-pos", position),
            (TYPE_SENDER_LIMIT, "snd-lmt", position),
            (TYPE_BACK_PRESSURE, "snd-bpe", 0),
            (TYPE_NAKS_RECEIVED, "snd-naks-received", 0),
        ):
            counters[name] = make(type_id, name, stream, owner_id=client_id, value=value)

    # --- destinations ---------------------------------------------------------------------------------------------

    def add_destination(self, registration_id: int, correlation_id: int, channel: str) -> None:
        """Add a destination to a manual multi-destination publication."""
        self.endpoints.add_destination(self._manual_endpoint(registration_id, channel), correlation_id, channel)

    def remove_destination(self, registration_id: int, channel: str) -> None:
        """Remove a destination of a manual multi-destination publication."""
        self.endpoints.remove_destination(self._manual_endpoint(registration_id, channel), registration_id, channel)

    def remove_destination_by_id(self, registration_id: int, destination_id: int) -> None:
        endpoint = self._manual_endpoint(registration_id, str(destination_id))
        self.endpoints.remove_destination_by_id(endpoint, registration_id, destination_id)

    def _manual_endpoint(self, registration_id: int, channel: str) -> SendEndpoint:
        publication = self.network.get(registration_id)
        if publication is None:
            raise RegistrationError(
                f"unknown publication registration_id={registration_id}", code=ErrorCode.UNKNOWN_PUBLICATION
            )
        if not publication.endpoint.is_manual:
            raise ChannelError(
                f"destination {channel!r}: the publication's channel has no control-mode=manual, only then "
                "destinations are added and removed"
            )
        return publication.endpoint

    # --- removing and life ----------------------------------------------------------------------------------------

    def reject_ipc(self, publication: IpcPublication, reason: str) -> None:
        """Take no subscribers for as long as an image would stay away, and tell the publisher's clients why."""
        now_ns = self.context.clock.now()
        publication.reject(now_ns + self.context.config.image_liveness_timeout_ns)
        self.context.system.add(IMAGES_REJECTED)
        self.context.record_error(
            f"image rejected: session_id={publication.session_id} stream_id={publication.stream_id} source=aeron:ipc: "
            f"{reason}"
        )
        self.context.transmit(
            OnPublicationError(
                publication.registration_id,
                NULL_VALUE,
                publication.session_id,
                publication.stream_id,
                NULL_VALUE,
                NULL_VALUE,
                ADDRESS_TYPE_IPV4,
                0,
                bytes(4),
                ErrorCode.IMAGE_REJECTED,
                reason,
            )
        )

    def remove(self, registration_id: int, revoke: bool) -> None:
        """Remove one client's link; the last one lets the publication drain."""
        link = self.links.pop(registration_id, None)
        if link is None:
            raise RegistrationError(
                f"unknown publication registration_id={registration_id}", code=ErrorCode.UNKNOWN_PUBLICATION
            )
        link.publication.reference_count -= 1
        if link.publication.reference_count == 0 or revoke:
            link.publication.begin_draining(self.context.clock.now(), revoke)

    def remove_client(self, client_id: int) -> None:
        for link in [link for link in self.links.values() if link.client_id == client_id]:
            self.remove(link.registration_id, revoke=False)

    def timer_steps(self, now_ns: int, epoch_ms: int, subscriptions: Any) -> Iterator[None]:
        """Advance the lifetime of every publication, one a step, and free those that are finished."""
        for publication in list(self.all()):
            self._advance(publication, now_ns, epoch_ms, subscriptions)
            yield
        self.endpoints.expire_destinations(now_ns)

    def _advance(self, publication: Publication, now_ns: int, epoch_ms: int, subscriptions: Any) -> None:
        self.context.check_shortage(publication.log)
        before = publication.state_name
        entered = publication.on_time_event(now_ns, epoch_ms)
        if publication.state_name != before:
            registration_id, state = publication.registration_id, publication.state_name
            self.context.tell_state("publication", registration_id, publication.log, state)
        if entered == "LINGER":
            subscriptions.on_publication_lingers(publication)
        elif entered == "ACTIVE":
            subscriptions.on_publication(publication)
        elif publication.state_name == "DONE" and publication.reference_count == 0:
            self._free(publication, subscriptions)

    def _free(self, publication: Publication, subscriptions: Any) -> None:
        subscriptions.on_publication_done(publication)
        self.channels.pop(publication.registration_id, None)
        if isinstance(publication, NetworkPublication):
            del self.network[publication.registration_id]
            self._forget_stream(publication)
            self.context.sender.remove_publication(publication)
        else:
            del self.ipc[publication.registration_id]
            self._ipc_changed()
        for counter in publication.counters.values():
            self.context.free_counter(counter)
        self.context.logs.free(publication.log)
        if isinstance(publication, NetworkPublication) and publication.endpoint.release():
            self.endpoints.remove(publication.endpoint)

    def _forget_stream(self, publication: NetworkPublication) -> None:
        key = publication.endpoint, publication.stream_id
        same = self._streams.get(key, {})
        if same.get(publication.session_id) is publication:
            del same[publication.session_id]
        if not same:
            self._streams.pop(key, None)

    def publish_errors(self) -> None:
        """Tell clients about a receiver that refused their publication with an ERR frame."""
        for publication, receiver_id, tag, code, text, source in self.context.sender.take_errors():
            host, port = unpack_address(source)
            self.context.transmit(
                OnPublicationError(
                    publication.registration_id,
                    publication.endpoint.destination_at(source),
                    publication.session_id,
                    publication.stream_id,
                    receiver_id,
                    NULL_VALUE if tag is None else tag,
                    ADDRESS_TYPE_IPV6 if ":" in host else ADDRESS_TYPE_IPV4,
                    port,
                    source[8:24] if ":" in host else source[4:8],
                    code,
                    text.decode("ascii", "replace"),
                )
            )

    def close(self) -> None:
        self.endpoints.close()
        for publication in self.all():
            publication.log.close()


PublicationT = TypeVar("PublicationT", NetworkPublication, IpcPublication)


def _shared(same: Iterable[PublicationT], asked: PublicationParameters) -> PublicationT | None:
    """Return the publication of a stream that is shared with one that was asked for."""
    for one in same:
        responds_alike = one.parameters.response_correlation_id == asked.response_correlation_id
        if one.is_active and not one.is_exclusive and responds_alike:
            return one
    return None


def _start_position(parameters: PublicationParameters) -> int:
    if parameters.initial_term_id is None:
        return 0
    terms = (parameters.term_id - parameters.initial_term_id) & 0xFFFFFFFF
    return terms * parameters.term_length + parameters.term_offset
