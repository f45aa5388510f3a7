"""The conductor of a driver: commands of clients, timers, images to build (cnc-and-driver-protocol.md §6-§8)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from ordo.runtime.errors import (
    DecodeError,
    OrdoError,
    RegistrationError,
    TransportError,
)
from ordo.transport.control import commands
from ordo.transport.control.commands import ErrorCode, OnError, OnNextAvailableSessionId, OnOperationSuccess
from ordo.transport.driver.channels.channel import ResolutionPending, refuse_unsupported
from ordo.transport.driver.channels.gossip import Gossip, GossipCounters
from ordo.transport.driver.channels.settings import socket_names
from ordo.transport.driver.conducting.clients import Clients
from ordo.transport.driver.conducting.context import (
    TYPE_RESOLVER_CACHE,
    TYPE_RESOLVER_NEIGHBOURS,
    DriverContext,
    format_address,
)
from ordo.transport.driver.conducting.held_commands import AddsPublication, HeldCommands
from ordo.transport.driver.conducting.log_store import LogPending
from ordo.transport.driver.conducting.publications import Publications
from ordo.transport.driver.conducting.refusals import error_code, log_entry, reason
from ordo.transport.driver.conducting.responses import Responses
from ordo.transport.driver.conducting.subscriptions import Subscriptions
from ordo.transport.driver.frames.event_log import COMMAND
from ordo.transport.uri import ChannelUri

INVALID_PACKETS: Final = 14
UNBLOCKED_COMMANDS: Final = 20
WAITING_MAX: Final = 256
HELD_NS: Final = 200_000
"""So long a duty cycle executes commands whose logs are there."""
TIMERS_NS: Final = 200_000
"""So long a duty cycle looks after the lifetimes of streams."""
_NO_CORRELATION_ID: Final = 0

BOUNDS_OF_SETUPS: Final = {
    48: ("image_term_length_max",),
    49: ("images_per_source_max", "image_memory_per_source_max"),
    50: ("images_max", "image_memory_max", "counters_reserved"),
}
"""The counters (frames.pxd) of set-ups that were refused, and the settings that bound them."""


class Conductor:
    """The owner of clients, publications and subscriptions.

    `on_terminate` is called when a client may and does end the driver.

    `ipc_changed` is called when the set of IPC publications changes.
    """

    def __init__(
        self, context: DriverContext, ipc_changed: Callable[[], object], on_terminate: Callable[[], object]
    ) -> None:
        self.context = context
        self.clients = Clients(context)
        self.publications = Publications(context, ipc_changed)
        self.subscriptions = Subscriptions(context, self.publications)
        self.responses = Responses(self.subscriptions)
        self._on_terminate = on_terminate
        self._start_gossip()
        self.waiting: list[commands.Command] = []
        """The commands that wait for a name."""
        self.held = HeldCommands()
        """The commands that wait for a log, and those of the same clients behind them."""
        self.has_held_left = False
        """Whether commands whose logs may be there wait for the next cycles."""
        self._timers: Iterator[None] = iter(())
        self.has_timers_left = False
        """Whether streams wait for the next cycles to have their timers looked at."""
        self.owes_others = False
        """Whether commands took a whole cycle, so that images and timers come first in the next."""
        self._reresolve_ns = 0
        self._blocked_head = -1
        self._blocked_ns = 0
        self._reported: set[int] = set()
        self._handlers: dict[type, Callable[[Any], None]] = {
            commands.AddPublication: lambda c: self._add_publication(c, exclusive=False),
            commands.AddExclusivePublication: lambda c: self._add_publication(c, exclusive=True),
            commands.RemovePublication: self._remove_publication,
            commands.AddSubscription: self._add_subscription,
            commands.RemoveSubscription: self._remove_subscription,
            commands.ClientKeepalive: lambda c: self.clients.keepalive(c.client_id),
            commands.AddDestination: self._add_destination,
            commands.RemoveDestination: self._remove_destination,
            commands.RemoveDestinationById: self._remove_destination_by_id,
            commands.AddReceiveDestination: self._add_receive_destination,
            commands.RemoveReceiveDestination: self._remove_receive_destination,
            commands.AddCounter: self._add_counter,
            commands.AddStaticCounter: self._add_static_counter,
            commands.RemoveCounter: self._remove_counter,
            commands.ClientClose: lambda c: self.clients.close(c.client_id),
            commands.TerminateDriver: self._terminate,
            commands.RejectImage: self._reject_image,
            commands.GetNextAvailableSessionId: self._next_session_id,
        }

    # --- commands -------------------------------------------------------------------------------------------------

    def on_command(self, type_id: int, payload: bytes) -> None:
        """Execute one record of the command ring.

        Whatever is wrong with it becomes an error response, never an exception.
        """
        self.context.events.record(COMMAND, type_id, payload)
        try:
            command = commands.decode_command(type_id, payload)
        except DecodeError as error:
            self._refuse(_NO_CORRELATION_ID, ErrorCode.MALFORMED_COMMAND, error)
            return
        if command is None:
            unknown = TransportError(f"unknown command type_id={type_id}: a newer client, or not one of ours")
            self._refuse(_NO_CORRELATION_ID, ErrorCode.UNKNOWN_COMMAND_TYPE_ID, unknown)
            return
        self._take(command)

    def _take(self, command: commands.Command) -> None:
        """Execute a command, or hold it behind those of its client that wait for a log."""
        if self.held.must_hold(command):
            self.held.append(command)
            self._prepare(command)
        elif not self._execute(command):
            self.held.append(command)

    def _execute(self, command: commands.Command) -> bool:
        """Execute a command; return False if it waits for a log."""
        try:
            self._handlers[type(command)](command)
        except LogPending:
            return False
        except ResolutionPending as error:
            if len(self.waiting) < WAITING_MAX:
                self.waiting.append(command)
                return True
            refusal = TransportError(f"{error}, and {WAITING_MAX} commands wait for names already; try again")
            self._refuse(command.correlation_id, ErrorCode.GENERIC_ERROR, refusal)
        except Exception as error:
            self._refuse(command.correlation_id, error_code(error), error, getattr(command, "channel", ""))
        self._forget(command)
        return True

    def _forget(self, command: commands.Command) -> None:
        """Let go of the log that was made for a command, where it was refused or shares another one."""
        if isinstance(command, AddsPublication):
            self.publications.forget(command.correlation_id)

    def retry(self) -> int:
        """Retry the commands that wait for a name, in order; return how many do not any more."""
        waiting, self.waiting = self.waiting, []
        for command in waiting:
            self._take(command)
        return len(waiting) - len(self.waiting)

    def resume(self) -> int:
        """Execute held commands whose logs are there, as many as a cycle has time for; return how many it did."""
        self.context.logs.collect()
        until_ns = self.context.clock.now() + HELD_NS
        count = 0
        self.has_held_left = True  # also where an answer cannot be given: those behind it have their turn next
        for client_id in self.held.clients():
            while (command := self.held.first(client_id)) is not None and self._is_prepared(command):
                if self.context.clock.now() >= until_ns:
                    return count
                if not self._execute_held(command):
                    break
                count += 1
        self.has_held_left = False
        return count

    def _execute_held(self, command: commands.Command) -> bool:
        """Execute the first command of a client that is held; return False if it waits for a log still."""
        is_executed = True
        try:
            is_executed = self._execute(command)
        finally:
            if is_executed:
                self.held.remove_first(command.client_id)
        return is_executed

    def _is_prepared(self, command: commands.Command) -> bool:
        return not isinstance(command, AddsPublication) or self.publications.is_prepared(command.correlation_id)

    def _prepare(self, command: commands.Command) -> None:
        """Have the log made that a command will need, before its turn comes; what is wrong with it is told then."""
        if isinstance(command, AddsPublication):
            is_exclusive = isinstance(command, commands.AddExclusivePublication)
            with suppress(OrdoError):
                uri = ChannelUri.parse(command.channel).check_publication()
                self.publications.prepare(command.correlation_id, command.stream_id, uri, is_exclusive)

    def _refuse(self, correlation_id: int, code: ErrorCode, error: Exception, channel: str = "") -> None:
        text = reason(error, channel)
        self.context.record_error(error, log_entry(error, code, text))
        self.context.transmit(OnError(correlation_id, code, text))

    def _succeed(self, command: commands.Command) -> None:
        self.context.transmit(OnOperationSuccess(command.correlation_id))

    def _add_publication(
        self, command: commands.AddPublication | commands.AddExclusivePublication, exclusive: bool
    ) -> None:
        self.clients.ensure(command.client_id)
        uri = ChannelUri.parse(command.channel).check_publication()
        refuse_unsupported(uri)
        self.responses.check(uri)
        publication = self.publications.add(
            command.client_id, command.correlation_id, command.stream_id, uri, exclusive
        )
        self.responses.on_publication(publication)
        self.subscriptions.on_publication(publication)

    def _remove_publication(self, command: commands.RemovePublication) -> None:
        self.publications.remove(command.registration_id, bool(command.flags & commands.REVOKE_FLAG))
        self._succeed(command)

    def _add_subscription(self, command: commands.AddSubscription) -> None:
        self.clients.ensure(command.client_id)
        self.subscriptions.add(command.client_id, command.correlation_id, command.stream_id, command.channel)

    def _remove_subscription(self, command: commands.RemoveSubscription) -> None:
        self.subscriptions.remove(command.registration_id)
        self._succeed(command)

    def _add_destination(self, command: commands.AddDestination) -> None:
        self.publications.add_destination(command.registration_id, command.correlation_id, command.channel)
        self._succeed(command)

    def _remove_destination(self, command: commands.RemoveDestination) -> None:
        self.publications.remove_destination(command.registration_id, command.channel)
        self._succeed(command)

    def _remove_destination_by_id(self, command: commands.RemoveDestinationById) -> None:
        owner_id, destination_id = command.resource_registration_id, command.destination_registration_id
        if self.subscriptions.has(owner_id):
            self.subscriptions.remove_destination_by_id(owner_id, destination_id)
        else:
            self.publications.remove_destination_by_id(owner_id, destination_id)
        self._succeed(command)

    def _add_receive_destination(self, command: commands.AddReceiveDestination) -> None:
        self.subscriptions.add_destination(command.registration_id, command.correlation_id, command.channel)
        self._succeed(command)

    def _remove_receive_destination(self, command: commands.RemoveReceiveDestination) -> None:
        self.subscriptions.remove_destination(command.registration_id, command.channel)
        self._succeed(command)

    def _add_counter(self, command: commands.AddCounter) -> None:
        self.clients.ensure(command.client_id)
        self.clients.add_counter(command.client_id, command.correlation_id, command.type_id, command.key, command.label)

    def _add_static_counter(self, command: commands.AddStaticCounter) -> None:
        self.clients.ensure(command.client_id)
        self.clients.add_static_counter(
            command.correlation_id, command.registration_id, command.type_id, command.key, command.label
        )

    def _remove_counter(self, command: commands.RemoveCounter) -> None:
        link = self.clients.remove_counter(command.registration_id)
        self._succeed(command)
        self.clients.free_counter_link(link)

    def _reject_image(self, command: commands.RejectImage) -> None:
        if len(command.reason) > commands.REASON_LENGTH_MAX:
            raise RegistrationError(
                f"a reason of {len(command.reason)} characters to reject an image: up to {commands.REASON_LENGTH_MAX} "
                "are allowed",
                code=ErrorCode.GENERIC_ERROR,
            )
        if command.image_correlation_id in self.publications.network:
            raise RegistrationError(
                f"spies cannot reject an image: correlation_id={command.image_correlation_id} is a publication of this "
                "driver, which its owner may close or revoke",
                code=ErrorCode.GENERIC_ERROR,
            )
        publication = self.publications.ipc.get(command.image_correlation_id)
        if publication is None:
            self.subscriptions.images.reject(command.image_correlation_id, command.reason)
        else:
            self.publications.reject_ipc(publication, command.reason)
            self.subscriptions.on_publication_rejected(publication)
        self._succeed(command)

    def _next_session_id(self, command: commands.GetNextAvailableSessionId) -> None:
        used = self.publications.session_ids(command.stream_id)
        session_id = self.publications.next_session_id(used)
        self.context.transmit(OnNextAvailableSessionId(command.correlation_id, session_id))

    def _terminate(self, command: commands.TerminateDriver) -> None:
        config = self.context.config
        if not config.termination_allowed:
            self.context.record_error(f"client_id={command.client_id} asked the driver to end, which it may not")
        elif not hmac.compare_digest(command.token, config.termination_token or command.token):
            self.context.record_error(f"client_id={command.client_id} asked the driver to end with a wrong token")
        else:
            self._on_terminate()

    def _start_gossip(self) -> None:
        """Exchange names with other drivers, if the configuration says so."""
        config, context = self.context.config, self.context
        if not config.resolver_name:
            return
        (interface,) = socket_names(config.resolver_interface, "resolver_interface")
        channel = context.network.open(interface)
        address = format_address(channel.local_address)
        neighbours, entries = (
            f"Resolver neighbors: bound {address}",
            f"Resolver cache entries: name={config.resolver_name}",
        )
        counters = GossipCounters(
            context.counters.allocate(TYPE_RESOLVER_NEIGHBOURS, neighbours, owner_id=-1),
            context.counters.allocate(TYPE_RESOLVER_CACHE, entries, owner_id=-1),
            context.counters,
        )
        context.names.gossip = Gossip(
            config.resolver_name,
            channel,
            socket_names(config.resolver_bootstrap, "resolver_bootstrap"),
            context.names.lookup,
            counters,
            context.events,
            lambda: context.system.add(INVALID_PACKETS),
        )

    # --- timers ---------------------------------------------------------------------------------------------------

    def on_timer(self, now_ns: int) -> None:
        """Run the timers: heartbeat, dead clients, lifetimes of all resources, blocked commands."""
        epoch_ms = self.context.clock.epoch_ms()
        self.context.events.expire()
        self.context.cnc.to_driver.consumer_heartbeat_ms = epoch_ms
        self.clients.forgive_step(now_ns, epoch_ms)
        for client in self.clients.take_dead(epoch_ms):
            self.publications.remove_client(client.client_id)
            self.subscriptions.remove_client(client.client_id)
            self.clients.remove_client(client.client_id)
            gone = [command for command in self.waiting if command.client_id == client.client_id]
            self.waiting = [command for command in self.waiting if command.client_id != client.client_id]
            for command in [*gone, *self.held.remove_client(client.client_id)]:
                self._forget(command)
        for error in self.context.logs.files.take_errors():
            self.context.record_error(error)
        if not self.has_timers_left:
            self._timers = self._timer_steps(now_ns, epoch_ms)
        self.continue_timers()
        self._check_commands(now_ns)
        self._report_refused()
        if now_ns >= self._reresolve_ns:
            self._reresolve_ns = now_ns + self.context.config.reresolution_interval_ns
            self._reresolve(now_ns)

    def _timer_steps(self, now_ns: int, epoch_ms: int) -> Iterator[None]:
        """Advance the lifetime of every stream, one a step."""
        yield from self.publications.timer_steps(now_ns, epoch_ms, self.subscriptions)
        yield from self.subscriptions.timer_steps(now_ns, epoch_ms)
        self.responses.on_time_event()

    def continue_timers(self) -> None:
        """Advance streams whose turn it is, as many as a cycle has time for."""
        clock = self.context.clock
        until_ns = clock.now() + TIMERS_NS
        self.has_timers_left = False  # also where a step raises: the next timer looks at all of them again
        for _ in self._timers:
            if clock.now() >= until_ns:
                self.has_timers_left = True
                return

    def _report_refused(self) -> None:
        """Report once for each limit that set-ups were refused, because neither publisher nor subscriber is told."""
        for index, names in BOUNDS_OF_SETUPS.items():
            if index not in self._reported and self.context.system.value(index):
                self._reported.add(index)
                bounds = ", ".join(f"{name}={getattr(self.context.config, name)}" for name in names)
                self.context.record_error(
                    TransportError(f"set-ups of publishers were refused: above {bounds}; `ordo stat` counts them")
                )

    def _reresolve(self, now_ns: int) -> None:
        self.publications.endpoints.reresolve(now_ns)
        self.subscriptions.reresolve(now_ns)

    def _check_commands(self, now_ns: int) -> None:
        """Unblock the command ring if a client died while it wrote a command, so that it does not block the others."""
        ring = self.context.cnc.to_driver
        head = ring.head_position
        if head != self._blocked_head or ring.tail_position <= head:
            self._blocked_head = head
            self._blocked_ns = now_ns
        elif now_ns - self._blocked_ns > self.context.config.client_liveness_timeout_ns:
            if ring.unblock():
                self.context.system.add(UNBLOCKED_COMMANDS)
            self._blocked_ns = now_ns

    def endpoint_work(self, now_ns: int) -> int:
        """Request SETUP from explicit control addresses; return the next deadline (ns).

        Forgets old PENDING_SETUP markers.
        """
        deadlines = [self.subscriptions.conduct_endpoints(now_ns)]
        if self.context.names.gossip is not None:
            deadlines.append(self.context.names.gossip.work(now_ns))
        return min(deadlines)

    def on_native_events(self) -> int:
        """Handle SETUP, RSP_SETUP and ERR frames; return how many images were asked for.

        SETUP frames ask for images, ERR frames are for clients.
        """
        self.publications.publish_errors()
        self.responses.on_response_setups(self.context.sender.take_response_setups())
        return self.subscriptions.images.on_setups()

    @property
    def has_images_left(self) -> bool:
        """Whether images whose logs are there wait for the next cycles."""
        return self.subscriptions.images.has_logs

    def close(self) -> None:
        """Close sockets and log."""
        self.publications.close()
        self.subscriptions.close()
