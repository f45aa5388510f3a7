"""The transport client: publications, subscriptions and counters of one media driver.

A client belongs to one thread. Blocking calls wait for the driver's answer; with an `invoker` (the driver runs in this
thread) they run it until the answer is there. Callbacks are called from `do_work` only, and may use the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ordo.runtime.agents.use import Origin, watch
from ordo.runtime.closing import Closing
from ordo.runtime.errors import (
    Category,
    ClientTimeoutError,
    DriverTimeoutError,
    OrdoError,
    PublicationError,
    RegistrationError,
    TransportError,
)
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.counters import Counter, CountersReader
from ordo.runtime.native.memory import MemoryProvider
from ordo.transport.client import local_addresses
from ordo.transport.client.callback_queue import CallbackQueue
from ordo.transport.client.client_core import ClientCore, ClientCounter, make_client_counter
from ordo.transport.client.client_registry import LogCache, Pending, Resources
from ordo.transport.client.destination_calls import DestinationCalls
from ordo.transport.client.driver_link import DriverLink
from ordo.transport.client.heartbeat import ClientHeartbeat
from ordo.transport.control import commands
from ordo.transport.streams.image import Image
from ordo.transport.streams.publication import ExclusivePublication, Publication
from ordo.transport.streams.subscription import Subscription

DRIVER_TIMEOUT_NS: Final = 10_000_000_000
KEEPALIVE_INTERVAL_NS: Final = 500_000_000
RESOURCE_LINGER_NS: Final = 3_000_000_000
RESPONSES_PER_CYCLE_MAX: Final = 64

ImageHandler = Callable[[Image], object]
CounterHandler = Callable[[int, int], object]
"""A handler that is given registration id and counter id."""


class TransportClient(ClientCore, DestinationCalls, Closing):
    """A client of the driver in `directory`.

    `invoker()` runs one duty cycle of a driver in this thread. `error_handler(error)` hears what happens outside calls:
    without one `do_work` raises it. `name` is seen in the label of the client's heartbeat counter. Counters of all
    clients of the driver are told to `on_available_counter` and `on_unavailable_counter`; what the latter gets may
    be read for a second more. Raises DriverTimeoutError when no live driver shows up within `driver_timeout_ns`.
    """

    def __init__(
        self,
        directory: str,
        *,
        clock: Clock,
        memory: MemoryProvider,
        invoker: Callable[[], object] | None = None,
        name: str = "",
        error_handler: Callable[[OrdoError], object] | None = None,
        on_available_counter: CounterHandler | None = None,
        on_unavailable_counter: CounterHandler | None = None,
        driver_timeout_ns: int = DRIVER_TIMEOUT_NS,
        keepalive_interval_ns: int = KEEPALIVE_INTERVAL_NS,
        resource_linger_ns: int = RESOURCE_LINGER_NS,
    ) -> None:
        self.directory = directory
        self.name = name
        self._resource_linger_ns = resource_linger_ns
        self._clock = clock
        self._error_handler = error_handler
        self._resources = Resources()
        self._logs = LogCache(memory)
        self._pending: dict[int, Pending] = {}
        self._on_available_counter = on_available_counter
        self._on_unavailable_counter = on_unavailable_counter
        self._callbacks = CallbackQueue()
        self._closed_because: str | None = None
        self.origin = Origin(name or "transport client")
        self._link = DriverLink(directory, clock=clock, memory=memory, invoker=invoker, timeout_ns=driver_timeout_ns)
        self.counters: CountersReader = self._link.counters
        self.client_id: int = self._link.ring.next_correlation_id()
        self._heartbeat = ClientHeartbeat(self._link, self.client_id, name, keepalive_interval_ns)
        self._attach(self._link.receiver, self._link.open_waker())
        watch(self)

    # --- adding -------------------------------------------------------------------------------------------------------

    def add_publication(self, channel: str, stream_id: int) -> Publication:
        """Add a publication that may share its log with others of the same channel and stream.

        Raises RegistrationError when the driver refuses, DriverTimeoutError when it does not answer.
        """
        publication: Publication = self._await(self.async_add_publication(channel, stream_id))
        return publication

    def add_exclusive_publication(self, channel: str, stream_id: int) -> ExclusivePublication:
        """Add a publication with a log and session of its own. Raises as `add_publication`."""
        publication: ExclusivePublication = self._await(self.async_add_exclusive_publication(channel, stream_id))
        return publication

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_available_image: ImageHandler | None = None,
        on_unavailable_image: ImageHandler | None = None,
    ) -> Subscription:
        """Return a subscription; its images come and go in `do_work`. Raises as `add_publication`."""
        subscription: Subscription = self._await(
            self.async_add_subscription(
                channel, stream_id, on_available_image=on_available_image, on_unavailable_image=on_unavailable_image
            )
        )
        return subscription

    def add_counter(self, type_id: int, label: str, key: bytes = b"") -> ClientCounter:
        """Return a counter that this client owns; `type_id` of applications is 1000 or more.

        Raises as `add_publication`.
        """
        counter: ClientCounter = self._await(self.async_add_counter(type_id, label, key))
        return counter

    def add_static_counter(self, type_id: int, label: str, key: bytes = b"", *, registration_id: int) -> Counter:
        """Return a counter that stays until the driver ends, even after this client has ended.

        A second call with the type and registration id gets the same one. Raises RegistrationError where another
        client owns such a counter.
        """
        correlation_id = self.next_correlation_id()
        command = commands.AddStaticCounter(self.client_id, correlation_id, registration_id, type_id, key, label)

        def complete(answer: commands.OnStaticCounter) -> Counter:
            return self.counters.counter(answer.counter_id)

        counter: Counter = self._await(self._register(command, f"static counter {label!r}", complete))
        return counter

    def async_add_publication(self, channel: str, stream_id: int) -> int:
        """Send the command; `get` of the returned registration id gives the publication."""
        registration_id = self.next_correlation_id()
        command = commands.AddPublication(self.client_id, registration_id, stream_id, channel)
        return self._register(
            command,
            f"publication of {channel} stream {stream_id}",
            lambda answer: self._on_publication(channel, answer),
        )

    def async_add_exclusive_publication(self, channel: str, stream_id: int) -> int:
        """Add an ExclusivePublication like `async_add_publication`."""
        registration_id = self.next_correlation_id()
        command = commands.AddExclusivePublication(self.client_id, registration_id, stream_id, channel)
        return self._register(
            command,
            f"exclusive publication of {channel} stream {stream_id}",
            lambda answer: self._on_publication(channel, answer),
        )

    def async_add_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_available_image: ImageHandler | None = None,
        on_unavailable_image: ImageHandler | None = None,
    ) -> int:
        """Send the command; `get` of the returned registration id gives the subscription."""
        registration_id = self.next_correlation_id()
        command = commands.AddSubscription(self.client_id, registration_id, commands.NULL_ID, stream_id, channel)

        def complete(answer: commands.OnSubscriptionReady) -> Subscription:
            subscription = Subscription(
                channel,
                stream_id,
                registration_id,
                channel_status_id=answer.channel_status_counter_id,
                on_available_image=on_available_image,
                on_unavailable_image=on_unavailable_image,
                client=self,
            )
            self._resources.subscriptions[registration_id] = subscription
            return subscription

        return self._register(command, f"subscription of {channel} stream {stream_id}", complete)

    def async_add_counter(self, type_id: int, label: str, key: bytes = b"") -> int:
        """Send the command; `get` of the returned registration id gives the counter."""
        registration_id = self.next_correlation_id()
        command = commands.AddCounter(self.client_id, registration_id, type_id, key, label)

        def complete(answer: commands.OnCounterReady) -> ClientCounter:
            counter = make_client_counter(self.counters, answer.counter_id, registration_id, self)
            self._resources.counters[registration_id] = counter
            return counter

        return self._register(command, f"counter {label!r}", complete)

    def get(self, registration_id: int) -> Any:
        """Return, once, the resource that an `async_add_*` asked for, or None while it does not exist.

        Raises RegistrationError when the driver refused, DriverTimeoutError when it did not answer in time,
        TransportError for an id that is not pending.
        """
        pending = self._pending.get(registration_id)
        if pending is None:
            raise TransportError(
                f"registration_id={registration_id} is not pending: it was taken already, or never added"
            )
        if not pending.is_done:
            self._receive_responses()
        if not pending.is_done and self._clock.now() < pending.deadline_ns:
            return None
        del self._pending[registration_id]
        if pending.error is not None:
            raise pending.error
        if pending.resource is None:
            raise self._no_answer(pending)
        return pending.resource

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed_because is not None

    @property
    def epoch_ms(self) -> int:
        """The wall clock's time now, in milliseconds."""
        return self._clock.epoch_ms()

    @property
    def client_liveness_timeout_ns(self) -> int:
        """The silence (ns) after which the driver takes a client for dead, and frees what it had."""
        return int(self._link.cnc.client_liveness_timeout_ns)

    @property
    def role_name(self) -> str:
        return f"transport-client {self.name}".rstrip()

    def next_correlation_id(self) -> int:
        """Return an id that is unique for the life of the driver."""
        self.check_open()
        return int(self._link.ring.next_correlation_id())

    def next_available_session_id(self, stream_id: int) -> int:
        """Return a session id that no publication of the stream uses now; it is not reserved."""
        correlation_id = self.next_correlation_id()
        command = commands.GetNextAvailableSessionId(self.client_id, correlation_id, stream_id)
        return int(self._await(self._register(command, f"session id of stream {stream_id}", lambda a: a)).session_id)

    def local_socket_addresses(self, channel_status_id: int) -> list[str]:
        """Return `host:port` of each socket bound for a channel, given its status counter.

        Empty until the channel is active.
        """
        return local_addresses.local_socket_addresses(self.counters, channel_status_id)

    def first_local_socket_address(self, channel_status_id: int) -> str | None:
        """Return the first of `local_socket_addresses`, found without describing every counter; None until bound."""
        return local_addresses.first_local_socket_address(self.counters, channel_status_id)

    def reject_image(self, image: Image, reason: str) -> None:
        """Ask the driver to drop an image and to tell its publisher.

        Raises TransportError for a reason that is too long, or not ASCII.
        """
        if len(reason) > commands.REASON_LENGTH_MAX or not reason.isascii():
            raise TransportError(
                f"a reason of {len(reason)} characters to reject an image: up to {commands.REASON_LENGTH_MAX} are "
                "allowed, of ASCII"
            )
        correlation_id = self.next_correlation_id()
        command = commands.RejectImage(self.client_id, correlation_id, image.correlation_id, image.position, reason)
        self._await(self._register(command, f"rejection of image {image.correlation_id}", lambda _: True))

    # --- duty cycle ---------------------------------------------------------------------------------------------------

    def invoke(self) -> int:
        """Run one duty cycle of the driver, if it is in this thread, and one of the client."""
        if self._link.invoker is not None:
            self._link.invoker()
        return int(self.do_work(self._clock.now()))

    def invoke_driver(self) -> None:
        """Run one duty cycle of a driver that lives in this thread, so that it responds. Calls no handler."""
        if self._link.invoker is not None:
            self._link.invoker()

    def idle(self) -> None:
        """Run the driver if it is in this thread; otherwise yield the core for a moment."""
        self._link.idle()

    def _service(self, now_ns: int) -> int:
        work_count = self._receive_responses()
        if now_ns >= self._heartbeat.next_ns:
            self._do_chores(now_ns)
        return work_count + self._run_callbacks()

    def demand_driver(self) -> None:
        """Raise DriverTimeoutError if the driver is gone, which the client finds out by itself twice a second."""
        fault = self._link.fault()
        if fault is not None:
            raise fault

    def _receive_responses(self) -> int:
        """Process the driver's responses; callbacks are queued."""
        count = 0
        while count < RESPONSES_PER_CYCLE_MAX and not self.is_closed:
            message = self._link.receiver.receive()
            if self._link.receiver.lapped_count:
                self._fail(
                    TransportError(f"{self.role_name} could not keep up with the driver", category=Category.FATAL)
                )
                break
            if message is None:
                break
            count += 1
            self._on_response(commands.decode_response(*message))
        return count

    def _run_callbacks(self) -> int:
        try:
            return self._callbacks.run()
        finally:
            self._set_pending_callbacks(len(self._callbacks) > 0)

    def _queue_callback(self, handler: Callable[..., object] | None, *arguments: object) -> None:
        if handler is not None:
            self._callbacks.add(handler, *arguments)
            self._set_pending_callbacks(True)

    def _do_chores(self, now_ns: int) -> None:
        """Send keepalives, unmap lingering logs and serve the waker, once per keepalive interval."""
        self._show_life(now_ns)
        if self.is_closed:
            return
        self._logs.unmap_due(now_ns)
        if self.waker is None:
            self._set_waker(self._link.open_waker())

    def _show_life(self, now_ns: int) -> None:
        """Send the keepalive; close this client if it is late, or if the driver is gone."""
        error = self._heartbeat.beat(now_ns)
        self._set_next_chore(self._heartbeat.next_ns)
        if error is not None:
            self._fail(error)

    # --- responses ----------------------------------------------------------------------------------------------------

    def _on_response(self, response: commands.Response | None) -> None:
        if isinstance(response, commands.OnAvailableImage):
            self._on_available_image(response)
        elif isinstance(response, commands.OnUnavailableImage):
            self._on_unavailable_image(response)
        elif isinstance(response, commands.OnError):
            self._on_error(response)
        elif isinstance(response, commands.OnClientTimeout):
            if response.client_id == self.client_id:
                self._fail(ClientTimeoutError(f"{self.role_name} was given up by the driver: its heartbeat was late"))
        elif isinstance(response, commands.OnPublicationError):
            self._on_publication_error(response)
        elif isinstance(response, commands.OnUnavailableCounter):
            counter = self._resources.counters.pop(response.registration_id, None)
            if counter is not None:
                counter.force_close()
            self._queue_callback(self._on_unavailable_counter, response.registration_id, response.counter_id)
        elif response is not None:
            self._on_answer(response)

    def _on_answer(self, answer: commands.Answer) -> None:
        if isinstance(answer, commands.OnCounterReady):
            self._queue_callback(self._on_available_counter, answer.correlation_id, answer.counter_id)
        pending = self._pending.get(answer.correlation_id)
        if pending is None or pending.is_done:
            return
        try:
            pending.resource = pending.complete(answer)
        except OrdoError as error:
            pending.error = error

    def _on_publication(
        self, channel: str, answer: commands.OnPublicationReady | commands.OnExclusivePublicationReady
    ) -> Publication:
        is_exclusive = isinstance(answer, commands.OnExclusivePublicationReady)
        publication = (ExclusivePublication if is_exclusive else Publication)(
            self._logs.acquire(answer.log_file),
            self.counters.counter(answer.limit_counter_id),
            channel=channel,
            registration_id=answer.correlation_id,
            original_registration_id=answer.registration_id,
            channel_status_id=answer.channel_status_counter_id,
            client=self,
            waker=self.waker,
        )
        self._resources.publications[answer.correlation_id] = publication
        return publication

    def _on_available_image(self, response: commands.OnAvailableImage) -> None:
        subscription = self._resources.subscriptions.get(response.subscription_registration_id)
        if subscription is None:
            return
        try:
            log = self._logs.acquire(response.log_file)
        except OrdoError as error:
            self._report(error)
            return
        image = Image(
            log,
            self.counters.counter(response.subscriber_position_counter_id),
            correlation_id=response.correlation_id,
            source_identity=response.source_identity,
            subscription=subscription,
        )
        subscription.add_image(image)
        self._queue_callback(subscription.on_available_image, image)

    def _on_unavailable_image(self, response: commands.OnUnavailableImage) -> None:
        subscription = self._resources.subscriptions.get(response.subscription_registration_id)
        image = subscription.remove_image(response.correlation_id) if subscription is not None else None
        if image is not None and subscription is not None:
            self._release_log(image)
            self._queue_callback(subscription.on_unavailable_image, image)

    def _on_error(self, response: commands.OnError) -> None:
        if response.error_code == commands.ErrorCode.CHANNEL_ENDPOINT_ERROR:
            self._on_channel_error(response)
            return
        pending = self._pending.get(response.offending_correlation_id)
        if pending is not None and not pending.is_done:
            pending.error = RegistrationError(
                f"{pending.what} was refused: {_error_name(response.error_code)}: {response.message}",
                code=response.error_code,
            )

    def _on_channel_error(self, response: commands.OnError) -> None:
        """Fail every resource of a channel; the id in the response is that of the channel's status counter."""
        status_id = response.offending_correlation_id
        users: list[Publication | Subscription] = [
            *self._resources.publications.values(),
            *self._resources.subscriptions.values(),
        ]
        for resource in users:
            if resource.channel_status_id == status_id:
                self._report(
                    RegistrationError(
                        f"channel {resource.channel!r} failed: {response.message}", code=response.error_code
                    )
                )

    def _on_publication_error(self, response: commands.OnPublicationError) -> None:
        if any(
            publication.original_registration_id == response.registration_id
            for publication in self._resources.publications.values()
        ):
            self._report(
                PublicationError(
                    f"a receiver of stream {response.stream_id} session {response.session_id} refused it: "
                    f"{_error_name(response.error_code)}: {response.message}",
                    category=Category.WARN,
                )
            )

    # --- closing ------------------------------------------------------------------------------------------------------

    def on_publication_closed(self, publication: Publication, revoked: bool) -> None:
        """Tell the driver that a publication was closed; called by its `close` or `revoke`."""
        if self._resources.publications.pop(publication.registration_id, None) is None or self.is_closed:
            return
        flags = commands.REVOKE_FLAG if revoked else 0
        self._send(
            commands.RemovePublication(self.client_id, self.next_correlation_id(), publication.registration_id, flags)
        )
        self._release_log(publication)

    def on_subscription_closed(self, subscription: Subscription) -> None:
        """Tell the driver that a subscription was closed; called by its `close`."""
        if self._resources.subscriptions.pop(subscription.registration_id, None) is None or self.is_closed:
            return
        self._send(
            commands.RemoveSubscription(self.client_id, self.next_correlation_id(), subscription.registration_id)
        )
        for image in subscription.force_close():
            self._release_log(image)
            self._queue_callback(subscription.on_unavailable_image, image)

    def on_counter_closed(self, counter: ClientCounter) -> None:
        """Tell the driver that a counter was closed; called by its `close`."""
        if self._resources.counters.pop(counter.registration_id, None) is not None and not self.is_closed:
            self._send(commands.RemoveCounter(self.client_id, self.next_correlation_id(), counter.registration_id))

    def close(self) -> None:
        """Close everything that was added, and say goodbye to the driver. Idempotent."""
        if self.is_closed:
            return
        goodbye = commands.ClientClose(self.client_id, commands.NULL_ID)
        self._link.ring.write(commands.type_id_of(goodbye), commands.encode(goodbye))
        self.wake_driver()
        self._force_close("it was closed")

    def on_close(self) -> None:
        self.close()

    def _force_close(self, because: str) -> None:
        self._closed_because = because
        for publication in self._resources.publications.values():
            publication.force_close()
        for subscription in self._resources.subscriptions.values():
            subscription.force_close()
        for counter in self._resources.counters.values():
            counter.force_close()
        self._resources = Resources()
        self._callbacks.clear()
        self._logs.close()
        self._attach(None, None)
        self._link.close()

    def _fail(self, error: OrdoError) -> None:
        """Close everything without telling the driver, and report why this client ended."""
        self._force_close(error.message)
        for pending in self._pending.values():
            pending.error = pending.error or error
        self._report(error)

    def _report(self, error: OrdoError) -> None:
        if self._error_handler is None:
            raise error
        self._error_handler(error)

    def _release_log(self, user: Publication | Image) -> None:
        self._logs.release(user.log_buffers, self._clock.now() + self._resource_linger_ns)

    # --- commands -----------------------------------------------------------------------------------------------------

    def _register(self, command: commands.Command, what: str, complete: Callable[[Any], Any]) -> int:
        registration_id = command.correlation_id
        self._pending[registration_id] = Pending(what, self._clock.now() + self._link.timeout_ns, complete)
        try:
            self._send(command)
        except BaseException:
            del self._pending[registration_id]
            raise
        return registration_id

    def _send(self, command: commands.Command) -> None:
        self.check_open()
        self._link.send(command, self.wake_driver)

    def _await(self, registration_id: int) -> Any:
        """Return the resource of a pending command when it exists.

        Runs or waits for the driver, and keeps this client alive meanwhile.
        """
        pending = self._pending[registration_id]
        for _ in self._link.attempts(pending.deadline_ns):
            self._receive_responses()
            if pending.is_done:
                return self.get(registration_id)
            now_ns = self._clock.now()
            if now_ns >= self._heartbeat.next_ns:
                self._show_life(now_ns)  # and no log is unmapped: a handler that waits may be reading it
        self._pending.pop(registration_id, None)
        raise self._no_answer(pending)

    def _no_answer(self, pending: Pending) -> DriverTimeoutError:
        return DriverTimeoutError(f"{pending.what}: the driver in {self.directory!r} gave no answer in time")

    def on_forked(self) -> None:
        """Let go of everything in a process forked from this client's; the parent's resources stay."""
        for publication in self._resources.publications.values():
            publication.force_close()
        for subscription in self._resources.subscriptions.values():
            subscription.force_close()
        for counter in self._resources.counters.values():
            counter.force_close()
        self._closed_because = f"it belongs to process {self.origin.pid}"
        self._attach(None, None)

    def _rest(self) -> int:
        return self.origin.check()

    def check_open(self) -> None:
        """Raise TransportError, with the reason, if this client can no longer be used."""
        self.origin.check()
        if self._closed_because is not None:
            raise TransportError(f"{self.role_name} cannot be used any more: {self._closed_because}")


def _error_name(code: int) -> str:
    try:
        return commands.ErrorCode(code).name
    except ValueError:
        return f"error {code}"
