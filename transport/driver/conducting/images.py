"""Images of a driver: built from SETUP frames, kept while packets arrive, closed in order.

See transport-wire.md §5 and §6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ordo.runtime.errors import RegistrationError
from ordo.runtime.native.counters import Counter
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.security.authentication import KEY_NAME_MARK
from ordo.transport.control.commands import ErrorCode
from ordo.transport.driver.conducting.context import (
    TYPE_CONGESTION,
    TYPE_NAKS_SENT,
    TYPE_RECEIVER_HWM,
    TYPE_RECEIVER_POSITION,
    DriverContext,
    StreamName,
    format_address,
)
from ordo.transport.driver.conducting.log_store import LogPending
from ordo.transport.driver.flow.congestion import ReceiveWindow
from ordo.transport.driver.flow.loss import LossDetector
from ordo.transport.driver.receiving.publication_image import PublicationImage
from ordo.transport.driver.receiving.receive_endpoint import ReceiveEndpoint
from ordo.transport.driver.receiving.receiver import Setup
from ordo.transport.streams.logbuffer import LOG_TYPE_IMAGE, LogBuffers
from ordo.transport.udp import unpack_address

TTL_ASYMMETRY = 21
IMAGES_FULL = 50
COUNTERS_OF_IMAGE = 5  # at most
SETUP_GROUP_FLAG = 0x40
SETUP_SEND_RESPONSE_FLAG = 0x80
SESSION_COOL_DOWN = 3
SETUPS_NS = 200_000
SETUPS_PER_CYCLE_MAX = 16
"""How long a duty cycle builds images, and how many at most; one may take longer."""


def _identity_of(setup: Setup) -> str:
    """Return the source address of a stream; with encryption, the name of its key is appended: 10.0.0.7:4000#desk-7."""
    address = format_address(unpack_address(setup.source))
    name = setup.transport.channel.key_name(setup.source)
    return f"{address}{KEY_NAME_MARK}{name}" if name else address


def _position_of(setup: Setup) -> int:
    """Return where a publisher was when it sent a SETUP."""
    terms: int = (setup.active_term_id - setup.initial_term_id) & 0xFFFFFFFF
    return terms * setup.term_length + int(setup.term_offset)


@dataclass
class AskedImage:
    """An image that a SETUP asks for, with the correlation id that it will have, once its log is asked for."""

    setup: Setup
    correlation_id: int = NULL_VALUE


class Images:
    """All images; `subscriptions` are those that read them."""

    def __init__(self, context: DriverContext, subscriptions: Any) -> None:
        self.context = context
        self.subscriptions = subscriptions
        self.all: dict[int, PublicationImage] = {}
        """The images by correlation id."""
        self._by_endpoint: dict[ReceiveEndpoint, dict[tuple[int, int], list[PublicationImage]]] = {}
        """The images of a socket by session and stream, including those that it does not receive any more."""
        self._awaited: deque[AskedImage] = deque()
        """The images whose logs are being made, in the order in which they were asked for."""
        reserved = context.config.counters_reserved
        self.counters_reserved = (context.counters.max_counter_id + 1) // 4 if reserved is None else reserved

    # --- building -------------------------------------------------------------------------------------------------

    def on_setups(self) -> int:
        """Build the images that SETUP frames asked for, as many as a cycle has time for; return how many it looked at.

        The rest waits for the next cycle.
        """
        clock = self.context.clock
        until_ns = clock.now() + SETUPS_NS
        count = 0
        while count < SETUPS_PER_CYCLE_MAX and (asked := self._take_asked()) is not None:
            self._on_setup(asked)
            count += 1
            if clock.now() >= until_ns:
                break
        return count

    @property
    def has_logs(self) -> bool:
        """Whether an image waits for nothing but its turn."""
        return bool(self._awaited) and not self.context.logs.is_pending(self._log_path(self._awaited[0].correlation_id))

    def _take_asked(self) -> AskedImage | None:
        """Return the next image to build: one whose log is there, else one that was not looked at yet."""
        if self.has_logs:
            return self._awaited.popleft()
        setups = self.context.receiver.take_setups(1)
        return AskedImage(setups[0]) if setups else None

    def _on_setup(self, asked: AskedImage) -> None:
        setup = asked.setup
        is_built = False
        try:
            is_built = self._build(asked)
        except LogPending:
            self._awaited.append(asked)  # its session stays marked as in the making
            return
        except Exception as error:
            self.context.record_error(error)
        if not is_built:
            self.context.logs.drop(self._log_path(asked.correlation_id))
            setup.transport.endpoint.unmark(setup.session_id, setup.stream_id)
            self.context.receiver.release(setup)

    def _build(self, asked: AskedImage) -> bool:
        setup, endpoint = asked.setup, asked.setup.transport.endpoint
        if setup.transport not in endpoint.transports:
            return False  # closed while the log was made
        links = [
            link
            for link in self.subscriptions.links.of_stream(endpoint, setup.stream_id)
            if link.wants_session(setup.session_id)
        ]
        if not links:
            return False
        if self.context.counters.available < self.counters_reserved + COUNTERS_OF_IMAGE + len(links):
            self.context.system.add(IMAGES_FULL)
            return False
        if self._is_full(endpoint, setup.stream_id):
            return False
        parameters = links[0].parameters
        window = min(parameters.window_length, setup.term_length // 2)
        if window < setup.mtu:
            self.context.record_error(
                f"mtuLength={setup.mtu} > initialWindowLength={window}: the sender's mtu is above the receiver's "
                f"window, raise rcv-wnd of {links[0].channel!r}"
            )
            return False
        if asked.correlation_id == NULL_VALUE:
            asked.correlation_id = self.context.next_correlation_id()
        self.context.logs.prepare(
            self._log_path(asked.correlation_id), setup.term_length, parameters.sparse, _position_of(setup)
        )
        self._check_ttl(setup, links[0])
        key = setup.session_id, setup.stream_id
        for older in self._by_endpoint.get(endpoint, {}).get(key, ()):
            older.supersede()
        image = self._create(asked, links, window)
        self.all[image.correlation_id] = image
        self._by_endpoint.setdefault(endpoint, {}).setdefault(key, []).append(image)
        self._tell_state(image, "ACTIVE")
        endpoint.add_image(image, setup.session_id, setup.stream_id)
        self.context.receiver.add_image(image, self.context.clock.now())
        for link in links:
            counter = self.subscriptions.position_counter(link, image, image.join_position)
            self.subscriptions.attach(link, image, counter)
            self.subscriptions.announce(link, image, counter)
        return True

    def _is_full(self, endpoint: ReceiveEndpoint, stream_id: int) -> bool:
        limit = self.context.config.stream_session_limit
        if len(endpoint.images) < limit:
            return False  # without looking at all of them for each SETUP of a flood
        if sum(stream == stream_id for _, stream in endpoint.images) < limit:
            return False
        self.context.record_error(
            f"session limit of {limit} reached, further ones get no image: stream_id={stream_id} "
            f"channel={endpoint.spec.text}; raise stream_session_limit"
        )
        return True

    def _check_ttl(self, setup: Setup, link: Any) -> None:
        own = link.endpoint.spec.uri.integer("ttl", self.context.config.multicast_ttl)
        if setup.transport.is_multicast and setup.ttl > own:
            self.context.system.add(TTL_ASYMMETRY)

    def _log_path(self, correlation_id: int) -> str:
        return f"{self.context.directory}/images/{correlation_id}.logbuffer"

    def _create(self, asked: AskedImage, links: list[Any], window: int) -> PublicationImage:
        context, config = self.context, self.context.config
        setup, correlation_id = asked.setup, asked.correlation_id
        parameters = links[0].parameters
        is_group = self._is_group(setup, parameters)
        log = self._create_log(setup, correlation_id, parameters, window, is_group)
        position = _position_of(setup)
        stream = StreamName(correlation_id, setup.session_id, setup.stream_id, links[0].channel)
        try:
            counters = self._counters(stream, links[0].client_id, position, parameters.is_cubic)
        except BaseException:
            self.context.logs.free(log)
            raise
        image = PublicationImage(
            log=log,
            endpoint=setup.transport.endpoint,
            loss=self._loss(parameters, is_group),
            system=context.system,
            correlation_id=correlation_id,
            source_identity=_identity_of(setup),
            counters=counters,
            join_position=position,
            window=self._window(setup, parameters, window, counters),
            rejoins=parameters.rejoins,
            sm_timeout_ns=config.status_message_timeout_ns,
            liveness_timeout_ns=config.image_liveness_timeout_ns,
            connection_timeout_ns=config.destination_timeout_ns,
            now_ns=context.clock.now(),
        )
        image.loss_record = context.record_loss
        image.channel = links[0].channel
        image.setup = setup
        image.asks_response = bool(setup.flags & SETUP_SEND_RESPONSE_FLAG)
        image.add_connection(setup.transport, setup.source, context.clock.now())
        return image

    def _is_group(self, setup: Setup, parameters: Any) -> bool:
        if parameters.group != "infer":
            return bool(parameters.group == "true")
        return setup.transport.is_multicast or bool(setup.flags & SETUP_GROUP_FLAG)

    def _window(self, setup: Setup, parameters: Any, length: int, counters: dict[str, Counter]) -> ReceiveWindow:
        config = self.context.config
        window = ReceiveWindow(
            length,
            setup.mtu,
            is_cubic=parameters.is_cubic,
            is_tcp_friendly=config.cubic_tcp_friendly,
            measures_rtt=config.cubic_measures_rtt,
            initial_rtt_ns=config.cubic_initial_rtt_ns,
            now_ns=self.context.clock.now(),
        )
        if parameters.is_cubic:
            window.show(counters["rcv-cc-cubic-rtt"], counters["rcv-cc-cubic-wnd"])
        return window

    def _loss(self, parameters: Any, is_group: bool) -> LossDetector:
        config = self.context.config
        return LossDetector(
            is_multicast=is_group,
            is_reliable=parameters.is_reliable,
            delay_ns=parameters.nak_delay_ns,
            retry_delay_ns=parameters.nak_delay_ns * config.nak_unicast_retry_delay_ratio,
            backoff_max_ns=config.nak_multicast_backoff_max_ns,
            group_size=config.nak_multicast_group_size,
            seed=self.context.random.getrandbits(64),
        )

    def _create_log(
        self, setup: Setup, correlation_id: int, parameters: Any, window: int, is_group: bool
    ) -> LogBuffers:
        return self.context.logs.create(
            self._log_path(correlation_id),
            _position_of(setup),
            term_length=setup.term_length,
            mtu=setup.mtu,
            initial_term_id=setup.initial_term_id,
            session_id=setup.session_id,
            stream_id=setup.stream_id,
            correlation_id=correlation_id,
            log_type=LOG_TYPE_IMAGE,
            term_offset=setup.term_offset,
            sparse=parameters.sparse,
            receiver_window_length=window,
            socket_rcvbuf_length=parameters.rcvbuf,
            socket_sndbuf_length=parameters.sndbuf,
            untethered_window_limit_timeout_ns=parameters.untethered_window_limit_timeout_ns,
            untethered_linger_timeout_ns=parameters.untethered_linger_timeout_ns,
            untethered_resting_timeout_ns=parameters.untethered_resting_timeout_ns,
            group=is_group,
            rejoin=parameters.rejoins,
            reliable=parameters.is_reliable,
            tether=parameters.is_tethered,
        )

    def _counters(self, stream: StreamName, client_id: int, position: int, is_cubic: bool) -> dict[str, Counter]:
        """Return the counters of an image, or raise and leave none of them allocated."""
        counters: dict[str, Counter] = {}
        wanted = [
            (TYPE_RECEIVER_HWM, "rcv-hwm", position),
            (TYPE_RECEIVER_POSITION, "rcv-pos", position),
            (TYPE_NAKS_SENT, "rcv-naks-sent", 0),
        ]
        if is_cubic:
            wanted += [(TYPE_CONGESTION, "rcv-cc-cubic-rtt", 0), (TYPE_CONGESTION, "rcv-cc-cubic-wnd", 0)]
        try:
            for type_id, name, value in wanted:
                counters[name] = self.context.stream_counter(type_id, name, stream, owner_id=client_id, value=value)
        except BaseException:
            for counter in counters.values():
                self.context.free_counter(counter)
            raise
        return counters

    # --- life -----------------------------------------------------------------------------------------------------

    def reject(self, correlation_id: int, reason: str) -> None:
        """Refuse an image for a client, and tell the sender why."""
        image = self.all.get(correlation_id)
        if image is None:
            raise RegistrationError(
                f"unknown image correlation_id={correlation_id}: it is gone already", code=ErrorCode.GENERIC_ERROR
            )
        image.reject(reason.encode("ascii", "replace"))
        self.context.record_error(
            f"image rejected: session_id={image.session_id} stream_id={image.stream_id} "
            f"source={image.source_identity}: {reason}"
        )

    def of_endpoint(self, endpoint: ReceiveEndpoint) -> list[PublicationImage]:
        """Return all images of a socket."""
        return [image for images in self._by_endpoint.get(endpoint, {}).values() for image in images]

    def timer_steps(self, now_ns: int, epoch_ms: int) -> Iterator[None]:
        """Advance the lifetime of every image, one a step, and free those that are finished."""
        for correlation_id, image in list(self.all.items()):
            if correlation_id in self.all:  # an endpoint that closed since then has freed its own
                self._advance(image, now_ns, epoch_ms)
                yield

    def _advance(self, image: PublicationImage, now_ns: int, epoch_ms: int) -> None:
        self.context.check_shortage(image.log)
        was_active = image.is_active
        entered = image.on_time_event(now_ns, epoch_ms)
        if entered is not None:
            self._tell_state(image, entered)
        if was_active and entered == "DRAINING":
            self._cool_down(image)
        elif entered == "LINGER":
            self._linger(image)
        elif entered == "DONE":
            self._free(image)

    def _tell_state(self, image: PublicationImage, state: str) -> None:
        self.context.tell_state("image", image.correlation_id, image.log, f"source={image.source_identity} {state}")

    def _cool_down(self, image: PublicationImage) -> None:
        """Ignore a stream that just stopped until its readers have released its old image."""
        if not image.ended_orderly and not image.is_superseded:
            image.endpoint.remove_image(image, image.session_id, image.stream_id)
            image.endpoint.mark(image.session_id, image.stream_id, SESSION_COOL_DOWN)

    def _linger(self, image: PublicationImage) -> None:
        for link in self.subscriptions.links.readers_of(image):
            self.subscriptions.announce_unavailable(link, image)
        image.endpoint.remove_image(image, image.session_id, image.stream_id)
        if image.rejoins and not image.is_superseded:
            image.endpoint.unmark(image.session_id, image.stream_id)

    def _free(self, image: PublicationImage) -> None:
        for link in self.subscriptions.links.readers_of(image):
            self.subscriptions.detach(link, image)
        self._forget(image)
        self.context.receiver.remove_image(image)
        image.endpoint.remove_image(image, image.session_id, image.stream_id)
        for counter in image.counters.values():
            self.context.free_counter(counter)
        self.context.logs.free(image.log)
        self.context.receiver.release(image.setup, image.is_confirmed)

    def _forget(self, image: PublicationImage) -> None:
        del self.all[image.correlation_id]
        images = self._by_endpoint[image.endpoint]
        same = images[image.session_id, image.stream_id]
        same.remove(image)
        if not same:
            del images[image.session_id, image.stream_id]
        if not images:
            del self._by_endpoint[image.endpoint]

    def on_endpoint_closing(self, endpoint: ReceiveEndpoint) -> None:
        """End the images of an endpoint whose socket is about to close, and tell their senders at once."""
        now_ns = self.context.clock.now()
        for image in self.of_endpoint(endpoint):
            image.end_now(now_ns)
            self._free(image)

    def close(self) -> None:
        """Tell every sender that this receiver is leaving, and free the logs."""
        now_ns = self.context.clock.now()
        for image in self.all.values():
            image.end_now(now_ns)
            image.log.close()
